/* SPDX-License-Identifier: MIT */
/*
 * A profile that compares itself with a second one (src/profile/beside.c) notices when the two
 * differ, and only then.
 */
#include "test.h"

#include "profile/profile_internal.h"

#include "../flow/random_machine.h"

/* A profile halfway through a random program's trace. */
struct half {
	struct machine *m;
	struct ptah_image *image;
	struct ptah_profile *p;
	size_t size;
};

static void begin(struct half *h)
{
	const struct ptah_profile_config config = {.size = sizeof(config), .compare = true};

	h->m = machine_new(7, true, false, false, &h->size);
	assert_int_equal(ptah_image_new(&h->image), 0);
	assert_int_equal(ptah_image_add_bytes(h->image, h->m->code, sizeof(h->m->code), BASE, NULL),
			 0);
	assert_int_equal(ptah_profile_new(h->image, &config, &h->p), 0);
	assert_non_null(h->p->beside);
	assert_int_equal(ptah_profile_feed(h->p, h->m->trace, h->size / 2, false), 0);
}

static int feed_more(struct half *h, size_t n)
{
	return ptah_profile_feed(h->p, h->m->trace + h->size / 2, n, n == h->size - h->size / 2);
}

static int feed_rest(struct half *h)
{
	return feed_more(h, h->size - h->size / 2);
}

static void finish(struct half *h)
{
	ptah_profile_free(h->p);
	ptah_image_free(h->image);
	machine_free(h->m);
}

/* The first plain entry that has a count. */
static struct row_entry *counted_entry(struct ptah_profile *p)
{
	for (size_t i = STRIDE; i < p->state_count * STRIDE; i++)
		if (i % STRIDE > 1 && p->rows[i].next > 0 && p->rows[i].count)
			return &p->rows[i];
	return NULL;
}

TEST(equal)
{
	struct ptah_profile_totals totals;
	struct half h;

	begin(&h);
	assert_int_equal(ptah_profile_totals(h.p, &totals), 0);
	assert_int_equal(feed_rest(&h), 0);
	assert_int_equal(ptah_profile_totals(h.p, &totals), 0);
	assert_true(totals.instructions == h.m->instructions);
	ptah_profile_seek(h.p, 0);
	assert_int_equal(ptah_profile_feed(h.p, h.m->trace, h.size, true), 0);
	assert_int_equal(ptah_profile_reset(h.p), 0);
	assert_int_equal(ptah_profile_totals(h.p, &totals), 0);
	assert_true(totals.instructions == 0);
	finish(&h);
}

/* Counts one packet too many. */
TEST(wrong_count)
{
	struct ptah_profile_totals totals;
	struct half h;

	begin(&h);
	counted_entry(h.p)->count++;
	assert_int_equal(ptah_profile_totals(h.p, &totals), PTAH_E_INTERNAL);
	assert_int_equal(feed_rest(&h), PTAH_E_INTERNAL); /* and keeps failing */
	finish(&h);
}

/* Counts one edge too few, and one that was never taken. */
TEST(wrong_edges)
{
	struct ptah_profile_edge *edges;
	struct half h;
	size_t n;

	for (unsigned which = 0; which < 2; which++) {
		begin(&h);
		assert_int_equal(ptah_profile_edges(h.p, &edges, &n), 0);
		assert_true(n > 0);
		free(edges);
		if (which)
			((struct tally_edge *)h.p->edges.items)->count--;
		else
			tally_edge(&h.p->edges, &(struct tally_edge){.from = 1, .to = 2})->count++;
		assert_int_equal(ptah_profile_edges(h.p, &edges, &n), PTAH_E_INTERNAL);
		finish(&h);
	}
}

/* The place is wrong: noticed before counts are expanded. */
TEST(wrong_place)
{
	struct half h;

	begin(&h);
	ptah_flow_seek(h.p->flow, h.size / 2);
	assert_int_equal(feed_more(&h, 40), PTAH_E_INTERNAL);
	finish(&h);
}

/* All packets through one entry lead to the wrong state. */
TEST(wrong_next)
{
	struct ptah_profile_totals totals;
	struct row_entry *entry;
	struct half h;

	begin(&h);
	entry = counted_entry(h.p);
	entry->next = entry->next == STRIDE ? 2 * STRIDE : STRIDE;
	ptah_profile_seek(h.p, 0);
	ptah_profile_feed(h.p, h.m->trace, h.size, true);
	assert_int_equal(ptah_profile_totals(h.p, &totals), PTAH_E_INTERNAL);
	finish(&h);
}
