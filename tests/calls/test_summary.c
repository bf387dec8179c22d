/* SPDX-License-Identifier: MIT */
/*
 * Random threads, cut into parts that are summarized without what precedes them, and joined: the
 * tree is that of an adder which takes everything in order.
 */
#include "test.h"

#include "random_thread.h"
#include "same_trees.h"

#include "calls/summary.h"
#include "calls/calls.h"

#include <stdlib.h>

#define WORKERS 3

struct entry {
	struct ptah_span span; /* unless it is an item */
	const struct ptah_item *item;
};

struct list {
	struct entry *entries;
	size_t count;
};

struct random {
	uint64_t seed;
};

static size_t pick(struct random *r, size_t n)
{
	r->seed = r->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(r->seed >> 33) % n;
}

/* What is mixed into a thread. */
enum {
	LOSSES = 1,
	UNKNOWN = 2,
	EVENTS = 4,
	PLAIN = 8 /* and nothing else: a function at each multiple of 0x1000 */
};

static const struct ptah_item losses[] = {
    {.type = PTAH_ITEM_GAP},
    {.type = PTAH_ITEM_OVERFLOW},
    {.type = PTAH_ITEM_ERROR, .status = PTAH_E_BAD_PACKET},
};

static const struct ptah_item events[] = {
    {.type = PTAH_ITEM_PSB},
    {.type = PTAH_ITEM_CBR},
    {.type = PTAH_ITEM_PAGING},
    {.type = PTAH_ITEM_TSX},
};

static struct list list_of(const struct random_thread *t, unsigned mixed, struct random *r)
{
	struct list l = {.entries = calloc(2 * t->item_count, sizeof(*l.entries))};
	uint64_t cycles = 0;

	for (size_t i = 0; i < t->item_count; i++) {
		const struct ptah_item *b = &t->items[i], *next = b + 1;
		struct entry *e = &l.entries[l.count++];

		if (mixed & LOSSES && !pick(r, 500)) {
			e->item = &losses[pick(r, 3)];
			i += pick(r, 20);
			continue;
		}
		if (b->type != PTAH_ITEM_BLOCK) {
			e->item = b;
			continue;
		}
		cycles += pick(r, 3) * b->ninsn;
		e->span = (struct ptah_span){.ip = b->ip,
					     .end = b->end,
					     .tsc = b->tsc,
					     .offset = b->offset,
					     .cycles = cycles,
					     .ninsn = b->ninsn,
					     .insn_class = b->insn_class,
					     .last_size = b->last_size,
					     .flags = b->flags};
		if (i + 1 < t->item_count && next->type == PTAH_ITEM_BLOCK && pick(r, 8))
			e->span.to = next->ip;
		if (mixed & EVENTS && !pick(r, 300))
			l.entries[l.count++].item = &events[pick(r, 4)];
	}
	return l;
}

static unsigned mixture;

static bool find(void *context, unsigned space, uint64_t ip, uint64_t tsc, struct ptah_function *f)
{
	if (mixture & PLAIN) {
		*f = (struct ptah_function){.start = ip & ~UINT64_C(0xfff)};
		f->low = f->start;
		f->high = f->start + 0x1000;
		return true;
	}
	if (mixture & UNKNOWN && (ip >> 8) % 5 == 0)
		return false;
	return random_thread_find(context, space, ip, tsc, f);
}

static struct calls_adder *adder_new(struct ptah_call_tree *tree)
{
	const struct calls_config config = {.size = sizeof(config), .find = find};
	struct calls_adder *a;

	assert_int_equal(calls_adder_new(&config, tree, &a), 0);
	return a;
}

static void take(struct calls_adder *a, const struct entry *e)
{
	if (e->item)
		assert_int_equal(calls_adder_take(a, e->item, 1), 0);
	else
		assert_int_equal(calls_adder_take_spans(a, &e->span, 1), 0);
}

static const struct ptah_call_tree_config trees = {
    .size = sizeof(trees), .time_mult = 683, .time_shift = 10};

static struct ptah_call_tree *in_order(const struct list *l)
{
	struct ptah_call_tree *tree;
	struct calls_adder *a;

	assert_int_equal(ptah_call_tree_new(&trees, &tree), 0);
	a = adder_new(tree);
	for (size_t i = 0; i < l->count; i++)
		take(a, &l->entries[i]);
	assert_int_equal(calls_adder_finish(a), 0);
	calls_adder_free(a);
	return tree;
}

struct part {
	size_t first, end;
	struct calls_summary *summary;
};

struct run {
	const struct list *list;
	struct calls_adder *adder, *workers[WORKERS], *again;
	struct calls_summary *search;
	size_t joined, failed; /* parts */
	uint64_t errors;
};

static void summarize(struct run *run, struct calls_adder *worker, struct part *p)
{
	struct calls_knowledge knowledge;

	calls_adder_know(run->adder, &knowledge);
	assert_int_equal(calls_summary_new(&trees, &p->summary), 0);
	calls_adder_summarize(worker, p->summary, &knowledge);
	for (size_t i = p->first; i < p->end; i++) {
		const struct entry *e = &run->list->entries[i];

		if (e->item)
			take(worker, e);
		else
			assert_int_equal(calls_adder_summarize_spans(worker, &e->span, 1), 0);
	}
	assert_int_equal(calls_adder_end_summary(worker), 0);
}

/* The summary fits up to a section: finds the place, and takes the rest in order. */
static void take_rest(struct run *run, const struct part *p, size_t joined)
{
	size_t i = p->first;
	int found = joined ? 0 : 2;

	if (joined)
		calls_adder_summarize(run->again, run->search, calls_summary_knowledge(p->summary));
	while (!found && i < p->end) {
		const struct entry *e = &run->list->entries[i++];

		found = calls_adder_search(run->again, e->item ? NULL : &e->span, e->item, joined);
	}
	assert_true(found > 0);
	if (joined) {
		calls_adder_end_summary(run->again);
		i -= found == 2;
	}
	for (; i < p->end; i++)
		take(run->adder, &run->list->entries[i]);
}

static void join(struct run *run, struct part *p)
{
	size_t joined;
	const int status = calls_adder_join(run->adder, p->summary, 0, &joined);

	assert_true(status >= 0);
	run->joined++;
	if (!status) {
		run->failed++;
		take_rest(run, p, joined);
	}
	calls_summary_free(p->summary);
}

/* Several parts at a time are ahead of the joining, as those of several threads are. */
static struct ptah_call_tree *in_parts(struct run *run, size_t size, struct random *r)
{
	struct part parts[WORKERS];
	struct ptah_call_tree *tree;
	size_t at = 0;

	assert_int_equal(ptah_call_tree_new(&trees, &tree), 0);
	run->adder = adder_new(tree);
	run->again = adder_new(NULL);
	assert_int_equal(calls_summary_new(&trees, &run->search), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		run->workers[i] = adder_new(NULL);
	while (at < run->list->count) {
		unsigned n = 0;

		for (; n < WORKERS && at < run->list->count; n++) {
			parts[n].first = at;
			at += 1 + pick(r, size);
			at = at < run->list->count ? at : run->list->count;
			parts[n].end = at;
			/* A summary that does not fit the trace at all leaves no trace. */
			if (!pick(r, 4)) {
				struct part other = {.end = run->list->count};

				other.first = pick(r, other.end);
				summarize(run, run->workers[n], &other);
				calls_summary_free(other.summary);
			}
			summarize(run, run->workers[n], &parts[n]);
		}
		for (unsigned i = 0; i < n; i++)
			join(run, &parts[i]);
	}
	assert_int_equal(calls_adder_finish(run->adder), 0);
	calls_adder_free(run->adder);
	calls_adder_free(run->again);
	calls_summary_free(run->search);
	for (unsigned i = 0; i < WORKERS; i++)
		calls_adder_free(run->workers[i]);
	return tree;
}

static void compare(uint64_t seed, unsigned mixed, size_t size)
{
	struct random_thread *t = random_thread_new(seed, 1000);
	struct random r = {seed + 7};
	struct list l = list_of(t, mixed, &r);
	struct run run = {.list = &l};
	struct ptah_call_tree *a, *b;

	mixture = mixed;
	a = in_order(&l);
	b = in_parts(&run, size, &r);
	print_message("seed %u, mixed %u, size %zu: %zu of %zu parts again\n", (unsigned)seed,
		      mixed, size, run.failed, run.joined);
	assert_same_trees(a, b);
	ptah_call_tree_free(a);
	ptah_call_tree_free(b);
	free(l.entries);
	random_thread_free(t);
}

TEST(random_threads)
{
	for (uint64_t seed = 1; seed <= 32; seed++)
		compare(seed, seed % 8, seed % 3 ? 300 : 20);
}

/* Its last instruction is a branch to `to`. */
static struct entry branch(uint64_t ip, uint8_t insn_class, uint64_t to)
{
	return (struct entry){.span = {.ip = ip,
				       .end = ip + 0x10,
				       .ninsn = 4,
				       .insn_class = insn_class,
				       .last_size = 2,
				       .to = to}};
}

/*
 * Two functions share code: a jump to the first instruction of one is not a jump to that function
 * when the other one runs there. What precedes the shared code says which one does.
 */
TEST(shared_code)
{
	struct entry entries[] = {
	    branch(0x1000, PTAH_INSN_CALL, 0x2000),	branch(0x2000, PTAH_INSN_JUMP, 0x3040),
	    branch(0x3040, PTAH_INSN_JUMP_IND, 0x3000), branch(0x3000, PTAH_INSN_RETURN, 0x1010),
	    branch(0x1010, PTAH_INSN_CALL, 0x3000),	branch(0x3000, PTAH_INSN_JUMP_IND, 0x3000),
	    branch(0x3000, PTAH_INSN_RETURN, 0x1020),
	};
	const struct list l = {entries, sizeof(entries) / sizeof(*entries)};
	struct run run = {.list = &l};
	struct random r = {1};
	struct ptah_call_tree *a, *b;

	mixture = PLAIN;
	a = in_order(&l);
	b = in_parts(&run, 1, &r);
	assert_same_trees(a, b);
	ptah_call_tree_free(a);
	ptah_call_tree_free(b);
}

/* A chain of tail calls that has begun earlier: each one is a step, and there is no end of them. */
TEST(endless_chain)
{
	struct calls_adder *worker = adder_new(NULL);
	const struct calls_knowledge nothing = {0};
	struct calls_summary *s;
	size_t n = 0, joined;
	int status = 0;

	mixture = PLAIN;
	assert_int_equal(calls_summary_new(&trees, &s), 0);
	calls_adder_summarize(worker, s, &nothing);
	for (; !status && n < 1000000; n++) {
		const struct entry e =
		    branch(n % 2 ? 0x2000 : 0x1000, PTAH_INSN_JUMP, n % 2 ? 0x1000 : 0x2000);

		status = calls_adder_summarize_spans(worker, &e.span, 1);
	}
	assert_int_equal(status, PTAH_E_NOMEM);
	assert_true(n <= SUMMARY_SECTIONS);
	assert_int_equal(calls_adder_end_summary(worker), PTAH_E_NOMEM);
	assert_int_equal(calls_adder_join(worker, s, 0, &joined), 0);
	assert_int_equal(joined, 0);
	calls_adder_free(worker);
	calls_summary_free(s);
}
