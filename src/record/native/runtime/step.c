/* SPDX-License-Identifier: MIT */
/*
 * One instruction of the program that is carried out at its own address instead of in a unit: a
 * store into the page that it stands in, which changes the code behind it, or itself; a branch to
 * an address that no processor allows, or not every one; or an encoding that should fault. It is
 * part of the trace like all others: the packets lead to it, and from it to the next unit's head.
 */
#include "record/native/runtime/filter.h"
#include "record/native/runtime/insn.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/syscalls.h"
#include "record/native/runtime/units.h"

#define PAGE	     UINT64_C(4096)
#define OPCODE_PUSHF 0x9c

/* Reads as many bytes of the instruction at `rip` as can be read. Returns their number. */
static size_t read_bytes(uint64_t rip, uint8_t bytes[X86_MAX_SIZE])
{
	const uint64_t n = PAGE - rip % PAGE;

	if (signals_copy(bytes, (const void *)rip, X86_MAX_SIZE))
		return X86_MAX_SIZE;
	return n < X86_MAX_SIZE && signals_copy(bytes, (const void *)rip, n) ? n : 0;
}

static bool decode_at(uint64_t rip, uint8_t bytes[X86_MAX_SIZE], size_t *n, struct insn *insn)
{
	*n = read_bytes(rip, bytes);
	return insn_decode(bytes, *n, insn) && insn->flow != INSN_UNKNOWN;
}

static char *append(char *to, const char *from)
{
	while (*from)
		*to++ = *from++;
	*to = '\0';
	return to;
}

/* Leaves with a sentence about an instruction. */
static _Noreturn void leave_naming(struct context *c, const struct registers *r,
				   const uint8_t *bytes, size_t n, const char *why)
{
	char name[X86_NAME_MAX], text[16 + X86_NAME_MAX + 32];

	x86_name(name, bytes, n, c->step.from);
	append(append(append(text, "the instruction "), name), why);
	c->log = (uint64_t)packets_async_disable(c, packets_room(c, c->step.from), c->step.from);
	leave_disabled(c, r, text);
}

_Noreturn void step_unknown(struct context *c, const struct registers *r)
{
	uint8_t bytes[X86_MAX_SIZE] = {0};
	struct insn insn;
	size_t n;

	/* One that is translated otherwise: when its page was looked at there was no memory. */
	if (!decode_at(r->rip, bytes, &n, &insn) || insn.flow == INSN_STEPPED ||
	    insn.flow == INSN_NEXT)
		signals_step(c, r);
	c->step.from = r->rip;
	leave_naming(c, r, bytes, insn.code.size, " cannot be translated");
}

void step_begin(struct context *c, const struct registers *r)
{
	struct step *s = &c->step;
	uint8_t bytes[X86_MAX_SIZE] = {0};
	struct insn insn;
	size_t n;

	*s = (struct step){.from = r->rip};
	s->unknown = !decode_at(r->rip, bytes, &n, &insn);
	if (s->unknown)
		return;
	s->repeats = insn.rep;
	s->indirect = insn.flow == INSN_CALL_INDIRECT || insn.flow == INSN_JMP_INDIRECT ||
		      insn.flow == INSN_RET || insn.flow == INSN_STEPPED;
	s->jumps = insn.flow == INSN_CALL || insn.flow == INSN_JMP;
	s->pushes_flags = x86_is_legacy(&insn.code) && insn.code.map == X86_MAP_ONE &&
			  insn.code.opcode == OPCODE_PUSHF;
	/* Before it runs: it may change its own bytes. */
	if (c->runtime->flags & NATIVE_TRUTH && filter_is_on(c))
		s->number = exits_describe(c, NULL, 0, r->rip, r->rip + insn.code.size);
}

/* The program's flags do not have TF, by which the processor stopped behind the instruction. */
static void clear_pushed_trap(const struct registers *r)
{
	uint8_t *at = (uint8_t *)r->general[4] + 1, byte;

	if (!signals_copy(&byte, at, 1))
		return;
	byte &= (uint8_t) ~(FLAG_TRAP >> 8);
	signals_copy(at, &byte, 1);
}

void step_end(struct context *c, const struct registers *r)
{
	const struct step *s = &c->step;
	uint8_t bytes[X86_MAX_SIZE] = {0};

	if (s->unknown)
		leave_naming(c, r, bytes, read_bytes(s->from, bytes), " cannot be decoded");
	if (s->repeats && r->rip == s->from)
		return; /* it is not done yet */
	if (s->pushes_flags)
		clear_pushed_trap(r);
	returns_forget(c); /* it may have been a call or a return */
	if (s->number)
		exits_log(c, s->number);
	if (s->indirect || s->jumps)
		c->log = unit_arrive(c, c->log, r->rip, s->indirect);
}
