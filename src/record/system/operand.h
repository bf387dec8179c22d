/* SPDX-License-Identifier: MIT */
/*
 * The operand of an instruction that the plugin carries out: a general register or memory. Without
 * QEMU, so that it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_OPERAND_H
#define PTAH_RECORD_SYSTEM_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* QEMU's order of the segment registers. */
enum system_segment {
	SYSTEM_ES,
	SYSTEM_CS,
	SYSTEM_SS,
	SYSTEM_DS,
	SYSTEM_FS,
	SYSTEM_GS,
};

#define SYSTEM_NO_REGISTER (-1)

struct system_operand {
	uint8_t length;	    /* of the instruction */
	uint8_t size;	    /* of the operand, in bytes */
	int8_t number;	    /* the register; SYSTEM_NO_REGISTER: memory */
	int8_t base, index; /* of a memory operand's address; SYSTEM_NO_REGISTER: none */
	uint8_t scale;
	uint8_t segment;   /* enum system_segment */
	bool relative;	   /* to RIP after the instruction */
	bool wide;	   /* the instruction has REX.W */
	uint8_t bits;	   /* of the address: 16, 32, 64 */
	uint64_t constant; /* part of the address */
};

/*
 * The first operand of the instruction with these bytes, of which n can be read. `mode` is an enum
 * ptah_exec_mode. False: it is no such instruction.
 */
bool system_operand(struct system_operand *o, const uint8_t *bytes, size_t n, unsigned mode);

/*
 * The address of a memory operand in its segment. `general`: RAX, RCX, ... in the order of their
 * numbers. `next`: RIP after the instruction.
 */
uint64_t system_operand_offset(const struct system_operand *o, const uint64_t *general,
			       uint64_t next);

#endif
