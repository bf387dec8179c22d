/* SPDX-License-Identifier: MIT */
/*
 * What a file for the browser has: which questions, the most important first. The page that writes
 * the file takes their answers in this order, until the file is large enough.
 */
#include "view/sources.h"
#include "view/trees.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tile of the timeline has so many units, as the page asks for them. */
#define TILE UINT64_C(4096)

/* At most so many tiles and files of source code. */
#define MOST_TILES   20000
#define MOST_SOURCES 100

static const char *const axes[LOG_AXES] = {"time", "instructions"};

/* The list is gone through from its beginning: `left` is how many come before the wanted one. */
struct search {
	struct view_model *model;
	size_t left;
	char *text;
	bool found;
};

/* The next question of the list. True: it is the wanted one. */
static bool is_it(struct search *s)
{
	s->found = !s->left;
	s->left -= !s->found;
	return s->found;
}

#define OFFER(s, ...) (is_it(s) && snprintf((s)->text, VIEW_QUERY_SIZE, __VA_ARGS__))

static bool has_axis(const struct view_model *m, unsigned axis)
{
	return axis == LOG_INSTRUCTIONS || m->has_time;
}

/* How far a thread reaches on an axis. */
static void extent(struct view_thread *t, enum log_axis axis, uint64_t *begin, uint64_t *end)
{
	view_lock_read(&t->lock);
	*begin = t->begin[axis];
	*end = log_on(&t->now, axis);
	view_unlock_read(&t->lock);
}

static uint64_t longest(struct view_model *m, enum log_axis axis)
{
	uint64_t most = 0, begin, end;
	struct view_thread *t;

	for (size_t i = 0; (t = view_thread_get(m, i)); i++) {
		extent(t, axis, &begin, &end);
		most = end > most ? end : most;
	}
	return most;
}

/* The level at which one tile has all. */
static unsigned top_level(uint64_t length)
{
	unsigned k = 0;

	while (k + 1 < LEVELS && TILE * level_unit(k) <= length)
		k++;
	return k;
}

static bool offer_difference(struct search *s, const char *const values[PTAH_CALL_VALUE_MAX],
			     const bool has[PTAH_CALL_VALUE_MAX])
{
	if (!s->model->difference)
		return false;
	for (unsigned v = 0; v < PTAH_CALL_VALUE_MAX; v++)
		if (has[v] && (OFFER(s, "diff/functions?value=%s", values[v]) ||
			       OFFER(s, "diff/flame?direction=down&value=%s", values[v]) ||
			       OFFER(s, "diff/flame?direction=up&value=%s", values[v])))
			return true;
	return OFFER(s, "diff/lines");
}

static bool offer_whole(struct search *s)
{
	static const char *const values[] = {"instructions", "cycles", "time"};
	const bool has[] = {true, s->model->has_cycles, s->model->has_time};

	if (OFFER(s, "info") || OFFER(s, "functions"))
		return true;
	for (unsigned v = 0; v < ARRAY_SIZE(values); v++)
		if (has[v] && (OFFER(s, "flame?direction=down&value=%s", values[v]) ||
			       OFFER(s, "flame?direction=up&value=%s", values[v])))
			return true;
	return offer_difference(s, values, has);
}

/*
 * Whether a level shows more than the next one. Of levels that are finer than those that are kept
 * it is taken to be so if it is of the finest.
 */
static bool shows_more(struct view_thread *t, enum log_axis axis, unsigned k)
{
	const struct levels *l = &t->levels[axis];
	bool more;

	view_lock_read(&t->lock);
	k = k < l->first ? l->first : k;
	more = k + 1 == LEVELS || levels_count(l, k) > levels_count(l, k + 1);
	view_unlock_read(&t->lock);
	return more;
}

/* The tiles of a thread at a level. *tiles counts those of all. */
static bool offer_tiles(struct search *s, size_t number, struct view_thread *t, enum log_axis axis,
			unsigned k, size_t *tiles)
{
	const uint64_t width = TILE * level_unit(k);
	uint64_t begin, end;

	extent(t, axis, &begin, &end);
	for (uint64_t i = begin / width; i * width <= end && *tiles < MOST_TILES; i++, ++*tiles)
		if (OFFER(s,
			  "bars?thread=%zu&axis=%s&from=%" PRIu64 "&to=%" PRIu64 "&unit=%" PRIu64,
			  number, axes[axis], i * width, (i + 1) * width, level_unit(k)))
			return true;
	return false;
}

/* Level by level, so that a file without room for all has a whole picture. */
static bool offer_bars(struct search *s, unsigned from, unsigned to, size_t *tiles)
{
	struct view_thread *t;

	for (unsigned down = from; down < to; down++)
		for (unsigned axis = 0; axis < LOG_AXES; axis++) {
			const unsigned top =
			    has_axis(s->model, axis) ? top_level(longest(s->model, axis)) : 0;

			if (down > top || !has_axis(s->model, axis))
				continue;
			for (size_t i = 0; (t = view_thread_get(s->model, i)); i++)
				if ((!down || shows_more(t, axis, top - down)) &&
				    offer_tiles(s, i, t, axis, top - down, tiles))
					return true;
		}
	return false;
}

static bool offer_events(struct search *s)
{
	for (unsigned axis = 0; axis < LOG_AXES; axis++) {
		const uint64_t length = has_axis(s->model, axis) ? longest(s->model, axis) : 0;

		for (size_t i = 0; has_axis(s->model, axis) && view_thread_get(s->model, i); i++)
			if (OFFER(s,
				  "events?thread=%zu&axis=%s&from=0&to=%" PRIu64 "&unit=%" PRIu64,
				  i, axes[axis], length + 1, level_unit(top_level(length)) / 4 + 1))
				return true;
	}
	return false;
}

/* As fine as they are kept in an answer. */
static bool offer_waits(struct search *s)
{
	const uint64_t length = longest(s->model, LOG_TIME);

	for (size_t i = 0; s->model->waits && view_thread_get(s->model, i); i++)
		if (OFFER(s, "waits?thread=%zu&axis=time&from=0&to=%" PRIu64 "&unit=1", i,
			  2 * length + 1))
			return true;
	return false;
}

static bool offer_turns(struct search *s)
{
	const uint64_t length = longest(s->model, LOG_TIME);
	int32_t cpu;

	for (size_t i = 0; view_cpu_number(s->model, i, &cpu); i++)
		for (unsigned down = 0; down < 3 && down <= top_level(length); down++)
			if (OFFER(s, "turns?cpu=%" PRId32 "&from=0&to=%" PRIu64 "&unit=%" PRIu64,
				  cpu, length + 1, level_unit(top_level(length) - down)))
				return true;
	return false;
}

/* The files of which most instructions ran. */
static bool offer_sources(struct search *s)
{
	struct view_sources *sources = view_model_sources(s->model, VIEW_SHOWN);
	uint32_t file;

	if (OFFER(s, "sources") || OFFER(s, "coverage"))
		return true;
	for (uint32_t i = 0; i < MOST_SOURCES && sources && view_sources_rank(sources, i, &file);
	     i++)
		if (OFFER(s, "source?file=%" PRIu32, file))
			return true;
	return false;
}

static bool offer_functions(struct search *s)
{
	const struct view_trees *t = view_trees_get(s->model);

	for (unsigned n = 0; t && n < t->top_count; n++) {
		const uint32_t id = t->top[n];

		if (OFFER(s, "code?function=%" PRIu32, id) ||
		    OFFER(s, "histogram?function=%" PRIu32 "&value=instructions", id))
			return true;
		if (s->model->has_time && OFFER(s, "histogram?function=%" PRIu32 "&value=time", id))
			return true;
	}
	return false;
}

bool view_model_file_query(struct view_model *m, size_t i, char text[VIEW_QUERY_SIZE])
{
	struct search s = {.model = m, .left = i, .text = text};
	size_t tiles = 0;

	return offer_whole(&s) || offer_bars(&s, 0, 3, &tiles) || offer_events(&s) ||
	       offer_waits(&s) || offer_turns(&s) || offer_sources(&s) || offer_functions(&s) ||
	       offer_bars(&s, 3, LEVELS, &tiles);
}
