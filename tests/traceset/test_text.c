/* SPDX-License-Identifier: MIT */
/* The text of a trace set: what each line means, what is wrong with others, and the way back. */
#include "test.h"

#include "traceset/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a text as that of the file "f" in the folder /d. */
static int parse(const char *text, struct ptah_trace_set **set, struct ptah_message *why)
{
	char *copy = strdup(text);
	int status;

	assert_non_null(copy);
	assert_int_equal(ptah_trace_set_new(set), 0);
	assert_int_equal(traceset_set_folder(*set, "/d"), 0);
	status = traceset_parse_text("f", copy, strlen(copy), *set, why);
	free(copy);
	return status;
}

static struct ptah_trace_set *parsed(const char *text)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	if (parse(text, &set, &why) < 0)
		fail_msg("%s", why.text);
	return set;
}

static char *written(const struct ptah_trace_set *set, const char *folder)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	traceset_write_text(set, folder, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

TEST(every_line)
{
	struct ptah_trace_set *set =
	    parsed("ptah-trace 1\n"
		   "# a comment, and an empty line\n"
		   "\n"
		   "processor 6/0x9e/10\r\n"
		   "timing mtc-period=3 cyc-threshold=1 tsc-n=168 tsc-d=2 nominal-ratio=24\n"
		   "clock shift=10 mult=31 zero=18446744073709551615\n"
		   "traced kernel no-tnt no-retcomp event-trace\n"
		   "filter from=0x401000 to=0x402000\n"
		   "stop from=0xffffffff80000000 to=0\n"
		   "kernel kcore=kc kallsyms=/proc/kallsyms\n"
		   "stream cpu0.pt cpu=0 from=0x10 to=32 pid=5 tid=6 lost=7 # the rest is unknown\n"
		   "root ./below\n"
		   "vdso 64=v64 x32=/x32\n"
		   "filter-text \"filter 16/0x20@x/y, stop 0x1/0x2@/z filter 0x3/0x4\"\n"
		   "stream cpu0.pt\tcpu=0 gap\n"
		   "stream cpu0.pt separate cpu=0\n"
		   "raw code.bin address=0x1000 from=1 to=2 cr3=0x1aa000 vmcs=0x2000\n"
		   "elf /bin/x base=0x400000 pid=5 tsc=99 recorded=\"/usr/bin/x y\" "
		   "build-id=00aB12\n"
		   "pages dump\n"
		   "thread tid=6 pid=5 comm=\"a \\\"b\\\"\"\n"
		   "switch tsc=100 cpu=3 pid=5 tid=6\n"
		   "switch tsc=200 cpu=3\n"
		   "sideband records sample-type=0x3 cpu=1 pid=2 tid=3 tsc-offset=-4 from=8 to=16\n"
		   "sideband records primary\n"
		   "event id=7 sample-type=0x10087\n"
		   "note \"one # two\\x09three\\n\"");
	const struct ptah_trace_processor *p = &set->processor;

	assert_true(p->cpu.family == 6 && p->cpu.model == 0x9e && p->cpu.stepping == 10);
	assert_true(p->trace.mtc_period == 3 && p->trace.cyc_threshold == 1 && p->tsc_n == 168 &&
		    p->tsc_d == 2 && p->nominal_ratio == 24);
	assert_true(p->has_clock && p->time_shift == 10 && p->time_mult == 31 &&
		    p->time_zero == UINT64_MAX);
	assert_true(p->trace.os && p->trace.no_tnt && p->trace.no_retcomp && p->trace.event_trace);
	assert_true(p->trace.ranges[0].first == 0x401000 && p->trace.ranges[0].last == 0x401fff &&
		    p->trace.ranges[0].mode == PTAH_RANGE_FILTER);
	assert_true(p->trace.ranges[1].last == UINT64_MAX &&
		    p->trace.ranges[1].mode == PTAH_RANGE_STOP);
	assert_string_equal(set->kcore, "/d/kc");
	assert_string_equal(set->kallsyms, "/proc/kallsyms");
	assert_string_equal(set->root, "/d/below");
	assert_string_equal(set->vdso[PTAH_TRACE_VDSO_64], "/d/v64");
	assert_string_equal(set->vdso[PTAH_TRACE_VDSO_X32], "/x32");
	assert_null(set->vdso[PTAH_TRACE_VDSO_32]);
	assert_string_equal(set->filter, "filter 0x10/0x20@/d/x/y,stop 0x1/0x2@/z,filter 0x3/0x4");
	assert_true(set->sideband[1].primary && !set->sideband[0].primary);
	assert_int_equal(set->stream_count, 3);
	assert_string_equal(set->streams[0].file.path, "/d/cpu0.pt");
	assert_true(set->streams[0].file.from == 16 && set->streams[0].file.to == 32 &&
		    set->streams[0].cpu == 0 && set->streams[0].pid == 5 &&
		    set->streams[0].tid == 6 && set->streams[0].lost == 7);
	assert_true(set->streams[1].gap && set->streams[1].pid == -1 && !set->streams[1].lost);
	assert_true(set->streams[2].separate && !set->streams[2].gap && !set->streams[1].separate);
	assert_int_equal(set->code_count, 3);
	assert_true(set->code[0].kind == PTAH_TRACE_CODE_RAW && set->code[0].address == 0x1000 &&
		    set->code[0].file.from == 1 && set->code[0].file.to == 2 &&
		    set->code[0].space.cr3 == 0x1aa000 && set->code[0].space.vmcs == 0x2000 &&
		    set->code[0].pid == -1);
	assert_true(set->code[1].kind == PTAH_TRACE_CODE_ELF && set->code[1].address == 0x400000 &&
		    set->code[1].pid == 5 && set->code[1].tsc == 99);
	assert_string_equal(set->code[1].recorded_path, "/usr/bin/x y");
	assert_int_equal(set->code[1].build_id_size, 3);
	assert_memory_equal(set->code[1].build_id, "\x00\xab\x12", 3);
	assert_true(set->code[2].kind == PTAH_TRACE_CODE_PAGES &&
		    set->code[2].space.cr3 == PTAH_SPACE_ANY);
	assert_true(set->threads[0].tid == 6 && set->threads[0].pid == 5);
	assert_string_equal(set->threads[0].comm, "a \"b\"");
	assert_true(set->switches[0].tsc == 100 && set->switches[0].cpu == 3 &&
		    set->switches[0].pid == 5 && set->switches[0].tid == 6);
	assert_true(set->switches[1].pid == -1 && set->switches[1].tid == -1);
	assert_string_equal(set->sideband[0].file.path, "/d/records");
	assert_true(set->sideband[0].sample_type == 3 && set->sideband[0].cpu == 1 &&
		    set->sideband[0].pid == 2 && set->sideband[0].tid == 3 &&
		    set->sideband[0].tsc_offset == -4 && set->sideband[0].file.from == 8 &&
		    set->sideband[0].file.to == 16);
	assert_true(set->events[0].id == 7 && set->events[0].sample_type == 0x10087);
	assert_string_equal(set->notes[0], "one # two\tthree\n");
	ptah_trace_set_free(set);
}

/* Names of files with whatever a name may have. */
TEST(quoting)
{
	struct ptah_trace_set *set = parsed("ptah-trace 1\n"
					    "stream \"a b#c=d\\\\e\\\"f\\x01\\xff\"\n"
					    "stream \"cpu=3\" cpu=4\n"
					    "stream a\" \"b\n"
					    "stream -x\n"
					    "stream \"\xc3\xa4\"\n"
					    "stream \xc3\xa4\n");
	char *text;

	assert_string_equal(set->streams[0].file.path, "/d/a b#c=d\\e\"f\x01\xff");
	assert_string_equal(set->streams[1].file.path, "/d/cpu=3");
	assert_int_equal(set->streams[1].cpu, 4);
	assert_string_equal(set->streams[2].file.path, "/d/a b");
	assert_string_equal(set->streams[3].file.path, "/d/-x");
	assert_string_equal(set->streams[4].file.path, set->streams[5].file.path);
	text = written(set, "/d");
	assert_string_equal(text, "ptah-trace 1\n"
				  "stream \"a b#c=d\\\\e\\\"f\\x01\xff\"\n"
				  "stream \"cpu=3\" cpu=4\n"
				  "stream \"a b\"\n"
				  "stream -x\n"
				  "stream \"\xc3\xa4\"\n"
				  "stream \"\xc3\xa4\"\n");
	free(text);
	ptah_trace_set_free(set);
}

/* Each text has one mistake: its line and what would be right are reported. */
TEST(mistakes)
{
	static const struct {
		const char *text, *message;
	} wrong[] = {
	    {"", "f:0: the first line must be \"ptah-trace 1\""},
	    {"stream x\n", "f:1: the first line must be \"ptah-trace 1\""},
	    {"ptah-trace 2\n", "f:1: version 2 of the format"},
	    {"ptah-trace\n", "f:1: ptah-trace needs a number"},
	    {"ptah-trace 1\nptah-trace 1\n", "f:2: a second \"ptah-trace\""},
	    {"ptah-trace 1\n\nstrem x\n", "f:3: \"strem\" begins no line; these do: processor"},
	    {"ptah-trace 1\nstream\n", "f:2: stream needs the path of a file"},
	    {"ptah-trace 1\nstream \"\"\n", "f:2: the text is empty"},
	    {"ptah-trace 1\nstream x cpu=\n", "f:2: cpu=: a number up to 2147483647"},
	    {"ptah-trace 1\nstream x cpu=2147483648\n", "f:2: cpu=2147483648: a number up to"},
	    {"ptah-trace 1\nstream x cpu=-2\n", "f:2: cpu=-2: a number"},
	    {"ptah-trace 1\nstream x cpu=1 cpu=1\n", "f:2: cpu= stands there twice"},
	    {"ptah-trace 1\nstream x cup=1\n",
	     "f:2: \"cup=\" is not a word of stream, which takes from=, to=, cpu="},
	    {"ptah-trace 1\nstream x y\n", "f:2: \"y\" is not a word of stream"},
	    {"ptah-trace 1\nstream x gap=1\n", "f:2: \"gap=\" is not a word of stream"},
	    {"ptah-trace 1\nstream x lost=0x10000000000000000\n", "f:2: lost=0x1"},
	    {"ptah-trace 1\nstream x lost=18446744073709551616\n",
	     "f:2: lost=18446744073709551616"},
	    {"ptah-trace 1\nstream x from=2 to=1\n",
	     "f:2: stream: its bytes end before they begin"},
	    {"ptah-trace 1\nstream \"x\n", "f:2: a quotation mark (\") is missing"},
	    {"ptah-trace 1\nstream \"x\\y\"\n", "f:2: after a backslash"},
	    {"ptah-trace 1\nstream \"x\\x00\"\n", "f:2: after a backslash"},
	    {"ptah-trace 1\nstream \"x\\x1\"\n", "f:2: after a backslash"},
	    {"ptah-trace 1\nstream \"x\\", "f:2: after a backslash"},
	    {"ptah-trace 1\nraw x\n", "f:2: raw needs address="},
	    {"ptah-trace 1\nraw x address=1 cr3=1 pid=1\n", "f:2: raw: its bytes"},
	    {"ptah-trace 1\nelf x from=1\n", "f:2: \"from=\" is not a word of elf"},
	    {"ptah-trace 1\nelf x build-id=123\n", "f:2: build-id=123"},
	    {"ptah-trace 1\nelf x build-id=1x\n", "f:2: build-id=1x"},
	    {"ptah-trace 1\nswitch tsc=1\n", "f:2: switch needs cpu="},
	    {"ptah-trace 1\nthread tid=0\n", "f:2: thread: a thread's tid is above 0"},
	    {"ptah-trace 1\nprocessor x\n", "f:2: x: it takes FAMILY/MODEL"},
	    {"ptah-trace 1\nprocessor\n", "f:2: processor needs a processor"},
	    {"ptah-trace 1\nclock mult=0\n", "f:2: clock: a clock has a shift"},
	    {"ptah-trace 1\nclock mult=4294967296\n", "f:2: mult=4294967296"},
	    {"ptah-trace 1\nfilter from=2 to=2\n", "f:2: filter: the range ends"},
	    {"ptah-trace 1\nfilter from=1 to=2\nfilter from=1 to=2\nstop from=1 to=2\n"
	     "stop from=1 to=2\nstop from=1 to=2\n",
	     "f:6: more than 4 ranges"},
	    {"ptah-trace 1\nfilter-text \"filter main@x\"\n", "f:2: filter-text: up to four"},
	    {"ptah-trace 1\nfilter-text \"filter 1/0\"\n", "f:2: filter-text: up to four"},
	    {"ptah-trace 1\nfilter-text \" , \"\n", "f:2: filter-text: up to four"},
	    {"ptah-trace 1\nfilter-text \"stop 1/2,stop 1/2,stop 1/2,stop 1/2,stop 1/2\"\n",
	     "f:2: filter-text: up to four"},
	    {"ptah-trace 1\nvdso 16=x\n", "f:2: \"16=\" is not a word of vdso"},
	    {"ptah-trace 1\nnote a b\n", "f:2: note takes one word"},
	    {"ptah-trace 1\nsideband x tsc-offset=x\n", "f:2: tsc-offset=x: a number"},
	    {"ptah-trace 1\ntiming mtc-period=64\n", "f:2: timing: mtc-period and cyc-threshold"},
	    {"ptah-trace 1\ntiming cyc-threshold=16\n", "f:2: timing: mtc-period"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ptah_message why = {""};
		struct ptah_trace_set *set;

		assert_int_equal(parse(wrong[i].text, &set, &why), PTAH_E_BAD_FILE);
		if (strncmp(why.text, wrong[i].message, strlen(wrong[i].message)) != 0)
			fail_msg("\"%s\" does not begin \"%s\"", wrong[i].message, why.text);
		ptah_trace_set_free(set);
	}
}

TEST(bytes_that_are_no_text)
{
	char text[] = "ptah-trace 1\nstream x\0y\n";
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(traceset_parse_text("f", text, sizeof(text) - 1, set, &why),
			 PTAH_E_BAD_FILE);
	assert_string_equal(why.text, "f:2: a byte 0, which is no text");
	ptah_trace_set_free(set);
}

/* What was added by calls is the same after it was saved and opened, in another folder, too. */
TEST(saved_and_opened)
{
	char from[] = "/tmp/ptah-set-XXXXXX", to[64], path[128], command[256];
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file = {path, 1, 2}, .cpu = -1, .pid = 5, .tid = 6, .lost = 7};
	const struct ptah_trace_code code = {.size = sizeof(code),
					     .kind = PTAH_TRACE_CODE_ELF,
					     .file = {.path = "/bin/x"},
					     .address = 0x1000,
					     .space = {PTAH_SPACE_ANY, 0x3000},
					     .build_id = {1, 2, 3},
					     .build_id_size = 20};
	const struct ptah_trace_processor processor = {
	    .size = sizeof(processor), .tsc_n = 5, .tsc_d = 6, .has_clock = true, .time_mult = 7};
	struct ptah_trace_set *set, *opened;
	struct ptah_message why = {""};

	assert_non_null(mkdtemp(from));
	snprintf(to, sizeof(to), "%s.moved", from);
	snprintf(path, sizeof(path), "%s/a/x.pt", from);
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_int_equal(ptah_trace_set_add_code(set, &code), 0);
	assert_int_equal(ptah_trace_set_processor(set, &processor), 0);
	snprintf(path, sizeof(path), "%s/ptah.trace", from);
	assert_int_equal(ptah_trace_set_save(set, path, &why), 0);
	ptah_trace_set_free(set);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(ptah_trace_set_open(to, &opened, &why), 0);
	snprintf(path, sizeof(path), "%s/a/x.pt", to);
	assert_string_equal(opened->streams[0].file.path, path);
	assert_true(opened->streams[0].file.from == 1 && opened->streams[0].file.to == 2 &&
		    opened->streams[0].cpu == -1 && opened->streams[0].pid == 5 &&
		    opened->streams[0].tid == 6 && opened->streams[0].lost == 7);
	assert_string_equal(opened->code[0].file.path, "/bin/x");
	assert_true(opened->code[0].address == 0x1000 && opened->code[0].space.vmcs == 0x3000 &&
		    opened->code[0].space.cr3 == PTAH_SPACE_ANY &&
		    opened->code[0].build_id_size == 20 && opened->code[0].build_id[2] == 3);
	assert_true(opened->processor.tsc_n == 5 && opened->processor.tsc_d == 6 &&
		    opened->processor.has_clock && opened->processor.time_mult == 7);
	ptah_trace_set_free(opened);
	snprintf(command, sizeof(command), "rm -rf %s", to);
	assert_int_equal(system(command), 0);
	/* Where nothing can be written, the reason is reported, and no file is left. */
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_save(set, "/nowhere/ptah.trace", &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "/nowhere/ptah.trace: cannot write"));
	ptah_trace_set_free(set);
}

/* A set is not written over a file that it names, and a device stays when writing fails. */
TEST(saved_elsewhere)
{
	char path[] = "/tmp/ptah-textXXXXXX", other[64], device[64];
	struct ptah_trace_stream stream = {.size = sizeof(stream), .file.path = path, .cpu = -1};
	struct ptah_trace_set *set;
	struct ptah_message why = {""};
	int fd = mkstemp(path);

	assert_int_equal(write(fd, "packets", 7), 7);
	snprintf(other, sizeof(other), "%s.link", path);
	snprintf(device, sizeof(device), "%s.full", path);
	assert_int_equal(symlink(path, other), 0);
	assert_int_equal(symlink("/dev/full", device), 0);
	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(ptah_trace_set_add_stream(set, &stream), 0);
	assert_int_equal(ptah_trace_set_save(set, path, &why), PTAH_E_INVAL);
	assert_non_null(strstr(why.text, "would destroy it"));
	assert_int_equal(ptah_trace_set_save(set, other, &why), PTAH_E_INVAL);
	assert_int_equal(lseek(fd, 0, SEEK_END), 7);
	assert_int_equal(ptah_trace_set_save(set, device, &why), PTAH_E_SYSTEM);
	assert_int_equal(access(device, F_OK), 0);
	ptah_trace_set_free(set);
	close(fd);
	unlink(path);
	unlink(other);
	unlink(device);
}

/* Everything that every_line() reads is written so that it is read again. */
TEST(way_back)
{
	static const char text[] =
	    "ptah-trace 1\n"
	    "processor 6/158/10\n"
	    "timing mtc-period=3 cyc-threshold=1 tsc-n=168 tsc-d=2 nominal-ratio=24\n"
	    "clock mult=31 zero=5\n"
	    "traced kernel no-tnt no-retcomp event-trace\n"
	    "filter from=0x401000 to=0x402000\n"
	    "stop from=0xffffffff80000000 to=0x0\n"
	    "filter-text \"filter 0x10/0x20@x,stop 0x1/0x2@/z\"\n"
	    "kernel kcore=kc kallsyms=/proc/kallsyms\n"
	    "root below\n"
	    "vdso 64=v64 32=/v32\n"
	    "stream cpu0.pt from=0x10 to=0x20 cpu=0 pid=5 tid=6 lost=7 gap\n"
	    "stream cpu0.pt cpu=0 separate\n"
	    "raw code.bin from=0x1 to=0x2 address=0x0 cr3=0x1aa000 vmcs=0x2000\n"
	    "elf /bin/x base=0x400000 pid=5 tsc=99 recorded=/usr/x build-id=00ab12\n"
	    "pe /bin/x.exe base=0x140000000 cr3=0x1000\n"
	    "pages /dd/dump\n"
	    "thread tid=6 pid=5 comm=\"a \\\"b\\\"\"\n"
	    "switch cpu=3 tsc=100 pid=5 tid=6\n"
	    "switch cpu=0\n"
	    "sideband records from=0x8 to=0x10 sample-type=0x3 cpu=1 pid=2 tid=3 tsc-offset=-4 "
	    "primary\n"
	    "sideband records sample-type=0x3 tsc-offset=-9223372036854775808\n"
	    "event id=7 sample-type=0x10087\n"
	    "note \"one # two\\x09three\\x0a\"\n";
	struct ptah_trace_system system = {.size = sizeof(system), .root = "/d"};
	struct ptah_trace_set *set = parsed(text);
	char *again = written(set, "/d");

	assert_string_equal(again, text);
	free(again);
	/* The folder of the text itself. */
	assert_int_equal(ptah_trace_set_system(set, &system), 0);
	again = written(set, "/d");
	assert_non_null(strstr(again, "\nroot .\n"));
	free(again);
	assert_int_equal(ptah_trace_set_system(NULL, &system), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_set_system(set, NULL), PTAH_E_INVAL);
	system.root = "";
	assert_int_equal(ptah_trace_set_system(set, &system), PTAH_E_INVAL);
	ptah_trace_set_free(set);
}
