/* SPDX-License-Identifier: MIT */
/*
 * Makes a random program and runs it: each branch that runs is counted, hashed
 * and handed to the packet generator, which writes the trace to be decoded.
 */
#include "random_machine.h"

#include "pages.h"

static unsigned pick(struct machine *m, unsigned n)
{
	return (unsigned)(next_random(m) >> 11) % n;
}

/* Lays the blocks out one after the other, then writes their branches. */
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
		/*
		 * A loop of direct branches alone leaves no packet: the trace does not show how
		 * often it ran before an interrupt.
		 */
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

/* An interrupt inside block b, before one of its instructions; execution continues there later. */
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

/* Runs block i to its end. Returns the next block. */
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
			/* Pending packets are lost, and what runs until the buffer is free. */
			generator_flush_tnt(&m->g);
			generator_overflow(&m->g);
			m->overflows++;
			at = (int)pick(m, BLOCKS);
			m->depth = 0;
			if (pick(m, 2))
				generator_ip_packet(&m->g, OPCODE_FUP, m->blocks[at].ip);
			else
				generator_enable(&m->g, m->blocks[at].ip);
		}
		at = step(m, at);
	}
	generator_async_disable(&m->g, m->blocks[at].ip);
	return (size_t)(m->g.out - m->trace);
}

struct machine *machine_new(unsigned seed, bool retcomp, bool long_tnt, bool lossy, size_t *size)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->seed = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	m->lossy = lossy;
	m->trace = pages_new(TRACE);
	make_program(m);
	*size = run(m, retcomp, long_tnt);
	return m;
}

void machine_free(struct machine *m)
{
	pages_free(m->trace, TRACE);
	free(m);
}
