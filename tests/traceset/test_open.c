/* SPDX-License-Identifier: MIT */
/* Which paths are trace sets, and that a session opens them by their path. */
#include "folder.h"

#include "model/generator.h"
#include "traceset/set.h"

#include <ptah/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(what_is_a_set)
{
	static const char text[] = "ptah-trace 1\n";

	assert_int_equal(mkdir("with", 0777), 0);
	assert_int_equal(mkdir("without", 0777), 0);
	write_file("with/ptah.trace", text, sizeof(text) - 1);
	write_file("any.name", text, sizeof(text) - 1);
	write_file("other", "ptah-trac", 9);
	assert_true(traceset_is("with") && traceset_is("with/ptah.trace") &&
		    traceset_is("any.name"));
	assert_false(traceset_is("without"));
	assert_false(traceset_is("other"));
	assert_false(traceset_is("nothing"));
	assert_false(traceset_is("-"));
	assert_false(traceset_is("/dev/null"));
}

TEST(refusals)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_open("nothing", &set, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "nothing: cannot open: No such file"));
	assert_int_equal(ptah_trace_set_open("without", &set, &why), PTAH_E_BAD_MAGIC);
	assert_non_null(strstr(why.text, "without: neither a ptah.trace"));
	assert_int_equal(ptah_trace_set_open("other", &set, NULL), PTAH_E_BAD_MAGIC);
	write_file("bad", "ptah-trace 1\nx\n", 15);
	assert_int_equal(ptah_trace_set_open("bad", &set, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "bad:2: "));
	write_file("ptah.trace", "# first\nstream x\n", 17);
	assert_int_equal(ptah_trace_set_open("ptah.trace", &set, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "ptah.trace:2: the first line must be"));
	assert_int_equal(mkdir("odd", 0777), 0);
	assert_int_equal(mkdir("odd/ptah.trace", 0777), 0);
	assert_int_equal(ptah_trace_set_open("odd", &set, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "odd/ptah.trace: not a regular file"));
}

/* ptah_session_open() takes a file of any name and a folder, from wherever they are named. */
TEST(sessions_open_them)
{
	static const uint8_t code[] = {0x90, 0x90, 0xff, 0xe0}; /* nop; nop; jmp rax */
	static const char text[] = "ptah-trace 1\nstream t.pt cpu=2\nraw c address=0x1000\n";
	static const char *const paths[] = {"set", "set/", "set/ptah.trace", "./set/../set",
					    "link"};
	struct ptah_generator g;
	uint8_t trace[256];

	generator_init(&g, trace, false, false);
	generator_psb(&g, 100, 20, false, 0);
	generator_enable(&g, 0x1000);
	generator_tip(&g, 0x1000);
	generator_tip(&g, 0x1000);
	generator_async_disable(&g, 0x1000);
	assert_int_equal(mkdir("set", 0777), 0);
	write_file("set/t.pt", trace, (size_t)(g.out - trace));
	write_file("set/c", code, sizeof(code));
	write_file("set/ptah.trace", text, sizeof(text) - 1);
	assert_int_equal(symlink("set/ptah.trace", "link"), 0);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct ptah_message why = {""};
		struct ptah_reader *stream;
		struct ptah_session *s;
		struct ptah_item items[32];
		unsigned insns = 0;
		int n;

		if (ptah_session_open(paths[i], NULL, &s, &why) < 0)
			fail_msg("%s", why.text);
		assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
		while ((n = ptah_reader_read(stream, items, 32)) > 0)
			for (int k = 0; k < n; k++)
				insns += items[k].type == PTAH_ITEM_BLOCK ? items[k].ninsn : 0;
		assert_int_equal(insns, 6);
		ptah_reader_free(stream);
		ptah_session_close(s);
	}
}

TEST_GROUP(make_folder, remove_folder)
