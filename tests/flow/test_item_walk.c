/* SPDX-License-Identifier: MIT */
/*
 * The items of events as programs with an instruction decoder of their own use them: a walk over the
 * instructions that takes an outcome or an address at every branch, as event.h says, compared with
 * the path that the simulated program took.
 */
#include "test.h"

#include "random_machine.h"
#include "x86/x86.h"

#include <ptah/event.h>

struct walker {
	const struct machine *m;
	struct ptah_event_decoder *events;
	uint64_t ip;
	uint64_t stack[64];
	unsigned top, depth;
	struct path_hash path;
	uint64_t instructions, conditional, answers;
	uint64_t outcomes; /* of the last TNT, of which `count` are left */
	unsigned count;
	bool has_item; /* `item` is no TNT, and not used yet */
	struct ptah_item item;
	/* What has been fed so far. */
	size_t size, fed, chunk;
};

/* Reads one item, in chunks, into `item`; false at the end of the trace. */
static bool read_item(struct walker *w)
{
	int n;

	while ((n = ptah_event_read(w->events, &w->item, 1)) == 0 && w->fed < w->size) {
		const size_t left = w->size - w->fed;
		const size_t size = left < w->chunk ? left : w->chunk;

		assert_int_equal(
		    ptah_event_feed(w->events, w->m->trace + w->fed, size, size == left), 0);
		w->fed += size;
	}
	assert_in_range(n, 0, 1);
	return n;
}

/* Makes sure that there are outcomes, or else an item that is no TNT. False at the end. */
static bool look_ahead(struct walker *w)
{
	if (w->count || w->has_item)
		return true;
	if (!read_item(w))
		return false;
	w->has_item = w->item.type != PTAH_ITEM_TNT;
	if (!w->has_item) {
		w->outcomes = w->item.bits;
		w->count = w->item.count;
	}
	return true;
}

static bool take_outcome(struct walker *w)
{
	assert_true(look_ahead(w) && w->count);
	return w->outcomes >> --w->count & 1;
}

/* SDM "Deferred TIPs": the address may come after the outcomes of later branches. */
static uint64_t take_address(struct walker *w)
{
	if (!w->has_item)
		w->has_item = read_item(w);
	assert_true(w->has_item);
	assert_int_equal(w->item.type, PTAH_ITEM_TIP);
	w->has_item = false;
	return w->item.to;
}

/* Runs up to the next instruction that needs the trace (or to `stop`), which is not run yet. */
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
	uint64_t next = w->ip + insn.size;
	bool taken;

	path_hash_add(&w->path, w->ip, next);
	w->instructions++;
	w->answers++;
	switch (insn.insn_class) {
	case PTAH_INSN_COND:
		w->conditional++;
		w->ip = take_outcome(w) ? insn.target : next;
		break;
	case PTAH_INSN_RETURN:
		/* SDM "Indirect Transfer Compression for Returns": an outcome, and it is taken. */
		assert_true(look_ahead(w));
		taken = w->count && take_outcome(w);
		assert_true(taken || (w->has_item && !w->count));
		assert_true(!taken || w->depth);
		w->top -= w->depth > 0;
		w->depth -= w->depth > 0;
		w->ip = taken ? w->stack[w->top % 64] : take_address(w);
		break;
	default:
		w->ip = take_address(w);
		if (insn.insn_class == PTAH_INSN_CALL_IND) {
			w->stack[w->top++ % 64] = next;
			w->depth += w->depth < 64;
		}
		break;
	}
}

static void event(struct walker *w)
{
	const struct ptah_item item = w->item;
	struct x86_insn insn;

	w->has_item = false;
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

static void run_walk(unsigned seed, bool retcomp, bool long_tnt, size_t chunk)
{
	struct walker w = {.chunk = chunk};
	struct machine *m = machine_new(seed, retcomp, long_tnt, false, &w.size);

	w.m = m;
	assert_int_equal(ptah_event_decoder_new(NULL, &w.events), 0);
	while (look_ahead(&w)) {
		if (w.count || w.item.type == PTAH_ITEM_TIP)
			branch(&w);
		else
			event(&w);
	}
	assert_true(w.fed == w.size);
	assert_true(w.instructions == m->instructions);
	assert_true(w.conditional == m->conditional);
	assert_true(path_hash_value(&w.path) == path_hash_value(&m->path));
	assert_true(w.answers > STEPS / 3);
	ptah_event_decoder_free(w.events);
	machine_free(m);
}

TEST(plain)
{
	for (unsigned seed = 1; seed <= 10; seed++)
		run_walk(seed, false, false, SIZE_MAX);
}

TEST(return_compression)
{
	for (unsigned seed = 1; seed <= 10; seed++)
		run_walk(seed, true, seed & 1, SIZE_MAX);
}

TEST(chunks)
{
	run_walk(11, true, false, 1);
	run_walk(12, true, true, 7);
	run_walk(13, false, false, 4096);
}

/*
 * SDM Table "TNT Examples with Deferred TIPs": the indirect branch comes first, its TIP after the
 * outcomes of the conditional branches that follow it.
 */
TEST(deferred_tip)
{
	static uint8_t trace[256];
	static struct machine m = {.trace = trace};
	struct walker w = {.m = &m, .chunk = SIZE_MAX};
	struct ptah_generator g;

	generator_init(&g, m.trace, false, false);
	generator_psb(&g, 0x10, 20, true, 0x401000);
	generator_tnt(&g, true);
	generator_tnt(&g, false);
	generator_tip(&g, 0x402000);
	w.size = (size_t)(g.out - m.trace);
	assert_int_equal(ptah_event_decoder_new(NULL, &w.events), 0);
	while (look_ahead(&w) && !w.count)
		w.has_item = false;
	assert_true(take_outcome(&w));
	assert_true(take_address(&w) == 0x402000);
	assert_false(take_outcome(&w));
	assert_false(look_ahead(&w));
	ptah_event_decoder_free(w.events);
}
