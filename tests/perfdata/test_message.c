/* SPDX-License-Identifier: MIT */
/*
 * Every function of the public headers that has a `why` fills it in whenever it fails: examples
 * and the command print it without looking. Those that are missing here are found in the headers.
 */
#include "test.h"
#include "counts/counts_internal.h"

#include <ptah/ptah.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS "include/ptah"
#define THIS	"tests/perfdata/test_message.c"

/* What an uninitialised variable may hold. */
static struct ptah_message why;

static void spoil(void)
{
	memset(&why, 'x', sizeof(why));
}

static void check_why(int line, int status)
{
	size_t n = strnlen(why.text, sizeof(why.text));

	if (status >= 0 || !n || n == sizeof(why.text) || why.text[0] == 'x')
		fail_msg("line %d: status %d, why \"%.40s\"", line, status, why.text);
}

#define FAILS(call) (spoil(), check_why(__LINE__, (call)))

TEST(null_arguments_are_explained)
{
	struct ptah_session *session;
	struct ptah_counts *counts;
	struct ptah_shard *shard;

	FAILS(counts_load(NULL, 0, &counts, &why));
	FAILS(ptah_counts_open(NULL, &counts, &why));
	FAILS(ptah_watch_parse(NULL, NULL, &why));
	FAILS(ptah_live_file_new(NULL, NULL, &why));
	FAILS(ptah_live_keep_save(NULL, NULL, NULL, &why));
	FAILS(ptah_recorder_new(NULL, NULL, NULL, &why));
	FAILS(ptah_record(NULL, NULL, &why));
	FAILS(ptah_record_parse_event(NULL, NULL, &why));
	FAILS(ptah_recording_new(NULL, NULL, &why));
	FAILS(ptah_session_open(NULL, NULL, &session, &why));
	FAILS(ptah_session_open("perf.data", NULL, NULL, &why));
	FAILS(ptah_shard_plan_new(NULL, 0, 0, NULL, NULL, &why));
	FAILS(ptah_shard_count(NULL, 0, NULL, &shard, &why));
	FAILS(ptah_shard_join(NULL, NULL, false, &why));
	FAILS(ptah_shard_join(NULL, NULL, true, &why));
	FAILS(ptah_shard_finish(NULL, &counts, &why));
	FAILS(ptah_shard_load(NULL, 0, &shard, &why));
	FAILS(ptah_shard_open(NULL, &shard, &why));
	FAILS(ptah_trace_set_open(NULL, NULL, &why));
	FAILS(ptah_trace_set_save(NULL, NULL, &why));
	FAILS(ptah_vm_command(NULL, NULL, &why));
}

TEST(a_config_without_its_size_is_explained)
{
	struct ptah_recording_config recording = {0};
	struct ptah_session_config session = {0};
	struct ptah_record_config record = {0};
	struct ptah_recording *made;
	struct ptah_recorder *r;
	struct ptah_vm_config vm = {0};
	struct ptah_session *s;
	struct ptah_trace_set *set;
	char **command;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	FAILS(ptah_session_open("/dev/null", &session, &s, &why));
	assert_non_null(strstr(why.text, "size"));
	FAILS(ptah_recorder_new(&record, &r, NULL, &why));
	FAILS(ptah_record(&record, NULL, &why));
	FAILS(ptah_recording_new(&recording, &made, &why));
	FAILS(ptah_vm_command(&vm, &command, &why));
	ptah_trace_set_free(set);
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	if (!file)
		fail_msg("%s cannot be read", path);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

/* Each declaration that ends in "*why);" begins with a name that this file calls. */
static unsigned count_functions(const char *header, const char *tests)
{
	unsigned n = 0;

	for (const char *at = header; (at = strstr(at, "PTAH_API int ptah_")) != NULL;) {
		const char *name = at + strlen("PTAH_API int "), *end = strstr(at, ");");
		char call[80];

		at = name;
		if (!end || strncmp(end - strlen("*why"), "*why", strlen("*why")) != 0)
			continue;
		snprintf(call, sizeof(call), "FAILS(%.*s(", (int)strcspn(name, "("), name);
		if (!strstr(tests, call))
			fail_msg("%s: no test calls it", call);
		n++;
	}
	return n;
}

TEST(every_function_with_a_why_is_here)
{
	static const char *const headers[] = {"counts",	   "live",    "record",
					      "recording", "session", "trace_set"};
	const char *source = getenv("PTAH_SOURCE");
	char path[4096], *tests;
	unsigned n = 0;

	if (!source)
		skip();
	snprintf(path, sizeof(path), "%s/" THIS, source);
	tests = read_text(path);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char *header;

		snprintf(path, sizeof(path), "%s/" HEADERS "/%s.h", source, headers[i]);
		header = read_text(path);
		n += count_functions(header, tests);
		free(header);
	}
	free(tests);
	assert_in_range(n, 18, 100);
}
