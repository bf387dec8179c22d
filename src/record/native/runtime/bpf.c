/* SPDX-License-Identifier: MIT */
/*
 * See bpf.h. The instructions are those that seccomp_check_filter() of the kernel lets through.
 * Jumps lead forwards only, so that each way through a program ends; where a condition is unknown,
 * both ways are gone, one after the other.
 */
#include "record/native/runtime/bpf.h"

#include <asm/errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>

#define WAYS  32 /* that wait to be gone */
#define STEPS (1u << 16)

struct word {
	uint32_t value;
	bool known;
};

/* One way through the program. */
struct way {
	uint32_t at; /* of the next instruction */
	struct word a, x, cells[BPF_MEMWORDS];
};

struct run {
	const struct sock_filter *program;
	const struct bpf_call *call;
	uint32_t length, steps, answers;
	unsigned waiting;
	struct way ways[WAYS];
};

static const struct word unknown = {0, false};

static struct word constant(uint32_t value)
{
	return (struct word){value, true};
}

static uint32_t answer_of(uint32_t value)
{
	const uint32_t error = value & SECCOMP_RET_DATA;

	switch (value & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return BPF_ALLOWS;
	case SECCOMP_RET_ERRNO:
		if (!error)
			return BPF_INTERFERES;
		return error == ENOSYS ? BPF_FAILS_NOSYS : BPF_FAILS;
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_USER_NOTIF:
		return BPF_ASKS;
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_KILL_THREAD:
		return BPF_INTERFERES;
	default: /* also what it does not know */
		return BPF_KILLS;
	}
}

/* A division by zero ends the program: see step_arithmetic(). */
static bool calculate(uint32_t operation, uint32_t a, uint32_t b, struct word *result)
{
	*result = unknown;
	switch (operation) {
	case BPF_ADD:
		*result = constant(a + b);
		return true;
	case BPF_SUB:
		*result = constant(a - b);
		return true;
	case BPF_MUL:
		*result = constant(a * b);
		return true;
	case BPF_DIV:
		if (b)
			*result = constant(a / b);
		return true;
	case BPF_OR:
		*result = constant(a | b);
		return true;
	case BPF_AND:
		*result = constant(a & b);
		return true;
	case BPF_XOR:
		*result = constant(a ^ b);
		return true;
	case BPF_NEG:
		*result = constant(0 - a);
		return true;
	case BPF_LSH: /* what larger numbers do depends on the kernel */
		if (b < 32)
			*result = constant(a << b);
		return true;
	case BPF_RSH:
		if (b < 32)
			*result = constant(a >> b);
		return true;
	default:
		return false;
	}
}

/* False: the way ends here. */
static bool step_arithmetic(struct run *run, struct way *way, const struct sock_filter *i)
{
	const uint32_t operation = BPF_OP(i->code);
	const struct word b = i->code & BPF_X ? way->x : constant(i->k);
	const struct word a = way->a;
	bool exists;

	exists = calculate(operation, a.value, b.value, &way->a);
	if (!a.known || (!b.known && operation != BPF_NEG))
		way->a = unknown;
	if (!exists || (operation == BPF_DIV && !(i->code & BPF_X) && !b.value)) {
		run->answers |= BPF_CANNOT_TELL;
		return false;
	}
	if (operation != BPF_DIV || (b.known && b.value))
		return true;
	run->answers |= answer_of(0); /* the kernel has the program return 0 */
	return !b.known;
}

static bool is_true(uint32_t operation, uint32_t a, uint32_t b)
{
	return operation == BPF_JEQ   ? a == b
	       : operation == BPF_JGT ? a > b
	       : operation == BPF_JGE ? a >= b
				      : a & b;
}

/* The way that goes on there is gone later. False: too many are. */
static bool wait_with(struct run *run, const struct way *way, uint32_t at)
{
	/* In most filters, this is all that waits. */
	if (at < run->length && run->program[at].code == (BPF_RET | BPF_K)) {
		run->answers |= answer_of(run->program[at].k);
		return true;
	}
	if (run->waiting == WAYS)
		return false;
	run->ways[run->waiting] = *way;
	run->ways[run->waiting++].at = at;
	return true;
}

static bool step_jump(struct run *run, struct way *way, const struct sock_filter *i)
{
	const uint32_t operation = BPF_OP(i->code);
	const struct word b = i->code & BPF_X ? way->x : constant(i->k);

	if (operation == BPF_JA) {
		if (i->k < run->length) { /* else it is outside, also where it overflows */
			way->at += i->k;
			return true;
		}
	} else if (operation <= BPF_JSET && way->a.known && b.known) {
		way->at += is_true(operation, way->a.value, b.value) ? i->jt : i->jf;
		return true;
	} else if (operation <= BPF_JSET && wait_with(run, way, way->at + i->jt)) {
		way->at += i->jf;
		return true;
	}
	run->answers |= BPF_CANNOT_TELL;
	return false;
}

static bool step_load(struct run *run, struct way *way, const struct sock_filter *i)
{
	const uint32_t n = i->k / 4;
	struct word *to = BPF_CLASS(i->code) == BPF_LD ? &way->a : &way->x;

	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		if (i->k % 4 || n >= BPF_WORDS)
			break;
		*to = (struct word){run->call->words[n], run->call->known >> n & 1};
		return true;
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
		*to = constant(i->k);
		return true;
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
		*to = constant(BPF_WORDS * 4);
		return true;
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			break;
		*to = way->cells[i->k];
		return true;
	default:
		break;
	}
	run->answers |= BPF_CANNOT_TELL;
	return false;
}

/* False: the way ends here. */
static bool step(struct run *run, struct way *way)
{
	const struct sock_filter *i = &run->program[way->at++];

	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
	case BPF_LDX:
		return step_load(run, way, i);
	case BPF_ALU:
		return step_arithmetic(run, way, i);
	case BPF_JMP:
		return step_jump(run, way, i);
	default:
		break;
	}
	if ((i->code == BPF_ST || i->code == BPF_STX) && i->k < BPF_MEMWORDS) {
		way->cells[i->k] = i->code == BPF_ST ? way->a : way->x;
		return true;
	}
	if (i->code == (BPF_MISC | BPF_TAX) || i->code == (BPF_MISC | BPF_TXA)) {
		*(i->code & BPF_TXA ? &way->a : &way->x) = i->code & BPF_TXA ? way->x : way->a;
		return true;
	}
	if (i->code == (BPF_RET | BPF_K))
		run->answers |= answer_of(i->k);
	else if (i->code == (BPF_RET | BPF_A) && way->a.known)
		run->answers |= answer_of(way->a.value);
	else
		run->answers |= BPF_CANNOT_TELL;
	return false;
}

static void follow(struct run *run, struct way *way)
{
	do {
		if (way->at >= run->length || !run->steps) {
			run->answers |= BPF_CANNOT_TELL;
			return;
		}
		run->steps--;
	} while (step(run, way));
}

uint32_t bpf_answers(const struct sock_filter *program, uint32_t length,
		     const struct bpf_call *call)
{
	struct run run; /* not all of it is cleared, which takes longer than most filters */
	struct way way;

	run.program = program;
	run.length = length;
	run.call = call;
	run.steps = STEPS;
	run.answers = 0;
	run.waiting = 0;
	way.at = 0;
	for (unsigned i = 0; i < BPF_MEMWORDS; i++) /* as the kernel begins */
		way.cells[i] = constant(0);
	way.a = way.x = constant(0);
	follow(&run, &way);
	while (run.waiting) {
		way = run.ways[--run.waiting];
		follow(&run, &way);
	}
	return run.answers;
}
