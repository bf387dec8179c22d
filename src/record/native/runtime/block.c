/* SPDX-License-Identifier: MIT */
/*
 * Translates one basic block: its instructions are copied, and the branch at its end becomes exits,
 * each of which stores the packets of that branch first. While it runs, nothing else is written.
 */
#include "record/native/runtime/copy.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

/* TNT-8 with one outcome: a stop bit, the outcome, and bit 0 clear. */
#define TNT_TAKEN     6
#define TNT_NOT_TAKEN 4

#define TIP_OPCODE 0x6d /* with 48 bits of address, which are extended with their sign */
#define TIP_BYTES  7

#define R11_BIT (1u << 11)

/* What is being translated. */
struct block {
	struct context *c;
	struct unit *u;
	struct emitter e;
	struct insn insns[UNIT_INSNS];
	uint64_t addresses[UNIT_INSNS];
	unsigned count;	   /* of instructions, with the branch */
	unsigned flow;	   /* of the last one; INSN_NEXT: the block is cut here */
	bool stopped;	   /* what follows cannot be translated */
	uint8_t *holes[4]; /* fields that lead to literals */
	uint64_t literals[4];
	unsigned hole_count;
};

/* Reading */

/*
 * The next page is only looked at if the instruction goes on there: it may be data, and a page
 * with code cannot be written to.
 */
static bool read_insn(struct context *c, uint64_t at, struct insn *insn)
{
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)at;
	const size_t left = NATIVE_PAGE - at % NATIVE_PAGE;
	const size_t n = left < INSN_MAX_SIZE ? left : INSN_MAX_SIZE;

	if (insn_decode(bytes, cache_readable(c, at, n), insn))
		return true;
	return n < INSN_MAX_SIZE && insn_decode(bytes, cache_readable(c, at, INSN_MAX_SIZE), insn);
}

/* Reads instructions up to the first branch. */
static void read_block(struct block *b)
{
	uint64_t at = b->u->head;

	b->flow = INSN_NEXT;
	while (b->count < UNIT_INSNS && b->flow == INSN_NEXT) {
		struct insn *i = &b->insns[b->count];

		if (!read_insn(b->c, at, i) || i->flow == INSN_UNKNOWN || i->flow == INSN_REFUSED) {
			b->stopped = true;
			break;
		}
		b->addresses[b->count++] = at;
		b->u->uses_r11 |= (i->registers & R11_BIT) != 0;
		b->flow = i->flow;
		at += i->size;
	}
	b->u->end = at > b->u->head ? at : at + 1;
}

static const uint8_t *bytes_of(const struct block *b, unsigned i)
{
	return (const uint8_t *)(uintptr_t)b->addresses[i];
}

/* Copying */

static bool is_copied(unsigned flow)
{
	return flow == INSN_NEXT || flow == INSN_TRAP;
}

/* Copies the straight instructions. One that cannot be copied ends the block before it. */
static void copy_straight(struct block *b)
{
	for (unsigned i = 0; i < b->count && is_copied(b->insns[i].flow); i++) {
		struct copy copy;

		if (!copy_insn(&b->e, &b->insns[i], bytes_of(b, i), b->addresses[i], &copy)) {
			b->u->end = b->addresses[i] + 1;
			b->count = i;
			b->flow = INSN_NEXT;
			b->stopped = true;
			return;
		}
		b->u->insns[b->u->insn_count++] = (struct unit_insn){
		    .size = b->insns[i].size,
		    .copied = copy.size,
		    .scratch = copy.scratch,
		    .saved = copy.saved,
		    .restore = copy.restore,
		};
	}
}

/* Exits */

static struct exit *new_exit(struct block *b, unsigned kind, uint64_t branch, uint64_t target)
{
	struct exit *exit = &b->u->exits[b->u->exit_count++];

	*exit = (struct exit){.unit = b->u,
			      .kind = (uint8_t)kind,
			      .branch = branch,
			      .target = target,
			      .begin = b->e.at};
	return exit;
}

/* The log's pointer comes to R11, in units that have the program's there. */
static void take_log(struct block *b, struct exit *exit)
{
	if (b->u->uses_r11)
		emit_log_take(&b->e);
	exit->taken = b->e.at;
}

static bool has_truth(const struct block *b)
{
	return b->c->runtime->flags & NATIVE_TRUTH;
}

/* Where the code of the unit ends that has run at its exits. */
static uint64_t end_of_code(const struct block *b)
{
	return b->count ? b->addresses[b->count - 1] + b->insns[b->count - 1].size : b->u->head;
}

/* Takes a number for the exit, which what was not even begun does not need. */
static void number_exit(struct block *b, struct exit *exit, unsigned kind)
{
	if (has_truth(b) && b->count)
		exit->number = exits_describe(b->c, b->u->head, end_of_code(b), kind, exit->target);
}

/* Appends it to the log of exits, after other stores and before the log's pointer moves. */
static void emit_number(struct block *b, struct exit *exit, unsigned scratch)
{
	number_exit(b, exit, exit->kind == EXIT_INDIRECT);
	if (exit->number)
		emit_exit_number(&b->e, scratch, exit->number);
}

/* The code that an exit without a known target runs: to the gate, with the exit in RCX. */
static void emit_stub(struct block *b, struct exit *exit, uint32_t gate)
{
	exit->stub = b->e.at;
	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_constant_64(&b->e, EMIT_RCX, (uintptr_t)exit);
	emit_jmp_context(&b->e, gate);
}

/* packet: a TNT, or 0. */
static void emit_direct(struct block *b, uint64_t branch, uint64_t target, uint8_t packet)
{
	struct exit *exit = new_exit(b, EXIT_DIRECT, branch, target);

	take_log(b, exit);
	exit->packet = packet;
	if (has_truth(b))
		emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	exit->again = b->e.at;
	if (packet)
		emit_log_bytes(&b->e, 0, &packet, 1);
	else if (target <= b->u->head)
		emit_log_touch(&b->e); /* so that a loop of such exits can be stopped */
	emit_number(b, exit, EMIT_RCX);
	if (packet)
		emit_log_advance(&b->e, 1);
	if (has_truth(b))
		emit_load(&b->e, EMIT_RCX, CONTEXT_RCX);
	exit->jump = emit_jmp_linkable(&b->e);
	emit_stub(b, exit, CONTEXT_GATE_EXIT);
	exit->end = b->e.at;
	if (!b->e.failed)
		emit_link(exit->jump, (uintptr_t)exit->stub);
}

static void emit_to_gate(struct block *b, unsigned kind, uint64_t at, uint32_t gate)
{
	struct exit *exit = new_exit(b, kind, at, at);

	take_log(b, exit);
	exit->again = b->e.at;
	number_exit(b, exit, kind == EXIT_SYSCALL);
	emit_stub(b, exit, gate);
	exit->end = b->e.at;
}

/*
 * RCX has the target, which is looked for by its low 16 bits: what stands in the table compares it
 * with its own address (block_make_prologue()).
 */
static void emit_look_up(struct block *b, struct exit *exit)
{
	take_log(b, exit);
	emit_save(&b->e, EMIT_RAX, CONTEXT_RAX);
	exit->again = b->e.at;
	emit_number(b, exit, EMIT_RAX);
	emit_low_16(&b->e, EMIT_RAX, EMIT_RCX);
	emit_jmp_table(&b->e, EMIT_RAX, CONTEXT_INDIRECT);
	exit->end = b->e.at;
}

static void emit_return(struct block *b, unsigned i)
{
	struct exit *exit = new_exit(b, EXIT_INDIRECT, b->addresses[i], 0);

	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	emit_pop(&b->e, EMIT_RCX);
	if (b->insns[i].pops)
		emit_add(&b->e, EMIT_RSP, EMIT_RSP, b->insns[i].pops);
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
	const uint64_t at = b->addresses[i];
	struct exit *exit = new_exit(b, EXIT_INDIRECT, at, 0);

	emit_save(&b->e, EMIT_RCX, CONTEXT_RCX);
	if (!copy_target(&b->e, &b->insns[i], bytes_of(b, i), at))
		return false;
	if (b->flow == INSN_CALL_INDIRECT)
		add_literal(b, copy_call(&b->e, at + b->insns[i].size), at + b->insns[i].size);
	emit_look_up(b, exit);
	return true;
}

/* Both ways of a conditional branch. The one that is taken comes second. */
static void emit_conditional(struct block *b, unsigned i)
{
	const struct insn *insn = &b->insns[i];
	const uint64_t at = b->addresses[i], next = at + insn->size;
	uint8_t *taken;

	if (insn->flow == INSN_JCC) {
		taken = emit_jcc_hole(&b->e, insn->condition);
	} else {
		taken = emit_loop_hole(&b->e, insn->condition, insn->address_32);
	}
	emit_direct(b, at, next, TNT_NOT_TAKEN);
	emit_land(&b->e, taken);
	emit_direct(b, at, next + (uint64_t)insn->offset, TNT_TAKEN);
}

/* The block's end. False: it cannot be translated. */
static bool emit_exits(struct block *b)
{
	const unsigned i = b->count - 1;
	const uint64_t at = b->count ? b->addresses[i] : b->u->head;
	const uint64_t next = b->count ? at + b->insns[i].size : at;

	switch (b->flow) {
	case INSN_JCC:
	case INSN_LOOP:
		emit_conditional(b, i);
		return true;
	case INSN_CALL:
		add_literal(b, copy_call(&b->e, next), next);
		emit_direct(b, at, next + (uint64_t)b->insns[i].offset, 0);
		return true;
	case INSN_JMP:
		emit_direct(b, at, next + (uint64_t)b->insns[i].offset, 0);
		return true;
	case INSN_JMP_INDIRECT:
	case INSN_CALL_INDIRECT:
		return emit_indirect(b, i);
	case INSN_RET:
		emit_return(b, i);
		return true;
	case INSN_SYSCALL:
		emit_to_gate(b, EXIT_SYSCALL, at, CONTEXT_GATE_SYSCALL);
		return true;
	default:
		break;
	}
	if (b->stopped)
		emit_to_gate(b, EXIT_STOP, next, CONTEXT_GATE_EXIT);
	else
		emit_direct(b, next, next, 0);
	return true;
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

/* All */

static bool emit_block(struct block *b)
{
	struct unit *u = b->u;

	emit_align(&b->e, 16);
	u->code = b->e.at;
	if (u->uses_r11)
		emit_log_give(&b->e);
	u->first = b->e.at;
	copy_straight(b);
	if (!emit_exits(b))
		return false;
	emit_literals(b);
	u->code_end = b->e.at;
	return !b->e.failed;
}

bool block_make(struct context *c, struct unit *u, struct area *area)
{
	struct block b = {.c = c, .u = u, .e = {area->at, area->at + UNIT_ROOM, false}};

	read_block(&b);
	u->insns = memory_take(c->runtime, (b.count + 1) * sizeof(*u->insns));
	u->exits = memory_take(c->runtime, 2 * sizeof(*u->exits));
	if (!u->insns || !u->exits)
		return false;
	if (!emit_block(&b))
		return false;
	cache_mark(area, u->code, u);
	area->at = b.e.at;
	return true;
}

/*
 * Where indirect branches come to: RCX has the target, and the context has RCX and RAX. It is this
 * unit's head if their difference is 0. Then the TIP is stored; otherwise the gate looks further,
 * with the target in RCX + (-RAX).
 */
bool block_make_prologue(struct unit *u, struct area *area)
{
	struct emitter e = {area->at, area->at + UNIT_ROOM, false};
	uint8_t *here;

	emit_align(&e, 16);
	u->prologue = e.at;
	emit_constant_64(&e, EMIT_RAX, -u->head);
	emit_sum(&e, EMIT_RCX, EMIT_RCX, EMIT_RAX);
	here = emit_jrcxz(&e);
	emit_jmp_context(&e, CONTEXT_GATE_INDIRECT);
	emit_land_8(&e, here);
	emit_constant_64(&e, EMIT_RAX, TIP_OPCODE | u->head << 8);
	u->prologue_store = e.at;
	emit_log_register(&e, 0, EMIT_RAX);
	emit_log_advance(&e, TIP_BYTES);
	u->prologue_end = e.at;
	emit_load(&e, EMIT_RAX, CONTEXT_RAX);
	emit_load(&e, EMIT_RCX, CONTEXT_RCX);
	emit_jmp(&e, (uintptr_t)u->code);
	u->prologue_last = e.at;
	if (e.failed) {
		u->prologue = NULL;
		return false;
	}
	cache_mark(area, u->prologue, u);
	area->at = e.at;
	return true;
}
