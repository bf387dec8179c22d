/* SPDX-License-Identifier: MIT */
/* Lists that grow: their elements stay, and a list that cannot grow is as it was. */
#include "../test.h"

#include "support/list.h"

#include <stdlib.h>

TEST(elements_stay_when_a_list_grows)
{
	uint64_t *list = NULL;
	size_t count = 0, room = 0, times = 0;

	for (uint64_t i = 0; i < 10000; i++) {
		const size_t before = room;

		assert_true(LIST_ROOM(list, count, room));
		list[count++] = i * i;
		times += room != before;
	}
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(list[i], i * i);
	assert_true(times < 20);
	free(list);
}

TEST(room_of_32_bits_is_no_wider)
{
	struct {
		uint16_t *list;
		uint32_t count, room, guard;
	} p = {.guard = 0x1234};

	for (uint16_t i = 0; i < 100; i++) {
		assert_true(LIST_ROOM(p.list, p.count, p.room));
		p.list[p.count++] = i;
	}
	assert_int_equal(p.guard, 0x1234);
	assert_true(p.room >= 100);
	assert_int_equal(p.list[99], 99);
	free(p.list);
}

TEST(room_for_many_at_once)
{
	char *text = NULL;
	size_t n = 0, room = 0, none = 0;

	assert_true(LIST_ROOM_FOR(text, n, 1000, room));
	assert_true(room >= 1000);
	memset(text, 'a', 1000);
	n = 1000;
	assert_true(LIST_ROOM_FOR(text, n, none, room));
	assert_true(LIST_ROOM_FOR(text, n, 1, room));
	assert_int_equal(text[999], 'a');
	free(text);
}

TEST(a_list_that_cannot_grow_is_as_it_was)
{
	uint64_t *list = NULL, *before;
	size_t count = 0, room = 0;
	uint32_t narrow;

	assert_true(LIST_ROOM(list, count, room));
	list[count++] = 7;
	before = list;
	narrow = (uint32_t)room;
	assert_false(LIST_ROOM_FOR(list, count, SIZE_MAX, room));
	assert_false(LIST_ROOM_FOR(list, count, SIZE_MAX / 4, room));
	assert_false(LIST_ROOM_FOR(list, count, UINT32_MAX, narrow));
	assert_ptr_equal(list, before);
	assert_int_equal(list[0], 7);
	assert_int_equal(room, narrow);
	free(list);
}

TEST(elements_up_to_an_index_are_zero)
{
	struct pair {
		uint32_t a, b;
	} *list = NULL;
	size_t count = 0;

	assert_true(LIST_REACH(list, count, 4));
	assert_int_equal(count, 5);
	for (size_t i = 0; i < count; i++)
		assert_true(!list[i].a && !list[i].b);
	list[4].b = 9;
	assert_true(LIST_REACH(list, count, 2));
	assert_int_equal(count, 5);
	assert_true(LIST_ADD(list, count));
	assert_int_equal(count, 6);
	assert_int_equal(list[4].b, 9);
	assert_int_equal(list[5].a, 0);
	assert_false(LIST_REACH(list, count, SIZE_MAX));
	assert_int_equal(count, 6);
	free(list);
}
