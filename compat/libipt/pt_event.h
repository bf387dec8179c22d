/* SPDX-License-Identifier: MIT */
/*
 * Turns Ptah's items into libipt's events. The items must come from a decoder with `unchanged`:
 * libipt reports every MODE.Exec and CBR, and each packet of a PSB+.
 */
#ifndef PTAH_LIBIPT_PT_EVENT_H
#define PTAH_LIBIPT_PT_EVENT_H

#include "pt_config.h"

/*
 * An item becomes at most one event. A PSB+ has at most 16 packets of two items each, and its own
 * item.
 */
#define EVENT_MAX 40

/* What a decoder must remember from item to item. All 0 at the beginning. */
struct event_state {
	/*
	 * Events of pt_evt_*, which libipt 2.0 did not have, and which the older functions do not
	 * report: changes of the mode instead of each MODE.Exec, whether tracing is on at a PSB+,
	 * the time of all events, branches.
	 */
	bool current;
	bool has_mode, has_iflag;
	uint8_t mode; /* the last enum ptah_exec_mode reported */
	bool iflag;   /* the last one reported */
};

/*
 * Makes libipt's event of an item: true and *event (72 bytes, zero where nothing is known). False:
 * libipt reports none.
 */
bool event_make(struct pt_event *event, struct event_state *state, const struct ptah_item *item);

/* Copies an event to the caller's struct of `size` bytes. */
void event_copy_out(struct pt_event *to, size_t size, const struct pt_event *event);

#endif
