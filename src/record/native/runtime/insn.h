/* SPDX-License-Identifier: MIT */
/*
 * Decodes one instruction of 64-bit user code for the translator: how long it is, where its parts
 * are, which registers it touches, and how control leaves it. By tables alone, without libc.
 *
 * A form that the tables do not know is INSN_UNKNOWN, never a guess: the translator then leaves the
 * program before it (leave.c). Tests compare all opcodes, prefixes and operands with Zydis.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_INSN_H
#define PTAH_RECORD_NATIVE_RUNTIME_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSN_MAX_SIZE 15

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
	 * HLT, IN, OUT, CLI, privileged instructions). It is copied: the fault is the program's.
	 */
	INSN_TRAP,
	/*
	 * Instructions that the translator does not carry out: far branches, IRET, SYSENTER,
	 * SYSEXIT, SYSRET, XBEGIN, XABORT, XEND, RSM, and moves to segment registers GS and FS
	 * (8E /4 /5, POP FS and GS, LFS, LGS, WRFSBASE stays INSN_NEXT, WRGSBASE does not), UIRET,
	 * instructions with an operand in GS, SETSSBSY and others of shadow stacks that change
	 * them.
	 */
	INSN_REFUSED,
	/* Not valid in 64-bit mode, or not known (APX, ...). */
	INSN_UNKNOWN,
};

enum insn_encoding {
	INSN_LEGACY = 0,
	INSN_VEX2,
	INSN_VEX3,
	INSN_EVEX,
	INSN_XOP
};

struct insn {
	uint8_t size;	    /* 1..15 */
	uint8_t flow;	    /* enum insn_flow */
	uint8_t encoding;   /* enum insn_encoding */
	uint8_t condition;  /* INSN_JCC, INSN_LOOP */
	uint8_t opcode_map; /* 0: one byte; 1: 0F; 2: 0F 38; 3: 0F 3A; for VEX, EVEX, XOP: theirs */
	uint8_t opcode;	    /* the opcode's last byte */
	uint8_t rex;	    /* the REX byte that counts; 0: none (or not INSN_LEGACY) */
	uint8_t prefixes;   /* number of legacy prefix bytes before REX, VEX, EVEX, XOP or opcode */
	/* Offsets from the first byte; 0: the instruction has no such part. */
	uint8_t opcode_at; /* of `opcode` */
	uint8_t modrm_at;
	uint8_t displacement_at, displacement_size; /* size 0, 1, 4; 8 for MOV moffs */
	uint8_t immediate_at, immediate_size; /* the branch offset of relative branches, too */
	bool operand_16;		      /* 66 */
	bool address_32;		      /* 67 */
	bool rip_relative; /* ModRM of mod 0, rm 5: the displacement counts from the next insn */
	bool rep;	   /* F2 or F3 before a string instruction */
	bool lock;
	bool segment_fs, segment_gs; /* the override that counts */
	/*
	 * Bit n: reads or writes the general register n (0 RAX, 1 RCX, ... 15 R15), as an operand,
	 * in an address, or implicitly (SYSCALL: RCX, R11; CPUID; string instructions; PUSH: RSP).
	 * AH, CH, DH and BH are bits 0 to 3. Some bits may be set without need, where a field names
	 * a vector register or none; none is missing.
	 */
	uint16_t registers;
	uint16_t pops; /* INSN_RET */
	/* Relative branches: the branch offset; rip_relative: the displacement. */
	int64_t offset;
};

/*
 * Decodes the instruction of which the first n bytes can be read; n >= INSN_MAX_SIZE always
 * suffices. Returns true and fills in *insn; false: n < INSN_MAX_SIZE bytes are not all of it.
 * INSN_UNKNOWN: only `flow` is set.
 */
bool insn_decode(const uint8_t *bytes, size_t n, struct insn *insn);

#endif
