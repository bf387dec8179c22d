/* SPDX-License-Identifier: MIT */
/* The rows of `ptah profile`: branches, blocks or edges, added up and sorted. */
#ifndef PTAH_CLI_PROFILE_ROWS_H
#define PTAH_CLI_PROFILE_ROWS_H

#include "input.h"

#include <ptah/counts.h>

enum profile_by {
	BY_BRANCHES,
	BY_BLOCKS,
	BY_EDGES,
	BY_FUNCTIONS
};

/* A conditional branch and its target, a block and its end, or an edge. */
struct profile_row {
	int32_t pid;
	uint32_t process; /* its index in the counts */
	const char *comm;
	uint64_t from, to;
	uint64_t count;
	uint64_t taken;	       /* branches */
	uint64_t unknown;      /* branches */
	uint64_t instructions; /* blocks: how many were executed in all */
	uint8_t insn_class;
	uint64_t version, target_version; /* of the code at `from` and, but for a block, at `to` */
};

struct profile_rows {
	struct profile_row *row;
	size_t count, capacity;
};

/*
 * Collects the rows of all processes: each branch, block or edge once, the most frequent first. The
 * caller frees rows->row. Returns 0 or an error.
 */
int profile_rows(const struct ptah_counts *counts, enum profile_by by, struct profile_rows *rows);

#endif
