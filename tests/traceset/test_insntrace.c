/* SPDX-License-Identifier: MIT */
/*
 * Folders of Fuchsia's insntrace: files with the layout that its sources give, written here, become
 * the right streams, processor and code; damaged ones are refused or noted. What a record means is
 * in zircon-internal/ktrace-def.h, and what a line of the log means in ld.so's _dl_debug output
 * ("@trace_load:").
 */
#include "folder.h"

#include "base/bits.h"
#include "traceset/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *in_folder(const char *name)
{
	static char path[4][256];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
	return p;
}

/* A record of 32 bytes, of group ARCH. */
static size_t record(uint8_t *at, uint32_t event, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t words[8] = {0x080u << 20 | event << 8 | 4, 7, 1000, 0, a, b, c, d};

	memcpy(at, words, sizeof(words));
	return sizeof(words);
}

/* The folder that the README of insntrace shows, copied from the target, with a program's files. */
static void write_example(void)
{
	uint8_t ktrace[512];
	size_t n = 0;

	n += record(ktrace + n, 0x200, 17, 0, 0x1000, 0); /* an earlier start */
	n += record(ktrace + n, 0x201, 0, 6, 158, 10);
	n += record(ktrace + n, 0x203, 4321, 0, 0x1b4a000, 1);
	/* Another group's event with that number, and a shorter record of a name. */
	n += record(ktrace + n, 0x203, 9, 0, 0x666000, 0);
	ktrace[n - 32 + 3] = 0x04;
	n += record(ktrace + n, 0x021, 1, 2, 3, 4);
	ktrace[n - 32] = 3;
	n -= 8;
	n += record(ktrace + n, 0x200, 36, 0, 0x1000, 0);
	memset(ktrace + n, 0, 32); /* the empty rest of the buffer */
	n += 32;
	n += record(ktrace + n, 0x201, 0, 99, 99, 9);
	write_file("ptout.ktrace", ktrace, n);
	write_text("ptout.ptlist", "0 /tmp/ptout.cpu0.pt\n1 /tmp/ptout.cpu1.pt\n"
				   "2 /tmp/ptout.cpu2.pt\n");
	write_text("ptout.cpuid",
		   "Vendor: Intel\nModel:\n  family: 6\n  model: 142\n  stepping: 9\n"
		   "Features:\n fpu sse\nmtc_freq: 3\n");
	write_text("ptout.cpu0.pt", "packets");
	write_text("ptout.cpu1.pt", "");
	write_text("ptout.cpu2.pt", "packets");
	write_text("loglistener.log",
		   "[0.1] @trace_load: 4321:0a 0x10000 0x10000 0x20000\n"
		   "[0.1] @trace_load: 4321:0b 1111111111111111\n"
		   "[0.1] @trace_load: 4321:0c of-the-boot-before x\n"
		   "[0.1] welcome to lk/MP\n"
		   "[0.2] @trace_load: 4321:1a 0x400000000000 0x400000001000 0x400000009000\n"
		   "[0.2] @trace_load: 77:1a 0x0 0x0 0x9000\n"
		   "[0.2] @trace_load: 4321:1b 00112233445566778899aabbccddeeff00112233\n"
		   "[0.2] something else\n"
		   "[0.2] @trace_load: 4321:1c syscall-test /system/test/syscall-test\n"
		   "[0.2] @trace_load: 4321:2a 0x500000000000 0x500000000000 0x500000009000\n"
		   "[0.2] @trace_load: 4321:2b abcd000000000000\n"
		   "[0.2] @trace_load: 4321:2c libc.so /boot/lib/libc.so\n"
		   "[0.2] @trace_load: 4321:3a 0x600000000000 0x600000000000 0x600000009000\n"
		   "[0.2] @trace_load: 4321:3b ffff000000000000\n"
		   "[0.2] @trace_load: 4321:3c libnowhere.so x\n");
	write_text("ids.txt",
		   "# a remark\nabcd000000000000 libs/libc.so\n"
		   "00112233445566778899aabbccddeeff00112233 /build/exe.unstripped/syscall-test\n");
	write_text("syscall-test", "ELF");
	assert_int_equal(mkdir(in_folder("libs"), 0700), 0);
	write_text("libs/libc.so", "ELF");
	write_text("zircon.elf", "ELF");
}

static struct ptah_trace_set *read_folder(const char *path, int expected, const char *part)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	int status;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(traceset_set_folder(set, folder), 0);
	assert_true(foreign_insntrace.is(path));
	status = foreign_insntrace.read(path, set, &why);
	assert_int_equal(status, expected);
	if (status < 0 && !strstr(why.text, part))
		fail_msg("\"%s\" does not say \"%s\"", why.text, part);
	return set;
}

static void check_example(const struct ptah_trace_set *set)
{
	const struct ptah_trace_processor *p = &set->processor;

	assert_int_equal(set->stream_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(set->streams[i].cpu, 2 * i);
		assert_int_equal(set->streams[i].tid, -1);
		assert_string_equal(set->streams[i].file.path,
				    in_folder(i ? "ptout.cpu2.pt" : "ptout.cpu0.pt"));
	}
	assert_int_equal(p->cpu.family, 6);
	assert_int_equal(p->cpu.model, 158); /* of the ktrace, which insntrace_print uses */
	assert_int_equal(p->cpu.stepping, 10);
	assert_int_equal(p->nominal_ratio, 36);
	assert_int_equal(p->trace.mtc_period, 3);
	assert_int_equal(set->code_count, 3);
	assert_string_equal(set->code[0].file.path, in_folder("zircon.elf"));
	assert_true(set->code[0].space.cr3 == PTAH_SPACE_ANY && !set->code[0].address);
	assert_string_equal(set->code[1].file.path, in_folder("syscall-test"));
	assert_true(set->code[1].space.cr3 == UINT64_C(0x101b4a000));
	assert_true(set->code[1].space.vmcs == PTAH_SPACE_ANY);
	assert_true(set->code[1].address == UINT64_C(0x400000001000));
	assert_int_equal(set->code[1].kind, PTAH_TRACE_CODE_ELF);
	assert_int_equal(set->code[1].build_id_size, 20);
	assert_int_equal(set->code[1].build_id[0], 0);
	assert_int_equal(set->code[1].build_id[19], 0x33);
	assert_string_equal(set->code[1].recorded_path, "syscall-test");
	assert_string_equal(set->code[2].file.path, in_folder("libs/libc.so"));
	assert_int_equal(set->code[2].build_id_size, 8);
	/* libnowhere.so has no file, and process 77 no address space. */
	assert_int_equal(set->note_count, 2);
	assert_non_null(strstr(set->notes[0], "ffff000000000000"));
	assert_non_null(strstr(set->notes[1], "1 program"));
}

TEST_WITH(example, make_folder, remove_folder)
{
	struct ptah_trace_set *set;

	write_example();
	set = read_folder(folder, 0, "");
	check_example(set);
	ptah_trace_set_free(set);
	set = read_folder(in_folder("ptout.ptlist"), 0, "");
	check_example(set);
	ptah_trace_set_free(set);
	/* The list of local paths, that copy_ptout.sh makes, goes before. */
	write_text("ptout.xptlist", "2 ptout.cpu2.pt\n");
	set = read_folder(folder, 0, "");
	assert_int_equal(set->stream_count, 1);
	assert_int_equal(set->streams[0].cpu, 2);
	ptah_trace_set_free(set);
}

TEST_WITH(without_sideband, make_folder, remove_folder)
{
	struct ptah_trace_set *set;

	write_text("a.ptlist", "12 a.thr12.pt\n");
	write_text("a.thr12.pt", "packets");
	set = read_folder(folder, 0, "");
	assert_int_equal(set->stream_count, 1);
	assert_int_equal(set->streams[0].cpu, -1);
	assert_int_equal(set->streams[0].tid, 12);
	assert_int_equal(set->note_count, 1);
	assert_non_null(strstr(set->notes[0], ".ktrace"));
	ptah_trace_set_free(set);
}

TEST_WITH(damaged, make_folder, remove_folder)
{
	uint8_t ktrace[64];
	struct ptah_trace_set *set;

	write_text("a.ptlist", "0 gone.cpu0.pt\n");
	ptah_trace_set_free(read_folder(folder, PTAH_E_MISSING, "a.ptlist:1: gone.cpu0.pt"));
	write_text("a.ptlist", "# remark\n\nnonsense\n");
	ptah_trace_set_free(read_folder(folder, PTAH_E_BAD_FILE, "a.ptlist:3:"));
	write_text("a.ptlist", "99999999999 a.cpu0.pt\n");
	ptah_trace_set_free(read_folder(folder, PTAH_E_BAD_FILE, "a.ptlist:1:"));
	write_text("b.ptlist", "0 a.cpu0.pt\n");
	ptah_trace_set_free(read_folder(folder, PTAH_E_FOREIGN, "several traces"));
	assert_int_equal(unlink(in_folder("b.ptlist")), 0);
	write_text("a.ptlist", "0 a.cpu0.pt\n");
	write_text("a.cpu0.pt", "packets");
	record(ktrace, 0x201, 0, 6, 85, 4);
	record(ktrace + 32, 0x200, 20, 0, 0, 0);
	write_file("a.ktrace", ktrace, 50);
	set = read_folder(folder, 0, "");
	assert_int_equal(set->processor.cpu.model, 85);
	assert_int_equal(set->processor.nominal_ratio, 0);
	assert_int_equal(set->note_count, 1);
	assert_non_null(strstr(set->notes[0], "at offset 32 is cut"));
	ptah_trace_set_free(set);
	/* A length of 8 is shorter than what every record begins with. */
	ktrace[32] = 1;
	write_file("a.ktrace", ktrace, 64);
	set = read_folder(folder, 0, "");
	assert_non_null(strstr(set->notes[0], "at offset 32 is cut"));
	ptah_trace_set_free(set);
}

TEST_WITH(other_folders, make_folder, remove_folder)
{
	assert_false(foreign_insntrace.is(folder));
	assert_false(foreign_insntrace.is("/nowhere"));
	write_text("ptlist", "");
	assert_false(foreign_insntrace.is(folder));
}
