/* SPDX-License-Identifier: MIT */
/*
 * Opens the debug information of a file and finds the unit of an address. libdw reads DWARF's tree
 * of entries. Its entries for units say which addresses they cover; .debug_aranges says the same
 * but is missing in what clang and rustc compile.
 */
#include "symbol/debug.h"

#include "base/order.h"
#include "base/path.h"
#include "support/list.h"

#include <ptah/base.h>

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A browser has fifty thousand units. */
#define UNITS_MAX ((size_t)1 << 22)

/* When the tables in memory have more rows than this together, those not in use are freed. */
#define ROWS_KEPT ((size_t)1 << 22)

#define SOURCE_MAX 4096

/* Sections */

static void take_section(Elf_Scn *section, struct symbol_section *taken)
{
	Elf_Data *data = elf_getdata(section, NULL);

	if (data && data->d_buf)
		*taken = (struct symbol_section){data->d_buf, data->d_size};
}

/* The sections that line tables need. libdw has decompressed them. */
static void find_sections(Elf *elf, struct symbol_line_sections *sections)
{
	Elf_Data *strings = symbol_section_names(elf);

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (!strcmp(name, ".debug_line") || !strcmp(name, ".zdebug_line"))
			take_section(section, &sections->lines);
		else if (!strcmp(name, ".debug_line_str") || !strcmp(name, ".zdebug_line_str"))
			take_section(section, &sections->line_strings);
		else if (!strcmp(name, ".debug_str") || !strcmp(name, ".zdebug_str"))
			take_section(section, &sections->strings);
	}
}

/* Units */

/* Linkers leave addresses of functions that they discarded at 0 (or -1): code is not there. */
static bool is_code(const void *context, uint64_t address)
{
	uint64_t offset;

	return symbol_file_offset(context, address, &offset) && offset >= sizeof(Elf64_Ehdr);
}

static struct symbol_unit *add_unit(struct symbol_debug *d, Dwarf_Off die)
{
	if (d->unit_count >= UNITS_MAX || !LIST_ROOM(d->units, d->unit_count, d->unit_room))
		return NULL;
	d->units[d->unit_count] = (struct symbol_unit){.die = die};
	return &d->units[d->unit_count++];
}

static void add_unit_ranges(struct symbol_debug *d, struct symbol_range_lists *lists,
			    Dwarf_Die *die)
{
	Dwarf_Addr base = 0, start, end;
	ptrdiff_t at = 0;
	bool added = false;

	if (!symbol_range_lists_take(lists, die)) {
		d->ranges.failed = true;
		return;
	}
	while (!d->ranges.failed && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		if (!is_code(d->file, start) || start >= end)
			continue;
		if (!added && !add_unit(d, dwarf_dieoffset(die))) {
			d->ranges.failed = true;
			return;
		}
		added = true;
		symbol_ranges_add(&d->ranges, (struct symbol_range){
						  .start = start,
						  .end = end,
						  .name = d->unit_count - 1,
					      });
	}
}

int symbol_compare_nested(const void *pa, const void *pb)
{
	const struct symbol_range *a = pa, *b = pb;

	return COMPARE_THEN(a->start, b->start,
			    COMPARE_THEN(b->end, a->end, COMPARE(a->name, b->name)));
}

static int compare_units(const void *pa, const void *pb)
{
	const struct symbol_unit *a = pa, *b = pb;

	return COMPARE(a->die, b->die);
}

/*
 * Where a unit's entry does not have all ranges (DWARF 2 has only one per unit), .debug_aranges
 * does.
 */
static void add_aranges(struct symbol_debug *d)
{
	struct symbol_ranges ranges = {0};
	Dwarf_Aranges *aranges;
	size_t n;

	if (dwarf_getaranges(d->dwarf, &aranges, &n) != 0)
		return;
	for (size_t i = 0; i < n && !ranges.failed; i++) {
		struct symbol_unit key = {0};
		const struct symbol_unit *unit;
		Dwarf_Addr start;
		Dwarf_Word size;

		if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &start, &size, &key.die) ||
		    !is_code(d->file, start) || size > UINT64_MAX - start)
			continue;
		unit = bsearch(&key, d->units, d->unit_count, sizeof(key), compare_units);
		if (unit)
			symbol_ranges_add(&ranges, (struct symbol_range){
						       .start = start,
						       .end = start + size,
						       .name = (size_t)(unit - d->units),
						   });
	}
	if (ranges.count)
		qsort(ranges.items, ranges.count, sizeof(*ranges.items), symbol_compare_nested);
	symbol_ranges_flatten(&ranges);
	symbol_ranges_fill(&d->ranges, &ranges);
	symbol_ranges_free(&ranges);
}

static int find_units(struct symbol_debug *d)
{
	Dwarf_CU *unit = NULL;
	struct symbol_range_lists lists;
	uint8_t type;
	Dwarf_Die die;

	symbol_range_lists_init(&lists, d->dwarf);
	while (!d->ranges.failed &&
	       dwarf_get_units(d->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			add_unit_ranges(d, &lists, &die);
	if (d->ranges.count)
		qsort(d->ranges.items, d->ranges.count, sizeof(*d->ranges.items),
		      symbol_compare_nested);
	symbol_ranges_flatten(&d->ranges);
	if (d->unit_count)
		add_aranges(d);
	return d->ranges.failed ? PTAH_E_LIMIT : 0;
}

struct symbol_unit *symbol_debug_unit(struct symbol_debug *debug, uint64_t address)
{
	const struct symbol_range *range = symbol_ranges_find(&debug->ranges, address);

	return range ? &debug->units[range->name] : NULL;
}

/* Lines */

static void free_tables(struct symbol_unit *unit)
{
	symbol_line_table_free(&unit->lines);
	symbol_scopes_free(&unit->scopes);
	unit->lines_read = false;
}

/* Frees the tables of all other units when those in memory have become large. */
static void evict_units(struct symbol_debug *d, const struct symbol_unit *keep)
{
	if (d->rows < ROWS_KEPT)
		return;
	for (size_t i = 0; i < d->unit_count; i++)
		if (&d->units[i] != keep)
			free_tables(&d->units[i]);
	d->rows = keep->lines.count + keep->scopes.count;
}

static int read_debug_lines(struct symbol_debug *d, struct symbol_unit *unit)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset;
	Dwarf_Die die;

	if (!dwarf_offdie(d->dwarf, unit->die, &die) ||
	    !dwarf_attr(&die, DW_AT_stmt_list, &attribute))
		return PTAH_E_MISSING;
	if (dwarf_formudata(&attribute, &offset) < 0)
		return PTAH_E_BAD_FILE;
	return symbol_line_table_read(&d->sections, offset, is_code, d->file, &unit->lines);
}

const struct symbol_line_table *symbol_debug_lines(struct symbol_debug *d, struct symbol_unit *unit)
{
	if (!unit->lines_read) {
		evict_units(d, unit);
		unit->lines_read = true;
		unit->lines_status = read_debug_lines(d, unit);
		d->rows += unit->lines.count;
	}
	return unit->lines_status ? NULL : &unit->lines;
}

/* Joins the names of folders and a file: each may be absolute, and what is before it then goes. */
static const char *keep_debug_path(struct symbol_pool *pool, const char *const parts[3])
{
	char path[SOURCE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < 3; i++) {
		if (!parts[i] || !*parts[i])
			continue;
		if (*parts[i] == '/')
			n = 0;
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%s%.*s",
				      n && path[n - 1] != '/' ? "/" : "", SOURCE_MAX, parts[i]);
		if (n >= sizeof(path))
			return NULL;
	}
	return n ? symbol_pool_keep(pool, path) : NULL;
}

const char *symbol_debug_source(struct symbol_debug *d, struct symbol_unit *unit, uint64_t file)
{
	const struct symbol_line_table *table = symbol_debug_lines(d, unit);
	struct symbol_source *source = table ? symbol_line_table_file(table, file) : NULL;
	const char *parts[3] = {NULL};
	Dwarf_Attribute attribute;
	Dwarf_Die die;

	if (!source || !*source->name)
		return NULL;
	if (source->path)
		return source->path;
	if (dwarf_offdie(d->dwarf, unit->die, &die) && dwarf_attr(&die, DW_AT_comp_dir, &attribute))
		parts[0] = dwarf_formstring(&attribute);
	parts[1] = source->folder;
	parts[2] = source->name;
	source->path = keep_debug_path(d->pool, parts);
	return source->path;
}

/* Opening */

/* Opens the file that dwz has moved the common parts of several files to (.gnu_debugaltlink). */
static void open_alt(struct symbol_debug *d, const struct symbol_folders *folders)
{
	const char *name;
	const void *id;
	ssize_t size = dwelf_dwarf_gnu_debugaltlink(d->dwarf, &name, &id);

	if (size <= 0)
		return;
	if (symbol_alt_open(d->path, folders, name, id, (size_t)size, &d->alt_elf))
		d->alt = dwarf_begin_elf(d->alt_elf.elf, DWARF_C_READ, NULL);
	if (!d->alt)
		symbol_elf_close(&d->alt_elf);
	/* Without it libdw would open whatever path the file names, when it is first needed. */
	dwarf_setalt(d->dwarf, d->alt ? d->alt : (Dwarf *)-1);
}

int symbol_debug_read(const char *path, const struct symbol_folders *folders,
		      const struct symbol_file *file, struct symbol_pool *pool,
		      struct symbol_debug *d)
{
	*d = (struct symbol_debug){.file = file, .pool = pool, .elf.fd = -1, .alt_elf.fd = -1};
	d->status = symbol_dwarf_open(path, folders, &d->elf, &d->path);
	if (d->status)
		return d->status;
	d->dwarf = dwarf_begin_elf(d->elf.elf, DWARF_C_READ, NULL);
	if (!d->dwarf) {
		d->status = PTAH_E_BAD_FILE;
		return d->status;
	}
	open_alt(d, folders);
	find_sections(d->elf.elf, &d->sections);
	d->status = find_units(d);
	return d->status;
}

void symbol_debug_free(struct symbol_debug *d)
{
	for (size_t i = 0; i < d->unit_count; i++)
		free_tables(&d->units[i]);
	free(d->units);
	symbol_ranges_free(&d->ranges);
	dwarf_end(d->dwarf);
	dwarf_end(d->alt);
	symbol_elf_close(&d->elf);
	symbol_elf_close(&d->alt_elf);
	free(d->path);
	*d = (struct symbol_debug){.elf.fd = -1, .alt_elf.fd = -1};
}
