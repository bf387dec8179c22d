/* SPDX-License-Identifier: MIT */
/* Folders of dumps: which files belong together, and which folders are none. */
#include "folder.h"

#include "traceset/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PSB "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82"

static void write_dump(const char *name)
{
	write_file(name, "\0\0" PSB, 18); /* a ring does not begin with a PSB */
}

struct expected {
	const char *name;
	int32_t cpu, tid;
};

/* `unused`: how the note about files that are not used begins; NULL: there is none. */
static void check(const struct expected *expected, size_t n, const char *unused)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(traceset_set_folder(set, folder), 0);
	assert_true(foreign_dumps.is(folder));
	assert_int_equal(foreign_dumps.read(folder, set, &why), 0);
	assert_int_equal(set->stream_count, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(strrchr(set->streams[i].file.path, '/') + 1, expected[i].name);
		assert_int_equal(set->streams[i].cpu, expected[i].cpu);
		assert_int_equal(set->streams[i].tid, expected[i].tid);
	}
	assert_int_equal(set->note_count, unused ? 2 : 1);
	if (unused)
		assert_int_equal(strncmp(set->notes[1], unused, strlen(unused)), 0);
	ptah_trace_set_free(set);
}

/* `hwt -r -w trace.out`: the number of a CPU or the index of a thread, which is not said. */
TEST_WITH(hwt, make_folder, remove_folder)
{
	static const struct expected expected[] = {
	    {"trace.out0", -1, -1}, {"trace.out2", -1, -1}, {"trace.out10", -1, -1}};

	write_dump("trace.out10");
	write_dump("trace.out0");
	write_file("trace.out2", "nothing yet", 11);
	write_file("libc.so.7", "\177ELF", 4);
	write_file("notes", PSB, 16);
	check(expected, 3, "not used: libc.so.7, notes: ");
}

TEST_WITH(cores, make_folder, remove_folder)
{
	static const struct expected cpus[] = {{"Core_3.bin", 3, -1}, {"Core_11.bin", 11, -1}};
	static const struct expected threads[] = {{"thr0.pt", -1, -1}, {"thr70000.pt", -1, 70000}};

	write_dump("Core_11.bin");
	write_dump("Core_3.bin");
	check(cpus, 2, NULL);
	assert_int_equal(remove_folder(NULL), 0);
	assert_int_equal(make_folder(NULL), 0);
	write_dump("thr0.pt");
	write_dump("thr70000.pt");
	check(threads, 2, NULL);
}

/* What lies beside the dumps is not used, and each kind of it is named. */
TEST_WITH(files_beside_the_dumps, make_folder, remove_folder)
{
	static const struct expected expected[] = {{"cpu0.pt", 0, -1}};
	char path[64];

	write_dump("cpu0.pt");
	write_file("cpu0.sideband", "records", 7);
	check(expected, 1, "not used: cpu0.sideband: ");
	write_file("pages.addr", "12345678", 8);
	write_file("pages.dump", "", 0);
	write_file("core1.bin", "no packets", 10); /* of the name of a dump */
	write_file(".hidden", "", 0);
	snprintf(path, sizeof(path), "%s/symbols", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	check(expected, 1, "not used: core1.bin, cpu0.sideband, pages.addr, pages.dump: ");
	write_file("vmlinux", "\177ELF", 4);
	write_file("x.pevent", "", 0);
	check(expected, 1,
	      "not used: core1.bin, cpu0.sideband, pages.addr, pages.dump and 2 more: ");
}

TEST_WITH(two_traces, make_folder, remove_folder)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	write_dump("a0");
	write_dump("b0");
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(traceset_set_folder(set, folder), 0);
	assert_int_equal(foreign_dumps.read(folder, set, &why), PTAH_E_FOREIGN);
	assert_non_null(strstr(why.text, "a0 and b0"));
	ptah_trace_set_free(set);
}

TEST_WITH(no_dumps, make_folder, remove_folder)
{
	assert_false(foreign_dumps.is(folder));
	assert_false(foreign_dumps.is("/nowhere"));
	assert_false(foreign_dumps.is("/proc/self/exe"));
	write_file("libc.so.6", "\177ELF", 4);
	write_file("cpu0.pt", "no packets", 10);
	write_dump("trace");			/* no number */
	write_dump("trace1234567890123456.pt"); /* no number of a CPU */
	assert_false(foreign_dumps.is(folder));
	write_dump("cpu1.pt");
	assert_true(foreign_dumps.is(folder));
	write_file("data", "PERFILE2", 8); /* perf record --threads */
	assert_false(foreign_dumps.is(folder));
}
