/* SPDX-License-Identifier: MIT */
/* Where the address filters are: see filter.h. */
#include "record/native/runtime/filter.h"

#include "record/native/runtime/proc_maps.h"
#include "record/native/runtime/sys.h"

#include <ptah/engine/trace_config.h>

#include <linux/mman.h>

#define RANGES NATIVE_LIMIT(32u, 4u) /* of all files, each of which may be mapped in pieces */

/* Both ends belong to it. */
struct range {
	uint64_t first, last;
	bool stops;
};

struct ranges {
	uint32_t count;
	struct range list[RANGES];
};

struct filters {
	/* Replaced by a new one where it changes: threads look at it without a lock. */
	const struct ranges *now;
	bool has_filters, has_stops, has_files;
	uint32_t count;
	struct native_filter list[NATIVE_FILTERS];
	char path[NATIVE_FILTER_PATH];
	uint8_t buffer[PROC_MAPS_BUFFER];
};

static uint64_t last_of(const struct native_filter *f)
{
	return f->size - 1 > UINT64_MAX - f->start ? UINT64_MAX : f->start + (f->size - 1);
}

/* False: there is no room. */
static bool add_range(struct ranges *r, bool stops, uint64_t first, uint64_t last)
{
	struct range *before = r->count ? &r->list[r->count - 1] : NULL;

	if (before && before->stops == stops && first == before->last + 1)
		before->last = last;
	else if (r->count == RANGES)
		return false;
	else
		r->list[r->count++] = (struct range){first, last, stops};
	return true;
}

static bool is_same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* The part of an executable mapping that a filter of its file has. False: there is no room. */
static bool add_mapping(struct ranges *r, const struct native_filter *f,
			const struct native_mapping *m)
{
	uint64_t low = m->offset, high = m->offset + (m->end - m->start) - 1;

	if (low < f->start)
		low = f->start;
	if (high > last_of(f))
		high = last_of(f);
	return low > high || add_range(r, f->mode == PTAH_RANGE_STOP, m->start + (low - m->offset),
				       m->start + (high - m->offset));
}

/*
 * False: the list of mappings cannot be read, and the ranges stay as they are, or there is no room.
 */
static bool add_files(const struct runtime *rt, struct filters *f, struct ranges *r)
{
	struct proc_maps in;
	struct native_mapping m;
	bool fits = true;

	if (!f->has_files)
		return true;
	if (!proc_maps_open(rt, &in, f->buffer)) {
		/* A filter of system calls denies it, or there are no descriptors left. */
		if (f->now)
			*r = *f->now;
		return false;
	}
	in.path = f->path;
	in.path_room = sizeof(f->path);
	while (proc_maps_next(&in, &m))
		for (uint32_t i = 0; m.protection & PROT_EXEC && i < f->count; i++)
			if (*f->list[i].path && is_same_text(f->list[i].path, f->path))
				fits &= add_mapping(r, &f->list[i], &m);
	proc_maps_close(&in);
	return fits;
}

static bool is_same(const struct ranges *a, const struct ranges *b)
{
	if (!a || a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (a->list[i].first != b->list[i].first || a->list[i].last != b->list[i].last ||
		    a->list[i].stops != b->list[i].stops)
			return false;
	return true;
}

/* *changed: ranges are elsewhere now. False: some could not be found. */
static bool find_ranges(struct runtime *rt, bool *changed)
{
	struct filters *f = rt->filters;
	struct ranges found = {0}, *fresh;
	bool complete;

	*changed = false;
	for (uint32_t i = 0; i < f->count; i++)
		if (!*f->list[i].path)
			add_range(&found, f->list[i].mode == PTAH_RANGE_STOP, f->list[i].start,
				  last_of(&f->list[i]));
	complete = add_files(rt, f, &found);
	if (is_same(f->now, &found))
		return complete;
	fresh = memory_take(rt, sizeof(*fresh));
	if (!fresh)
		return false;
	*fresh = found;
	__atomic_store_n(&f->now, fresh, __ATOMIC_RELEASE);
	*changed = true;
	return complete;
}

bool filter_begin(struct runtime *rt, const struct native_header *constants)
{
	const uint32_t count = constants->filter_count;
	struct filters *f;
	bool changed;

	if (!count)
		return true;
	f = memory_take(rt, sizeof(*f));
	if (!f)
		return false;
	f->count = count;
	for (uint32_t i = 0; i < count; i++) {
		f->list[i] = constants->filters[i];
		f->has_filters |= f->list[i].mode == PTAH_RANGE_FILTER;
		f->has_stops |= f->list[i].mode == PTAH_RANGE_STOP;
		f->has_files |= *f->list[i].path != 0;
	}
	rt->filters = f;
	find_ranges(rt, &changed);
	return f->now;
}

void filter_update(struct context *c)
{
	bool changed;

	if (!c->runtime->filters)
		return;
	if (!find_ranges(c->runtime, &changed))
		message_text(c, NATIVE_MESSAGE_NOTE, 0,
			     "an address filter could not be moved to where its code is");
	/* Units know which of their branches lead into a range. */
	if (changed)
		unit_forget(c, 0, UINT64_MAX);
}

static bool is_in(const struct runtime *rt, uint64_t ip, bool stops)
{
	const struct ranges *r = __atomic_load_n(&rt->filters->now, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < r->count; i++)
		if (r->list[i].stops == stops && ip >= r->list[i].first && ip <= r->list[i].last)
			return true;
	return false;
}

bool filter_ends(const struct runtime *rt, uint64_t ip)
{
	return rt->filters->has_stops && is_in(rt, ip, true);
}

bool filter_has(const struct runtime *rt, uint64_t ip)
{
	return (!rt->filters->has_filters || is_in(rt, ip, false)) && !filter_ends(rt, ip);
}

bool filter_has_stops(const struct runtime *rt)
{
	return rt->filters && rt->filters->has_stops;
}
