/* SPDX-License-Identifier: MIT */
/* The rows of `ptah cover`: edges, or blocks. */
#ifndef PTAH_CLI_COVER_ROWS_H
#define PTAH_CLI_COVER_ROWS_H

#include "input.h"

/* A block (from its first address to its end), or an edge. */
struct cover_row {
	int32_t space; /* the address space, as the session numbers them */
	uint64_t from, to;
	uint64_t count;
	uint16_t ninsn; /* of a block: its instructions */
	uint8_t insn_class;
};

struct cover_rows {
	struct cover_row *row;
	size_t count, capacity;
	uint64_t errors;
	bool edges;
	const struct ptah_session *session;
};

/* Adds a stream's profile to the struct cover_rows `rows`; a callback of input_count(). */
int cover_add_profile(void *rows, const struct ptah_stream_info *info, size_t stream,
		      struct ptah_profile *profile);

/*
 * Sorts the rows and adds up those of the same edge or block, which several threads of a process,
 * and blocks with different beginnings, have counted.
 */
void cover_merge(struct cover_rows *rows);

#endif
