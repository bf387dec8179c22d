/* SPDX-License-Identifier: MIT */
/*
 * A window of a session is the same part of a decode of the whole, and no more of the trace is
 * decoded than it needs. The expected items are those of a session without a window.
 */
#include "test.h"

#include "../flow/random_machine.h"
#include "session/stream.h"

#include <ptah/session.h>

#include <stdio.h>
#include <unistd.h>

#define PATH "window.pt"

static struct ptah_session *session_of(const struct machine *m, size_t size)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct ptah_session *session;
	struct ptah_image *image;
	struct ptah_message why;
	FILE *file = fopen(PATH, "wb");

	assert_non_null(file);
	assert_true(fwrite(m->trace, 1, size, file) == size);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, m->code, sizeof(m->code), BASE, NULL), 0);
	config.image = image;
	assert_int_equal(ptah_session_open(PATH, &config, &session, &why), 0);
	ptah_image_free(image);
	return session;
}

struct items {
	struct ptah_item *items;
	size_t count, room;
	uint64_t taken; /* bytes of trace that were decoded for them */
};

static struct items read_all(const struct ptah_session *session)
{
	struct items all = {0};
	struct stream_decoder *stream;
	int n;

	assert_int_equal(stream_new(session, 0, &stream), 0);
	do {
		if (all.count + 100 > all.room) {
			all.room = 2 * all.room + 1000;
			all.items = realloc(all.items, all.room * sizeof(*all.items));
			assert_non_null(all.items);
		}
		n = stream_read(stream, all.items + all.count, 100);
		assert_true(n >= 0);
		all.count += (size_t)n;
	} while (n);
	all.taken = stream->taken;
	stream_free(stream);
	return all;
}

static void set_window(struct ptah_session *s, uint64_t since, uint64_t until)
{
	const struct ptah_window w = {
	    .size = sizeof(w), .since = since, .until = until, .last = UINT64_MAX};

	assert_int_equal(ptah_session_set_window(s, &w), 0);
}

/* What the window has of the whole: [first, last) of its items. */
static void find_part(const struct items *whole, uint64_t since, uint64_t until, size_t *first,
		      size_t *last)
{
	for (*first = 0; *first < whole->count && whole->items[*first].tsc < since;)
		++*first;
	for (*last = *first; *last < whole->count && whole->items[*last].tsc <= until;)
		++*last;
}

static int take_totals(void *context, size_t stream, struct ptah_profile *profile)
{
	(void)stream;
	assert_int_equal(ptah_profile_totals(profile, context), 0);
	return 0;
}

/* The counts of the window are the sums of its items. */
static void counts_add_up(const struct ptah_session *s, const struct ptah_item *items, size_t n)
{
	struct ptah_profile_totals totals = {0};
	uint64_t instructions = 0, blocks = 0, taken = 0, errors = 0;

	for (size_t i = 0; i < n; i++) {
		errors += items[i].type == PTAH_ITEM_ERROR;
		if (items[i].type != PTAH_ITEM_BLOCK)
			continue;
		blocks++;
		instructions += items[i].ninsn;
		taken += !!(items[i].flags & PTAH_ITEM_TAKEN);
	}
	assert_int_equal(ptah_session_count(s, NULL, NULL, take_totals, &totals), 0);
	assert_int_equal(totals.instructions, instructions);
	assert_int_equal(totals.blocks, blocks);
	assert_int_equal(totals.taken, taken);
	assert_int_equal(totals.errors, errors);
}

/* The offset of the PSB that is `n` PSBs before or after the item i; that of the whole, else. */
static uint64_t psb_from(const struct items *whole, size_t i, int n, uint64_t bytes)
{
	const int step = n < 0 ? -1 : 1;

	while (n && (step > 0 ? ++i < whole->count : i-- > 0))
		if (whole->items[i].type == PTAH_ITEM_PSB)
			n -= step;
	return n ? (step < 0 ? 0 : bytes) : whole->items[i].offset;
}

static void window_is_part(struct ptah_session *s, const struct items *whole, uint64_t since,
			   uint64_t until, uint64_t bytes)
{
	struct items part;
	size_t first, last;
	uint64_t needed;

	find_part(whole, since, until, &first, &last);
	set_window(s, since, until);
	part = read_all(s);
	assert_int_equal(part.count, last - first);
	for (size_t i = 0; i < part.count; i++)
		assert_memory_equal(&part.items[i], &whole->items[first + i], sizeof(*part.items));
	counts_add_up(s, whole->items + first, last - first);
	/* Four PSBs before the window, and two after it. */
	needed = psb_from(whole, last, 3, bytes) - (since ? psb_from(whole, first, -5, bytes) : 0);
	assert_true(part.taken <= needed);
	free(part.items);
}

static void parts_of_machines(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_session *s = session_of(m, size);
		struct items whole = read_all(s);
		uint64_t begin, end;

		assert_int_equal(ptah_session_stream_times(s, 0, &begin, &end), 0);
		assert_int_equal(end, whole.items[whole.count - 1].tsc);
		assert_int_equal(whole.taken, size);
		for (unsigned i = 0; i < 12; i++) {
			const uint64_t since = begin + next_random(m) % (end - begin + 1);
			const uint64_t until = since + next_random(m) % (i < 4 ? 3 : end - begin);

			window_is_part(s, &whole, since, until, size);
		}
		window_is_part(s, &whole, 0, begin + (end - begin) / 3, size);
		window_is_part(s, &whole, begin + (end - begin) / 3, UINT64_MAX, size);
		window_is_part(s, &whole, 0, UINT64_MAX, size);
		/* Windows outside of the trace have nothing. */
		window_is_part(s, &whole, end + 1, UINT64_MAX, size);
		window_is_part(s, &whole, 0, begin - 1, size);
		free(whole.items);
		ptah_session_close(s);
		machine_free(m);
	}
}

/* From the PSB at an offset on, everything is as in the whole once the first block is known. */
static void ends(void **state)
{
	size_t size;
	struct machine *m = machine_new(2, true, false, false, &size);
	struct ptah_session *s = session_of(m, size);
	struct items whole = read_all(s);

	(void)state;
	for (unsigned i = 1; i < 10; i++) {
		const struct ptah_window w = {.size = sizeof(w),
					      .until = UINT64_MAX,
					      .last = UINT64_MAX,
					      .offset = size * i / 10};
		struct items part;

		assert_int_equal(ptah_session_set_window(s, &w), 0);
		part = read_all(s);
		assert_in_range(part.count, 1, whole.count);
		/* The PSB+ is at or before the offset, and has at most 42 bytes. */
		assert_true(part.items[0].offset < w.offset + 42);
		assert_memory_equal(&part.items[part.count / 2],
				    &whole.items[whole.count - part.count + part.count / 2],
				    (part.count - part.count / 2) * sizeof(*part.items));
		free(part.items);
	}
	free(whole.items);
	ptah_session_close(s);
	machine_free(m);
}

/* Blocks that have one of the instructions from number `first` to `last`, and what is between. */
static void find_numbers(const struct items *whole, uint64_t first, uint64_t last, size_t *from,
			 size_t *to)
{
	uint64_t next = 0;

	*from = *to = 0;
	for (size_t i = 0; i < whole->count; i++) {
		if (whole->items[i].type != PTAH_ITEM_BLOCK)
			continue;
		if (next <= first)
			*from = i;
		if (next <= last)
			*to = i + 1;
		next += whole->items[i].ninsn;
	}
	if (next <= last)
		*to = whole->count;
}

/* The items are those of the whole from `from` on; blocks at both ends are cut. */
static void check_numbers(const struct items *whole, size_t from, const struct items *part,
			  uint64_t first, uint64_t last)
{
	uint64_t next = 0, inside = 0;

	for (size_t i = 0; i < from; i++)
		next += whole->items[i].type == PTAH_ITEM_BLOCK ? whole->items[i].ninsn : 0;
	for (size_t k = 0; k < part->count; k++) {
		const struct ptah_item *item = &part->items[k], *all = &whole->items[from + k];
		const unsigned n = all->type == PTAH_ITEM_BLOCK ? all->ninsn : 0;

		if (next >= first && next + n <= last + 1) {
			assert_memory_equal(item, all, sizeof(*item));
		} else {
			assert_true(item->ip >= all->ip && item->end <= all->end);
			assert_int_equal(item->ip == all->ip, next >= first);
			assert_int_equal(item->end == all->end, next + n <= last + 1);
		}
		inside += n ? item->ninsn : 0;
		next += n;
	}
	assert_int_equal(inside, (next < last + 1 ? next : last + 1) - first);
}

static void windows_of_instructions(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 4; seed++) {
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_session *s = session_of(m, size);
		struct items whole = read_all(s);
		struct ptah_profile_totals totals;

		assert_int_equal(ptah_session_count(s, NULL, NULL, take_totals, &totals), 0);
		for (unsigned i = 0; i < 8; i++) {
			struct ptah_window w = {.size = sizeof(w), .until = UINT64_MAX};
			struct items part;
			size_t from, to;

			w.first = next_random(m) % totals.instructions;
			w.last = w.first + next_random(m) % (i & 1 ? 3 : totals.instructions);
			find_numbers(&whole, w.first, w.last, &from, &to);
			assert_int_equal(ptah_session_set_window(s, &w), 0);
			part = read_all(s);
			assert_int_equal(part.count, to - from);
			check_numbers(&whole, from, &part, w.first, w.last);
			counts_add_up(s, part.items, part.count);
			free(part.items);
		}
		free(whole.items);
		ptah_session_close(s);
		machine_free(m);
	}
}

static void wrong_calls(void **state)
{
	const struct ptah_window empty = {0};
	uint64_t first, last;
	size_t size;
	struct machine *m = machine_new(3, true, false, false, &size);
	struct ptah_session *s = session_of(m, size);

	(void)state;
	assert_int_equal(ptah_session_set_window(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_session_set_window(s, &empty), PTAH_E_INVAL);
	assert_int_equal(ptah_session_stream_times(s, 1, &first, &last), PTAH_E_INVAL);
	assert_int_equal(ptah_session_tsc(s, 1000, true), 0); /* raw packets have no clock */
	ptah_session_close(s);
	machine_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_of_machines),
	    cmocka_unit_test(ends),
	    cmocka_unit_test(windows_of_instructions),
	    cmocka_unit_test(wrong_calls),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unlink(PATH);
	return failed;
}
