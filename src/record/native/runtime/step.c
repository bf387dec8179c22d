/* SPDX-License-Identifier: MIT */
/*
 * One instruction of the program that is carried out at its own address instead of in a unit: a
 * store into the page that it stands in, which changes the code behind it, or itself; or a branch
 * to an address that no processor allows, or not every one. It is part of the trace like all
 * others: the packets lead to it, and from it to the next unit's head.
 */
#include "record/native/runtime/filter.h"
#include "record/native/runtime/insn.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/units.h"

#define PAGE	     UINT64_C(4096)
#define OPCODE_PUSHF 0x9c

void step_begin(struct context *c, const struct registers *r)
{
	struct step *s = &c->step;
	uint8_t bytes[INSN_MAX_SIZE] = {0};
	uint64_t n = INSN_MAX_SIZE;
	struct insn insn;

	*s = (struct step){.from = r->rip};
	if (!signals_copy(bytes, (const void *)r->rip, n)) {
		n = PAGE - r->rip % PAGE;
		if (n > INSN_MAX_SIZE || !signals_copy(bytes, (const void *)r->rip, n))
			return;
	}
	if (!insn_decode(bytes, n, &insn) || insn.flow == INSN_UNKNOWN)
		return;
	s->repeats = insn.rep;
	s->indirect = insn.flow == INSN_CALL_INDIRECT || insn.flow == INSN_JMP_INDIRECT ||
		      insn.flow == INSN_RET;
	s->jumps = insn.flow == INSN_CALL || insn.flow == INSN_JMP;
	s->pushes_flags =
	    insn.encoding == INSN_LEGACY && !insn.opcode_map && insn.opcode == OPCODE_PUSHF;
	/* Before it runs: it may change its own bytes. */
	if (c->runtime->flags & NATIVE_TRUTH && filter_is_on(c))
		s->number = exits_describe(c, NULL, 0, r->rip, r->rip + insn.size);
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
