/* SPDX-License-Identifier: MIT */
/*
 * Decodes one instruction of 64-bit user code for the translator: its parts (x86/encoding.h), which
 * registers it touches, and how control leaves it. Without libc.
 *
 * What has no encoding is INSN_UNKNOWN, never a guess: the processor, which should raise #UD, is
 * asked (step.c). Tests compare all opcodes, prefixes and operands with Zydis.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_INSN_H
#define PTAH_RECORD_NATIVE_RUNTIME_INSN_H

#include "x86/encoding.h"

/* How control leaves an instruction. */
enum insn_flow {
	INSN_NEXT = 0,	    /* to the next one, as faults and traps aside all others do */
	INSN_JCC,	    /* 70..7F, 0F 80..8F; `condition` is the low half of the opcode */
	INSN_LOOP,	    /* E0..E3 (LOOPNE, LOOPE, LOOP, JRCXZ or JECXZ); `condition` = opcode */
	INSN_JMP,	    /* E9, EB */
	INSN_CALL,	    /* E8 */
	INSN_JMP_INDIRECT,  /* FF /4 */
	INSN_CALL_INDIRECT, /* FF /2 */
	INSN_RET,	    /* C3, C2; `pops` bytes of arguments */
	INSN_SYSCALL,	    /* 0F 05 */
	/*
	 * Ends a unit because it always faults or traps in user mode (INT n, INT3, INTO, INT1, UD2,
	 * HLT, IN, OUT, CLI, XEND, privileged instructions). It is copied: the fault is the program's.
	 */
	INSN_TRAP,
	/*
	 * Instructions that the translator does not carry out: far branches, IRET, SYSENTER,
	 * SYSEXIT, SYSRET, XBEGIN, RSM, and moves to segment registers GS and FS
	 * (8E /4 /5, POP FS and GS, LFS, LGS, WRFSBASE stays INSN_NEXT, WRGSBASE does not), UIRET,
	 * instructions with an operand in GS, SETSSBSY and others of shadow stacks that change
	 * them.
	 */
	INSN_REFUSED,
	/* JMPABS: carried out natively (step.c), because only the processor knows whether it has
	 * it. */
	INSN_STEPPED,
	/* Not valid in 64-bit mode. */
	INSN_UNKNOWN,
};

struct insn {
	struct x86_encoding code;
	uint8_t flow;	   /* enum insn_flow */
	uint8_t condition; /* INSN_JCC, INSN_LOOP */
	bool rep;	   /* F2 or F3 before a string instruction */
	/*
	 * Bit n: reads or writes the general register n (0 RAX, 1 RCX, ... 15 R15), as an operand,
	 * in an address, or implicitly (SYSCALL: RCX, R11; CPUID; string instructions; PUSH: RSP).
	 * AH, CH, DH and BH are bits 0 to 3. Some bits may be set without need, where a field names
	 * a vector register or none; none is missing. Registers 16 to 31 of APX are not here,
	 * because the runtime uses none of them.
	 */
	uint16_t registers;
	uint16_t pops; /* INSN_RET */
	/* Relative branches: the branch offset; code.rip_relative: the displacement. */
	int64_t offset;
};

/*
 * Decodes the instruction of which the first n bytes can be read; n >= X86_MAX_SIZE always
 * suffices. Returns true and fills in *insn; false: n < X86_MAX_SIZE bytes are not all of it.
 * INSN_UNKNOWN: only `flow` is set.
 */
bool insn_decode(const uint8_t *bytes, size_t n, struct insn *insn);

#endif
