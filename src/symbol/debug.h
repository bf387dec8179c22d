/* SPDX-License-Identifier: MIT */
/*
 * The debug information of one file: its units by address, their line tables and inlined functions.
 * Internal to the layer symbol.
 */
#ifndef PTAH_SYMBOL_DEBUG_H
#define PTAH_SYMBOL_DEBUG_H

#include "symbol/elf.h"
#include "symbol/line_table.h"

#include <elfutils/libdw.h>

/* How much may still be read of the lists of ranges that entries refer to (range_lists.c). */
struct symbol_range_lists {
	struct symbol_section sections[2]; /* .debug_ranges, .debug_rnglists */
	uint64_t left;			   /* bytes */
};

void symbol_range_lists_init(struct symbol_range_lists *lists, Dwarf *dwarf);

/* To be called before dwarf_ranges(). False: too much has been read. */
bool symbol_range_lists_take(struct symbol_range_lists *lists, Dwarf_Die *die);

/* A function, or one that was inlined in it. */
struct symbol_scope {
	Dwarf_Off die;
	uint32_t parent; /* index of the scope around it; SYMBOL_NO_SCOPE: none */
	bool inlined;
};
#define SYMBOL_NO_SCOPE UINT32_MAX

struct symbol_scopes {
	bool read;
	bool split; /* in a file of its own, a .dwo */
	struct symbol_scope *items;
	size_t count, room;
	struct symbol_ranges ranges; /* disjoint; `name` is the index of the innermost scope */
};

/* A unit with code. Its tables are read when they are needed. */
struct symbol_unit {
	Dwarf_Off die;
	bool lines_read;
	int lines_status;
	struct symbol_line_table lines;
	struct symbol_scopes scopes;
	uint64_t used; /* when it was last used, for making room */
};

struct symbol_debug {
	int status; /* of ptah_symbols_lines(): why there is no debug information */
	char *path; /* of the file that has it */
	struct symbol_elf elf, alt_elf;
	Dwarf *dwarf, *alt;
	struct symbol_line_sections sections;
	struct symbol_unit *units;
	size_t unit_count, unit_room;
	struct symbol_ranges ranges; /* disjoint; `name` is the index of the unit */
	const struct symbol_file *file;
	struct symbol_pool *pool;
	uint64_t clock;
	size_t rows; /* of all tables in memory */
};

/* Reads which units there are (debug.c). `file` must live as long as `debug`. Returns
 * debug->status. */
int symbol_debug_read(const char *path, const struct symbol_folders *folders,
		      const struct symbol_file *file, struct symbol_pool *pool,
		      struct symbol_debug *debug);
void symbol_debug_free(struct symbol_debug *debug);

/* The unit with the code at `address`, or NULL. */
struct symbol_unit *symbol_debug_unit(struct symbol_debug *debug, uint64_t address);

/* The line table of a unit (debug.c), or NULL: unit->lines_status is then not 0. */
const struct symbol_line_table *symbol_debug_lines(struct symbol_debug *debug,
						   struct symbol_unit *unit);

/* The name of the source file with the number `file` in a unit's table, with its folder; or NULL.
 */
const char *symbol_debug_source(struct symbol_debug *debug, struct symbol_unit *unit,
				uint64_t file);

/* Reads the functions of a unit (scopes.c). */
void symbol_debug_scopes(struct symbol_debug *debug, struct symbol_unit *unit);
void symbol_scopes_free(struct symbol_scopes *scopes);

/* Strings, each kept once, for as long as the resolver lives (pool.c). */
struct symbol_pool *symbol_pool_new(void);
void symbol_pool_free(struct symbol_pool *pool);

/* The copy of `text`, without characters that a terminal would obey. NULL: no memory, or too much.
 */
const char *symbol_pool_keep(struct symbol_pool *pool, const char *text);

#endif
