/* SPDX-License-Identifier: MIT */
/*
 * From a cache address to the program: which of its instructions runs there, where its registers
 * are, and what has been written to the log. Everything that interrupts a unit comes here: faults
 * of the program, the guard page behind a chunk, signals.
 *
 *	copied instructions	the sizes of each instruction, there and in the program
 *	an exit			the branch has not been taken until its last store is done
 *	a prologue		the branch was taken; the TIP is missing before its store
 */
#include "record/native/runtime/copy.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

#define RAX 0
#define RCX 1
#define RSP 4
#define R11 11

#define STOP_BYTES 2

static uint8_t *pointer(uint64_t address)
{
	return (uint8_t *)(uintptr_t)address;
}

static uint64_t address_of(const void *p)
{
	return (uintptr_t)p;
}

static bool is_within(uint64_t at, const uint8_t *start, const uint8_t *end)
{
	return start && at >= address_of(start) && at < address_of(end);
}

/* The address is the poison: a page of the runtime's own code, which nobody may write to. */
static uint64_t poison(const struct context *c)
{
	return c->runtime->blob;
}

uint64_t unit_real_log(struct context *c, uint64_t log)
{
	if (!c->poisoned)
		return log;
	c->poisoned = false;
	/* An exit may have stored its packet before, and have moved the pointer after that. */
	return c->real_log + (log - poison(c));
}

/* R11 has the log's pointer: gives it to the context, and the program's to *r. */
static void give_r11(struct context *c, struct registers *r)
{
	c->log = unit_real_log(c, r->general[R11]);
	r->general[R11] = c->r11;
}

/* Copied instructions */

/* The piece whose copy, or whose branch, is at an address on the unit's path. */
static unsigned piece_at(const struct unit *u, uint64_t at)
{
	unsigned i = u->before;

	while (i + 1 < u->piece_count && at >= address_of(u->pieces[i + 1].code))
		i++;
	return i;
}

/* In the unit's copied code. The register that a rewritten operand takes is put back. */
static uint64_t state_of_copy(struct context *c, const struct unit *u, struct registers *r)
{
	const struct piece *piece = &u->pieces[piece_at(u, r->rip)];
	const uint8_t *at = piece->code;
	uint64_t ip = piece->start;

	for (unsigned i = 0; i < piece->count; i++) {
		const struct unit_insn *n = &u->insns[piece->first + i];
		const uint64_t offset = r->rip - address_of(at);

		if (offset < n->copied) {
			if (n->scratch != COPY_NO_REGISTER && offset >= n->saved)
				r->general[n->scratch] = c->rax;
			return n->scratch != COPY_NO_REGISTER && offset >= n->restore ? ip + n->size
										      : ip;
		}
		at += n->copied;
		ip += n->size;
	}
	return ip; /* the branch after them: JCC, RET, or the PUSH of a call */
}

/* Exits and prologues */

static uint64_t place_of(const struct unit *u, unsigned place)
{
	return address_of(unit_place(u, place));
}

/* Whether R11 has the log's pointer at this address. Otherwise it is in the context. */
static bool has_log(const struct unit *u, const struct exit *e, uint64_t at)
{
	if (!u->uses_r11)
		return true;
	/* At its beginning, a unit that uses R11 may give the pointer to the context first. */
	if (is_within(at, u->code, unit_place(u, u->first)))
		return at == address_of(u->code);
	/* What lies elsewhere, the stub and the counter, comes after it. */
	return e && (at >= place_of(u, e->taken) || at < place_of(u, e->begin));
}

/* The prologue of the unit that has this address; NULL: none. */
static const struct prologue *prologue_at(const struct unit *u, uint64_t at)
{
	const struct prologue *both[] = {&u->prologue, u->from_off};

	for (unsigned i = 0; i < 2; i++)
		if (both[i] && is_within(at, both[i]->start, both[i]->start + both[i]->last))
			return both[i];
	return NULL;
}

bool unit_state(struct context *c, struct registers *r)
{
	const uint64_t at = r->rip;
	const struct unit *u = cache_find(c->runtime, at);
	const struct exit *e;

	if (!u)
		return false;
	if (prologue_at(u, at)) {
		give_r11(c, r);
		r->general[RAX] = c->rax;
		r->general[RCX] = c->rcx;
		r->rip = u->head;
		return false;
	}
	e = cache_find_exit(c->runtime, u, at);
	if (has_log(u, e, at)) {
		give_r11(c, r);
	} else {
		c->log = unit_real_log(c, c->log);
		if (at < place_of(u, u->first))
			r->general[R11] = c->r11; /* it is not there yet */
	}
	if (!e && u->compares && is_within(at, u->code, unit_place(u, u->first))) {
		r->general[RAX] = c->rax;
		r->general[RCX] = c->rcx;
		r->rip = u->head;
		return false;
	}
	if (!e) {
		r->rip = state_of_copy(c, u, r);
		return true;
	}
	/*
	 * What may fault in an exit before its stores is the load of a target, or the push of a
	 * call behind it: RCX has been saved then.
	 */
	if (e->kind == EXIT_INDIRECT && (e->has_rcx || at != place_of(u, e->begin)))
		r->general[RCX] = c->rcx;
	r->rip = e->branch;
	return e->kind == EXIT_INDIRECT;
}

/*
 * What has run at a cache address of the unit: all of so many pieces, and [*start, *end) of the
 * next one.
 */
static unsigned what_ran(struct context *c, const struct unit *u, uint64_t at, uint64_t *start,
			 uint64_t *end)
{
	const struct exit *e = cache_find_exit(c->runtime, u, at);
	struct registers r = {.rip = at};
	unsigned n = u->before;

	*start = *end = 0;
	if (!is_within(at, unit_place(u, u->first), unit_place(u, u->code_end)) || !u->piece_count)
		return n;
	n = e ? e->pieces - 1u : piece_at(u, at);
	*start = u->pieces[n].start;
	*end = e ? e->branch : state_of_copy(c, u, &r);
	return n;
}

void unit_cut(struct context *c, uint64_t cache_address)
{
	const struct unit *u = cache_find(c->runtime, cache_address);
	uint8_t *at, bytes[UNIT_TNT_MAX];
	uint64_t start, end;
	unsigned n, size;

	if (u)
		c->traced = !u->off;
	at = packets_room(c, u ? u->head : 0);
	if (!u)
		return;
	n = what_ran(c, u, cache_address, &start, &end);
	if (c->runtime->flags & NATIVE_TRUTH && !u->off && (n || start != end))
		exits_log(c, exits_describe(c, u, n, start, end));
	size = block_packets(u, n, n ? u->pieces[n - 1].outcome : OUTCOME_NONE, bytes);
	c->log = address_of(packets_put(at, bytes, size));
}

/* The indirect exit that this thread has taken last. */
static const struct exit *last_indirect(const struct context *c, const struct unit **unit)
{
	const struct cache *cache = c->runtime->cache;

	for (uint32_t i = 0; i < __atomic_load_n(&cache->area_count, __ATOMIC_ACQUIRE); i++) {
		const uint64_t start = address_of(cache->areas[i].start);
		const uint64_t at = start + (uint32_t)(c->exit - (uint32_t)start);
		const struct exit *e;

		*unit = cache_find(c->runtime, at);
		e = *unit ? cache_find_exit(c->runtime, *unit, at) : NULL;
		if (e && e->kind == EXIT_INDIRECT)
			return e;
	}
	return NULL;
}

bool unit_before_branch(struct context *c, struct registers *r)
{
	const struct unit *u = NULL;
	const struct exit *e = last_indirect(c, &u);
	const struct piece *piece;

	if (!e)
		return false;
	piece = &u->pieces[e->pieces - 1];
	r->rip = e->branch;
	if (piece->flow == INSN_RET)
		r->general[RSP] -= 8u + e->pops;
	if (piece->flow == INSN_CALL_INDIRECT)
		r->general[RSP] += 8;
	/* What was logged has the branch. At the beginning of a chunk it is the recorder's by now.
	 */
	if (e->number && c->exits_log > address_of(c->logs[NATIVE_LOG_EXITS].chunk)) {
		c->exits_log -= sizeof(e->number);
		exits_log(c, exits_describe(c, u, e->pieces - 1u, piece->start, e->branch));
	}
	return true;
}

/* Faults of the log */

static bool is_poison(const struct context *c, uint64_t address)
{
	return c->poisoned && address - poison(c) < 4096;
}

/*
 * PSB+ at the unit's head, which runs next. Not if another thread has changed its code: at the time
 * in a PSB+ a decoder would go over to the new bytes, before it decodes the unit. This is asked
 * when the time has been taken, because the change gets its time after the unit was forgotten.
 */
static uint8_t *put_psb(struct context *c, uint8_t *at, const struct unit *u)
{
	uint8_t bytes[PACKETS_MAX];
	const unsigned n = (unsigned)(packets_psb(c, bytes, u->head) - bytes);

	return __atomic_load_n(&u->dead, __ATOMIC_ACQUIRE) ? at : packets_put(at, bytes, n);
}

/* A new chunk, in which the unit's packets come first. */
static uint64_t next_chunk(struct context *c, uint64_t log, const struct unit *u)
{
	return address_of(put_psb(c, ring_next(c, NATIVE_LOG_TRACE, pointer(log)), u));
}

/* Stores a packet by hand where the log's pointer is real. */
static uint64_t store(struct context *c, uint64_t log, const struct unit *u, const uint8_t *packet,
		      unsigned n)
{
	if (n && ring_is_guard(c, NATIVE_LOG_TRACE, log + n - 1))
		log = next_chunk(c, log, u);
	return address_of(packets_put(pointer(log), packet, n));
}

/*
 * The packet of a branch that has arrived, by hand: no PSB+ can come before it, because the decoder
 * is at the branch then; so a new chunk begins with the packet, and a PSB+ follows. In all cases
 * there is room for `more` bytes behind it.
 */
static uint64_t put_arrival(struct context *c, uint64_t log, const uint8_t *packet, unsigned n,
			    unsigned more, bool *full)
{
	*full = ring_is_guard(c, NATIVE_LOG_TRACE, log + n + more);
	if (*full)
		log = address_of(ring_next(c, NATIVE_LOG_TRACE, pointer(log)));
	return address_of(packets_put(pointer(log), packet, n));
}

uint64_t unit_arrive(struct context *c, uint64_t log, uint64_t target, bool indirect)
{
	const bool before = filter_is_on(c), after = filter_traces(c->runtime, target);
	const bool stops = filter_stops(c->runtime, target);
	uint8_t packet[PACKETS_BRANCH];
	const unsigned n = packets_branch(packet, before, after, indirect, target);
	bool full;

	log = put_arrival(c, log, packet, n, stops ? STOP_BYTES : 0, &full);
	if (!after)
		returns_forget(c);
	c->traced = after;
	if (full)
		log = address_of(packets_psb(c, pointer(log), target));
	return stops ? address_of(packets_stop(c, pointer(log))) : log;
}

/* At the store of a prologue. */
static void finish_prologue(struct context *c, const struct unit *u, struct registers *r,
			    uint64_t address, uint64_t *head)
{
	const struct prologue *p = prologue_at(u, r->rip);
	const bool poisoned = is_poison(c, address);
	const uint64_t log = poisoned ? unit_real_log(c, r->general[R11]) : r->general[R11];
	uint8_t packet[PACKETS_BRANCH];
	const unsigned n = packets_branch(packet, p == &u->prologue, !u->off, true, u->head);
	bool full;

	r->general[R11] = put_arrival(c, log, packet, n, 0, &full);
	c->traced = !u->off;
	if (full)
		r->general[R11] = address_of(put_psb(c, pointer(r->general[R11]), u));
	r->rip = address_of(p->start + p->end);
	if (!poisoned)
		return;
	c->log = r->general[R11];
	r->general[R11] = c->r11;
	r->general[RAX] = c->rax;
	r->general[RCX] = c->rcx;
	*head = u->head;
}

static bool is_prologue_store(const struct unit *u, uint64_t at)
{
	const struct prologue *p = prologue_at(u, at);

	return p && at == address_of(p->start + p->store);
}

/*
 * At the first store of an exit, with a poisoned pointer: what the exit has to do is done here.
 * Returns where it leads; *r are the program's registers there.
 */
static uint64_t finish_exit(struct context *c, const struct unit *u, const struct exit *e,
			    struct registers *r)
{
	uint64_t target = e->target;
	uint8_t bytes[UNIT_PACKETS];
	const bool is_return = e->kind == EXIT_RETURN;
	const unsigned n = block_exit_packets(e, is_return ? OUTCOME_NONE : e->outcome, bytes);

	c->log = store(c, unit_real_log(c, r->general[R11]), u, bytes, n);
	if (e->number)
		exits_log(c, e->number);
	if (e->kind != EXIT_DIRECT) {
		target = is_return ? c->target : r->general[RCX];
		c->log = unit_arrive(c, c->log, target, true);
		r->general[RAX] = c->rax;
	} else {
		c->traced = e->traced;
		if (e->stops)
			c->log = address_of(packets_stop(c, packets_room(c, target)));
	}
	if (e->kind != EXIT_DIRECT || e->saves_rcx)
		r->general[RCX] = c->rcx;
	r->general[R11] = c->r11;
	returns_forget(c);
	return target;
}

bool unit_log_fault(struct context *c, struct registers *r, uint64_t address, uint64_t *head)
{
	const struct unit *u = cache_find(c->runtime, r->rip);
	const bool poisoned = is_poison(c, address);
	const bool exits = ring_is_guard(c, NATIVE_LOG_EXITS, address);
	const struct exit *e;

	*head = 0;
	if (!u || (!poisoned && !exits && !ring_is_guard(c, NATIVE_LOG_TRACE, address)))
		return false;
	if (is_prologue_store(u, r->rip)) {
		finish_prologue(c, u, r, address, head);
		return true;
	}
	e = cache_find_exit(c->runtime, u, r->rip);
	if (!e || r->rip < place_of(u, e->again))
		return false; /* the program itself has touched that page */
	c->traced = !u->off;
	if (poisoned && e->kind != EXIT_SYSCALL && e->kind != EXIT_STOP) {
		*head = finish_exit(c, u, e, r);
		return true;
	}
	if (poisoned) /* its gate finds what is pending */
		r->general[R11] = unit_real_log(c, r->general[R11]);
	else if (exits)
		c->exits_log = address_of(ring_next(c, NATIVE_LOG_EXITS, pointer(c->exits_log)));
	else
		r->general[R11] = next_chunk(c, r->general[R11], u);
	if (e->kind == EXIT_RETURN && !poisoned && !exits) {
		/* Behind a PSB the stack of return addresses is empty. */
		r->general[RCX] = c->target;
		e++;
	}
	r->rip = place_of(u, e->again);
	return true;
}

void unit_interrupt(struct context *c, uint64_t rip, uint64_t *r11)
{
	const bool gate = is_within(rip, gate_restart, gate_resume_end);
	const struct unit *u = gate ? NULL : cache_find(c->runtime, rip);

	if (c->poisoned || (!u && !gate))
		return;
	c->poisoned = true;
	if (gate ? rip >= address_of(gate_log_loaded)
		 : prologue_at(u, rip) || has_log(u, cache_find_exit(c->runtime, u, rip), rip)) {
		c->real_log = *r11;
		*r11 = poison(c);
	} else {
		c->real_log = c->log;
		c->log = poison(c);
	}
}
