/* SPDX-License-Identifier: MIT */
/* Returning to a mark: what is read again is the same, or that of another image. */
#include "test.h"

#include "timed_trace.h"
#include "world.h"

#include <ptah/flow.h>

struct items {
	struct ptah_item *item;
	size_t n, room;
};

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, WORLD_BASE, NULL), 0);
	return image;
}

static struct ptah_flow *open_flow(const struct ptah_image *image,
				   const struct ptah_flow_config *config)
{
	struct ptah_flow *flow;

	assert_int_equal(ptah_flow_new(image, config, &flow), 0);
	return flow;
}

/* Numbers of sections differ from image to image. */
static void add(struct items *items, const struct ptah_item *item)
{
	if (items->n == items->room) {
		items->room = 2 * items->room + 4096;
		items->item = realloc(items->item, items->room * sizeof(*items->item));
		assert_non_null(items->item);
	}
	items->item[items->n] = *item;
	if (item->type == PTAH_ITEM_BLOCK)
		items->item[items->n].code.section = 0;
	items->n++;
}

static size_t read_some(struct ptah_flow *flow, struct items *items, size_t capacity)
{
	struct ptah_item item[512];
	const int n = ptah_flow_read(flow, item, capacity);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		add(items, &item[i]);
	return (size_t)n;
}

static struct items read_all(const struct ptah_image *image, const struct ptah_flow_config *config,
			     const uint8_t *trace, size_t size)
{
	struct ptah_flow *flow = open_flow(image, config);
	struct items items = {0};

	assert_int_equal(ptah_flow_feed(flow, trace, size, true), 0);
	while (read_some(flow, &items, 512))
		;
	ptah_flow_free(flow);
	return items;
}

static void assert_same(const struct items *wanted, const struct items *got)
{
	for (size_t i = 0; i < wanted->n && i < got->n; i++)
		if (memcmp(&wanted->item[i], &got->item[i], sizeof(*got->item)))
			fail_msg("item %zu of %zu", i, wanted->n);
	assert_int_equal(wanted->n, got->n);
}

/* Reads over other code and returns: nothing of what was read there remains. */
TEST(other_code)
{
	for (unsigned seed = 1; seed <= 12; seed++) {
		struct ptah_flow_config config = {.size = sizeof(config),
						  .no_paths = seed % 4 == 0};
		size_t size, timed_size, read;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct world *other = world_new(seed + 100, false, false, false, &read);
		uint8_t *timed = timed_new(w->trace, size, seed, &timed_size, &config);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));
		struct items wanted = read_all(image, &config, timed, timed_size);
		struct items got = {0}, dropped = {0};
		struct ptah_flow *flow = open_flow(image, &config);

		assert_int_equal(ptah_flow_feed(flow, timed, timed_size, true), 0);
		do {
			assert_int_equal(ptah_flow_mark(flow), 0);
			if (!world_pick(w, 4)) {
				const uint64_t at = WORLD_BASE + world_pick(w, WORLD_SIZE / 2);

				read_some(flow, &dropped, 1 + world_pick(w, 300));
				if (world_pick(w, 2))
					assert_int_equal(ptah_image_add_bytes(image, other->code,
									      WORLD_SIZE / 2, at,
									      NULL),
							 0);
				else
					assert_int_equal(ptah_image_remove(image, at, 4096, NULL),
							 0);
				read_some(flow, &dropped, 1 + world_pick(w, 300));
				assert_int_equal(ptah_image_add_bytes(image, w->code,
								      sizeof(w->code), WORLD_BASE,
								      NULL),
						 0);
				if (world_pick(w, 2))
					read_some(flow, &dropped, 1 + world_pick(w, 300));
				dropped.n = 0;
				assert_int_equal(ptah_flow_rewind(flow), 0);
			}
			read = read_some(flow, &got, 1 + world_pick(w, 300));
		} while (read);
		assert_same(&wanted, &got);
		free(wanted.item);
		free(got.item);
		free(dropped.item);
		free(timed);
		ptah_flow_free(flow);
		ptah_image_free(image);
		world_free(other);
		world_free(w);
	}
}

/* What invalidates a mark, and what does not. */
TEST(lost)
{
	size_t size;
	struct world *w = world_new(1, true, false, false, &size);
	struct ptah_image *image = image_of(w->code, sizeof(w->code));
	struct ptah_flow *flow = open_flow(image, NULL);
	struct items items = {0};

	assert_int_equal(ptah_flow_mark(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_rewind(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_rewind(flow), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_mark(flow), 0);
	assert_int_equal(ptah_flow_rewind(flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size / 2, false), 0);
	assert_int_equal(ptah_flow_rewind(flow), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_mark(flow), 0);
	while (read_some(flow, &items, 512))
		;
	/* All chunks are read, and no new one is fed. */
	assert_int_equal(ptah_flow_rewind(flow), 0);
	assert_int_equal(ptah_flow_rewind(flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), PTAH_E_BUSY);
	while (read_some(flow, &items, 512))
		;
	ptah_flow_seek(flow, 0);
	assert_int_equal(ptah_flow_rewind(flow), PTAH_E_INVAL);
	free(items.item);
	ptah_flow_free(flow);
	ptah_image_free(image);
	world_free(w);
}
