/* SPDX-License-Identifier: MIT */
/*
 * Functions are found wherever a process mapped their file, at the time asked for. What is expected
 * follows from the assembler sources and from where the set puts the files.
 */
#include "folder.h"

#include <ptah/session.h>
#include <ptah/symbol.h>
#include <ptah/trace_set.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCE(first, second)                                                                      \
	".text\n.globl " first ", " second "\n.type " first ",@function\n" first                   \
	": .skip 32,0x90\n.size " first ",.-" first "\n.type " second ",@function\n" second        \
	": .skip 96,0x90\n.size " second ",.-" second "\n"                                         \
	".section .note.GNU-stack,\"\",@progbits\n"

static int make_files(void **state)
{
	if (make_folder(state))
		return -1;
	write_text("a.s", SOURCE("red", "green"));
	write_text("b.s", SOURCE("blue", "white"));
	write_text("empty.pt", "x");
	return system("for f in a b; do cc -shared -nostdlib -Wl,--build-id=none,"
		      "-Ttext-segment=0,-z,noseparate-code,--section-start=.text=0x1000 "
		      "-o $f.so $f.s || exit; done") == 0
		   ? 0
		   : -1;
}

/* The text of a file in a process, from `tsc` on. */
static void add_code(struct ptah_trace_set *set, const char *name, int32_t pid, uint64_t address,
		     uint64_t tsc)
{
	char path[128];
	const struct ptah_trace_code code = {.size = sizeof(code),
					     .kind = PTAH_TRACE_CODE_RAW,
					     .file = {.path = path, .from = 0x1000, .to = 0x1080},
					     .address = address,
					     .pid = pid,
					     .tsc = tsc};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(ptah_trace_set_add_code(set, &code), 0);
}

static struct ptah_session *open_processes(void)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {.path = "empty.pt"}, .cpu = -1, .pid = 1, .tid = 1};
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	add_code(set, "a.so", 1, 0x10000, 0);
	add_code(set, "a.so", 2, 0x7000000, 0);
	/* Process 2 unloads a.so and loads b.so there. */
	add_code(set, "b.so", 2, 0x7000000, 500);
	config.set = set;
	if (ptah_session_open(NULL, &config, &s, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(set);
	return s;
}

static void expect(struct ptah_functions *functions, int32_t space, uint64_t address, uint64_t tsc,
		   const char *name, uint64_t low, uint64_t high)
{
	struct ptah_function_name shown;
	struct ptah_function f;

	assert_true(ptah_functions_find(functions, space, address, tsc, &f));
	assert_int_equal(f.low, low);
	assert_int_equal(f.high, high);
	assert_int_equal(f.start, low);
	assert_int_equal(f.flags, 0);
	assert_true(ptah_functions_name(functions, space, address, tsc, &shown));
	assert_string_equal(shown.name, name);
	assert_true(shown.named);
	assert_int_equal(shown.start, low);
	/* The same place in the file, wherever it is mapped. */
	assert_int_equal(shown.file_offset, 0x1000 + (low & 0xfff));
}

TEST(a_file_is_found_in_each_process_where_it_is_mapped)
{
	struct ptah_session *s = open_processes();
	struct ptah_functions *functions;

	assert_int_equal(ptah_functions_new(s, &functions), 0);
	expect(functions, 1, 0x10000, 0, "red", 0x10000, 0x10020);
	expect(functions, 1, 0x1007f, 0, "green", 0x10020, 0x10080);
	expect(functions, 1, 0x10020, 900, "green", 0x10020, 0x10080);
	expect(functions, 2, 0x7000011, 100, "red", 0x7000000, 0x7000020);
	ptah_functions_free(functions);
	ptah_session_close(s);
}

TEST(the_file_that_was_mapped_at_that_time_is_found)
{
	struct ptah_session *s = open_processes();
	struct ptah_functions *functions;

	assert_int_equal(ptah_functions_new(s, &functions), 0);
	expect(functions, 2, 0x7000030, 499, "green", 0x7000020, 0x7000080);
	expect(functions, 2, 0x7000030, 500, "white", 0x7000020, 0x7000080);
	expect(functions, 2, 0x7000030, 0, "white", 0x7000020, 0x7000080);
	ptah_functions_free(functions);
	ptah_session_close(s);
}

TEST(what_is_not_known_is_not_found)
{
	struct ptah_session *s = open_processes();
	struct ptah_functions *functions;
	struct ptah_function_name name;
	struct ptah_function f;

	assert_int_equal(ptah_functions_new(NULL, &functions), PTAH_E_INVAL);
	assert_int_equal(ptah_functions_new(s, &functions), 0);
	assert_false(ptah_functions_find(functions, 1, 0xffff, 0, &f));
	assert_false(ptah_functions_find(functions, 3, 0x10000, 0, &f));
	assert_false(ptah_functions_name(functions, 1, 0x10080, 0, &name));
	assert_null(name.name);
	assert_int_equal(name.start, 0x10080);
	ptah_functions_free(functions);
	ptah_session_close(s);
}

TEST_GROUP(make_files, remove_folder)
