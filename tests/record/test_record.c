/* SPDX-License-Identifier: MIT */
/* The recorder as a library: bad configurations, and what a result tells. */
#include "test.h"

#include <ptah/record.h>

#include <stdio.h>
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

/* A file as perf makes one through a pipe, from what a sink is given. */
struct pipe_file {
	FILE *f;
	uint64_t streams[8]; /* bytes of each so far */
	uint64_t trace, records;
	uint64_t refuse_at; /* the piece with this number is refused; 0: none */
	uint64_t pieces;
};

static int take_piece(void *context, const struct ptah_record_piece *piece)
{
	struct pipe_file *p = context;
	const uint32_t padding = -(uint32_t)piece->size & 7;

	if (++p->pieces == p->refuse_at)
		return PTAH_E_NOSPACE;
	if (piece->kind == PTAH_RECORD_PIECE_TRACE) {
		/* PERF_RECORD_AUXTRACE: type, misc and size; size, offset, reference; index, tid,
		 * cpu, reserved. */
		uint64_t head[6] = {71 | UINT64_C(48) << 48,
				    piece->size + padding,
				    piece->offset,
				    1,
				    piece->stream | (uint64_t)(uint32_t)piece->tid << 32,
				    (uint32_t)piece->cpu};

		assert_true(piece->stream < 8);
		assert_int_equal(piece->offset, p->streams[piece->stream]);
		p->streams[piece->stream] += piece->size;
		p->trace += piece->size;
		fwrite(head, sizeof(head), 1, p->f);
	} else {
		uint16_t size;

		assert_int_equal(piece->kind, PTAH_RECORD_PIECE_RECORD);
		assert_true(piece->size >= 8);
		memcpy(&size, (const char *)piece->bytes + 6, 2);
		assert_int_equal(piece->size, size);
		p->records++;
	}
	fwrite(piece->bytes, piece->size, 1, p->f);
	fwrite("\0\0\0\0\0\0\0", padding, 1, p->f);
	return 0;
}

static int record_to(struct pipe_file *p, struct ptah_record_status *result,
		     struct ptah_message *why)
{
	char *command[] = {"true", NULL};
	const struct ptah_record_sink sink = {take_piece, p};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .output = "nothing.data",
						  .argv = command,
						  .recorder = PTAH_RECORDER_QEMU,
						  .sink = &sink};
	const uint64_t size = 16;

	p->f = fopen("x.pipe", "w");
	assert_non_null(p->f);
	fwrite("PERFILE2", 8, 1, p->f);
	fwrite(&size, 8, 1, p->f);
	return ptah_record(&config, result, why);
}

static unsigned long long number_from(const char *command)
{
	unsigned long long n = 0;
	FILE *f = popen(command, "r");

	assert_non_null(f);
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	pclose(f);
	return n;
}

/* Pieces instead of a file: perf makes of them what ran. */
static void a_sink(void **state)
{
	struct pipe_file p = {.f = NULL};
	struct ptah_record_status result;
	struct ptah_message why = {""};
	int status = record_to(&p, &result, &why);

	(void)state;
	if (status == PTAH_E_MISSING) {
		fclose(p.f);
		print_message("SKIP: %s\n", why.text);
		skip();
	}
	assert_int_equal(status, 0);
	assert_int_equal(fclose(p.f), 0);
	assert_int_equal(p.trace, result.trace_bytes);
	assert_true(p.records > 4); /* attribute, AUXTRACE_INFO, name, start, a map, end */
	assert_int_equal(access("nothing.data", F_OK), -1);
	if (system("command -v perf >/dev/null") == 0)
		assert_int_equal(
		    number_from(
			"cat x.pipe | perf script -i - --itrace=i0ns -F ip 2>/dev/null | wc -l"),
		    result.instructions);

	p = (struct pipe_file){.refuse_at = 3};
	assert_int_equal(record_to(&p, &result, &why), PTAH_E_NOSPACE);
	assert_non_null(strstr(why.text, "refused"));
	assert_int_equal(p.pieces, 3);
	fclose(p.f);
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
	unlink("x.pipe");
	return chdir("/") || rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_configurations),
	    cmocka_unit_test(a_recording),
	    cmocka_unit_test(a_sink),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
