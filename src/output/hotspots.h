/* SPDX-License-Identifier: MIT */
/* Exact counts by block and by function, added up over the streams of a session. */
#ifndef PTAH_OUTPUT_HOTSPOTS_H
#define PTAH_OUTPUT_HOTSPOTS_H

#include "output/names.h"

struct hotspots;

struct hotspot_totals {
	uint64_t streams, bytes, lost_bytes;
	uint64_t instructions, blocks, branches, errors, overflows, gaps;
};

struct hotspot {
	struct name name;
	int32_t pid;	/* of one of the processes that it is of */
	uint64_t ip;	/* of the block, or where the function begins; the lowest of several */
	uint32_t size;	/* block: bytes */
	uint32_t ninsn; /* block: instructions */
	uint8_t mode;	/* block: enum ptah_exec_mode */
	bool inlined;	/* function: the compiler put it into others, and its calls are not known */
	uint64_t executions, instructions;
	uint64_t
	    calls; /* function: as docs/glossary.md has it; block: entered by call instructions */
	/* Block: the target of the direct branch that ends it, and how often that went there. */
	uint64_t to, to_count;
	bool to_call; /* block: that branch is a call */
	bool runs_on; /* block: the end of one that began in the function before this one */
	uint64_t version, to_version; /* block: of its code, and that at `to` (profile.h) */
};

int hotspots_new(struct hotspots **counter);
void hotspots_free(struct hotspots *counter);

/* Adds the profile of a stream. */
struct hotspot_source {
	const struct ptah_session *session;
	size_t stream;
};

int hotspots_add(struct hotspots *counter, const struct hotspot_source *source,
		 const struct ptah_stream_info *info, struct ptah_profile *profile);

/* Adds lists in ascending order, as profiles and counts have them. */
int hotspots_add_lists(struct hotspots *counter, int32_t pid,
		       const struct ptah_profile_block *blocks, size_t block_count,
		       const struct ptah_profile_edge *edges, size_t edge_count);

/* Adds counts. The pid of each process is its number in them, as for names_use_counts(). */
int hotspots_add_counts(struct hotspots *counter, const struct ptah_counts *counts);

const struct hotspot_totals *hotspots_totals(const struct hotspots *counter);

/*
 * One row for each block or function of a file, wherever the file was mapped and in however many
 * processes. List the rows in no particular order. The caller frees *rows. */
int hotspots_blocks(const struct hotspots *counter, struct names *names, struct hotspot **rows,
		    size_t *n);
int hotspots_functions(const struct hotspots *counter, struct names *names, struct hotspot **rows,
		       size_t *n);

/* The same with a row of its own for each function that was inlined; see inlined.h. */
int hotspots_functions_inlined(const struct hotspots *counter, struct names *names,
			       struct hotspot **rows, size_t *n);

#endif
