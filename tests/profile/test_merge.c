/* SPDX-License-Identifier: MIT */
/* Merged profiles report what one profile over all traces reports. */
#include "test.h"

#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "profile/profile_internal.h"

#include <ptah/profile.h>

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

static struct ptah_profile *profile_over(const struct ptah_image *image)
{
	struct ptah_profile *profile;

	assert_int_equal(ptah_profile_new(image, NULL, &profile), 0);
	return profile;
}

/* Feeds a piece of the trace as a trace of its own. */
static void feed_piece(struct ptah_profile *p, const uint8_t *trace, size_t from, size_t to)
{
	ptah_profile_seek(p, from);
	assert_int_equal(ptah_profile_feed(p, trace + from, to - from, true), 0);
}

/*
 * Where the trace can be cut: before each PSB. Returns the number of cuts, with the end as the
 * last.
 */
static size_t cuts(const uint8_t *trace, size_t size, size_t *at, size_t n)
{
	static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
					2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
	size_t k = 0;

	for (size_t i = 0; i + sizeof(psb) <= size && k + 1 < n; i++) {
		if (!memcmp(trace + i, psb, sizeof(psb))) {
			at[k++] = i;
			i += sizeof(psb);
		}
	}
	at[k++] = size;
	return k;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int block_order(const void *a, const void *b)
{
	const struct ptah_profile_block *x = a, *y = b;
	int c = compare(x->target, y->target); /* the space's CR3, see below */

	c = c ? c : compare(x->ip, y->ip);
	c = c ? c : compare(x->end, y->end);
	c = c ? c : compare(x->mode, y->mode);
	c = c ? c : compare(x->truncated, y->truncated);
	return c ? c : compare(x->insn_class, y->insn_class);
}

static int edge_order(const void *a, const void *b)
{
	const struct ptah_profile_edge *x = a, *y = b;
	int c = compare(x->space, y->space);

	c = c ? c : compare(x->from, y->from);
	c = c ? c : compare(x->to, y->to);
	c = c ? c : compare(x->mode, y->mode);
	return c ? c : compare(x->insn_class, y->insn_class);
}

static uint64_t cr3_of(const struct ptah_profile *p, uint32_t number)
{
	struct ptah_space space;

	assert_int_equal(ptah_profile_space(p, number, &space), 0);
	return space.cr3;
}

/* Blocks with their CR3 in place of the number of their space, which may differ. */
static struct ptah_profile_block *blocks_of(struct ptah_profile *p, size_t *n)
{
	struct ptah_profile_block *blocks;

	assert_int_equal(ptah_profile_blocks(p, &blocks, n), 0);
	for (size_t i = 0; i < *n; i++) {
		blocks[i].target = cr3_of(p, blocks[i].space);
		blocks[i].space = 0;
	}
	qsort(blocks, *n, sizeof(*blocks), block_order);
	return blocks;
}

static struct ptah_profile_edge *edges_of(struct ptah_profile *p, size_t *n)
{
	struct ptah_profile_edge *edges;

	assert_int_equal(ptah_profile_edges(p, &edges, n), 0);
	for (size_t i = 0; i < *n; i++)
		edges[i].space = (uint32_t)cr3_of(p, edges[i].space);
	qsort(edges, *n, sizeof(*edges), edge_order);
	return edges;
}

static void assert_same(struct ptah_profile *a, struct ptah_profile *b)
{
	struct ptah_profile_totals x, y;
	size_t n, m;
	struct ptah_profile_block *s = blocks_of(a, &n), *t = blocks_of(b, &m);
	struct ptah_profile_edge *e, *f;

	assert_true(n > 0);
	assert_int_equal(n, m);
	assert_memory_equal(s, t, n * sizeof(*s));
	e = edges_of(a, &n);
	f = edges_of(b, &m);
	assert_int_equal(n, m);
	assert_memory_equal(e, f, n * sizeof(*e));
	assert_int_equal(ptah_profile_totals(a, &x), 0);
	assert_int_equal(ptah_profile_totals(b, &y), 0);
	/* Which error is the first depends on the order. */
	x.first_error = y.first_error = (struct ptah_item){0};
	assert_memory_equal(&x, &y, sizeof(x));
	free(s);
	free(t);
	free(e);
	free(f);
}

/* Gives the pieces between PSBs to two profiles in turn, or all to one. */
static void split(const struct ptah_image *image, const uint8_t *trace, size_t size)
{
	struct ptah_profile *all = profile_over(image), *half[2];
	size_t at[2000], n = cuts(trace, size, at, 2000);

	half[0] = profile_over(image);
	half[1] = profile_over(image);
	assert_true(n > 2);
	/* In reverse order, so that the halves meet the address spaces in different orders. */
	for (size_t i = 0; i + 1 < n; i++)
		feed_piece(all, trace, at[i], at[i + 1]);
	for (size_t i = n - 1; i-- > 0;)
		feed_piece(half[i & 1], trace, at[i], at[i + 1]);
	assert_int_equal(profile_merge(half[0], half[1]), 0);
	assert_same(half[0], all);
	ptah_profile_free(all);
	ptah_profile_free(half[0]);
	ptah_profile_free(half[1]);
}

TEST(halves_are_the_whole)
{
	for (unsigned seed = 1; seed <= 16; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		split(image, w->trace, size);
		ptah_image_free(image);
		world_free(w);
	}
}

/* Merging in the middle of a trace does not change what follows. */
TEST(in_the_middle)
{
	for (unsigned seed = 1; seed <= 16; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));
		struct ptah_profile *twice = profile_over(image), *once = profile_over(image),
				    *merged = profile_over(image);

		feed_piece(twice, w->trace, 0, size);
		feed_piece(twice, w->trace, 0, size);
		feed_piece(once, w->trace, 0, size);
		assert_int_equal(ptah_profile_feed(merged, w->trace, size / 2, false), 0);
		assert_int_equal(profile_merge(merged, once), 0);
		assert_int_equal(
		    ptah_profile_feed(merged, w->trace + size / 2, size - size / 2, true), 0);
		assert_same(merged, twice);
		ptah_profile_free(twice);
		ptah_profile_free(once);
		ptah_profile_free(merged);
		ptah_image_free(image);
		world_free(w);
	}
}

TEST(merge_errors)
{
	struct ptah_profile_totals totals;
	size_t size;
	struct world *w = world_new(1, false, false, false, &size);
	struct ptah_image *image = image_of(w->code, sizeof(w->code));
	struct ptah_profile *a = profile_over(image), *b = profile_over(image),
			    *c = profile_over(image);

	/* Starts inside a PSB: an error at that offset. */
	ptah_profile_seek(b, 700);
	assert_int_equal(ptah_profile_feed(b, w->trace, 3, true), 0);
	ptah_profile_seek(c, 100);
	assert_int_equal(ptah_profile_feed(c, w->trace, 3, true), 0);
	assert_int_equal(ptah_profile_totals(b, &totals), 0);
	assert_true(totals.errors == 1);
	assert_int_equal(profile_merge(a, b), 0);
	assert_int_equal(profile_merge(a, c), 0);
	assert_int_equal(ptah_profile_totals(a, &totals), 0);
	assert_true(totals.errors == 2);
	assert_true(totals.first_error.offset >=
		    700); /* the first error of the profile merged first */
	assert_int_equal(profile_merge(a, a), PTAH_E_INVAL);
	assert_int_equal(profile_merge(a, NULL), PTAH_E_INVAL);
	assert_int_equal(profile_merge(NULL, a), PTAH_E_INVAL);
	ptah_profile_free(a);
	ptah_profile_free(b);
	ptah_profile_free(c);
	ptah_image_free(image);
	world_free(w);
}
