/* SPDX-License-Identifier: MIT */
/* Runs code with all registers loaded: see machine.h. */
#include "record/native/machine.h"

#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

#define HWCAP2_FSGSBASE_BIT 2u	  /* user code may use WRFSBASE: <asm/hwcap2.h> */
#define MACHINE_STATES	    0xe7u /* x87, SSE, AVX, AVX-512; without PKRU, which could lock us out */

struct machine machine;
static uint8_t signal_stack[256 << 10];

_Static_assert(offsetof(struct machine, running) == 180, "");
_Static_assert(offsetof(struct machine, xsave) == 256, "");
_Static_assert(offsetof(struct machine, host_xsave) == 4352, "");

__asm__(
    ".text\n"
    ".globl machine_run\n.type machine_run, @function\n"
    "machine_run:\n"
    "	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
    "	pushfq\n"
    "	lea machine(%rip), %rbx\n"
    "	mov %rsp, 152(%rbx)\n"
    "	mov 168(%rbx), %eax\n"
    "	mov 172(%rbx), %edx\n"
    "	xsave64 4352(%rbx)\n"
    "	xrstor64 256(%rbx)\n"
    "	rdfsbase %rax\n"
    "	mov %rax, 160(%rbx)\n"
    "	mov 136(%rbx), %rax\n"
    "	wrfsbase %rax\n"
    "	movl $1, 180(%rbx)\n"
    "	pushq 128(%rbx)\n	popfq\n"
    "	mov (%rbx), %rax\n	mov 8(%rbx), %rcx\n	mov 16(%rbx), %rdx\n"
    "	mov 32(%rbx), %rsp\n	mov 40(%rbx), %rbp\n"
    "	mov 48(%rbx), %rsi\n	mov 56(%rbx), %rdi\n	mov 64(%rbx), %r8\n"
    "	mov 72(%rbx), %r9\n	mov 80(%rbx), %r10\n	mov 88(%rbx), %r11\n"
    "	mov 96(%rbx), %r12\n	mov 104(%rbx), %r13\n	mov 112(%rbx), %r14\n"
    "	mov 120(%rbx), %r15\n	mov 24(%rbx), %rbx\n"
    "	jmp *machine+144(%rip)\n"
    ".globl machine_back\n"
    "machine_back:\n"
    "	mov %rbx, machine+24(%rip)\n"
    "	lea machine(%rip), %rbx\n"
    "	movl $0, 180(%rbx)\n"
    "	mov %rax, (%rbx)\n	mov %rcx, 8(%rbx)\n	mov %rdx, 16(%rbx)\n"
    "	mov %rsp, 32(%rbx)\n	mov %rbp, 40(%rbx)\n"
    "	mov %rsi, 48(%rbx)\n	mov %rdi, 56(%rbx)\n	mov %r8, 64(%rbx)\n"
    "	mov %r9, 72(%rbx)\n	mov %r10, 80(%rbx)\n	mov %r11, 88(%rbx)\n"
    "	mov %r12, 96(%rbx)\n	mov %r13, 104(%rbx)\n	mov %r14, 112(%rbx)\n"
    "	mov %r15, 120(%rbx)\n"
    "	mov 152(%rbx), %rsp\n"
    "	pushfq\n	popq 128(%rbx)\n"
    "	rdfsbase %rax\n	mov %rax, 136(%rbx)\n"
    "	mov 160(%rbx), %rax\n	wrfsbase %rax\n"
    "	mov 168(%rbx), %eax\n"
    "	mov 172(%rbx), %edx\n"
    "	xsave64 256(%rbx)\n"
    "	xrstor64 4352(%rbx)\n"
    "	popfq\n"
    "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
    "	ret\n"
    ".size machine_run, . - machine_run\n"
    /* C code needs its own FS base; the fault's is put back, as the kernel does not save it. */
    ".type machine_signal, @function\n"
    "machine_signal:\n"
    "	rdfsbase %rax\n	mov %rax, machine+192(%rip)\n"
    "	mov machine+160(%rip), %rax\n	wrfsbase %rax\n"
    "	sub $8, %rsp\n	call machine_fault\n	add $8, %rsp\n"
    "	mov machine+192(%rip), %rax\n	wrfsbase %rax\n"
    "	ret\n"
    ".size machine_signal, . - machine_signal\n");

void machine_signal(int number, siginfo_t *info, void *context);
void machine_fault(int number, siginfo_t *info, void *context);

__attribute__((used)) void machine_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uint64_t rip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	if (!machine.running) {
		static const char text[] = "the test itself faulted\n";
		if (write(2, text, sizeof(text) - 1) < 0)
			_exit(2);
		_exit(1);
	}
	machine.signal = number;
	machine.code = info->si_code;
	machine.fault_address = (uint64_t)(uintptr_t)info->si_addr;
	machine.fault_rip = rip;
	u->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)machine_back;
}

size_t machine_init(void)
{
	unsigned a, b, c, d;

	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT) ||
	    !__get_cpuid_count(0xd, 0, &a, &b, &c, &d))
		return 0;
	machine.xsave_mask = a & MACHINE_STATES;
	size_t size = 576; /* the legacy area and the header; SDM Vol. 1, "XSAVE Area" */
	for (unsigned i = 2; i < 8; i++) {
		if ((machine.xsave_mask >> i & 1) && __get_cpuid_count(0xd, i, &a, &b, &c, &d) &&
		    a + b > size)
			size = a + b;
	}
	if (size > MACHINE_XSAVE)
		return 0;
	return size;
}

bool machine_catch(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
	stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
	struct sigaction action = {.sa_sigaction = machine_signal,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigfillset(&action.sa_mask);
	if (sigaltstack(&stack, NULL))
		return false;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		if (sigaction(signals[i], &action, NULL))
			return false;
	}
	return true;
}
