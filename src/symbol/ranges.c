/* SPDX-License-Identifier: MIT */
/* Sorts, flattens and merges address ranges with names (ranges.h). */
#include "symbol/ranges.h"

#include "base/order.h"
#include "base/text.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

void symbol_ranges_free(struct symbol_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct symbol_ranges){0};
}

void symbol_ranges_add(struct symbol_ranges *ranges, struct symbol_range range)
{
	if (range.start >= range.end || ranges->failed)
		return;
	if (ranges->count < SYMBOL_RANGES_MAX &&
	    LIST_ROOM(ranges->items, ranges->count, ranges->room))
		ranges->items[ranges->count++] = range;
	else
		ranges->failed = true;
}

/* A new list that will have about so many ranges. */
static struct symbol_ranges new_ranges(size_t count)
{
	struct symbol_ranges ranges = {0};

	if (count && count <= SYMBOL_RANGES_MAX)
		ranges.failed = !LIST_ROOM_FOR(ranges.items, ranges.count, count, ranges.room);
	return ranges;
}

/* Of several names of one function, "open" is better than "__open", and that than "__GI___open". */
static size_t underscores(const char *name)
{
	return strspn(name, "_");
}

/* Negative when a is the better name for an address that has both. */
static int compare_worth(const struct symbol_range *a, const struct symbol_range *b,
			 const char *names)
{
	size_t ua, ub, na, nb;

	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->name == SYMBOL_NO_NAME || b->name == SYMBOL_NO_NAME)
		return a->end == b->end ? 0 : a->end > b->end ? -1 : 1;
	ua = underscores(names + a->name);
	ub = underscores(names + b->name);
	if (ua != ub)
		return ua < ub ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	na = strlen(names + a->name);
	nb = strlen(names + b->name);
	return COMPARE_THEN(na, nb, strcmp(names + a->name, names + b->name));
}

static int compare(const void *pa, const void *pb, void *names)
{
	const struct symbol_range *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return compare_worth(a, b, names);
}

void symbol_ranges_sort(struct symbol_ranges *ranges, const struct symbol_names *names)
{
	size_t kept = 0;

	if (names->failed) /* names that found no room are not there; the file is given up */
		ranges->count = 0;
	if (!ranges->count)
		return;
	qsort_r(ranges->items, ranges->count, sizeof(*ranges->items), compare, names->bytes);
	for (size_t i = 0; i < ranges->count; i++)
		if (!i || ranges->items[i].start != ranges->items[kept - 1].start)
			ranges->items[kept++] = ranges->items[i];
	ranges->count = kept;
}

/* How many ranges of a sorted list start at or below `address`. */
static size_t count_from(const struct symbol_ranges *ranges, uint64_t address)
{
	size_t at;

	BISECT(at, 0, ranges->count, ranges->items[at].start <= address);
	return at;
}

uint64_t symbol_ranges_next(const struct symbol_ranges *sorted, uint64_t address, uint64_t limit)
{
	size_t i = count_from(sorted, address);

	return i < sorted->count && sorted->items[i].start < limit ? sorted->items[i].start : limit;
}

static void add_range_piece(struct symbol_ranges *ranges, const struct symbol_range *of,
			    uint64_t start, uint64_t end)
{
	struct symbol_range piece = *of;

	piece.start = start;
	piece.end = end;
	symbol_ranges_add(ranges, piece);
}

/* Goes through the addresses upward, with a stack of the ranges that have begun and not ended; the
 * last one to begin is on top. */
void symbol_ranges_flatten(struct symbol_ranges *sorted)
{
	struct symbol_ranges flat = new_ranges(sorted->count);
	size_t *open = reallocarray(NULL, sorted->count + 1, sizeof(*open));
	size_t depth = 0;
	uint64_t at = 0;

	for (size_t i = 0; open && i <= sorted->count; i++) {
		uint64_t start = i < sorted->count ? sorted->items[i].start : UINT64_MAX;

		while (depth) {
			const struct symbol_range *top = &sorted->items[open[depth - 1]];

			add_range_piece(&flat, top, at, top->end < start ? top->end : start);
			if (top->end > start)
				break;
			if (top->end > at)
				at = top->end;
			depth--;
		}
		open[depth++] = i;
		at = start;
	}
	flat.failed |= !open || sorted->failed;
	free(open);
	symbol_ranges_free(sorted);
	*sorted = flat;
}

void symbol_ranges_fill(struct symbol_ranges *ranges, const struct symbol_ranges *below)
{
	struct symbol_ranges merged;
	size_t i = 0;

	ranges->failed |= below->failed;
	if (!below->count)
		return;
	merged = new_ranges(ranges->count + below->count);
	for (size_t k = 0; k < below->count; k++) {
		const struct symbol_range *b = &below->items[k];
		uint64_t at = b->start;

		/* A range that extends beyond b stays current for the next one. */
		for (; i < ranges->count && ranges->items[i].start < b->end; i++) {
			const struct symbol_range *r = &ranges->items[i];

			if (r->start > at)
				add_range_piece(&merged, b, at, r->start);
			if (r->end > at)
				at = r->end;
			if (r->end > b->end)
				break;
			symbol_ranges_add(&merged, *r);
		}
		if (at < b->end)
			add_range_piece(&merged, b, at, b->end);
	}
	for (; i < ranges->count; i++)
		symbol_ranges_add(&merged, ranges->items[i]);
	merged.failed |= ranges->failed;
	symbol_ranges_free(ranges);
	*ranges = merged;
}

const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *disjoint,
					      uint64_t address)
{
	size_t i = count_from(disjoint, address);

	return i && address < disjoint->items[i - 1].end ? &disjoint->items[i - 1] : NULL;
}

size_t symbol_names_add(struct symbol_names *names, const char *prefix, const char *suffix)
{
	size_t n = strnlen(prefix, SYMBOL_NAME_MAX), m = strnlen(suffix, SYMBOL_NAME_MAX - n);
	size_t at = names->used;

	if (names->failed)
		return 0;
	if (names->room - names->used <= n + m) {
		size_t room = 2 * names->room + 4096;
		char *bytes = NULL;

		if (room > SYMBOL_NAMES_MAX)
			room = SYMBOL_NAMES_MAX;
		if (room - names->used > n + m)
			bytes = realloc(names->bytes, room);
		if (!bytes) {
			names->failed = true;
			return 0;
		}
		names->bytes = bytes;
		names->room = room;
	}
	memcpy(names->bytes + at, prefix, n);
	memcpy(names->bytes + at + n, suffix, m);
	names->bytes[at + n + m] = '\0';
	/* No compiler writes control characters into names, and a terminal would obey them. */
	text_clean(names->bytes + at);
	names->used += n + m + 1;
	return at;
}
