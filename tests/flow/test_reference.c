/* SPDX-License-Identifier: MIT */
/*
 * The flow against the reference decoder, instruction by instruction and event
 * by event: random programs whole, cut into chunks and damaged; and against
 * what the programs did.
 */
#include "test.h"

#include "random_machine.h"
#include "world.h"

#include "../reference/compare_flow.h"

#include <ptah/flow.h>

static void same_in_chunks(const struct ptah_image *image, const uint8_t *trace, size_t size,
			   size_t chunk, const struct reference_config *config,
			   struct reference *reference)
{
	struct reference flow;

	flow_decode(trace, size, chunk, image, config, &flow);
	assert_true(same_answer(&flow, reference));
	reference_free(&flow);
}

/* Decodes the trace with both; `reference` is what they agree on. The caller frees it. */
static void agree_on(const struct ptah_image *image, const uint8_t *trace, size_t size,
		     size_t chunk, bool resync, struct reference *reference)
{
	const struct reference_config config = {
	    .read = read_image, .context = (void *)image, .resync = resync};

	reference_decode(trace, size, &config, reference);
	same_in_chunks(image, trace, size, 0, &config, reference);
	if (chunk)
		same_in_chunks(image, trace, size, chunk, &config, reference);
}

static void agree(const struct ptah_image *image, const uint8_t *trace, size_t size, size_t chunk,
		  struct reference *reference)
{
	agree_on(image, trace, size, chunk, false, reference);
}

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

static uint64_t count(const struct reference *r, unsigned type)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->items[i].type == type;
	return n;
}

static void machine(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t chunk)
{
	struct reference r;
	size_t size;
	struct machine *m = machine_new(seed, retcomp, long_tnt, lossy, &size);
	struct ptah_image *image = image_of(m->code, sizeof(m->code));

	agree(image, m->trace, size, chunk, &r);
	assert_true(count(&r, PTAH_ITEM_ERROR) == 0);
	assert_true(count(&r, PTAH_ITEM_OVERFLOW) == m->overflows);
	if (!lossy)
		assert_true(count(&r, PTAH_ITEM_BLOCK) == m->instructions);
	reference_free(&r);
	ptah_image_free(image);
	machine_free(m);
}

TEST(plain)
{
	static const size_t chunks[] = {0, 1, 7, 4096};

	for (unsigned seed = 1; seed <= 8; seed++)
		machine(seed, seed & 1, seed & 2, false, chunks[seed % 4]);
}

TEST(overflows)
{
	for (unsigned seed = 1; seed <= 8; seed++)
		machine(seed, seed & 1, seed & 2, true, seed % 4);
}

static void ran_so(const struct world *w, const struct reference *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++) {
		assert_int_not_equal(r->items[i].type, PTAH_ITEM_ERROR);
		if (r->items[i].type != PTAH_ITEM_BLOCK)
			continue;
		assert_true(n < w->ran_count);
		assert_int_equal(r->items[i].ip, w->ran[n].ip);
		assert_int_equal(r->items[i].last_size, w->ran[n].size);
		n++;
	}
	assert_int_equal(n, w->ran_count);
}

/* What random_machine.h leaves out; both decoders must report what ran. */
TEST(worlds)
{
	static const uint8_t must_occur[] = {
	    PTAH_ITEM_ENABLED,	    PTAH_ITEM_DISABLED, PTAH_ITEM_ASYNC_DISABLED,
	    PTAH_ITEM_ASYNC_BRANCH, PTAH_ITEM_OVERFLOW, PTAH_ITEM_EXEC_MODE,
	    PTAH_ITEM_PAGING,	    PTAH_ITEM_TSX,	PTAH_ITEM_STOP,
	    PTAH_ITEM_ASYNC_PAGING, PTAH_ITEM_PTWRITE,	PTAH_ITEM_EXSTOP,
	    PTAH_ITEM_MWAIT,	    PTAH_ITEM_PWRE,	PTAH_ITEM_PWRX,
	    PTAH_ITEM_PSB,	    PTAH_ITEM_IRET,	PTAH_ITEM_INTERRUPT,
	};
	uint64_t occurred[PTAH_ITEM_TYPE_MAX] = {0};
	unsigned deepest = 0;

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 16); seed++) {
		struct reference r;
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		agree(image, w->trace, size, seed % 11, &r);
		ran_so(w, &r);
		deepest = w->deepest > deepest ? w->deepest : deepest;
		for (unsigned type = 0; type < PTAH_ITEM_TYPE_MAX; type++)
			occurred[type] += count(&r, type);
		reference_free(&r);
		ptah_image_free(image);
		world_free(w);
	}
	assert_true(deepest > 64);
	for (size_t i = 0; i < sizeof(must_occur); i++)
		assert_true(occurred[must_occur[i]] > 0);
}

/* Flips bits and drops bytes, a few in each trace. */
static size_t damage(uint8_t *trace, size_t size, uint64_t *seed)
{
	for (unsigned i = 0; i < 8; i++) {
		size_t at;

		*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		at = (size_t)(*seed >> 33) % size;
		if (*seed >> 32 & 1) {
			trace[at] ^= (uint8_t)(1u << (*seed >> 29 & 7));
		} else {
			memmove(trace + at, trace + at + 1, size - at - 1);
			size--;
		}
	}
	return size;
}

TEST(damaged)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 16); seed++) {
		struct reference r;
		uint64_t chance = seed;
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));

		size = damage(m->trace, size, &chance);
		agree(image, m->trace, size, seed % 9, &r);
		reference_free(&r);
		ptah_image_free(image);
		machine_free(m);
	}
}

TEST(damaged_worlds)
{
	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(60, 16); seed++) {
		struct reference r;
		uint64_t chance = seed;
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		size = damage(w->trace, size, &chance);
		agree_on(image, w->trace, size, seed % 9, seed & 8, &r);
		reference_free(&r);
		ptah_image_free(image);
		world_free(w);
	}
}

/* The code is not what ran, in some bytes. A flow that continues at each error reports more. */
TEST(worlds_with_other_code)
{
	uint64_t errors = 0, least = 0, most = 0;

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 16); seed++) {
		struct reference r;
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image;

		for (unsigned i = 0; i < 1 + seed % 8; i++)
			w->code[w->places[any_place(w)].ip - WORLD_BASE + world_pick(w, 8)] =
			    (uint8_t)world_pick(w, 256);
		image = image_of(w->code, sizeof(w->code));
		agree(image, w->trace, size, 0, &r);
		least += count(&r, PTAH_ITEM_BLOCK);
		reference_free(&r);
		agree_on(image, w->trace, size, seed % 7, true, &r);
		errors += count(&r, PTAH_ITEM_ERROR);
		most += count(&r, PTAH_ITEM_BLOCK);
		reference_free(&r);
		ptah_image_free(image);
		world_free(w);
	}
	assert_true(errors > 100 && most > least);
}

/* Parts of the code are missing. A flow that continues there reports more. */
TEST(worlds_with_holes)
{
	uint64_t missing = 0, least = 0, most = 0;

	for (unsigned seed = 1; seed <= RANDOM_PROGRAMS(40, 16); seed++) {
		struct reference r;
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		for (unsigned i = 0; i < 1 + seed % 4; i++)
			assert_int_equal(
			    ptah_image_remove(image, w->places[any_place(w)].ip + world_pick(w, 8),
					      20 + world_pick(w, 300), NULL),
			    0);
		agree(image, w->trace, size, seed % 9, &r);
		missing += count(&r, PTAH_ITEM_ERROR);
		least += count(&r, PTAH_ITEM_BLOCK);
		reference_free(&r);
		agree_on(image, w->trace, size, seed % 7, true, &r);
		most += count(&r, PTAH_ITEM_BLOCK);
		reference_free(&r);
		ptah_image_free(image);
		world_free(w);
	}
	assert_true(missing > 100 && most > least);
}

/* Small cases that failed once. Each expects a number of instructions and errors. */
static void expect(struct world *w, size_t instructions, size_t errors)
{
	struct ptah_image *image = image_of(w->code, sizeof(w->code));
	struct reference r;

	world_flush(w);
	agree(image, w->trace, (size_t)(w->g.out - w->trace), 1, &r);
	assert_int_equal(count(&r, PTAH_ITEM_BLOCK), instructions);
	assert_int_equal(count(&r, PTAH_ITEM_ERROR), errors);
	assert_int_equal(count(&r, PTAH_ITEM_TNT), 0);
	reference_free(&r);
	ptah_image_free(image);
	world_free(w);
}

static struct world *begin(const void *code, size_t size)
{
	struct world *w = world_empty(false, false);

	memcpy(w->code, code, size);
	world_send_psb(w, 0);
	generator_enable(&w->g, BASE);
	return w;
}

/* More outcomes follow those that an indirect branch did not use: an error, and no TNT item. */
TEST(outcomes_at_an_indirect_branch)
{
	static const uint8_t code[] = {0xff, 0xe0}; /* jmp rax */
	struct world *w = begin(code, sizeof(code));

	SEND(w, TNT_8, .u.tnt = {.count = 1, .bits = 1});
	SEND(w, TNT_8, .u.tnt = {.count = 1, .bits = 1});
	expect(w, 0, 1);
}

/* for (;;) ptwrite: each PTW stands for one round. */
TEST(ptwrite_in_a_loop)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0xae, 0xe0, 0xeb, 0xfa};
	struct world *w = begin(code, sizeof(code));

	for (unsigned i = 0; i < 3; i++)
		SEND(w, PTW, .u.ptw = {.size = 4});
	expect(w, 5, 0);
}

/* Two functions that jump to each other, one of them filtered out. */
TEST(jump_out_of_the_filter_and_back)
{
	static const uint8_t code[] = {0xeb, 0x02, 0x90, 0x90, 0xeb, 0xfa};
	struct world *w = begin(code, sizeof(code));

	generator_ip_packet(&w->g, OPCODE_TIP_PGD, BASE + 4);
	generator_enable(&w->g, BASE);
	generator_ip_packet(&w->g, OPCODE_TIP_PGD, BASE + 4);
	expect(w, 2, 0);
}

/* call; PSB: the return cannot be compressed. */
TEST(psb_behind_a_call)
{
	static const uint8_t code[] = {0xe8, 0x01, 0, 0, 0, 0x90, 0xc3};
	struct world *w = begin(code, sizeof(code));

	world_send_psb(w, BASE + 6);
	generator_tnt(&w->g, true);
	expect(w, 1, 1);
}

/*
 * A PSB+ that contradicts the code size is an error, and right from there on. 48 89 C0 is one
 * instruction or two.
 */
TEST(code_size_of_a_psb)
{
	static const uint8_t code[] = {0x48, 0x89, 0xc0, 0xff, 0xe0};
	struct world *w = begin(code, sizeof(code));

	w->mode = PTAH_EXEC_32;
	world_send_psb(w, BASE);
	generator_tip(&w->g, BASE);
	expect(w, 3, 1);
}

/* call (64 bit), far jump to 32-bit code, which returns to the call: in 32-bit code. */
TEST(compressed_return_in_another_mode)
{
	static const uint8_t code[] = {
	    0xe8, 0x05, 0,    0, 0, /* call BASE + 10 */
	    0x48, 0x89, 0xc0,	    /* mov rax, rax; or dec eax; mov eax, eax */
	    0xff, 0xe0,		    /* jmp rax */
	    0xff, 0x28,		    /* far jump */
	    0xc3,
	};
	struct world *w = begin(code, sizeof(code));

	world_send_mode(w, PTAH_EXEC_32);
	generator_tip(&w->g, BASE + 12);
	generator_tnt(&w->g, true);
	generator_tip(&w->g, BASE);
	expect(w, 6, 0);
}
