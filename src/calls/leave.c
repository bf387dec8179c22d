/* SPDX-License-Identifier: MIT */
/*
 * Branches that are not the call of a known function or the return that matches it: which call
 * execution is in afterwards.
 *
 * What an address can be is tried from the surest to the least: the return site of an open call,
 * that of a suspended stack, the first instruction of a function, code of a function that is open.
 */
#include "calls/internal.h"
#include "calls/summary.h"

#include <stdlib.h>

/*
 * Whether it is a call inside one function, such as a retpoline's or that of an unnamed subroutine.
 */
static bool is_local(const struct calls_machine *m, const struct calls_entry *e)
{
	return calls_is_same(m->top, e) && e->ip != e->function &&
	       !(e->function_flags & PTAH_FUNCTION_FRAGMENT);
}

bool calls_goes_on_after(struct calls_machine *m, uint64_t to)
{
	const struct calls_entry *e = calls_lookup(m, to);

	return !calls_has_bounds(e) || !calls_is_entry(e);
}

void calls_call_slowly(struct calls_machine *m, uint64_t site, uint64_t end, uint64_t to)
{
	struct calls_begin begin = {.how = PTAH_CALL_CALLED, .return_site = end, .site = site};
	struct calls_entry *e, own;

	if (m->summary && summary_call(m, site, end, to))
		return;
	if (to == end && calls_goes_on_after(m, to)) {
		calls_settle(m, to);
		return;
	}
	if (m->folded) {
		calls_fold(m, end);
		return;
	}
	e = calls_lookup(m, to);
	calls_learn_called(m, e);
	own = *e;
	/* The piece that a compiler has moved out of a function, and that is called. */
	if (e->function_flags & PTAH_FUNCTION_FRAGMENT && to == e->low)
		own.function = to;
	if (is_local(m, e))
		begin.state = CALLS_HIDDEN;
	calls_begin(m, &own, &begin);
}

/* Jumps */

/* The frame of the chain of tail calls that the top belongs to which did not begin by one. */
static uint32_t chain_root(const struct calls_machine *m)
{
	uint32_t i = calls_depth(m);

	while (m->frames[i].state & CALLS_TAILED)
		i--;
	return i;
}

/*
 * Does the innermost call exchange stacks, or is it the end of a function that does: runtime.gogo
 * of Go jumps to a part of it that has no name of its own.
 */
bool calls_switches(const struct calls_machine *m)
{
	const struct calls_frame *f = m->top;

	while (f->state & CALLS_TAILED && !(f->function_flags & PTAH_FUNCTION_SWITCH))
		f--;
	return f->function_flags & PTAH_FUNCTION_SWITCH;
}

/*
 * The innermost call jumped to the first instruction of another function. Where the chain has that
 * function already, the calls from there on end; where the chain is long, its last call does.
 */
static void tail_call(struct calls_machine *m, const struct calls_entry *e, uint64_t site,
		      unsigned state)
{
	struct calls_begin begin = {
	    .how = PTAH_CALL_TAIL,
	    .state = CALLS_TAILED | state,
	    .return_site = m->top->return_site,
	    .site = site,
	};
	const uint32_t top = calls_depth(m), root = chain_root(m);
	uint32_t first = top + 1; /* of those that end */

	for (uint32_t i = root; i <= top && first > top; i++)
		if (m->frames[i].function == e->function)
			first = i;
	if (first > top && top - root + 1 >= PTAH_CALLS_MAX_CHAIN)
		first = top;
	/* A handler stays open until rt_sigreturn, and so does what the kernel entered. */
	if (first == root && m->frames[root].state)
		first = root < top ? root + 1 : top + 1;
	if (first <= top)
		begin.state = (m->frames[first].state & ~(unsigned)CALLS_ODD) | state;
	while (calls_depth(m) >= first)
		calls_drop(m, PTAH_CALL_END_TAIL, site);
	calls_begin(m, e, &begin);
}

/* Execution goes on, without a jump, where another function may have begun: a tail call. */
static void go_on(struct calls_machine *m, const struct calls_entry *e, bool begins)
{
	if (begins && !(e->function_flags & PTAH_FUNCTION_FRAGMENT) && calls_has_bounds(e) &&
	    !calls_is_same(m->top, e) && !(m->top->flags & PTAH_CALL_NO_BOUNDS))
		tail_call(m, e, 0, 0);
	else
		calls_set_piece(m->top, e);
}

void calls_settle(struct calls_machine *m, uint64_t to)
{
	const struct calls_entry *e;

	if (m->folded || calls_is_inside(m, to) || m->top->state & CALLS_BOTTOM)
		return;
	e = calls_lookup(m, to);
	go_on(m, e, e->function == to);
}

/* How many instructions of the block up to m->end are in the function at `from`; 0: not known. */
static unsigned count_from(struct calls_machine *m, uint64_t from)
{
	struct calls_crossing *c;

	if (!m->count)
		return 0;
	if (!m->crossings)
		m->crossings = calloc(CALLS_CROSSINGS, sizeof(*m->crossings));
	if (!m->crossings) {
		m->status = PTAH_E_NOMEM;
		return 0;
	}
	c = &m->crossings[calls_hash(from, m->space, 8) % CALLS_CROSSINGS];
	if (c->from != from || c->end != m->end || c->space != m->space ||
	    c->generation != m->generation)
		*c = (struct calls_crossing){
		    from, m->end, m->count(m->find_context, m->space, from, m->end, m->now.tsc),
		    m->space, m->generation};
	return c->count;
}

void calls_cross(struct calls_machine *m, uint64_t ninsn)
{
	struct calls_entry e;
	unsigned after;

	if (m->folded || m->top->state & CALLS_BOTTOM)
		return;
	e = *calls_lookup(m, m->site);
	/* Out of code of which nothing is known, it is not known either whether a jump led there. */
	if (e.function != e.low || !m->top->size) {
		calls_set_piece(m->top, &e);
		return;
	}
	after = count_from(m, e.low);
	after = after < ninsn ? after : 0;
	m->now.counts.instructions -= after;
	go_on(m, &e, true);
	m->now.counts.instructions += after;
}

/*
 * Execution is in the middle of a function that the innermost call was jumped to from: that call
 * has returned by a jump, as outlined code and thunks do.
 */
static bool jump_back(struct calls_machine *m, const struct calls_entry *e, uint64_t site)
{
	uint32_t i = calls_depth(m);

	while (m->frames[i].state & CALLS_TAILED) {
		if (!calls_is_same(&m->frames[--i], e))
			continue;
		calls_drop(m, PTAH_CALL_END_RETURN, site);
		while (calls_depth(m) > i)
			calls_drop(m, PTAH_CALL_END_TAIL, site);
		calls_set_piece(m->top, e);
		return true;
	}
	return false;
}

/* The innermost call ends without a return of its own, and so do those that it was tail-called by.
 */
static void give_up(struct calls_machine *m, uint64_t site)
{
	bool tailed = true;

	while (tailed) {
		tailed = m->top->state & CALLS_TAILED;
		calls_unwind(m, calls_depth(m) - 1, site);
	}
}

/*
 * The innermost call jumped to the return site of another. Exceptions and longjmp() do not go to
 * such places: the function exchanges stacks, also where its name is not known.
 */
static void learn_switch(struct calls_machine *m)
{
	struct calls_entry *e;

	if (m->top->flags & PTAH_CALL_NO_BOUNDS || m->top->losses != m->losses)
		return;
	e = calls_lookup(m, m->top->function);
	if (e->function == m->top->function)
		calls_learn_switch(m, e);
}

/*
 * Execution is at the return site of the call at `index`: that call has returned, perhaps by a jump
 * (a switch of stacks), or an exception continues there. Above it ran another stack, or calls that
 * were given up.
 */
static void return_to_lower(struct calls_machine *m, uint32_t index, uint64_t site, bool returns)
{
	/* A return, by whichever instruction; not an exception that lands there. */
	const bool returned =
	    returns || (index == calls_depth(m) && !m->folded) || calls_switches(m);
	bool gap = false;
	uint32_t base = 0;

	for (uint32_t i = calls_depth(m); i > index; i--) {
		base = m->frames[i].state & CALLS_BASE ? i : base;
		gap |= m->frames[i].state & CALLS_AFTER_GAP;
	}
	if (!returns && !gap && index < calls_depth(m))
		learn_switch(m);
	if (base && !gap) {
		calls_suspend(m, base, site);
	} else if (returns && !m->top->return_site) {
		calls_drop(m, PTAH_CALL_END_RETURN, site);
	}
	calls_unwind(m, index, site);
	if (gap)
		calls_drop(m, PTAH_CALL_END_LOST, 0);
	else if (base || returned)
		calls_returned(m, site);
	else
		give_up(m, site);
}

/*
 * What was entered by a return, as a tail call, and does not return there itself, but something
 * that it called does, was the beginning of another stack: the function that had switched to it is
 * the one that returns.
 */
static uint32_t below_new_stack(const struct calls_machine *m, uint32_t index)
{
	uint32_t found = index;

	for (uint32_t i = index; m->frames[i].state & CALLS_TAILED; i--)
		found = m->frames[i].state & CALLS_BASE ? i - 1 : found;
	return found;
}

/* Where returns and indirect jumps to known places go. */
static bool leave_to_site(struct calls_machine *m, uint64_t site, uint64_t to, bool returns)
{
	uint32_t index = calls_find_site(m, calls_depth(m), to, false);

	if (index && index < calls_depth(m))
		index = below_new_stack(m, index);
	if (index) {
		return_to_lower(m, index, site, returns);
		return true;
	}
	/* After a loss nothing says that it is a stack that was suspended before it. */
	return !(m->top->state & CALLS_AFTER_GAP && !m->top->return_site) &&
	       calls_switch(m, site, to);
}

/*
 * Execution continues in the call at `index`, or just as well in the one at `other`, a lower one: 0:
 * there is none. What is above that may have ended.
 */
static void doubt(struct calls_machine *m, uint32_t index, uint32_t other)
{
	if (!other || !calls_can_move(m, index - other))
		return;
	for (uint32_t i = other + 1; i <= index; i++)
		m->frames[i].flags |= PTAH_CALL_UNSURE;
}

/*
 * In a recursion several calls have called setjmp() at the same place: the lowest of those below
 * `index`. Which of them it is shows when one returns to another place than the innermost would;
 * until then the calls up to there are in doubt.
 */
static uint32_t lowest_twice(struct calls_machine *m, uint32_t index, uint64_t site)
{
	uint32_t lowest = 0, above = index, i;

	while ((i = calls_find_twice(m, above - 1, site)) && calls_can_move(m, above - i))
		lowest = above = i;
	return lowest;
}

/* An exception or longjmp() continues in a function that is open. */
static bool land(struct calls_machine *m, const struct calls_entry *e, uint64_t site)
{
	uint32_t index = calls_find_twice(m, calls_depth(m), e->ip);

	if (index) {
		doubt(m, index, lowest_twice(m, index, e->ip));
	} else {
		index = calls_find_function(m, calls_depth(m), e);
		if (!index)
			return false;
		doubt(m, index, calls_find_function(m, index - 1, e));
	}
	calls_unwind(m, index, site);
	calls_set_piece(m->top, e);
	return true;
}

static void jump_indirectly(struct calls_machine *m, uint64_t site, uint64_t to)
{
	const struct calls_entry *e;

	if (leave_to_site(m, site, to, false)) {
		calls_settle(m, to);
		return;
	}
	e = calls_lookup(m, to);
	if (land(m, e, site))
		return;
	if (calls_has_bounds(e))
		calls_begin_stack(m, e, site);
	else if (!(m->top->flags & PTAH_CALL_NO_BOUNDS))
		tail_call(m, e, site, 0);
	else
		calls_set_piece(m->top, e);
}

void calls_jump_slowly(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t to)
{
	const bool indirect = insn_class == PTAH_INSN_JUMP_IND;
	struct calls_entry *e;

	if (m->summary && summary_jump(m, insn_class, site, to))
		return;
	if (m->folded && (!indirect || calls_return_folded(m, to)))
		return;
	e = calls_lookup(m, to);
	if (insn_class == PTAH_INSN_OTHER || insn_class == PTAH_INSN_PTWRITE) {
		calls_settle(m, to);
	} else if (calls_is_entry(e) && (indirect || e->function != m->top->function)) {
		if (m->folded)
			return;
		if (indirect && calls_switches(m))
			calls_begin_stack(m, e, site);
		else
			tail_call(m, e, site, 0);
	} else if (calls_is_same(m->top, e) || e->function_flags & PTAH_FUNCTION_NO_PARENT) {
		calls_set_piece(m->top, e);
	} else if (jump_back(m, e, site)) {
		return;
	} else if (indirect) {
		jump_indirectly(m, site, to);
	} else {
		calls_set_piece(m->top, e); /* code that several functions share */
	}
}

/* Returns */

/* The innermost call returned to a caller that is not known. */
static void return_to_unknown(struct calls_machine *m, const struct calls_entry *e, uint64_t site)
{
	const struct calls_frame f = m->frames[chain_root(m)];
	const bool guest = m->guest == chain_root(m);
	uint32_t below = chain_root(m) - 1;

	if (calls_has_bounds(e))
		below = calls_find_function(m, below, e);
	else if (!(m->frames[below].flags & PTAH_CALL_NO_BOUNDS) || !below)
		below = 0;
	calls_returned(m, site);
	if (below) {
		calls_unwind(m, below, site);
		calls_set_piece(m->top, e);
		return;
	}
	if (m->top->state & CALLS_BOTTOM)
		m->level--;
	calls_begin_running(
	    m, e,
	    f.state & (CALLS_BASE | CALLS_STACK | CALLS_AFTER_GAP | (guest ? CALLS_KERNEL : 0)));
	m->guest = guest ? calls_depth(m) : m->guest;
}

/* A return to the first instruction of a function is a jump (push; ret), or enters a new stack. */
static void return_to_entry(struct calls_machine *m, const struct calls_entry *e, uint64_t site,
			    bool retpoline)
{
	const struct calls_frame f = *m->top;
	struct calls_begin begin = {
	    .how = PTAH_CALL_TAIL,
	    .return_site = f.return_site,
	    .state = f.state,
	    .site = site,
	};

	if (retpoline) {
		tail_call(m, e, site, 0);
	} else if (calls_switches(m)) {
		calls_begin_stack(m, e, site);
	} else if (f.state & CALLS_BASE && f.how != PTAH_CALL_RUNNING) {
		/* What it returned to was never called: the end of a coroutine, or the next part of
		 * threaded code. */
		calls_drop(m, PTAH_CALL_END_RETURN, site);
		calls_begin(m, e, &begin);
	} else if (!f.return_site) {
		calls_begin_restorer(m, e, site);
	} else {
		tail_call(m, e, site, CALLS_BASE);
	}
}

void calls_return_slowly(struct calls_machine *m, uint64_t site, uint64_t to)
{
	bool retpoline = false;
	struct calls_entry *e;

	if (m->summary && summary_return(m, site, to))
		return;
	if (m->folded && calls_return_folded(m, to))
		return;
	while (m->top->state & CALLS_HIDDEN && m->top->return_site != to) {
		calls_drop(m, PTAH_CALL_END_UNWOUND, site);
		retpoline = true;
	}
	if (m->top->return_site == to && to && !calls_gives_up(m, calls_depth(m))) {
		calls_returned(m, site);
		if (m->top->state & CALLS_BOTTOM)
			calls_begin_running(m, calls_lookup(m, to), 0);
		return;
	}
	if (calls_return_from_handler(m, site, to) || leave_to_site(m, site, to, true))
		return;
	e = calls_lookup(m, to);
	if (calls_is_entry(e))
		return_to_entry(m, e, site, retpoline);
	else if (jump_back(m, e, site))
		return;
	else if (!m->top->return_site)
		return_to_unknown(m, e, site);
	else if (calls_is_same(m->top, e) ||
		 (!calls_has_bounds(e) && m->top->flags & PTAH_CALL_NO_BOUNDS))
		calls_set_piece(m->top, e);
	else if (!land(m, e, site))
		calls_begin_stack(m, e, site);
}
