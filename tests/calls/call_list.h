/* SPDX-License-Identifier: MIT */
/*
 * A judge of call trees: random calls as marks, kept as a plain list, and sums over that list which
 * are made slowly, call by call, from the stack that each call had.
 */
#ifndef PTAH_TESTS_CALLS_CALL_LIST_H
#define PTAH_TESTS_CALLS_CALL_LIST_H

#include <ptah/calls.h>

#include <stdlib.h>
#include <string.h>

#define LIST_DEEPEST 24

/* Flags at a call's end that keep it out of histograms. */
#define LIST_PARTIAL (PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS)

struct listed_call {
	uint64_t path[LIST_DEEPEST]; /* the functions from the outermost to this one */
	unsigned depth;		     /* of the path */
	size_t caller;		     /* its index; SIZE_MAX: none */
	bool began, partial, untimed, uncycled;
	struct ptah_call_figures begin, inclusive, self;
};

struct call_list {
	struct listed_call *calls;
	struct ptah_call_mark *marks;
	size_t count, mark_count;
	struct ptah_call_figures total;
};

struct list_shape {
	unsigned seed, functions, deepest, calls;
	bool times, cycles;
};

static inline uint64_t list_random(uint64_t *chance)
{
	*chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *chance >> 33;
}

static inline void list_add(struct ptah_call_figures *to, const struct ptah_call_figures *figures)
{
	to->instructions += figures->instructions;
	to->cycles += figures->cycles;
	to->time += figures->time;
}

struct list_making {
	struct call_list *list;
	struct ptah_call_figures now;
	uint64_t tsc, first_tsc, chance;
	size_t stack[LIST_DEEPEST]; /* calls that are open */
	unsigned depth;
};

static inline struct ptah_call_mark *list_mark(struct list_making *m)
{
	struct ptah_call_mark *mark = &m->list->marks[m->list->mark_count++];

	memset(mark, 0, sizeof(*mark));
	mark->thread.instructions = m->now.instructions;
	mark->thread.cycles = m->now.cycles;
	mark->thread.ticks = m->now.time;
	mark->tsc = m->tsc;
	return mark;
}

static inline void list_begin(struct list_making *m, uint64_t function)
{
	struct listed_call *c = &m->list->calls[m->list->count];
	struct ptah_call_mark *mark = list_mark(m);

	memset(c, 0, sizeof(*c));
	if (m->depth)
		memcpy(c->path, m->list->calls[m->stack[m->depth - 1]].path, sizeof(c->path));
	c->path[m->depth] = function;
	c->caller = m->depth ? m->stack[m->depth - 1] : SIZE_MAX;
	c->begin = m->now;
	c->began = list_random(&m->chance) % 16 != 0;
	c->partial = !c->began;
	c->untimed = !m->tsc;
	c->uncycled = !m->now.cycles;
	mark->function = function;
	mark->how = c->began ? PTAH_CALL_CALLED : PTAH_CALL_RUNNING;
	mark->flags = c->began ? 0 : PTAH_CALL_NO_BEGIN;
	m->stack[m->depth++] = m->list->count++;
	c->depth = m->depth;
}

static inline void list_end(struct list_making *m)
{
	struct listed_call *c = &m->list->calls[m->stack[--m->depth]];
	struct ptah_call_mark *mark = list_mark(m);
	struct listed_call *caller = m->depth ? &m->list->calls[m->stack[m->depth - 1]] : NULL;

	mark->end = 1;
	mark->flags = c->began ? 0 : PTAH_CALL_NO_BEGIN;
	if (list_random(&m->chance) % 16 == 0)
		mark->flags |= list_random(&m->chance) & 1 ? PTAH_CALL_NO_END : PTAH_CALL_HAS_LOSS;
	c->partial |= (mark->flags & LIST_PARTIAL) != 0;
	c->inclusive = (struct ptah_call_figures){m->now.instructions - c->begin.instructions,
						  m->now.cycles - c->begin.cycles,
						  m->now.time - c->begin.time};
	/* Self has had what callees ran taken away: unsigned sums may pass through less than 0. */
	list_add(&c->self, &c->inclusive);
	if (caller) {
		caller->self.instructions -= c->inclusive.instructions;
		caller->self.cycles -= c->inclusive.cycles;
		caller->self.time -= c->inclusive.time;
	} else {
		list_add(&m->list->total, &c->inclusive);
	}
}

static inline void list_step(struct list_making *m, const struct list_shape *shape)
{
	m->now.instructions += list_random(&m->chance) % 50;
	if (shape->cycles && m->list->mark_count > shape->calls / 4)
		m->now.cycles += 1 + list_random(&m->chance) % 40;
	if (!shape->times || m->list->mark_count < shape->calls / 3)
		return;
	m->tsc += m->tsc ? list_random(&m->chance) % 3000 : 1000000;
	if (!m->first_tsc)
		m->first_tsc = m->tsc;
	m->now.time = m->tsc - m->first_tsc;
}

/* Functions are 0x1000, 0x1001, ... One thread. */
static inline struct call_list *list_new(const struct list_shape *shape)
{
	struct call_list *list = calloc(1, sizeof(*list));
	struct list_making m = {.list = list, .chance = shape->seed};

	list->calls = calloc(shape->calls, sizeof(*list->calls));
	list->marks = calloc(2 * (size_t)shape->calls, sizeof(*list->marks));
	while (list->count < shape->calls || m.depth) {
		if (m.depth)
			list_step(&m, shape);
		if (list->count == shape->calls || m.depth == shape->deepest ||
		    (m.depth && list_random(&m.chance) % 2))
			list_end(&m);
		else
			list_begin(&m, 0x1000 + list_random(&m.chance) % shape->functions);
	}
	return list;
}

static inline void list_free(struct call_list *list)
{
	free(list->calls);
	free(list->marks);
	free(list);
}

/* The calls of both, without marks. */
static inline struct call_list *list_join(const struct call_list *a, const struct call_list *b)
{
	struct call_list *list = calloc(1, sizeof(*list));

	list->count = a->count + b->count;
	list->calls = calloc(list->count, sizeof(*list->calls));
	memcpy(list->calls, a->calls, a->count * sizeof(*a->calls));
	memcpy(list->calls + a->count, b->calls, b->count * sizeof(*b->calls));
	for (size_t i = a->count; i < list->count; i++)
		if (list->calls[i].caller != SIZE_MAX)
			list->calls[i].caller += a->count;
	list->total = a->total;
	list_add(&list->total, &b->total);
	return list;
}

/* Sums over the list */

static inline uint64_t list_function(const struct listed_call *c)
{
	return c->path[c->depth - 1];
}

static inline bool list_outermost(const struct listed_call *c)
{
	for (unsigned i = 0; i + 1 < c->depth; i++)
		if (c->path[i] == list_function(c))
			return false;
	return true;
}

struct list_sum {
	uint64_t count, partial;
	struct ptah_call_figures inclusive, self;
};

static inline void list_count(struct list_sum *sum, const struct listed_call *c, bool outermost)
{
	sum->count += c->began;
	sum->partial += c->partial;
	list_add(&sum->self, &c->self);
	if (outermost)
		list_add(&sum->inclusive, &c->inclusive);
}

/* Of a path, a function, a pair (caller 0: none). */
static inline void list_sum_path(const struct call_list *list, const uint64_t *path, unsigned depth,
				 struct list_sum *sum)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->calls[i].depth == depth &&
		    !memcmp(list->calls[i].path, path, depth * sizeof(*path)))
			list_count(sum, &list->calls[i], true);
}

static inline void list_sum_function(const struct call_list *list, uint64_t function,
				     struct list_sum *sum)
{
	for (size_t i = 0; i < list->count; i++)
		if (list_function(&list->calls[i]) == function)
			list_count(sum, &list->calls[i], list_outermost(&list->calls[i]));
}

static inline void list_sum_pair(const struct call_list *list, uint64_t caller, uint64_t callee,
				 struct list_sum *sum)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct listed_call *c = &list->calls[i];

		if (list_function(c) == callee &&
		    (c->depth > 1 ? c->path[c->depth - 2] : 0) == caller)
			list_count(sum, c, list_outermost(c));
	}
}

/* The values that a histogram of the function has, in `values`. Returns how many. */
static inline size_t list_values(const struct call_list *list, uint64_t function,
				 enum ptah_call_value value, uint64_t *values)
{
	size_t n = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct listed_call *c = &list->calls[i];
		const struct ptah_call_figures *f = &c->inclusive;

		if (c->partial || list_function(c) != function ||
		    (value == PTAH_CALL_VALUE_TIME && c->untimed) ||
		    (value == PTAH_CALL_VALUE_CYCLES && c->uncycled))
			continue;
		values[n++] = value == PTAH_CALL_VALUE_TIME	? f->time
			      : value == PTAH_CALL_VALUE_CYCLES ? f->cycles
								: f->instructions;
	}
	return n;
}

#endif
