/* SPDX-License-Identifier: MIT */
/* Reads the functions of an ELF file into a table: from symbols, PLTs, frames and sections. */
#include "symbol/elf.h"

#include "symbol/fragments.h"
#include "symbol/go.h"
#include "symbol/known_names.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* More than any real file has. A malformed header may claim any number. */
#define EXECUTABLE_MAX 64

/* Reads the executable segments, and the lowest address of all loadable segments. */
static size_t read_elf_segments(Elf *elf, struct ptah_elf_segment **segments, uint64_t *lowest)
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
	n = read_elf_segments(elf.elf, segments, &lowest);
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

/*
 * Whether the symbol belongs to a section that is executed. Absolute symbols (ld's --defsym) and
 * those of other sections (LTO's, the linker's _end) have values that only look like addresses of
 * code.
 */
static bool is_in_code(Elf *elf, const GElf_Sym *symbol)
{
	GElf_Shdr header;

	if (symbol->st_shndx == SHN_XINDEX) /* a file with more than 65,279 sections: not known */
		return true;
	return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < SHN_LORESERVE &&
	       gelf_getshdr(elf_getscn(elf, symbol->st_shndx), &header) &&
	       header.sh_flags & SHF_EXECINSTR;
}

bool symbol_is_code(Elf *elf, const GElf_Sym *symbol, const char *name)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	if (!*name || !is_in_code(elf, symbol))
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC ||
	       (type == STT_NOTYPE && strncmp(name, ".L", 2) != 0);
}

/* What the names of functions say of them. */
static unsigned name_flags(const char *name)
{
	size_t length;

	return symbol_is_fragment(name, &length) ? PTAH_FUNCTION_FRAGMENT : symbol_name_flags(name);
}

/* Adds a symbol. That of a fragment has its group in place of its parent for the moment. */
static void add_elf_symbol(const GElf_Sym *symbol, const char *name, uint64_t group,
			   struct symbol_ranges *ranges, struct symbol_names *names)
{
	uint64_t end = symbol->st_value + symbol->st_size;
	unsigned flags = name_flags(name);

	/* The size is missing or absurd: bound_unsized() sets it. */
	if (end <= symbol->st_value)
		end = symbol->st_value + 1;
	symbol_ranges_add(ranges, (struct symbol_range){
				      .start = symbol->st_value,
				      .end = end,
				      .head = symbol->st_value,
				      .size = end - symbol->st_value,
				      .name = symbol_names_add(names, name, ""),
				      .parent = flags & PTAH_FUNCTION_FRAGMENT ? group : 0,
				      .rank = (uint8_t)symbol_rank(symbol),
				      .flags = (uint16_t)flags,
				      .named = true,
				  });
}

/* A table of symbols. */
struct table {
	const struct symbol_file *file;
	Elf *elf; /* that has it: of the file or its debug file */
	Elf_Data *data, *strings;
	int next;
	uint64_t file_group, group; /* local symbols follow the name of their source file */
};

/* The next symbol of code. False at the end. */
static bool next_symbol(struct table *t, GElf_Sym *symbol, char name[SYMBOL_NAME_MAX])
{
	uint64_t offset;

	while (gelf_getsym(t->data, t->next++, symbol)) {
		if (GELF_ST_TYPE(symbol->st_info) == STT_FILE)
			t->file_group++;
		if (symbol->st_shndx == SHN_UNDEF)
			continue;
		symbol_string(t->strings, symbol->st_name, name, SYMBOL_NAME_MAX);
		t->group = GELF_ST_BIND(symbol->st_info) == STB_LOCAL ? t->file_group
								      : SYMBOL_GROUP_GLOBAL;
		if (symbol_is_code(t->elf, symbol, name) &&
		    symbol_file_offset(t->file, symbol->st_value, &offset))
			return true;
	}
	return false;
}

/* Finds the functions of the fragments among the ranges from `first` on. */
static void find_elf_parents(struct table table, struct symbol_parents *parents,
			     struct symbol_ranges *ranges, size_t first,
			     const struct symbol_names *names)
{
	char name[SYMBOL_NAME_MAX];
	GElf_Sym symbol;

	symbol_parents_sort(parents);
	while (parents->count && next_symbol(&table, &symbol, name))
		symbol_parents_offer(parents, name, table.group, symbol.st_value);
	for (size_t i = first; i < ranges->count && !names->failed; i++) {
		struct symbol_range *r = &ranges->items[i];

		if (!(r->flags & PTAH_FUNCTION_FRAGMENT))
			continue;
		r->parent = symbol_parents_find(parents, names->bytes + r->name, r->parent);
		if (!r->parent)
			r->flags |= PTAH_FUNCTION_NO_PARENT;
	}
}

static void read_table(struct table table, struct symbol_ranges *ranges, struct symbol_names *names)
{
	const struct table begin = table;
	const size_t first = ranges->count;
	struct symbol_parents parents = {0};
	char name[SYMBOL_NAME_MAX];
	GElf_Sym symbol;

	while (next_symbol(&table, &symbol, name)) {
		add_elf_symbol(&symbol, name, table.group, ranges, names);
		symbol_parents_want(&parents, name, table.group);
	}
	find_elf_parents(begin, &parents, ranges, first, names);
	symbol_parents_free(&parents);
}

static void add_symbol_table(const struct symbol_file *file, Elf *elf, unsigned type,
			     struct symbol_ranges *ranges, struct symbol_names *names)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		struct table table = {
		    .file = file, .elf = elf, .file_group = SYMBOL_GROUP_GLOBAL + 1};
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || header.sh_type != type)
			continue;
		table.data = elf_getdata(section, NULL);
		table.strings = symbol_string_table(elf, header.sh_link);
		if (table.data)
			read_table(table, ranges, names);
		return;
	}
}

/* An untyped symbol without a size in the middle of a function is a label of this function. */
static void mark_labels(struct symbol_ranges *symbols)
{
	uint64_t end = 0, head = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		struct symbol_range *r = &symbols->items[i];

		if (r->rank & SYMBOL_RANK_SIZED) {
			head = r->end > end ? r->start : head;
			end = r->end > end ? r->end : end;
		} else if (r->start < end && !(r->rank & SYMBOL_RANK_FUNCTION) && !r->flags) {
			r->parent = head;
			r->end = end;
		}
	}
}

/*
 * A symbol without a size extends to the next symbol, entry of a linkage table, frame or end of
 * section. It may name an entry itself: that of an indirect function, whose address the entry is in
 * a program that is not position-independent.
 */
static void bound_unsized(struct symbol_ranges *symbols, const struct symbol_ranges *plt,
			  const struct symbol_ranges *frames, const struct symbol_ranges *sections)
{
	for (size_t i = 0; i < symbols->count; i++) {
		struct symbol_range *r = &symbols->items[i];
		const struct symbol_range *section;

		if (r->rank & SYMBOL_RANK_SIZED)
			continue;
		section = symbol_ranges_find(sections, r->start);
		if (section && !r->parent)
			r->end = section->end;
		r->end = symbol_ranges_next(symbols, r->start, r->end);
		r->end = symbol_ranges_next(plt, r->start, r->end);
		r->end = symbol_ranges_next(frames, r->start, r->end);
		if (symbol_ranges_next(plt, r->start - 1, r->end) == r->start)
			r->flags |= PTAH_FUNCTION_STUB;
		r->size = r->end - r->start;
	}
}

/* Code in no function (.init, .fini, padding) gets the name of its section. */
static void add_elf_sections(Elf *elf, struct symbol_ranges *ranges, struct symbol_names *names)
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
				      .flags = PTAH_FUNCTION_SECTION,
				  });
	}
	symbol_ranges_sort(ranges, names);
	symbol_ranges_flatten(ranges);
}

/*
 * What no function has of a section begins by itself, and not where the section does: the name of
 * that address may be another one.
 */
static void begin_rests(struct symbol_ranges *ranges)
{
	for (size_t i = 0; i < ranges->count; i++) {
		struct symbol_range *r = &ranges->items[i];

		if (r->flags & PTAH_FUNCTION_SECTION) {
			r->head = r->start;
			r->size = r->end - r->start;
		}
	}
}

static void add_symbols(struct symbol_file *file, Elf *elf, const char *path,
			const struct symbol_folders *folders)
{
	struct symbol_elf debug;

	add_symbol_table(file, elf, SHT_SYMTAB, &file->ranges, &file->names);
	add_symbol_table(file, elf, SHT_DYNSYM, &file->ranges, &file->names);
	if (symbol_debug_open(elf, path, folders, &debug)) {
		add_symbol_table(file, debug.elf, SHT_SYMTAB, &file->ranges, &file->names);
		symbol_elf_close(&debug);
	}
	symbol_ranges_sort(&file->ranges, &file->names);
}

/* Whether it is the dynamic linker, by the name that it has for programs (DT_SONAME). */
static bool is_dynamic_linker(Elf *elf)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Dyn entry;
		char name[16] = "";

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNAMIC)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getdyn(data, i, &entry); i++)
			if (entry.d_tag == DT_SONAME)
				symbol_string(symbol_string_table(elf, header.sh_link),
					      entry.d_un.d_val, name, sizeof(name));
		return strncmp(name, "ld-linux", 8) == 0;
	}
	return false;
}

static void add_go(Elf *elf, struct symbol_ranges *ranges, struct symbol_names *names)
{
	struct symbol_go go;

	if (!symbol_go_find(elf, &go))
		return;
	symbol_go_add(&go, ranges, names);
	symbol_ranges_sort(ranges, names);
	symbol_ranges_flatten(ranges);
}

/* The best sources come first: symbols, then linkage tables, Go's table, frames, sections. */
static void build(struct symbol_file *file, Elf *elf, const char *path,
		  const struct symbol_folders *folders)
{
	struct symbol_ranges frames = {0}, plt = {0}, tables = {0}, go = {0}, sections = {0};

	add_elf_sections(elf, &sections, &file->names);
	add_go(elf, &go, &file->names);
	symbol_add_frames(elf, is_dynamic_linker(elf), &frames);
	symbol_ranges_sort(&frames, &file->names);
	add_symbols(file, elf, path, folders);
	symbol_add_plt(elf, &plt, &tables, &file->ranges, &file->names);
	symbol_ranges_sort(&plt, &file->names);
	symbol_ranges_sort(&tables, &file->names);
	mark_labels(&file->ranges);
	bound_unsized(&file->ranges, &plt, &frames, &sections);
	symbol_ranges_flatten(&file->ranges);
	symbol_ranges_flatten(&plt);
	symbol_ranges_flatten(&tables);
	symbol_ranges_flatten(&frames);
	symbol_ranges_fill(&file->ranges, &plt);
	symbol_ranges_fill(&file->ranges, &tables);
	symbol_ranges_fill(&file->ranges, &go);
	symbol_ranges_fill(&file->ranges, &frames);
	symbol_ranges_fill(&file->ranges, &sections);
	begin_rests(&file->ranges);
	symbol_name_frames(&file->ranges, &file->names);
	symbol_ranges_free(&plt);
	symbol_ranges_free(&tables);
	symbol_ranges_free(&go);
	symbol_ranges_free(&frames);
	symbol_ranges_free(&sections);
}

bool symbol_file_read(const char *path, const struct symbol_folders *folders,
		      struct symbol_file *file)
{
	struct symbol_elf elf;
	uint64_t lowest;

	*file = (struct symbol_file){0};
	if (!symbol_elf_open(path, &elf))
		return false;
	file->segment_count = read_elf_segments(elf.elf, &file->segments, &lowest);
	if (file->segment_count)
		build(file, elf.elf, path, folders);
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
