/* SPDX-License-Identifier: MIT */
/*
 * The functions of a unit and what was inlined in them, read from DWARF's tree of entries in one
 * pass. libdw follows references without an end where a file has circles of them; so every step
 * here goes forward in the file, and chains have a limit.
 */
#include "support/list.h"
#include "symbol/debug.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Bounds on the memory and the stack that one unit can make this layer use. */
#define SCOPES_MAX ((size_t)1 << 22)
#define DEPTH_MAX  512

struct walk {
	struct symbol_scopes *scopes;
	struct symbol_range_lists lists;
	Dwarf_Off last; /* the entry that was visited last */
	bool failed;
};

void symbol_scopes_free(struct symbol_scopes *scopes)
{
	free(scopes->items);
	symbol_ranges_free(&scopes->ranges);
	*scopes = (struct symbol_scopes){0};
}

/* Adds a scope. Returns its index, SYMBOL_NO_SCOPE when there are too many. */
static uint32_t add_scope(struct walk *w, Dwarf_Off die, uint32_t parent, bool inlined)
{
	struct symbol_scopes *s = w->scopes;

	if (s->count >= SCOPES_MAX || !LIST_ROOM(s->items, s->count, s->room)) {
		w->failed = true;
		return SYMBOL_NO_SCOPE;
	}
	s->items[s->count] = (struct symbol_scope){die, parent, inlined};
	return (uint32_t)s->count++;
}

/* Adds the entry if it is a function with code. Returns the scope that its children are in. */
static uint32_t visit(struct walk *w, Dwarf_Die *die, uint32_t parent)
{
	int tag = dwarf_tag(die);
	Dwarf_Addr base = 0, start, end;
	uint32_t scope = SYMBOL_NO_SCOPE;
	ptrdiff_t at = 0;

	if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
		return parent;
	if (!symbol_range_lists_take(&w->lists, die)) {
		w->failed = true;
		return parent;
	}
	while (!w->failed && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		if (start >= end)
			continue;
		if (scope == SYMBOL_NO_SCOPE)
			scope = add_scope(w, dwarf_dieoffset(die), parent,
					  tag == DW_TAG_inlined_subroutine);
		symbol_ranges_add(&w->scopes->ranges,
				  (struct symbol_range){.start = start, .end = end, .name = scope});
		w->failed |= w->scopes->ranges.failed || w->scopes->ranges.count > SCOPES_MAX;
	}
	return scope == SYMBOL_NO_SCOPE ? parent : scope;
}

/* Whether it is an entry that was not visited yet. Entries are visited in the order of the file. */
static bool is_ahead(struct walk *w, Dwarf_Die *die)
{
	Dwarf_Off offset = dwarf_dieoffset(die);

	if (offset <= w->last)
		return false;
	w->last = offset;
	return true;
}

/* Whether there are functions with code below an entry. Most entries describe types. */
static bool has_code_below(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_enumeration_type:
	case DW_TAG_array_type:
	case DW_TAG_subroutine_type:
	case DW_TAG_call_site:
	case DW_TAG_GNU_call_site:
		return false;
	case DW_TAG_subprogram:
		return !dwarf_hasattr(die, DW_AT_declaration);
	default:
		return true;
	}
}

static void walk_unit(struct walk *w, Dwarf_Die *unit)
{
	Dwarf_Die stack[DEPTH_MAX];
	uint32_t inside[DEPTH_MAX + 1];
	size_t depth = 0;

	w->last = dwarf_dieoffset(unit);
	inside[0] = SYMBOL_NO_SCOPE;
	if (dwarf_child(unit, &stack[0]) != 0 || !is_ahead(w, &stack[0]))
		return;
	while (!w->failed) {
		Dwarf_Die *die = &stack[depth];

		inside[depth + 1] = visit(w, die, inside[depth]);
		if (depth + 1 < DEPTH_MAX && has_code_below(die) &&
		    dwarf_child(die, &stack[depth + 1]) == 0 && is_ahead(w, &stack[depth + 1])) {
			depth++;
			continue;
		}
		while (dwarf_siblingof(&stack[depth], &stack[depth]) != 0 ||
		       !is_ahead(w, &stack[depth]))
			if (!depth--)
				return;
	}
}

/* libdw opens what the unit names, whatever it is. These are the paths that it tries. */
static bool is_split_safe(const struct symbol_debug *d, Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;
	const char *name = NULL, *folder = NULL, *slash = strrchr(d->path, '/');
	struct symbol_elf elf;
	char path[8192];
	struct stat st;
	bool safe;

	if (dwarf_attr(unit, DW_AT_dwo_name, &attribute) ||
	    dwarf_attr(unit, DW_AT_GNU_dwo_name, &attribute))
		name = dwarf_formstring(&attribute);
	if (!name)
		return false;
	if (dwarf_attr(unit, DW_AT_comp_dir, &attribute))
		folder = dwarf_formstring(&attribute);
	for (unsigned i = 0; i < 3; i++) {
		int n;

		if (i == 0)
			n = snprintf(path, sizeof(path), "%s", name);
		else if (i == 1)
			n = snprintf(path, sizeof(path), "%.*s/%s",
				     slash ? (int)(slash - d->path) : 1, slash ? d->path : ".",
				     name);
		else
			n = snprintf(path, sizeof(path), "%s/%s", folder ? folder : "", name);
		if (n < 0 || (size_t)n >= sizeof(path))
			return false;
		if (stat(path, &st) < 0)
			continue;
		safe = symbol_elf_map(path, &elf) && symbol_dwarf_is_bounded(&elf);
		symbol_elf_close(&elf);
		if (!safe)
			return false;
	}
	return true;
}

void symbol_debug_scopes(struct symbol_debug *d, struct symbol_unit *unit)
{
	struct symbol_scopes *s = &unit->scopes;
	struct walk w = {.scopes = s};
	Dwarf_Die die, split = {0};
	uint8_t type = 0;

	if (s->read)
		return;
	s->read = true;
	if (!dwarf_offdie(d->dwarf, unit->die, &die))
		return;
	if (dwarf_cu_info(die.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) < 0)
		return;
	if (type == DW_UT_skeleton) {
		if (!is_split_safe(d, &die) ||
		    dwarf_cu_info(die.cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) < 0 ||
		    !split.addr)
			return;
		s->split = true;
		die = split;
	}
	symbol_range_lists_init(&w.lists, dwarf_cu_getdwarf(die.cu));
	walk_unit(&w, &die);
	if (s->ranges.count)
		qsort(s->ranges.items, s->ranges.count, sizeof(*s->ranges.items),
		      symbol_compare_nested);
	symbol_ranges_flatten(&s->ranges);
	if (w.failed || s->ranges.failed) {
		symbol_scopes_free(s);
		s->read = true;
	}
	d->rows += s->count;
}
