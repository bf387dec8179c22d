/* SPDX-License-Identifier: MIT */
/*
 * What a system call leaves in the registers: RAX the result, RCX the address behind it, R11 the
 * flags, and all others what they were.
 */
#include "report.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct state {
	uint64_t general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t flags;
};

/* Not static: the assembly below uses them by name. */
extern struct state before, after;
extern const char behind[];
struct state before, after;

/* Makes a call with the registers of `before`, apart from RSP. */
__asm__(".text\n"
	"call_kernel:\n\t"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n\t"
	"mov before+0(%rip), %rax; mov before+8(%rip), %rcx; mov before+16(%rip), %rdx\n\t"
	"mov before+24(%rip), %rbx; mov before+40(%rip), %rbp; mov before+48(%rip), %rsi\n\t"
	"mov before+56(%rip), %rdi; mov before+64(%rip), %r8; mov before+72(%rip), %r9\n\t"
	"mov before+80(%rip), %r10; mov before+88(%rip), %r11; mov before+96(%rip), %r12\n\t"
	"mov before+104(%rip), %r13; mov before+112(%rip), %r14; mov before+120(%rip), %r15\n\t"
	"mov %rsp, before+32(%rip)\n\t"
	"pushq before+128(%rip); popfq\n\t"
	"syscall\n"
	"behind:\n\t"
	"mov %rsp, after+32(%rip)\n\t"
	"pushfq; popq after+128(%rip)\n\t"
	"mov %rax, after+0(%rip); mov %rcx, after+8(%rip); mov %rdx, after+16(%rip)\n\t"
	"mov %rbx, after+24(%rip); mov %rbp, after+40(%rip); mov %rsi, after+48(%rip)\n\t"
	"mov %rdi, after+56(%rip); mov %r8, after+64(%rip); mov %r9, after+72(%rip)\n\t"
	"mov %r10, after+80(%rip); mov %r11, after+88(%rip); mov %r12, after+96(%rip)\n\t"
	"mov %r13, after+104(%rip); mov %r14, after+112(%rip); mov %r15, after+120(%rip)\n\t"
	"cld\n\t"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n\t"
	"ret\n");

void call_kernel(void);

static void check(const char *name, uint64_t number, uint64_t flags)
{
	for (unsigned i = 0; i < 16; i++)
		before.general[i] = UINT64_C(0x1111111111111111) * i;
	before.general[0] = number;
	before.general[7] = (uint64_t)-1; /* RDI: no descriptor, no process */
	before.flags = flags;
	call_kernel();
	printf("%s: result %s, RCX %s, R11 %s, flags %s, others", name,
	       (int64_t)after.general[0] < 0 ? strerror((int)-after.general[0]) : "not negative",
	       after.general[1] == (uint64_t)behind ? "right" : "wrong",
	       after.general[11] == after.flags ? "right" : "wrong",
	       after.flags == flags ? "right" : "wrong");
	for (unsigned i = 2; i < 16; i++)
		if (i != 11 && before.general[i] != after.general[i])
			printf(" %u wrong", i);
	printf("\n");
}

int main(void)
{
	const uint64_t cleared = 0x202, set = 0x202 | 0xcd5; /* CF PF AF ZF SF DF OF */

	for (int i = 0; i < 3; i++) {
		check("getpid", SYS_getpid, cleared);
		check("getpid with flags", SYS_getpid, set);
		check("close", SYS_close, set);
		check("mmap", SYS_mmap, set);
		check("rt_sigaction", SYS_rt_sigaction, set);
		check("32 bits of a number", SYS_getpid | UINT64_C(0xabcd) << 32, cleared);
	}
	return 0;
}
