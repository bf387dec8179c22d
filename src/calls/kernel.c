/* SPDX-License-Identifier: MIT */
/*
 * Entries into the kernel and returns from it. Where the kernel is not traced, a return to another
 * address than expected is how a signal handler begins, and how rt_sigreturn ends it.
 */
#include "calls/internal.h"
#include "calls/summary.h"

static struct calls_frame *innermost(struct calls_machine *m, unsigned state)
{
	struct calls_frame *f = m->special ? &m->frames[m->special] : NULL;

	return f && f->state & state ? f : NULL;
}

void calls_enter_kernel(struct calls_machine *m, enum ptah_call_begin how, uint64_t site,
			uint64_t return_site, uint64_t to)
{
	const struct calls_begin begin = {
	    .how = how,
	    .state = CALLS_KERNEL,
	    .return_site = return_site,
	    .site = site,
	};

	if (m->folded)
		calls_fold(m, return_site);
	else if (calls_begin(m, calls_lookup(m, to), &begin))
		m->top->after_syscall = how == PTAH_CALL_SYSCALL;
}

/* Signals */

static void begin_handler(struct calls_machine *m, const struct calls_entry *e,
			  uint64_t interrupted, bool syscall)
{
	const struct calls_begin begin = {
	    .how = PTAH_CALL_SIGNAL,
	    .state = CALLS_SIGNAL,
	    .return_site = interrupted,
	    .site = interrupted,
	};

	if (calls_begin(m, e, &begin))
		m->top->after_syscall = syscall;
}

/* Ends the innermost handler, and what is above it. What is above returned by system call. */
static void end_handler(struct calls_machine *m)
{
	const uint32_t depth = m->special - 1;

	if (calls_depth(m) > depth)
		calls_drop(m, PTAH_CALL_END_RETURN, m->site);
	calls_unwind(m, depth, m->site);
}

bool calls_return_from_handler(struct calls_machine *m, uint64_t site, uint64_t to)
{
	uint32_t i = calls_depth(m);
	struct calls_frame f;
	struct calls_begin begin = {
	    .how = PTAH_CALL_TAIL, .flags = PTAH_CALL_RESTORER, .site = site};

	while (m->frames[i].state & CALLS_TAILED)
		i--;
	f = m->frames[i];
	if (!(f.state & CALLS_SIGNAL) || f.flags & PTAH_CALL_RESTORER)
		return false;
	begin.state = f.state;
	begin.return_site = f.return_site;
	calls_returned(m, site);
	if (calls_begin(m, calls_lookup(m, to), &begin)) {
		m->top->after_syscall = f.after_syscall;
		m->top->after_loss = f.losses != m->losses;
	}
	return true;
}

void calls_begin_restorer(struct calls_machine *m, const struct calls_entry *e, uint64_t site)
{
	const struct calls_begin begin = {
	    .how = PTAH_CALL_TAIL,
	    .flags = PTAH_CALL_RESTORER,
	    .state = CALLS_SIGNAL | (m->top->state & (CALLS_BASE | CALLS_STACK | CALLS_AFTER_GAP)),
	};

	calls_returned(m, site);
	if (m->top->state & CALLS_BOTTOM)
		m->level--;
	calls_begin(m, e, &begin);
}

static bool is_interrupted_at(const struct calls_frame *handler, uint64_t ip)
{
	return ip == handler->return_site ||
	       (handler->after_syscall && ip + CALLS_SYSCALL_SIZE == handler->return_site);
}

/* The folded calls are like a function that does what is not reported. */
static void back_to_folded(struct calls_machine *m, uint64_t to, uint64_t expected)
{
	if (!calls_return_folded(m, to))
		calls_fold(m, expected);
}

void calls_back_from_kernel(struct calls_machine *m, uint64_t to, uint64_t expected, bool syscall)
{
	const struct calls_frame *handler = innermost(m, CALLS_SIGNAL);
	struct calls_entry *e;
	uint32_t index;

	if (to == expected || (syscall && to + CALLS_SYSCALL_SIZE == expected)) {
		calls_settle(m, to);
		return;
	}
	if (m->folded) {
		back_to_folded(m, to, expected);
		return;
	}
	if (handler && syscall) {
		const bool sigreturn = is_interrupted_at(handler, to);
		const bool restorer = m->top->flags & PTAH_CALL_RESTORER;

		if (sigreturn || restorer) {
			expected = handler->after_loss ? 0 : handler->return_site;
			syscall = handler->after_syscall;
			end_handler(m);
		}
		if (sigreturn)
			return;
		if (!expected) { /* of another handler, whose beginning was not seen */
			calls_resume(m, to);
			return;
		}
	}
	/* Otherwise the handler has changed where to continue, or another signal came. */
	e = calls_lookup(m, to);
	if (!calls_is_entry(e)) {
		index = calls_is_same(m->top, e) ? calls_depth(m)
						 : calls_find_function(m, calls_depth(m), e);
		if (index) {
			calls_unwind(m, index, m->site);
			calls_set_piece(m->top, e);
			return;
		}
	}
	/*
	 * A handler is a function, and what is known to be none is something else: another thread
	 * of a guest, or of a stream of which the switches are not known. After a loss, what is
	 * running then, and what was entered by a return, may be a handler's restorer.
	 */
	if (m->top->state & CALLS_BOTTOM || !calls_has_bounds(e) || !calls_is_entry(e) ||
	    (syscall && m->losses && m->top->state & (CALLS_AFTER_GAP | CALLS_BASE)))
		calls_resume(m, to);
	else
		begin_handler(m, e, expected, syscall);
}

/* The kernel */

/* Ends the calls of the kernel that are on top. */
static void leave_kernel(struct calls_machine *m, uint64_t site)
{
	bool first = true;

	while (m->top->flags & PTAH_CALL_KERNEL) {
		calls_drop(m, first ? PTAH_CALL_END_RETURN : PTAH_CALL_END_UNWOUND, site);
		first = false;
	}
}

void calls_leave_kernel(struct calls_machine *m)
{
	if (innermost(m, CALLS_KERNEL)) {
		calls_unwind(m, m->special, m->site);
		calls_drop(m, PTAH_CALL_END_RETURN, m->site);
	} else {
		leave_kernel(m, m->site);
	}
}

/*
 * A guest is to the host like another stack: it continues at the next entry. Nothing says which of
 * its calls is at its return site then, so they are not kept.
 */
static void enter_guest(struct calls_machine *m, uint64_t to)
{
	const struct calls_begin begin = {
	    .how = PTAH_CALL_RUNNING,
	    .flags = PTAH_CALL_NO_BEGIN,
	    .state = CALLS_KERNEL,
	};

	if (!m->folded && calls_begin(m, calls_lookup(m, to), &begin))
		m->guest = calls_depth(m);
}

void calls_leave_guest(struct calls_machine *m, uint64_t to)
{
	const uint32_t depth = m->guest - 1;

	calls_forget_folded(m);
	while (calls_depth(m) > depth)
		calls_drop(m, PTAH_CALL_END_SUSPENDED, m->site);
	calls_resume(m, to);
}

static void far_return(struct calls_machine *m, uint64_t site, uint64_t to)
{
	const struct calls_frame *entry = innermost(m, CALLS_KERNEL);
	uint64_t expected;
	bool syscall;

	if (m->non_root && !m->guest && m->top->flags & PTAH_CALL_KERNEL &&
	    !(entry && entry->return_site == to)) {
		enter_guest(m, to);
	} else if (entry && m->special != m->guest) {
		expected = entry->return_site;
		syscall = entry->after_syscall;
		calls_unwind(m, m->special, site);
		calls_drop(m, PTAH_CALL_END_RETURN, site);
		calls_back_from_kernel(m, to, expected, syscall);
	} else if (m->special && m->special == m->guest) {
		calls_resume(m, to);
	} else if (m->top->flags & PTAH_CALL_KERNEL && !(to >> 63)) {
		leave_kernel(m, site);
		if (m->top->state & CALLS_BOTTOM) {
			m->level--;
			calls_begin_running(m, calls_lookup(m, to), 0);
		} else {
			calls_resume(m, to);
		}
	} else if (!calls_is_inside(m, to)) {
		calls_return_slowly(m, site, to);
	}
}

void calls_far(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t end,
	       uint64_t to)
{
	if (m->summary && summary_far(m, insn_class, site, end, to))
		return;
	if (insn_class == PTAH_INSN_FAR_RETURN) {
		far_return(m, site, to);
	} else if (insn_class == PTAH_INSN_FAR_JUMP) {
		if (!calls_is_inside(m, to))
			calls_jump_slowly(m, PTAH_INSN_JUMP_IND, site, to);
	} else if (to != end) {
		calls_enter_kernel(m, to >> 63 ? PTAH_CALL_SYSCALL : PTAH_CALL_CALLED, site, end,
				   to);
	}
	calls_settle(m, to);
}
