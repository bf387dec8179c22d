/* SPDX-License-Identifier: MIT */
/* Decodes the length (encoding.h) and the control-flow class of one x86 instruction. */
#ifndef PTAH_X86_X86_H
#define PTAH_X86_X86_H

#include "x86/encoding.h"

#include <ptah/event.h>

struct x86_insn {
	uint8_t size;	    /* 1..15 */
	uint8_t insn_class; /* enum ptah_insn_class */
	bool rep;	    /* a string instruction with a rep prefix */
	bool writes_cr3;    /* MOV to CR3 */
	uint64_t target;    /* COND, JUMP, CALL: the address it branches to; 0 otherwise */
};

/*
 * Decodes the instruction at `ip`, of which n bytes can be read. `mode` is an
 * enum ptah_exec_mode. Returns 0, PTAH_E_MORE when the n < 15 bytes are the
 * beginning of a longer instruction, PTAH_E_BAD_INSN, or PTAH_E_INVAL for an
 * unknown mode.
 */
int x86_decode(const uint8_t *bytes, size_t n, uint64_t ip, unsigned mode, struct x86_insn *insn);

#endif
