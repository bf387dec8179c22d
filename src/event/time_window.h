/* SPDX-License-Identifier: MIT */
/*
 * Which items of a stream are inside a window of time. Times of a stream never go back, so the
 * window is one contiguous part: from the first item with a time of `since` or later up to the last
 * one before the first with a time after `until`. Items without a time are inside between the two.
 */
#ifndef PTAH_EVENT_TIME_WINDOW_H
#define PTAH_EVENT_TIME_WINDOW_H

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
	 * The stream consists of traces whose times are in no order: each item is judged by its own
	 * time, and one without a time is outside.
	 */
	bool scattered;
	uint8_t state; /* enum time_window_state */
};

static inline void time_window_begin(struct time_window *w, uint64_t since, uint64_t until,
				     bool scattered)
{
	w->since = since;
	w->until = until;
	w->scattered = scattered && (since || until != UINT64_MAX);
	w->state = since ? TIME_WINDOW_BEFORE : TIME_WINDOW_INSIDE;
}

/* Whether an item with this time (0: not known) is inside, after those that were passed before. */
static inline bool time_window_takes(struct time_window *w, uint64_t tsc)
{
	if (w->scattered)
		return tsc && tsc >= w->since && tsc <= w->until;
	if (w->state == TIME_WINDOW_BEFORE && tsc && tsc >= w->since)
		w->state = TIME_WINDOW_INSIDE;
	if (w->state == TIME_WINDOW_INSIDE && tsc > w->until)
		w->state = TIME_WINDOW_AFTER;
	return w->state == TIME_WINDOW_INSIDE;
}

/* The same without the effect: for what belongs to an item that has not been passed yet. */
static inline bool time_window_has(const struct time_window *w, uint64_t tsc)
{
	struct time_window copy = *w;

	return time_window_takes(&copy, tsc);
}

#endif
