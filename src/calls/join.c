/* SPDX-License-Identifier: MIT */
/* Joins summaries to the calls of their thread, in order. */
#include "calls/adder_internal.h"
#include "calls/internal.h"
#include "calls/summary.h"
#include "calls/tree_sink.h"

#include <stdlib.h>
#include <string.h>

void calls_adder_know(const struct calls_adder *adder, struct calls_knowledge *knowledge)
{
	const struct calls_machine *m = &adder->machine;

	*knowledge = m->learned;
	knowledge->skipped = m->now.tsc - (adder->tree->origin + m->now.counts.ticks);
}

/* Whether what a section assumes is true. */
static bool fits(const struct calls_adder *a, const struct calls_summary *s,
		 const struct section *section)
{
	const struct calls_machine *m = &a->machine;
	const struct ptah_call_tree *t = a->tree, *from = s->tree;
	const struct calls_frame *top = m->top;

	if (top->state & CALLS_BOTTOM || m->folded || m->pending || m->crossed || m->skip_time ||
	    calls_depth(m) + SUMMARY_DEPTH > m->max_depth)
		return false;
	if (top->low != section->low || top->size != section->size ||
	    !(top->flags & PTAH_CALL_NO_BOUNDS) != section->has_bounds)
		return false;
	if (top->function != section->function &&
	    (section->needs_function || top->function - top->low < top->size))
		return false;
	if (m->learned.switches != s->knowledge.switches || m->now.tsc != section->tsc)
		return false;
	return !tree_failed(t) && t->top > t->frames && !(t->top->flags & TREE_FRAME_FOLDED) &&
	       t->known == s->known &&
	       (!(s->known & TREE_TIME) ||
		t->origin + m->now.counts.ticks == from->origin + section->ticks) &&
	       tree_has_room(t, from, section->end_node - section->root);
}

/* Begins the calls that are open at the end of a section. */
static bool push_open(struct calls_adder *a, const struct calls_summary *s,
		      const struct section *section, uint64_t cycles)
{
	struct calls_machine *m = &a->machine;
	const uint64_t instructions = m->now.counts.instructions - section->instructions;
	const uint64_t id = m->last_id - section->id;

	for (size_t i = section->first_open; i < section->end_open; i++) {
		const struct open_frame *o = &s->open[i];
		struct tree_frame frame = o->tree;

		if (!calls_has_room(m))
			return false;
		*++m->top = o->frame;
		m->top->id += id;
		m->top->losses = m->losses;
		if (o->frame.state & CALLS_HIDDEN)
			continue;
		frame.instructions += instructions;
		frame.cycles += cycles;
		if (!tree_push(a->tree, &frame, s->numbers[o->tree.node]))
			return false;
	}
	return true;
}

/* Adds what a section did before its step. False: out of memory. */
static bool add_section(struct calls_adder *a, struct calls_summary *s,
			const struct section *section, uint64_t cycles)
{
	struct calls_machine *m = &a->machine;

	m->top->low = section->end_low;
	m->top->size = section->end_size;
	for (size_t i = section->first_called; i < section->end_called; i++)
		calls_learn_called(m, calls_lookup(m, s->called[i]));
	if (!tree_graft(a->tree, s->tree, section->root, section->end_node, s->numbers,
			s->functions) ||
	    !push_open(a, s, section, cycles))
		return false;
	tree_take_values(a->tree, &s->list, &section->first_value, &section->end_value,
			 s->functions);
	m->last_id += section->end_id - section->id;
	m->now.counts.instructions += section->now.counts.instructions - section->instructions;
	m->now.counts.ticks += section->now.counts.ticks - section->ticks;
	m->now.counts.cycles = section->now.counts.cycles + cycles;
	m->now.tsc = section->now.tsc;
	m->now.tsc_error = section->now.tsc_error;
	m->now.offset = section->now.offset;
	m->cycles = section->end_cycles + cycles;
	m->pending = section->pending;
	m->crossed = section->crossed;
	m->site = section->site;
	m->end = section->end;
	if (section->entered_known)
		m->entered = section->entered;
	return true;
}

static void carry_out(struct calls_adder *a, const struct calls_summary *s, const struct step *step,
		      uint64_t cycles)
{
	struct calls_machine *m = &a->machine;

	m->space = 0;
	switch (step->kind) {
	case STEP_CALL:
		calls_call(m, m->sink, step->site, step->end, step->to);
		break;
	case STEP_RETURN:
		calls_return(m, m->sink, step->site, step->to);
		break;
	case STEP_JUMP:
		if (step->insn_class == PTAH_INSN_COND || step->insn_class == PTAH_INSN_JUMP ||
		    step->insn_class == PTAH_INSN_JUMP_IND)
			calls_jump(m, m->sink, step->insn_class, step->site, step->to);
		else
			calls_jump_slowly(m, step->insn_class, step->site, step->to);
		break;
	case STEP_FAR:
		calls_far(m, step->insn_class, step->site, step->end, step->to);
		break;
	case STEP_ITEM:
		calls_event(m, &s->items[step->item]);
		return;
	case STEP_ARRIVE:
		calls_arrive(m, m->sink, step->to);
		break;
	default:
		return;
	}
	m->pending = 0;
	m->crossed = false;
	if (step->has_time) {
		m->cycles = step->cycles + cycles;
		calls_set_time(m, step->tsc, m->cycles);
	}
}

/* What is known at the beginning of the summary is known from there on. */
static void learn(struct calls_adder *a)
{
	tree_time(a->tree, &a->machine.now.counts, a->machine.now.tsc);
}

/* Prepares the tables of nodes and functions. False: out of memory. */
static bool make_tables(struct calls_summary *s, const struct ptah_call_tree *into)
{
	const struct ptah_call_tree *t = s->tree;
	uint32_t *numbers, *functions;

	if (s->number_capacity < t->node_count) {
		numbers = reallocarray(s->numbers, t->node_capacity, sizeof(*numbers));
		if (!numbers)
			return false;
		s->numbers = numbers;
		s->number_capacity = t->node_capacity;
	}
	if (s->function_capacity < t->function_count) {
		functions = tree_larger(s->functions, sizeof(*functions), s->function_capacity,
					t->function_capacity);
		if (!functions)
			return false;
		s->functions = functions;
		s->function_capacity = t->function_capacity;
	}
	if (s->into != into)
		memset(s->functions, 0, s->function_capacity * sizeof(*s->functions));
	s->into = into;
	return true;
}

int calls_adder_join(struct calls_adder *adder, struct calls_summary *s, uint64_t cycles,
		     size_t *joined)
{
	size_t i;

	*joined = 0;
	if (s->unfit)
		return 0;
	if (!make_tables(s, adder->tree))
		return PTAH_E_NOMEM;
	for (i = 0; i < s->count; i++) {
		const struct section *section = &s->sections[i];

		*joined = i;
		if (section->assumed) {
			learn(adder);
			if (!fits(adder, s, section))
				return 0;
			if (!add_section(adder, s, section, cycles))
				return PTAH_E_NOMEM;
		}
		carry_out(adder, s, &section->step, cycles);
	}
	*joined = i;
	return calls_adder_status(adder) < 0 ? PTAH_E_NOMEM : 1;
}

int calls_adder_search(struct calls_adder *adder, const struct ptah_span *span,
		       const struct ptah_item *item, size_t joined)
{
	const struct calls_summary *s = adder->machine.summary;
	const uint64_t before = adder->machine.now.counts.instructions;
	struct ptah_item event;
	int status;

	if (span && span->insn_class == FLOW_SPAN_EVENT) {
		event = flow_span_event(span);
		span = NULL;
		item = &event;
	}
	if (span)
		status = calls_adder_summarize_spans(adder, span, 1);
	else
		status = calls_adder_take(adder, item, 1);
	if (status < 0)
		return status;
	if (s->count < joined)
		return 0;
	/* A step before the span's instructions: what pended was carried out. */
	if (span)
		return s->sections[joined - 1].step_at == before ? 2 : 1;
	return s->sections[joined - 1].step.kind == STEP_ITEM ? 1 : 2;
}

uint64_t calls_summary_errors(const struct calls_summary *s, size_t joined)
{
	uint64_t errors = 0;

	for (size_t i = 0; i < joined; i++) {
		const struct step *step = &s->sections[i].step;

		errors += step->kind == STEP_ITEM && s->items[step->item].type == PTAH_ITEM_ERROR;
	}
	return errors;
}

uint64_t calls_summary_time(const struct calls_summary *s)
{
	const struct step *first = s->count ? &s->sections[0].step : NULL;

	if (!first || first->kind == STEP_END)
		return 0;
	return first->kind == STEP_ITEM ? s->items[first->item].tsc : first->tsc;
}

uint64_t calls_adder_cycles(const struct calls_adder *adder)
{
	return adder->machine.cycles;
}
