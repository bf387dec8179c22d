/* SPDX-License-Identifier: MIT */
/* The units of a process: found by their heads, and by addresses in the cache. */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/units.h"

#include <linux/futex.h>

#define PAGE 4096u

enum lock_state {
	LOCK_FREE = 0,
	LOCK_TAKEN,
	LOCK_WAITED
};

void cache_lock(struct context *c)
{
	uint32_t *lock = &c->runtime->cache_lock, state = LOCK_FREE;

	if (c->cache_holds++)
		return;
	if (__atomic_compare_exchange_n(lock, &state, LOCK_TAKEN, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(lock, LOCK_WAITED, __ATOMIC_ACQUIRE) != LOCK_FREE)
		sys_call(__NR_futex, (uintptr_t)lock, FUTEX_WAIT_PRIVATE, LOCK_WAITED, 0, 0, 0);
}

void cache_unlock(struct context *c)
{
	uint32_t *lock = &c->runtime->cache_lock;

	if (--c->cache_holds)
		return;
	if (__atomic_exchange_n(lock, LOCK_FREE, __ATOMIC_RELEASE) == LOCK_WAITED)
		sys_call(__NR_futex, (uintptr_t)lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static uint32_t bucket_of(uint64_t head)
{
	return (uint32_t)(head * UINT64_C(0x9e3779b97f4a7c15) >> 48) % CACHE_BUCKETS;
}

static struct cache *cache_of(struct context *c)
{
	struct runtime *rt = c->runtime;

	if (!rt->cache)
		__atomic_store_n(&rt->cache, memory_take(rt, sizeof(*rt->cache)), __ATOMIC_RELEASE);
	return rt->cache;
}

/* Reading code */

size_t cache_readable(struct context *c, uint64_t address, size_t n)
{
	struct cache *cache = c->runtime->cache;
	size_t readable = 0;

	while (readable < n) {
		const uint64_t at = address + readable, page = at & ~(uint64_t)(PAGE - 1);

		/* No code lies in the page 0, so that 0 is none. */
		if (cache->readable != page && !changes_watch(c, page))
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
	/* Others look for their units meanwhile: cache_find(). */
	__atomic_store_n(&cache->area_count, cache->area_count + 1, __ATOMIC_RELEASE);
	return a;
}

void cache_mark(struct area *area, const uint8_t *start, struct unit *unit)
{
	area->marks[area->mark_count] = (struct mark){start, unit};
	__atomic_store_n(&area->mark_count, area->mark_count + 1, __ATOMIC_RELEASE);
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
	changes_mark(c, head);
	return u;
}

uint64_t unit_enter(struct context *c, uint64_t head)
{
	const struct unit *u;

	cache_lock(c);
	u = cache_unit(c, head);
	cache_unlock(c);
	return u ? (uintptr_t)u->code : 0;
}

struct unit *cache_find(const struct runtime *rt, uint64_t address)
{
	const struct cache *cache = __atomic_load_n(&rt->cache, __ATOMIC_ACQUIRE);
	const uint32_t areas = cache ? __atomic_load_n(&cache->area_count, __ATOMIC_ACQUIRE) : 0;

	for (uint32_t i = 0; i < areas; i++) {
		const struct area *a = &cache->areas[i];
		uint32_t low = 0, high = __atomic_load_n(&a->mark_count, __ATOMIC_ACQUIRE);

		if (address < (uintptr_t)a->start || address >= (uintptr_t)a->end)
			continue;
		/* The last mark at or before the address. */
		while (high - low > 1) {
			const uint32_t middle = low + (high - low) / 2;

			if ((uintptr_t)a->marks[middle].start <= address)
				low = middle;
			else
				high = middle;
		}
		return high ? a->marks[low].unit : NULL;
	}
	return NULL;
}

bool unit_is_code(const struct runtime *rt, uint64_t address)
{
	if (address >= (uintptr_t)gate_restart && address < (uintptr_t)gate_resume_end)
		return true;
	return cache_find(rt, address) != NULL;
}

bool unit_is_forgotten(const struct runtime *rt, uint64_t address)
{
	const struct unit *u = cache_find(rt, address);

	return u && u->dead;
}

/* Links */

void cache_link(struct exit *exit, struct unit *to)
{
	/* Another thread may have come here by the same exit, and have linked it. */
	if (exit->is_linked || !emit_link(exit->jump, (uintptr_t)to->code))
		return; /* it goes on coming to the gate */
	exit->is_linked = true;
	exit->next_incoming = to->incoming;
	to->incoming = exit;
}

static void unlink_incoming(struct unit *u)
{
	for (struct exit *e = u->incoming; e; e = e->next_incoming) {
		emit_link(e->jump, (uintptr_t)e->stub);
		e->is_linked = false;
	}
	u->incoming = NULL;
}

/* Threads that are running meanwhile look at their tables without the lock. */
static void forget_prologue(struct runtime *rt, const struct unit *u)
{
	for (struct context *c = rt->contexts; u->prologue && c; c = c->next) {
		uint64_t *at = (uint64_t *)((uint8_t *)c + CONTEXT_INDIRECT) + (u->head & 0xffff);

		if (*at == (uintptr_t)u->prologue)
			__atomic_store_n(at, (uintptr_t)gate_miss, __ATOMIC_RELAXED);
	}
}

/*
 * No branch leads to what is forgotten. A thread that is in it goes on to its exit; its memory is
 * not used again.
 */
void unit_forget(struct context *c, uint64_t start, uint64_t end)
{
	struct cache *cache;

	cache_lock(c);
	cache = c->runtime->cache;
	if (cache)
		cache->readable = 0;
	for (uint32_t b = 0; cache && b < CACHE_BUCKETS; b++)
		for (struct unit *u = cache->buckets[b]; u; u = u->next) {
			if (u->dead || u->head >= end || u->end <= start)
				continue;
			u->dead = true;
			unlink_incoming(u);
			forget_prologue(c->runtime, u);
		}
	cache_unlock(c);
}
