/* SPDX-License-Identifier: MIT */
/* The units of a process: found by their heads, and by addresses in the cache. */
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/units.h"

#define PAGE 4096u

static uint32_t bucket_of(uint64_t head)
{
	return (uint32_t)(head * UINT64_C(0x9e3779b97f4a7c15) >> 48) % CACHE_BUCKETS;
}

static struct cache *cache_of(struct context *c)
{
	struct runtime *rt = c->runtime;

	if (!rt->cache)
		rt->cache = memory_take(rt, sizeof(*rt->cache));
	return rt->cache;
}

/* Reading code */

/* The kernel reads the mask before it looks at the first argument, which is wrong. */
static bool is_readable(uint64_t address)
{
	return sys_call(__NR_rt_sigprocmask, UINT64_MAX, address, 0, 8, 0, 0) == -22; /* EINVAL */
}

size_t cache_readable(struct context *c, uint64_t address, size_t n)
{
	struct cache *cache = c->runtime->cache;
	size_t readable = 0;

	while (readable < n) {
		const uint64_t at = address + readable, page = at & ~(uint64_t)(PAGE - 1);

		/* No code lies in the page 0, so that 0 is none. */
		if (cache->readable != page && !is_readable(page))
			break;
		cache->readable = page;
		readable += page + PAGE - at;
	}
	return readable < n ? readable : n;
}

/* Areas */

static bool is_near(const struct area *a, uint64_t address)
{
	const uint64_t start = (uintptr_t)a->start;

	return (start > address ? start - address : address - start) < CACHE_REACH;
}

struct area *cache_area(struct context *c, uint64_t head)
{
	struct cache *cache = c->runtime->cache;
	struct area *a;

	for (uint32_t i = 0; i < cache->area_count; i++) {
		a = &cache->areas[i];
		if (is_near(a, head) && (size_t)(a->end - a->at) >= UNIT_ROOM &&
		    a->mark_count < a->mark_room)
			return a;
	}
	if (cache->area_count == CACHE_AREAS)
		return NULL;
	a = &cache->areas[cache->area_count];
	a->mark_room = CACHE_AREA / 64;
	a->start = memory_code(c->runtime, head, CACHE_AREA);
	a->marks = memory_take(c->runtime, a->mark_room * sizeof(*a->marks));
	if (!a->start || !a->marks)
		return NULL;
	a->at = a->start;
	a->end = a->start + CACHE_AREA;
	cache->area_count++;
	return a;
}

void cache_mark(struct area *area, const uint8_t *start, struct unit *unit)
{
	area->marks[area->mark_count++] = (struct mark){start, unit};
}

/* Units */

static struct unit *look_up(const struct cache *cache, uint64_t head)
{
	struct unit *u = cache->buckets[bucket_of(head)];

	while (u && (u->head != head || u->dead))
		u = u->next;
	return u;
}

struct unit *cache_unit(struct context *c, uint64_t head)
{
	struct cache *cache = cache_of(c);
	struct unit *u = cache ? look_up(cache, head) : NULL;
	struct area *area;

	if (u || !cache)
		return u;
	area = cache_area(c, head);
	u = area ? memory_take(c->runtime, sizeof(*u)) : NULL;
	if (!u)
		return NULL;
	u->head = head;
	if (!block_make(c, u, area))
		return NULL;
	u->next = cache->buckets[bucket_of(head)];
	cache->buckets[bucket_of(head)] = u;
	return u;
}

uint64_t unit_enter(struct context *c, uint64_t head)
{
	const struct unit *u = cache_unit(c, head);

	return u ? (uintptr_t)u->code : 0;
}

struct unit *cache_find(const struct runtime *rt, uint64_t address)
{
	const struct cache *cache = rt->cache;

	for (uint32_t i = 0; cache && i < cache->area_count; i++) {
		const struct area *a = &cache->areas[i];
		uint32_t low = 0, high = a->mark_count;

		if (address < (uintptr_t)a->start || address >= (uintptr_t)a->at)
			continue;
		/* The last mark at or before the address. */
		while (high - low > 1) {
			const uint32_t middle = low + (high - low) / 2;

			if ((uintptr_t)a->marks[middle].start <= address)
				low = middle;
			else
				high = middle;
		}
		return a->mark_count ? a->marks[low].unit : NULL;
	}
	return NULL;
}

bool unit_is_code(const struct runtime *rt, uint64_t address)
{
	if (address >= (uintptr_t)gate_restart && address < (uintptr_t)gate_resume_end)
		return true;
	return cache_find(rt, address) != NULL;
}

/* Links */

void cache_link(struct exit *exit, struct unit *to)
{
	if (!emit_link(exit->jump, (uintptr_t)to->code))
		return; /* it goes on coming to the gate */
	exit->next_incoming = to->incoming;
	to->incoming = exit;
}

static void unlink_incoming(struct unit *u)
{
	for (struct exit *e = u->incoming; e; e = e->next_incoming)
		emit_link(e->jump, (uintptr_t)e->stub);
	u->incoming = NULL;
}

/* No branch leads to what is forgotten. Who is in it goes on to its exit. */
void unit_forget(struct context *c, uint64_t start, uint64_t end)
{
	struct cache *cache = c->runtime->cache;
	uint64_t *table = (uint64_t *)((uint8_t *)c + CONTEXT_INDIRECT);

	if (!cache)
		return;
	cache->readable = 0;
	for (uint32_t b = 0; b < CACHE_BUCKETS; b++)
		for (struct unit *u = cache->buckets[b]; u; u = u->next) {
			if (u->dead || u->head >= end || u->end <= start)
				continue;
			u->dead = true;
			unlink_incoming(u);
			if (u->prologue && table[u->head & 0xffff] == (uintptr_t)u->prologue)
				table[u->head & 0xffff] = (uintptr_t)gate_miss;
		}
}
