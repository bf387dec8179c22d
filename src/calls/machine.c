/* SPDX-License-Identifier: MIT */
/* The machine's stack, what it knows of functions, and its clock. */
#include "calls/internal.h"
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_FRAMES	 256
#define FIRST_CACHE_BITS 10
#define MAX_CACHE_BITS	 17
/* So many functions without bounds are remembered as called. */
#define MAX_CALLED (UINT32_C(1) << 13)

static struct calls_entry *new_cache(unsigned bits)
{
	return calloc(((size_t)1 << bits) + 1, sizeof(struct calls_entry));
}

static void set_bottom(struct calls_machine *m)
{
	m->top = m->frames;
	memset(m->top, 0, sizeof(*m->top));
	m->top->state = CALLS_BOTTOM;
	m->top->flags = PTAH_CALL_NO_BOUNDS;
	m->pending = CALLS_PENDING_START;
	m->special = m->guest = m->gaps = m->bases = 0;
	m->crossed = m->entered = false;
}

int calls_machine_init(struct calls_machine *m, const struct calls_config *config,
		       const struct calls_sink *sink)
{
	memset(m, 0, sizeof(*m));
	m->find = config->find;
	m->find_context = config->find_context;
	m->count = config->count;
	m->max_depth = config->max_depth ? config->max_depth : PTAH_CALLS_MAX_DEPTH;
	m->sink = sink;
	m->capacity = FIRST_FRAMES;
	m->cache_bits = FIRST_CACHE_BITS;
	m->generation = 1;
	m->frames = calloc(m->capacity, sizeof(*m->frames));
	m->cache = new_cache(m->cache_bits);
	if (!m->frames || !m->cache) {
		calls_machine_fini(m);
		return PTAH_E_NOMEM;
	}
	set_bottom(m);
	calls_set_limit(m);
	return 0;
}

void calls_machine_restart(struct calls_machine *m, const struct calls_knowledge *knowledge)
{
	if (m->learned.switches != knowledge->switches)
		calls_forget_code(m);
	m->learned = *knowledge;
	calls_forget_folded(m);
	set_bottom(m);
	memset(&m->now, 0, sizeof(m->now));
	m->last_id = m->cycles = m->site = m->end = 0;
	m->losses = 0;
	m->off = m->twice = m->non_root = m->aborted = m->skip_time = false;
	m->space = 0;
	m->status = 0;
}

void calls_machine_fini(struct calls_machine *m)
{
	calls_stacks_free(m);
	free(m->frames);
	free(m->cache);
	free(m->folded_sites);
	free(m->crossings);
	m->crossings = NULL;
	m->frames = NULL;
	m->cache = NULL;
	m->folded_sites = NULL;
}

void calls_end(struct calls_machine *m, enum ptah_call_end how)
{
	calls_forget_folded(m);
	while (m->top != m->frames)
		calls_drop(m, how, 0);
	calls_stacks_free(m);
	set_bottom(m);
	m->level = 0;
}

/*
 * The clock. Time that is not known, that runs backwards or is part of a loss does not pass: a time
 * before the latest one is taken for the latest one, or what follows would count twice.
 */
void calls_set_time(struct calls_machine *m, uint64_t tsc, uint64_t cycles)
{
	struct calls_now *now = &m->now;

	if (tsc > now->tsc || (tsc && m->skip_time)) {
		if (now->tsc && !m->skip_time) {
			now->counts.ticks += tsc - now->tsc;
			now->counts.off_ticks += m->off ? tsc - now->tsc : 0;
		}
		now->tsc = tsc;
		m->skip_time = false;
	}
	now->counts.cycles = cycles;
}

/* Functions */

static bool knows_switch(const struct calls_machine *m, const struct calls_entry *e)
{
	for (unsigned i = 0; i < m->learned.switches; i++)
		if (m->learned.list[i].function == e->function &&
		    m->learned.list[i].space == e->space)
			return true;
	return false;
}

void calls_learn_switch(struct calls_machine *m, struct calls_entry *e)
{
	if (e->function_flags & PTAH_FUNCTION_SWITCH || m->learned.switches == CALLS_LEARNED)
		return;
	m->learned.list[m->learned.switches++] = (struct calls_learned){e->function, e->space};
	e->function_flags |= PTAH_FUNCTION_SWITCH;
}

void calls_learn_called(struct calls_machine *m, struct calls_entry *e)
{
	if (e->called)
		return;
	if (!calls_has_bounds(e) && m->called++ >= MAX_CALLED)
		return;
	e->called = true;
}

static void fill(struct calls_machine *m, struct calls_entry *e, uint64_t ip)
{
	struct ptah_function f = {0};

	memset(e, 0, sizeof(*e));
	e->ip = e->low = e->function = ip;
	e->space = e->key = m->space;
	e->generation = m->generation;
	e->flags = (uint16_t)(PTAH_CALL_NO_BOUNDS | (ip >> 63 ? PTAH_CALL_KERNEL : 0));
	if (!m->find || !m->find(m->find_context, m->space, ip, m->now.tsc, &f) || ip < f.low ||
	    ip >= f.high)
		return;
	e->low = f.low;
	e->size = f.high - f.low;
	e->function_flags = (uint16_t)f.flags;
	if (f.version && !e->space)
		e->key = (uint16_t)(PTAH_CALLS_VERSION + f.version);
	if (f.flags & PTAH_FUNCTION_SECTION)
		return;
	e->function = f.start;
	e->flags = (uint16_t)(e->flags & ~PTAH_CALL_NO_BOUNDS);
	if (f.flags & (PTAH_FUNCTION_STUB | PTAH_FUNCTION_RESOLVER))
		e->flags |= PTAH_CALL_STUB;
	if (f.flags & (PTAH_FUNCTION_TWICE | PTAH_FUNCTION_UNWINDS))
		e->state = CALLS_ODD;
	if (e->function == ip && knows_switch(m, e))
		e->function_flags |= PTAH_FUNCTION_SWITCH;
}

/* The entry for `ip`: its own, or a free one. */
static struct calls_entry *probe(const struct calls_machine *m, struct calls_entry *cache,
				 unsigned bits, uint64_t ip, unsigned space)
{
	const size_t mask = ((size_t)1 << bits) - 1;
	size_t i = calls_hash(ip, space, bits);

	while (cache[i].generation == m->generation &&
	       (cache[i].ip != ip || cache[i].space != space))
		i = (i + 1) & mask;
	return &cache[i];
}

/* Code may change often: that must not cost the size of the cache each time. */
void calls_forget_code(struct calls_machine *m)
{
	m->learned.switches = 0;
	m->called = 0;
	m->cache_count = 0;
	if (++m->generation)
		return;
	memset(m->cache, 0, sizeof(*m->cache) << m->cache_bits);
	free(m->crossings);
	m->crossings = NULL;
	m->generation = 1;
}

/*
 * Makes room for another entry: a larger table or, when it is as large as it may get, one with
 * nothing but what cannot be found out again.
 */
static void make_room(struct calls_machine *m)
{
	const bool grows = m->cache_bits < MAX_CACHE_BITS;
	struct calls_entry *other;

	if (4 * (m->cache_count + 1) <= (size_t)1 << m->cache_bits)
		return;
	other = new_cache(m->cache_bits + grows);
	if (!other) {
		calls_forget_code(m);
		return;
	}
	m->cache_count = 0;
	for (size_t i = 0; i < (size_t)1 << m->cache_bits; i++) {
		const struct calls_entry *e = &m->cache[i];

		if (e->generation != m->generation ||
		    !(grows || (e->called && !calls_has_bounds(e))))
			continue;
		*probe(m, other, m->cache_bits + grows, e->ip, e->space) = *e;
		m->cache_count++;
	}
	free(m->cache);
	m->cache = other;
	m->cache_bits += grows;
}

struct calls_entry *calls_lookup(struct calls_machine *m, uint64_t ip)
{
	struct calls_entry *e = probe(m, m->cache, m->cache_bits, ip, m->space), *home;

	if (e->generation != m->generation) {
		make_room(m);
		e = probe(m, m->cache, m->cache_bits, ip, m->space);
		fill(m, e, ip);
		m->cache_count++;
	}
	/* calls_cached() looks at the first two places only. All up to `e` are in use. */
	home = &m->cache[calls_hash(ip, m->space, m->cache_bits)];
	if (e != home && e != home + 1) {
		const struct calls_entry other = *home;

		*home = *e;
		*e = other;
		e = home;
	}
	return e;
}

bool calls_bounds(struct calls_machine *m, unsigned space, uint64_t ip, uint64_t *low,
		  uint64_t *high)
{
	const uint16_t before = m->space;
	const struct calls_entry *e;

	m->space = (uint16_t)space;
	e = calls_lookup(m, ip);
	m->space = before;
	*low = e->low;
	*high = e->low + e->size;
	return e->size;
}

/* The stack */

bool calls_has_room(struct calls_machine *m)
{
	const uint32_t depth = calls_depth(m);
	struct calls_frame *bigger;
	uint32_t capacity;

	if (depth + 1 < m->capacity && depth < m->max_depth)
		return true;
	if (depth >= m->max_depth)
		return false;
	capacity = 2 * m->capacity;
	bigger = realloc(m->frames, capacity * sizeof(*bigger));
	if (!bigger) {
		m->status = PTAH_E_NOMEM;
		return false;
	}
	m->frames = bigger;
	m->capacity = capacity;
	m->top = bigger + depth;
	calls_set_limit(m);
	return true;
}

void calls_drop(struct calls_machine *m, enum ptah_call_end how, uint64_t site)
{
	const struct calls_frame *f = m->top;
	unsigned flags = f->flags;

	/* Calls that were folded into it end with it. */
	if (m->folded)
		calls_forget_folded(m);
	if (f->losses != m->losses)
		flags |= PTAH_CALL_HAS_LOSS;
	if (how >= PTAH_CALL_END_LOST)
		flags |= PTAH_CALL_NO_END;
	if (!(f->state & CALLS_HIDDEN))
		m->sink->end(m, f, how, flags, how >= PTAH_CALL_END_LOST ? 0 : site);
	if (f->state & (CALLS_SIGNAL | CALLS_KERNEL))
		m->special = f->special;
	m->gaps -= f->state & CALLS_AFTER_GAP ? 1 : 0;
	m->bases -= f->state & CALLS_STACK ? 1 : 0;
	m->guest = m->guest == calls_depth(m) ? 0 : m->guest;
	m->top--;
}

void calls_unwind(struct calls_machine *m, uint32_t depth, uint64_t site)
{
	calls_forget_folded(m);
	while (calls_depth(m) > depth)
		calls_drop(m,
			   m->top->losses != m->losses ? PTAH_CALL_END_LOST : PTAH_CALL_END_UNWOUND,
			   site);
}

void calls_returned(struct calls_machine *m, uint64_t site)
{
	const uint64_t to = m->top->return_site;
	bool tailed = m->top->state & CALLS_TAILED,
	     twice = m->top->function_flags & PTAH_FUNCTION_TWICE;

	calls_drop(m, PTAH_CALL_END_RETURN, site);
	while (tailed) {
		tailed = m->top->state & CALLS_TAILED;
		twice |= m->top->function_flags & PTAH_FUNCTION_TWICE;
		calls_drop(m, PTAH_CALL_END_TAIL, site);
	}
	if (twice) {
		if (m->top->twice_site != to)
			m->top->twice_before = m->top->twice_site;
		m->top->twice_site = to;
		m->twice = true;
	}
}

bool calls_begin(struct calls_machine *m, const struct calls_entry *e,
		 const struct calls_begin *begin)
{
	struct calls_frame *f;

	if (!calls_has_room(m)) {
		calls_fold(m, begin->return_site);
		return false;
	}
	f = calls_push(m, e);
	f->return_site = begin->return_site;
	f->how = (uint8_t)begin->how;
	f->state = (uint16_t)(begin->state | e->state);
	f->flags |= (uint16_t)begin->flags;
	if (f->state & (CALLS_SIGNAL | CALLS_KERNEL)) {
		f->special = m->special;
		m->special = calls_depth(m);
	}
	m->gaps += f->state & CALLS_AFTER_GAP ? 1 : 0;
	m->bases += f->state & CALLS_STACK ? 1 : 0;
	if (f->state & CALLS_HIDDEN)
		m->last_id--;
	else
		m->sink->begin(m, f, begin->site);
	return true;
}

void calls_begin_running(struct calls_machine *m, const struct calls_entry *e, unsigned state)
{
	/* Its first instruction is next: it is a call, whatever code that is not traced made it. */
	const bool entry = calls_is_entry(e);
	const struct calls_begin begin = {
	    .how = entry ? PTAH_CALL_CALLED : PTAH_CALL_RUNNING,
	    .flags = m->entered && entry ? 0 : PTAH_CALL_NO_BEGIN,
	    .state = state,
	};

	calls_begin(m, e, &begin);
}

/* Searches */

/* How many frames may be looked at or moved now. */
static uint64_t budget(const struct calls_machine *m, uint64_t at_least)
{
	const uint64_t all = 4 * m->now.counts.instructions;
	const uint64_t left = all > m->searched ? all - m->searched : 0;

	return left > at_least ? left : at_least;
}

/* How many a search that begins at `from` may look at. */
static uint32_t search_budget(const struct calls_machine *m, uint32_t from)
{
	const uint64_t n = budget(m, CALLS_NEAR);

	return from < n ? from : (uint32_t)n;
}

bool calls_can_move(struct calls_machine *m, uint32_t n)
{
	if (n > budget(m, CALLS_FEW))
		return false;
	m->searched += n;
	return true;
}

bool calls_gives_up(const struct calls_machine *m, uint32_t index)
{
	while (m->frames[index].state & CALLS_TAILED)
		index--;
	do {
		if (m->frames[index].function_flags & PTAH_FUNCTION_UNWINDS)
			return true;
	} while (++index <= calls_depth(m) && m->frames[index].state & CALLS_TAILED);
	return false;
}

/* Whether the call, or the one that its chain of tail calls began with, returns by the kernel. */
static bool is_of_kernel(const struct calls_machine *m, uint32_t index)
{
	while (m->frames[index].state & CALLS_TAILED)
		index--;
	return m->frames[index].state & (CALLS_SIGNAL | CALLS_KERNEL);
}

uint32_t calls_find_site(struct calls_machine *m, uint32_t from, uint64_t site, bool kernel)
{
	const uint32_t n = search_budget(m, from);

	for (uint32_t i = from; site && i > from - n; i--)
		if (m->frames[i].return_site == site && !calls_gives_up(m, i) &&
		    (kernel || !is_of_kernel(m, i)))
			return i;
	m->searched += n;
	return 0;
}

uint32_t calls_find_function(struct calls_machine *m, uint32_t from, const struct calls_entry *e)
{
	const uint32_t n = calls_has_bounds(e) ? search_budget(m, from) : 0;

	for (uint32_t i = from; i > from - n; i--)
		if (calls_is_same(&m->frames[i], e) &&
		    !(i < calls_depth(m) && calls_gives_up(m, i + 1)))
			return i;
	m->searched += n;
	return 0;
}

uint32_t calls_find_twice(struct calls_machine *m, uint32_t from, uint64_t site)
{
	const uint32_t n = m->twice ? search_budget(m, from) : 0;
	uint32_t given_up = 0;

	for (uint32_t i = from; i > from - n; i--) {
		const struct calls_frame *f = &m->frames[i];

		if (f->twice_site != site && (!f->twice_site || f->twice_before != site))
			continue;
		if (i == calls_depth(m) || !calls_gives_up(m, i + 1))
			return i;
		given_up = given_up ? given_up : i;
	}
	m->searched += n;
	/* With two cleanup handlers in one function, the inner one continues with the outer one. */
	return given_up;
}

void calls_arrive_slowly(struct calls_machine *m, uint64_t ip)
{
	calls_arrive(m, m->sink, ip);
}
