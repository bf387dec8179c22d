/* SPDX-License-Identifier: MIT */
/*
 * Proves of debug information: whatever it is, lines and inlined functions are found or not, in
 * bounded time. The lines of a range are in order, do not overlap and stay within it; each of them
 * is what the single bytes of it have.
 *
 * Input: sections, each a byte for its name, two for its length, and its bytes. They become an ELF
 * file with 256 bytes of code at 0x1000.
 */
#include "fuzz.h"

#include <ptah/symbol.h>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const names[] = {
    ".debug_info",     ".debug_abbrev",	     ".debug_line",   ".debug_str",
    ".debug_line_str", ".debug_rnglists",    ".debug_ranges", ".debug_aranges",
    ".debug_addr",     ".debug_str_offsets", ".shstrtab",
};
#define NAMES	 (sizeof(names) / sizeof(*names))
#define CODE	 0x1000
#define CODE_END 0x1100
#define AT	 128 /* where the code is in the file */

struct file {
	uint8_t bytes[1 << 17];
	size_t size;
	Elf64_Shdr sections[NAMES + 1];
};

static void put(struct file *f, const void *bytes, size_t n)
{
	CHECK(n <= sizeof(f->bytes) - f->size);
	memcpy(f->bytes + f->size, bytes, n);
	f->size += n;
}

static void put_section(struct file *f, size_t i, const void *bytes, size_t n)
{
	f->sections[i + 1].sh_type = i == NAMES - 1 ? SHT_STRTAB : SHT_PROGBITS;
	f->sections[i + 1].sh_offset = f->size;
	f->sections[i + 1].sh_size = n;
	put(f, bytes, n);
}

static void make_file(struct file *f, const uint8_t *data, size_t size)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(header),
			     .e_ehsize = sizeof(header),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 1,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = NAMES + 1,
			     .e_shstrndx = NAMES};
	const Elf64_Phdr code = {.p_type = PT_LOAD,
				 .p_flags = PF_R | PF_X,
				 .p_offset = AT,
				 .p_vaddr = CODE,
				 .p_filesz = CODE_END - CODE,
				 .p_memsz = CODE_END - CODE};
	char texts[256] = "";
	size_t used = 1;

	memset(f, 0, sizeof(*f));
	f->size = AT + CODE_END - CODE;
	while (size >= 3) {
		size_t n = data[1] | (size_t)data[2] << 8, i = data[0] % (NAMES - 1);

		n = n < size - 3 ? n : size - 3;
		put_section(f, i, data + 3, n);
		data += 3 + n;
		size -= 3 + n;
	}
	for (size_t i = 0; i < NAMES; i++) {
		f->sections[i + 1].sh_name = (uint32_t)used;
		strcpy(texts + used, names[i]);
		used += strlen(names[i]) + 1;
		if (!f->sections[i + 1].sh_type)
			f->sections[i + 1].sh_type = SHT_NOBITS;
	}
	put_section(f, NAMES - 1, texts, used);
	header.e_shoff = f->size;
	put(f, f->sections, sizeof(f->sections));
	memcpy(f->bytes, &header, sizeof(header));
	memcpy(f->bytes + sizeof(header), &code, sizeof(code));
}

struct walk {
	struct ptah_symbols *symbols;
	const char *path;
	uint64_t start, end; /* the range that was asked for */
	uint64_t at;	     /* where the last line ended */
};

static void check_line(const struct ptah_line *line, uint64_t place)
{
	CHECK(line->size && line->start <= place && place - line->start < line->size);
	CHECK(!line->file || *line->file);
}

static bool visit(void *context, const struct ptah_line *line)
{
	struct walk *w = context;
	struct ptah_line one;

	CHECK(line->start >= w->at && line->start >= w->start && line->size);
	CHECK(line->start + line->size <= w->end);
	w->at = line->start + line->size;
	CHECK(ptah_symbols_line(w->symbols, w->path, w->at - 1, &one));
	check_line(&one, w->at - 1);
	CHECK(one.line == line->line && one.file == line->file && one.column == line->column);
	return true;
}

static bool count(void *context, const struct ptah_line *line)
{
	(void)line;
	return ++*(size_t *)context < 1000;
}

static void walk(struct ptah_symbols *symbols, const char *path, uint64_t start, uint64_t size)
{
	struct walk w = {symbols, path, start, start + size, 0};
	int status = ptah_symbols_lines(symbols, path, start, size, visit, &w);

	CHECK(status <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct file file;
	struct ptah_inline frames[PTAH_INLINES_MAX], function;
	struct ptah_symbols *symbols;
	struct ptah_line line;
	size_t found = 0;
	char path[64];
	int fd;

	if (size > 65536)
		return 0;
	make_file(&file, data, size);
	fd = memfd_create("dwarf", 0);
	CHECK(fd >= 0 && write(fd, file.bytes, file.size) == (ssize_t)file.size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(!ptah_symbols_new(NULL, &symbols));
	for (uint64_t at = AT; at < AT + CODE_END - CODE; at += 3) {
		size_t n = ptah_symbols_inlines(symbols, path, at, frames, PTAH_INLINES_MAX);

		CHECK(n <= PTAH_INLINES_MAX);
		for (size_t i = 0; i < n; i++)
			CHECK(frames[i].name && *frames[i].name);
		if (ptah_symbols_function(symbols, path, at, &function))
			CHECK(function.name && *function.name);
		if (ptah_symbols_line(symbols, path, at, &line))
			check_line(&line, at);
	}
	walk(symbols, path, AT, CODE_END - CODE);
	walk(symbols, path, AT + 7, 50);
	CHECK(ptah_symbols_lines(symbols, path, 0, UINT64_MAX, count, &found) <= 0);
	ptah_symbols_find_line(symbols, path, "a.c", 3, count, &found);
	ptah_symbols_free(symbols);
	close(fd);
	return 0;
}
