/* SPDX-License-Identifier: MIT */
/*
 * Copies instructions of the program to the cache, so that they do there exactly what they do at
 * their own address: same registers, flags, memory, faults. Only what depends on RIP has to change.
 *
 * One thing is not the same: the x87 unit remembers the address of its last instruction (FIP),
 * which FNSTENV, FNSAVE, FXSAVE and XSAVE show to the program. It is the copy's; and so are the
 * bits of its last opcode (FOP), where the operand had to be rewritten.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_COPY_H
#define PTAH_RECORD_NATIVE_RUNTIME_COPY_H

#include "record/native/runtime/emit.h"
#include "record/native/runtime/insn.h"

/* The most bytes that one of these functions writes. */
#define COPY_MAX 48

#define COPY_NO_REGISTER 0xff

/*
 * How a copy is made, for pcmap.c; offsets are from its first byte. Most are one instruction, and
 * `scratch` is COPY_NO_REGISTER. Where the operand is out of reach of the copy, a register that
 * the instruction does not use holds its address. Then, at a cache address that lies
 *
 *	before `saved`		nothing has happened
 *	from `saved` on		the program's value of `scratch` is in CONTEXT_RAX
 *	before `restore`	the instruction has not run (or it has faulted)
 *	at `restore`		it has run
 */
struct copy {
	uint8_t size;
	uint8_t scratch; /* a general register, or COPY_NO_REGISTER */
	uint8_t saved, restore;
};

/*
 * Copies an instruction of the flow INSN_NEXT or INSN_TRAP that is at `address` in the program.
 * False: it cannot be copied, and nothing was written.
 */
bool copy_insn(struct emitter *e, const struct insn *insn, const uint8_t *bytes, uint64_t address,
	       struct copy *copy);

/*
 * What CALL does to the stack: pushes the return address of the program. Returns the field of a
 * PUSH that must be led (emit_link()) to a literal with the return address, or NULL if none is
 * needed. Faults where CALL would.
 */
uint8_t *copy_call(struct emitter *e, uint64_t return_address);

/*
 * Loads the target of INSN_JMP_INDIRECT or INSN_CALL_INDIRECT into RCX, whose value for the program
 * the caller has saved in CONTEXT_RCX, but still is in RCX. Faults where the branch would. Other
 * registers, flags and the stack remain as they are; copy_call() comes after this. A target that is
 * not canonical makes the branch itself fault (#GP, with RSP as it was), but not this load: who
 * looks for the target has to see to it. False: this form cannot be translated, and nothing was
 * written.
 */
bool copy_target(struct emitter *e, const struct insn *insn, const uint8_t *bytes,
		 uint64_t address);

#endif
