/* SPDX-License-Identifier: MIT */
/* Makes levels of detail as calls come in, and reads them. */
#include "view/levels.h"

#include "base/compiler.h"
#include "base/order.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

unsigned level_of(uint64_t unit)
{
	unsigned k = 0;

	while (k + 1 < LEVELS && level_unit(k + 1) <= unit)
		k++;
	return k;
}

void levels_init(struct levels *l, unsigned first)
{
	memset(l, 0, sizeof(*l));
	l->first = l->last = first;
}

static void free_level(struct levels *l, struct level *level)
{
	for (size_t i = 0; i < level->depth; i++) {
		l->bytes -= level->rows[i].capacity * sizeof(struct bar);
		free(level->rows[i].bars);
	}
	l->bytes -= level->depth * sizeof(*level->rows);
	free(level->rows);
	*level = (struct level){0};
}

void levels_fini(struct levels *l)
{
	for (unsigned k = 0; k < LEVELS; k++)
		free_level(l, &l->level[k]);
}

static NOINLINE bool grow_depth(struct levels *l, struct level *level, size_t depth)
{
	size_t more = level->depth ? 2 * level->depth : 16;
	struct level_row *rows;

	while (more <= depth)
		more *= 2;
	rows = reallocarray(level->rows, more, sizeof(*rows));
	if (!rows)
		return false;
	memset(rows + level->depth, 0, (more - level->depth) * sizeof(*rows));
	l->bytes += (more - level->depth) * sizeof(*rows);
	level->rows = rows;
	level->depth = more;
	return true;
}

static NOINLINE bool grow_row(struct levels *l, struct level_row *row)
{
	const size_t more = row->capacity ? row->capacity + row->capacity / 2 + 1 : 4;
	struct bar *bars = reallocarray(row->bars, more, sizeof(*bars));

	if (!bars)
		return false;
	l->bytes += (more - row->capacity) * sizeof(*bars);
	row->bars = bars;
	row->capacity = more;
	return true;
}

static int add_level_bar(struct levels *l, unsigned k, size_t depth, const struct bar *bar);

/* A bar of level k is complete. */
static int append_level_bar(struct levels *l, unsigned k, size_t depth, const struct bar *bar)
{
	struct level_row *row = &l->level[k].rows[depth];

	if (row->count == row->capacity && !grow_row(l, row))
		return PTAH_E_NOMEM;
	row->bars[row->count++] = *bar;
	return k == l->last ? 0 : add_level_bar(l, k + 1, depth, bar);
}

static int flush(struct levels *l, unsigned k, size_t depth)
{
	struct level_row *row = &l->level[k].rows[depth];
	const struct bar bar = row->pending;

	row->pending.calls = 0;
	return bar.calls ? append_level_bar(l, k, depth, &bar) : 0;
}

static ALWAYS_INLINE void merge_bars(struct bar *to, const struct bar *bar)
{
	const uint32_t room = UINT32_MAX - to->calls;

	to->end = bar->end;
	to->calls += bar->calls < room ? bar->calls : room;
	if (bar->longest > to->longest) {
		to->longest = bar->longest;
		to->function = bar->function;
	}
	/* What is true of one call is not true of all of them, but for this. */
	to->flags = BAR_MERGED | ((to->flags | bar->flags) & BAR_LOSS);
}

static int add_level_bar(struct levels *l, unsigned k, size_t depth, const struct bar *bar)
{
	const unsigned shift = 2 * k;
	struct level *level = &l->level[k];
	struct bar *pending;
	int status;

	if (UNLIKELY(depth >= level->depth) && !grow_depth(l, level, depth))
		return PTAH_E_NOMEM;
	pending = &level->rows[depth].pending;
	/* The length of a bar of several calls is not that of any. */
	if (bar->longest >> shift) {
		status = flush(l, k, depth);
		return status < 0 ? status : append_level_bar(l, k, depth, bar);
	}
	if (LIKELY(pending->calls && pending->begin >> shift == bar->begin >> shift)) {
		merge_bars(pending, bar);
		return 0;
	}
	status = flush(l, k, depth);
	/* The rows have not moved: only later levels got more. */
	*pending = *bar;
	return status;
}

/* Makes one more level, from the last one. */
static NOINLINE int add_level(struct levels *l)
{
	const struct level *from = &l->level[l->last];
	int status = 0;

	l->last++;
	for (size_t i = 0; i < from->depth && status >= 0; i++)
		for (size_t n = 0; n < from->rows[i].count && status >= 0; n++)
			status = add_level_bar(l, l->last, i, &from->rows[i].bars[n]);
	return status;
}

int levels_add(struct levels *l, size_t depth, const struct bar *bar)
{
	const int status = add_level_bar(l, l->first, depth, bar);

	/* The next level would have more than 64 units. */
	if (LIKELY(status < 0 || l->alone || l->last + 1 == LEVELS ||
		   !(bar->end >> (2 * (l->last + 1) + 6))))
		return status;
	return add_level(l);
}

int levels_finish(struct levels *l)
{
	int status = 0;

	for (unsigned k = l->first; k <= l->last && !l->alone; k++)
		for (size_t i = 0; i < l->level[k].depth && status >= 0; i++)
			status = flush(l, k, i);
	return status;
}

bool levels_drop(struct levels *l)
{
	struct level *level = &l->level[l->first];

	if (l->alone || l->first + 1 == LEVELS)
		return false;
	/* Where the last level alone is too large, one with a larger unit takes its place. */
	if (l->first == l->last && add_level(l) < 0)
		return false;
	for (size_t i = 0; i < level->depth; i++)
		if (flush(l, l->first, i) < 0)
			return false;
	free_level(l, level);
	l->first++;
	return true;
}

uint64_t levels_first_bytes(const struct levels *l)
{
	const struct level *level = &l->level[l->first];
	uint64_t bytes = level->depth * sizeof(*level->rows);

	if (l->alone || l->first + 1 == LEVELS)
		return 0;
	for (size_t i = 0; i < level->depth; i++)
		bytes += level->rows[i].capacity * sizeof(struct bar);
	return bytes;
}

/* The first bar of a row that begins after `at`. */
static size_t after(const struct level_row *row, uint64_t at)
{
	size_t low;

	BISECT(low, 0, row->count, row->bars[low].begin <= at);
	return low;
}

bool levels_find(const struct levels *l, size_t depth, uint64_t begin, struct bar *bar)
{
	const struct level *level = &l->level[l->first];
	const struct level_row *row = depth < level->depth ? &level->rows[depth] : NULL;
	const size_t i = row ? after(row, begin) : 0;

	if (!i || row->bars[i - 1].begin != begin || row->bars[i - 1].calls != 1)
		return false;
	*bar = row->bars[i - 1];
	return true;
}

uint64_t levels_count(const struct levels *l, unsigned k)
{
	const struct level *level = &l->level[k];
	uint64_t count = 0;

	for (size_t i = 0; i < level->depth; i++)
		count += level->rows[i].count + (level->rows[i].pending.calls != 0);
	return count;
}

static bool touches(const struct bar *bar, uint64_t from, uint64_t to)
{
	return bar->begin < to && (bar->end > from || (bar->begin == from && bar->end == from));
}

int levels_read(const struct levels *l, unsigned k, size_t depth, uint64_t from, uint64_t to,
		int (*take)(void *context, size_t depth, const struct bar *bar), void *context)
{
	const struct level *level = &l->level[k];
	const struct level_row *row = depth < level->depth ? &level->rows[depth] : NULL;
	int status = 0;
	size_t i;

	if (!row)
		return 0;
	/* Bars do not overlap, so that one that begins before `from` and ends after it is the last.
	 */
	i = after(row, from);
	while (i && row->bars[i - 1].end >= from)
		i--;
	for (; i < row->count && row->bars[i].begin < to && !status; i++)
		if (touches(&row->bars[i], from, to))
			status = take(context, depth, &row->bars[i]);
	if (!status && row->pending.calls && touches(&row->pending, from, to))
		status = take(context, depth, &row->pending);
	return status;
}
