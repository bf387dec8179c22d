/* SPDX-License-Identifier: MIT */
/*
 * Interrupts of the bare port: the table, the PMI, and what an instruction that raised #GP does
 * next. Everything else that arrives is a mistake: it stops the trace, is printed, and ends the
 * program; a dump of the memory then has the path that led to it.
 */
#include "port.h"

#define VECTORS	       32u
#define VECTOR_NMI     2u
#define VECTOR_GP      13u
#define CODE_SELECTOR  8u    /* boot.S */
#define GATE_INTERRUPT 0x8eu /* present, ring 0, 64-bit interrupt gate */

struct gate {
	uint16_t offset_low, selector;
	uint8_t stack, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
};

struct __attribute__((packed)) table_pointer {
	uint16_t limit;
	uint64_t base;
};

static struct gate gates[VECTORS];
static struct ptah_engine *traced_by;

void bare_interrupts_begin(void)
{
	const struct table_pointer pointer = {sizeof(gates) - 1, (uintptr_t)gates};

	for (unsigned i = 0; i < VECTORS; i++) {
		uint64_t entry = (uintptr_t)bare_vectors + BARE_ENTRY_BYTES * i;

		gates[i] = (struct gate){
		    .offset_low = (uint16_t)entry,
		    .selector = CODE_SELECTOR,
		    .type = GATE_INTERRUPT,
		    .offset_middle = (uint16_t)(entry >> 16),
		    .offset_high = (uint32_t)(entry >> 32),
		};
	}
	__asm__ volatile("lidt %0" : : "m"(pointer));
}

void bare_pmi_to(struct ptah_engine *engine)
{
	traced_by = engine;
}

/* Where MAY_FAULT() in port.c says that the code at `rip` continues after a #GP; 0: nowhere. */
static uint64_t fixup(uint64_t rip)
{
	extern const struct {
		uint64_t at, next;
	} fixups_begin[]; /* link.ld */
	extern const uint8_t fixups_end[];
	const size_t size = (uintptr_t)fixups_end - (uintptr_t)fixups_begin;

	for (size_t i = 0; i < size / sizeof(fixups_begin[0]); i++)
		if (fixups_begin[i].at == rip)
			return fixups_begin[i].next;
	return 0;
}

void bare_interrupt(struct bare_frame *frame)
{
	uint64_t next;

	if (frame->vector == VECTOR_NMI && traced_by && ptah_engine_pmi(traced_by) != PTAH_PMI_NONE)
		return;
	next = frame->vector == VECTOR_GP ? fixup(frame->rip) : 0;
	if (next) {
		frame->rip = next;
		return;
	}
	/* First of all: what is traced from now on would replace what led here. */
	if (traced_by)
		ptah_engine_stop_here(traced_by);
	bare_print("exception ");
	bare_print_number(frame->vector);
	bare_print(" at ");
	bare_print_hex(frame->rip);
	bare_print(", error code ");
	bare_print_hex(frame->error_code);
	bare_print("\n");
	bare_exit(1);
}
