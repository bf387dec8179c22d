/* SPDX-License-Identifier: MIT */
/* The state and the renderers of `ptah profile`. */
#ifndef PTAH_CLI_PROFILE_VIEW_H
#define PTAH_CLI_PROFILE_VIEW_H

#include "function_table.h"
#include "profile_rows.h"
#include "render.h"

/* A branch, block or edge as it is shown. */
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
	struct names_kernel kernel;
	const struct ptah_counts *counts;
	struct ptah_profile_totals totals;
	size_t row_count, shown_count;
	const struct table *functions; /* --by=functions */
};

/* For --by=branches, blocks and edges; and for functions, whose whole table `begin` prints. */
extern const struct renderer profile_renderers[FORMAT_MAX];
extern const struct renderer profile_function_renderers[FORMAT_MAX];

/* The words of --by, in the order of enum profile_by. */
extern const char *const profile_by_words[];

#endif
