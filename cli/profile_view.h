/* SPDX-License-Identifier: MIT */
/* What `ptah profile` prints with. */
#ifndef PTAH_CLI_PROFILE_VIEW_H
#define PTAH_CLI_PROFILE_VIEW_H

#include "function_table.h"
#include "profile_rows.h"
#include "render.h"

/* A row of --by as it is shown. */
struct profile_shown {
	int32_t pid;
	uint64_t from, to, count, taken, unknown, instructions;
	const char *comm, *insn_class, *from_symbol, *to_symbol;
};

struct profile_view {
	const struct input *input;
	enum profile_by by;
	const struct renderer *renderer;
	struct out *out;
	struct json json;
	struct names *names;
	const struct ptah_counts *counts;
	struct ptah_profile_totals totals;
	size_t row_count, shown_count;
	const struct table *functions; /* --by=functions */
};

/* Of branches, blocks and edges, and of functions, whose table `begin` prints at once. */
extern const struct renderer profile_renderers[FORMAT_MAX];
extern const struct renderer profile_function_renderers[FORMAT_MAX];

/* The words of --by; their indices are enum profile_by. */
extern const char *const profile_by_words[];

#endif
