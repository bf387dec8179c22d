/* SPDX-License-Identifier: MIT */
/* Joins blocks to straight runs (straight_runs.h), by ascending addresses. */
#include "export/straight_runs.h"

#include "base/order.h"
#include "support/list.h"

#include <ptah/base.h>
#include <stdlib.h>
#include <string.h>

/* Executions that have come to a place: where their runs began, and their last instruction. */
struct part {
	struct part *next;
	uint64_t start, last, count;
	bool by_call;
};

struct queue {
	struct part *first, *end;
	uint64_t count; /* sum of its parts */
	size_t parts;
};

/* The blocks that begin at one address. */
struct place {
	size_t block, block_count;
	struct queue arrived; /* executions that fell through to here */
	struct queue cut;     /* those that may have: see run_block.cut */
};

struct making {
	const struct run_block *blocks;
	size_t block_count;
	struct place *places;
	size_t place_count;
	struct part *free;
	struct straight_runs *runs;
	bool no_memory;
};

static void emit(struct making *m, const struct part *part, uint64_t last, uint64_t count)
{
	struct straight_runs *r = m->runs;

	if (!LIST_ROOM(r->run, r->count, r->capacity)) {
		m->no_memory = true;
		return;
	}
	r->run[r->count++] = (struct straight_run){part->start, last, count, part->by_call};
}

static struct part *new_part(struct making *m, struct part value)
{
	struct part *part = m->free;

	if (part)
		m->free = part->next;
	else
		part = malloc(sizeof(*part));
	if (!part) {
		m->no_memory = true;
		return NULL;
	}
	*part = value;
	part->next = NULL;
	return part;
}

static void append(struct queue *q, struct part *part)
{
	if (!part)
		return;
	if (q->first)
		q->end->next = part;
	else
		q->first = part;
	q->end = part;
	q->count += part->count;
	q->parts++;
}

static void join_queues(struct queue *q, struct queue *more)
{
	if (!more->first)
		return;
	if (q->first)
		q->end->next = more->first;
	else
		q->first = more->first;
	q->end = more->end;
	q->count += more->count;
	q->parts += more->parts;
	*more = (struct queue){0};
}

/* Takes the first part, or as much of it as makes `count`. NULL: the queue is empty, or no memory.
 */
static struct part *take_run_part(struct making *m, struct queue *q, uint64_t count)
{
	struct part *part = q->first;

	if (!part || !count)
		return NULL;
	if (part->count > count) {
		struct part piece = *part;

		piece.count = count;
		part->count -= count;
		q->count -= count;
		return new_part(m, piece);
	}
	q->first = part->next;
	q->count -= part->count;
	q->parts--;
	part->next = NULL;
	return part;
}

static void release(struct making *m, struct part *part)
{
	part->next = m->free;
	m->free = part;
}

/* Runs of `count` executions of the queue end with `last`. */
static void end_runs(struct making *m, struct queue *q, uint64_t last, uint64_t count)
{
	struct part *part;

	while (count && (part = take_run_part(m, q, count)) != NULL) {
		count -= part->count;
		emit(m, part, last, part->count);
		release(m, part);
	}
}

/* Runs that nothing continues end with the instruction that they executed last. Those without one
 * were only expected to begin here. */
static void end_all(struct making *m, struct queue *q, uint64_t here)
{
	struct part *part;

	while ((part = take_run_part(m, q, UINT64_MAX)) != NULL) {
		if (part->start != here)
			emit(m, part, part->last, part->count);
		release(m, part);
	}
}

static struct place *find_place(const struct making *m, uint64_t ip)
{
	size_t low = 0, high = m->place_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const uint64_t at = m->blocks[m->places[middle].block].ip;

		if (at == ip)
			return &m->places[middle];
		if (at < ip)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* All but the first RUNS_ALIVE / 2 runs are cut: they end here, and new ones begin. */
static void limit(struct making *m, struct queue *q, uint64_t here)
{
	struct queue kept = {0};
	struct part *part;

	if (q->parts <= RUNS_ALIVE)
		return;
	while (kept.parts < RUNS_ALIVE / 2 && (part = take_run_part(m, q, UINT64_MAX)) != NULL)
		append(&kept, part);
	m->runs->broken += q->count;
	append(&kept, new_part(m, (struct part){.start = here, .count = q->count}));
	end_all(m, q, here);
	join_queues(q, &kept);
}

/* `count` executions of the queue go on after the block, if anything was executed there. */
static void go_on(struct making *m, struct queue *q, const struct run_block *b, uint64_t count)
{
	struct place *next = find_place(m, b->end);
	struct queue moved = {0};
	struct part *part;

	if (!next) {
		end_runs(m, q, b->last, count);
		return;
	}
	if (count == q->count)
		join_queues(&moved, q);
	while (moved.count < count && (part = take_run_part(m, q, count - moved.count)) != NULL)
		append(&moved, part);
	for (part = moved.first; part; part = part->next)
		part->last = b->last;
	join_queues(b->cut ? &next->cut : &next->arrived, &moved);
}

static void run_place(struct making *m, struct place *place, const struct run_entry *entry,
		      size_t entry_count)
{
	const struct run_block *blocks = &m->blocks[place->block];
	const uint64_t here = blocks->ip;
	struct queue q = {0};
	uint64_t needed = 0;

	for (size_t i = 0; i < place->block_count; i++)
		needed += blocks[i].count;
	join_queues(&q, &place->arrived);
	for (size_t i = 0; i < entry_count; i++)
		append(&q, new_part(m, (struct part){.start = here,
						     .count = entry[i].count,
						     .by_call = entry[i].by_call}));
	join_queues(&q, &place->cut);
	/* Where nothing says how execution came here, runs begin: at the start of tracing, after a
	 * signal, after a loss. */
	if (q.count < needed)
		append(&q, new_part(m, (struct part){.start = here, .count = needed - q.count}));
	limit(m, &q, here);
	for (size_t i = 0; i < place->block_count; i++)
		end_runs(m, &q, blocks[i].last, blocks[i].left);
	for (size_t i = 0; i < place->block_count; i++)
		go_on(m, &q, &blocks[i], blocks[i].count - blocks[i].left);
	end_all(m, &q, here);
}

static int by_block(const void *a, const void *b)
{
	const struct run_block *x = a, *y = b;
	int order = COMPARE(x->ip, y->ip);

	order = order ? order : COMPARE(x->end, y->end);
	order = order ? order : COMPARE(x->last, y->last);
	return order ? order : x->cut - y->cut;
}

static int by_entry(const void *a, const void *b)
{
	const struct run_entry *x = a, *y = b;
	int order = COMPARE(x->ip, y->ip);

	return order ? order : x->by_call - y->by_call;
}

static int by_run(const void *a, const void *b)
{
	const struct straight_run *x = a, *y = b;
	int order = COMPARE(x->start, y->start);

	order = order ? order : COMPARE(x->last, y->last);
	return order ? order : x->by_call - y->by_call;
}

static size_t sum_blocks(struct run_block *blocks, size_t count)
{
	size_t last = 0;

	if (!count)
		return 0;
	qsort(blocks, count, sizeof(*blocks), by_block);
	for (size_t i = 1; i < count; i++) {
		if (by_block(&blocks[last], &blocks[i])) {
			blocks[++last] = blocks[i];
			continue;
		}
		blocks[last].count += blocks[i].count;
		blocks[last].left += blocks[i].left;
	}
	return last + 1;
}

static size_t sum_entries(struct run_entry *entries, size_t count)
{
	size_t last = 0;

	if (!count)
		return 0;
	qsort(entries, count, sizeof(*entries), by_entry);
	for (size_t i = 1; i < count; i++) {
		if (by_entry(&entries[last], &entries[i]))
			entries[++last] = entries[i];
		else
			entries[last].count += entries[i].count;
	}
	return last + 1;
}

static void sum_runs(struct straight_runs *r)
{
	size_t last = 0;

	if (!r->count)
		return;
	qsort(r->run, r->count, sizeof(*r->run), by_run);
	for (size_t i = 1; i < r->count; i++) {
		if (by_run(&r->run[last], &r->run[i]))
			r->run[++last] = r->run[i];
		else
			r->run[last].count += r->run[i].count;
	}
	r->count = last + 1;
}

/* Groups the sorted blocks by the address where they begin. */
static bool make_places(struct making *m)
{
	m->places = calloc(m->block_count + 1, sizeof(*m->places));
	if (!m->places)
		return false;
	for (size_t i = 0; i < m->block_count; i++) {
		if (!i || m->blocks[i].ip != m->blocks[i - 1].ip)
			m->places[m->place_count++].block = i;
		m->places[m->place_count - 1].block_count++;
	}
	return true;
}

static void free_parts(struct part *part)
{
	struct part *next;

	for (; part; part = next) {
		next = part->next;
		free(part);
	}
}

int straight_runs_make(struct run_block *blocks, size_t block_count, struct run_entry *entries,
		       size_t entry_count, struct straight_runs *runs)
{
	struct making m = {.blocks = blocks, .runs = runs};
	size_t entry = 0;

	*runs = (struct straight_runs){0};
	m.block_count = sum_blocks(blocks, block_count);
	entry_count = sum_entries(entries, entry_count);
	if (!make_places(&m))
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < m.place_count && !m.no_memory; i++) {
		const uint64_t ip = blocks[m.places[i].block].ip;
		size_t n = 0;

		while (entry < entry_count && entries[entry].ip < ip)
			entry++;
		while (entry + n < entry_count && entries[entry + n].ip == ip)
			n++;
		run_place(&m, &m.places[i], &entries[entry], n);
	}
	for (size_t i = 0; i < m.place_count; i++) {
		free_parts(m.places[i].arrived.first);
		free_parts(m.places[i].cut.first);
	}
	free_parts(m.free);
	free(m.places);
	if (m.no_memory) {
		straight_runs_free(runs);
		return PTAH_E_NOMEM;
	}
	sum_runs(runs);
	return 0;
}

void straight_runs_free(struct straight_runs *runs)
{
	free(runs->run);
	*runs = (struct straight_runs){0};
}
