/* SPDX-License-Identifier: MIT */
/* Coverage as `ptah cover` and `ptah live` write it: rows of edges or blocks. */
#ifndef PTAH_CLI_COVER_ROWS_H
#define PTAH_CLI_COVER_ROWS_H

#include "input.h"

#include "output/names.h"
#include "output/out.h"

/* A block (from its first address to its end), or an edge. */
struct cover_row {
	int32_t space; /* the address space, as the session numbers them */
	uint64_t from, to;
	uint64_t count;
	uint16_t ninsn; /* of a block: its instructions */
	uint8_t insn_class;
	uint64_t version, target_version; /* of the code at `from` and, of an edge, at `to` */
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

/* The formats, in the order of cover_format_names. */
enum cover_format {
	COVER_EDGES,
	COVER_BLOCKS,
	COVER_DRCOV,
	COVER_BITMAP,
	COVER_PROCESSES, /* a table (export/cover_table.h), which is not made of rows */
};

extern const char *const cover_format_names[];

struct cover_output {
	int format;
	uint64_t map_size;
	bool quiet;
};

/*
 * Writes rows, which cover_merge() has sorted; of edges or blocks as the format needs them. `names`
 * may be NULL but for COVER_DRCOV. 0 or an error.
 */
int cover_write(const struct cover_output *output, struct out *out, struct names *names,
		const struct cover_rows *rows);

/* Adds the counts of edges to a bitmap of hit counts, which may have others already. */
void cover_fill_bitmap(uint8_t *bitmap, size_t size, const struct cover_rows *rows);

#endif
