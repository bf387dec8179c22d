/* SPDX-License-Identifier: MIT */
/*
 * Translates a path: its instructions are copied, and what leads away from it becomes exits, each
 * of which stores the packets of the whole path first. While it runs, nothing else is written.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/copy.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

#define TNT_OUTCOMES 6 /* in a TNT packet of one byte: SDM Vol. 3C, "Short TNT" */

#define IP_BYTES 7 /* of a packet with an address */

/* What is being translated. */
struct block {
	struct context *c;
	struct unit *u;
	struct area *area;
	struct emitter e;
	uint32_t slot_count;	     /* of the area, with those of this unit */
	struct code *code;	     /* of the piece at hand */
	bool has_first;		     /* it is that of the first piece already */
	unsigned piece;		     /* its index */
	uint8_t *holes[UNIT_PIECES]; /* fields that lead to literals */
	uint64_t literals[UNIT_PIECES];
	unsigned hole_count;
	const uint8_t *different;	   /* where a comparison that fails goes on */
	const uint8_t *stubs[UNIT_PIECES]; /* of calls: where returns from them go on */
};

static const uint8_t *bytes_of(const struct block *b, unsigned i)
{
	return (const uint8_t *)(uintptr_t)b->code->addresses[i];
}

static struct piece *piece_of(const struct block *b)
{
	return &b->u->pieces[b->piece];
}

static bool is_last(const struct block *b)
{
	return b->piece + 1 == b->u->piece_count;
}

/* Where in the unit's code the next instruction comes to. */
static uint16_t here(const struct block *b)
{
	return (uint16_t)(b->e.at - b->area->at);
}

/* Packets */

unsigned block_packets(const struct unit *u, unsigned n, unsigned last, uint8_t bytes[UNIT_TNT_MAX])
{
	unsigned size = 0, bits = 1, count = 0;

	for (unsigned i = 0; i < n && !u->off; i++) {
		const unsigned outcome = i + 1 == n ? last : u->pieces[i].outcome;

		if (outcome == OUTCOME_NONE)
			continue;
		bits = bits << 1 | (outcome == OUTCOME_TAKEN);
		if (++count % TNT_OUTCOMES == 0) {
			bytes[size++] = (uint8_t)(bits << 1);
			bits = 1;
		}
	}
	if (bits != 1)
		bytes[size++] = (uint8_t)(bits << 1);
	return size;
}

/* A taken branch by which tracing goes off has a TIP.PGD instead of its outcome. */
unsigned block_exit_packets(const struct exit *exit, unsigned last, uint8_t bytes[UNIT_PACKETS])
{
	const struct unit *u = exit->unit;
	unsigned n;

	if (!exit_crosses(exit))
		return block_packets(u, exit->pieces, last, bytes);
	n = block_packets(u, exit->pieces, OUTCOME_NONE, bytes);
	return n + packets_branch(bytes + n, !u->off, exit->traced, false, exit->target);
}

_Static_assert(UNIT_PIECES <= TNT_OUTCOMES * UNIT_TNT_MAX, "");

/* Copying */

static bool is_copied(unsigned flow)
{
	return flow == INSN_NEXT || flow == INSN_TRAP;
}

/*
 * Copies the straight instructions. One that cannot be copied ends the unit before it; false: the
 * path goes on behind it.
 */
static bool copy_straight(struct block *b)
{
	struct code *code = b->code;
	struct piece *piece = piece_of(b);

	piece->code = b->e.at;
	piece->first = b->u->insn_count;
	for (unsigned i = 0; i < code->count && is_copied(code->insns[i].flow); i++) {
		struct copy copy;

		if (!copy_insn(&b->e, &code->insns[i], bytes_of(b, i), code->addresses[i], &copy)) {
			piece->end = code->addresses[i];
			piece->size = (uint16_t)i;
			code->count = i;
			code->flow = INSN_NEXT;
			code->stopped = true;
			break;
		}
		b->u->insns[b->u->insn_count++] = (struct unit_insn){
		    .size = code->insns[i].code.size,
		    .copied = copy.size,
		    .scratch = copy.scratch,
		    .saved = copy.saved,
		    .restore = copy.restore,
		};
		piece->count++;
	}
	return is_last(b) || !code->stopped;
}

/* Exits */

static struct exit *new_exit(struct block *b, unsigned kind, uint64_t branch, uint64_t target)
{
	struct exit *exit = &b->u->exits[b->u->exit_count++];

	*exit = (struct exit){.unit = b->u,
			      .kind = (uint8_t)kind,
			      .pieces = (uint8_t)(b->piece + (b->code->count != 0)),
			      .branch = branch,
			      .target = target,
			      .traced = !b->u->off};
	return exit;
}

/* The exit is a taken branch to its target. */
static void set_taken(const struct block *b, struct exit *exit)
{
	exit->traced = filter_traces(b->c->runtime, exit->target);
	exit->stops = filter_stops(b->c->runtime, exit->target);
}

/* The log's pointer comes to R11, in units that have the program's there. */
static void take_log(struct block *b, struct exit *exit)
{
	if (b->u->uses_r11)
		emit_log_take(&b->e);
	exit->taken = here(b);
}

static bool has_truth(const struct block *b)
{
	return b->c->runtime->flags & NATIVE_TRUTH;
}

/* Takes a number for the exit, which what was not even begun does not need. */
static void number_exit(struct block *b, struct exit *exit)
{
	if (has_truth(b) && exit->pieces && !b->u->off)
		exit->number = exits_describe(b->c, b->u, exit->pieces, 0, 0);
}

/* Appends it to the log of exits, after other stores and before the log's pointer moves. */
static void emit_number(struct block *b, struct exit *exit, unsigned scratch)
{
	number_exit(b, exit);
	if (exit->number)
		emit_exit_number(&b->e, scratch, exit->number);
}

static uint64_t value_of(const uint8_t bytes[IP_BYTES])
{
	uint64_t value = 0;

	for (unsigned i = 0; i < IP_BYTES; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

/*
 * Stores the packets. Returns how far the pointer has to move. A packet with an address is stored
 * at once, through RCX: the thread may be killed between two stores.
 */
static unsigned emit_packets(struct block *b, struct exit *exit)
{
	uint8_t bytes[UNIT_PACKETS];
	const unsigned n = block_exit_packets(exit, exit->outcome, bytes);
	const unsigned before = exit_crosses(exit) ? n - IP_BYTES : n;

	emit_log_bytes(&b->e, 0, bytes, before);
	if (before == n)
		return n;
	emit_constant_64(&b->e, EMIT_RCX, value_of(bytes + before));
	emit_log_register(&b->e, (int32_t)before, EMIT_RCX);
	return n;
}

static void emit_advance(struct block *b, unsigned n)
{
	if (n)
		emit_log_advance(&b->e, (int32_t)n);
}

/* The stack of return addresses */

static bool has_returns(const struct block *b)
{
	return !b->c->runtime->no_retcomp && !b->u->off;
}

static bool is_call(const struct piece *piece)
{
	return piece->flow == INSN_CALL || piece->flow == INSN_CALL_INDIRECT;
}

/*
 * The calls on the path to an exit that have not returned on it: their pieces. `target`: where the
 * last piece leads. A call of the next instruction is none for a decoder.
 */
static unsigned open_calls(const struct unit *u, unsigned n, unsigned last, uint64_t target,
			   uint8_t list[UNIT_PIECES])
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct piece *piece = &u->pieces[i];
		const bool is_end = i + 1 == n;

		if (is_call(piece) && (is_end ? target : u->pieces[i + 1].start) != piece->end)
			list[count++] = (uint8_t)i;
		if (piece->flow == INSN_RET && count && (!is_end || last == OUTCOME_TAKEN))
			count--;
	}
	return count;
}

static bool has_open_calls(const struct block *b, const struct exit *exit)
{
	uint8_t list[UNIT_PIECES];

	return has_returns(b) &&
	       open_calls(b->u, exit->pieces, exit->outcome, exit->target, list) != 0;
}

/*
 * Puts them on the stack of return addresses, with two registers; `value` is kept at an offset of
 * the context meanwhile.
 */
static void emit_calls(struct block *b, const struct exit *exit, unsigned index, unsigned value,
		       uint32_t keep)
{
	uint8_t list[UNIT_PIECES];
	unsigned n = 0;

	if (has_returns(b))
		n = open_calls(b->u, exit->pieces, exit->outcome, exit->target, list);
	if (n)
		emit_save(&b->e, value, keep);
	for (unsigned i = 0; i < n; i++)
		if (b->stubs[list[i]])
			emit_returns_push(&b->e, index, value, b->u->pieces[list[i]].end,
					  (uintptr_t)b->stubs[list[i]]);
		else
			emit_returns_forget(&b->e, index);
	if (n)
		emit_load(&b->e, value, keep);
}

/* Whether a path can go on behind this exit. */
static bool can_continue(const struct block *b)
{
	unsigned insns = 0;

	for (unsigned i = 0; i <= b->piece; i++)
		insns += b->u->pieces[i].size;
	return b->u->piece_count && b->code->count && b->piece + 2 < UNIT_PIECES &&
	       insns + UNIT_INSNS <= UNIT_PATH;
}

/*
 * The code that an exit without a known target runs: to the gate, with the number of its slot in
 * RCX. Returns it.
 */
static uint8_t *make_stub(struct block *b, struct exit *exit, uint32_t gate)
{
	const struct cache *cache = b->c->runtime->cache;
	const uint32_t n = b->slot_count++;
	uint8_t *stub = area_slot(b->area, n);
	struct emitter e = {stub, stub + EXIT_SLOT, false};

	b->area->slots[n] = exit;
	exit->slot = (uint32_t)(b->area - cache->areas) << CACHE_SLOT_BITS | n;
	emit_save(&e, EMIT_RCX, CONTEXT_RCX);
	emit_constant(&e, EMIT_RCX, exit->slot);
	emit_jmp_context(&e, gate);
	return stub;
}

/* It counts, and goes to the gate when the exit has become hot. */
bool block_make_counter(const struct cache *cache, struct exit *exit, struct area *area)
{
	const size_t saved = 9; /* bytes of the stub's emit_save() */
	struct emitter e = {area->at, area->at + UNIT_ROOM, false};
	const uint8_t *stub = cache_slot(cache, exit->slot);
	uint8_t *counter, *hot;

	emit_align(&e, 4);
	counter = e.at;
	emit_save(&e, EMIT_RCX, CONTEXT_RCX);
	hot = emit_count_down(&e, (uintptr_t)cache_heat(cache, exit->slot));
	emit_load(&e, EMIT_RCX, CONTEXT_RCX);
	emit_jmp_linkable(&e);
	emit_land_8(&e, hot);
	emit_jmp(&e, (uintptr_t)stub + saved);
	if (e.failed || e.at != counter + EXIT_COUNTER ||
	    counter - exit->unit->code != (int32_t)(counter - exit->unit->code))
		return false;
	exit->counter = (int32_t)(counter - exit->unit->code);
	cache_mark(area, counter, exit->unit);
	area->at = e.at;
	return true;
}

/* Where code of an exit begins that a branch leads to. */
static void begin_exit(struct block *b, struct exit *exit)
{
	exit->begin = here(b);
	if (exit->side && !b->e.failed)
		emit_link(b->area->at + exit->side, (uintptr_t)b->e.at);
}

/* The end of an exit of the kind EXIT_DIRECT. */
static void emit_onward(struct block *b, struct exit *exit)
{
	uint8_t *jump = emit_jmp_linkable(&b->e);

	exit->end = here(b);
	if (!b->e.failed)
		emit_link(jump, (uintptr_t)make_stub(b, exit, CONTEXT_GATE_EXIT));
}

/* The field of a branch that may lead to a unit that continues the exit. */
static void set_side(const struct block *b, struct exit *exit, const uint8_t *field)
{
	exit->side = (uint16_t)(field - b->area->at);
}

static void emit_direct(struct block *b, struct exit *exit)
{
	unsigned n;

	begin_exit(b, exit);
	take_log(b, exit);
	exit->saves_rcx = has_truth(b) || has_open_calls(b, exit) || exit_crosses(exit);
	if (exit->saves_rcx)
		emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	exit->again = here(b);
	n = emit_packets(b, exit);
	if (!n && exit->target <= b->u->head)
		emit_log_touch(&b->e); /* so that a loop of such exits can be stopped */
	emit_number(b, exit, EMIT_RCX);
	if (!exit_crosses(exit))
		emit_calls(b, exit, EMIT_RCX, EMIT_RAX, CONTEXT_RAX);
	else if (has_returns(b))
		emit_returns_forget(&b->e, EMIT_RCX);
	emit_advance(b, n);
	if (exit->saves_rcx)
		emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_onward(b, exit);
}

/*
 * Where returns from a call go on, with nothing left to store. By which tracing goes off have a
 * TIP.PGD, and no stub.
 */
static void emit_call_stub(struct block *b, unsigned piece)
{
	const uint64_t address = b->u->pieces[piece].end;
	struct exit *exit;

	if (!filter_traces(b->c->runtime, address))
		return;
	exit = new_exit(b, EXIT_DIRECT, address, address);
	exit->pieces = 0;
	exit->begin = exit->taken = exit->again = here(b);
	b->stubs[piece] = b->e.at;
	emit_onward(b, exit);
}

/* Of all calls that may be open at an exit. */
static void emit_stubs(struct block *b)
{
	const struct unit *u = b->u;
	uint8_t list[UNIT_PIECES];
	unsigned n = 0;

	if (!has_returns(b))
		return;
	if (u->before)
		n = open_calls(u, u->before, u->pieces[u->before - 1].outcome, u->parent->target,
			       list);
	for (unsigned i = 0; i < n; i++)
		emit_call_stub(b, list[i]);
	for (unsigned i = u->before; i < u->piece_count; i++)
		if (is_call(&u->pieces[i]))
			emit_call_stub(b, i);
}

static void emit_to_gate(struct block *b, unsigned kind, uint64_t at, uint32_t gate)
{
	struct exit *exit = new_exit(b, kind, at, at);
	unsigned n;

	begin_exit(b, exit);
	take_log(b, exit);
	exit->again = here(b);
	n = emit_packets(b, exit);
	number_exit(b, exit);
	emit_advance(b, n);
	if (!b->e.failed)
		emit_jmp(&b->e, (uintptr_t)make_stub(b, exit, gate));
	exit->end = here(b);
}

/*
 * RCX has the target, and RAX is saved. The target is looked for by its low 16 bits: what stands in
 * the table compares it with its own address (block_make_prologue()).
 */
static void emit_look_up(struct block *b, struct exit *exit)
{
	const bool is_return = piece_of(b)->flow == INSN_RET;
	unsigned n;

	exit->again = here(b);
	if (b->c->runtime->filters)
		emit_save_8(&b->e, CONTEXT_TRACED, !b->u->off);
	/* The target may be one at which the branch faults: then the gate looks for the branch. */
	emit_save_32(&b->e, CONTEXT_EXIT, (uint32_t)(uintptr_t)b->e.at);
	n = emit_packets(b, exit);
	emit_number(b, exit, EMIT_RAX);
	if (!is_return)
		emit_calls(b, exit, EMIT_RAX, EMIT_RCX, CONTEXT_TARGET);
	else if (has_returns(b))
		emit_returns_forget(&b->e, EMIT_RAX);
	emit_advance(b, n);
	emit_low_16(&b->e, EMIT_RAX, EMIT_RCX);
	emit_jmp_table(&b->e, EMIT_RAX, b->u->off ? CONTEXT_INDIRECT_OFF : CONTEXT_INDIRECT);
	exit->end = here(b);
}

static void take_rax(struct block *b, struct exit *exit)
{
	take_log(b, exit);
	emit_save(&b->e, EMIT_RAX, CONTEXT_RAX);
}

/* The way of a return to the address on top of the stack. */
static void emit_match(struct block *b, struct exit *exit)
{
	unsigned n;

	exit->begin = exit->taken = exit->again = here(b);
	exit->outcome = OUTCOME_TAKEN;
	n = emit_packets(b, exit);
	emit_number(b, exit, EMIT_RAX);
	emit_advance(b, n);
	emit_returns_pop(&b->e);
	emit_load(&b->e, EMIT_RAX, CONTEXT_RAX);
	emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_jmp_context(&b->e, CONTEXT_TARGET);
	exit->end = here(b);
}

/* A return, with RCX saved. match: the exit for the address on top of the stack; or NULL. */
static void emit_return(struct block *b, struct exit *exit, struct exit *match)
{
	emit_pop(&b->e, EMIT_RCX);
	if (exit->pops)
		emit_add(&b->e, EMIT_RSP, EMIT_RSP, exit->pops);
	take_rax(b, exit);
	if (match) {
		uint8_t *same, *other;

		emit_save(&b->e, EMIT_RCX, CONTEXT_TARGET);
		emit_returns_compare(&b->e);
		same = emit_jrcxz(&b->e);
		other = emit_jmp_hole(&b->e);
		emit_land_8(&b->e, same);
		emit_match(b, match);
		emit_land(&b->e, other);
		emit_load(&b->e, EMIT_RCX, CONTEXT_TARGET);
	}
	emit_look_up(b, exit);
}

/* A literal near the code, for a PUSH. */
static void add_literal(struct block *b, uint8_t *field, uint64_t value)
{
	if (!field)
		return;
	b->holes[b->hole_count] = field;
	b->literals[b->hole_count++] = value;
}

/* False: the operand cannot be reached. */
static bool emit_indirect(struct block *b, unsigned i)
{
	const struct insn *insn = &b->code->insns[i];
	const uint64_t at = b->code->addresses[i];
	struct exit *exit = new_exit(b, EXIT_INDIRECT, at, 0);

	begin_exit(b, exit);
	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	if (!copy_target(&b->e, insn, bytes_of(b, i), at))
		return false;
	if (insn->flow == INSN_CALL_INDIRECT)
		add_literal(b, copy_call(&b->e, at + insn->code.size), at + insn->code.size);
	take_rax(b, exit);
	emit_look_up(b, exit);
	return true;
}

/* An exit of this branch that will stand behind the path (emit_sides()). */
static struct exit *new_side(struct block *b, unsigned i, unsigned outcome, uint64_t target)
{
	struct exit *exit = new_exit(b, EXIT_DIRECT, b->code->addresses[i], target);

	exit->outcome = (uint8_t)outcome;
	if (outcome == OUTCOME_TAKEN)
		set_taken(b, exit);
	return exit;
}

/* Both ways of a conditional branch, of which none is part of the path. */
static void emit_conditional(struct block *b, unsigned i)
{
	const struct insn *insn = &b->code->insns[i];
	const uint64_t next = b->code->addresses[i] + insn->code.size;
	struct exit *not_taken = new_side(b, i, OUTCOME_NOT_TAKEN, next);
	struct exit *taken = new_side(b, i, OUTCOME_TAKEN, next + (uint64_t)insn->offset);
	const bool hot = can_continue(b);
	uint8_t *field;

	if (insn->flow == INSN_JCC) {
		field = emit_jcc_linkable(&b->e, insn->condition);
		if (hot)
			set_side(b, not_taken, emit_jmp_linkable(&b->e));
		emit_direct(b, not_taken);
		if (hot)
			set_side(b, taken, field);
		else
			emit_land(&b->e, field);
		emit_direct(b, taken);
		return;
	}
	field = emit_loop_hole(&b->e, insn->condition, insn->code.address_67);
	emit_direct(b, not_taken);
	emit_land(&b->e, field);
	emit_direct(b, taken);
}

/* The end of the path, at a branch that leads to one place, or where the path was cut. */
static void emit_end(struct block *b, uint64_t branch, uint64_t target, unsigned outcome)
{
	struct exit *exit = new_exit(b, EXIT_DIRECT, branch, target);

	exit->outcome = (uint8_t)outcome;
	if (b->code->flow == INSN_CALL || b->code->flow == INSN_JMP || b->code->flow == INSN_RET)
		set_taken(b, exit);
	if (can_continue(b) && (target != b->u->head || b->u->piece_count == 1))
		set_side(b, exit, emit_jmp_linkable(&b->e));
	emit_direct(b, exit);
}

/*
 * A return to where the path goes on; an exit stands for all other addresses. Without touching
 * flags: what is read is 0 at the end if it was that address.
 */
static void emit_known_return(struct block *b, unsigned i, uint64_t address)
{
	const int32_t low = (int32_t)address;
	const int64_t high = (int64_t)(address - (uint64_t)(int64_t)low) >> 32;
	struct exit *exit = new_exit(b, EXIT_INDIRECT, b->code->addresses[i], 0);
	uint8_t *same;

	exit->has_rcx = true;
	exit->pops = b->code->insns[i].pops;
	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_read(&b->e, EMIT_RCX, EMIT_RSP, 0);
	emit_add(&b->e, EMIT_RCX, EMIT_RCX, -low);
	if (high) {
		emit_rotate_32(&b->e, EMIT_RCX);
		emit_add(&b->e, EMIT_RCX, EMIT_RCX, (int32_t)-high);
	}
	same = emit_jrcxz(&b->e);
	set_side(b, exit, emit_jmp_hole(&b->e));
	emit_land_8(&b->e, same);
	emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_add(&b->e, EMIT_RSP, EMIT_RSP, 8 + b->code->insns[i].pops);
}

/* A return at the end of the path. */
static void emit_last_return(struct block *b, unsigned i)
{
	const uint64_t at = b->code->addresses[i];
	uint8_t list[UNIT_PIECES];
	const unsigned n = open_calls(b->u, b->piece + 1u, OUTCOME_NONE, 0, list);
	struct exit *match = NULL, *exit;

	/* Its call is on the path: the stack has not got it. */
	if (n && (has_returns(b) || b->u->off) &&
	    path_can_compare(b->c, b->u->pieces[list[n - 1]].end)) {
		emit_known_return(b, i, b->u->pieces[list[n - 1]].end);
		emit_end(b, at, b->u->pieces[list[n - 1]].end, OUTCOME_TAKEN);
		return;
	}
	if (!n && has_returns(b))
		match = new_exit(b, EXIT_RETURN, at, 0);
	exit = new_exit(b, EXIT_INDIRECT, at, 0);
	exit->pops = b->code->insns[i].pops;
	begin_exit(b, exit);
	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_return(b, exit, match);
}

/* The path's end. False: it cannot be translated. */
static bool emit_exits(struct block *b)
{
	const struct code *code = b->code;
	const unsigned i = code->count - 1;
	const uint64_t at = code->count ? code->addresses[i] : piece_of(b)->start;
	const uint64_t next = code->count ? at + code->insns[i].code.size : at;

	switch (code->flow) {
	case INSN_JCC:
	case INSN_LOOP:
		emit_conditional(b, i);
		return true;
	case INSN_CALL:
		add_literal(b, copy_call(&b->e, next), next);
		emit_end(b, at, next + (uint64_t)code->insns[i].offset, OUTCOME_NONE);
		return true;
	case INSN_JMP:
		emit_end(b, at, next + (uint64_t)code->insns[i].offset, OUTCOME_NONE);
		return true;
	case INSN_JMP_INDIRECT:
	case INSN_CALL_INDIRECT:
		return emit_indirect(b, i);
	case INSN_RET:
		emit_last_return(b, i);
		return true;
	case INSN_SYSCALL:
		emit_to_gate(b, EXIT_SYSCALL, at, CONTEXT_GATE_SYSCALL);
		return true;
	default:
		break;
	}
	if (code->stopped)
		emit_to_gate(b, EXIT_STOP, next, CONTEXT_GATE_EXIT);
	else
		emit_end(b, next, next, OUTCOME_NONE);
	return true;
}

/* On the path */

/* The branch between this piece and the next one. */
static void emit_branch(struct block *b)
{
	const unsigned i = b->code->count - 1;
	const struct insn *insn = &b->code->insns[i];
	const uint64_t next = b->code->addresses[i] + insn->code.size;

	switch (insn->flow) {
	case INSN_CALL:
		add_literal(b, copy_call(&b->e, next), next);
		break;
	case INSN_RET:
		emit_known_return(b, i, b->u->pieces[b->piece + 1].start);
		break;
	case INSN_JCC:
		if (piece_of(b)->outcome == OUTCOME_TAKEN)
			set_side(b, new_side(b, i, OUTCOME_NOT_TAKEN, next),
				 emit_jcc_linkable(&b->e, insn->condition ^ 1));
		else
			set_side(b, new_side(b, i, OUTCOME_TAKEN, next + (uint64_t)insn->offset),
				 emit_jcc_linkable(&b->e, insn->condition));
		break;
	default:
		break;
	}
}

/* The exits that branches on the path lead to, in the order of their branches. */
static void emit_sides(struct block *b)
{
	for (unsigned i = 0; i < b->u->exit_count; i++) {
		struct exit *exit = &b->u->exits[i];

		if (exit->end)
			continue;
		b->piece = exit->pieces - 1u;
		if (exit->kind == EXIT_DIRECT) {
			emit_direct(b, exit);
			continue;
		}
		begin_exit(b, exit);
		exit->side = 0;
		emit_return(b, exit, NULL);
	}
}

static void emit_literals(struct block *b)
{
	for (unsigned i = 0; i < b->hole_count; i++) {
		emit_align(&b->e, 8);
		if (!b->e.failed)
			emit_link(b->holes[i], (uintptr_t)b->e.at);
		emit_value(&b->e, b->literals[i], 8);
	}
}

/* Comparing */

#define COMPARED_MOST 64 /* bytes of code that a unit compares itself */

/* The bytes that it is to be made of, where a unit can compare them; NULL: it cannot. */
static const uint8_t *bytes_to_compare(const struct block *b)
{
	const struct unit *u = b->u;
	const struct piece *piece = u->pieces;

	if (!u->checked || u->uses_r11 || u->piece_count != 1 ||
	    piece->end - piece->start > COMPARED_MOST)
		return NULL;
	return changes_bytes(b->c, piece->start, piece->end);
}

/* Always to the gate, which makes another unit. */
static void emit_different(struct block *b)
{
	struct exit *exit = new_exit(b, EXIT_DIRECT, b->u->head, b->u->head);

	exit->pieces = 0;
	exit->differs = true;
	exit->begin = exit->taken = exit->again = here(b);
	b->different = b->e.at;
	emit_load(&b->e, EMIT_RAX, CONTEXT_RAX);
	emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_onward(b, exit);
}

static void emit_compare_part(struct block *b, uint64_t address, const uint8_t *bytes, unsigned n)
{
	uint64_t value = 0;
	uint8_t *same;

	for (unsigned i = 0; i < n; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	emit_constant_64(&b->e, EMIT_RCX, address);
	emit_read_sized(&b->e, EMIT_RCX, EMIT_RCX, n);
	emit_constant_64(&b->e, EMIT_RAX, -value);
	emit_sum(&b->e, EMIT_RCX, EMIT_RCX, EMIT_RAX);
	same = emit_jrcxz(&b->e);
	emit_jmp(&b->e, (uintptr_t)b->different);
	emit_land_8(&b->e, same);
}

/* Before anything of the unit runs, and without touching flags. */
static void emit_comparison(struct block *b, const uint8_t *bytes)
{
	const struct piece *piece = b->u->pieces;
	const unsigned n = (unsigned)(piece->end - piece->start);
	const unsigned part = n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 1;

	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_save(&b->e, EMIT_RAX, CONTEXT_RAX);
	for (unsigned i = 0; i + part < n; i += part)
		emit_compare_part(b, piece->start + i, bytes + i, part);
	emit_compare_part(b, piece->end - part, bytes + n - part, part);
	emit_load(&b->e, EMIT_RAX, CONTEXT_RAX);
	emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	b->u->compares = true;
}

/* All */

/* Reads the piece; false: its code has changed since the path was chosen. */
static bool read_piece(struct block *b)
{
	const struct piece *piece = piece_of(b);

	if (!b->has_first)
		path_read(b->c, piece->start, b->code);
	b->has_first = false;
	return b->code->end == piece->end && b->code->count == piece->size &&
	       b->code->flow == piece->flow && (!b->code->uses_r11 || b->u->uses_r11);
}

static bool emit_path(struct block *b)
{
	struct unit *u = b->u;
	const uint8_t *compared = bytes_to_compare(b);

	emit_stubs(b);
	if (compared)
		emit_different(b);
	emit_align(&b->e, 16);
	u->code = b->e.at;
	u->code_at = here(b);
	if (compared)
		emit_comparison(b, compared);
	if (u->uses_r11 && !(u->parent && u->parent->unit->uses_r11))
		emit_log_give(&b->e);
	u->first = here(b);
	if (!u->piece_count) {
		b->code->stopped = true;
		return emit_exits(b);
	}
	for (b->piece = u->before; !is_last(b); b->piece++) {
		if (!read_piece(b) || !copy_straight(b))
			return false;
		emit_branch(b);
	}
	if (!read_piece(b) || !copy_straight(b) || !emit_exits(b))
		return false;
	emit_sides(b);
	emit_literals(b);
	return true;
}

/* How many exits it has at most, with the stubs of its calls. */
static unsigned count_exits(const struct block *b)
{
	const struct unit *u = b->u;
	uint8_t list[UNIT_PIECES];
	unsigned n = 2u + u->checked; /* of the last piece, and emit_different() */

	if (has_returns(b) && u->before)
		n += open_calls(u, u->before, u->pieces[u->before - 1].outcome, u->parent->target,
				list);
	for (unsigned i = u->before; i < u->piece_count; i++) {
		const struct piece *piece = &u->pieces[i];

		n += has_returns(b) && is_call(piece);
		n += i + 1 < u->piece_count && (piece->flow == INSN_JCC || piece->flow == INSN_RET);
	}
	return n;
}

/* Memory for a unit along this path. */
static bool prepare(struct block *b, const struct path *path)
{
	struct unit *u = b->u;
	unsigned insns = 1;

	for (unsigned i = u->before; i < path->count; i++)
		insns += path->pieces[i].size;
	u->pieces = cache_take(b->c, b->area, (path->count + !path->count) * sizeof(*u->pieces));
	u->insns = cache_take(b->c, b->area, insns * sizeof(*u->insns));
	if (!u->pieces || !u->insns)
		return false;
	for (unsigned i = 0; i < path->count; i++)
		u->pieces[i] = path->pieces[i];
	if (!path->count)
		u->pieces[0] = (struct piece){.start = u->head, .end = u->head};
	u->piece_count = (uint8_t)path->count;
	u->uses_r11 = path->uses_r11;
	u->exits = cache_take(b->c, b->area, count_exits(b) * sizeof(*u->exits));
	return u->exits != NULL;
}

/* Piece by piece, because what is not used of it need not be zeroed: it has room for long paths. */
static void begin_block(struct block *b, struct context *c, struct unit *u, struct area *area)
{
	b->c = c;
	b->u = u;
	b->area = area;
	b->e = (struct emitter){area->at, area->at + UNIT_ROOM, false};
	b->slot_count = area->slot_count;
	b->piece = 0;
	b->hole_count = 0;
}

bool block_make(struct context *c, struct unit *u, const struct path *path, struct area *area,
		struct code *code, bool has_first)
{
	struct block b;

	begin_block(&b, c, u, area);
	b.code = code;
	b.has_first = has_first;
	for (unsigned i = 0; i < path->count; i++)
		b.stubs[i] = NULL;
	if (!prepare(&b, path) || !emit_path(&b) || b.e.failed)
		return false;
	u->code_end = here(&b);
	cache_mark(area, area->at, u);
	area->at = b.e.at;
	/* Others look for exits meanwhile: cache_find_exit(). */
	__atomic_store_n(&area->slot_count, b.slot_count, __ATOMIC_RELEASE);
	return true;
}

/*
 * The packet that says where an indirect branch has come to, through RAX. Only the first store may
 * fault, the one with the highest addresses.
 */
static void emit_arrival(struct emitter *e, const struct unit *u, struct prologue *p, bool from_off)
{
	uint8_t bytes[PACKETS_BRANCH];
	const unsigned n = packets_branch(bytes, !from_off, !u->off, true, u->head);

	if (!from_off && u->off)
		emit_returns_forget(e, EMIT_RAX);
	if (n)
		emit_constant_64(e, EMIT_RAX, value_of(bytes + n - IP_BYTES));
	p->store = (uint8_t)(e->at - p->start);
	if (!n) {
		emit_log_touch(e); /* so that loops of such branches can be stopped */
		return;
	}
	emit_log_register(e, (int32_t)(n - IP_BYTES), EMIT_RAX);
	emit_log_bytes(e, 0, bytes, n - IP_BYTES);
	emit_log_advance(e, (int32_t)n);
}

/*
 * Where indirect branches come to: RCX has the target, and the context has RCX and RAX. It is this
 * unit's head if their difference is 0. Then the packet is stored; otherwise the gate looks
 * further, with the target in RCX + (-RAX).
 */
bool block_make_prologue(struct unit *u, struct prologue *p, bool from_off, struct area *area)
{
	struct emitter e = {area->at, area->at + UNIT_ROOM, false};
	uint8_t *here;

	emit_align(&e, 16);
	p->start = e.at;
	emit_constant_64(&e, EMIT_RAX, -u->head);
	emit_sum(&e, EMIT_RCX, EMIT_RCX, EMIT_RAX);
	here = emit_jrcxz(&e);
	emit_jmp_context(&e, CONTEXT_GATE_INDIRECT);
	emit_land_8(&e, here);
	emit_arrival(&e, u, p, from_off);
	p->end = (uint8_t)(e.at - p->start);
	emit_load(&e, EMIT_RAX, CONTEXT_RAX);
	emit_load(&e, EMIT_RCX, CONTEXT_RCX);
	emit_jmp(&e, (uintptr_t)u->code);
	p->last = (uint8_t)(e.at - p->start);
	if (e.failed) {
		p->start = NULL;
		return false;
	}
	cache_mark(area, p->start, u);
	area->at = e.at;
	return true;
}
