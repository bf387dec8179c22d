/* SPDX-License-Identifier: MIT */
/*
 * A check for tests and debug builds: a second profile over the same bytes, without rows and
 * without paths. After every piece of trace both must be in the same state, and whenever counts are
 * requested both must have the same. Where they differ, one of the two is wrong, and the profile
 * fails with PTAH_E_INTERNAL from then on.
 */
#include "flow/state.h"
#include "profile/profile_internal.h"

#ifdef PTAH_COMPARE
#define ALWAYS true
#else
#define ALWAYS false
#endif

void beside_begin(struct ptah_profile *p)
{
	struct ptah_profile_config config = p->config;

	/*
	 * The on_missing callback would be called once for each of the two, and may add the code at
	 * the first call only.
	 */
	if (!(ALWAYS || config.compare) || config.no_rows || config.flow.on_missing)
		return;
	config.flow.size = sizeof(config.flow);
	config.flow.no_paths = true;
	config.no_rows = true;
	config.on_event = NULL;
	if (ptah_profile_new(p->flow->code.image, &config, &p->beside) < 0)
		p->beside = NULL;
}

void beside_end(struct ptah_profile *p)
{
	ptah_profile_free(p->beside);
	p->beside = NULL;
}

static bool same_place(const struct ptah_profile *p)
{
	struct flow_state a, b;

	flow_save_state(p->flow, &a);
	flow_save_state(p->beside->flow, &b);
	return a.plain == b.plain && a.offset == b.offset &&
	       p->flow->paused == p->beside->flow->paused &&
	       (!a.plain || flow_same_state(&a, &b, true));
}

int beside_stands(struct ptah_profile *p, int beside)
{
	if (beside < 0) /* out of memory: the second profile knows no more */
		beside_end(p);
	else if (p->status >= 0 && !same_place(p))
		p->status = PTAH_E_INTERNAL;
	return p->status;
}

/*
 * Looks up every key of `b` in `a`. A key that `a` does not have is added with a count of 0, which
 * differs; a key that only `a` has makes the number of keys differ.
 */
static bool same_blocks(const struct tally *a, struct tally *b)
{
	const struct tally_block *block = a->items;

	for (size_t i = 0; i < a->count; i++, block++) {
		const struct tally_block *other = tally_block(b, block);

		if (!other || other->count != block->count || other->taken != block->taken ||
		    other->unknown != block->unknown)
			return false;
	}
	return a->count == b->count;
}

/* An edge whose count was moved to another version of its target stays, with a count of 0. */
static size_t count_edges(const struct tally *edges)
{
	const struct tally_edge *edge = edges->items;
	size_t n = 0;

	for (size_t i = 0; i < edges->count; i++)
		n += edge[i].count != 0;
	return n;
}

static bool same_edges(const struct tally *a, struct tally *b)
{
	const struct tally_edge *edge = a->items;

	for (size_t i = 0; i < a->count; i++, edge++) {
		const struct tally_edge *other = tally_edge(b, edge);

		if (!other || other->count != edge->count)
			return false;
	}
	return count_edges(a) == count_edges(b);
}

int beside_counted(struct ptah_profile *p)
{
	struct ptah_profile *other = p->beside;

	if (p->status >= 0 &&
	    (memcmp(&p->totals, &other->totals, sizeof(p->totals)) != 0 ||
	     !same_blocks(&p->blocks, &other->blocks) || !same_edges(&p->edges, &other->edges)))
		p->status = PTAH_E_INTERNAL;
	return p->status;
}
