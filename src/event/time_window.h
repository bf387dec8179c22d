/* SPDX-License-Identifier: MIT */
/*
 * Which items of a stream are inside a window of time, or of instructions. Times of a stream never
 * go back, so the window is one contiguous part: from the first item with a time of `since` or
 * later up to the last one before the first with a time after `until`. Items without a time are
 * inside between the two.
 */
#ifndef PTAH_EVENT_TIME_WINDOW_H
#define PTAH_EVENT_TIME_WINDOW_H

#include <ptah/event.h>

#include <stdbool.h>
#include <stdint.h>

enum time_window_state {
	TIME_WINDOW_BEFORE,
	TIME_WINDOW_INSIDE,
	TIME_WINDOW_AFTER,
};

struct time_window {
	uint64_t since, until; /* TSC; until is the last time inside */
	/*
	 * Numbers of instructions, from 0 on: blocks that have one of [first, last] are inside; the
	 * flow cuts those that have others, too (flow_take_inside()).
	 * `next` is the number of the one that runs next.
	 */
	uint64_t first, last, next;
	/*
	 * The stream consists of traces whose times are in no order: each item is judged by its own
	 * time, and one without a time is outside.
	 */
	bool scattered;
	uint8_t state; /* enum time_window_state */
};

static inline struct time_window time_window_whole(void)
{
	return (struct time_window){
	    .until = UINT64_MAX, .last = UINT64_MAX, .state = TIME_WINDOW_INSIDE};
}

/* Sets the state at the beginning of the decode, when the limits are set. */
static inline void time_window_begin(struct time_window *w)
{
	w->scattered = w->scattered && (w->since || w->until != UINT64_MAX);
	w->state = w->since || w->first ? TIME_WINDOW_BEFORE : TIME_WINDOW_INSIDE;
}

/* Whether each item has to be looked at, because instructions are counted. */
static inline bool time_window_counts(const struct time_window *w)
{
	return w->first || w->last != UINT64_MAX;
}

/* Whether the window has begun, and no item has to be looked at before it ends. */
static inline bool time_window_is_open(const struct time_window *w)
{
	return w->state == TIME_WINDOW_INSIDE && !w->scattered && !time_window_counts(w);
}

/*
 * Whether the next item of the stream is inside: it has this time (0: not known) and executes so
 * many instructions.
 */
static inline bool time_window_takes_next(struct time_window *w, uint64_t tsc, unsigned ninsn)
{
	const uint64_t number = w->next;

	w->next += ninsn;
	if (w->scattered)
		return tsc && tsc >= w->since && tsc <= w->until;
	if (w->state == TIME_WINDOW_BEFORE && (tsc || !w->since) && tsc >= w->since &&
	    w->next > w->first)
		w->state = TIME_WINDOW_INSIDE;
	if (w->state == TIME_WINDOW_INSIDE && (tsc > w->until || number > w->last))
		w->state = TIME_WINDOW_AFTER;
	return w->state == TIME_WINDOW_INSIDE;
}

static inline bool time_window_takes(struct time_window *w, const struct ptah_item *item)
{
	return time_window_takes_next(w, item->tsc,
				      item->type == PTAH_ITEM_BLOCK ? item->ninsn : 0);
}

/* The same without the effect, for what belongs to the next item and is known before it. */
static inline bool time_window_has(const struct time_window *w, uint64_t tsc, unsigned ninsn)
{
	struct time_window copy = *w;

	return time_window_takes_next(&copy, tsc, ninsn);
}

#endif
