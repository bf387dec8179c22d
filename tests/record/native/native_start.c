/* SPDX-License-Identifier: MIT */
/*
 * A runtime for test_inject.c: it writes into the shared memory that it ran, gives back what the
 * program must not see, and lets it run natively.
 */
#include "record/native/layout.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

/* Loads all registers from the handover. GS is what it was: nobody has changed it. */
static _Noreturn void go_on(struct native_handover *h)
{
	const uint64_t *r = h->registers;
	/* Below: what IRETQ takes. */
	uint64_t frame[5] = {h->rip, 0x33, h->rflags, r[4], 0x2b};
	uint64_t block[21];

	for (unsigned i = 0; i < 16; i++)
		block[i] = r[i];
	for (unsigned i = 0; i < 5; i++)
		block[16 + i] = frame[i];
	__asm__ volatile("mov %0, %%rsp\n"
			 "pop %%rax; pop %%rcx; pop %%rdx; pop %%rbx\n"
			 "lea 8(%%rsp), %%rsp\n" /* RSP itself */
			 "pop %%rbp; pop %%rsi; pop %%rdi\n"
			 "pop %%r8; pop %%r9; pop %%r10; pop %%r11\n"
			 "pop %%r12; pop %%r13; pop %%r14; pop %%r15\n"
			 "iretq\n"
			 :
			 : "r"(block)
			 : "memory");
	__builtin_unreachable();
}

_Noreturn void start(struct native_handover *h)
{
	struct native_header *header = (void *)(uintptr_t)h->shared;

	header->message_head = h->rip;
	header->answered = (uint32_t)h->pid;
	header->exits = h->slot;
	go_on(h);
}
