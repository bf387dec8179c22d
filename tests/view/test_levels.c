/* SPDX-License-Identifier: MIT */
/*
 * Levels of random calls are what their definition says, found the slow way: for each depth, calls
 * of a unit or more are bars of their own, and shorter ones that begin in one unit are one bar.
 */
#include "test.h"

#include "view/levels.h"

#include <stdlib.h>

#define CALLS 20000
#define DEPTH 12

struct call {
	size_t depth;
	struct bar bar;
};

/* Calls in the order in which they end. */
struct calls {
	struct call list[CALLS];
	size_t count;
	uint64_t now, seed;
};

static uint64_t next(struct calls *c)
{
	c->seed ^= c->seed << 13;
	c->seed ^= c->seed >> 7;
	c->seed ^= c->seed << 17;
	return c->seed;
}

/* Lengths of all magnitudes, and often none. */
static uint64_t pause_of(struct calls *c)
{
	const unsigned kind = (unsigned)(next(c) % 10);

	return kind < 4 ? 0 : next(c) % (UINT64_C(1) << 2 * kind);
}

static void make_call(struct calls *c, size_t depth)
{
	const uint64_t begin = c->now += pause_of(c);

	while (depth + 1 < DEPTH && next(c) % 5 < 3 && c->count + DEPTH < CALLS)
		make_call(c, depth + 1);
	c->now += pause_of(c);
	c->list[c->count++] = (struct call){.depth = depth,
					    .bar = {.begin = begin,
						    .end = c->now,
						    .longest = c->now - begin,
						    .function = (uint32_t)(next(c) % 50),
						    .calls = 1,
						    .flags = next(c) % 20 ? 0 : BAR_LOSS}};
}

static struct calls *make_calls(uint64_t seed)
{
	struct calls *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	while (c->count + DEPTH < CALLS)
		make_call(c, 0);
	return c;
}

/* The bars of a depth at a unit, by definition. Returns how many. */
static size_t slow_bars(const struct calls *c, size_t depth, uint64_t unit, struct bar *bars)
{
	bool mergeable = false;
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		const struct bar *b = &c->list[i].bar;

		if (c->list[i].depth != depth)
			continue;
		if (b->longest < unit && mergeable && bars[n - 1].begin / unit == b->begin / unit) {
			struct bar *last = &bars[n - 1];

			last->end = b->end;
			last->calls++;
			if (b->longest > last->longest) {
				last->longest = b->longest;
				last->function = b->function;
			}
			last->flags = BAR_MERGED | ((last->flags | b->flags) & BAR_LOSS);
			continue;
		}
		bars[n++] = *b;
		mergeable = b->longest < unit;
	}
	return n;
}

struct taking {
	const struct bar *bars;
	size_t next, count;
	uint64_t from, to;
};

static bool is_in(const struct bar *b, uint64_t from, uint64_t to)
{
	return b->begin < to && (b->end > from || (b->begin == b->end && b->begin == from));
}

static int take(void *context, size_t depth, const struct bar *bar)
{
	struct taking *t = context;

	(void)depth;
	while (t->next < t->count && !is_in(&t->bars[t->next], t->from, t->to))
		t->next++;
	assert_true(t->next < t->count);
	assert_int_equal(bar->begin, t->bars[t->next].begin);
	assert_int_equal(bar->end, t->bars[t->next].end);
	assert_int_equal(bar->calls, t->bars[t->next].calls);
	assert_int_equal(bar->longest, t->bars[t->next].longest);
	assert_int_equal(bar->function, t->bars[t->next].function);
	assert_int_equal(bar->flags, t->bars[t->next].flags);
	t->next++;
	return 0;
}

static void compare(const struct levels *l, struct calls *c, unsigned k, uint64_t from, uint64_t to)
{
	struct bar *bars = calloc(CALLS, sizeof(*bars));

	assert_non_null(bars);
	for (size_t depth = 0; depth < DEPTH; depth++) {
		struct taking t = {.bars = bars, .from = from, .to = to};

		t.count = slow_bars(c, depth, level_unit(k), bars);
		assert_int_equal(levels_read(l, k, depth, from, to, take, &t), 0);
		while (t.next < t.count && !is_in(&bars[t.next], from, to))
			t.next++;
		assert_int_equal(t.next, t.count);
	}
	free(bars);
}

static void compare_all(const struct levels *l, struct calls *c)
{
	for (unsigned k = l->first; k <= l->last; k++) {
		const uint64_t from = next(c) % c->now;

		compare(l, c, k, 0, UINT64_MAX);
		compare(l, c, k, from, from + next(c) % c->now);
		compare(l, c, k, c->list[k].bar.begin, c->list[k].bar.end);
	}
}

static void add_all(struct levels *l, const struct calls *c, size_t drop_at)
{
	for (size_t i = 0; i < c->count; i++) {
		assert_int_equal(levels_add(l, c->list[i].depth, &c->list[i].bar), 0);
		if (i % drop_at == drop_at - 1)
			assert_true(levels_drop(l));
	}
	assert_int_equal(levels_finish(l), 0);
}

TEST(as_defined)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct calls *c = make_calls(seed);
		struct levels l;

		levels_init(&l, (unsigned)seed - 1);
		add_all(&l, c, CALLS);
		compare_all(&l, c);
		levels_fini(&l);
		assert_int_equal(l.bytes, 0);
		free(c);
	}
}

/* Levels that are dropped while calls come in change none of the others. */
TEST(dropped)
{
	struct calls *c = make_calls(7);
	struct levels l;
	uint64_t before;

	levels_init(&l, 0);
	add_all(&l, c, CALLS / 4);
	assert_int_equal(l.first, 3);
	compare_all(&l, c);
	before = l.bytes - levels_first_bytes(&l);
	assert_true(levels_drop(&l));
	assert_int_equal(l.bytes, before);
	compare_all(&l, c);
	assert_true(c->now >> 2 * l.last >= 64 && c->now >> 2 * l.last < 4 * 64);
	while (l.first < l.last && levels_drop(&l))
		compare_all(&l, c);
	assert_true(l.bytes < before / 4);
	/* Where even the last one is too large, there is a coarser one. */
	for (before = l.bytes; levels_drop(&l); before = l.bytes) {
		assert_int_equal(l.first, l.last);
		assert_true(l.bytes <= before);
		compare_all(&l, c);
	}
	assert_int_equal(l.first, LEVELS - 1);
	assert_true(l.bytes < 10000);
	levels_fini(&l);
	free(c);
}

/* Calls that are long enough are found by where they begin. */
TEST(found)
{
	struct calls *c = make_calls(9);
	struct levels l;
	size_t long_ones = 0;

	levels_init(&l, LEVEL_FIRST);
	add_all(&l, c, CALLS);
	for (size_t i = 0; i < c->count; i++) {
		const struct call *call = &c->list[i];
		struct bar bar;

		if (call->bar.longest < level_unit(LEVEL_FIRST))
			continue;
		long_ones++;
		assert_true(levels_find(&l, call->depth, call->bar.begin, &bar));
		assert_int_equal(bar.end, call->bar.end);
		assert_int_equal(bar.function, call->bar.function);
		assert_false(levels_find(&l, call->depth, call->bar.begin + 1, &bar));
	}
	assert_true(long_ones > 1000);
	assert_false(levels_find(&l, 1000000, 0, &(struct bar){0}));
	levels_fini(&l);
	free(c);
}

TEST(units)
{
	assert_int_equal(level_of(0), 0);
	assert_int_equal(level_of(1), 0);
	assert_int_equal(level_of(3), 0);
	assert_int_equal(level_of(4), 1);
	assert_int_equal(level_of(UINT64_MAX), LEVELS - 1);
}
