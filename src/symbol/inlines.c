/* SPDX-License-Identifier: MIT */
/* Functions that were inlined at a place (symbol.h). */
#include "symbol/resolver.h"

#include <dwarf.h>
#include <string.h>

/* A name is at most two references away: abstract origin, specification. Files may have circles. */
#define ORIGINS_MAX 16

/* A longer name of a function is not shown. */
#define FUNCTION_MAX 65536

static const char *string_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

/* The entry that has what this one leaves out. */
static bool follow(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	Dwarf_Die origin;

	if (!dwarf_attr(die, DW_AT_abstract_origin, &attribute) &&
	    !dwarf_attr(die, DW_AT_specification, &attribute))
		return false;
	if (!dwarf_formref_die(&attribute, &origin))
		return false;
	*die = origin;
	return true;
}

/* DWARF's list of languages has these since DWARF 5 was published; elfutils need not know them. */
#define LANG_C17 0x2c
#define LANG_C23 0x3e

/*
 * In C only an asm label makes a linkage name (glibc's __GI_read): people know the function's own.
 */
static bool is_of_c(Dwarf_Die *die)
{
	Dwarf_Die unit;

	if (!dwarf_diecu(die, &unit, NULL, NULL))
		return false;
	switch (dwarf_srclang(&unit)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case LANG_C17:
	case LANG_C23:
		return true;
	default:
		return false;
	}
}

static const char *name_of(struct symbol_debug *d, Dwarf_Die die)
{
	const bool in_c = is_of_c(&die);
	const char *plain = NULL, *mangled = NULL;

	for (unsigned i = 0; i < ORIGINS_MAX && !mangled; i++) {
		mangled = string_of(&die, DW_AT_linkage_name);
		if (!mangled)
			mangled = string_of(&die, DW_AT_MIPS_linkage_name);
		if (!plain)
			plain = string_of(&die, DW_AT_name);
		if (!mangled && !follow(&die))
			break;
	}
	mangled = mangled && !(in_c && plain) ? mangled : plain;
	if (mangled && (!*mangled || strnlen(mangled, FUNCTION_MAX) == FUNCTION_MAX))
		mangled = NULL;
	mangled = mangled ? symbol_pool_keep(d->pool, mangled) : NULL;
	return mangled ? mangled : "?";
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &number) ||
	    number > UINT32_MAX)
		return 0;
	return (uint32_t)number;
}

/* The source file that the entry has a number of, in the attribute `name`. */
static const char *source_of(struct symbol_debug *d, struct symbol_unit *unit, Dwarf_Die *die,
			     unsigned name)
{
	uint32_t file = number_of(die, name);
	const char *path = NULL;
	Dwarf_Files *files;
	Dwarf_Die of;
	size_t n;

	if (!dwarf_hasattr(die, name) || !dwarf_diecu(die, &of, NULL, NULL))
		return NULL;
	if (!unit->scopes.split && dwarf_cu_getdwarf(die->cu) == d->dwarf &&
	    dwarf_dieoffset(&of) == unit->die)
		return symbol_debug_source(d, unit, file);
	/* In another unit, which may have no code (link-time optimisation), or in a .dwo. */
	if (dwarf_getsrcfiles(&of, &files, &n) == 0 && file < n)
		path = dwarf_filesrc(files, file, NULL, NULL);
	return path ? symbol_pool_keep(d->pool, path) : NULL;
}

/* The tree of entries that a unit's scopes are from. */
static Dwarf *tree_of(struct symbol_debug *d, const struct symbol_unit *unit)
{
	Dwarf_Die die, split = {0};

	if (!unit->scopes.split)
		return d->dwarf;
	if (!dwarf_offdie(d->dwarf, unit->die, &die) ||
	    dwarf_cu_info(die.cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) < 0 || !split.addr)
		return NULL;
	return dwarf_cu_getdwarf(split.cu);
}

/* Fills in where a function is declared: what its entry says, or the one that it refers to. */
static void fill_declaration(struct symbol_debug *d, struct symbol_unit *unit, Dwarf_Die die,
			     struct ptah_inline *function)
{
	for (unsigned i = 0; i < ORIGINS_MAX; i++) {
		if (dwarf_hasattr(&die, DW_AT_decl_line)) {
			function->line = number_of(&die, DW_AT_decl_line);
			function->file = source_of(d, unit, &die, DW_AT_decl_file);
			return;
		}
		if (!follow(&die))
			return;
	}
}

static void fill_inline_function(struct symbol_debug *d, struct symbol_unit *unit, Dwarf_Die *die,
				 struct ptah_inline *function)
{
	*function = (struct ptah_inline){
	    .name = name_of(d, *die),
	    .call_file = source_of(d, unit, die, DW_AT_call_file),
	    .call_line = number_of(die, DW_AT_call_line),
	    .call_column = number_of(die, DW_AT_call_column),
	};
	fill_declaration(d, unit, *die, function);
}

/* A place in the tree of entries. */
struct place {
	struct symbol_debug *debug;
	struct symbol_unit *unit;
	Dwarf *tree;
	uint32_t scope; /* the innermost */
};

static bool find_inline_place(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			      struct place *place)
{
	const struct symbol_range *range;
	uint64_t address;
	int status;

	if (!symbols || !path)
		return false;
	place->debug = symbol_find_debug(symbols, path, &status);
	if (!place->debug || !symbol_file_address(place->debug->file, file_offset, &address))
		return false;
	place->unit = symbol_debug_unit(place->debug, address);
	if (!place->unit)
		return false;
	symbol_debug_scopes(place->debug, place->unit);
	range = symbol_ranges_find(&place->unit->scopes.ranges, address);
	if (!range)
		return false;
	place->scope = (uint32_t)range->name;
	place->tree = tree_of(place->debug, place->unit);
	return place->tree != NULL;
}

size_t ptah_symbols_inlines(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			    struct ptah_inline *frames, size_t n)
{
	size_t count = 0;
	struct place p;
	Dwarf_Die die;

	if (!frames || !find_inline_place(symbols, path, file_offset, &p))
		return 0;
	for (uint32_t i = p.scope; i != SYMBOL_NO_SCOPE && count < n;
	     i = p.unit->scopes.items[i].parent) {
		const struct symbol_scope *scope = &p.unit->scopes.items[i];

		if (!scope->inlined || !dwarf_offdie(p.tree, scope->die, &die))
			break;
		fill_inline_function(p.debug, p.unit, &die, &frames[count++]);
	}
	return count;
}

bool ptah_symbols_function(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			   struct ptah_inline *function)
{
	const struct symbol_scope *scope;
	struct place p;
	Dwarf_Die die;

	if (!function || !find_inline_place(symbols, path, file_offset, &p))
		return false;
	scope = &p.unit->scopes.items[p.scope];
	while (scope->inlined && scope->parent != SYMBOL_NO_SCOPE)
		scope = &p.unit->scopes.items[scope->parent];
	if (scope->inlined || !dwarf_offdie(p.tree, scope->die, &die))
		return false;
	fill_inline_function(p.debug, p.unit, &die, function);
	return true;
}
