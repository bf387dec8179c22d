/* SPDX-License-Identifier: MIT */
/*
 * The flow's place is where the program continued, and the blocks ahead of it are those of the
 * code.
 */
#include "test.h"

#include "world.h"

#include <ptah/flow.h>

/* An instruction of a world: the number of its place and its index there. */
struct at {
	int place;
	unsigned k;
	uint64_t ip;
};

static struct at find(const struct world *w, uint64_t ip)
{
	for (int i = 0; i < PLACES; i++) {
		const struct place *p = &w->places[i];
		uint64_t at = p->ip;

		for (unsigned k = 0; k < p->n; at += p->sizes[k++])
			if (at == ip)
				return (struct at){i, k, ip};
	}
	return (struct at){-1, 0, ip};
}

/* Moves to the next instruction, if that needs no packet. False: it needs one. SDM "COFI Type". */
static bool step(const struct world *w, struct at *at)
{
	const struct place *p = &w->places[at->place];

	at->ip += p->sizes[at->k];
	if (++at->k < p->n)
		return true;
	switch (p->leave) {
	case LEAVE_JUMP:
	case LEAVE_JUMP_OUT:
	case LEAVE_CALL:
	case LEAVE_CALL_NEXT:
		*at = find(w, p->target);
		return true;
	default:
		return false;
	}
}

/* The blocks ahead of a place reach the first branch that needs a packet, no more and no less. */
static size_t check_ahead(const struct world *w, struct ptah_flow *flow, struct ptah_place place,
			  size_t capacity)
{
	struct at at = find(w, place.ip);
	struct ptah_item blocks[64];
	bool straight = true;
	size_t ninsn = 0;
	int n;

	assert_true(at.place >= 0);
	while ((n = ptah_flow_ahead(flow, &place, blocks, capacity)) > 0) {
		for (int i = 0; i < n; i++) {
			struct ptah_insn insns[256];

			assert_int_equal(ptah_flow_insns(flow, &blocks[i], insns, 256),
					 blocks[i].ninsn);
			assert_int_equal(blocks[i].ip, at.ip);
			for (unsigned k = 0; k < blocks[i].ninsn; k++, ninsn++) {
				assert_true(straight && insns[k].ip == at.ip);
				/* Code that the filter hides is full of INT3. */
				straight = at.place >= 0 && step(w, &at);
			}
		}
	}
	assert_int_equal(n, 0);
	assert_true(!straight && !place.mode);
	return ninsn;
}

TEST(worlds)
{
	for (unsigned seed = 1; seed <= 8; seed++) {
		size_t size, ran = 0, told = 0, stood = 0;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image;
		struct ptah_flow *flow;
		struct ptah_place place;
		struct ptah_item item;
		bool between = false;

		assert_int_equal(ptah_image_new(&image), 0);
		assert_int_equal(
		    ptah_image_add_bytes(image, w->code, sizeof(w->code), WORLD_BASE, NULL), 0);
		assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
		assert_int_equal(ptah_flow_place(flow, &place), PTAH_E_NO_IP);
		assert_int_equal(ptah_flow_feed(flow, w->trace, size, true), 0);
		while (ptah_flow_read(flow, &item, 1) == 1) {
			ran += item.type == PTAH_ITEM_BLOCK ? item.ninsn : 0;
			/* Events that stop the program there, or change how its code is read. */
			assert_true(item.type != PTAH_ITEM_BLOCK || !between);
			between = false;
			if (ptah_flow_place(flow, &place) < 0 || ran == w->ran_count)
				continue;
			between = place.ip != w->ran[ran].ip ||
				  place.mode != mode_at(find(w, place.ip).place);
			if (between)
				continue;
			stood++;
			told += check_ahead(w, flow, place, 1 + stood % 5);
		}
		assert_int_equal(ran, w->ran_count);
		/* Tracing was turned off last. */
		assert_int_equal(ptah_flow_place(flow, &place), PTAH_E_NO_IP);
		assert_true(stood > 5000 && told > stood);
		ptah_flow_free(flow);
		ptah_image_free(image);
		world_free(w);
	}
}

/* A flow at 0x401000 in 64-bit mode, after the end of its trace. */
static struct ptah_flow *stand(const struct ptah_image *image, const char *tail, size_t n)
{
	static const uint8_t begin[] = {
	    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,
	    0x82, 0x02, 0x82, 0x99, 0x01, 0x5d, 0x00, 0x10, 0x40, 0x00, 0x02, 0x23,
	};
	uint8_t trace[sizeof(begin) + 64];
	struct ptah_item items[16];
	struct ptah_flow *flow;

	assert_true(n <= 64);
	memcpy(trace, begin, sizeof(begin));
	memcpy(trace + sizeof(begin), tail, n);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, trace, sizeof(begin) + n, true), 0);
	assert_true(ptah_flow_read(flow, items, 16) > 0);
	return flow;
}

static void put(struct ptah_image *image, uint64_t address, const char *bytes, size_t n,
		const struct ptah_space *space)
{
	assert_int_equal(ptah_image_add_bytes(image, bytes, n, address, space), 0);
}

static void expect(struct ptah_flow *flow, uint64_t ip, int status)
{
	struct ptah_place place = {.ip = ip, .mode = PTAH_EXEC_64};
	struct ptah_item blocks[4];

	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), status);
}

/* Places from which execution cannot continue, and the reason. */
TEST(ends)
{
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_place place;
	struct ptah_item blocks[4];

	assert_int_equal(ptah_image_new(&image), 0);
	put(image, 0x401000, "\x90\xeb\x00\xeb\xfe", 5, NULL); /* nop; jmp; to: jmp to */
	put(image, 0x402000, "\x90\x90", 2, NULL);	       /* nothing follows */
	put(image, 0x403000, "\x90\x06", 2, NULL);	       /* push es: invalid in 64-bit mode */
	flow = stand(image, "", 0);

	/* Also after the trace's end. */
	assert_int_equal(ptah_flow_place(flow, &place), 0);
	assert_true(place.ip == 0x401000 && place.mode == PTAH_EXEC_64 && !place.space);
	expect(flow, 0x401000, PTAH_E_NO_PROGRESS);
	expect(flow, 0x401003, PTAH_E_NO_PROGRESS);
	expect(flow, 0x404000, PTAH_E_NO_CODE);
	expect(flow, 0x403001, PTAH_E_BAD_INSN);

	place.ip = 0x402000;
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), 1);
	assert_true(blocks[0].ninsn == 2 && blocks[0].insn_class == PTAH_INSN_OTHER);
	assert_true(place.ip == 0x402002 && place.mode);
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), PTAH_E_NO_CODE);

	/* The current image counts. */
	put(image, 0x401003, "\xc3", 1, NULL);
	place.ip = 0x401000;
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 0), 0);
	assert_int_equal(place.mode, PTAH_EXEC_64);
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), 2);
	assert_true(blocks[1].ip == 0x401003 && blocks[1].insn_class == PTAH_INSN_RETURN);
	assert_int_equal(place.mode, 0);
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), 0);

	place = (struct ptah_place){.ip = 0x401000, .mode = 4};
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), PTAH_E_INVAL);
	place = (struct ptah_place){.ip = 0x401000, .mode = PTAH_EXEC_64, .space = 1};
	assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_ahead(flow, NULL, blocks, 4), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_ahead(flow, &place, NULL, 4), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_ahead(NULL, &place, blocks, 4), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_place(flow, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_flow_place(NULL, &place), PTAH_E_INVAL);
	ptah_flow_free(flow);
	ptah_image_free(image);
}

/* Looks in the place's own space, not in the current one. */
TEST(spaces)
{
	static const struct ptah_space one = {0x1000, PTAH_SPACE_ANY},
				       two = {0x2000, PTAH_SPACE_ANY};
	/* PIP 0x1000; TIP 0x402000; PIP 0x2000; TIP 0x402000 */
	static const char tail[] = "\x02\x43\x00\x01\x00\x00\x00\x00\x2d\x00\x20"
				   "\x02\x43\x00\x02\x00\x00\x00\x00\x2d\x00\x20";
	struct ptah_item blocks[4];
	struct ptah_space space;
	struct ptah_place place;
	struct ptah_image *image;
	struct ptah_flow *flow;

	assert_int_equal(ptah_image_new(&image), 0);
	put(image, 0x401000, "\xff\xe0", 2, NULL);
	put(image, 0x402000, "\x90\xff\xe0", 3, &one);
	put(image, 0x402000, "\x90\x90\xff\xe0", 4, &two);
	flow = stand(image, tail, sizeof(tail) - 1);
	assert_int_equal(ptah_flow_place(flow, &place), 0);
	assert_int_equal(place.ip, 0x402000);
	for (unsigned i = 0; i < 2; i++) {
		const struct ptah_place begin = place;

		assert_int_equal(ptah_flow_space(flow, place.space, &space), 0);
		assert_int_equal(ptah_flow_ahead(flow, &place, blocks, 4), 1);
		assert_int_equal(blocks[0].ninsn, space.cr3 == one.cr3 ? 2 : 3);
		assert_int_equal(space.cr3, i ? one.cr3 : two.cr3);
		/* The flow's own place is unchanged. */
		assert_int_equal(ptah_flow_place(flow, &place), 0);
		assert_true(place.space == (i ? begin.space + 1 : begin.space));
		place.space--;
	}
	ptah_flow_free(flow);
	ptah_image_free(image);
}
