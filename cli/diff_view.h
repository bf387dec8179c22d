/* SPDX-License-Identifier: MIT */
/* The state and the renderers of `ptah diff`. */
#ifndef PTAH_CLI_DIFF_VIEW_H
#define PTAH_CLI_DIFF_VIEW_H

#include "diff_run.h"
#include "output/fields.h"
#include "render.h"

/* Sums of rows. */
struct diff_sums {
	uint64_t rows, value[DIFF_SIDES];
};

struct diff_view {
	const struct input *input;
	enum diff_by by;
	struct out *out;
	struct json json;
	const struct diff_run *runs; /* DIFF_SIDES of them */
	const struct diff_row *rows; /* those that are not ignored */
	size_t count, shown;
	const struct diff_pair *renamed;
	size_t renamed_count;
	struct diff_sums all, ignored;
};

/* `begin` prints everything. */
extern const struct renderer diff_renderers[FORMAT_MAX];

/* By how many percent `new` is more than `old`; infinite where `old` is 0 and `new` is not. */
double diff_percent(uint64_t old, uint64_t new);

/* The words of --by, in the order of enum diff_by. */
extern const char *const diff_by_words[];

#endif
