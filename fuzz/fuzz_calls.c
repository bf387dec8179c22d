/* SPDX-License-Identifier: MIT */
/*
 * Proves of the call machine, for any items: every beginning has one end, the ends come in the
 * opposite order, the figures of all calls add up to what ran, and neither the cut into batches nor
 * the capacity changes anything. What it does is bounded: a stack of `max_depth`, and marks in
 * proportion to the items.
 *
 * Input: a byte of configuration, then an item for each 4 bytes (see make_item()). If the first
 * byte is odd: an input of fuzz_program(), whose items are those that a flow finds.
 */
#include "fuzz.h"
#include "calls/calls.h"

#include <ptah/calls.h>

#define MAX_ITEMS 4096
#define INSN	  2
#define FUNCTION  0x1000 /* from one function to the next; each has a cold part */
#define PART	  0x100
#define KERNEL	  UINT64_C(0xffffffff80000000)

/* Functions by their number: the flags are in its bits. 24 and more have no bounds. */
static bool find(void *context, unsigned space, uint64_t ip, uint64_t tsc, struct ptah_function *f)
{
	static const uint32_t flags[] = {0,
					 0,
					 0,
					 PTAH_FUNCTION_STUB,
					 PTAH_FUNCTION_SWITCH,
					 PTAH_FUNCTION_UNWINDS,
					 PTAH_FUNCTION_TWICE,
					 PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT};
	const uint64_t number = ip / FUNCTION % 32;

	(void)space;
	(void)tsc;
	if (number >= 24 || ip % FUNCTION / PART % 8 || ip % FUNCTION >= 9 * PART)
		return false;
	f->low = ip - ip % PART;
	f->start = ip - ip % FUNCTION;
	f->high = f->low + PART;
	f->flags = flags[number % 8] | (f->low != f->start ? PTAH_FUNCTION_FRAGMENT : 0);
	return !context || number % 3; /* some are not known */
}

static uint64_t place(unsigned a, unsigned b)
{
	const uint64_t ip =
	    FUNCTION * (uint64_t)(32 + a % 32) + (a & 32 ? 8 * PART : 0) + INSN * (b % 16);

	return a & 64 ? ip | KERNEL : ip;
}

/* An item from 4 bytes: what it is, the function, the place in it, and how it ends. */
static void make_item(struct ptah_item *item, const uint8_t *p, const struct ptah_item *before,
		      uint64_t tsc)
{
	static const uint8_t events[] = {
	    PTAH_ITEM_ENABLED,	    PTAH_ITEM_DISABLED, PTAH_ITEM_ASYNC_DISABLED,
	    PTAH_ITEM_ASYNC_BRANCH, PTAH_ITEM_OVERFLOW, PTAH_ITEM_ERROR,
	    PTAH_ITEM_GAP,	    PTAH_ITEM_TSX,	PTAH_ITEM_PAGING,
	    PTAH_ITEM_ASYNC_PAGING, PTAH_ITEM_TICK,	PTAH_ITEM_PSB};

	memset(item, 0, sizeof(*item));
	item->tsc = p[3] & 0x80 ? tsc : tsc - p[3];
	item->ip = p[0] & 0x40 && before ? before->end : place(p[1], p[2]);
	if (p[0] & 0x80 && p[0] & 0x20) {
		item->type = events[p[0] % (sizeof(events))];
		item->flags = p[3] & 0x7f;
		item->to = place(p[2], p[3]);
		if (item->type == PTAH_ITEM_ERROR)
			item->status = p[2] & 1 ? PTAH_E_NO_CODE : PTAH_E_MISMATCH;
		return;
	}
	item->type = PTAH_ITEM_BLOCK;
	item->ninsn = (uint16_t)(1 + p[2] / 64);
	item->end = item->ip + INSN * item->ninsn;
	item->last_size = INSN;
	item->insn_class = p[0] % PTAH_INSN_CLASS_MAX;
	item->flags = p[3] & 0x40 ? p[3] & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN) : 0;
}

static size_t make_items(struct ptah_item *items, const uint8_t *data, size_t size)
{
	size_t n = 0;

	for (; 4 * n + 4 <= size && n < MAX_ITEMS; n++) {
		make_item(&items[n], data + 4 * n, n ? &items[n - 1] : NULL, 1000 + 8 * n);
		items[n].offset = n;
	}
	return n;
}

static size_t flow_items(struct ptah_item *items, const uint8_t *data, size_t size)
{
	struct fuzz_program program;
	struct ptah_flow *flow;
	size_t count = 0;
	int n = 0;

	if (!fuzz_program(&program, data, size))
		return 0;
	program.config.resync = size & 1;
	CHECK(!ptah_flow_new(program.image, &program.config, &flow));
	CHECK(!ptah_flow_feed(flow, program.trace, program.size, true));
	while (count < MAX_ITEMS &&
	       (n = ptah_flow_read(flow, items + count, MAX_ITEMS - count)) > 0)
		count += (size_t)n;
	ptah_flow_free(flow);
	ptah_image_free(program.image);
	return count;
}

/* What the marks say, while they come. */
struct sum {
	uint64_t hash, count, depth, self, ticks, last_instructions;
	uint64_t *ids; /* of the open calls */
	size_t capacity;
};

static void add_mark(struct sum *s, const struct ptah_call_mark *mark)
{
	s->hash = fuzz_hash(s->hash, mark, sizeof(*mark));
	s->count++;
	CHECK(mark->thread.instructions >= s->last_instructions);
	s->last_instructions = mark->thread.instructions;
	if (!mark->end) {
		CHECK(mark->how < PTAH_CALL_BEGIN_MAX && mark->depth == s->depth);
		CHECK(s->depth < s->capacity);
		s->ids[s->depth++] = mark->id;
		return;
	}
	CHECK(s->depth > 0 && mark->how < PTAH_CALL_END_MAX);
	CHECK(mark->depth == --s->depth && mark->id == s->ids[s->depth]);
	CHECK(mark->self.instructions <= mark->total.instructions);
	CHECK(mark->self.ticks <= mark->total.ticks && mark->self.off_ticks <= mark->self.ticks);
	s->self += mark->self.instructions;
	s->ticks += mark->self.ticks;
}

static struct sum run(const struct calls_config *config, const struct ptah_item *items, size_t n,
		      size_t batch, size_t capacity)
{
	struct ptah_call_mark marks[32];
	struct calls_marks *calls;
	struct sum s = {.capacity = config->max_depth + 1};
	size_t count;
	int k;

	s.ids = calloc(s.capacity, sizeof(*s.ids));
	CHECK(s.ids && !calls_marks_new(config, &calls));
	for (size_t at = 0; at < n; at += (size_t)k) {
		k = calls_marks_take(calls, items + at, n - at < batch ? n - at : batch, marks,
				     capacity, &count);
		CHECK(k >= 0 && count <= capacity);
		for (size_t i = 0; i < count; i++)
			add_mark(&s, &marks[i]);
	}
	while ((k = calls_marks_finish(calls, marks, capacity)) > 0)
		for (int i = 0; i < k; i++)
			add_mark(&s, &marks[i]);
	CHECK(!k && !s.depth);
	calls_marks_free(calls);
	free(s.ids);
	s.ids = NULL;
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t depths[] = {300, 3, 40, 1};
	struct calls_config config = {.size = sizeof(config)};
	struct ptah_item *items;
	uint64_t instructions = 0;
	struct sum whole, cut;
	size_t n;

	if (!size)
		return 0;
	n = *data & 1 ? MAX_ITEMS : size / 4 + 1;
	items = calloc(n, sizeof(*items));
	CHECK(items);
	n = *data & 1 ? flow_items(items, data + 1, size - 1)
		      : make_items(items, data + 1, size - 1);
	config.find = *data & 2 ? NULL : find;
	config.find_context = *data & 4 ? &config : NULL;
	config.max_depth = depths[*data >> 3 & 3];
	for (size_t i = 0; i < n; i++)
		instructions += items[i].type == PTAH_ITEM_BLOCK ? items[i].ninsn : 0;
	whole = run(&config, items, n, n, 32);
	CHECK(whole.self == instructions);
	cut = run(&config, items, n, 1, 1);
	CHECK(cut.hash == whole.hash && cut.count == whole.count);
	cut = run(&config, items, n, 1 + size % 7, 1 + size % 5);
	CHECK(cut.hash == whole.hash && cut.count == whole.count);
	free(items);
	return 0;
}
