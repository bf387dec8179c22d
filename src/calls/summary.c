/* SPDX-License-Identifier: MIT */
/* Makes summaries: which branches and items are steps, and what is noted of them. */
#include "calls/summary.h"

#include "calls/adder_internal.h"
#include "calls/internal.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

int calls_summary_new(const struct ptah_call_tree_config *trees, struct calls_summary **summary)
{
	struct ptah_call_tree_config config = *trees;
	struct calls_summary *s = calloc(1, sizeof(*s));
	int status;

	if (!s)
		return PTAH_E_NOMEM;
	config.max_paths = UINT32_MAX; /* nothing is folded */
	status = ptah_call_tree_new(&config, &s->tree);
	if (status < 0) {
		free(s);
		return status;
	}
	s->tree->list = &s->list;
	*summary = s;
	return 0;
}

void calls_summary_free(struct calls_summary *s)
{
	if (!s)
		return;
	ptah_call_tree_free(s->tree);
	free(s->sections);
	free(s->open);
	free(s->items);
	free(s->called);
	free(s->numbers);
	free(s->functions);
	free(s->list.values);
	free(s->list.calls);
	free(s);
}

/* Out of memory, or too large: the summary is of no use, and so is what follows. */
static void fail(struct calls_machine *m)
{
	m->summary->unfit = true;
	m->status = PTAH_E_NOMEM;
}

static bool is_too_large(const struct calls_summary *s)
{
	return s->count >= SUMMARY_SECTIONS || s->tree->node_count >= SUMMARY_NODES ||
	       s->open_count >= SUMMARY_OPEN;
}

void calls_adder_summarize(struct calls_adder *adder, struct calls_summary *s,
			   const struct calls_knowledge *knowledge)
{
	struct calls_machine *m = &adder->machine;

	tree_forget_open(s->tree);
	tree_restart(s->tree);
	s->knowledge = *knowledge;
	s->known = 0;
	s->count = s->open_count = s->item_count = s->called_count = 0;
	s->now = (struct section){0};
	s->begun = s->unfit = false;
	adder->tree = s->tree;
	calls_machine_restart(m, knowledge);
	m->max_depth = SUMMARY_DEPTH;
	calls_set_limit(m);
	m->top->state = CALLS_UNKNOWN;
	m->summary = s;
}

/* Sections */

/* Keeps the open calls of a section. */
static bool keep_open(struct calls_machine *m, struct calls_summary *s)
{
	const struct ptah_call_tree *t = s->tree;
	const struct tree_frame *frame = t->frames + 1;

	if (!LIST_ROOM_FOR(s->open, s->open_count, calls_depth(m), s->open_capacity))
		return false;
	for (uint32_t i = 1; i <= calls_depth(m); i++) {
		struct open_frame *o = &s->open[s->open_count++];

		o->frame = m->frames[i];
		if (!(o->frame.state & CALLS_HIDDEN))
			o->tree = *++frame;
	}
	return true;
}

/* The section ends with a step. The machine's stack is empty then. */
static bool end_section(struct calls_machine *m, const struct step *step)
{
	struct calls_summary *s = m->summary;
	struct section *now = &s->now;

	if (is_too_large(s) || !LIST_ROOM(s->sections, s->count, s->capacity))
		return false;
	now->step = *step;
	now->step_at = m->now.counts.instructions;
	if (now->assumed) {
		now->now = m->now;
		now->end_low = m->frames[0].low;
		now->end_size = m->frames[0].size;
		now->end_cycles = m->cycles;
		now->end_id = m->last_id;
		now->site = m->site;
		now->end = m->end;
		now->pending = m->pending;
		now->crossed = m->crossed;
		now->entered = m->entered;
		now->end_called = s->called_count;
		now->end_node = s->tree->node_count;
		tree_flush(s->tree);
		now->end_value = (struct tree_end){s->list.value_count, s->list.call_count};
		now->first_open = s->open_count;
		if (tree_failed(s->tree) || !keep_open(m, s))
			return false;
		now->end_open = s->open_count;
		/* The function may begin in the piece that it runs in now. */
		if (now->end_low != now->low || now->end_size != now->size)
			now->needs_function = true;
	}
	s->sections[s->count++] = *now;
	tree_forget_open(s->tree);
	m->top = m->frames;
	return true;
}

/* What the tree assumes to be known at the beginning: what is known there. */
static void begin_tree(struct calls_machine *m, struct calls_summary *s)
{
	struct ptah_call_tree *t = s->tree;

	s->begun = true;
	t->known =
	    (m->now.counts.cycles ? TREE_CYCLES : 0) | (m->now.tsc && t->time_mult ? TREE_TIME : 0);
	t->unknown &= ~t->known;
	s->known = t->known;
	t->origin = m->now.tsc - s->knowledge.skipped - m->now.counts.ticks;
	t->ticks = m->now.counts.ticks;
	t->time = tree_nanoseconds(t, t->origin + t->ticks);
}

/* A section begins: the function of `e` runs. */
static bool begin_section(struct calls_machine *m, const struct calls_entry *e)
{
	struct calls_summary *s = m->summary;
	struct calls_frame *f = m->frames;

	calls_set_piece(f, e);
	f->function = e->function;
	f->flags = e->flags;
	f->function_flags = e->function_flags;
	f->state = CALLS_UNKNOWN;
	if (!s->begun)
		begin_tree(m, s);
	s->now = (struct section){
	    .assumed = true,
	    .low = f->low,
	    .size = f->size,
	    .function = f->function,
	    .has_bounds = calls_has_bounds(e),
	    .instructions = m->now.counts.instructions,
	    .ticks = m->now.counts.ticks,
	    .tsc = m->now.tsc,
	    .cycles = m->now.counts.cycles,
	    .id = m->last_id,
	    .first_called = s->called_count,
	    .first_value = {s->list.value_count, s->list.call_count},
	    .root = tree_begin_section(s->tree),
	};
	return s->now.root;
}

/* A branch is a step, and execution is at `to` after it. */
static void step_to(struct calls_machine *m, const struct step *step)
{
	if (!end_section(m, step) || !begin_section(m, calls_lookup(m, step->to)))
		fail(m);
}

/* Probably the assumed function runs on, in another piece of it or in code that several share. */
static void step_aside(struct calls_machine *m, const struct step *step,
		       const struct calls_entry *piece)
{
	const unsigned parts = PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT;
	const struct calls_frame *f = m->frames;
	struct calls_entry e = *piece;

	if (!(f->function_flags & parts) || e.function_flags & parts) {
		e.function = f->function;
		e.flags = f->flags;
		e.function_flags = f->function_flags;
	}
	if (!end_section(m, step) || !begin_section(m, &e))
		fail(m);
}

/* What is a step */

bool summary_call(struct calls_machine *m, uint64_t site, uint64_t end, uint64_t to)
{
	struct calls_summary *s = m->summary;
	const struct step step = {.kind = STEP_CALL, .site = site, .end = end, .to = to};
	const struct calls_entry *e;

	if (to == end && calls_goes_on_after(m, to))
		return false;
	if (calls_depth(m) >= m->max_depth) {
		step_to(m, &step);
		return true;
	}
	e = calls_lookup(m, to);
	/* It may be a call inside the assumed function. */
	if (m->top->state & CALLS_UNKNOWN && e->ip != e->function)
		s->now.needs_function = true;
	if (calls_has_bounds(e) || e->called)
		return false;
	if (!LIST_ROOM(s->called, s->called_count, s->called_capacity)) {
		fail(m);
		return false;
	}
	s->called[s->called_count++] = to;
	return false;
}

bool summary_return(struct calls_machine *m, uint64_t site, uint64_t to)
{
	const struct step step = {.kind = STEP_RETURN, .site = site, .to = to};
	const struct calls_frame *f = m->top;

	if (to && f->return_site == to) {
		while (f->state == CALLS_TAILED)
			f--;
		if (!f->state)
			return false;
	}
	step_to(m, &step);
	return true;
}

/* The same for jumps from a call that has begun in the section. */
static bool is_local_jump(const struct calls_machine *m, const struct calls_entry *e, bool indirect)
{
	if (!calls_has_bounds(e))
		return false;
	if (calls_is_entry(e) && (indirect || e->function != m->top->function))
		return calls_depth(m) < m->max_depth && !(indirect && calls_switches(m));
	return !indirect || calls_is_same(m->top, e) || e->function_flags & PTAH_FUNCTION_NO_PARENT;
}

/* From the assumed one. */
static bool is_own_jump(struct calls_machine *m, const struct calls_entry *e, bool indirect)
{
	if (!calls_is_same(m->top, e) || (indirect && calls_is_entry(e)))
		return false;
	m->summary->now.needs_function = true;
	return true;
}

bool summary_jump(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t to)
{
	const struct step step = {
	    .kind = STEP_JUMP, .insn_class = (uint8_t)insn_class, .site = site, .to = to};
	const bool indirect = insn_class == PTAH_INSN_JUMP_IND;
	const struct calls_entry *e;

	if (insn_class == PTAH_INSN_OTHER || insn_class == PTAH_INSN_PTWRITE)
		return false;
	/* It is no jump unless the assumed function begins there. */
	if (m->top->state & CALLS_UNKNOWN && calls_is_inside(m, to))
		m->summary->now.needs_function = true;
	e = calls_lookup(m, to);
	if (!(m->top->state & CALLS_UNKNOWN)) {
		if (is_local_jump(m, e, indirect))
			return false;
	} else if (is_own_jump(m, e, indirect)) {
		return false;
	} else if (!indirect && calls_has_bounds(e) && !calls_is_entry(e)) {
		step_aside(m, &step, e);
		return true;
	}
	step_to(m, &step);
	return true;
}

bool summary_far(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t end,
		 uint64_t to)
{
	const struct step step = {.kind = STEP_FAR,
				  .insn_class = (uint8_t)insn_class,
				  .site = site,
				  .end = end,
				  .to = to};

	if (insn_class == PTAH_INSN_FAR_CALL && to == end)
		return false;
	step_to(m, &step);
	return true;
}

bool summary_continue(struct calls_machine *m, uint64_t ip)
{
	struct calls_summary *s = m->summary;
	const bool assumed = s->now.assumed, syscall = m->pending == PTAH_INSN_FAR_CALL;
	struct step step = {.kind = STEP_ARRIVE, .to = ip};

	if (assumed && (syscall || m->pending == CALLS_PENDING_ASYNC) &&
	    (ip == m->end || (syscall && ip + CALLS_SYSCALL_SIZE == m->end))) {
		s->now.entered_known = true;
		return false;
	}
	if (!s->begun) {
		step.has_time = true;
		step.tsc = s->next_tsc;
		step.cycles = s->next_cycles;
	}
	if (!end_section(m, &step)) {
		fail(m);
		return true;
	}
	m->pending = 0;
	m->crossed = m->entered = false;
	if (step.has_time) {
		m->cycles = step.cycles;
		calls_set_time(m, step.tsc, step.cycles);
	}
	if (!begin_section(m, calls_lookup(m, ip)))
		fail(m);
	s->now.entered_known = assumed;
	return true;
}

/* Time passes with an item as calls_event() lets it pass. */
static void pass_time(struct calls_machine *m, const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_ERROR:
		if (item->type == PTAH_ITEM_ERROR)
			calls_set_time(m, item->tsc, m->cycles);
		m->skip_time = true;
		m->pending = CALLS_PENDING_LOST;
		if (item->type == PTAH_ITEM_OVERFLOW)
			calls_set_time(m, item->tsc, m->cycles);
		break;
	case PTAH_ITEM_PSB:
		if (m->pending != CALLS_PENDING_LOST)
			break;
		/* fall through */
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ASYNC_BRANCH:
		calls_set_time(m, item->tsc, m->cycles);
		break;
	default:
		break;
	}
}

/* What an item does depends on the true stack, or on what precedes the summary. */
static bool is_step(const struct calls_machine *m, const struct ptah_item *item)
{
	if (!m->summary->now.assumed)
		return true;
	switch (item->type) {
	case PTAH_ITEM_DISABLED:
		return m->pending != PTAH_INSN_FAR_CALL;
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_TSX:
		return true;
	default:
		return false;
	}
}

/* Whether the item has any effect on calls. */
static bool has_effect(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_ENABLED || item->type == PTAH_ITEM_DISABLED ||
	       item->type == PTAH_ITEM_ASYNC_DISABLED || item->type == PTAH_ITEM_PSB ||
	       item->type == PTAH_ITEM_TICK || item->type == PTAH_ITEM_OVERFLOW ||
	       item->type == PTAH_ITEM_GAP || item->type == PTAH_ITEM_ERROR ||
	       item->type == PTAH_ITEM_ASYNC_BRANCH || item->type == PTAH_ITEM_PAGING ||
	       item->type == PTAH_ITEM_ASYNC_PAGING || item->type == PTAH_ITEM_TSX;
}

bool summary_event(struct calls_machine *m, const struct ptah_item *item)
{
	struct calls_summary *s = m->summary;
	const struct step step = {.kind = STEP_ITEM, .item = s->item_count};

	if (!has_effect(item))
		return true;
	if (!is_step(m, item)) {
		s->now.entered_known |= item->type == PTAH_ITEM_ENABLED;
		return false;
	}
	if (!LIST_ROOM(s->items, s->item_count, s->item_capacity) || !end_section(m, &step)) {
		fail(m);
		return true;
	}
	s->items[s->item_count++] = *item;
	if (s->now.assumed)
		m->pending = CALLS_PENDING_START;
	s->now = (struct section){0};
	pass_time(m, item);
	return true;
}

/*
 * What was called here may not have been called at all, if the summary does not fit. The next
 * summary must note it again.
 */
static void forget_called(struct calls_machine *m, const struct calls_summary *s)
{
	m->space = 0;
	for (size_t i = 0; i < s->called_count; i++)
		calls_lookup(m, s->called[i])->called = false;
	m->called = 0;
}

int calls_adder_end_summary(struct calls_adder *adder)
{
	struct calls_machine *m = &adder->machine;
	struct calls_summary *s = m->summary;
	const struct step step = {.kind = STEP_END};

	forget_called(m, s);
	if (m->status < 0 || tree_failed(s->tree) || !end_section(m, &step))
		return PTAH_E_NOMEM;
	/* The true tree learns that something is known where the tree of the summary does not. */
	if (s->tree->known != s->known || m->folded)
		s->unfit = true;
	return 0;
}

/* Taking */

static int status_of(const struct calls_adder *adder)
{
	return calls_adder_status(adder);
}

int calls_adder_summarize_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n)
{
	struct calls_machine *m = &adder->machine;
	struct calls_summary *s = m->summary;
	size_t i = 0;

	/* Only the first needs it, if at all. */
	for (; i < n && !s->begun && status_of(adder) >= 0; i++) {
		if (spans[i].insn_class != FLOW_SPAN_EVENT) {
			s->next_tsc = spans[i].tsc;
			s->next_cycles = spans[i].cycles;
		}
		calls_adder_take_spans(adder, &spans[i], 1);
	}
	if (i < n)
		calls_adder_take_spans(adder, spans + i, n - i);
	if (is_too_large(s))
		fail(m);
	return status_of(adder);
}

const struct calls_knowledge *calls_summary_knowledge(const struct calls_summary *s)
{
	return &s->knowledge;
}
