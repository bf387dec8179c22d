/* SPDX-License-Identifier: MIT */
/*
 * Proves of the flow layer, for any code and any trace: decoding ends; chunks
 * of any size give the same items; the instructions of a block begin at the
 * block's first address, follow each other and end at its end; items, blocks
 * and instructions, with remembered paths or without, and again from a mark,
 * are the same. Resynchronised at every error, decoding ends as well, with the
 * same items for room for one and for many. And the blocks ahead of a place are
 * a chain. All this also of a flow that continues after missing code by itself.
 *
 * Input: see fuzz_program().
 */
#include "fuzz.h"

#include "../tests/flow/forms.h"
#include "flow/state.h"

/*
 * More blocks than a valid trace of this size can have: 47 outcomes in 8 bytes
 * decide as many branches, and the direct jumps between two of them are bounded
 * by the code's size; beyond that the flow reports NO_PROGRESS.
 */
#define MAX_ITEMS (UINT64_C(1) << 22)

/* All items are kept for the comparison: see fuzz_profile.c. */
#define MAX_COMPARED 1024

static void check_block(const struct ptah_flow *flow, const struct ptah_item *block)
{
	struct ptah_insn insns[300];
	uint64_t ip = block->ip;
	int n = ptah_flow_insns(flow, block, insns, 300);

	CHECK(block->ninsn > 0);
	CHECK(n == (block->ninsn < 300 ? block->ninsn : 300));
	for (int i = 0; i < n; i++) {
		CHECK(insns[i].ip == ip && insns[i].size >= 1 && insns[i].size <= 15);
		ip += insns[i].size;
	}
	if (n == block->ninsn)
		CHECK(ip == block->end && insns[n - 1].size == block->last_size);
}

static struct fuzz_items decode(const struct ptah_image *image,
				const struct ptah_flow_config *config, const uint8_t *data,
				size_t size, size_t max_chunk, uint64_t seed)
{
	struct fuzz_items sum = {0};
	struct ptah_flow *flow;
	struct ptah_item items[16];
	size_t at = 0;
	bool last;

	CHECK(!ptah_flow_new(image, config, &flow));
	do {
		size_t left = size - at;
		size_t n = max_chunk < size ? fuzz_random(&seed) % (max_chunk + 1) : left;
		uint8_t *chunk;
		int k;

		n = n < left ? n : left;
		last = n == left;
		chunk = fuzz_copy(data + at, n);
		CHECK(!ptah_flow_feed(flow, chunk, n, last));
		while ((k = ptah_flow_read(flow, items, 16)) > 0) {
			if (sum.count < 4096)
				for (int i = 0; i < k; i++)
					if (items[i].type == PTAH_ITEM_BLOCK)
						check_block(flow, &items[i]);
			fuzz_add_items(&sum, items, k);
			CHECK(sum.count < MAX_ITEMS);
		}
		CHECK(!k && !flow_is_paused(flow));
		free(chunk);
		at += n;
	} while (!last);
	ptah_flow_free(flow);
	return sum;
}

/* Looks ahead from the flow's current place. */
static void look_ahead(struct ptah_flow *flow)
{
	struct ptah_item blocks[8];
	struct ptah_place place;
	int n = 1;

	if (ptah_flow_place(flow, &place) < 0)
		return;
	for (unsigned left = 20; n > 0 && left; left--) {
		const uint64_t ip = place.ip;

		n = ptah_flow_ahead(flow, &place, blocks, 8);
		CHECK(n <= 8 && (n || !place.mode));
		for (int i = 0; i < n; i++) {
			check_block(flow, &blocks[i]);
			CHECK(i || blocks[i].ip == ip);
			if (i && blocks[i - 1].insn_class == PTAH_INSN_OTHER)
				CHECK(blocks[i].ip == blocks[i - 1].end);
		}
	}
}

/* Decodes the whole trace, and continues after errors where that is possible. */
static struct fuzz_items resync(const struct fuzz_program *p, size_t capacity)
{
	struct fuzz_items sum = {0};
	struct ptah_item items[16];
	struct ptah_flow *flow;
	int n;

	CHECK(!ptah_flow_new(p->image, &p->config, &flow));
	CHECK(!ptah_flow_feed(flow, p->trace, p->size, true));
	while ((n = ptah_flow_read(flow, items, capacity)) > 0) {
		const struct ptah_item *last = &items[n - 1];

		fuzz_add_items(&sum, items, n);
		CHECK(sum.count < MAX_ITEMS);
		if (sum.count < 1024)
			look_ahead(flow);
		if (ptah_flow_resync(flow) < 0)
			CHECK(last->type != PTAH_ITEM_ERROR || last->status != PTAH_E_NO_CODE);
		else
			CHECK(last->type == PTAH_ITEM_ERROR);
	}
	ptah_flow_free(flow);
	return sum;
}

static void check(const struct fuzz_program *p, uint64_t seed, size_t chunk, size_t capacity)
{
	struct fuzz_items whole, cut;

	whole = decode(p->image, &p->config, p->trace, p->size, p->size, seed);
	for (size_t max_chunk = 1; max_chunk < 200; max_chunk *= 12) {
		cut = decode(p->image, &p->config, p->trace, p->size, max_chunk,
			     seed + 2 * max_chunk);
		CHECK(cut.count == whole.count && cut.hash == whole.hash);
	}
	whole = resync(p, 16);
	cut = resync(p, 1);
	CHECK(cut.count == whole.count && cut.hash == whole.hash);
	if (p->size <= MAX_COMPARED)
		CHECK(forms_equal(p->image, &p->config, p->trace, p->size, chunk, capacity));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t seed = fuzz_hash(1, data, size) | 1;
	struct fuzz_program program;

	if (!fuzz_program(&program, data, size))
		return 0;
	check(&program, seed, size % 3 ? 0 : 41, size % 300 + 1);
	program.config.resync = true;
	check(&program, seed, size % 3 ? 0 : 41, size % 300 + 1);
	ptah_image_free(program.image);
	return 0;
}
