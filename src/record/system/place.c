/* SPDX-License-Identifier: MIT */
/*
 * Where a virtual CPU is: address, code segment, privilege, mode, address space.
 *
 * QEMU exports no function that returns a segment's base and attributes. They are in its
 * CPUX86State, in an array of six segment registers, whose place there is found by its content: a
 * code segment with the selector and the base that are known otherwise.
 */
#include "record/system/system.h"

#include <stdlib.h>

/* QEMU's copy of a segment register. `attributes` is the upper half of the descriptor. */
struct segment {
	uint32_t selector;
	uint64_t base;
	uint32_t limit, attributes;
};

/* QEMU's order: ES, CS, SS, DS, FS, GS. */
#define CS  1
#define SS  2
#define IDT 9 /* LDT, TR, GDT and IDT follow */

#define ATTRIBUTE_CODE 0x9800u /* present, no system segment, code */
#define ATTRIBUTE_L    (1u << 21)
#define ATTRIBUTE_D    (1u << 22)
#define ATTRIBUTE_DPL  13 /* of 2 */

#define CR0_PE	  1u
#define CR0_PG	  (1u << 31)
#define CR4_PAE	  (1u << 5)
#define EFER_LMA  0x400u
#define EFLAGS_IF (1u << 9)
#define EFLAGS_VM (1u << 17)
#define SEARCHED  1024u /* bytes of a CPUX86State */
#define NOT_FOUND SIZE_MAX

static size_t segments_at = NOT_FOUND; /* offset of the array */

static const struct segment *segment(const struct system_vcpu *v, unsigned which)
{
	const uint8_t *array = (const uint8_t *)v->general + segments_at;

	return (const struct segment *)array + which;
}

void system_find_segments(const struct system_vcpu *v, uint64_t base)
{
	const uint32_t selector = (uint32_t)system_read(v->cpu, HOST_CS);

	for (size_t at = 0; segments_at == NOT_FOUND && at < SEARCHED; at += 8) {
		const struct segment *s =
		    (const struct segment *)((const uint8_t *)v->general + at) + CS;

		if (s->selector == selector && s->base == base &&
		    (s->attributes & ATTRIBUTE_CODE) == ATTRIBUTE_CODE)
			segments_at = at;
	}
	if (segments_at != NOT_FOUND)
		return;
	system_say("this QEMU keeps its segment registers elsewhere: Debian's 7.2 is known to "
		   "work");
	exit(1);
}

uint64_t system_segment_base(const struct system_vcpu *v, unsigned mode, unsigned which)
{
	return mode == PTAH_EXEC_64 && which < SYSTEM_FS ? 0 : segment(v, which)->base;
}

void system_find_place(const struct system_vcpu *v, struct system_place *place)
{
	const uint32_t flags = (uint32_t)system_read(v->cpu, HOST_FLAGS);
	const struct segment *cs = segment(v, CS);
	const bool virtual_8086 = flags & EFLAGS_VM;
	const bool long_mode = system_read(v->cpu, HOST_EFER) & EFER_LMA;

	place->base = cs->base;
	place->cpl = virtual_8086 ? 3 : segment(v, SS)->attributes >> ATTRIBUTE_DPL & 3;
	place->interrupts = flags & EFLAGS_IF;
	place->cr3 = system_read(v->cpu, HOST_CR3);
	place->pae = !long_mode && system_read(v->cpu, HOST_CR0) & CR0_PG &&
		     system_read(v->cpu, HOST_CR4) & CR4_PAE;
	if (long_mode && !virtual_8086 && cs->attributes & ATTRIBUTE_L) {
		place->mode = PTAH_EXEC_64;
		place->base = 0;
	} else {
		place->mode =
		    !virtual_8086 && cs->attributes & ATTRIBUTE_D ? PTAH_EXEC_32 : PTAH_EXEC_16;
	}
	place->ip = system_read(v->cpu, HOST_RIP) + place->base;
	if (place->mode != PTAH_EXEC_64)
		place->ip = (uint32_t)place->ip;
}

void system_find_table(const struct system_vcpu *v, struct system_table *table)
{
	const struct segment *idt = segment(v, IDT);

	table->base = idt->base;
	table->limit = idt->limit;
	table->real_mode = !(system_read(v->cpu, HOST_CR0) & CR0_PE);
	table->long_mode = system_read(v->cpu, HOST_EFER) & EFER_LMA;
}
