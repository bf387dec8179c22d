/* SPDX-License-Identifier: MIT */
/*
 * Ptah's items as libipt's events. The items must come of a decoder with
 * `unchanged`: libipt tells each MODE.Exec and CBR, and of a PSB+ what its
 * packets say.
 */
#ifndef PTAH_LIBIPT_PT_EVENT_H
#define PTAH_LIBIPT_PT_EVENT_H

#include "pt_config.h"

/* An item becomes one event at most; a PSB+ is 16 packets, two items each, and itself. */
#define EVENT_MAX 40

/* What a decoder must remember between items; all 0 to begin with. */
struct event_state {
	/*
	 * What pt_evt_* tell, which libipt 2.0 did not have, and not what the older
	 * functions do: changes of the mode instead of each MODE.Exec, whether a PSB+
	 * finds tracing on, the time of all events, branches.
	 */
	bool current;
	bool has_mode, has_iflag;
	uint8_t mode; /* enum ptah_exec_mode last told */
	bool iflag;   /* the same */
};

/* What libipt tells of an item: true and *event (72 bytes, zeroed where nothing is said). */
bool event_make(struct pt_event *event, struct event_state *state, const struct ptah_item *item);

/* An event to the caller, whose struct has `size` bytes. */
void event_copy_out(struct pt_event *to, size_t size, const struct pt_event *event);

#endif
