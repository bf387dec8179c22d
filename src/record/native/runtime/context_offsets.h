/* SPDX-License-Identifier: MIT */
/* Where generated code and assembly find the members of struct context (runtime.h). */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_CONTEXT_OFFSETS_H
#define PTAH_RECORD_NATIVE_RUNTIME_CONTEXT_OFFSETS_H

/*
 * Offsets from GS, for generated code and assembly. INDIRECT is a table of 65,536 cache addresses,
 * by the low 16 bits of the target.
 */
#define CONTEXT_SELF	      0x00
#define CONTEXT_RCX	      0x08 /* the program's, in exits */
#define CONTEXT_RAX	      0x10 /* the program's, in exits */
#define CONTEXT_LOG	      0x18 /* the log's pointer, in units that use R11 */
#define CONTEXT_R11	      0x20 /* the program's, in all others */
#define CONTEXT_GATE_EXIT     0x28 /* addresses of gates.S */
#define CONTEXT_GATE_INDIRECT 0x30
#define CONTEXT_GATE_SYSCALL  0x38
#define CONTEXT_CONTINUE      0x40 /* where a gate jumps to when it is done */
#define CONTEXT_RSP	      0x48 /* the program's, in gates */
#define CONTEXT_STACK	      0x50 /* end of the runtime's stack */
#define CONTEXT_EXITS_LOG     0x58 /* pointer of the second log (NATIVE_TRUTH) */
#define CONTEXT_INSIDE	      0x60 /* bytes: see struct context */
#define CONTEXT_PENDING	      0x61
#define CONTEXT_TRACED	      0x62
#define CONTEXT_EXIT	      0x64 /* low half of an address in the last indirect exit */
#define CONTEXT_RESUME	      0x68
#define CONTEXT_TARGET	      0x70 /* of a return */
#define CONTEXT_RETURNS_AT    0x78 /* the stack of return addresses: see struct context */
#define CONTEXT_RETURNS	      0x80
#define CONTEXT_RETURN_CODE   0x180
#define CONTEXT_INDIRECT      0x1000
#define CONTEXT_INDIRECT_BITS 16
#define CONTEXT_BYTES	      (CONTEXT_INDIRECT + (8u << CONTEXT_INDIRECT_BITS))
/* With address filters, a second table: for branches that run while nothing is traced. */
#define CONTEXT_INDIRECT_OFF CONTEXT_BYTES
#define CONTEXT_BYTES_OFF    (CONTEXT_BYTES + (8u << CONTEXT_INDIRECT_BITS))

#endif
