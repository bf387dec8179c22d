/* SPDX-License-Identifier: MIT */
/* The units of a process: found by their heads, and by addresses in the cache. */
#include "base/hash.h"
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/units.h"

#include <cpuid.h>
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

/*
 * Code that runs together lies together: so do its buckets, which are in the processor's caches
 * then. Pieces of code that are far away from each other get places that have nothing in common.
 */
static struct unit **bucket_of(const struct cache *cache, uint64_t head)
{
	const uint32_t hash = (uint32_t)((head >> 4) + (head >> 22) * 0x9e3779b1u);

	return &cache->buckets[hash & (cache->bucket_count - 1)];
}

#define GROWTH 8 /* of the table, by this factor */

/* BMI2: CPUID.(EAX=7,ECX=0):EBX[8] */
static bool has_rorx(void)
{
	unsigned a, b = 0, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 8 & 1;
}

static struct cache *cache_of(struct context *c)
{
	struct runtime *rt = c->runtime;
	struct cache *cache = rt->cache;

	if (cache)
		return cache;
	cache = memory_take_first(rt, sizeof(*cache));
	if (!cache)
		return NULL;
	cache->buckets = memory_take(rt, CACHE_BUCKETS * sizeof(*cache->buckets));
	if (!cache->buckets)
		return NULL;
	cache->bucket_count = CACHE_BUCKETS;
	cache->rotates = has_rorx();
	cache->heat = rt->flags & NATIVE_TRUTH ? EXIT_HEAT_CHECKED : EXIT_HEAT;
	__atomic_store_n(&rt->cache, cache, __ATOMIC_RELEASE);
	return cache;
}

/* Pages */

static uint32_t bit_of(uint64_t page)
{
	return (uint32_t)(hash_number(page) >> (64 - CACHE_PAGE_BITS));
}

static struct page_unit **list_of(struct cache *cache, uint64_t page)
{
	return &cache->page_units[bit_of(page) % CACHE_PAGE_LISTS];
}

/* False: there is no memory. */
static bool note_page(struct context *c, struct unit *u, uint64_t page)
{
	struct cache *cache = c->runtime->cache;
	struct page_unit **list = list_of(cache, page), *p = cache->unused;
	const uint32_t bit = bit_of(page);

	if (p)
		cache->unused = p->next;
	else
		p = memory_take(c->runtime, sizeof(*p));
	if (!p)
		return false;
	*p = (struct page_unit){page, u, *list};
	*list = p;
	cache->pages[bit / 64] |= UINT64_C(1) << bit % 64;
	return true;
}

/* Notes where the code of a unit was, or would have been. False: there is no memory. */
static bool note_unit(struct context *c, struct unit *u)
{
	uint64_t noted = u->head / PAGE;

	if (!note_page(c, u, noted))
		return false;
	for (unsigned i = 0; i < u->piece_count; i++) {
		const struct piece *piece = &u->pieces[i];

		for (uint64_t page = piece->start / PAGE;
		     piece->size && page <= (piece->end - 1) / PAGE; page++) {
			if (page != noted && !note_page(c, u, page))
				return false;
			noted = page;
		}
	}
	return true;
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
		cache->readable = changes_is_mixed(c, page) ? 0 : page;
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

static bool has_room(const struct area *a)
{
	const size_t slots = (a->slot_count + UNIT_SLOTS) * (size_t)EXIT_SLOT;

	return !a->is_closed && (size_t)(a->end - a->at) >= UNIT_ROOM + slots &&
	       a->mark_count < a->mark_room;
}

/*
 * Large programs spend much of their time with the translation of addresses of code. Small ones do
 * not get large pages, because it takes longer to fill one with zeros than they run.
 */
static void prefer_large(const struct runtime *rt, struct area *a)
{
	if (!a->is_large)
		memory_prefer_large(rt, a->start, CACHE_AREA);
	a->is_large = true;
}

/* Room for a unit. */
static struct area *make_ready(const struct runtime *rt, struct area *a)
{
	if (a->ready < a->at + UNIT_USUAL && a->end - a->ready >= CACHE_READY) {
		memory_ready(rt, a->ready, CACHE_READY);
		a->ready += CACHE_READY;
	}
	return a;
}

/* Areas of code around which nothing is free are near this address, which is the runtime's. */
#define FAR_FROM ((MEMORY_LOW + MEMORY_HIGH) / 2)

/* So many in a hundred of its units are forgotten. */
static bool is_forgotten(const struct area *a, unsigned percent)
{
	return a->unit_count && a->forgotten * UINT64_C(100) >= a->unit_count * (uint64_t)percent;
}

/* One with room that is near the address. *full: one that is near and has none. */
static struct area *find_near_area(struct cache *cache, uint64_t address, struct area **full)
{
	for (uint32_t i = 0; i < cache->area_count; i++) {
		struct area *a = &cache->areas[i];

		if (is_near(a, address) && has_room(a))
			return a;
		if (!is_near(a, address))
			continue;
		*full = a;
		cache->lacks_room |= is_forgotten(a, 50);
	}
	return NULL;
}

/* Makes one near the address. NULL: there is no memory there. */
static struct area *make_area(struct context *c, uint64_t address, struct area *full)
{
	struct cache *cache = c->runtime->cache;
	struct area *a = &cache->areas[cache->area_count];

	cache->lacks_room = true;
	if (cache->area_count == CACHE_AREAS)
		return NULL;
	a->start = memory_code(c->runtime, address, CACHE_AREA);
	if (!a->start)
		return NULL;
	a->mark_room = CACHE_AREA / 64;
	a->marks = memory_take(c->runtime, a->mark_room * sizeof(*a->marks));
	a->slots = memory_take(c->runtime, CACHE_SLOTS * sizeof(struct exit *));
	if (!a->marks || !a->slots)
		return NULL;
	a->at = a->ready = a->start;
	a->end = a->start + CACHE_AREA - CACHE_HEATS;
	/* Far from the code: a processor takes it for code that changes otherwise. */
	a->heats = (uint32_t *)(uintptr_t)a->end;
	a->slot_count = 1; /* 0 is none */
	if (full) {
		prefer_large(c->runtime, full);
		prefer_large(c->runtime, a);
	}
	/* Others look for their units meanwhile: cache_find(). */
	__atomic_store_n(&cache->area_count, cache->area_count + 1, __ATOMIC_RELEASE);
	return a;
}

/*
 * Where nothing is free around the code, which may be in the middle of gigabytes, its units are in
 * areas beside each other somewhere else: what they have of RIP gets a register (copy.c). Looking
 * for a free place takes hundreds of calls, so that it is not done again for the same code.
 */
struct area *cache_area(struct context *c, uint64_t head)
{
	struct cache *cache = c->runtime->cache;
	const uint64_t region = head / CACHE_REGION + 1;
	uint64_t *crowded = &cache->crowded[region % CACHE_REGIONS];
	struct area *full = NULL, *a = find_near_area(cache, head, &full);

	if (head >> 63) /* the page of vsyscall, which is left */
		return NULL;
	if (!a && *crowded != region)
		a = make_area(c, head, full);
	if (!a) {
		*crowded = region;
		full = NULL;
		a = find_near_area(cache, FAR_FROM, &full);
	}
	if (!a)
		a = make_area(c, FAR_FROM, full);
	return a ? make_ready(c->runtime, a) : NULL;
}

struct area_block {
	struct area_block *next;
	uint64_t unused; /* what follows is aligned */
	uint8_t bytes[];
};

/* The next block of the area, which has been used before or is new. False: there is no memory. */
static bool take_block(struct context *c, struct area *a)
{
	struct area_block *next = a->block ? a->block->next : a->blocks;

	if (!next) {
		next = memory_take(c->runtime, CACHE_BLOCK);
		if (!next)
			return false;
		*(a->block ? &a->block->next : &a->blocks) = next;
	}
	a->block = next;
	a->block_used = 0;
	return true;
}

void *cache_take(struct context *c, struct area *area, size_t n)
{
	const size_t room = CACHE_BLOCK - sizeof(struct area_block);
	uint8_t *at;

	n = (n + 15) & ~(size_t)15;
	if (n > room || ((!area->block || room - area->block_used < n) && !take_block(c, area)))
		return NULL;
	at = area->block->bytes + area->block_used;
	area->block_used += (uint32_t)n;
	__builtin_memset(at, 0, n);
	return at;
}

void cache_mark(struct area *area, const uint8_t *start, struct unit *unit)
{
	area->marks[area->mark_count] = (struct mark){start, unit};
	__atomic_store_n(&area->mark_count, area->mark_count + 1, __ATOMIC_RELEASE);
}

/* Units */

struct unit *cache_look_up(const struct cache *cache, uint64_t head, bool off)
{
	struct unit *u = *bucket_of(cache, head);

	while (u && (u->head != head || u->off != off || u->dead))
		u = u->next;
	return u;
}

/* Makes the table larger; in each bucket the order stays. If there is no memory it is slow. */
static void grow_buckets(struct runtime *rt)
{
	struct cache *cache = rt->cache;
	const uint32_t count = cache->bucket_count;
	const size_t bytes = count * sizeof(*cache->buckets);
	struct unit **old = cache->buckets, **fresh = memory_map(rt, GROWTH * bytes);

	if (!fresh)
		return;
	cache->buckets = fresh;
	cache->bucket_count = GROWTH * count;
	for (uint32_t i = 0; i < count; i++)
		for (struct unit *u = old[i], *next; u; u = next) {
			struct unit **at = bucket_of(cache, u->head);

			while (*at)
				at = &(*at)->next;
			next = u->next;
			u->next = NULL;
			*at = u;
		}
	if (count > CACHE_BUCKETS)
		memory_unmap(rt, old, bytes);
}

static void add_to_bucket(struct runtime *rt, struct unit *u)
{
	struct cache *cache = rt->cache;
	struct unit **at;

	if (++cache->unit_count > cache->bucket_count && cache->bucket_count < CACHE_BUCKETS_MAX)
		grow_buckets(rt);
	at = bucket_of(cache, u->head);
	u->next = *at;
	*at = u;
}

/* Whether the code that the unit was made of is still there. */
static bool is_same(const struct context *c, const struct unit *u)
{
	bool same = u->piece_count;

	for (unsigned i = 0; i < u->piece_count && same; i++)
		same = changes_is_same(c, u->pieces[i].start, u->pieces[i].end);
	return same;
}

static void use_again(struct context *c, struct cache *cache);

static struct unit *new_unit(struct context *c, struct area *area)
{
	struct unit *u = cache_take(c, area, sizeof(*u));

	if (!u)
		return NULL;
	u->area = (uint8_t)(area - c->runtime->cache->areas);
	area->unit_count++;
	return u;
}

struct unit *cache_unit(struct context *c, uint64_t head)
{
	struct cache *cache = cache_of(c);
	const bool off = !filter_is_on(c);
	struct area *area;
	struct path path;
	struct code code;
	struct unit *u;

	if (!cache)
		return NULL;
	use_again(c, cache);
	u = cache_look_up(cache, head, off);

	if (u && u->checked && !is_same(c, u)) {
		unit_forget(c, head, head + 1);
		u = NULL;
	}
	if (u)
		changes_mark(c, head);
	if (u)
		return u;
	area = cache_area(c, head);
	u = area ? new_unit(c, area) : NULL;
	if (!u)
		return NULL;
	path_begin(&path);
	path_read(c, head, &code);
	if (code.count)
		path_add(&path, head, &code);
	u->head = head;
	u->off = off;
	u->checked = code.checked;
	if (!block_make(c, u, &path, area, &code, true))
		return NULL;
	if (!note_unit(c, u))
		return NULL;
	u->version = changes_version(c);
	add_to_bucket(c->runtime, u);
	changes_mark(c, head);
	return u;
}

static struct unit *new_path(struct context *c, struct exit *exit, const struct path *path,
			     struct area *area)
{
	struct cache *cache = c->runtime->cache;
	const uint8_t *before = area->at;
	struct unit *u = new_unit(c, area);
	struct code code;

	if (!u)
		return NULL;
	u->head = exit->unit->head;
	u->off = exit->unit->off;
	u->parent = exit;
	u->before = exit->pieces;
	if (!block_make(c, u, path, area, &code, false))
		return NULL;
	cache->path_bytes += (size_t)(area->at - before);
	area->path_bytes += (size_t)(area->at - before);
	return note_unit(c, u) ? u : NULL;
}

void cache_continue(struct context *c, struct exit *exit)
{
	struct cache *cache = c->runtime->cache;
	struct path path;
	struct area *area;
	const struct unit *to;
	struct unit *u = NULL;

	if (!exit->side || exit->continued || exit->unit->checked ||
	    cache->path_bytes > CACHE_PATHS || exit_crosses(exit) || exit->stops)
		return;
	to = cache_look_up(cache, exit->target, exit->unit->off);
	path_begin(&path);
	path.version = to ? to->version : 0;
	path_take(&path, exit);
	path_follow(c, &path, exit->target);
	area = path.count > exit->pieces ? cache_area(c, exit->target) : NULL;
	if (area)
		u = new_path(c, exit, &path, area);
	if (u && emit_link(unit_place(exit->unit, exit->side), (uintptr_t)u->code))
		exit->continued = u;
}

uint64_t unit_enter(struct context *c, uint64_t head)
{
	const struct unit *u;

	path_await(c, head);
	cache_lock(c);
	u = cache_unit(c, head);
	cache_unlock(c);
	return u ? (uintptr_t)u->code : 0;
}

/* The last mark at or before the address. */
static struct unit *find_mark(const struct area *a, uint64_t address)
{
	uint32_t low = 0, high = __atomic_load_n(&a->mark_count, __ATOMIC_ACQUIRE);

	if (!high)
		return NULL;
	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)a->marks[middle].start <= address)
			low = middle;
		else
			high = middle;
	}
	return a->marks[low].unit;
}

/* The exit whose slot has the address; NULL: none. */
static struct exit *find_slot(const struct area *a, uint64_t address)
{
	const uint32_t n = (uint32_t)(((uintptr_t)a->end - address - 1) / EXIT_SLOT);

	return n < __atomic_load_n(&a->slot_count, __ATOMIC_ACQUIRE) ? a->slots[n] : NULL;
}

/* NULL: none. */
static const struct area *find_area(const struct runtime *rt, uint64_t address)
{
	const struct cache *cache = __atomic_load_n(&rt->cache, __ATOMIC_ACQUIRE);
	const uint32_t areas = cache ? __atomic_load_n(&cache->area_count, __ATOMIC_ACQUIRE) : 0;

	for (uint32_t i = 0; i < areas; i++)
		if (address >= (uintptr_t)cache->areas[i].start &&
		    address < (uintptr_t)cache->areas[i].end)
			return &cache->areas[i];
	return NULL;
}

struct unit *cache_find(const struct runtime *rt, uint64_t address)
{
	const struct area *a = find_area(rt, address);
	const struct exit *exit = a ? find_slot(a, address) : NULL;

	return exit ? exit->unit : a ? find_mark(a, address) : NULL;
}

static bool is_of(const struct exit *exit, uint64_t address)
{
	const uint64_t begin = (uintptr_t)unit_place(exit->unit, exit->begin);
	const uint64_t counter = exit->counter ? (uintptr_t)exit_counter(exit) : 0;

	return address - begin < (uint64_t)exit->end - exit->begin ||
	       (counter && address - counter < EXIT_COUNTER);
}

struct exit *cache_find_exit(const struct runtime *rt, const struct unit *u, uint64_t address)
{
	const struct area *a = find_area(rt, address);
	struct exit *exit = a ? find_slot(a, address) : NULL;

	for (unsigned i = 0; !exit && i < u->exit_count; i++)
		if (is_of(&u->exits[i], address))
			exit = &u->exits[i];
	return exit;
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

/* The field of the jump at the end of an exit. */
static uint8_t *jump_of(const struct exit *exit)
{
	return unit_place(exit->unit, exit->end) - sizeof(int32_t);
}

static bool has_counter(struct context *c, struct exit *exit)
{
	struct area *area = exit->counter ? NULL : cache_area(c, exit->target);

	return exit->counter || (area && block_make_counter(c->runtime->cache, exit, area));
}

void cache_link(struct context *c, struct exit *exit, struct unit *to, bool count)
{
	const bool counts = count && has_counter(c, exit);

	if (!emit_link(counts ? exit_counter(exit) + EXIT_COUNTED : jump_of(exit),
		       (uintptr_t)to->code))
		return; /* it goes on coming to the gate */
	if (counts)
		emit_link(jump_of(exit), (uintptr_t)exit_counter(exit));
	if (exit->linked == to)
		return;
	exit->linked = to;
	exit->next_incoming = to->incoming;
	to->incoming = exit;
}

static void unlink_incoming(const struct cache *cache, struct unit *u)
{
	for (struct exit *e = u->incoming; e; e = e->next_incoming) {
		emit_link(jump_of(e), (uintptr_t)cache_slot(cache, e->slot));
		e->linked = NULL;
		e->counts = false;
	}
	u->incoming = NULL;
}

/*
 * In all tables at this offset of the contexts. Threads that are running meanwhile look at them
 * without the lock.
 */
static void forget_prologue(struct runtime *rt, const struct unit *u, const struct prologue *p,
			    uint32_t table)
{
	for (struct context *c = rt->contexts; p && p->start && c; c = c->next) {
		uint64_t *at = (uint64_t *)((uint8_t *)c + table) + (u->head & 0xffff);

		if (*at == (uintptr_t)p->start)
			__atomic_store_n(at, (uintptr_t)gate_miss, __ATOMIC_RELAXED);
	}
}

static bool is_made_of(const struct unit *u, uint64_t start, uint64_t end)
{
	if (u->head >= start && u->head < end)
		return true;
	for (unsigned i = 0; i < u->piece_count; i++)
		if (u->pieces[i].start < end && u->pieces[i].end > start)
			return true;
	return false;
}

/* Takes it out of those that are looked up; units that continue others are not among them. */
static void remove(struct cache *cache, const struct unit *u)
{
	struct unit **at = bucket_of(cache, u->head);

	while (*at && *at != u)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = u->next;
	cache->unit_count--;
}

static void forget(struct context *c, struct unit *u)
{
	c->runtime->cache->areas[u->area].forgotten++;
	u->dead = true;
	unlink_incoming(c->runtime->cache, u);
	if (u->parent && u->parent->continued == u) {
		emit_link(unit_place(u->parent->unit, u->parent->side),
			  (uintptr_t)unit_place(u->parent->unit, u->parent->begin));
		u->parent->continued = NULL;
	}
	forget_prologue(c->runtime, u, &u->prologue, CONTEXT_INDIRECT);
	forget_prologue(c->runtime, u, u->from_off, CONTEXT_INDIRECT_OFF);
	remove(c->runtime->cache, u);
}

/* Forgets the units in a list of pages that have code in [start, end). */
static void forget_list(struct context *c, struct page_unit **list, uint64_t start, uint64_t end)
{
	struct cache *cache = c->runtime->cache;

	while (*list) {
		struct page_unit *p = *list;

		if (!p->unit->dead && is_made_of(p->unit, start, end))
			forget(c, p->unit);
		if (p->unit->dead) {
			*list = p->next;
			p->next = cache->unused;
			cache->unused = p;
		} else {
			list = &p->next;
		}
	}
}

static void forget_page(struct context *c, uint64_t page, uint64_t start, uint64_t end)
{
	struct cache *cache = c->runtime->cache;
	const uint32_t bit = bit_of(page);

	if (cache->pages[bit / 64] >> bit % 64 & 1)
		forget_list(c, list_of(cache, page), start, end);
}

/* No branch leads to what is forgotten. A thread that is in it goes on to its exit. */
void unit_forget(struct context *c, uint64_t start, uint64_t end)
{
	const uint64_t first = start / PAGE, last = (end - 1) / PAGE;
	struct cache *cache;

	cache_lock(c);
	cache = c->runtime->cache;
	if (cache)
		cache->readable = 0;
	/* To look at all lists can be less work. */
	if (cache && start < end && last - first >= CACHE_PAGE_LISTS)
		for (uint32_t i = 0; i < CACHE_PAGE_LISTS; i++)
			forget_list(c, &cache->page_units[i], start, end);
	else if (cache && start < end)
		for (uint64_t page = first; page <= last; page++)
			forget_page(c, page, start, end);
	cache_unlock(c);
}

/* Using memory again */

static bool is_in(const struct area *a, const struct cache *cache, const struct unit *u)
{
	return u != &cache->nobody && &cache->areas[u->area] == a;
}

/*
 * What lies in the area is forgotten: units, and those that have a prologue or a counter there.
 */
static void forget_area(struct context *c, const struct area *a)
{
	for (uint32_t i = 0; i < a->mark_count; i++)
		if (!a->marks[i].unit->dead)
			forget(c, a->marks[i].unit);
}

/* Of a unit elsewhere that is left: nothing of it leads to what is known of the area's units. */
static void detach_unit(struct context *c, const struct area *a, struct unit *u)
{
	struct exit **e = &u->incoming;

	if (u->parent && is_in(a, c->runtime->cache, u->parent->unit)) {
		forget(c, u);
		return;
	}
	while (*e)
		if (is_in(a, c->runtime->cache, (*e)->unit))
			*e = (*e)->next_incoming;
		else
			e = &(*e)->next_incoming;
}

static void detach_units(struct context *c, const struct area *a)
{
	const struct cache *cache = c->runtime->cache;

	for (uint32_t i = 0; i < cache->area_count; i++)
		for (uint32_t n = 0; &cache->areas[i] != a && n < cache->areas[i].mark_count; n++)
			if (!cache->areas[i].marks[n].unit->dead)
				detach_unit(c, a, cache->areas[i].marks[n].unit);
}

static void close_area(struct context *c, struct area *a)
{
	struct cache *cache = c->runtime->cache;

	a->is_closed = true;
	forget_area(c, a);
	detach_units(c, a);
	for (uint32_t i = 0; i < CACHE_PAGE_LISTS; i++)
		forget_list(c, &cache->page_units[i], 0, 0);
	cache->closed = a;
	cache->epoch++;
}

/* The one of which most is forgotten, if that is enough; NULL: none. Others may still have room. */
static struct area *find_forgotten(struct cache *cache)
{
	const bool any = cache->area_count == CACHE_AREAS;
	struct area *most = NULL;

	for (uint32_t i = 0; i < cache->area_count; i++) {
		struct area *a = &cache->areas[i];

		if (!has_room(a) && a->unit_count && (any || is_forgotten(a, CACHE_FORGOTTEN)) &&
		    (!most || a->forgotten * (uint64_t)most->unit_count >
				  most->forgotten * (uint64_t)a->unit_count))
			most = a;
	}
	return most;
}

/* A thread in a system call comes back by way of cache_unit(). */
static bool all_have_left(const struct context *c, const struct cache *cache)
{
	for (const struct context *at = c->runtime->contexts; at; at = at->next)
		if (__atomic_load_n(&at->state, __ATOMIC_SEQ_CST) == CONTEXT_RUNNING &&
		    !__atomic_load_n(&at->in_call, __ATOMIC_SEQ_CST) &&
		    at->cache_epoch != cache->epoch)
			return false;
	return true;
}

/* Counters and prologues of the area's units lie in others, too. */
static void release_marks(struct cache *cache, const struct area *a)
{
	cache->nobody.dead = true;
	for (uint32_t i = 0; i < cache->area_count; i++)
		for (uint32_t n = 0; &cache->areas[i] != a && n < cache->areas[i].mark_count; n++)
			if (is_in(a, cache, cache->areas[i].marks[n].unit))
				cache->areas[i].marks[n].unit = &cache->nobody;
}

static void open_again(struct cache *cache, struct area *a)
{
	release_marks(cache, a);
	cache->path_bytes -= a->path_bytes;
	a->path_bytes = 0;
	a->at = a->start;
	a->mark_count = 0;
	a->slot_count = 1;
	a->unit_count = a->forgotten = 0;
	a->block = NULL;
	a->block_used = 0;
	a->is_closed = false;
	cache->closed = NULL;
}

/*
 * Memory of what was forgotten is used again area by area: when one had to be made, that of which
 * most is forgotten is closed, and opened again when no thread can be in it. This thread has been
 * here before with the epoch then, so that neither an exit of the area nor a return address has led
 * it here; the latter end with the first time.
 */
static void use_again(struct context *c, struct cache *cache)
{
	struct area *a;

	if (cache->closed && all_have_left(c, cache))
		open_again(cache, cache->closed);
	if (c->cache_epoch != cache->epoch) {
		returns_forget(c);
		c->cache_epoch = cache->epoch;
	}
	if (!cache->lacks_room || cache->closed)
		return;
	cache->lacks_room = false;
	a = find_forgotten(cache);
	if (a)
		close_area(c, a);
}
