/* SPDX-License-Identifier: MIT */
/* The kind of an instruction, for recorders that observe user code alone. */
#ifndef PTAH_RECORD_SIMULATED_INSN_H
#define PTAH_RECORD_SIMULATED_INSN_H

#include "x86/x86.h"

/* A note for an instruction (x86_name()) that ran, although the decoder takes it for undefined. */
#define INSN_NOTE_UNKNOWN "the instruction %s cannot be decoded: the trace has a gap there"

/* Kinds: those of enum ptah_insn_class, and these. */
enum insn_kind {
	/* An instruction with a rep prefix, which is observed once per iteration. */
	KIND_REP = PTAH_INSN_CLASS_MAX,
	KIND_ZERO_CALL, /* a direct call to the next instruction */
	KIND_KERNEL,	/* INT n and the like: leaves user mode */
	KIND_MAX
};

/* The kind of the instruction with these bytes; `end` is the address after it. */
static inline unsigned insn_kind(const struct x86_insn *insn, const uint8_t *bytes, uint64_t end)
{
	if (insn->rep)
		return KIND_REP;
	if (insn->insn_class == PTAH_INSN_CALL && insn->target == end)
		return KIND_ZERO_CALL;
	if (insn->insn_class == PTAH_INSN_PTWRITE)
		return PTAH_INSN_OTHER;
	/*
	 * FF /3 is a far call that stays in user mode; the others of this class (INT n, SYSCALL and
	 * so on) leave it.
	 */
	if (insn->insn_class == PTAH_INSN_FAR_CALL) {
		for (unsigned i = 0; i < insn->size; i++) {
			if (bytes[i] == 0xff)
				return PTAH_INSN_FAR_CALL;
			if (bytes[i] == 0xcc || bytes[i] == 0xcd || bytes[i] == 0xf1 ||
			    bytes[i] == 0x0f)
				return KIND_KERNEL;
		}
	}
	return insn->insn_class;
}

/* Whether an instruction of KIND_KERNEL is INT n, INT3, INTO or INT1, not SYSCALL or SYSENTER. */
static inline bool insn_is_interrupt(const uint8_t *insn)
{
	while (*insn == 0x66 || *insn == 0x67 || *insn == 0xf2 || *insn == 0xf3 ||
	       (*insn & 0xf0) == 0x40)
		insn++;
	return *insn != 0x0f;
}

#endif
