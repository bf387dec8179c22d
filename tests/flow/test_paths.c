/* SPDX-License-Identifier: MIT */
/*
 * Flows with and without remembered paths return the same: random programs, read as items, blocks
 * and steps.
 */
#include "forms.h"
#include "random_machine.h"
#include "test.h"
#include "timed_trace.h"
#include "world.h"

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

TEST(machines)
{
	static const size_t chunks[] = {0, 100, 4096}, capacities[] = {300, 1, 7, 64};

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(16, 8); seed++) {
		const struct ptah_flow_config config = {.events.trace.no_retcomp = seed % 8 == 0};
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));

		assert_true(forms_equal(image, &config, m->trace, size, chunks[seed % 3],
					capacities[seed % 4]));
		ptah_image_free(image);
		machine_free(m);
	}
}

TEST(worlds)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(16, 8); seed++) {
		const struct ptah_flow_config config = {.events.trace.no_tnt = seed % 8 == 0};
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		assert_true(forms_equal(image, &config, w->trace, size, seed % 3 ? 0 : 37,
					seed % 5 ? 256 : 5));
		ptah_image_free(image);
		world_free(w);
	}
}

/*
 * With clocks: paths add CYC packets up, and each item has the time after all of those before it.
 */
TEST(clocks)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 8); seed++) {
		struct ptah_flow_config config = {.size = sizeof(config)};
		size_t size, timed_size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));
		uint8_t *timed = timed_new(m->trace, size, seed, &timed_size, &config);

		assert_non_null(timed);
		assert_true(forms_equal(image, &config, timed, timed_size, seed % 3 ? 0 : 100,
					seed % 5 ? 256 : 5));
		free(timed);
		ptah_image_free(image);
		machine_free(m);
	}
}

/* Damage anywhere: the same errors at the same places. */
TEST(damage)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 8); seed++) {
		size_t size;
		struct world *w = world_new(seed % 7 + 1, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		for (unsigned i = 0; i < 10; i++)
			w->trace[world_pick(w, (unsigned)size)] ^= (uint8_t)(1 << world_pick(w, 8));
		assert_true(forms_equal(image, NULL, w->trace, size, 0, 64));
		ptah_image_free(image);
		world_free(w);
	}
}

/* A PSB+ at BASE in 64-bit mode. */
static size_t begin_at_base(uint8_t *trace)
{
	static const uint8_t end[] = {0x02, 0x23}, mode[] = {0x99, 0x01};
	size_t n = 0;

	for (unsigned i = 0; i < 8; i++) {
		trace[n++] = 0x02;
		trace[n++] = 0x82;
	}
	memcpy(trace + n, mode, sizeof(mode));
	n += sizeof(mode);
	trace[n++] = 0x7d; /* FUP, 6 bytes */
	for (unsigned i = 0; i < 6; i++)
		trace[n++] = (uint8_t)(BASE >> 8 * i);
	memcpy(trace + n, end, sizeof(end));
	return n + sizeof(end);
}

/* More calls than the return stack has entries: the 65th return finds none (SDM: 64 entries). */
TEST(deep)
{
	/* f: jne out; call f; out: ret */
	static const uint8_t code[] = {0x75, 0x05, 0xe8, 0xf9, 0xff, 0xff, 0xff, 0xc3};

	for (unsigned calls = 60; calls < 80; calls += 3) {
		struct ptah_image *image = image_of(code, sizeof(code));
		uint8_t trace[128];
		size_t n = begin_at_base(trace);

		for (unsigned i = 0; i < calls / 6; i++)
			trace[n++] = 0x80; /* 6 times not taken */
		for (unsigned i = 0; i < 16; i++)
			trace[n++] = 0xfe; /* taken, then returns */
		memset(trace + n, 0, 32);
		assert_true(forms_equal(image, NULL, trace, n + 32, 0, 300));
		ptah_image_free(image);
	}
}

/*
 * A batch of spans ends where the spans of a packet have no room: what ran before has the offset of
 * the packet before.
 */
TEST(full_batches)
{
	static const uint8_t code[] = {
	    [0x00] = 0xeb, 0x3f,       /* jmp 41 */
	    [0x41] = 0x90, 0x75, 0xfd, /* 41: nop; jne 41 */
	    [0x44] = 0xeb, 0x3a,       /* jmp 80 */
	    [0x80] = 0xeb, 0xbf,       /* jmp 41: spans end after both jumps */
	};
	struct ptah_image *image = image_of(code, sizeof(code));
	uint8_t trace[16 + 2 + 8 + 2 + 900];

	for (unsigned quiet = 0; quiet < 8; quiet++) {
		size_t n = begin_at_base(trace);

		while (n + 1 + quiet <= sizeof(trace)) {
			memset(trace + n, 0xfe, quiet); /* TNT: 6 taken, no span ends */
			n += quiet;
			trace[n++] = 0xfc; /* 5 taken, 1 not */
		}
		for (size_t capacity = 1; capacity < 5; capacity++)
			assert_true(forms_equal(image, NULL, trace, n, 0, capacity));
	}
	ptah_image_free(image);
}

/* Code changes, and the paths over it are forgotten. */
TEST(change)
{
	/* 100 rounds of: cmp-less jcc back to itself, 6 taken and then not, then jmp back. */
	static const uint8_t first[] = {0x90, 0x75, 0xfd, 0xeb, 0xfb};
	static const uint8_t second[] = {0x66, 0x90, 0x75, 0xfc, 0xeb, 0xfa};
	struct ptah_block blocks[512];
	struct ptah_image *image;
	struct ptah_flow *flow;
	uint8_t trace[16 + 2 + 8 + 2 + 300];
	size_t n = 0;

	n = begin_at_base(trace);
	memset(trace + n, 0xfc, 200); /* TNT: 5 taken, 1 not */
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	for (unsigned pass = 0; pass < 12; pass++) {
		struct ptah_item item;
		unsigned insns = 0;
		int k;

		const unsigned nop = 1 + pass / 2 % 2; /* its bytes */

		if (pass % 2 == 0)
			assert_int_equal(ptah_image_add_bytes(
					     image, nop == 1 ? first : second,
					     nop == 1 ? sizeof(first) : sizeof(second), BASE, NULL),
					 0);
		ptah_flow_seek(flow, 0);
		assert_int_equal(ptah_flow_feed(flow, trace, n + 200, true), 0);
		do {
			while ((k = ptah_flow_read_blocks(flow, blocks, 512)) > 0)
				for (int i = 0; i < k; i++) {
					assert_true(blocks[i].ninsn == 2 || blocks[i].ninsn == 1);
					if (blocks[i].ninsn == 2)
						assert_int_equal(blocks[i].size, 2 + nop);
					insns += blocks[i].ninsn;
				}
			k = ptah_flow_read(flow, &item, 1);
		} while (k > 0);
		/* 200 packets of 6 rounds of 2; a jump between two packets. */
		assert_int_equal(insns, 200 * 12 + 199);
	}
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static size_t put_switch(uint8_t *trace, uint8_t opcode, uint64_t ip)
{
	trace[0] = (uint8_t)(opcode | 3 << 5);
	for (unsigned i = 0; i < 6; i++)
		trace[1 + i] = (uint8_t)(ip >> 8 * i);
	return 7;
}

/* Blocks of what is fed, in instructions. */
static unsigned drain_blocks(struct ptah_flow *flow)
{
	struct ptah_block blocks[64];
	struct ptah_item item;
	unsigned insns = 0;
	int n;

	do {
		while ((n = ptah_flow_read_blocks(flow, blocks, 64)) > 0)
			for (int i = 0; i < n; i++)
				insns += blocks[i].ninsn;
		n = ptah_flow_read(flow, &item, 1);
		assert_true(n <= 0 || item.type != PTAH_ITEM_ERROR);
	} while (n > 0);
	return insns;
}

/*
 * Code changes while tracing is switched off and on in it: between two of many visits of a place
 * where a TIP.PGD is remembered, and back.
 */
TEST(changed_groups)
{
	static const uint8_t codes[2][4] = {{0x90, 0xff, 0xe0}, {0x90, 0x90, 0xff, 0xe0}};
	enum {
		ROUNDS = 40,
		PARTS = 6,
		ROUND = 14
	};
	uint8_t trace[40 + PARTS * ROUNDS * ROUND];
	const size_t begin = begin_at_base(trace);
	size_t n = begin;

	for (unsigned i = 0; i < PARTS * ROUNDS; i++) {
		n += put_switch(trace + n, OPCODE_TIP_PGD, 0x500000);
		n += put_switch(trace + n, OPCODE_TIP_PGE, BASE);
	}
	for (unsigned quiet = 0; quiet < 2; quiet++) {
		const struct ptah_flow_config config = {.size = sizeof(config), .no_events = quiet};
		struct ptah_image *image = image_of(codes[0], 3);
		struct ptah_flow *flow;
		size_t at = 0;

		assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
		for (unsigned part = 0; part < PARTS; part++) {
			const size_t to = begin + (part + 1) * ROUNDS * ROUND;

			assert_true(ptah_image_add_bytes(image, codes[part % 2], 3 + part % 2, BASE,
							 NULL) >= 0);
			assert_int_equal(ptah_flow_feed(flow, trace + at, to - at, to == n), 0);
			assert_int_equal(drain_blocks(flow), ROUNDS * (2 + part % 2));
			at = to;
		}
		ptah_flow_free(flow);
		ptah_image_free(image);
	}
}
