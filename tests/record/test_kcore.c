/* SPDX-License-Identifier: MIT */
/* Copies the kernel's code from a /proc/kcore that the test writes (elf(5), proc(5)). */
#include "machine.h"

#include "record/perf_event/kcore.h"

#include <elf.h>

#define TEXT	UINT64_C(0xffffffff81000000)
#define MODULES UINT64_C(0xffffffffc0000000)
#define PAGE	4096u

/* Each page is filled with its number, 1 to 7: three of the kernel, four of modules. */
static void put_kcore(void)
{
	const Elf64_Ehdr head = {
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_CORE,
	    .e_machine = EM_X86_64,
	    .e_phoff = sizeof(head),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = 3,
	};
	const Elf64_Phdr headers[3] = {
	    {.p_type = PT_NOTE, .p_offset = 0, .p_filesz = 64},
	    {.p_type = PT_LOAD, .p_vaddr = TEXT, .p_offset = PAGE, .p_filesz = 3 * PAGE},
	    {.p_type = PT_LOAD, .p_vaddr = MODULES, .p_offset = 4 * PAGE, .p_filesz = 4 * PAGE},
	};
	char path[256], page[PAGE];
	FILE *f;

	put_file("/proc/kcore", "");
	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	f = fopen(path, "w");
	assert_non_null(f);
	fwrite(&head, sizeof(head), 1, f);
	fwrite(headers, sizeof(headers), 1, f);
	fseek(f, PAGE, SEEK_SET);
	for (int i = 1; i <= 7; i++) {
		memset(page, i, sizeof(page));
		fwrite(page, sizeof(page), 1, f);
	}
	assert_int_equal(fclose(f), 0);
	put_file("/proc/kallsyms", "ffffffff81000000 T _stext\nffffffff81001800 T _etext\n");
	/*
	 * Modules: two in one page, one of which kcore has only the beginning, one that is not in
	 * kcore.
	 */
	put_file("/proc/modules", "a 2048 0 - Live 0xffffffffc0001000\n"
				  "b 1024 0 - Live 0xffffffffc0001800\n"
				  "c 8192 0 - Live 0xffffffffc0003000\n"
				  "d 4096 0 - Live 0xffffffffd0000000\n");
}

TEST(the_code_is_copied)
{
	static const struct {
		uint64_t address, size;
		uint8_t first, last;
	} expected[] = {
	    {TEXT, 2 * PAGE, 1, 2}, {MODULES + PAGE, PAGE, 5, 5}, {MODULES + 3 * PAGE, PAGE, 7, 7}};
	struct ptah_message why = {""};
	char folder[256], path[300];
	Elf64_Phdr headers[3];
	Elf64_Ehdr head;
	FILE *f;

	put_kcore();
	snprintf(folder, sizeof(folder), "%s/copy", root);
	assert_int_equal(kcore_check(root, &why), 0);
	if (kcore_copy(root, folder, &why) < 0)
		fail_msg("%s", why.text);
	snprintf(path, sizeof(path), "%s/kcore", folder);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fread(&head, sizeof(head), 1, f), 1);
	assert_memory_equal(head.e_ident, ELFMAG, SELFMAG);
	assert_int_equal(head.e_phnum, 3);
	assert_int_equal(fread(headers, sizeof(headers), 1, f), 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(headers[i].p_type, PT_LOAD);
		assert_int_equal(headers[i].p_vaddr, expected[i].address);
		assert_int_equal(headers[i].p_filesz, expected[i].size);
		fseek(f, (long)headers[i].p_offset, SEEK_SET);
		assert_int_equal(fgetc(f), expected[i].first);
		fseek(f, (long)(headers[i].p_offset + expected[i].size - 1), SEEK_SET);
		assert_int_equal(fgetc(f), expected[i].last);
	}
	fclose(f);
	snprintf(path, sizeof(path), "cmp -s %s/copy/kallsyms %s/proc/kallsyms", root, root);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "cmp -s %s/copy/modules %s/proc/modules", root, root);
	assert_int_equal(system(path), 0);
	kcore_remove(folder);
	assert_int_equal(access(folder, F_OK), -1);
}

/* Puts the pieces together in memory: three files, one after the other. */
struct received {
	uint8_t bytes[3][16 * PAGE];
	size_t size[3];
	const char *names[3];
	unsigned files, refuse_at; /* refuse_at: the file that is refused; 0: none */
};

static int receive(void *context, const struct kcore_piece *piece, struct ptah_message *why)
{
	struct received *r = context;

	(void)why;
	if (!piece->offset) {
		assert_true(r->files < 3);
		r->names[r->files++] = piece->name;
	}
	if (r->files == r->refuse_at)
		return PTAH_E_NOSPACE;
	assert_string_equal(piece->name, r->names[r->files - 1]);
	assert_int_equal(piece->offset, r->size[r->files - 1]);
	assert_true(piece->size <= sizeof(r->bytes[0]) - piece->offset);
	memcpy(r->bytes[r->files - 1] + piece->offset, piece->bytes, piece->size);
	r->size[r->files - 1] += piece->size;
	return 0;
}

TEST(the_code_is_passed_on)
{
	/* The pages that the_code_is_copied() expects, in the order of the addresses. */
	static const uint8_t expected[] = {1, 2, 5, 7};
	static const char symbols[] = "ffffffff81000000 T _stext\nffffffff81001800 T _etext\n";
	static struct received r;
	struct kcore_sink sink = {receive, &r};
	struct ptah_message why = {""};
	Elf64_Phdr headers[3];

	put_kcore();
	assert_int_equal(kcore_send(root, &sink, &why), 0);
	assert_int_equal(r.files, 3);
	assert_string_equal(r.names[0], "kcore");
	assert_string_equal(r.names[1], "kallsyms");
	assert_string_equal(r.names[2], "modules");
	assert_memory_equal(r.bytes[0], ELFMAG, SELFMAG);
	memcpy(headers, r.bytes[0] + sizeof(Elf64_Ehdr), sizeof(headers));
	for (unsigned i = 0, page = 0; i < 3; i++)
		for (uint64_t at = 0; at < headers[i].p_filesz; at += PAGE, page++)
			for (unsigned k = 0; k < PAGE; k++)
				assert_int_equal(r.bytes[0][headers[i].p_offset + at + k],
						 expected[page]);
	assert_int_equal(r.size[0], headers[2].p_offset + headers[2].p_filesz);
	assert_int_equal(r.size[1], strlen(symbols));
	assert_memory_equal(r.bytes[1], symbols, r.size[1]);
	/* A file without bytes comes all the same, also one that does not exist. */
	put_file("/proc/modules", "");
	r = (struct received){.files = 0};
	assert_int_equal(kcore_send(root, &sink, &why), 0);
	assert_int_equal(r.files, 3);
	assert_int_equal(r.size[2], 0);
	/* Whoever refuses a piece gets no more. */
	for (unsigned i = 1; i <= 3; i++) {
		r = (struct received){.refuse_at = i};
		assert_int_equal(kcore_send(root, &sink, &why), PTAH_E_NOSPACE);
		assert_int_equal(r.files, i);
	}
}

static void refused(const char *words)
{
	struct ptah_message why = {""};
	char folder[256];

	assert_true(kcore_check(root, &why) < 0);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
	snprintf(folder, sizeof(folder), "%s/copy", root);
	assert_true(kcore_copy(root, folder, &why) < 0);
	assert_int_equal(access(folder, F_OK), -1);
}

TEST(what_cannot_be_read)
{
	put_kcore();
	put_file("/proc/kallsyms", "0000000000000000 T _stext\n0000000000000000 T _etext\n");
	refused("kptr_restrict");
	put_file("/proc/kallsyms", "ffffff0000000000 T _stext\nffffff0000001000 T _etext\n");
	put_file("/proc/modules", "");
	refused("does not hold");
	put_file("/proc/kcore", "not an ELF file, but longer than its header would be, by far, "
				"and so on and on");
	refused("not an ELF core file");
	remove_file("/proc/kcore");
	refused("not there");
}

TEST_GROUP(make_root, remove_root)
