/* SPDX-License-Identifier: MIT */
/*
 * Everything that a flow's next items depend on, while it is at rest: two flows over the same code
 * whose states are equal report the same items from there on.
 */
#ifndef PTAH_FLOW_STATE_H
#define PTAH_FLOW_STATE_H

#include "flow/flow_machine.h"

struct flow_state {
	/* At rest and nothing pending: otherwise states cannot be compared. */
	bool plain;
	bool in_tx, enabled_known, enabled, mode_known;
	int16_t lost_return;
	uint8_t mode, speculative, event_mode, iflag, ratio;
	uint8_t tsc_error;
	unsigned old_calls, stack_depth;
	uint64_t offset;
	uint64_t ip, last_ip, tsc;
	uint64_t far_back;		/* 0, unless the place was reached by a far transfer */
	struct ptah_space named, space; /* as packets named it; in which code is looked up */
	struct event_time time;
	uint64_t sites[STACK_SIZE];
};

/* ptah_flow_seek(), to a place as for event_restart(). */
void flow_restart(struct ptah_flow *f, uint64_t offset);

void flow_save_state(const struct ptah_flow *f, struct flow_state *state);

/* Without `timed` the times may differ; then the items are equal but for their times. */
bool flow_same_state(const struct flow_state *a, const struct flow_state *b, bool timed);

/* The clocks at the flow's position. */
void flow_get_time(const struct ptah_flow *flow, struct ptah_time *time);

/*
 * Makes the flow pause before time `tsc`: once the trace reaches a time stamp at
 * or after it, and everything before has been reported, read() returns 0 and
 * flow_is_paused() is true. There the caller changes the image to what it was
 * at that time, and sets a later limit (UINT64_MAX: none) to continue.
 */
void flow_set_time_limit(struct ptah_flow *flow, uint64_t tsc);
bool flow_is_paused(const struct ptah_flow *flow);

#endif
