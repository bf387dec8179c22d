/* SPDX-License-Identifier: MIT */
/*
 * Traces without TNT packets (IA32_RTIT_CTL.DisTNT): the same random programs, with the outcomes
 * taken out of their traces. The instructions reported between two gaps must have run in this
 * order, one right after the other, and gaps may be only where they are needed.
 */
#include "test.h"

#include "world.h"

#include <ptah/flow.h>

struct decoded {
	uint64_t instructions, gaps;
};

/* Removes the TNT packets in place. Returns the new size. */
static size_t take_outcomes_out(uint8_t *trace, size_t size)
{
	size_t kept = 0;
	unsigned block = PTAH_BLOCK_NONE;

	for (size_t at = 0; at < size;) {
		struct ptah_packet packet;
		int n = ptah_packet_decode(&packet, trace + at, size - at, block);

		assert_true(n > 0);
		block = ptah_packet_block_state(&packet, block);
		if (packet.type != PTAH_PACKET_TNT_8 && packet.type != PTAH_PACKET_TNT_64) {
			memmove(trace + kept, trace + at, (size_t)n);
			kept += (size_t)n;
		}
		at += (size_t)n;
	}
	return kept;
}

/*
 * Which instructions of the expected list may come next, by index. After a gap these are all from
 * the first one on; each instruction reported reduces them to those that follow such an
 * instruction.
 */
struct places {
	const struct world *w;
	size_t *may, count;
	bool open; /* after a gap: all from may[0] on */
};

static void places_gap(struct places *p)
{
	assert_true(p->count > 0);
	p->open = true;
}

static void places_insn(struct places *p, const struct ptah_insn *insn)
{
	const size_t n = p->open ? p->w->ran_count - p->may[0] : p->count, first = p->may[0];

	p->count = 0;
	for (size_t i = 0; i < n; i++) {
		size_t at = p->open ? first + i : p->may[i];

		if (at < p->w->ran_count && p->w->ran[at].ip == insn->ip &&
		    p->w->ran[at].size == insn->size)
			p->may[p->count++] = at + 1;
	}
	p->open = false;
	assert_true(p->count > 0);
}

/* Whether everything that ran can have been reported, or lie in the last gap. */
static bool places_end(const struct places *p)
{
	return p->open || p->may[p->count - 1] == p->w->ran_count;
}

static void take(struct ptah_flow *flow, const struct ptah_item *item, struct places *p,
		 struct decoded *d)
{
	struct ptah_insn insns[16];
	int n;

	assert_int_not_equal(item->type, PTAH_ITEM_ERROR);
	if (item->type == PTAH_ITEM_GAP) {
		d->gaps++;
		places_gap(p);
	} else if (item->type == PTAH_ITEM_BLOCK) {
		n = ptah_flow_insns(flow, item, insns, 16);
		assert_int_equal(n, item->ninsn);
		d->instructions += (uint64_t)n;
		for (int i = 0; i < n; i++)
			places_insn(p, &insns[i]);
	}
}

static void decode(const struct world *w, size_t size, bool no_retcomp, size_t chunk, int capacity,
		   struct decoded *d)
{
	const struct ptah_flow_config config = {.size = sizeof(config),
						.events.trace.no_tnt = true,
						.events.trace.no_retcomp = no_retcomp};
	struct places p = {.w = w, .count = 1};
	struct ptah_item items[64];
	struct ptah_image *image;
	struct ptah_flow *flow;
	int n;

	memset(d, 0, sizeof(*d));
	p.may = calloc(w->ran_count + 1, sizeof(*p.may));
	assert_non_null(p.may);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, w->code, sizeof(w->code), WORLD_BASE, NULL),
			 0);
	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	for (size_t at = 0; at < size; at += chunk) {
		size_t part = size - at < chunk ? size - at : chunk;

		assert_int_equal(ptah_flow_feed(flow, w->trace + at, part, at + part == size), 0);
		while ((n = ptah_flow_read(flow, items, (size_t)capacity)) > 0)
			for (int i = 0; i < n; i++)
				take(flow, &items[i], &p, d);
	}
	assert_true(places_end(&p));
	ptah_flow_free(flow);
	ptah_image_free(image);
	free(p.may);
}

static void worlds(bool retcomp)
{
	for (unsigned seed = 1; seed <= 6; seed++) {
		struct decoded d, parts;
		size_t size;
		struct world *w = world_new(seed, retcomp, seed & 1, false, &size);

		size = take_outcomes_out(w->trace, size);
		decode(w, size, !retcomp, size, 64, &d);
		assert_true(d.gaps > 100);
		assert_true(d.instructions > w->ran_count / 2);
		assert_true(d.instructions < w->ran_count);
		decode(w, size, !retcomp, 1 + seed % 7, 1, &parts);
		assert_memory_equal(&d, &parts, sizeof(d));
		world_free(w);
	}
}

TEST(returns_in_the_trace)
{
	worlds(false);
}

TEST(returns_compressed)
{
	worlds(true);
}

/* A trace that has outcomes is decoded exactly, whatever the configuration says. */
TEST(outcomes_all_the_same)
{
	struct decoded d;
	size_t size;
	struct world *w = world_new(3, false, false, false, &size);

	decode(w, size, true, size, 64, &d);
	assert_true(d.instructions == w->ran_count);
	world_free(w);
}
