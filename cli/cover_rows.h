/* SPDX-License-Identifier: MIT */
/* The rows of `ptah cover`: edges, or blocks. */
#ifndef PTAH_CLI_COVER_ROWS_H
#define PTAH_CLI_COVER_ROWS_H

#include "input.h"

/* A block and its end, or an edge. */
struct cover_row {
	int32_t space; /* the session's */
	uint64_t from, to;
	uint64_t count;
	uint16_t ninsn; /* of a block */
	uint8_t insn_class;
};

struct cover_rows {
	struct cover_row *row;
	size_t count, capacity;
	uint64_t errors;
	bool edges;
	const struct ptah_session *session;
};

/* Adds what a stream's profile counted to a struct cover_rows, as input_count() wants it. */
int cover_add_profile(void *rows, const struct ptah_stream_info *info, size_t stream,
		      struct ptah_profile *profile);

/*
 * Sorts the rows and makes one of those that are of the same: several threads of a process, and
 * blocks with different beginnings, have told of it.
 */
void cover_merge(struct cover_rows *rows);

#endif
