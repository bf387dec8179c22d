/* SPDX-License-Identifier: MIT */
/* Exact counts per block and function, put together from streams that were counted. */
#ifndef PTAH_OUTPUT_PROFILE_H
#define PTAH_OUTPUT_PROFILE_H

#include "output/names.h"

struct profile_counter;

struct profile_totals {
	uint64_t streams, bytes, lost_bytes;
	uint64_t instructions, blocks, branches, errors, overflows, gaps;
};

struct profile_row {
	struct name name;
	uint64_t ip;	/* of the block, or where the function begins */
	uint32_t size;	/* block: bytes */
	uint32_t ninsn; /* block: instructions */
	uint64_t executions, instructions, calls;
	uint64_t jumps; /* block: entered by an indirect jump */
	uint64_t to;	/* block: where its direct jump goes; 0: it ends otherwise */
};

int profile_new(struct profile_counter **counter);
void profile_free(struct profile_counter *counter);

/* Adds what a stream's profile counted, to the processes that ran. */
struct profile_source {
	const struct ptah_session *session;
	size_t stream;
};

int profile_add(struct profile_counter *counter, const struct profile_source *source,
		const struct ptah_stream_info *info, struct ptah_profile *profile);

/* The same of lists in ascending order, as profiles and counts have them. */
int profile_add_lists(struct profile_counter *counter, int32_t pid,
		      const struct ptah_profile_block *blocks, size_t block_count,
		      const struct ptah_profile_edge *edges, size_t edge_count);

const struct profile_totals *profile_totals(const struct profile_counter *counter);

/* Rows in no order; free() them. */
int profile_blocks(const struct profile_counter *counter, struct names *names,
		   struct profile_row **rows, size_t *n);
int profile_functions(const struct profile_counter *counter, struct names *names,
		      struct profile_row **rows, size_t *n);

#endif
