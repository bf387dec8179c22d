/* SPDX-License-Identifier: MIT */
/*
 * What exits do that lead to no unit yet: the next unit is found or made, the exit is linked to it,
 * and the program goes on there.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/mman.h>

/* Generated code and gates.S find the members by numbers. */
#define IS_AT(member, offset) _Static_assert(offsetof(struct context, member) == (offset), "")
IS_AT(self, CONTEXT_SELF);
IS_AT(rcx, CONTEXT_RCX);
IS_AT(rax, CONTEXT_RAX);
IS_AT(log, CONTEXT_LOG);
IS_AT(r11, CONTEXT_R11);
IS_AT(gate_exit, CONTEXT_GATE_EXIT);
IS_AT(gate_indirect, CONTEXT_GATE_INDIRECT);
IS_AT(gate_syscall, CONTEXT_GATE_SYSCALL);
IS_AT(continue_at, CONTEXT_CONTINUE);
IS_AT(rsp, CONTEXT_RSP);
IS_AT(stack, CONTEXT_STACK);
IS_AT(exits_log, CONTEXT_EXITS_LOG);
IS_AT(inside, CONTEXT_INSIDE);
IS_AT(pending, CONTEXT_PENDING);
IS_AT(traced, CONTEXT_TRACED);
IS_AT(exit, CONTEXT_EXIT);
IS_AT(resume, CONTEXT_RESUME);
IS_AT(target, CONTEXT_TARGET);
IS_AT(returns_at, CONTEXT_RETURNS_AT);
IS_AT(returns, CONTEXT_RETURNS);
IS_AT(return_code, CONTEXT_RETURN_CODE);
_Static_assert(sizeof(struct context) <= CONTEXT_INDIRECT, "");
/* An index into the stack of return addresses wraps as a byte does: emit_returns_step(). */
_Static_assert(8 * RETURNS == 256, "");

static const char no_memory[] = "there is no memory for translated code";
/* Its code is the kernel's, which carries it out itself. Nothing else is executable up there. */
static const char vsyscall[] = "the page of vsyscall is called";

/* Contexts that are used again are in the list already. */
static void add_context(struct context *c)
{
	struct runtime *rt = c->runtime;

	cache_lock(c);
	if (!c->listed) {
		c->listed = true;
		c->next = rt->contexts;
		__atomic_store_n(&rt->contexts, c, __ATOMIC_RELEASE);
	}
	cache_unlock(c);
}

/* The table of indirect targets, or both of them, one behind the other. */
static uint64_t *table_of(struct context *c, uint64_t *entries)
{
	uint64_t *table = (uint64_t *)((uint8_t *)c + CONTEXT_INDIRECT);

	*entries = (filter_context_bytes(c->runtime) - CONTEXT_INDIRECT) / sizeof(*table);
	return table;
}

static void fill(uint64_t *table, uint64_t entries)
{
	for (uint64_t i = 0; i < entries; i++)
		if (!table[i])
			__atomic_store_n(&table[i], (uintptr_t)gate_miss, __ATOMIC_RELAXED);
}

/*
 * A first thread has all of its table at once: it will run much. Most others run little, and there
 * may be thousands: a branch that finds zero in theirs comes to unit_fill_table().
 */
static void begin_table(struct context *c)
{
	uint64_t entries, *table = table_of(c, &entries);
	uint8_t resident;

	/* Nobody executes anything at address 0. */
	if (c->runtime->contexts && !(c->runtime->denied & NATIVE_NEEDS_ADVICE) &&
	    sys_call(__NR_mincore, 0, NATIVE_PAGE, (uint64_t)&resident, 0, 0, 0) == -ENOMEM) {
		sys_call(__NR_madvise, (uint64_t)table, entries * sizeof(*table), MADV_DONTNEED, 0,
			 0, 0);
		return;
	}
	memory_ready(c->runtime, table, entries * sizeof(*table));
	fill(table, entries);
}

uint64_t unit_fill_table(struct context *c, uint64_t target)
{
	const uint64_t part = NATIVE_PAGE / sizeof(uint64_t), size = 1u << CONTEXT_INDIRECT_BITS;
	const uint64_t first = target % size / part * part;
	uint64_t entries, *table = table_of(c, &entries);

	for (uint64_t at = first; at < entries; at += size)
		fill(table + at, part);
	return (uintptr_t)gate_miss;
}

void unit_fill_tables(struct context *c)
{
	for (struct context *at = c->runtime->contexts; at; at = at->next) {
		uint64_t entries, *table = table_of(at, &entries);

		fill(table, entries);
	}
}

void unit_begin(struct context *c)
{
	c->gate_exit = (uintptr_t)gate_exit;
	c->gate_indirect = (uintptr_t)gate_indirect;
	c->gate_syscall = (uintptr_t)gate_syscall;
	begin_table(c);
	for (unsigned i = 0; i < RETURNS; i++)
		c->returns[i] = RETURNS_NONE;
	add_context(c);
}

/* The code at r->rip is not translated: it cannot be executed, or the translator does not know it.
 */
static _Noreturn void stop(struct context *c, struct registers *r)
{
	size_t readable;

	path_await(c, r->rip);
	cache_lock(c);
	readable = cache_readable(c, r->rip, 1);
	cache_unlock(c);
	if (changes_refusal(c))
		leave(c, r, changes_refusal(c));
	if (!readable)
		signals_no_code(c, r);
	step_unknown(c, r);
}

/* A pointer that was poisoned came here, not to a store. What is pending is delivered soon. */
static void mend_log(struct context *c)
{
	c->log = unit_real_log(c, c->log);
}

/* Goes on at r->rip in the cache, at the unit's address. 0: there is none. */
static _Noreturn void resume(struct context *c, struct registers *r, uint64_t cache_address)
{
	if (!cache_address)
		leave(c, r, r->rip >> 63 ? vsyscall : no_memory);
	if (leave_is_due(c))
		leave_too(c, r);
	gate_resume(c, r, cache_address);
}

/* An exit was taken for the first time, or as often as it takes to be hot. */
static void lead_on(struct context *c, struct exit *exit, struct unit *to)
{
	const struct cache *cache = c->runtime->cache;
	uint32_t *heat = cache_heat(cache, exit->slot);

	/* All others come here, too, and get the time of what has changed. */
	if (exit->differs || (to->checked && !to->compares) || !changes_seen_by_all(c, to->version))
		return;
	if (exit->side && !exit->counts) {
		*heat = cache->heat - 1;
		exit->counts = true;
		cache_link(c, exit, to, true);
	} else if (!*heat || *heat > cache->heat || !exit->side) {
		/* Two threads may have counted below 0. */
		cache_continue(c, exit);
		changes_mark(c, to->head);
		cache_link(c, exit, to, false);
	}
}

_Noreturn void gate_take_exit(struct context *c, struct registers *r, uint64_t slot)
{
	struct exit *exit = cache_slot_exit(c->runtime->cache, (uint32_t)slot);
	struct unit *u;

	mend_log(c);
	r->rip = exit->target;
	c->traced = exit->traced;
	if (exit->stops)
		c->log = (uintptr_t)packets_stop(c, packets_room(c, r->rip));
	if (exit->kind == EXIT_STOP) {
		if (exit->number)
			exits_log(c, exit->number);
		stop(c, r);
	}
	path_await(c, r->rip);
	cache_lock(c);
	u = cache_unit(c, r->rip);
	if (u && !exit->unit->dead && !exit->stops)
		lead_on(c, exit, u);
	cache_unlock(c);
	resume(c, r, u ? (uintptr_t)u->code : 0);
}

/* Bits 47 to 63 are equal. With five levels of page tables, the processor may allow more. */
static bool is_canonical(uint64_t address)
{
	return address + (UINT64_C(1) << 47) < UINT64_C(1) << 48;
}

/* The prologue of a unit for branches that are traced, or are not. NULL: there is no room. */
static const uint8_t *require_prologue(struct context *c, struct unit *u, bool from_off)
{
	struct prologue *p = from_off ? u->from_off : &u->prologue;
	struct area *area = p && p->start ? NULL : cache_area(c, u->head);

	if (!p)
		p = u->from_off = cache_take(c, &c->runtime->cache->areas[u->area], sizeof(*p));
	if (p && area)
		block_make_prologue(u, p, from_off, area);
	return p ? p->start : NULL;
}

_Noreturn void gate_take_indirect(struct context *c, struct registers *r, uint64_t target)
{
	const bool from_off = !filter_is_on(c);
	uint64_t *table =
	    (uint64_t *)((uint8_t *)c + (from_off ? CONTEXT_INDIRECT_OFF : CONTEXT_INDIRECT));
	const uint8_t *prologue = NULL;
	struct unit *u;

	mend_log(c);
	/* The branch itself faults, or does not: the processor knows. */
	if (!is_canonical(target) && unit_before_branch(c, r))
		signals_step(c, r);
	r->rip = target;
	c->log = unit_arrive(c, c->log, target, true);
	path_await(c, target);
	cache_lock(c);
	u = cache_unit(c, r->rip);
	if (u && (!u->checked || u->compares) && !filter_stops(c->runtime, target))
		prologue = require_prologue(c, u, from_off);
	if (prologue)
		table[target & 0xffff] = (uintptr_t)prologue;
	cache_unlock(c);
	resume(c, r, u ? (uintptr_t)u->code : 0);
}

_Noreturn void gate_take_syscall(struct context *c, struct registers *r, uint64_t slot)
{
	const struct exit *exit = cache_slot_exit(c->runtime->cache, (uint32_t)slot);

	mend_log(c);
	r->rip = exit->target;
	c->traced = !exit->unit->off;
	if (exit->number)
		exits_log(c, exit->number);
	syscall_gate(c, r);
	resume(c, r, unit_enter(c, r->rip));
}

/* A signal came before the cache was entered, perhaps within the gate, where the log was poisoned.
 */
_Noreturn void gate_take_signal(struct context *c, struct registers *r)
{
	mend_log(c);
	signals_head(c, r, true);
}
