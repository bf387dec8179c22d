/* SPDX-License-Identifier: MIT */
/*
 * A plain flow beside a profile: a second profile over the same bytes, without
 * rows and without paths. It must stand where the first one stands after every
 * piece of the trace, and have counted the same whenever counts are asked for.
 * Where it does not, one of the two is wrong: PTAH_E_INTERNAL from then on.
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

	/* Who is asked for code is asked once, and may give it to the second who needs it. */
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
	if (beside < 0) /* out of memory: it knows no more */
		beside_end(p);
	else if (p->status >= 0 && !same_place(p))
		p->status = PTAH_E_INTERNAL;
	return p->status;
}

/*
 * A key that the other one has not is found as a new one, of count 0; one that
 * only the other one has makes the number of keys differ.
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

static bool same_edges(const struct tally *a, struct tally *b)
{
	const struct tally_edge *edge = a->items;

	for (size_t i = 0; i < a->count; i++, edge++) {
		const struct tally_edge *other = tally_edge(b, edge);

		if (!other || other->count != edge->count)
			return false;
	}
	return a->count == b->count;
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
