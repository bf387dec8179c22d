/* SPDX-License-Identifier: MIT */
/* The table of functions, or of blocks, that `report` and `profile` print. */
#ifndef PTAH_CLI_FUNCTION_TABLE_H
#define PTAH_CLI_FUNCTION_TABLE_H

#include "output/json.h"
#include "output/hotspots.h"

enum table_order {
	TABLE_BY_INSTRUCTIONS,
	TABLE_BY_CALLS,
	TABLE_BY_NAME
};

struct table {
	const struct hotspot *rows;
	size_t count, shown;
	uint64_t total; /* instructions: 100 percent */
	bool blocks;
	bool inlined; /* there may be rows of inlined functions: TSV and JSON say which are */
};

/* Keeps the rows of a function that the user named. Returns how many there are. */
size_t table_keep(struct hotspot *rows, size_t n, struct names *names, const char *function);

void table_sort(struct hotspot *rows, size_t n, enum table_order order);
void table_text(struct out *out, const struct table *table);
void table_tsv(struct out *out, const struct table *table);

/* Writes the array "functions" or "hottest_blocks" into the object that is open. */
void table_json(struct json *j, const struct table *table);

#endif
