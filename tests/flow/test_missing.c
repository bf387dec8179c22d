/* SPDX-License-Identifier: MIT */
/*
 * Code that the caller adds in on_missing, during a decode: the items are those of a complete
 * image.
 */
#include "test.h"

#include "world.h"

#include <ptah/flow.h>

struct store {
	struct ptah_image *full, *image;
	uint64_t piece;
	unsigned asked;
	bool lies; /* claims to have added code, and has not */
};

static bool bring(void *context, uint64_t address, const struct ptah_space *space)
{
	struct store *store = context;
	const uint64_t first = address / store->piece * store->piece;
	uint8_t bytes[4096];
	size_t n = ptah_image_read(store->full, first, bytes, (size_t)store->piece, space);

	store->asked++;
	if (store->lies)
		return true;
	return n && ptah_image_add_bytes(store->image, bytes, n, first, NULL) >= 0;
}

struct items {
	struct ptah_item *item;
	size_t n, capacity;
};

static struct ptah_flow *open_flow(const struct ptah_image *image, struct store *store,
				   const struct world *w, size_t size)
{
	const struct ptah_flow_config config = {
	    .size = sizeof(config), .on_missing = store ? bring : NULL, .missing_context = store};
	struct ptah_flow *flow;

	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
	return flow;
}

/* All items, without their sections: pieces of an image have more of those. */
static struct items read_all(struct ptah_flow *flow, size_t capacity)
{
	struct items items = {0};
	int n;

	do {
		if (items.capacity - items.n < capacity) {
			items.capacity = 2 * items.capacity + 4096;
			items.item = realloc(items.item, items.capacity * sizeof(*items.item));
			assert_non_null(items.item);
		}
		n = ptah_flow_read(flow, items.item + items.n, capacity);
		assert_true(n >= 0);
		for (int i = 0; i < n; i++)
			items.item[items.n + (size_t)i].code.section = 0;
		items.n += (size_t)n;
	} while (n);
	return items;
}

static struct ptah_image *empty(void)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	return image;
}

static void compare(struct store *store, const struct ptah_image *wanted, struct world *w,
		    size_t size)
{
	struct ptah_flow *a = open_flow(wanted, NULL, w, size);
	struct ptah_flow *b = open_flow(store->image, store, w, size);
	struct items x = read_all(a, 256), y;

	/* Twice: the second time all code has been added, or is refused again. */
	for (unsigned i = 0; i < 2; i++) {
		y = read_all(b, i ? 1 : 256);
		assert_int_equal(x.n, y.n);
		assert_memory_equal(x.item, y.item, x.n * sizeof(*x.item));
		free(y.item);
		ptah_flow_seek(b, 0);
		assert_int_equal(ptah_flow_feed(b, w->trace, size, true), 0);
	}
	free(x.item);
	ptah_flow_free(a);
	ptah_flow_free(b);
}

TEST(on_demand)
{
	static const uint64_t pieces[] = {1, 2, 64, 4096};

	for (unsigned seed = 1; seed <= 8; seed++) {
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct store store = {empty(), empty(), pieces[seed % 4], 0, false};

		assert_int_equal(
		    ptah_image_add_bytes(store.full, w->code, sizeof(w->code), WORLD_BASE, NULL),
		    0);
		compare(&store, store.full, w, size);
		assert_true(store.asked > 0);
		ptah_image_free(store.full);
		ptah_image_free(store.image);
		world_free(w);
	}
}

/* If on_missing claims to have added code and has not, the flow does not call it without end. */
TEST(lies)
{
	size_t size;
	struct world *w = world_new(1, true, false, false, &size);
	struct store store = {empty(), empty(), 4096, 0, true};

	compare(&store, store.full, w, size);
	assert_true(store.asked > 0 && store.asked < size);
	ptah_image_free(store.full);
	ptah_image_free(store.image);
	world_free(w);
}
