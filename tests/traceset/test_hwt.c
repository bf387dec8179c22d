/* SPDX-License-Identifier: MIT */
/*
 * Folders of FreeBSD's hwt: records with the layout of sys/hwt.h, written here by their offsets,
 * become streams and code; damaged ones are refused or noted. tests/ports/freebsd/test_records.c has
 * what a driver records.
 */
#include "folder.h"

#include "base/bits.h"
#include "traceset/foreign.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MMAP,
	MUNMAP,
	EXECUTABLE,
	KERNEL,
	THREAD_CREATE,
	THREAD_SET_NAME,
	BUFFER
};

static void record_path(uint32_t type, const char *path, uint64_t address, uint64_t base)
{
	uint8_t record[1056] = {0};

	store_le32(record, type);
	strcpy((char *)record + 8, path);
	store_le64(record + 1032, address);
	store_le64(record + 1040, base);
	append_file("hwt.records", "ab", record, sizeof(record));
}

static void record_number(uint32_t type, int32_t number, int32_t page, uint64_t offset)
{
	uint8_t record[1056] = {0};

	store_le32(record, type);
	store_le32(record + 8, (uint32_t)number);
	store_le32(record + 12, (uint32_t)page);
	store_le64(record + 16, offset);
	append_file("hwt.records", "ab", record, sizeof(record));
}

/* A buffer of so many pages, of which `used` bytes are not 0. */
static void write_copy(const char *name, size_t pages, size_t used)
{
	uint8_t *bytes = calloc(pages, 4096);

	assert_non_null(bytes);
	memset(bytes, 0x99, used);
	append_file(name, "ab", bytes, pages * 4096);
	free(bytes);
}

/* An ELF file with a data segment at 0 and code at each of these addresses, which end with 0. */
static void write_elf(const char *name, uint16_t type, uint8_t system, const uint64_t *code,
		      const char *interpreter)
{
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p[4];
		char interpreter[32];
	} file = {.e = {.e_ident = ELFMAG "\2\1\1",
			.e_type = type,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr)}};
	Elf64_Phdr *p = file.p;

	file.e.e_ident[EI_OSABI] = system;
	if (type != ET_REL)
		*p++ = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 64};
	for (; *code; code++)
		*p++ = (Elf64_Phdr){
		    .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = *code, .p_filesz = 64};
	if (interpreter) {
		strcpy(file.interpreter, interpreter);
		*p++ = (Elf64_Phdr){.p_type = PT_INTERP,
				    .p_offset = offsetof(__typeof__(file), interpreter),
				    .p_filesz = strlen(interpreter) + 1};
	}
	file.e.e_phnum = (uint16_t)(p - file.p);
	append_file(name, "ab", &file, sizeof(file));
}

static struct ptah_trace_set *read_set(int expected, const char *why_not)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;

	assert_int_equal(ptah_trace_set_new(&set), 0);
	assert_int_equal(traceset_set_folder(set, folder), 0);
	assert_true(foreign_hwt.is(folder));
	assert_ptr_equal(foreign_find(folder), &foreign_hwt);
	assert_int_equal(foreign_hwt.read(folder, set, &why), expected);
	if (why_not && !strstr(why.text, why_not))
		fail_msg("%s", why.text);
	return set;
}

static void refuse(int status, const char *why)
{
	ptah_trace_set_free(read_set(status, why));
}

static void check_piece(const struct ptah_trace_set *set, size_t i, int32_t tid, uint64_t from,
			uint64_t to, uint64_t lost)
{
	assert_true(i < set->stream_count);
	assert_int_equal(set->streams[i].tid, tid);
	assert_int_equal(set->streams[i].cpu, -1);
	assert_int_equal(set->streams[i].file.from, from);
	assert_int_equal(set->streams[i].file.to, to);
	assert_int_equal(set->streams[i].lost, lost);
}

static void check_code(const struct ptah_trace_set *set, size_t i, const char *name,
		       uint64_t address)
{
	assert_true(i < set->code_count);
	assert_string_equal(strrchr(set->code[i].file.path, '/') + 1, name);
	assert_int_equal(set->code[i].address, address);
	assert_int_equal(set->code[i].kind, PTAH_TRACE_CODE_ELF);
}

/* A file of 4 TB takes no more time than what is stored of it. */
TEST_WITH(holes_of_a_copy_are_not_read, make_folder, remove_folder)
{
	const uint64_t size = UINT64_C(4) << 40, far = UINT64_C(1) << 40;
	struct ptah_trace_set *set;
	char path[64];
	FILE *f;

	record_number(THREAD_CREATE, 0, 0, 0);
	record_number(BUFFER, 0, 1, 0);
	snprintf(path, sizeof(path), "%s/hwt_5_0", folder);
	write_copy("hwt_5_0", 3, 5000);
	f = fopen(path, "r+b");
	assert_non_null(f);
	if (ftruncate(fileno(f), (off_t)size)) {
		fclose(f);
		skip(); /* the file system has smaller files */
	}
	set = read_set(0, NULL);
	check_piece(set, 0, 1, 0, 5000, 0);
	ptah_trace_set_free(set);

	assert_int_equal(fseeko(f, (off_t)far, SEEK_SET), 0);
	assert_int_equal(fputc(0x99, f), 0x99);
	assert_int_equal(fclose(f), 0);
	set = read_set(0, NULL);
	check_piece(set, 0, 1, 0, far + 1, 0);
	ptah_trace_set_free(set);

	snprintf(path, sizeof(path), "%s/hwt.records", folder);
	assert_int_equal(truncate(path, (off_t)size), 0);
	refuse(PTAH_E_LIMIT, "more than 2097152 records");
}

TEST_WITH(buffers_are_in_the_order_of_time, make_folder, remove_folder)
{
	struct ptah_trace_set *set;
	int i;

	for (i = 0; i < 6; i++)
		record_number(THREAD_CREATE, i, 0, 0);
	write_copy("hwt_7_0", 2, 100); /* no record of it: up to the last byte that is not 0 */
	write_copy("hwt_7_1", 2, 5000);
	record_number(BUFFER, 1, 1, 2000); /* 0s at the end are packets, too */
	write_copy("hwt_7_2", 2, 5000);
	record_number(BUFFER, 2, 1, 4); /* some came after the record */
	write_copy("hwt_7_3", 2, 8192);
	record_number(BUFFER, 3, 1, 0);
	record_number(BUFFER, 3, 0, 100); /* 8292 bytes */
	write_copy("hwt_7_4", 2, 8192);
	record_number(BUFFER, 4, 1, 0);
	record_number(BUFFER, 4, 1, 4096); /* exactly one lap, ... */
	write_copy("hwt_7_5", 2, 8192);
	record_number(BUFFER, 5, 1, 0);
	record_number(BUFFER, 5, 0, 0);
	record_number(BUFFER, 5, 1, 0);
	record_number(BUFFER, 5, 0, 0); /* ... and two */
	record_number(BUFFER, 6, 0, 7); /* there is no copy */
	record_number(THREAD_SET_NAME, 0, 0, 0);
	record_number(MUNMAP, 0, 0, 0);
	set = read_set(0, NULL);
	check_piece(set, 0, 1, 0, 100, 0);
	check_piece(set, 1, 2, 0, 6096, 0);
	check_piece(set, 2, 3, 0, 5000, 0);
	check_piece(set, 3, 4, 100, 8192, 100);
	check_piece(set, 4, 4, 0, 100, 0);
	check_piece(set, 5, 5, 0, 8192, 0);
	check_piece(set, 6, 6, 0, 8192, 8192);
	assert_int_equal(set->stream_count, 7);
	assert_int_equal(set->thread_count, 6);
	assert_string_equal(set->threads[3].comm, "hwt 3");
	assert_int_equal(set->threads[3].tid, 4);
	assert_int_equal(set->note_count, 0);
	ptah_trace_set_free(set);
}

/* Where a file lies follows from one of its segments, and each file is loaded once. */
TEST_WITH(files_are_where_they_were_mapped, make_folder, remove_folder)
{
	static const uint64_t one[] = {0x3010, 0}, two[] = {0x1000, 0x5000, 0};
	struct ptah_trace_set *set;

	write_elf("program", ET_DYN, 0, one, "/libexec/ld-elf.so.1");
	write_elf("ld-elf.so.1", ET_DYN, 0, two, NULL);
	write_elf("fixed", ET_EXEC, 0, one, NULL);
	write_elf("module.ko", ET_REL, 0, one + 1, NULL);
	write_copy("hwt_0_0", 1, 1);
	record_path(EXECUTABLE, "/usr/bin/program", 0x10000000, 0x20000000);
	record_path(MMAP, "/lib/program", 0x30003000, 1); /* another file of the name */
	record_path(MMAP, "/libexec/ld-elf.so.1", 0x20005000, 2);
	record_path(MMAP, "/libexec/ld-elf.so.1", 0x40001000, 3);
	record_path(EXECUTABLE, "/usr/bin/fixed", 0x666000, 0x777000);
	record_path(KERNEL, "/boot/kernel/module.ko", 0xffffffff81000000, 0);
	record_path(MMAP, "", 0x1000, 0);
	record_path(MMAP, "relative", 0x1000, 0);
	set = read_set(0, NULL);
	check_code(set, 0, "program", 0x10000000);
	check_code(set, 1, "ld-elf.so.1", 0x20000000);
	check_code(set, 2, "program", 0x30000000);
	check_code(set, 3, "ld-elf.so.1", 0x40000000);
	check_code(set, 4, "fixed", 0);
	assert_int_equal(set->code_count, 5);
	assert_int_equal(set->streams[0].cpu, 0);
	assert_int_equal(set->note_count, 3);
	assert_non_null(strstr(set->notes[0], "2 mappings"));
	assert_non_null(strstr(set->notes[1], "1 modules"));
	assert_non_null(strstr(set->notes[2], "2 programs"));
	ptah_trace_set_free(set);
}

/* /bin/sh of another system is not taken for that of FreeBSD, nor a file above the folder. */
TEST_WITH(files_of_this_machine_are_freebsds, make_folder, remove_folder)
{
	static const uint64_t code[] = {0x1000, 0};
	char other[64], own[64];
	struct ptah_trace_set *set;

	write_elf("of-linux", ET_DYN, ELFOSABI_SYSV, code, NULL);
	write_elf("of-freebsd", ET_DYN, ELFOSABI_FREEBSD, code, NULL);
	snprintf(other, sizeof(other), "%s/traced", folder);
	assert_int_equal(mkdir(other, 0700), 0);
	write_copy("traced/hwt_0_0", 1, 1);
	snprintf(other, sizeof(other), "%s/of-linux", folder);
	snprintf(own, sizeof(own), "%s/of-freebsd", folder);
	record_path(MMAP, other, 0x1000000, 0);
	record_path(MMAP, own, 0x2000000, 0);
	record_path(MMAP, "/../of-linux", 0x3000000, 0);
	record_path(MMAP, "/lib/../../of-linux", 0x4000000, 0);
	snprintf(own, sizeof(own), "cd %s && mv hwt.records traced", folder);
	assert_int_equal(system(own), 0);
	snprintf(other, sizeof(other), "%s/traced", folder);
	assert_int_equal(ptah_trace_set_open(other, &set, NULL), 0);
	check_code(set, 0, "of-freebsd", 0x1fff000);
	assert_int_equal(set->code_count, 1);
	ptah_trace_set_free(set);
}

TEST_WITH(damaged_folders_are_refused, make_folder, remove_folder)
{
	static const struct {
		int32_t number, page;
		uint64_t offset;
		const char *why;
	} bad[] = {
	    {-1, 0, 0, "buffer -1"},	     {65536, 0, 0, "buffer 65536"},
	    {0, -1, 0, "page -1"},	     {0, 2, 0, NULL},
	    {0, 2, 1, "page 2, offset 0x1"}, {0, 0, 4097, "offset 0x1001"},
	    {0, 0, UINT64_MAX, "page 0"},    {0, INT32_MAX, 0, "page 2147483647"},
	};
	char path[64];
	size_t i;

	write_copy("hwt_3_0", 2, 1);
	snprintf(path, sizeof(path), "%s/hwt.records", folder);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		record_number(BUFFER, bad[i].number, bad[i].page, bad[i].offset);
		refuse(bad[i].why ? PTAH_E_BAD_FILE : 0, bad[i].why);
		assert_int_equal(unlink(path), 0);
	}
	record_number(THREAD_CREATE, 0, 0, 0);
	record_number(7, 0, 0, 0);
	refuse(PTAH_E_BAD_FILE, "offset 1056: type 7");
	assert_int_equal(truncate(path, 1056 + 500), 0);
	refuse(0, NULL); /* noted: it is cut */
	append_file("hwt_3_x", "ab", "", 0);
	append_file("hwt_3_65536", "ab", "", 0);
	refuse(PTAH_E_BAD_FILE, "whole pages");
	write_copy("hwt_3_65536", 1, 1);
	refuse(PTAH_E_LIMIT, "65536");
	snprintf(path, sizeof(path), "rm %s/hwt_3_65536", folder);
	assert_int_equal(system(path), 0);
	write_copy("hwt_4_1", 1, 1);
	refuse(PTAH_E_FOREIGN, "several contexts");
	snprintf(path, sizeof(path), "rm %s/hwt_*_*", folder);
	assert_int_equal(system(path), 0);
	refuse(PTAH_E_EMPTY, "no dumps");
	write_copy("hwt_4_1", 1, 0);
	refuse(PTAH_E_EMPTY, "nothing was traced");
}
