/* SPDX-License-Identifier: MIT */
/* Copies the state of a flow that is at rest, and compares two copies. */
#include "flow/state.h"

void flow_save_state(const struct ptah_flow *f, struct flow_state *state)
{
	const struct ptah_event_decoder *d = f->events;

	memset(state, 0, sizeof(*state));
	state->plain = d->plain && f->positioned && flow_is_at_rest(f) && !f->space_waits &&
		       !f->gap_begun && !f->has_held && !f->has_proven && !f->no_tnt_at;
	state->in_tx = d->in_tx;
	state->enabled_known = d->enabled_known;
	state->enabled = d->enabled;
	state->mode_known = d->mode_known;
	state->lost_return = f->lost_return;
	state->mode = f->mode;
	state->speculative = f->speculative;
	state->event_mode = d->mode;
	state->iflag = d->iflag;
	state->ratio = d->ratio;
	state->tsc_error = d->tsc_error;
	state->old_calls = f->old_calls;
	/* Without compressed returns nothing depends on the stack, and rows do not keep it. */
	state->stack_depth = f->no_retcomp ? 0 : f->stack_depth;
	state->offset = event_offset(d, d->pos);
	state->ip = f->node ? f->node->ip : f->ip;
	/* Only a flow that continues after missing code uses it, and only then all paths keep it.
	 */
	if (f->resync && f->far_known && f->far_to == state->ip)
		state->far_back = f->far_back;
	state->last_ip = d->last_ip;
	state->tsc = d->tsc;
	state->named = f->space;
	state->space = f->code.spaces[f->code.space];
	memcpy(&state->time, &d->time, sizeof(state->time));
	for (unsigned i = 0; i < state->stack_depth; i++)
		state->sites[i] = f->stack[(f->stack_top - 1 - i) % STACK_SIZE].ip;
}

static bool same_space(const struct ptah_space *a, const struct ptah_space *b)
{
	return a->cr3 == b->cr3 && a->vmcs == b->vmcs;
}

bool flow_same_state(const struct flow_state *a, const struct flow_state *b, bool timed)
{
	if (!a->plain || !b->plain)
		return false;
	/*
	 * memcmp() is safe: padding inside event_time is copied with it, and is 0 from the start.
	 */
	if (timed && (a->tsc != b->tsc || a->tsc_error != b->tsc_error ||
		      memcmp(&a->time, &b->time, sizeof(a->time)) != 0))
		return false;
	return a->in_tx == b->in_tx && a->enabled_known == b->enabled_known &&
	       a->enabled == b->enabled && a->mode_known == b->mode_known &&
	       a->lost_return == b->lost_return && a->mode == b->mode &&
	       a->speculative == b->speculative && a->event_mode == b->event_mode &&
	       a->iflag == b->iflag && a->ratio == b->ratio && a->old_calls == b->old_calls &&
	       a->stack_depth == b->stack_depth && a->offset == b->offset && a->ip == b->ip &&
	       a->far_back == b->far_back && a->last_ip == b->last_ip &&
	       same_space(&a->named, &b->named) && same_space(&a->space, &b->space) &&
	       !memcmp(a->sites, b->sites, sizeof(a->sites));
}
