/* SPDX-License-Identifier: MIT */
/*
 * The parts of the bare port: the engine's callbacks, interrupts, memory, the serial line. One
 * processor in 64-bit mode, every address mapped to itself, no operating system.
 */
#ifndef PTAH_PORT_BARE_PORT_H
#define PTAH_PORT_BARE_PORT_H

#include <ptah/engine/engine.h>

/* The callbacks. Their `port` is not used. */
extern const struct ptah_hal bare_port;

/* What boot.S pushes at an interrupt, from the last register to the first. */
struct bare_frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
	uint64_t vector, error_code;
	uint64_t rip, cs, rflags, rsp, ss; /* by the processor */
};

/* Fills in the table of interrupts and loads it. */
void bare_interrupts_begin(void);
/* boot.S: the entries of vectors 0 to 31, BARE_ENTRY_BYTES each. */
extern const uint8_t bare_vectors[];
#define BARE_ENTRY_BYTES 16u
/* Called by boot.S, with interrupts off. */
void bare_interrupt(struct bare_frame *frame);

/* From now on PMIs, which come as NMIs, go to this engine. NULL: they are ignored. */
void bare_pmi_to(struct ptah_engine *engine);

/* Gives the memory from the end of the image to `end` to bare_port.alloc(). */
void bare_memory_begin(uint64_t end);
/* Pages that are allocated. */
size_t bare_memory_used(void);

/* The serial line COM1. */
void bare_serial_begin(void);
void bare_print(const char *text);
void bare_print_number(uint64_t number);
void bare_print_hex(uint64_t number);

/* Copies bytes to QEMU's debug console (-device isa-debugcon), if there is one. */
void bare_export(const void *bytes, size_t n);

/* Ends QEMU by its device isa-debug-exit, with exit status 2 * `value` + 1; without it, halts. */
_Noreturn void bare_exit(unsigned value);

static inline void bare_out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline void bare_out32(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}

static inline uint8_t bare_in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

#endif
