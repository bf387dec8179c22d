/* SPDX-License-Identifier: MIT */
/*
 * The bars of a thread in a window, at any unit: from its levels of detail where these are fine
 * enough, and otherwise from its log.
 */
#ifndef PTAH_VIEW_BARS_H
#define PTAH_VIEW_BARS_H

#include "view/model_internal.h"

/* Depths from here on are left out of answers. */
#define BARS_DEPTH 65536

/* An answer has at most so many bars: with more, its unit gets larger. */
#define BARS_MOST 500000

/* And at most so many units. */
#define BARS_UNITS 65536

enum bars_state {
	BARS_INCOMPLETE = 1 << 0, /* more comes: the recording is still being read */
	BARS_COARSE = 1 << 1,	  /* what was asked for is finer than what is known */
};

struct placed_bar {
	struct bar bar;
	uint32_t depth;
};

struct bars {
	uint64_t unit;
	unsigned state;		 /* enum bars_state */
	struct placed_bar *list; /* by depth, then by place */
	size_t count, capacity;
};

/*
 * What touches [from, to), as levels_read() has it. The caller frees bars->list. 0, PTAH_E_NOMEM or
 * PTAH_E_BAD_FILE.
 */
int view_bars(struct view_model *model, struct view_thread *thread, enum log_axis axis,
	      uint64_t from, uint64_t to, uint64_t unit, struct bars *bars);

/*
 * The same for calls of one function alone. Where the window has too many blocks of the log, a
 * bar is a block, and the unit is the largest block's length.
 */
int view_function_bars(struct view_model *model, struct view_thread *thread, enum log_axis axis,
		       uint64_t from, uint64_t to, uint64_t unit, uint32_t function,
		       struct bars *bars);

/*
 * The same of levels of one depth, without a log: of the finest level where the unit is finer.
 * `now` is a bar that is not in the levels yet, if its calls are not 0.
 */
int view_bars_of_row(const struct levels *levels, uint64_t from, uint64_t to, uint64_t unit,
		     const struct bar *now, struct bars *bars);

/* Writes a tile (answers_bars.c). */
void view_put_bars(struct out *out, const struct bars *bars);

/* Copies the blocks that touch [from, to] to *blocks, which the caller frees. With the lock. */
int view_copy_blocks(const struct view_thread *thread, enum log_axis axis, uint64_t from,
		     uint64_t to, struct log_block **blocks, size_t *count);

/* What the entry says of a call, as flags of a bar. */
uint32_t view_bar_flags(unsigned flags, unsigned how);

#endif
