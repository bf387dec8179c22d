/* SPDX-License-Identifier: MIT */
/* Places the sections of a module's file in memory, and relocates its branches. */
#include "session/module_file.h"

#include "base/bits.h"
#include "perfdata/file.h"
#include "support/list.h"
#include "symbol/elf.h"
#include "symbol/kallsyms.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define NAMES_MAX      ((size_t)256 << 20)
#define UNPACKED_MAX   ((uint64_t)64 << 20)
#define UNPACKED_RATIO 64

/* Exports */

static bool add_export(struct kernel_exports *e, const char *name, uint64_t address)
{
	const size_t n = strlen(name) + 1;

	if (e->room - e->used < n) {
		const size_t room = 2 * e->room + 65536;
		char *names = room > NAMES_MAX ? NULL : realloc(e->names, room);

		if (!names)
			return false;
		e->names = names;
		e->room = room;
	}
	if (!LIST_ROOM(e->items, e->count, e->capacity))
		return false;
	memcpy(e->names + e->used, name, n);
	e->items[e->count++] = (struct kernel_export){.at = e->used, .address = address};
	e->used += n;
	return true;
}

static int read_kallsyms(struct kernel_exports *e, const char *path, const char *reference,
			 uint64_t address)
{
	struct kallsyms_line line;
	uint64_t found;
	bool ok = true;
	FILE *f;

	if (symbol_kallsyms_find(path, reference, &found) < 0 || !found)
		return PTAH_E_BAD_FILE;
	f = fopen(path, "re");
	if (!f)
		return PTAH_E_SYSTEM;
	/* Modules are elsewhere when the kernel is, and also their functions. */
	while (ok && symbol_kallsyms_next(f, &line))
		if (line.address && (line.type == 'T' || line.type == 'W') &&
		    (!line.module[0] || found == address))
			ok = add_export(e, line.name, line.address + (address - found));
	fclose(f);
	return ok ? 0 : PTAH_E_NOMEM;
}

static int read_vmlinux(struct kernel_exports *e, const char *path, uint64_t slide)
{
	struct symbol_elf elf;
	bool ok = true;

	if (!symbol_elf_open(path, &elf))
		return PTAH_E_BAD_FILE;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf.elf, section));) {
		Elf_Data *data, *strings;
		GElf_Shdr header;
		GElf_Sym symbol;
		char name[SYMBOL_NAME_MAX];

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		data = elf_getdata(section, NULL);
		strings = symbol_string_table(elf.elf, header.sh_link);
		for (int i = 0; ok && data && gelf_getsym(data, i, &symbol); i++) {
			symbol_string(strings, symbol.st_name, name, sizeof(name));
			if (symbol_is_code(elf.elf, &symbol, name) &&
			    GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
				ok = add_export(e, name, symbol.st_value + slide);
		}
		break;
	}
	symbol_elf_close(&elf);
	return ok ? 0 : PTAH_E_NOMEM;
}

static int compare_exports(const void *a, const void *b)
{
	return strcmp(((const struct kernel_export *)a)->name,
		      ((const struct kernel_export *)b)->name);
}

int kernel_exports_read(struct kernel_exports *e, const char *kallsyms, const char *vmlinux,
			const char *reference, uint64_t address, uint64_t slide)
{
	int status;

	*e = (struct kernel_exports){0};
	status = kallsyms ? read_kallsyms(e, kallsyms, reference, address)
			  : read_vmlinux(e, vmlinux, slide);
	for (size_t i = 0; i < e->count; i++)
		e->items[i].name = e->names + e->items[i].at;
	if (e->count)
		qsort(e->items, e->count, sizeof(*e->items), compare_exports);
	return status;
}

void kernel_exports_free(struct kernel_exports *e)
{
	free(e->items);
	free(e->names);
}

/*
 * The address of a function. 0: it is unknown, or there are several of this name, of which a list
 * of symbols does not say which one is exported.
 */
static uint64_t find_export(const struct kernel_exports *e, const char *name)
{
	const struct kernel_export key = {.name = name}, *found;
	size_t i;

	if (!e->count)
		return 0;
	found = bsearch(&key, e->items, e->count, sizeof(key), compare_exports);
	if (!found)
		return 0;
	i = (size_t)(found - e->items);
	if ((i && !strcmp(found[-1].name, name)) ||
	    (i + 1 < e->count && !strcmp(found[1].name, name)))
		return 0;
	return found->address;
}

/* Sections */

/* The code of a section while it is relocated. */
struct code {
	uint64_t address;
	uint8_t *bytes;
	size_t size;
	/* Bytes of branches whose targets are unknown: pairs of offset and length. */
	struct hole {
		size_t at, size;
	} * holes;
	size_t hole_count, hole_capacity;
};

struct module_file {
	Elf *elf;
	struct code *codes; /* by the index of the section; address 0: not code */
	size_t count;
	const struct module_place *place;
	const struct kernel_exports *exports;
	struct ptah_image *image;
};

/*
 * Sections of code come first, in the order of the file, each aligned; those that are freed after
 * the start (.init...) lie elsewhere (layout_sections() of kernel/module/main.c). False: they do
 * not fit in the place.
 */
static bool lay_out(struct module_file *m)
{
	Elf_Data *names = symbol_section_names(m->elf);
	uint64_t at = 0;
	size_t i = 0;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(m->elf, section));) {
		GElf_Shdr header;
		uint64_t align;
		char name[32];

		if (++i >= m->count || !gelf_getshdr(section, &header) ||
		    ~header.sh_flags & (SHF_ALLOC | SHF_EXECINSTR))
			continue;
		symbol_string(names, header.sh_name, name, sizeof(name));
		if (!strncmp(name, ".init", 5))
			continue;
		align = header.sh_addralign ? header.sh_addralign : 1;
		if (align > m->place->size || align & (align - 1))
			return false;
		at = (at + align - 1) & ~(align - 1);
		if (at > m->place->size || header.sh_size > m->place->size - at)
			return false;
		m->codes[i].address = m->place->address + at;
		at += header.sh_size;
	}
	return at > 0;
}

/* The length of the branch whose displacement is at `at`; 0: it is something else. */
static size_t branch_before(const struct code *c, size_t at)
{
	if (at >= 1 && (c->bytes[at - 1] == 0xe8 || c->bytes[at - 1] == 0xe9))
		return 1;
	if (at >= 2 && c->bytes[at - 2] == 0x0f && (c->bytes[at - 1] & 0xf0) == 0x80)
		return 2;
	return 0;
}

/* The address of a symbol. 0: unknown, or that of data. */
static uint64_t symbol_address(const struct module_file *m, const GElf_Sym *symbol,
			       const char *name)
{
	if (symbol->st_shndx == SHN_UNDEF)
		return find_export(m->exports, name);
	if (symbol->st_shndx >= m->count || !m->codes[symbol->st_shndx].address)
		return 0;
	return m->codes[symbol->st_shndx].address + symbol->st_value;
}

/* Functions begin with a call for tracing, which the kernel makes a nop (ftrace_init_nop()). */
static bool make_nop(struct code *c, size_t at, const char *name)
{
	static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0, 0};

	if (strcmp(name, "__fentry__") != 0 || !at || c->bytes[at - 1] != 0xe8)
		return false;
	memcpy(c->bytes + at - 1, nop, sizeof(nop));
	return true;
}

static bool relocate(const struct module_file *m, struct code *c, const GElf_Rela *rela,
		     const GElf_Sym *symbol, const char *name)
{
	const unsigned type = GELF_R_TYPE(rela->r_info);
	const size_t at = (size_t)rela->r_offset;
	uint64_t target, value;
	size_t before;

	if ((type != R_X86_64_PC32 && type != R_X86_64_PLT32) || c->size < 4 || at > c->size - 4)
		return true;
	before = branch_before(c, at);
	if (!before || make_nop(c, at, name))
		return true;
	target = symbol_address(m, symbol, name);
	value = target + (uint64_t)rela->r_addend - (c->address + at);
	if (target && (uint64_t)(int64_t)(int32_t)value == value) {
		store_le32(c->bytes + at, (uint32_t)value);
		return true;
	}
	if (!LIST_ROOM(c->holes, c->hole_count, c->hole_capacity))
		return false;
	c->holes[c->hole_count++] = (struct hole){at - before, before + 4};
	return true;
}

/* Applies one section of relocations to the code. */
static bool relocate_all(const struct module_file *m, struct code *c, Elf_Scn *section,
			 const GElf_Shdr *header)
{
	Elf_Scn *table = elf_getscn(m->elf, header->sh_link);
	GElf_Shdr symbols_header;
	Elf_Data *relas = elf_getdata(section, NULL), *symbols, *strings;
	GElf_Rela rela;

	if (!table || !gelf_getshdr(table, &symbols_header) || symbols_header.sh_type != SHT_SYMTAB)
		return true;
	symbols = elf_getdata(table, NULL);
	strings = symbol_string_table(m->elf, symbols_header.sh_link);
	for (int i = 0; relas && symbols && gelf_getrela(relas, i, &rela); i++) {
		GElf_Sym symbol;
		char name[SYMBOL_NAME_MAX];

		if (GELF_R_SYM(rela.r_info) > INT32_MAX ||
		    !gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &symbol))
			continue;
		symbol_string(strings, symbol.st_name, name, sizeof(name));
		if (!relocate(m, c, &rela, &symbol, name))
			return false;
	}
	return true;
}

static int add_code(const struct module_file *m, const struct code *c)
{
	int status = ptah_image_add_bytes(m->image, c->bytes, c->size, c->address, NULL);

	for (size_t i = 0; i < c->hole_count && status >= 0; i++)
		status = ptah_image_remove(m->image, c->address + c->holes[i].at, c->holes[i].size,
					   NULL);
	return status;
}

static bool copy_code(struct module_file *m)
{
	size_t i = 0;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(m->elf, section));) {
		struct code *c = ++i < m->count ? &m->codes[i] : NULL;
		const Elf_Data *data = c && c->address ? elf_getdata(section, NULL) : NULL;

		if (!data || !data->d_buf || !data->d_size)
			continue;
		c->bytes = malloc(data->d_size);
		if (!c->bytes)
			return false;
		c->size = data->d_size;
		memcpy(c->bytes, data->d_buf, c->size);
	}
	return true;
}

static bool relocate_code(struct module_file *m)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(m->elf, section));) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA &&
		    header.sh_info < m->count && m->codes[header.sh_info].bytes &&
		    !relocate_all(m, &m->codes[header.sh_info], section, &header))
			return false;
	}
	return true;
}

/* Sections of a real file do not overlap: what is read is no more than the file. */
static bool is_bounded(const struct symbol_elf *elf)
{
	struct stat st;
	uint64_t left;

	if (fstat(elf->fd, &st))
		return false;
	left = (uint64_t)st.st_size;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header))
			return false;
		if (header.sh_type == SHT_NOBITS)
			continue;
		if (header.sh_size > left)
			return false;
		left -= header.sh_size;
	}
	return true;
}

/* 1, or PTAH_E_NOMEM. */
static int add_laid_out(struct module_file *m)
{
	int status = copy_code(m) && relocate_code(m) ? 1 : PTAH_E_NOMEM;

	for (size_t i = 0; i < m->count && status > 0; i++)
		if (m->codes[i].bytes && add_code(m, &m->codes[i]) < 0)
			status = PTAH_E_NOMEM;
	return status;
}

static int add_sections(struct module_file *m)
{
	int status = 0;

	if (elf_getshdrnum(m->elf, &m->count) < 0)
		return 0;
	m->codes = calloc(m->count + 1, sizeof(*m->codes));
	if (!m->codes)
		return PTAH_E_NOMEM;
	if (lay_out(m))
		status = add_laid_out(m);
	for (size_t i = 0; i < m->count; i++) {
		free(m->codes[i].bytes);
		free(m->codes[i].holes);
	}
	free(m->codes);
	return status;
}

static bool has_id(Elf *elf, const struct perfdata_build_id *id)
{
	const void *bytes;

	return !id->size || (dwelf_elf_gnu_build_id(elf, &bytes) == id->size &&
			     !memcmp(bytes, id->bytes, id->size));
}

static int add_file(const char *path, struct module_file *m)
{
	struct symbol_elf elf;
	GElf_Ehdr header;
	int status = 0;

	if (!symbol_elf_open(path, &elf))
		return 0;
	m->elf = elf.elf;
	if (gelf_getehdr(elf.elf, &header) && header.e_type == ET_REL && is_bounded(&elf) &&
	    has_id(elf.elf, m->place->id))
		status = add_sections(m);
	symbol_elf_close(&elf);
	return status;
}

/* Unpacking */

static bool write_all(int fd, const uint8_t *bytes, size_t n)
{
	while (n) {
		ssize_t k = write(fd, bytes, n);

		if (k <= 0)
			return false;
		bytes += k;
		n -= (size_t)k;
	}
	return true;
}

/* Unpacks one file into another. False: it is malformed, or absurdly large. */
static bool unpack(int from, int to)
{
	ZSTD_DStream *stream = ZSTD_createDStream();
	uint8_t in[16384], out[65536];
	uint64_t read_bytes = 0, written = 0;
	bool ok = stream != NULL;
	size_t more = 1;
	ssize_t n;

	while (ok && (n = read(from, in, sizeof(in))) > 0) {
		ZSTD_inBuffer source = {in, (size_t)n, 0};

		read_bytes += (uint64_t)n;
		while (ok && source.pos < source.size) {
			ZSTD_outBuffer sink = {out, sizeof(out), 0};

			more = ZSTD_decompressStream(stream, &sink, &source);
			written += sink.pos;
			ok = !ZSTD_isError(more) && written <= UNPACKED_MAX &&
			     written <= UNPACKED_RATIO * (read_bytes + 4096) &&
			     write_all(to, out, sink.pos);
		}
	}
	ZSTD_freeDStream(stream);
	return ok && !more;
}

static int add_packed(const char *path, struct module_file *m)
{
	int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int to = from < 0 ? -1 : perfdata_temporary(), status = 0;
	char unpacked[32];

	snprintf(unpacked, sizeof(unpacked), "/proc/self/fd/%d", to);
	if (to >= 0 && unpack(from, to))
		status = add_file(unpacked, m);
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return status;
}

int module_file_add(struct ptah_image *image, const char *path, const struct module_place *place,
		    const struct kernel_exports *exports)
{
	struct module_file m = {.place = place, .exports = exports, .image = image};
	const size_t n = strlen(path);

	if (n > 7 && !strcmp(path + n - 7, ".ko.zst"))
		return add_packed(path, &m);
	return n > 3 && !strcmp(path + n - 3, ".ko") ? add_file(path, &m) : 0;
}
