/* SPDX-License-Identifier: MIT */
/* Creates, grows and empties the tables of paths. Full tables and changes of code empty them. */
#include "flow/path_tables.h"

#include "flow/large_table.h"

#include <stdlib.h>

/*
 * A node becomes a place when execution has reached it this often: a row costs more than going from
 * node to node a few times, and a short trace never earns that back. Where there are many places
 * already, the trace is long, and fewer visits do. In builds for tests and fuzzers places are made
 * early.
 */
#if defined(PTAH_COMPARE) || defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
#define PROMOTE_FIRST 3
#else
#define PROMOTE_FIRST 16
#endif
#define PROMOTE	    3
#define MANY_PLACES 1024

#define FIRST_PLACES 64
#define FIRST_WORDS  4096
#define LINE_WORDS   (64 / sizeof(uint64_t))

/* The size in bytes of so many words. */
static size_t words_size(size_t capacity)
{
	return (capacity + SLACK_WORDS) * sizeof(uint64_t);
}

static size_t rows_size(size_t capacity)
{
	return capacity * STRIDE * sizeof(union entry);
}

struct flow_paths *flow_paths_new(struct flow_arena *arena)
{
	struct flow_paths *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->arena = arena;
	s->words = flow_table_new(arena, words_size(FIRST_WORDS));
	if (!s->words) {
		free(s);
		return NULL;
	}
	s->word_capacity = FIRST_WORDS;
	s->place_count = 1;
	s->word_count = FIRST_WORD;
	return s;
}

void flow_paths_free(struct flow_paths *s)
{
	if (!s)
		return;
	flow_table_free(s->arena, s->rows, rows_size(s->place_capacity));
	flow_table_free(s->arena, s->words, words_size(s->word_capacity));
	free(s);
}

void paths_forget_sites(struct ptah_flow *f)
{
	for (unsigned i = 0; i < STACK_SIZE; i++)
		f->stack[i].place = 0;
	f->paths->mode = f->mode;
}

void flow_paths_forget(struct ptah_flow *f)
{
	struct flow_paths *s = f->paths;

	if (!s || s->place_count == 1)
		return;
	code_forget_places(&f->code);
	paths_forget_sites(f);
	s->place_count = 1;
	s->word_count = FIRST_WORD;
	s->full = false;
	memset(s->targets, 0, sizeof(s->targets));
	memset(s->transitions, 0, sizeof(s->transitions));
}

static bool grow_places(struct flow_paths *s)
{
	size_t capacity = s->place_capacity ? 2 * s->place_capacity : FIRST_PLACES;
	union entry *rows;

	if (s->place_count >= MAX_PLACES)
		return false;
	rows = flow_table_grow(s->arena, s->rows, rows_size(s->place_capacity),
			       rows_size(s->place_count), rows_size(capacity));
	if (!rows)
		return false;
	if (!s->rows) /* the row of PLACE_OFF stays empty */
		memset(rows, 0, STRIDE * sizeof(*rows));
	s->rows = rows;
	s->place_capacity = capacity;
	return true;
}

uint32_t paths_make_place(struct flow_paths *s, struct code_node *node)
{
	uint32_t place;

	if (s->full || (s->place_count >= s->place_capacity && !grow_places(s))) {
		s->full = true;
		return 0;
	}
	place = (uint32_t)(s->place_count++ * STRIDE);
	memset(&s->rows[place], 0, STRIDE * sizeof(*s->rows));
	s->rows[place + 1].node = node;
	*code_place(node) = place;
	return place;
}

NOINLINE uint32_t paths_count_visit(struct flow_paths *s, struct code_node *node, uint32_t *known)
{
	const uint32_t often = s->place_count < MANY_PLACES ? PROMOTE_FIRST : PROMOTE;

	/* Where there is no memory for places, visits go on: their number must not become a
	 * place's. */
	if (*known + 1 >= often)
		return paths_make_place(s, node);
	++*known;
	return 0;
}

uint64_t *paths_new_words(struct flow_paths *s, size_t n)
{
	uint64_t *words;

	n = (n + 1) & ~(size_t)1;
	/* Most paths for spans are as long as a cache line or shorter, and are in one. */
	if (s->spans && n <= LINE_WORDS && s->word_count % LINE_WORDS + n > LINE_WORDS)
		s->word_count += LINE_WORDS - s->word_count % LINE_WORDS;
	while (s->word_count + n > s->word_capacity) {
		const size_t capacity = 2 * s->word_capacity;
		uint64_t *grown = NULL;

		if (capacity <= MAX_WORDS)
			grown = flow_table_grow(s->arena, s->words, words_size(s->word_capacity),
						s->word_count * sizeof(*s->words),
						words_size(capacity));
		if (!grown) {
			s->full = true;
			return NULL;
		}
		s->words = grown;
		s->word_capacity = capacity;
	}
	words = s->words + s->word_count;
	memset(words, 0, n * sizeof(*words));
	s->word_count += n;
	return words;
}

NOINLINE uint32_t paths_find_return(struct ptah_flow *f, const struct return_site *site)
{
	struct code_node *call = site->call;
	int status;

	f->ip = site->ip;
	f->node = NULL;
	if (!call || code_mode(call) != f->mode)
		return 0;
	if (!code_next(call, 0))
		call->next[0] = code_find(&f->code, call->end, f->mode, &status);
	f->node = call->next[0];
	return f->node ? paths_place_of(f->paths, f->node) : 0;
}

NOINLINE uint32_t paths_find_target(struct ptah_flow *f, uint64_t ip, uint32_t context)
{
	int status;
	struct code_node *node = code_find(&f->code, ip, f->mode, &status);
	uint32_t place;

	f->ip = ip;
	f->node = node;
	place = node ? paths_place_of(f->paths, node) : 0;
	if (place)
		f->paths->targets[paths_slot(ip)] = (struct target){ip, context, place};
	return place;
}

uint32_t paths_enter(struct ptah_flow *f, bool spans)
{
	int status;

	if (UNLIKELY(!f->paths)) {
		f->paths = flow_paths_new(&f->arena);
		f->no_paths = !f->paths;
		if (f->no_paths)
			return 0;
	}
	if (UNLIKELY(f->paths->full || f->paths->spans != spans)) {
		flow_paths_forget(f);
		f->paths->spans = spans;
	}
	if (UNLIKELY(f->paths->mode != f->mode))
		paths_forget_sites(f);
	if (UNLIKELY(!f->node))
		f->node = code_find(&f->code, f->ip, f->mode, &status);
	if (UNLIKELY(!f->node))
		return 0;
	/*
	 * In the middle of a packet's outcomes the flow makes no new place, but uses one that
	 * exists.
	 */
	if (f->tnt_count)
		return *code_place(f->node) >= STRIDE ? *code_place(f->node) : 0;
	return paths_place_of(f->paths, f->node);
}
