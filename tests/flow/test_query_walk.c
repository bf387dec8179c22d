/* SPDX-License-Identifier: MIT */
/*
 * The query interface as its users call it: a walk over the instructions of its own that queries
 * the trace at every branch, compared with the path that the simulated program took.
 */
#include "test.h"

#include "random_machine.h"
#include "x86/x86.h"

#include <ptah/query.h>

struct walker {
	const struct machine *m;
	struct ptah_query *q;
	uint64_t ip;
	bool on;
	uint64_t stack[64];
	unsigned top, depth;
	struct path_hash path;
	uint64_t instructions, conditional, answers;
	/* What has been fed so far. */
	size_t size, fed, chunk;
};

/* Calls a query function; feeds more and repeats when it asks for that. */
#define ASK(w, call)                                                                               \
	({                                                                                         \
		int status_;                                                                       \
		while ((status_ = (call)) == PTAH_E_MORE)                                          \
			feed(w);                                                                   \
		status_;                                                                           \
	})

static void feed(struct walker *w)
{
	size_t n = w->size - w->fed < w->chunk ? w->size - w->fed : w->chunk;

	assert_int_equal(ptah_query_feed(w->q, w->m->trace + w->fed, n, w->fed + n == w->size), 0);
	w->fed += n;
}

/* Runs up to the next instruction that needs a query (or to `stop`), which is not run yet. */
static struct x86_insn walk(struct walker *w, uint64_t stop)
{
	struct x86_insn insn;

	for (;;) {
		size_t at = (size_t)(w->ip - BASE);

		assert_true(at < CODE - 16);
		assert_int_equal(x86_decode(w->m->code + at, 15, w->ip, PTAH_EXEC_64, &insn), 0);
		if (w->ip == stop ||
		    (insn.insn_class != PTAH_INSN_OTHER && insn.insn_class != PTAH_INSN_JUMP &&
		     insn.insn_class != PTAH_INSN_CALL))
			return insn;
		path_hash_add(&w->path, w->ip, w->ip + insn.size);
		w->instructions++;
		w->ip += insn.size;
		if (insn.insn_class == PTAH_INSN_CALL && insn.target != w->ip) {
			w->stack[w->top++ % 64] = w->ip;
			w->depth += w->depth < 64;
		}
		if (insn.insn_class != PTAH_INSN_OTHER)
			w->ip = insn.target;
	}
}

static void branch(struct walker *w)
{
	struct x86_insn insn = walk(w, 0);
	uint64_t next = w->ip + insn.size, to = 0;
	bool taken;
	int status;

	path_hash_add(&w->path, w->ip, next);
	w->instructions++;
	w->answers++;
	switch (insn.insn_class) {
	case PTAH_INSN_COND:
		assert_int_equal(ASK(w, ptah_query_cond(w->q, &taken)), 0);
		w->conditional++;
		w->ip = taken ? insn.target : next;
		break;
	case PTAH_INSN_RETURN:
		status = ASK(w, ptah_query_return(w->q, &to));
		assert_in_range(status, 0, 1);
		assert_true(!status || w->depth);
		w->top -= w->depth > 0;
		w->depth -= w->depth > 0;
		w->ip = status ? w->stack[w->top % 64] : to;
		break;
	default:
		assert_int_equal(ASK(w, ptah_query_cond(w->q, &taken)), PTAH_E_QUERY);
		assert_int_equal(ASK(w, ptah_query_indirect(w->q, &w->ip)), 0);
		if (insn.insn_class == PTAH_INSN_CALL_IND) {
			w->stack[w->top++ % 64] = next;
			w->depth += w->depth < 64;
		}
		break;
	}
}

static void event(struct walker *w)
{
	struct ptah_item item;
	struct x86_insn insn;
	bool taken;

	assert_int_equal(ASK(w, ptah_query_cond(w->q, &taken)), PTAH_E_EVENT);
	assert_int_equal(ASK(w, ptah_query_event(w->q, &item)), 1);
	assert_true(item.offset == ptah_query_offset(w->q));
	switch (item.type) {
	case PTAH_ITEM_ENABLED:
		w->ip = item.ip;
		w->depth = 0;
		break;
	case PTAH_ITEM_DISABLED: /* a system call */
		insn = walk(w, 0);
		assert_int_equal(insn.insn_class, PTAH_INSN_FAR_CALL);
		path_hash_add(&w->path, w->ip, w->ip + insn.size);
		w->instructions++;
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		walk(w, item.ip);
		break;
	case PTAH_ITEM_PSB:
		w->depth = 0;
		break;
	default:
		assert_int_equal(item.type, PTAH_ITEM_CBR);
		break;
	}
}

static void run_queries(unsigned seed, bool retcomp, bool long_tnt, size_t chunk)
{
	struct walker w = {.chunk = chunk};
	struct machine *m = machine_new(seed, retcomp, long_tnt, false, &w.size);
	struct ptah_item item;
	uint64_t ip;
	bool taken;
	int kind;

	w.m = m;
	assert_int_equal(ptah_query_new(NULL, &w.q), 0);
	while ((kind = ASK(&w, ptah_query_next(w.q))) > 0) {
		if (kind == PTAH_QUERY_EVENT)
			event(&w);
		else
			branch(&w);
	}
	assert_int_equal(kind, PTAH_E_END);
	assert_int_equal(ptah_query_cond(w.q, &taken), PTAH_E_END);
	assert_int_equal(ptah_query_indirect(w.q, &ip), PTAH_E_END);
	assert_int_equal(ptah_query_event(w.q, &item), PTAH_E_END);
	assert_true(w.instructions == m->instructions);
	assert_true(w.conditional == m->conditional);
	assert_true(path_hash_value(&w.path) == path_hash_value(&m->path));
	assert_true(w.answers > STEPS / 3);
	ptah_query_free(w.q);
	machine_free(m);
}

TEST(plain)
{
	for (unsigned seed = 1; seed <= 10; seed++)
		run_queries(seed, false, false, SIZE_MAX);
}

TEST(return_compression)
{
	for (unsigned seed = 1; seed <= 10; seed++)
		run_queries(seed, true, seed & 1, SIZE_MAX);
}

TEST(chunks)
{
	run_queries(11, true, false, 1);
	run_queries(12, true, true, 7);
	run_queries(13, false, false, 4096);
}

/*
 * TSC 0x10 in the PSB+, outcomes, a later TSC and a ratio: each answer has the time of its packet.
 */
TEST(clocks)
{
	static uint8_t trace[256];
	struct ptah_generator g;
	struct ptah_query *q;
	struct ptah_item item;
	struct ptah_time time;
	uint32_t ratio;
	bool taken;

	generator_init(&g, trace, false, false);
	generator_psb(&g, 0x10, 20, true, 0x401000);
	generator_tnt(&g, true);
	generator_tnt(&g, false);
	generator_flush_tnt(&g);
	generator_tsc(&g, 0x2000);
	generator_tnt(&g, true);
	generator_flush_tnt(&g);
	assert_int_equal(ptah_query_new(NULL, &q), 0);
	assert_int_equal(ptah_query_next(q), PTAH_E_MORE);
	assert_int_equal(ptah_query_time(q, &time), PTAH_E_NO_SYNC);
	assert_int_equal(ptah_query_core_bus_ratio(q, &ratio), PTAH_E_NO_SYNC);
	assert_int_equal(ptah_query_feed(q, trace, (size_t)(g.out - trace), true), 0);
	while (ptah_query_event(q, &item) == 1)
		;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ptah_query_cond(q, &taken), 0);
		assert_int_equal(taken, i != 1);
		assert_int_equal(ptah_query_time(q, &time), 0);
		assert_true(time.tsc == (i < 2 ? 0x10 : 0x2000));
	}
	assert_int_equal(ptah_query_core_bus_ratio(q, &ratio), 0);
	assert_int_equal(ratio, 20);
	/* Back to the beginning. */
	ptah_query_seek(q, 0);
	assert_int_equal(ptah_query_sync_offset(q, &(uint64_t){0}), PTAH_E_NO_SYNC);
	assert_int_equal(ptah_query_feed(q, trace, (size_t)(g.out - trace), true), 0);
	assert_int_equal(ptah_query_next(q), PTAH_QUERY_EVENT);
	assert_int_equal(ptah_query_sync_offset(q, &(uint64_t){0}), 0);
	ptah_query_free(q);
}

/*
 * SDM Table "TNT Examples with Deferred TIPs": the indirect branch comes first, its TIP after the
 * outcomes of the conditional branches that follow it.
 */
TEST(deferred_tip)
{
	static uint8_t trace[256];
	struct ptah_generator g;
	struct ptah_query *q;
	struct ptah_item item;
	uint64_t ip;
	bool taken;

	generator_init(&g, trace, false, false);
	generator_psb(&g, 0x10, 20, true, 0x401000);
	generator_tnt(&g, true);
	generator_tnt(&g, false);
	generator_tip(&g, 0x402000);
	assert_int_equal(ptah_query_new(NULL, &q), 0);
	assert_int_equal(ptah_query_feed(q, trace, (size_t)(g.out - trace), true), 0);
	while (ptah_query_event(q, &item) == 1)
		;
	assert_int_equal(ptah_query_cond(q, &taken), 0);
	assert_true(taken);
	assert_int_equal(ptah_query_indirect(q, &ip), 0);
	assert_true(ip == 0x402000);
	assert_int_equal(ptah_query_cond(q, &taken), 0);
	assert_false(taken);
	assert_int_equal(ptah_query_next(q), PTAH_E_END);
	ptah_query_free(q);
}
