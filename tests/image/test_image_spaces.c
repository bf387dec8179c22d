/* SPDX-License-Identifier: MIT */
/*
 * Address spaces, clones and changes compared with a simple model: for every byte a list of adds
 * and removes, searched from the last one.
 */
#include "random.h"
#include "test.h"

#include "image/image_access.h"

#include <stdlib.h>
#include <string.h>

#define BASE	UINT64_C(0x7000)
#define SIZE	96
#define STEPS	400
#define HISTORY 1024

static const struct ptah_space spaces[] = {
    {PTAH_SPACE_ANY, PTAH_SPACE_ANY}, {0x1000, PTAH_SPACE_ANY}, {0x2000, PTAH_SPACE_ANY},
    {PTAH_SPACE_ANY, 0x9000},	      {0x1000, 0x9000},		{0x2000, 0x8000},
};
#define SPACES (sizeof(spaces) / sizeof(spaces[0]))

/* What each space's own layer has at each byte: the number of the add, 0: nothing. */
struct model {
	unsigned order[SPACES][SIZE];
	uint8_t value[SPACES][SIZE];
	unsigned adds;
};

static uint64_t seed;

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next(&seed) >> 11) % n;
}

static bool agree(uint64_t a, uint64_t b)
{
	return a == b || a == PTAH_SPACE_ANY || b == PTAH_SPACE_ANY;
}

/* The byte that is visible; -1: none. */
static int seen(const struct model *m, const struct ptah_space *space, unsigned at)
{
	unsigned best = 0;
	int value = -1;

	for (unsigned i = 0; i < SPACES; i++) {
		if (!agree(spaces[i].cr3, space->cr3) || !agree(spaces[i].vmcs, space->vmcs) ||
		    m->order[i][at] <= best)
			continue;
		best = m->order[i][at];
		value = m->value[i][at];
	}
	return value;
}

static void compare(const struct ptah_image *image, const struct model *m)
{
	for (unsigned i = 0; i < SPACES; i++) {
		uint8_t all[SIZE];
		unsigned run = 0;

		for (unsigned at = 0; at < SIZE; at++) {
			struct ptah_section section;
			uint8_t byte;
			int value = seen(m, &spaces[i], at);

			assert_int_equal(ptah_image_read(image, BASE + at, &byte, 1, &spaces[i]),
					 value >= 0);
			assert_int_equal(ptah_image_find(image, BASE + at, &spaces[i], &section),
					 value >= 0 ? 0 : PTAH_E_NO_CODE);
			if (value >= 0)
				assert_int_equal(byte, value);
			run = run == at && value >= 0 ? at + 1 : run;
		}
		/* Across the borders of sections and layers. */
		assert_int_equal(ptah_image_read(image, BASE, all, SIZE, &spaces[i]), run);
		for (unsigned at = 0; at < run; at++)
			assert_int_equal(all[at], seen(m, &spaces[i], at));
	}
}

static void add(struct ptah_image *image, struct model *m)
{
	unsigned i = pick(SPACES), at = pick(SIZE), n = 1 + pick(SIZE - at);
	uint8_t bytes[SIZE];

	memset(bytes, (int)pick(256), n);
	assert_int_equal(ptah_image_add_bytes(image, bytes, n, BASE + at, &spaces[i]), 0);
	m->adds++;
	for (unsigned k = at; k < at + n; k++) {
		m->order[i][k] = m->adds;
		m->value[i][k] = bytes[0];
	}
}

static bool covers(const struct ptah_space *outer, const struct ptah_space *inner)
{
	return (outer->cr3 == PTAH_SPACE_ANY || outer->cr3 == inner->cr3) &&
	       (outer->vmcs == PTAH_SPACE_ANY || outer->vmcs == inner->vmcs);
}

static void take(struct ptah_image *image, struct model *m)
{
	unsigned i = pick(SPACES), at = pick(SIZE), n = 1 + pick(SIZE - at);

	if (!pick(20)) {
		at = 0;
		n = SIZE;
	}
	assert_int_equal(ptah_image_remove(image, BASE + at, n, i ? &spaces[i] : NULL), 0);
	for (unsigned k = 0; k < SPACES; k++)
		if (covers(&spaces[i], &spaces[k]))
			memset(&m->order[k][at], 0, n * sizeof(m->order[k][0]));
}

/* Every byte that is visible now and was different before lies in a reported change. */
static void check_changes(const struct ptah_image *image, uint64_t since,
			  const struct model *before, const struct model *now)
{
	struct image_change changes[IMAGE_CHANGES];
	int n = image_changes(image, since, changes);

	for (unsigned i = 0; i < SPACES; i++) {
		for (unsigned at = 0; at < SIZE; at++) {
			int was = seen(before, &spaces[i], at);
			bool told = n < 0;

			if (was < 0 || was == seen(now, &spaces[i], at))
				continue;
			for (int k = 0; k < n; k++)
				told |=
				    BASE + at >= changes[k].first && BASE + at <= changes[k].last;
			assert_true(told);
		}
	}
}

TEST(random_changes)
{
	for (unsigned run = 1; run <= 30; run++) {
		struct ptah_image *image, *clone = NULL;
		struct model m = {0}, of_clone = {0};

		seed = run * UINT64_C(0x9e3779b97f4a7c15);
		assert_int_equal(ptah_image_new(&image), 0);
		for (unsigned step = 0; step < STEPS; step++) {
			struct model before = m;
			uint64_t since = image_generation(image);

			if (pick(4))
				add(image, &m);
			else
				take(image, &m);
			check_changes(image, since, &before, &m);
			if (step % 16 == 0)
				compare(image, &m);
			if (!pick(20)) { /* a change of one does not show in the other */
				if (clone)
					compare(clone, &of_clone);
				ptah_image_free(clone);
				assert_int_equal(ptah_image_clone(image, &clone), 0);
				of_clone = m;
				if (pick(2)) {
					struct ptah_image *other = image;

					image = clone;
					clone = other;
				}
			}
		}
		compare(image, &m);
		ptah_image_free(image);
		if (clone)
			compare(clone, &of_clone);
		ptah_image_free(clone);
	}
}

/*
 * New bytes where there were none are no change; more changes than the image remembers are reported
 * as "all".
 */
TEST(changes)
{
	struct image_change told[IMAGE_CHANGES];
	struct ptah_image *image;
	uint64_t since;

	assert_int_equal(ptah_image_new(&image), 0);
	since = image_generation(image);
	assert_int_equal(ptah_image_add_bytes(image, "aaaa", 4, 0x1000, NULL), 0);
	assert_int_equal(ptah_image_add_bytes(image, "bbbb", 4, 0x1004, NULL), 0);
	assert_true(image_generation(image) == since);
	assert_int_equal(image_changes(image, since, told), 0);
	/* The same bytes again. */
	assert_int_equal(ptah_image_add_bytes(image, "aaaa", 4, 0x1000, NULL), 0);
	assert_true(image_generation(image) == since);
	assert_int_equal(ptah_image_add_bytes(image, "cc", 2, 0x1003, NULL), 0);
	assert_int_equal(image_changes(image, since, told), 1);
	assert_true(told[0].first == 0x1003 && told[0].last == 0x1004);
	for (unsigned i = 0; i < IMAGE_CHANGES; i++)
		assert_int_equal(ptah_image_add_bytes(image, i & 1 ? "d" : "e", 1, 0x1000, NULL),
				 0);
	assert_int_equal(image_changes(image, since, told), -1);
	ptah_image_free(image);
}
