/* SPDX-License-Identifier: MIT */
/*
 * The table of functions and lines that Go's programs have for their own use (.gopclntab), also
 * when they are stripped. Internal to the layer symbol.
 */
#ifndef PTAH_SYMBOL_GO_H
#define PTAH_SYMBOL_GO_H

#include "symbol/ranges.h"

#include <gelf.h>

/* The layout has changed with these versions of Go. */
enum symbol_go_version {
	SYMBOL_GO_1_2,
	SYMBOL_GO_1_16,
	SYMBOL_GO_1_18,
	SYMBOL_GO_1_20,
};

struct symbol_go {
	const uint8_t *bytes; /* the table; its owner is the caller */
	size_t size;
	enum symbol_go_version version;
	uint64_t count; /* of functions */
	uint64_t text;	/* 1.18 and later: addresses are relative to it */
	/* Offsets in the table. */
	uint64_t functions, names, units, files, values;
};

/* Reads the header of a table. `text`: used where the linker left it out. False: it is none. */
bool symbol_go_open(struct symbol_go *go, const uint8_t *bytes, size_t size, uint64_t text);

/* Finds the table of a file. False: there is none. The bytes live as long as `elf`. */
bool symbol_go_find(Elf *elf, struct symbol_go *go);

/* Adds a range with a name for each function. */
void symbol_go_add(const struct symbol_go *go, struct symbol_ranges *ranges,
		   struct symbol_names *names);

/* Code of one line: [start, end). */
struct symbol_go_line {
	uint64_t start, end;
	const char *file; /* in the table, or NULL */
	uint32_t line;
};

/* The line of the code at an address. False: not known. */
bool symbol_go_line(const struct symbol_go *go, uint64_t address, struct symbol_go_line *line);

/*
 * Visits the lines of the code in [start, end), in ascending order and cut off there. 0, or
 * PTAH_E_LIMIT when functions refer to more values than the table can have without repeating them.
 */
int symbol_go_lines(const struct symbol_go *go, uint64_t start, uint64_t end,
		    bool (*visit)(void *context, const struct symbol_go_line *line), void *context);

#endif
