/* SPDX-License-Identifier: MIT */
/* A call machine whose beginnings and ends go straight into a call tree. */
#include "calls/adder_internal.h"
#include "calls/tree_sink.h"

#include <stdlib.h>

static ALWAYS_INLINE struct ptah_call_tree *tree_of(struct calls_machine *m)
{
	return ((struct calls_adder *)m)->tree;
}

static ALWAYS_INLINE void begin(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	(void)site;
	tree_begin(tree_of(m), f->function, f->space, f->how, f->flags, &m->now.counts, m->now.tsc);
}

static ALWAYS_INLINE void end(struct calls_machine *m, const struct calls_frame *f,
			      enum ptah_call_end how, unsigned flags, uint64_t site)
{
	(void)site;
	tree_end(tree_of(m), how, flags, f->id, &m->now.counts, m->now.tsc);
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

int calls_adder_new(const struct ptah_calls_config *config, struct ptah_call_tree *tree,
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
 * Where the cache of functions has 2^13 entries or more, what is known of the function that a span
 * leads to is loaded so many spans ahead.
 */
#define LARGE_CACHE 13
#define AHEAD	    8

int calls_adder_take_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n)
{
	struct calls_machine *m = &adder->machine;
	const size_t ahead = m->cache_bits < LARGE_CACHE || n < AHEAD ? 0 : n - AHEAD;
	size_t i = 0;

	for (; i < ahead; i++) {
		calls_prefetch(m, spans[i + AHEAD].to);
		calls_span(m, &sink, &spans[i]);
	}
	for (; i < n; i++)
		calls_span(m, &sink, &spans[i]);
	return calls_adder_status(adder);
}

int calls_adder_take(struct calls_adder *adder, const struct ptah_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		calls_item(&adder->machine, &sink, &items[i]);
	return calls_adder_status(adder);
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
