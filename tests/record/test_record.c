/* SPDX-License-Identifier: MIT */
/* The recorder as a library: bad configurations, and what a result tells. */
#include "test.h"

#include <ptah/record.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-record-XXXXXX";

static void bad_configurations(void **state)
{
	char *none[] = {NULL}, *command[] = {"true", NULL};
	struct ptah_record_config config = {.size = sizeof(config), .output = "x.data"};
	struct ptah_message why = {""};

	(void)state;
	assert_int_equal(ptah_record(NULL, NULL, &why), PTAH_E_INVAL);
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.argv = none;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.argv = command;
	config.size = 0;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.size = sizeof(config);
	config.psb_period = 1024;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.psb_period = 256u << 20;
	assert_int_equal(ptah_record(&config, NULL, &why), PTAH_E_INVAL);
	config.psb_period = 0;
	config.qemu = "/nonexistent";
	assert_int_equal(ptah_record(&config, NULL, NULL), PTAH_E_MISSING);
	assert_int_equal(access("x.data", F_OK), -1);
}

/* The command's status, its threads, and truth that equals the result's instructions. */
static void a_recording(void **state)
{
	char *command[] = {"sh", "-c", "exit 7", NULL};
	struct ptah_record_config config = {
	    .size = sizeof(config), .output = "x.data", .argv = command};
	struct ptah_record_status result;
	struct ptah_message why = {""};
	struct ptah_session *session;
	struct ptah_stream_info info;
	struct ptah_verify verify;
	int status = ptah_record(&config, &result, &why);

	(void)state;
	if (status == PTAH_E_MISSING) { /* QEMU, or the plugin */
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	assert_int_equal(status, 0);
	assert_true(WIFEXITED(result.wait_status));
	assert_int_equal(WEXITSTATUS(result.wait_status), 7);
	assert_int_equal(result.threads, 1);
	assert_int_equal(result.notes, 0);
	assert_int_equal(ptah_session_open("x.data", NULL, &session, &why), 0);
	assert_int_equal(ptah_session_streams(session), 1);
	assert_int_equal(ptah_session_stream_info(session, 0, &info), 0);
	assert_true(info.has_truth);
	assert_int_equal(info.truth.instructions, result.instructions);
	/* Each piece is padded to 8 bytes, as perf wants it; a slow drain makes a few of them. */
	assert_in_range(info.bytes, result.trace_bytes, result.trace_bytes + 8 * 7);
	assert_string_equal(info.comm, "sh");
	assert_int_equal(ptah_session_verify(session, 0, NULL, &verify), 0);
	assert_true(verify.equal);
	ptah_session_close(session);
}

static int enter_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	unlink("x.data");
	return chdir("/") || rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_configurations),
	    cmocka_unit_test(a_recording),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
