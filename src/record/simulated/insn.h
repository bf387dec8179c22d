/* SPDX-License-Identifier: MIT */
/* What an instruction means for a recorder that watches user code alone. */
#ifndef PTAH_RECORD_SIMULATED_INSN_H
#define PTAH_RECORD_SIMULATED_INSN_H

#include "x86/x86.h"

/* Kinds: enum ptah_insn_class, and these. */
enum insn_kind {
	KIND_REP = PTAH_INSN_CLASS_MAX, /* ends with a rep instruction, one iteration a time */
	KIND_ZERO_CALL,			/* a direct call to the next instruction */
	KIND_KERNEL,			/* INT n and the like: leaves user mode */
	KIND_MAX
};

/* `end`: behind the instruction, of which these are the bytes. */
static inline unsigned insn_kind(const struct x86_insn *insn, const uint8_t *bytes, uint64_t end)
{
	if (insn->rep)
		return KIND_REP;
	if (insn->insn_class == PTAH_INSN_CALL && insn->target == end)
		return KIND_ZERO_CALL;
	if (insn->insn_class == PTAH_INSN_PTWRITE)
		return PTAH_INSN_OTHER;
	/* Far calls through a gate leave user mode; FF /3 stays. */
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

/* INT n, INT3, INTO, INT1 and not SYSCALL or SYSENTER, of which both are far calls. */
static inline bool insn_is_interrupt(const uint8_t *insn)
{
	while (*insn == 0x66 || *insn == 0x67 || *insn == 0xf2 || *insn == 0xf3 ||
	       (*insn & 0xf0) == 0x40)
		insn++;
	return *insn != 0x0f;
}

#endif
