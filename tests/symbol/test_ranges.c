/* SPDX-License-Identifier: MIT */
/*
 * Overlapping ranges become a disjoint table. The result is compared with a model
 * that assigns each byte of a small address space by itself.
 */
#include "../test.h"

#include "symbol/ranges.h"

#include <stdlib.h>
#include <string.h>

#define SPACE 64

static struct symbol_range range(uint64_t start, uint64_t end, size_t name, unsigned rank)
{
	return (struct symbol_range){.start = start,
				     .end = end,
				     .head = start,
				     .size = end - start,
				     .name = name,
				     .rank = (uint8_t)rank,
				     .named = true};
}

TEST(nested_ranges_keep_the_outer_tail)
{
	struct symbol_ranges list = {0};
	struct symbol_names names = {0};
	size_t outer = symbol_names_add(&names, "outer", "");
	size_t inner = symbol_names_add(&names, "inner", "");

	symbol_ranges_add(&list, range(20, 30, inner, 1));
	symbol_ranges_add(&list, range(10, 40, outer, 1));
	symbol_ranges_sort(&list, &names);
	symbol_ranges_flatten(&list);
	assert_int_equal(list.count, 3);
	assert_null(symbol_ranges_find(&list, 9));
	assert_int_equal(symbol_ranges_find(&list, 10)->name, outer);
	assert_int_equal(symbol_ranges_find(&list, 29)->name, inner);
	assert_int_equal(symbol_ranges_find(&list, 30)->name, outer);
	assert_int_equal(symbol_ranges_find(&list, 30)->head, 10);
	assert_int_equal(symbol_ranges_find(&list, 39)->size, 30);
	assert_null(symbol_ranges_find(&list, 40));
	symbol_ranges_free(&list);
	free(names.bytes);
}

TEST(the_better_name_wins)
{
	struct symbol_ranges list = {0};
	struct symbol_names names = {0};

	symbol_ranges_add(&list,
			  range(8, 16, symbol_names_add(&names, "local", ""), SYMBOL_RANK_LOCAL));
	symbol_ranges_add(&list,
			  range(8, 16, symbol_names_add(&names, "__open", ""), SYMBOL_RANK_GLOBAL));
	symbol_ranges_add(&list,
			  range(8, 16, symbol_names_add(&names, "open", ""), SYMBOL_RANK_GLOBAL));
	symbol_ranges_sort(&list, &names);
	assert_int_equal(list.count, 1);
	assert_string_equal(names.bytes + list.items[0].name, "open");
	symbol_ranges_free(&list);
	free(names.bytes);
}

static const char *best_of(unsigned rank_a, unsigned rank_b)
{
	static char best[8];
	struct symbol_ranges list = {0};
	struct symbol_names names = {0};

	symbol_ranges_add(&list, range(8, 16, symbol_names_add(&names, "a", ""), rank_a));
	symbol_ranges_add(&list, range(8, 16, symbol_names_add(&names, "b", ""), rank_b));
	symbol_ranges_sort(&list, &names);
	assert_int_equal(list.count, 1);
	strcpy(best, names.bytes + list.items[0].name);
	symbol_ranges_free(&list);
	free(names.bytes);
	return best;
}

TEST(global_beats_local_beats_weak)
{
	assert_string_equal(best_of(SYMBOL_RANK_LOCAL, SYMBOL_RANK_GLOBAL), "b");
	assert_string_equal(best_of(SYMBOL_RANK_WEAK, SYMBOL_RANK_LOCAL), "b");
	assert_string_equal(best_of(SYMBOL_RANK_GLOBAL, SYMBOL_RANK_WEAK), "a");
	/* A known size ranks above any type and binding, a type above any binding. */
	assert_string_equal(best_of(SYMBOL_RANK_GLOBAL + SYMBOL_RANK_FUNCTION,
				    SYMBOL_RANK_WEAK + SYMBOL_RANK_SIZED),
			    "b");
	assert_string_equal(best_of(SYMBOL_RANK_GLOBAL, SYMBOL_RANK_WEAK + SYMBOL_RANK_FUNCTION),
			    "b");
	/* Of equal ranks the name decides, not the order. */
	assert_string_equal(best_of(SYMBOL_RANK_WEAK, SYMBOL_RANK_WEAK), "a");
}

/* The promise of flatten(): of the ranges that hold a byte, the one that began last. */
static size_t colour(const struct symbol_range *items, size_t n, uint64_t at)
{
	size_t best = 0;
	uint64_t start = 0;

	for (size_t i = 0; i < n; i++)
		if (items[i].start <= at && at < items[i].end && items[i].start >= start) {
			start = items[i].start;
			best = items[i].name;
		}
	return best;
}

static size_t random_list(struct symbol_ranges *list, struct symbol_names *names, unsigned *seed)
{
	size_t n = (size_t)rand_r(seed) % 12;
	bool taken[SPACE] = {false};

	for (size_t i = 0; i < n; i++) {
		uint64_t start = (uint64_t)rand_r(seed) % SPACE;
		uint64_t end = start + (uint64_t)rand_r(seed) % (SPACE - start + 1);
		char text[16] = {(char)('a' + i), 0};

		if (taken[start] || start == end)
			continue;
		taken[start] = true;
		symbol_ranges_add(list, range(start, end, symbol_names_add(names, text, ""), 1));
	}
	return list->count;
}

TEST(tables_equal_the_model)
{
	unsigned seed = 1;

	for (unsigned round = 0; round < 2000; round++) {
		struct symbol_ranges a = {0}, b = {0};
		struct symbol_names names = {0};
		struct symbol_range ca[16], cb[16];
		size_t na, nb;

		symbol_names_add(&names, "none", "");
		na = random_list(&a, &names, &seed);
		nb = random_list(&b, &names, &seed);
		symbol_ranges_sort(&a, &names);
		symbol_ranges_sort(&b, &names);
		if (na)
			memcpy(ca, a.items, na * sizeof(*ca));
		if (nb)
			memcpy(cb, b.items, nb * sizeof(*cb));
		symbol_ranges_flatten(&a);
		symbol_ranges_flatten(&b);
		symbol_ranges_fill(&a, &b);
		assert_false(a.failed);
		for (uint64_t at = 0; at <= SPACE; at++) {
			const struct symbol_range *found = symbol_ranges_find(&a, at);
			size_t expected = colour(ca, na, at);

			if (!expected)
				expected = colour(cb, nb, at);
			assert_int_equal(found ? found->name : 0, expected);
		}
		for (size_t i = 1; i < a.count; i++)
			assert_true(a.items[i - 1].end <= a.items[i].start);
		symbol_ranges_free(&a);
		symbol_ranges_free(&b);
		free(names.bytes);
	}
}

TEST(names_are_bounded)
{
	struct symbol_names names = {0};
	char *name = malloc(1 << 20);
	size_t at;

	memset(name, 'x', (1 << 20) - 1);
	name[(1 << 20) - 1] = '\0';
	at = symbol_names_add(&names, name, "@plt");
	assert_true(strlen(names.bytes + at) <= SYMBOL_NAME_MAX);
	for (unsigned i = 0; i < 400000; i++)
		symbol_names_add(&names, name, "");
	assert_true(names.failed);
	assert_true(names.room <= SYMBOL_NAMES_MAX);
	free(names.bytes);
	free(name);
}

/* A name that found no room has a place behind the others: nobody reads it. */
TEST(names_without_room_are_not_read)
{
	struct symbol_ranges list = {0};
	struct symbol_names names = {.failed = true};

	symbol_ranges_add(&list, range(8, 16, symbol_names_add(&names, "a", ""), 1));
	symbol_ranges_add(&list, range(8, 16, symbol_names_add(&names, "b", ""), 1));
	symbol_ranges_sort(&list, &names);
	assert_int_equal(list.count, 0);
	symbol_ranges_free(&list);
}
