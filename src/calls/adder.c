/* SPDX-License-Identifier: MIT */
/* A call machine whose beginnings and ends go straight into a call tree. */
#include "calls/adder_internal.h"
#include "calls/tree_sink.h"
#include "calls/calls.h"

#include <stdlib.h>

static ALWAYS_INLINE struct ptah_call_tree *tree_of(struct calls_machine *m)
{
	return ((struct calls_adder *)m)->tree;
}

static ALWAYS_INLINE void begin(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	struct ptah_call_tree *const t = tree_of(m);

	(void)site;
	tree_begin(t, f->function, f->space, f->how, f->flags, &m->now.counts, m->now.tsc);
	if (UNLIKELY(t->bounds))
		tree_bound_begin(t, &m->now.counts, m->now.tsc, m->now.offset);
}

static ALWAYS_INLINE void end(struct calls_machine *m, const struct calls_frame *f,
			      enum ptah_call_end how, unsigned flags, uint64_t site)
{
	struct ptah_call_tree *const t = tree_of(m);

	(void)site;
	if (UNLIKELY(t->bounds))
		tree_bound_end(t, &m->now.counts, m->now.tsc, m->now.offset);
	tree_end(t, how, flags, f->id, &m->now.counts, m->now.tsc);
}

/* For the machine's inline functions. */
static const struct calls_sink sink = {begin, end};

/* For all others. */
static void begin_slowly(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	begin(m, f, site);
}

static void end_slowly(struct calls_machine *m, const struct calls_frame *f, enum ptah_call_end how,
		       unsigned flags, uint64_t site)
{
	end(m, f, how, flags, site);
}

static const struct calls_sink slow_sink = {begin_slowly, end_slowly};

int calls_adder_new(const struct calls_config *config, struct ptah_call_tree *tree,
		    struct calls_adder **adder)
{
	struct calls_adder *a = calloc(1, sizeof(*a));
	int status = a ? calls_machine_init(&a->machine, config, &slow_sink) : PTAH_E_NOMEM;

	if (status < 0) {
		free(a);
		return status;
	}
	a->tree = tree;
	*adder = a;
	return 0;
}

void calls_adder_free(struct calls_adder *adder)
{
	if (!adder)
		return;
	calls_machine_fini(&adder->machine);
	free(adder);
}

int calls_adder_status(const struct calls_adder *a)
{
	return tree_failed(a->tree) ? PTAH_E_NOMEM : a->machine.status;
}

/*
 * Takes calls that are over with the next span, or with the one after that if their function leaves
 * by a tail call, as a linkage table's stub does: they need no frames. Returns how many spans these
 * are; 0: it is something else.
 */
static ALWAYS_INLINE size_t take_leaf(struct calls_adder *a, const struct ptah_span *s, size_t n)
{
	struct calls_machine *const m = &a->machine;

	if (s->insn_class != PTAH_INSN_CALL && s->insn_class != PTAH_INSN_CALL_IND)
		return 0;
	if (n > 1 && s[1].insn_class == PTAH_INSN_RETURN) {
		if (!calls_is_leaf(m, s))
			return 0;
		tree_time(a->tree, &m->now.counts, m->now.tsc);
		if (!tree_leaf(a->tree, s->to, s->space, s[1].ninsn))
			return 0;
		if (UNLIKELY(a->tree->bounds))
			tree_bound_leaf(a->tree, 1, &m->now.counts, m->now.tsc, m->now.offset);
		calls_pass(m, &s[1], 1, s[1].ninsn);
		return 1;
	}
	if (n > 2 && s[1].insn_class == PTAH_INSN_JUMP_IND && s[2].insn_class == PTAH_INSN_RETURN) {
		if (!calls_is_tail_leaf(m, s))
			return 0;
		tree_time(a->tree, &m->now.counts, m->now.tsc);
		if (!tree_tail_leaf(a->tree, s->to, s[1].to, s->space, s[1].ninsn, s[2].ninsn))
			return 0;
		if (UNLIKELY(a->tree->bounds))
			tree_bound_leaf(a->tree, 2, &m->now.counts, m->now.tsc, m->now.offset);
		calls_pass(m, &s[2], 2, s[1].ninsn + s[2].ninsn);
		return 2;
	}
	return 0;
}

/*
 * Where the cache of functions has 2^13 entries or more, what is known of the function that a span
 * leads to is loaded so many spans ahead.
 */
#define LARGE_CACHE 13
#define AHEAD	    8

int calls_adder_take_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n)
{
	struct calls_machine *m = &adder->machine;
	const size_t ahead = m->cache_bits < LARGE_CACHE || n < AHEAD ? 0 : n - AHEAD;
	size_t leaf;

	for (size_t i = 0; i < n; i++) {
		if (i < ahead)
			calls_prefetch(m, spans[i + AHEAD].to);
		if (UNLIKELY(spans[i].insn_class == FLOW_SPAN_EVENT)) {
			calls_event_span(m, &spans[i]);
			continue;
		}
		if (UNLIKELY(!calls_run(m, &spans[i])))
			continue;
		leaf = take_leaf(adder, &spans[i], n - i);
		if (leaf) {
			for (; leaf; leaf--)
				if (++i < ahead)
					calls_prefetch(m, spans[i + AHEAD].to);
			continue;
		}
		calls_branch(m, &sink, spans[i].insn_class, m->site, spans[i].end, spans[i].to);
	}
	return calls_adder_status(adder);
}

int calls_adder_take(struct calls_adder *adder, const struct ptah_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		calls_item(&adder->machine, &sink, &items[i]);
	return calls_adder_status(adder);
}

int calls_adder_bound(struct calls_adder *adder, uint64_t offset, uint64_t low, uint64_t high)
{
	return tree_bound_times(adder->tree, offset, low, high) ? 0 : PTAH_E_NOMEM;
}

uint64_t calls_adder_time(const struct calls_adder *adder)
{
	return adder->machine.now.tsc;
}

void calls_adder_wait(struct calls_adder *adder, uint64_t until)
{
	calls_set_time(&adder->machine, until, adder->machine.now.counts.cycles);
}

int calls_adder_finish(struct calls_adder *adder)
{
	calls_end(&adder->machine, PTAH_CALL_END_TRACE);
	return calls_adder_status(adder);
}

int calls_adder_exec(struct calls_adder *adder, uint64_t tsc)
{
	calls_exec(&adder->machine, tsc);
	return calls_adder_status(adder);
}

int calls_adder_lost(struct calls_adder *adder)
{
	calls_lost(&adder->machine);
	return calls_adder_status(adder);
}

void calls_adder_code_changed(struct calls_adder *adder)
{
	calls_forget_code(&adder->machine);
}
