/* SPDX-License-Identifier: MIT */
/*
 * Execution continues at an address, and how it got there was not seen: after a loss, after code
 * that is filtered out or missing, at the beginning of a trace.
 */
#include "calls/internal.h"
#include "calls/summary.h"

/* Ends the calls above the lowest that follows a gap, and that one. */
static void forget_gaps(struct calls_machine *m)
{
	calls_forget_folded(m);
	while (m->gaps)
		calls_drop(m, PTAH_CALL_END_LOST, 0);
}

static void drop_to(struct calls_machine *m, uint32_t depth)
{
	calls_forget_folded(m);
	while (calls_depth(m) > depth)
		calls_drop(m, PTAH_CALL_END_LOST, 0);
}

void calls_resume(struct calls_machine *m, uint64_t ip)
{
	struct calls_entry *e;
	uint32_t index;

	if (m->folded && calls_return_folded(m, ip))
		return;
	e = calls_lookup(m, ip);
	/* It had been entered, and nothing of it has run. */
	if (calls_is_entry(e) && m->end == ip && calls_is_same(m->top, e))
		return;
	if (!calls_is_entry(e)) {
		if (calls_is_same(m->top, e)) {
			calls_set_piece(m->top, e);
			return;
		}
		index = calls_find_site(m, calls_depth(m), ip, true);
		if (index) {
			drop_to(m, index);
			calls_returned(m, 0);
			if (m->top->state & CALLS_BOTTOM)
				calls_begin_running(m, calls_lookup(m, ip), 0);
			else
				calls_settle(m, ip);
			return;
		}
		index = calls_find_function(m, calls_depth(m), e);
		if (!index && !calls_has_bounds(e) && m->top->flags & PTAH_CALL_NO_BOUNDS &&
		    !(m->top->state & CALLS_BOTTOM))
			index = calls_depth(m);
		if (index) {
			drop_to(m, index);
			calls_set_piece(m->top, e);
			return;
		}
	}
	if (m->folded)
		return;
	if (m->gaps >= CALLS_MAX_GAPS)
		forget_gaps(m);
	calls_begin_running(m, e, m->top->state & CALLS_BOTTOM ? 0 : CALLS_AFTER_GAP);
}

void calls_continue(struct calls_machine *m, uint64_t ip)
{
	const unsigned pending = m->pending;

	if (m->summary && summary_continue(m, ip))
		return;
	m->pending = 0;
	m->crossed = false;
	switch (pending) {
	case CALLS_PENDING_ASYNC:
		calls_back_from_kernel(m, ip, m->end, false);
		break;
	case PTAH_INSN_FAR_CALL:
		calls_back_from_kernel(m, ip, m->end, true);
		break;
	case CALLS_PENDING_INTERRUPT:
		calls_enter_kernel(m, PTAH_CALL_INTERRUPT, m->site, m->site, ip);
		break;
	case CALLS_PENDING_VM_EXIT:
		calls_leave_guest(m, ip);
		break;
	default:
		calls_resume(m, ip);
	}
	m->entered = false;
}
