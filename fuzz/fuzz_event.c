/* SPDX-License-Identifier: MIT */
/*
 * Proves of the event layer, for any bytes and any chunks: the items are the
 * same for all sizes of chunks, their number is bounded by the trace's length,
 * their types and offsets are in range, and after the end nothing follows.
 * Groups of packets that packet_group.h reads are what the items say.
 *
 * Input: a byte that chooses the configuration (fuzz_event_config), the trace.
 */
#include "fuzz.h"

#include "../tests/event/compare_group.h"

/* No packet leads to more items than this (a PSB+ after an overflow). */
#define ITEMS_PER_BYTE 16

static void check_items(const struct ptah_item *items, int n, size_t size)
{
	for (int i = 0; i < n; i++) {
		CHECK(items[i].type < PTAH_ITEM_TYPE_MAX && ptah_item_name(items[i].type));
		CHECK(items[i].type != PTAH_ITEM_BLOCK);
		CHECK(items[i].offset <= size);
		CHECK(items[i].type != PTAH_ITEM_ERROR || items[i].status < 0);
	}
}

/* Decodes in chunks of up to max_chunk bytes, and frees each when it was consumed. */
static struct fuzz_items decode(const struct ptah_event_config *config, const uint8_t *data,
				size_t size, size_t max_chunk, uint64_t seed)
{
	struct fuzz_items sum = {0};
	struct ptah_event_decoder *d;
	struct ptah_item items[7];
	size_t at = 0;
	bool last;

	CHECK(!ptah_event_decoder_new(config, &d));
	do {
		size_t left = size - at;
		size_t n = max_chunk < size ? fuzz_random(&seed) % (max_chunk + 1) : left;
		uint8_t *chunk;
		int k;

		n = n < left ? n : left;
		/* The end may be announced with the last bytes or after them. */
		last = n == left && (fuzz_random(&seed) & 1 || !left);
		chunk = fuzz_copy(data + at, n);
		CHECK(!ptah_event_feed(d, chunk, n, last));
		while ((k = ptah_event_read(d, items, 7)) > 0) {
			check_items(items, k, size);
			fuzz_add_items(&sum, items, k);
			CHECK(sum.count <= ITEMS_PER_BYTE * (size + 1));
		}
		CHECK(!k);
		free(chunk);
		at += n;
	} while (!last);
	CHECK(ptah_event_read(d, items, 7) == 0);
	ptah_event_decoder_free(d);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_event_config config = fuzz_event_config(size ? *data : 0);
	uint64_t seed = fuzz_hash(1, data, size) | 1;
	struct group_counts counts = {0};
	struct fuzz_items whole;
	size_t max_chunk[] = {1, 3, 40, 300};

	if (size) {
		data++;
		size--;
	}
	CHECK(groups_equal_events(&config, data, size, &counts));
	whole = decode(&config, data, size, size, seed);
	for (size_t i = 0; i < sizeof(max_chunk) / sizeof(*max_chunk); i++) {
		struct fuzz_items cut = decode(&config, data, size, max_chunk[i], seed + 2 * i);

		CHECK(cut.count == whole.count && cut.hash == whole.hash);
	}
	return 0;
}
