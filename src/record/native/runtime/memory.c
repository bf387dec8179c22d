/* SPDX-License-Identifier: MIT */
/*
 * The runtime's own memory. All of it is mapped at random places, away from where the kernel puts
 * the program's, so that the program's mappings are where they would be without a recorder.
 */
#include "record/native/runtime/memory.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

#include <asm-generic/mman-common.h>
#include <linux/mman.h>

#define PAGE	  NATIVE_PAGE
#define RANGES	  NATIVE_RANGES
#define READY	  NATIVE_LIMIT(64u << 10, 4096u) /* gets its pages at once */
#define SMALL_MAX NATIVE_LIMIT(64u << 10, 8u << 10)
#define ZONE	  NATIVE_LIMIT(64u << 20, 4u << 20) /* of which amounts below LARGE are cut */
#define TRIES	  64
/* Code areas are between so many bytes away from the code they copy. CACHE_REACH is more. */
#define CODE_NEAREST  (UINT64_C(256) << 20)
#define CODE_FARTHEST (UINT64_C(768) << 20)
#define USER_END      (UINT64_C(1) << 47)
#define LOWEST	      (UINT64_C(1) << 20)
/* A large page. Code areas that are as large as some of them begin at one. */
#define LARGE	 (UINT64_C(2) << 20)
#define POOL	 NATIVE_LIMIT(1u << 20, 64u << 10) /* of which small amounts are cut */
#define POOL_ONE NATIVE_LIMIT(LARGE, POOL)	   /* the first one */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

struct range {
	uint64_t start, end;
};

struct arena {
	uint32_t lock;
	uint32_t count;
	uint64_t random;
	uint8_t *pool;
	size_t pool_left;
	size_t pool_ready; /* of what is left, has pages */
	uint64_t zone;	   /* a page without access, as is all that is left behind it */
	size_t zone_left;
	struct range ranges[RANGES];
};

static void lock(struct arena *a)
{
	while (__atomic_exchange_n(&a->lock, 1, __ATOMIC_ACQUIRE))
		sys_call(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock(struct arena *a)
{
	__atomic_store_n(&a->lock, 0, __ATOMIC_RELEASE);
}

/* xorshift64*: it is to be hard to meet by accident, no more. */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t pages(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* Maps n bytes without access at this address. False: something is there. */
static bool reserve(uint64_t address, uint64_t n)
{
	int64_t got = sys_call(__NR_mmap, address, n, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			       (uint64_t)-1, 0);

	if (got == (int64_t)address)
		return true;
	if (!sys_is_error(got)) /* before Linux 4.17 the address is a mere hint */
		sys_call(__NR_munmap, (uint64_t)got, n, 0, 0, 0, 0);
	return false;
}

/*
 * A place before an address at which a reservation begins whose inner part begins at a large page,
 * if it has one.
 */
static uint64_t aligned(uint64_t address, uint64_t n)
{
	return n < LARGE ? address & ~(uint64_t)(PAGE - 1) : (address & -LARGE) - PAGE;
}

static uint64_t reserve_between(uint64_t *random, uint64_t low, uint64_t high, uint64_t n)
{
	if (high < low || high - low < n + PAGE)
		return 0;
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t address = low + next_random(random) % (high - low - n);

		address = aligned(address, n);
		if (address >= low && reserve(address, n))
			return address;
	}
	return 0;
}

/* The same at the first place that is free, from above, of at most so many that are looked at. */
static uint64_t reserve_in_turn(uint64_t low, uint64_t high, uint64_t n)
{
	const uint64_t part = pages((high - low) / (4 * TRIES));

	if (high < low || high - low < n)
		return 0;
	for (uint64_t address = aligned(high - n, n); address >= low; address -= part) {
		if (reserve(address, n))
			return address;
		if (address - low < part)
			break;
	}
	return 0;
}

/* Makes n bytes in the middle of a reservation usable; the first and the last page stay closed. */
static uint8_t *open_inner(uint64_t outer, uint64_t n, int protection)
{
	if (sys_call(__NR_mprotect, outer + PAGE, n, (uint64_t)protection, 0, 0, 0))
		return NULL;
	return (uint8_t *)(uintptr_t)(outer + PAGE);
}

static bool add_range(struct arena *a, uint64_t start, uint64_t end)
{
	bool fits = a->count < RANGES;

	if (fits)
		a->ranges[a->count] = (struct range){start, end};
	/* memory_is_ours() reads without the lock. */
	__atomic_store_n(&a->count, a->count + fits, __ATOMIC_RELEASE);
	return fits;
}

/* Takes a reservation as ours and opens it; closes it again if that fails. */
static uint8_t *take_reservation(struct arena *a, uint64_t outer, uint64_t n, int protection)
{
	uint8_t *inner = outer ? open_inner(outer, n, protection) : NULL;

	if (inner && !add_range(a, outer, outer + n + 2 * PAGE))
		inner = NULL;
	if (outer && !inner)
		sys_call(__NR_munmap, outer, n + 2 * PAGE, 0, 0, 0, 0);
	return inner;
}

static uint8_t *map_locked(struct arena *a, uint64_t n)
{
	uint64_t outer;

	if (n > MEMORY_HIGH - MEMORY_LOW)
		return NULL;
	n = pages(n);
	outer = reserve_between(&a->random, MEMORY_LOW, MEMORY_HIGH, n + 2 * PAGE);
	return take_reservation(a, outer, n, PROT_READ | PROT_WRITE);
}

struct runtime *memory_begin(uint64_t seed)
{
	struct {
		struct runtime rt;
		struct arena arena;
	} * first;
	uint64_t random = seed | 1, n = pages(sizeof(*first));
	uint64_t outer = reserve_between(&random, MEMORY_LOW, MEMORY_HIGH, n + 2 * PAGE);

	first = outer ? (void *)open_inner(outer, n, PROT_READ | PROT_WRITE) : NULL;
	if (!first)
		return NULL;
	first->rt.arena = &first->arena;
	first->arena.random = random;
	add_range(&first->arena, outer, outer + n + 2 * PAGE);
	return &first->rt;
}

bool memory_add(struct runtime *rt, uint64_t start, uint64_t end)
{
	bool added;

	lock(rt->arena);
	added = add_range(rt->arena, start, end);
	unlock(rt->arena);
	return added;
}

void memory_hold(struct runtime *rt)
{
	lock(rt->arena);
}

void memory_release(struct runtime *rt)
{
	unlock(rt->arena);
}

void *memory_map(struct runtime *rt, size_t n)
{
	void *at;

	lock(rt->arena);
	at = n ? map_locked(rt->arena, n) : NULL;
	unlock(rt->arena);
	return at;
}

void memory_unmap(struct runtime *rt, void *address, size_t n)
{
	struct arena *a = rt->arena;
	uint64_t start = (uint64_t)(uintptr_t)address - PAGE, end = start + pages(n) + 2 * PAGE;

	lock(a);
	for (uint32_t i = 0; i < a->count; i++)
		if (a->ranges[i].start == start && a->ranges[i].end == end) {
			/* A reader may see the last range twice, but never misses one. */
			a->ranges[i] = a->ranges[a->count - 1];
			__atomic_store_n(&a->count, a->count - 1, __ATOMIC_RELEASE);
			break;
		}
	sys_call(__NR_munmap, start, end - start, 0, 0, 0, 0);
	unlock(a);
}

void memory_expect_large(const struct runtime *rt, const void *at, size_t n)
{
	if (!(rt->denied & NATIVE_NEEDS_ADVICE))
		sys_call(__NR_madvise, (uintptr_t)at, n, MADV_HUGEPAGE, 0, 0, 0);
}

void memory_ready(const struct runtime *rt, const void *at, size_t n)
{
	const uint64_t first = (uintptr_t)at & ~(uint64_t)(PAGE - 1);

	if (rt->denied & NATIVE_NEEDS_ADVICE)
		return;
	/* Since Linux 5.14; before, each page faults. */
	sys_call(__NR_madvise, first, pages((uintptr_t)at + n - first), MADV_POPULATE_WRITE, 0, 0,
		 0);
}

/* Of the pool, n bytes are taken next. */
static void make_ready(const struct runtime *rt, struct arena *a, size_t n)
{
	size_t more = n > READY ? n : READY;

	if (a->pool_ready >= n)
		return;
	more = more < a->pool_left - a->pool_ready ? more : a->pool_left - a->pool_ready;
	memory_ready(rt, a->pool + a->pool_ready, more);
	a->pool_ready += more;
}

/*
 * Whole pages that are never given back, from a zone: so the list of ranges, which is looked
 * through at each call about memory, stays short where there are many threads.
 */
static uint8_t *cut_from_zone(struct runtime *rt, uint64_t n)
{
	struct arena *a = rt->arena;
	uint8_t *at;

	n = pages(n);
	if (n >= LARGE)
		return map_locked(a, n);
	if (a->zone_left < n + 2 * PAGE) {
		const uint64_t zone = reserve_between(&a->random, MEMORY_LOW, MEMORY_HIGH, ZONE);

		if (!zone || !add_range(a, zone, zone + ZONE)) {
			if (zone)
				sys_call(__NR_munmap, zone, ZONE, 0, 0, 0, 0);
			return NULL;
		}
		a->zone = zone;
		a->zone_left = ZONE;
	}
	/* With the page behind it, so that all of the zone can be one mapping of the kernel's. */
	at = open_inner(a->zone, n + PAGE, PROT_READ | PROT_WRITE);
	if (!at || !memory_guard(rt, (uint64_t)at + n))
		return NULL;
	a->zone += n + PAGE;
	a->zone_left -= n + PAGE;
	return at;
}

static void *take_pages(struct runtime *rt, size_t n)
{
	void *at;

	lock(rt->arena);
	at = n <= MEMORY_HIGH - MEMORY_LOW ? cut_from_zone(rt, n) : NULL;
	unlock(rt->arena);
	return at;
}

static void begin_pool(struct runtime *rt)
{
	struct arena *a = rt->arena;
	const bool first = !a->pool;
	uint8_t *pool = cut_from_zone(rt, first ? POOL_ONE : POOL);

	if (!pool)
		return;
	if (first)
		memory_expect_large(rt, pool, POOL_ONE);
	a->pool = pool;
	a->pool_left = first ? POOL_ONE : POOL;
	a->pool_ready = 0;
}

static void *take_from_pool(struct runtime *rt, size_t n)
{
	struct arena *a = rt->arena;
	uint8_t *at = NULL;

	n = (n + 15) & ~(size_t)15;
	lock(a);
	if (a->pool_left < n)
		begin_pool(rt);
	if (a->pool_left >= n) {
		at = a->pool;
		make_ready(rt, a, n);
		a->pool += n;
		a->pool_left -= n;
		a->pool_ready -= n;
	}
	unlock(a);
	return at;
}

void *memory_take(struct runtime *rt, size_t n)
{
	return n > SMALL_MAX ? take_pages(rt, n) : take_from_pool(rt, n);
}

void *memory_take_first(struct runtime *rt, size_t n)
{
	uint8_t *at = pages(n) + PAGE > POOL_ONE ? NULL : take_from_pool(rt, pages(n) + PAGE);

	return at ? (void *)(uintptr_t)pages((uintptr_t)at) : memory_map(rt, n);
}

/*
 * Below the code if there is room, because the heap, which begins behind the program, grows
 * upwards; not near it, because programs map things near their code.
 */
static uint64_t reserve_code(uint64_t *random, uint64_t near, uint64_t n)
{
	const bool below = near > CODE_FARTHEST + LOWEST, above = near < USER_END - CODE_FARTHEST;
	uint64_t outer = 0;

	if (below)
		outer = reserve_between(random, near - CODE_FARTHEST, near - CODE_NEAREST, n);
	/* As far away as may be, so that the heap of a program at a low address can grow. */
	if (!outer && above)
		outer = reserve_between(random, near + CODE_FARTHEST - CODE_NEAREST / 2,
					near + CODE_FARTHEST, n);
	/* Areas at random leave gaps that chance does not find again: large programs need them. */
	if (!outer && below)
		outer = reserve_in_turn(near - CODE_FARTHEST, near - CODE_NEAREST, n);
	if (!outer && above)
		outer = reserve_in_turn(near + CODE_NEAREST, near + CODE_FARTHEST, n);
	return outer;
}

void memory_prefer_large(const struct runtime *rt, const uint8_t *at, size_t size)
{
	if (rt->denied & NATIVE_NEEDS_ADVICE)
		return;
	memory_expect_large(rt, at, size);
	/* Those that are there already, since Linux 6.1. */
	sys_call(__NR_madvise, (uintptr_t)at, size, MADV_COLLAPSE, 0, 0, 0);
}

uint8_t *memory_code(struct runtime *rt, uint64_t near, size_t size)
{
	struct arena *a = rt->arena;
	uint64_t n = pages(size), outer;
	uint8_t *at;

	if (!n || n > CODE_NEAREST / 4 || near >= USER_END)
		return NULL;
	lock(a);
	outer = reserve_code(&a->random, near, n + 2 * PAGE);
	at = take_reservation(a, outer, n, PROT_READ | PROT_WRITE | PROT_EXEC);
	unlock(a);
	return at;
}

void memory_control(struct runtime *rt)
{
	rt->control.ranges = (uintptr_t)rt->arena->ranges;
	rt->control.range_count = (uintptr_t)&rt->arena->count;
}

bool memory_is_ours(const struct runtime *rt, uint64_t address, uint64_t n)
{
	const struct arena *a = rt->arena;
	uint64_t end = address + n < address ? UINT64_MAX : address + n;
	uint32_t count = __atomic_load_n(&a->count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		if (address < a->ranges[i].end && a->ranges[i].start < end)
			return true;
	return false;
}
