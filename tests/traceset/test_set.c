/* SPDX-License-Identifier: MIT */
/* What a trace set takes and refuses, and that it keeps copies. */
#include "test.h"

#include "traceset/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ptah_trace_set *new_set(void)
{
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	return set;
}

/* The path below the working folder. */
static const char *here(const char *path)
{
	static char full[4096];
	char folder[2048];

	assert_non_null(getcwd(folder, sizeof(folder)));
	snprintf(full, sizeof(full), "%s/%s", folder, path);
	return full;
}

TEST(paths_are_absolute_copies)
{
	char path[] = "./sub//x.pt";
	struct ptah_trace_stream stream = {.size = sizeof(stream), .file = {.path = path}};
	struct ptah_trace_set *set = new_set();

	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	memset(path, 'y', sizeof(path) - 1);
	assert_string_equal(set->streams[0].file.path, here("sub//x.pt"));
	assert_string_equal(set->streams[1].file.path, here("sub//x.pt"));
	stream.file.path = "/a/b";
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_string_equal(set->streams[2].file.path, "/a/b");
	assert_int_equal(traceset_set_folder(set, "/f"), 0);
	stream.file.path = "c";
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_string_equal(set->streams[3].file.path, "/f/c");
	assert_int_equal(traceset_set_folder(set, "/"), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_string_equal(set->streams[4].file.path, "/c");
	ptah_trace_set_free(set);
}

/* 0 is the default: no process, no thread, any address space. */
TEST(zero_means_unknown)
{
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = "/x"}, .cpu = -7, .lost = 1};
	const struct ptah_trace_code code = {.size = sizeof(code), .file = {.path = "/x"}};
	struct ptah_trace_set *set = new_set();

	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_true(set->streams[0].cpu == -1 && set->streams[0].pid == -1 &&
		    set->streams[0].tid == -1 && set->streams[0].gap);
	assert_int_equal(ptah_trace_set_add_code(set, &code), 0);
	assert_true(set->code[0].pid == -1 && set->code[0].space.cr3 == PTAH_SPACE_ANY &&
		    set->code[0].space.vmcs == PTAH_SPACE_ANY);
	ptah_trace_set_free(set);
}

TEST(streams_that_are_refused)
{
	static const struct ptah_trace_stream bad[] = {
	    {.size = 8, .file = {.path = "/x"}},
	    {.size = sizeof(bad[0])},
	    {.size = sizeof(bad[0]), .file = {.path = ""}},
	    {.size = sizeof(bad[0]), .file = {"/x", 5, 5}},
	    {.size = sizeof(bad[0]), .file = {"/x", 5, 4}},
	};
	struct ptah_trace_set *set = new_set();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ptah_trace_set_add_stream(set, &bad[i]), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_add_stream(set, NULL), PTAH_E_INVAL);
	assert_int_equal(set->stream_count, 0);
	ptah_trace_set_free(set);
}

TEST(code_that_is_refused)
{
	struct ptah_trace_set *set = new_set();
	const struct ptah_trace_code good = {.size = sizeof(good), .file = {.path = "/x"}};
	struct ptah_trace_code bad[8];

	for (size_t i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].kind = PTAH_TRACE_CODE_MAX;
	bad[1].pid = 5; /* code of a process and of an address space */
	bad[1].space.cr3 = 0x1000;
	bad[2].kind = PTAH_TRACE_CODE_ELF; /* a part of an ELF file */
	bad[2].file.from = 1;
	bad[3].kind = PTAH_TRACE_CODE_PAGES; /* pages elsewhere than in PREFIX.addr */
	bad[3].address = 1;
	bad[4].file.to = 0x1001; /* beyond the last address */
	bad[4].address = UINT64_MAX - 0xfff;
	bad[5].build_id_size = sizeof(bad[5].build_id) + 1;
	bad[6].size = 0;
	bad[7].file.path = NULL;
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(ptah_trace_set_add_code(set, &bad[i]), PTAH_E_INVAL);
	bad[4].file.to = 0x1000;
	assert_int_equal(ptah_trace_set_add_code(set, &bad[4]), 0);
	ptah_trace_set_free(set);
}

TEST(other_entries_that_are_refused)
{
	struct ptah_trace_system system = {.size = sizeof(system), .kcore = ""};
	struct ptah_trace_thread thread = {.size = sizeof(thread), .tid = 0};
	struct ptah_trace_switch change = {.size = sizeof(change), .cpu = -1};
	struct ptah_trace_processor processor = {.size = sizeof(processor), .has_clock = true};
	struct ptah_trace_event event = {.size = 1};
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband)};
	struct ptah_trace_set *set = new_set();

	assert_int_equal(ptah_trace_set_add_thread(set, &thread), PTAH_E_INVAL);
	thread.tid = 1;
	memset(thread.comm, 'x', sizeof(thread.comm)); /* without its end */
	assert_int_equal(ptah_trace_set_add_thread(set, &thread), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_add_switch(set, &change), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_add_event(set, &event), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_add_sideband(set, &sideband), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_processor(set, &processor), PTAH_E_INVAL); /* mult 0 */
	processor.time_mult = 1;
	processor.time_shift = 64;
	assert_int_equal(ptah_trace_set_processor(set, &processor), PTAH_E_INVAL);
	processor.has_clock = false;
	assert_int_equal(ptah_trace_set_processor(set, &processor), 0);
	processor.trace.ranges[3] = (struct ptah_range){5, 4, PTAH_RANGE_STOP};
	assert_int_equal(ptah_trace_set_processor(set, &processor), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_system(set, &system), PTAH_E_INVAL);
	assert_int_equal(trace_set_note(set, ""), PTAH_E_INVAL);
	assert_int_equal(trace_set_note(NULL, "x"), PTAH_E_INVAL);
	ptah_trace_set_free(set);
	ptah_trace_set_free(NULL);
}
