/* SPDX-License-Identifier: MIT */
/*
 * All that what a flow says next depends on, for where it is at rest: two flows
 * over the same code that are in equal states say the same from there on.
 */
#ifndef PTAH_FLOW_STATE_H
#define PTAH_FLOW_STATE_H

#include "flow/flow_machine.h"

struct flow_state {
	/* At rest, and nothing pending: else states are not comparable. */
	bool plain;
	bool in_tx, enabled_known, enabled;
	uint8_t mode, speculative, event_mode, iflag, ratio;
	uint8_t tsc_error;
	unsigned old_calls, stack_depth;
	uint64_t offset;
	uint64_t ip, last_ip, tsc;
	struct ptah_space told, space; /* by packets; where code is looked up */
	struct event_time time;
	uint64_t sites[STACK_SIZE];
};

void flow_save_state(const struct ptah_flow *f, struct flow_state *state);

/* Without `timed` times may differ: what is said is the same but for them. */
bool flow_same_state(const struct flow_state *a, const struct flow_state *b, bool timed);

#endif
