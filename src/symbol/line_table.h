/* SPDX-License-Identifier: MIT */
/* The line number table of one unit of debug information. Internal to the layer symbol. */
#ifndef PTAH_SYMBOL_LINE_TABLE_H
#define PTAH_SYMBOL_LINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a section. `bytes` is NULL where the section is missing. */
struct symbol_section {
	const uint8_t *bytes;
	size_t size;
};

struct symbol_line_sections {
	struct symbol_section lines, line_strings, strings; /* .debug_line, _line_str, _str */
};

/* `size` bytes of code from the address `start` on are of one line. */
struct symbol_row {
	uint64_t start;
	uint32_t size;
	uint32_t file; /* index in the table's files */
	uint32_t line;
	uint16_t column; /* 0: unknown */
	bool statement;
};

/* A file's name and folder. They point into the sections; the folder is NULL if it is not known. */
struct symbol_source {
	const char *name, *folder;
	const char *path; /* both joined (symbol_debug_source()); NULL: not yet */
};

struct symbol_line_table {
	struct symbol_row *rows; /* by ascending addresses; they do not overlap */
	size_t count, room;
	struct symbol_source
	    *files; /* counted from 0 in every version of DWARF: see `first_file` */
	size_t file_count, file_room;
	const char **folders;
	size_t folder_count, folder_room;
	unsigned first_file; /* the number that DWARF gives files[0] */
};

/*
 * Reads the table at `offset` of .debug_line. Code at addresses for which is_code() is false was
 * discarded by the linker, and is left out. Returns 0, PTAH_E_BAD_FILE, PTAH_E_LIMIT or
 * PTAH_E_NOMEM; the table is empty then.
 */
int symbol_line_table_read(const struct symbol_line_sections *sections, uint64_t offset,
			   bool (*is_code)(const void *context, uint64_t address),
			   const void *context, struct symbol_line_table *table);
void symbol_line_table_free(struct symbol_line_table *table);

/* The file with DWARF's number `file`, or NULL. */
struct symbol_source *symbol_line_table_file(const struct symbol_line_table *table, uint64_t file);

#endif
