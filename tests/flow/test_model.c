/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the packet generator, decoded: the instructions that the
 * flow reports must be those that ran. The expected path is the simulated
 * execution's own, not the decoder's.
 */
#include "test.h"

#include "base/path_hash.h"
#include "model/generator.h"

#include <ptah/flow.h>

#include <stdlib.h>

#define BASE	 UINT64_C(0x400000)
#define CODE	 65536
#define BLOCKS	 400
#define TRACE	 (4u << 20)
#define STEPS	 20000
#define NO_BLOCK (-1)

enum ending {
	END_COND,
	END_JUMP,
	END_CALL,
	END_JUMP_IND,
	END_CALL_IND,
	END_RET,
	END_SYSCALL,
	END_MAX
};

struct block {
	uint64_t ip, end;
	unsigned ninsn;
	uint8_t sizes[16];
	enum ending ending;
	int target; /* block */
};

struct machine {
	uint64_t seed;
	uint8_t code[CODE];
	struct block blocks[BLOCKS];
	int stack[128], depth; /* the program's own: blocks to return to */
	struct ptah_generator g;
	uint8_t *trace;
	uint64_t tsc;
	struct path_hash path;
	uint64_t instructions, conditional, overflows;
	bool lossy; /* this run has overflows: the hash covers what the trace can tell */
};

static uint64_t next_random(struct machine *m)
{
	m->seed ^= m->seed << 13;
	m->seed ^= m->seed >> 7;
	m->seed ^= m->seed << 17;
	return m->seed;
}

static unsigned pick(struct machine *m, unsigned n)
{
	return (unsigned)(next_random(m) >> 11) % n;
}

/* Lays the blocks out one behind the other, then writes their branches. */
static void make_program(struct machine *m)
{
	static const uint8_t fillers[][4] = {
	    {0x90}, {0x89, 0xc0}, {0x48, 0x89, 0xc0}, {0x0f, 0x1f, 0x40, 0}};
	size_t at = 0;

	memset(m->code, 0xcc, sizeof(m->code));
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &m->blocks[i];
		unsigned size = 0;

		b->ip = BASE + at;
		b->ninsn = 0;
		for (unsigned n = pick(m, 6); n > 0; n--) {
			unsigned f = pick(m, 4);

			memcpy(m->code + at + size, fillers[f], f + 1);
			b->sizes[b->ninsn++] = (uint8_t)(f + 1);
			size += f + 1;
		}
		b->ending = (enum ending)pick(m, END_MAX);
		b->target = (int)pick(m, BLOCKS);
		/* A loop of direct branches alone leaves no packet: how often it ran before an
		 * interrupt is in no trace. */
		if ((b->ending == END_JUMP || b->ending == END_CALL) && b->target <= i)
			b->target = i + 1 < BLOCKS ? i + 1 : i;
		if (i == BLOCKS - 1)
			b->ending = END_JUMP_IND;
		b->sizes[b->ninsn++] = (uint8_t)(b->ending == END_COND	 ? 6
						 : b->ending <= END_CALL ? 5
						 : b->ending == END_RET	 ? 1
									 : 2);
		size += b->sizes[b->ninsn - 1];
		b->end = b->ip + size;
		at += size;
	}
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &m->blocks[i];
		uint8_t *p = m->code + (b->end - BASE) - b->sizes[b->ninsn - 1];
		uint32_t rel = (uint32_t)(m->blocks[b->target].ip - b->end);

		switch (b->ending) {
		case END_COND:
			store_le16(p, 0x840f);
			store_le32(p + 2, rel);
			break;
		case END_JUMP:
		case END_CALL:
			*p = b->ending == END_JUMP ? 0xe9 : 0xe8;
			store_le32(p + 1, rel);
			break;
		case END_JUMP_IND:
			store_le16(p, 0xe0ff);
			break;
		case END_CALL_IND:
			store_le16(p, 0xd0ff);
			break;
		case END_RET:
			*p = 0xc3;
			break;
		default:
			store_le16(p, 0x050f);
			break;
		}
	}
}

static void ran(struct machine *m, uint64_t from, uint64_t to, unsigned ninsn)
{
	if (!ninsn)
		return;
	path_hash_add(&m->path, from, to);
	m->instructions += ninsn;
}

/* An interrupt inside block b, before one of its instructions; execution goes on there later. */
static void interrupt(struct machine *m, const struct block *b)
{
	unsigned before = pick(m, b->ninsn);
	uint64_t ip = b->ip;

	for (unsigned i = 0; i < before; i++)
		ip += b->sizes[i];
	generator_async_disable(&m->g, ip);
	m->g.depth = 0;
	if (pick(m, 2))
		generator_psb(&m->g, ++m->tsc, 20, false, 0);
	generator_enable(&m->g, ip);
}

static int do_return(struct machine *m)
{
	int to = m->depth && pick(m, 8) ? m->stack[--m->depth] : (int)pick(m, BLOCKS);

	generator_return(&m->g, m->blocks[to].ip);
	return to;
}

static void do_call(struct machine *m, int i)
{
	if (m->depth < 128 && i + 1 < BLOCKS)
		m->stack[m->depth++] = i + 1;
	generator_call(&m->g, m->blocks[i].end);
}

/* Runs block i whole. Returns the next block. */
static int step(struct machine *m, int i)
{
	const struct block *b = &m->blocks[i];
	int next = i + 1;

	if (!pick(m, 50))
		interrupt(m, b);
	ran(m, b->ip, b->end, b->ninsn);
	switch (b->ending) {
	case END_COND:
		m->conditional++;
		if (m->blocks[b->target].ip == b->end) {
			generator_tnt(&m->g, false);
		} else if (pick(m, 2)) {
			generator_tnt(&m->g, true);
			next = b->target;
		} else {
			generator_tnt(&m->g, false);
		}
		break;
	case END_JUMP:
		next = b->target;
		break;
	case END_CALL:
		next = b->target;
		if (m->blocks[next].ip != b->end)
			do_call(m, i);
		break;
	case END_JUMP_IND:
		next = (int)pick(m, BLOCKS);
		generator_tip(&m->g, m->blocks[next].ip);
		break;
	case END_CALL_IND:
		next = (int)pick(m, BLOCKS);
		do_call(m, i);
		generator_tip(&m->g, m->blocks[next].ip);
		break;
	case END_RET:
		next = do_return(m);
		break;
	default:
		generator_disable(&m->g);
		generator_enable(&m->g, m->blocks[next].ip);
		break;
	}
	return next;
}

static size_t run(struct machine *m, bool retcomp, bool long_tnt)
{
	int at = 0;

	generator_init(&m->g, m->trace, retcomp, long_tnt);
	generator_psb(&m->g, ++m->tsc, 20, false, 0);
	generator_enable(&m->g, m->blocks[0].ip);
	for (int i = 0; i < STEPS; i++) {
		if (!pick(m, 100))
			generator_psb(&m->g, ++m->tsc, 20, true, m->blocks[at].ip);
		if (m->lossy && !pick(m, 400)) {
			/* What is pending is lost, and what runs until the buffer is free. */
			generator_flush_tnt(&m->g);
			generator_overflow(&m->g);
			m->overflows++;
			at = (int)pick(m, BLOCKS);
			m->depth = 0;
			if (pick(m, 2))
				generator_ip_packet(&m->g, 0x1d, m->blocks[at].ip);
			else
				generator_enable(&m->g, m->blocks[at].ip);
		}
		at = step(m, at);
	}
	generator_async_disable(&m->g, m->blocks[at].ip);
	return (size_t)(m->g.out - m->trace);
}

struct decoded {
	struct path_hash path;
	uint64_t instructions, conditional, overflows, errors;
};

static void decode(const struct machine *m, size_t size, size_t chunk, struct decoded *d)
{
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[64];
	int n;

	memset(d, 0, sizeof(*d));
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, m->code, sizeof(m->code), BASE), 0);
	assert_int_equal(ptah_flow_new(image, NULL, &flow), 0);
	for (size_t at = 0; at < size; at += chunk) {
		size_t part = size - at < chunk ? size - at : chunk;

		assert_int_equal(ptah_flow_feed(flow, m->trace + at, part, at + part == size), 0);
		while ((n = ptah_flow_read(flow, items, 64)) > 0) {
			for (int i = 0; i < n; i++) {
				d->errors += items[i].type == PTAH_ITEM_ERROR;
				d->overflows += items[i].type == PTAH_ITEM_OVERFLOW;
				if (items[i].type != PTAH_ITEM_BLOCK)
					continue;
				path_hash_add(&d->path, items[i].ip, items[i].end);
				d->instructions += items[i].ninsn;
				d->conditional += items[i].class == PTAH_INSN_COND;
			}
		}
	}
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static void compare(unsigned seed, bool retcomp, bool long_tnt, size_t chunk)
{
	struct machine *m = calloc(1, sizeof(*m));
	struct decoded d;
	size_t size;

	assert_non_null(m);
	m->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	m->trace = malloc(TRACE);
	assert_non_null(m->trace);
	make_program(m);
	size = run(m, retcomp, long_tnt);
	decode(m, size, chunk ? chunk : size, &d);
	assert_true(d.errors == 0);
	assert_true(d.instructions == m->instructions);
	assert_true(d.conditional == m->conditional);
	assert_true(path_hash_value(&d.path) == path_hash_value(&m->path));
	free(m->trace);
	free(m);
}

static void plain(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, false, false, 0);
}

static void return_compression(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, true, false, 0);
}

static void long_tnt(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++)
		compare(seed, seed & 1, true, 0);
}

static void chunks(void **state)
{
	(void)state;
	compare(7, true, false, 1);
	compare(8, true, true, 7);
	compare(9, false, false, 4096);
}

/*
 * With overflows: every one is reported, decoding goes on exactly where the
 * trace says, and nothing is an error. What ran directly before an overflow
 * without leaving a packet cannot be known, so less is decoded than ran.
 */
static void overflows(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct machine *m = calloc(1, sizeof(*m));
		struct decoded d;
		size_t size;

		assert_non_null(m);
		m->seed = seed;
		m->lossy = true;
		m->trace = malloc(TRACE);
		assert_non_null(m->trace);
		make_program(m);
		size = run(m, seed & 1, false);
		decode(m, size, size, &d);
		assert_true(m->overflows > 0);
		assert_true(d.errors == 0);
		assert_true(d.overflows == m->overflows);
		assert_true(d.instructions <= m->instructions);
		assert_true(d.instructions > m->instructions * 9 / 10);
		assert_true(d.conditional == m->conditional);
		free(m->trace);
		free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain),	 cmocka_unit_test(return_compression),
	    cmocka_unit_test(long_tnt),	 cmocka_unit_test(chunks),
	    cmocka_unit_test(overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
