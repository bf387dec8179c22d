/* SPDX-License-Identifier: MIT */
/*
 * Random threads (random_thread.h): the calls that the machine finds are those that there were,
 * from blocks and from spans. And with parts of the trace lost, nothing is found that was not
 * there.
 */
#include "test.h"

#include "random_thread.h"

#include "calls/machine.h"
#include "calls/calls.h"

#include <stdlib.h>

/* What a machine passes to its sink. */
struct found {
	struct calls_machine machine;
	struct true_mark *marks;
	bool *sure; /* it says how it began or ended, and where */
	size_t count, capacity;
};

static void add(struct calls_machine *m, const struct calls_frame *f, bool end, unsigned how,
		uint64_t site)
{
	struct found *found = (struct found *)m;

	if (found->count == found->capacity) {
		found->capacity = found->capacity ? 2 * found->capacity : 1024;
		found->marks = realloc(found->marks, found->capacity * sizeof(*found->marks));
		found->sure = realloc(found->sure, found->capacity * sizeof(*found->sure));
		assert_true(found->marks && found->sure);
	}
	found->sure[found->count] = site;
	found->marks[found->count++] = (struct true_mark){
	    .function = f->function,
	    .offset = m->now.offset,
	    .instructions = m->now.counts.instructions,
	    .id = (uint32_t)f->id,
	    .end = end,
	    .how = (uint8_t)how,
	};
}

static void begin(struct calls_machine *m, const struct calls_frame *f, uint64_t site)
{
	add(m, f, false, f->how, site);
}

static void end(struct calls_machine *m, const struct calls_frame *f, enum ptah_call_end how,
		unsigned flags, uint64_t site)
{
	(void)flags;
	add(m, f, true, how, site);
}

static const struct calls_sink sink = {begin, end};

/* Whether the block ends where its function continues. */
static bool continues(struct calls_machine *m, const struct ptah_item *block,
		      const struct ptah_item *end)
{
	const struct calls_entry *e = calls_lookup(m, block->ip);

	return block + 1 < end && block[1].type == PTAH_ITEM_BLOCK &&
	       block[1].ip - e->low < e->size && block[1].ip != e->low &&
	       (block->insn_class == PTAH_INSN_OTHER || block->insn_class == PTAH_INSN_COND ||
		block->insn_class == PTAH_INSN_JUMP);
}

/* Feeds blocks as spans, where something is known of what follows them. Returns the last one. */
static size_t take_span(struct calls_machine *m, const struct ptah_item *items, size_t i, size_t n)
{
	struct ptah_span span = {.ip = items[i].ip};

	while (continues(m, &items[i], items + n))
		span.ninsn += items[i++].ninsn;
	if (i + 1 >= n || items[i + 1].type != PTAH_ITEM_BLOCK)
		return 0;
	span.ninsn += items[i].ninsn;
	span.end = items[i].end;
	span.to = items[i + 1].ip;
	span.tsc = items[i].tsc;
	span.offset = items[i].offset;
	span.insn_class = items[i].insn_class;
	span.last_size = items[i].last_size;
	calls_span(m, &sink, &span);
	return i;
}

static void find_calls(const struct ptah_item *items, size_t n, bool spans, struct found *found)
{
	const struct calls_config config = {.size = sizeof(config), .find = random_thread_find};

	memset(found, 0, sizeof(*found));
	assert_int_equal(calls_machine_init(&found->machine, &config, &sink), 0);
	for (size_t i = 0; i < n; i++) {
		size_t last = 0;

		if (spans && items[i].type == PTAH_ITEM_BLOCK)
			last = take_span(&found->machine, items, i, n);
		if (last)
			i = last;
		else
			calls_item(&found->machine, &sink, &items[i]);
	}
	calls_end(&found->machine, PTAH_CALL_END_TRACE);
	assert_int_equal(found->machine.status, 0);
}

static void free_found(struct found *found)
{
	calls_machine_fini(&found->machine);
	free(found->marks);
	free(found->sure);
}

static void compare(uint64_t seed, bool spans)
{
	struct random_thread *t = random_thread_new(seed, 3000);
	struct found found;

	find_calls(t->items, t->item_count, spans, &found);
	for (size_t i = 0; i < found.count && i < t->mark_count; i++) {
		const struct true_mark *a = &t->marks[i], *b = &found.marks[i];

		if (a->function != b->function || a->end != b->end || a->how != b->how ||
		    a->instructions != b->instructions || a->id != b->id)
			fail_msg("seed %u, mark %zu: %s of %llx (%u) at %llu, found %s of %llx "
				 "(%u) at %llu",
				 (unsigned)seed, i, a->end ? "end" : "begin",
				 (unsigned long long)a->function, a->how,
				 (unsigned long long)a->offset, b->end ? "end" : "begin",
				 (unsigned long long)b->function, b->how,
				 (unsigned long long)b->offset);
	}
	assert_int_equal(found.count, t->mark_count);
	free_found(&found);
	random_thread_free(t);
}

TEST(from_blocks)
{
	for (uint64_t seed = 1; seed <= 40; seed++)
		compare(seed, false);
}

TEST(from_spans)
{
	for (uint64_t seed = 41; seed <= 80; seed++)
		compare(seed, true);
}

/* Replaces some items by overflows. Returns how many items are left. */
static size_t lose(struct ptah_item *items, size_t n, uint64_t seed)
{
	size_t kept = 0;

	for (size_t i = 0; i < n;) {
		size_t next = i + 1;

		items[kept++] = items[i];
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (seed >> 58) {
			i = next;
			continue;
		}
		next += (size_t)(seed >> 32) % 40;
		while (next < n && items[next].type != PTAH_ITEM_BLOCK)
			next++;
		if (next < n)
			items[kept++] = (struct ptah_item){.type = PTAH_ITEM_OVERFLOW,
							   .ip = items[next].ip,
							   .tsc = items[next].tsc,
							   .offset = items[next].offset - 1};
		i = next;
	}
	return kept;
}

/*
 * Whether there was this beginning or end of a call. The true marks are in the order of their
 * offsets.
 */
static bool is_true(const struct random_thread *t, const struct true_mark *mark)
{
	size_t low = 0, high = t->mark_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (t->marks[middle].offset < mark->offset)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < t->mark_count && t->marks[low].offset == mark->offset; low++)
		if (t->marks[low].function == mark->function && t->marks[low].end == mark->end)
			return true;
	return false;
}

/* How many of the calls, handlers and returns that the machine says it saw there were not. */
static size_t invented(const struct random_thread *t, const struct found *found, size_t *checked)
{
	size_t wrong = 0;

	for (size_t i = 0; i < found->count; i++) {
		const struct true_mark *mark = &found->marks[i];

		if (mark->end ? mark->how != PTAH_CALL_END_RETURN
			      : mark->how != PTAH_CALL_CALLED && mark->how != PTAH_CALL_SIGNAL)
			continue;
		if (!found->sure[i])
			continue;
		++*checked;
		wrong += !is_true(t, mark);
	}
	return wrong;
}

/*
 * (Which calls are unwound may be unknown: those that were open before a loss.) Where an exception
 * goes to a caller of which a loss took the beginning, and another call of that function is open,
 * it seems to go there, and a later return may end the wrong one: once in some ten thousand.
 */
TEST(with_losses)
{
	size_t checked = 0, wrong = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct random_thread *t = random_thread_new(seed, 3000);
		const size_t n = lose(t->items, t->item_count, seed);
		struct found found;

		find_calls(t->items, n, seed & 1, &found);
		wrong += invented(t, &found, &checked);
		free_found(&found);
		random_thread_free(t);
	}
	assert_true(checked > 50000);
	assert_true(wrong <= checked / 10000);
}
