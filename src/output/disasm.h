/* SPDX-License-Identifier: MIT */
/* Instructions as text. */
#ifndef PTAH_OUTPUT_DISASM_H
#define PTAH_OUTPUT_DISASM_H

#include <ptah/flow.h>

/*
 * Writes an instruction in Intel syntax, or in AT&T syntax: at most n bytes with the NUL. One that
 * Zydis does not know gives "(unknown)" and its bytes; bytes that are no instruction give "(bad)".
 */
void disasm(const struct ptah_insn *insn, bool att, char *text, size_t n);

/* How many bytes the instruction has that begins `bytes`. 0: it is none, or has more than n. */
unsigned disasm_size(enum ptah_exec_mode mode, const uint8_t *bytes, size_t n);

/* What an instruction of 64-bit code does to the flow of execution. */
struct disasm_flow {
	uint8_t size;	    /* 0: the bytes are no instruction */
	uint8_t insn_class; /* enum ptah_insn_class */
	uint8_t condition;  /* of a conditional branch: the low half of its opcode */
	bool stops;	    /* execution never continues after it: UD2, HLT */
	bool has_target;
	int64_t displacement; /* with has_target: from the next instruction to the target */
};

void disasm_flow(const uint8_t *bytes, size_t n, struct disasm_flow *flow);

#endif
