/* SPDX-License-Identifier: MIT */
/* Reads the functions of an ELF file into a table: from symbols, PLTs, frames and sections. */
#include "symbol/elf.h"

#include <ptah/error.h>

#include <stdlib.h>
#include <string.h>

/* More than any real file has. A malformed header may claim any number. */
#define EXECUTABLE_MAX 64

/* Reads the executable segments, and the lowest address of all loadable segments. */
static size_t read_segments(Elf *elf, struct ptah_elf_segment **segments, uint64_t *lowest)
{
	size_t n, count = 0;

	*segments = NULL;
	*lowest = UINT64_MAX;
	if (elf_getphdrnum(elf, &n) < 0 || n > SYMBOL_SEGMENTS_MAX)
		return 0;
	*segments = calloc(EXECUTABLE_MAX, sizeof(**segments));
	for (size_t i = 0; *segments && i < n && count < EXECUTABLE_MAX; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		if (ph.p_vaddr < *lowest)
			*lowest = ph.p_vaddr;
		if (!(ph.p_flags & PF_X) || !ph.p_filesz || ph.p_offset + ph.p_filesz < ph.p_offset)
			continue;
		(*segments)[count++] =
		    (struct ptah_elf_segment){ph.p_offset, ph.p_vaddr, ph.p_filesz};
	}
	return count;
}

bool symbol_file_address(const struct symbol_file *file, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct ptah_elf_segment *s = &file->segments[i];

		if (offset - s->offset < s->size) {
			*address = s->address + (offset - s->offset);
			return true;
		}
	}
	return false;
}

bool symbol_file_offset(const struct symbol_file *file, uint64_t address, uint64_t *offset)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct ptah_elf_segment *s = &file->segments[i];

		if (address - s->address < s->size) {
			*offset = s->offset + (address - s->address);
			return true;
		}
	}
	return false;
}

int ptah_elf_segments(const char *path, uint64_t base, struct ptah_elf_segment **segments)
{
	struct symbol_elf elf;
	uint64_t lowest;
	size_t n;

	if (!path || !segments)
		return PTAH_E_INVAL;
	*segments = NULL;
	if (!symbol_elf_open(path, &elf))
		return PTAH_E_BAD_MAGIC;
	n = read_segments(elf.elf, segments, &lowest);
	symbol_elf_close(&elf);
	if (!*segments)
		return PTAH_E_NOMEM;
	for (size_t i = 0; base && i < n; i++)
		(*segments)[i].address += base - lowest;
	return (int)n;
}

#define PAGE UINT64_C(4096)

bool ptah_elf_extent(const char *path, uint64_t offset, struct ptah_elf_extent *extent)
{
	struct symbol_elf elf;
	bool found = false;
	GElf_Ehdr header;
	GElf_Phdr p;
	size_t n;

	if (!symbol_elf_open(path, &elf))
		return false;
	if (elf_getphdrnum(elf.elf, &n) || !gelf_getehdr(elf.elf, &header))
		n = 0;
	*extent = (struct ptah_elf_extent){.address = UINT64_MAX};
	for (size_t i = 0; i < n && i < SYMBOL_SEGMENTS_MAX; i++) {
		if (!gelf_getphdr(elf.elf, (int)i, &p) || p.p_type != PT_LOAD)
			continue;
		extent->address = p.p_vaddr < extent->address ? p.p_vaddr : extent->address;
		extent->end =
		    p.p_vaddr + p.p_memsz > extent->end ? p.p_vaddr + p.p_memsz : extent->end;
		/* Whole pages are mapped, and with them some bytes before the segment. */
		if (!(p.p_flags & PF_X) ||
		    offset - p.p_offset / PAGE * PAGE >= p.p_filesz + p.p_offset % PAGE)
			continue;
		extent->at = p.p_vaddr + (offset - p.p_offset);
		found = true;
	}
	symbol_elf_close(&elf);
	if (found) {
		extent->entry = header.e_entry;
		extent->address -= extent->address % PAGE;
		extent->end += (PAGE - extent->end % PAGE) % PAGE;
	}
	return found;
}

/* Strings */

Elf_Data *symbol_string_table(Elf *elf, size_t index)
{
	Elf_Scn *section = elf_getscn(elf, index);
	GElf_Shdr header;

	if (!index || !section || !gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB)
		return NULL;
	return elf_getdata(section, NULL);
}

Elf_Data *symbol_section_names(Elf *elf)
{
	size_t index;

	return elf_getshdrstrndx(elf, &index) < 0 ? NULL : symbol_string_table(elf, index);
}

void symbol_string(Elf_Data *table, uint64_t offset, char *text, size_t n)
{
	size_t length = 0;

	if (table && table->d_buf && offset < table->d_size) {
		const char *string = (const char *)table->d_buf + offset;
		size_t most = table->d_size - (size_t)offset;

		length = strnlen(string, most < n ? most : n - 1);
		memcpy(text, string, length);
	}
	text[length] = '\0';
}

/* Symbols */

static unsigned symbol_rank(const GElf_Sym *symbol)
{
	unsigned bind = GELF_ST_BIND(symbol->st_info), type = GELF_ST_TYPE(symbol->st_info);
	unsigned rank = bind == STB_LOCAL  ? SYMBOL_RANK_LOCAL
			: bind == STB_WEAK ? SYMBOL_RANK_WEAK
					   : SYMBOL_RANK_GLOBAL;

	if (type != STT_NOTYPE)
		rank += SYMBOL_RANK_FUNCTION;
	if (symbol->st_size)
		rank += SYMBOL_RANK_SIZED;
	return rank;
}

bool symbol_is_code(const GElf_Sym *symbol, const char *name)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || !*name)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC ||
	       (type == STT_NOTYPE && strncmp(name, ".L", 2) != 0);
}

static void add_symbol(const struct symbol_file *file, const GElf_Sym *symbol, const char *name,
		       struct symbol_ranges *ranges, struct symbol_names *names)
{
	uint64_t offset, end = symbol->st_value + symbol->st_size;

	if (!symbol_is_code(symbol, name) || !symbol_file_offset(file, symbol->st_value, &offset))
		return;
	/* The size is missing or absurd: bound_unsized() sets it. */
	if (end <= symbol->st_value)
		end = symbol->st_value + 1;
	symbol_ranges_add(ranges, (struct symbol_range){
				      .start = symbol->st_value,
				      .end = end,
				      .head = symbol->st_value,
				      .size = end - symbol->st_value,
				      .name = symbol_names_add(names, name, ""),
				      .rank = (uint8_t)symbol_rank(symbol),
				      .named = true,
				  });
}

static void add_symbol_table(const struct symbol_file *file, Elf *elf, unsigned type,
			     struct symbol_ranges *ranges, struct symbol_names *names)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		Elf_Data *data, *strings;
		GElf_Sym symbol;
		char name[SYMBOL_NAME_MAX];

		if (!gelf_getshdr(section, &header) || header.sh_type != type)
			continue;
		data = elf_getdata(section, NULL);
		strings = symbol_string_table(elf, header.sh_link);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			symbol_string(strings, symbol.st_name, name, sizeof(name));
			add_symbol(file, &symbol, name, ranges, names);
		}
		return;
	}
}

/* A symbol without a size extends to the next symbol, frame or end of section. */
static void bound_unsized(struct symbol_ranges *symbols, const struct symbol_ranges *frames,
			  const struct symbol_ranges *sections)
{
	for (size_t i = 0; i < symbols->count; i++) {
		struct symbol_range *r = &symbols->items[i];
		const struct symbol_range *section;

		if (r->rank & SYMBOL_RANK_SIZED)
			continue;
		section = symbol_ranges_find(sections, r->start);
		if (section)
			r->end = section->end;
		r->end = symbol_ranges_next(symbols, r->start, r->end);
		r->end = symbol_ranges_next(frames, r->start, r->end);
		r->size = r->end - r->start;
	}
}

/* Code in no function (.init, .fini, padding) gets the name of its section. */
static void add_sections(Elf *elf, struct symbol_ranges *ranges, struct symbol_names *names)
{
	Elf_Data *strings = symbol_section_names(elf);

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR))
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		symbol_ranges_add(ranges,
				  (struct symbol_range){
				      .start = header.sh_addr,
				      .end = header.sh_addr + header.sh_size,
				      .head = header.sh_addr,
				      .size = header.sh_size,
				      .name = symbol_names_add(names, *name ? name : "code", ""),
				  });
	}
	symbol_ranges_sort(ranges, names);
	symbol_ranges_flatten(ranges);
}

static void add_symbols(struct symbol_file *file, Elf *elf, const char *path, const char *root)
{
	struct symbol_elf debug;

	add_symbol_table(file, elf, SHT_SYMTAB, &file->ranges, &file->names);
	add_symbol_table(file, elf, SHT_DYNSYM, &file->ranges, &file->names);
	if (symbol_debug_open(elf, path, root, &debug)) {
		add_symbol_table(file, debug.elf, SHT_SYMTAB, &file->ranges, &file->names);
		symbol_elf_close(&debug);
	}
	symbol_ranges_sort(&file->ranges, &file->names);
}

/* The best sources come first: symbols, then linkage tables, frames, sections. */
static void build(struct symbol_file *file, Elf *elf, const char *path, const char *root)
{
	struct symbol_ranges frames = {0}, plt = {0}, tables = {0}, sections = {0};

	add_sections(elf, &sections, &file->names);
	symbol_add_frames(elf, &frames, &file->names);
	symbol_ranges_sort(&frames, &file->names);
	add_symbols(file, elf, path, root);
	symbol_add_plt(elf, &plt, &tables, &file->ranges, &file->names);
	symbol_ranges_sort(&plt, &file->names);
	symbol_ranges_sort(&tables, &file->names);
	bound_unsized(&file->ranges, &frames, &sections);
	symbol_ranges_flatten(&file->ranges);
	symbol_ranges_flatten(&plt);
	symbol_ranges_flatten(&tables);
	symbol_ranges_flatten(&frames);
	symbol_ranges_fill(&file->ranges, &plt);
	symbol_ranges_fill(&file->ranges, &tables);
	symbol_ranges_fill(&file->ranges, &frames);
	symbol_ranges_fill(&file->ranges, &sections);
	symbol_ranges_free(&plt);
	symbol_ranges_free(&tables);
	symbol_ranges_free(&frames);
	symbol_ranges_free(&sections);
}

bool symbol_file_read(const char *path, const char *root, struct symbol_file *file)
{
	struct symbol_elf elf;
	uint64_t lowest;

	*file = (struct symbol_file){0};
	if (!symbol_elf_open(path, &elf))
		return false;
	file->segment_count = read_segments(elf.elf, &file->segments, &lowest);
	if (file->segment_count)
		build(file, elf.elf, path, root);
	symbol_elf_close(&elf);
	if (!file->ranges.failed && !file->names.failed)
		return true;
	symbol_file_free(file);
	return false;
}

void symbol_file_free(struct symbol_file *file)
{
	free(file->segments);
	free(file->names.bytes);
	symbol_ranges_free(&file->ranges);
	*file = (struct symbol_file){0};
}
