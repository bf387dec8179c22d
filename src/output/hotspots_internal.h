/* SPDX-License-Identifier: MIT */
/* The table of counts that hotspots.c fills and hotspot_rows.c lists. */
#ifndef PTAH_OUTPUT_HOTSPOTS_INTERNAL_H
#define PTAH_OUTPUT_HOTSPOTS_INTERNAL_H

#include "output/hotspots.h"

#include <string.h>

/* The counts of one block of one process. ninsn 0: the cell is free. */
struct cell {
	uint64_t ip, end;
	uint64_t executions;
	uint64_t instructions;
	uint64_t entered; /* by call instructions */
	uint64_t taken;	  /* the conditional branch that ends the block was */
	uint64_t to;	  /* the target of the direct branch that ends the block; 0: none does */
	uint64_t version, to_version; /* of the code, and that at `to` */
	int32_t pid;
	uint32_t ninsn;
	uint8_t mode;	    /* enum ptah_exec_mode */
	uint8_t insn_class; /* enum ptah_insn_class */
};

struct hotspots {
	struct hotspot_totals totals;
	struct cell *cells;
	size_t capacity, count;
};

/*
 * Divides rows of blocks at the functions' ends. The array may be another one then, which the
 * caller frees, also after an error.
 */
int hotspots_split(struct names *names, struct hotspot **rows, size_t *n);

/* As strcmp(); NULL comes first. */
static inline int compare_texts(const char *a, const char *b)
{
	if (a == b)
		return 0;
	return a && b ? strcmp(a, b) : a ? 1 : -1;
}

#endif
