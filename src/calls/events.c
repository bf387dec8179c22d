/* SPDX-License-Identifier: MIT */
/* Items that are no blocks: where tracing stopped and continued, interrupts, and losses. */
#include "calls/internal.h"
#include "calls/summary.h"

static bool is_near(unsigned pending)
{
	return pending <= PTAH_INSN_RETURN || pending == PTAH_INSN_PTWRITE;
}

/* Every event carries a time; it passes after what was pending. */
static void pass_time(struct calls_machine *m, const struct ptah_item *item)
{
	calls_at_time(m, item->tsc, item->tsc_error, item->offset);
}

/* Execution has reached `ip`, and nothing there has run yet. */
static void reach(struct calls_machine *m, uint64_t ip)
{
	calls_arrive(m, m->sink, ip);
	m->pending = 0;
	m->end = ip;
}

/* A return to where nothing is traced. */
static void return_out(struct calls_machine *m)
{
	if (m->folded)
		calls_forget_folded(m);
	if (!(m->top->state & CALLS_BOTTOM))
		calls_returned(m, m->site);
}

/*
 * Tracing stopped at the branch that is pending. A near branch leaves the code that is traced; a
 * far one enters or leaves the kernel, and what it was shows when tracing continues.
 */
static void disabled(struct calls_machine *m, const struct ptah_item *item)
{
	const bool known = !(item->flags & PTAH_ITEM_IP_SUPPRESSED);

	if (is_near(m->pending) && !m->crossed) {
		if (known)
			reach(m, item->to);
		else if (m->pending == PTAH_INSN_RETURN)
			return_out(m);
		m->pending = CALLS_PENDING_OFF;
	}
	pass_time(m, item);
	if (m->pending == PTAH_INSN_FAR_RETURN && !m->non_root)
		calls_leave_kernel(m);
	m->crossed = m->off = true;
}

static void async_disabled(struct calls_machine *m, const struct ptah_item *item)
{
	reach(m, item->ip);
	pass_time(m, item);
	m->pending = CALLS_PENDING_ASYNC;
	m->crossed = m->off = true;
}

static void async_branch(struct calls_machine *m, const struct ptah_item *item)
{
	if (m->aborted) {
		/* A transaction was aborted: execution continues where it says. */
		m->pending = CALLS_PENDING_OFF;
		m->aborted = false;
	} else {
		reach(m, item->ip);
		pass_time(m, item);
		m->site = item->ip;
		m->pending = CALLS_PENDING_INTERRUPT;
	}
}

/* Entries into a guest precede the branch, exits follow it. */
static void paging(struct calls_machine *m, const struct ptah_item *item)
{
	const bool non_root = item->flags & PTAH_ITEM_NON_ROOT;

	if (m->guest && m->non_root && !non_root &&
	    (m->pending == CALLS_PENDING_INTERRUPT || m->pending == CALLS_PENDING_ASYNC))
		m->pending = CALLS_PENDING_VM_EXIT;
	m->non_root = non_root;
}

/* Something was not seen from here on. */
static void lose(struct calls_machine *m)
{
	m->losses++;
	m->pending = CALLS_PENDING_LOST;
	m->crossed = m->aborted = m->entered = false;
	m->skip_time = true;
}

void calls_lost(struct calls_machine *m)
{
	if (m->pending != CALLS_PENDING_START)
		lose(m);
}

static void error(struct calls_machine *m, const struct ptah_item *item)
{
	if (m->pending != CALLS_PENDING_START) {
		/* The branch before missing code went there. */
		if (item->status == PTAH_E_NO_CODE && item->ip && !m->crossed &&
		    is_near(m->pending))
			reach(m, item->ip);
		pass_time(m, item);
		lose(m);
		/* Missing code calls what follows. A loop may begin with a function's first
		 * instruction: after other losses it may have run before. */
		m->entered = item->status == PTAH_E_NO_CODE;
	}
}

void calls_event(struct calls_machine *m, const struct ptah_item *item)
{
	if (m->summary && summary_event(m, item))
		return;
	switch (item->type) {
	case PTAH_ITEM_TICK:
		m->cycles = item->cycles;
		break;
	case PTAH_ITEM_ENABLED:
		pass_time(m, item);
		m->off = false;
		m->entered = true;
		break;
	case PTAH_ITEM_PSB:
		/* Nothing is pending whose time this would change. */
		if (m->pending == CALLS_PENDING_START || m->pending == CALLS_PENDING_LOST)
			pass_time(m, item);
		break;
	case PTAH_ITEM_DISABLED:
		if (m->pending != CALLS_PENDING_START)
			disabled(m, item);
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		async_disabled(m, item);
		break;
	case PTAH_ITEM_ASYNC_BRANCH:
		async_branch(m, item);
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_ASYNC_PAGING:
		paging(m, item);
		break;
	case PTAH_ITEM_TSX:
		m->aborted = item->flags & PTAH_ITEM_ABORTED;
		break;
	case PTAH_ITEM_OVERFLOW:
		calls_lost(m);
		pass_time(m, item);
		m->off = item->flags & PTAH_ITEM_IP_SUPPRESSED;
		break;
	case PTAH_ITEM_GAP:
		calls_lost(m);
		break;
	case PTAH_ITEM_ERROR:
		error(m, item);
		break;
	default:
		break;
	}
}

void calls_event_span(struct calls_machine *m, const struct ptah_span *span)
{
	const struct ptah_item item = flow_span_event(span);

	calls_event(m, &item);
}

void calls_exec(struct calls_machine *m, uint64_t tsc)
{
	if (tsc > m->now.tsc)
		calls_set_time(m, tsc, m->cycles);
	calls_end(m, PTAH_CALL_END_EXEC);
	calls_forget_code(m);
}
