/* SPDX-License-Identifier: MIT */
/*
 * Continuing after missing code: at the very next address in the trace; what is reported from there
 * on is what ran.
 */
#include "test.h"

#include "../profile/compare_profile.h"
#include "forms.h"
#include "world.h"

#include <ptah/flow.h>

/* A list of instructions that ran. */
struct list {
	uint64_t *ip;
	size_t n, room;
};

static void add_block(struct list *list, const struct ptah_flow *flow,
		      const struct ptah_item *block)
{
	struct ptah_insn insns[256];

	assert_int_equal(ptah_flow_insns(flow, block, insns, 256), block->ninsn);
	for (unsigned i = 0; i < block->ninsn; i++) {
		if (list->n == list->room) {
			list->room = 2 * list->room + 4096;
			list->ip = realloc(list->ip, list->room * sizeof(*list->ip));
			assert_non_null(list->ip);
		}
		list->ip[list->n++] = insns[i].ip;
	}
}

static struct ptah_image *image_of(const struct world *w)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, w->code, sizeof(w->code), WORLD_BASE, NULL),
			 0);
	return image;
}

static struct ptah_flow *open_flow(const struct ptah_image *image, const struct world *w,
				   size_t size)
{
	struct ptah_flow *flow;

	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	return flow;
}

/* All instructions that ran. */
static struct list read_whole(const struct world *w, size_t size)
{
	struct ptah_image *image = image_of(w);
	struct ptah_flow *flow = open_flow(image, w, size);
	struct list list = {0};
	struct ptah_item item;

	while (ptah_flow_read(flow, &item, 1) == 1)
		if (item.type == PTAH_ITEM_BLOCK)
			add_block(&list, flow, &item);
	assert_int_equal(list.n, w->ran_count);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.ip[i], w->ran[i].ip);
	ptah_flow_free(flow);
	ptah_image_free(image);
	return list;
}

/* The target of the first packet at `offset` or after it that has an address; 0: there is none. */
static uint64_t next_address(const struct ptah_item *events, size_t n, uint64_t offset)
{
	for (size_t i = 0; i < n; i++) {
		const struct ptah_item *e = &events[i];

		if (e->offset < offset)
			continue;
		switch (e->type) {
		case PTAH_ITEM_TIP:
		case PTAH_ITEM_ASYNC_BRANCH:
			return e->to;
		case PTAH_ITEM_TNT:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_ASYNC_DISABLED: /* turned on, and off at once */
			break;
		default:
			if (!(e->flags & PTAH_ITEM_IP_SUPPRESSED) && e->ip)
				return e->ip;
		}
	}
	return 0;
}

static size_t read_events(const struct world *w, size_t size, struct ptah_item **events)
{
	struct ptah_event_decoder *d;
	size_t n = 0, room = size;
	int k;

	*events = malloc(room * sizeof(**events));
	assert_non_null(*events);
	assert_int_equal(ptah_event_decoder_new(NULL, &d), 0);
	assert_int_equal(ptah_event_feed(d, w->trace, size, true), 0);
	while ((k = ptah_event_read(d, *events + n, room - n)) > 0)
		n += (size_t)k;
	assert_true(n < room);
	ptah_event_decoder_free(d);
	return n;
}

/* Is `part` contained in the whole without a gap, from *at or later? Moves *at after it. */
static bool stands_in(const struct list *whole, const struct list *part, size_t *at)
{
	for (size_t from = *at; from + part->n <= whole->n; from++) {
		if (memcmp(whole->ip + from, part->ip, part->n * sizeof(*part->ip)))
			continue;
		*at = from + part->n;
		return true;
	}
	return false;
}

struct counts {
	size_t told, errors, resyncs;
};

/* Reads everything with an image that has holes. */
static struct counts read_holes(const struct world *w, size_t size, const struct ptah_image *image,
				bool resync)
{
	struct list whole = read_whole(w, size), part = {0};
	struct ptah_flow *flow = open_flow(image, w, size);
	struct counts counts = {0};
	struct ptah_item item, *events;
	const size_t n = read_events(w, size, &events);
	uint64_t expected = 0;
	size_t at = 0;

	while (ptah_flow_read(flow, &item, 1) == 1) {
		struct ptah_place place;

		/* The first item that shows where the flow is. */
		if (item.type == PTAH_ITEM_BLOCK || item.type == PTAH_ITEM_ERROR)
			assert_true(!expected || item.ip == expected);
		if (item.ip == expected) {
			expected = 0;
		} else if (ptah_flow_place(flow, &place) == 0 && expected) {
			assert_int_equal(place.ip, expected);
			expected = 0;
		}
		if (item.type == PTAH_ITEM_BLOCK) {
			add_block(&part, flow, &item);
			counts.told += item.ninsn;
		}
		if (item.type != PTAH_ITEM_ERROR) {
			assert_int_equal(ptah_flow_resync(flow), PTAH_E_INVAL);
			continue;
		}
		assert_true(item.status == PTAH_E_NO_CODE || item.status == PTAH_E_BAD_RETCOMP ||
			    item.status == PTAH_E_MISMATCH);
		assert_true(stands_in(&whole, &part, &at));
		part.n = 0;
		counts.errors++;
		if (!resync)
			continue;
		assert_int_equal(ptah_flow_resync(flow), 0);
		assert_int_equal(ptah_flow_resync(flow), PTAH_E_INVAL);
		expected = next_address(events, n, item.offset);
		counts.resyncs += expected != 0;
	}
	assert_true(stands_in(&whole, &part, &at));
	assert_int_equal(expected, 0);
	ptah_flow_free(flow);
	free(whole.ip);
	free(part.ip);
	free(events);
	return counts;
}

/* Without deferred TIPs: nobody can tell which of them precede the outcomes that are lost. */
static void worlds(void **state)
{
	size_t resyncs = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 24; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w);
		struct counts with, without;

		for (unsigned i = 0; i < 1 + seed % 4; i++)
			assert_int_equal(
			    ptah_image_remove(image, w->places[any_place(w)].ip + world_pick(w, 8),
					      20 + world_pick(w, 300), NULL),
			    0);
		with = read_holes(w, size, image, true);
		without = read_holes(w, size, image, false);
		assert_true(with.told >= without.told);
		resyncs += with.resyncs;
		ptah_image_free(image);
		world_free(w);
	}
	assert_true(resyncs > 1000);
}

/*
 * Reads up to `room` items one by one, through blocks where that works, and resyncs at every error.
 */
static size_t read_resynced(struct ptah_flow *flow, struct ptah_item *items, size_t capacity,
			    size_t room)
{
	size_t n = 0;
	int k;

	do {
		struct ptah_block blocks[8];

		while (!room && (k = ptah_flow_read_blocks(flow, blocks, 8)) > 0)
			for (int i = 0; i < k; i++)
				items[n++].ip = blocks[i].ip;
		assert_true(n + 64 <= capacity);
		k = ptah_flow_read(flow, items + n, room ? room : 1);
		n += (size_t)k;
		for (int i = 0; i < k - 1; i++)
			assert_true(items[n - 2 - (size_t)i].type != PTAH_ITEM_ERROR);
		if (k && items[n - 1].type == PTAH_ITEM_ERROR)
			assert_int_equal(ptah_flow_resync(flow), 0);
	} while (k);
	return n;
}

/* An error ends the batch, so that the capacity makes no difference. */
static void batches(void **state)
{
	const size_t capacity = 1 << 17;
	struct ptah_item *wanted = calloc(capacity, sizeof(*wanted));
	struct ptah_item *got = calloc(capacity, sizeof(*got));

	(void)state;
	assert_true(wanted && got);
	for (unsigned seed = 1; seed <= 12; seed++) {
		static const size_t rooms[] = {0, 2, 64};
		size_t size, n;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w);
		struct ptah_flow *flow;

		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(ptah_image_remove(image, w->places[any_place(w)].ip,
							   20 + world_pick(w, 300), NULL),
					 0);
		flow = open_flow(image, w, size);
		n = read_resynced(flow, wanted, capacity, 1);
		ptah_flow_free(flow);
		for (unsigned i = 0; i < 3; i++) {
			flow = open_flow(image, w, size);
			assert_int_equal(read_resynced(flow, got, capacity, rooms[i]), n);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(got[k].ip, wanted[k].ip);
			if (rooms[i])
				assert_memory_equal(got, wanted, n * sizeof(*got));
			ptah_flow_free(flow);
		}
		ptah_image_free(image);
		world_free(w);
	}
	free(wanted);
	free(got);
}

/*
 * A recording with a kernel whose code is not there: the code of one size is the program, all other
 * code is the kernel. They reach each other by far branches, interrupts and IRET only.
 */
#define USER_END (WORLD_BASE + REGION)

static bool is_user(uint64_t ip)
{
	return ip < USER_END;
}

/* How often the kernel was entered, or traced again after it had not been. */
static size_t kernel_visits(const struct world *w, size_t size)
{
	struct ptah_item *events;
	const size_t n = read_events(w, size, &events);
	size_t visits = 0;

	for (size_t i = 0; i < w->ran_count; i++)
		visits += !is_user(w->ran[i].ip) && (!i || is_user(w->ran[i - 1].ip));
	for (size_t i = 0; i < n; i++)
		visits +=
		    (events[i].type == PTAH_ITEM_ENABLED || events[i].type == PTAH_ITEM_OVERFLOW) &&
		    !is_user(events[i].ip);
	free(events);
	return visits;
}

/* Reads with a flow that continues by itself, or does not. Returns the number of errors. */
static size_t read_user_code(const struct world *w, size_t size, const struct ptah_image *image,
			     bool resync, struct list *told)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = resync};
	struct ptah_flow *flow;
	struct ptah_item item;
	size_t errors = 0;

	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	while (ptah_flow_read(flow, &item, 1) == 1) {
		if (item.type == PTAH_ITEM_BLOCK)
			add_block(told, flow, &item);
		if (item.type != PTAH_ITEM_ERROR)
			continue;
		assert_int_equal(item.status, PTAH_E_NO_CODE);
		assert_true(!resync || !is_user(item.ip));
		errors++;
	}
	ptah_flow_free(flow);
	return errors;
}

static struct ptah_image *user_image(const struct world *w)
{
	struct ptah_image *image = image_of(w);

	assert_int_equal(ptah_image_remove(image, USER_END, WORLD_SIZE - REGION, NULL), 0);
	return image;
}

/* Every instruction that the program ran is reported, and each visit of the kernel is one error. */
static void all_user_code(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 24; seed++) {
		size_t size, ran = 0;
		struct world *w = world_new(seed, false, seed & 2, false, &size);
		struct ptah_image *image = user_image(w);
		struct list told = {0}, less = {0};

		assert_true(read_user_code(w, size, image, true, &told) <= kernel_visits(w, size));
		for (size_t i = 0; i < w->ran_count; i++) {
			if (!is_user(w->ran[i].ip))
				continue;
			assert_true(ran < told.n);
			assert_int_equal(told.ip[ran++], w->ran[i].ip);
		}
		assert_int_equal(told.n, ran);
		read_user_code(w, size, image, false, &less);
		assert_true(less.n < told.n);
		free(told.ip);
		free(less.ip);
		ptah_image_free(image);
		world_free(w);
	}
}

/* Paths, blocks and steps, profiles and marks: the same items in every form, in chunks too. */
static void all_forms(void **state)
{
	const struct ptah_flow_config config = {.size = sizeof(config), .resync = true};

	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = user_image(w);

		assert_true(forms_equal(image, &config, w->trace, size, seed % 3 * 50, seed * 30));
		assert_true(profile_equals_flow(image, &config, w->trace, size, seed % 3 * 70));
		ptah_image_free(image);
		world_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(worlds),
	    cmocka_unit_test(batches),
	    cmocka_unit_test(all_user_code),
	    cmocka_unit_test(all_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
