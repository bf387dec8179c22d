/* SPDX-License-Identifier: MIT */
/*
 * What a handler sees of the registers when a branch faults: by its operand, and by the stack. All
 * registers have known values, so that one that is lost shows.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Not static: the assembly below uses them by name. */
extern uint64_t stack, target;
extern const char call_register[], call_memory[], call_direct[], jump_memory[], return_here[],
    jump_target[];
uint64_t stack, target;

/* Each begins with all registers set, and the stack and the target at the end. */
#define BEGIN                                                                                      \
	"mov $0x101, %eax; mov $0x102, %ecx; mov $0x103, %edx; mov $0x104, %ebx\n\t"               \
	"mov $0x105, %ebp; mov $0x106, %esi; mov $0x107, %edi; mov $0x108, %r8d\n\t"               \
	"mov $0x109, %r9d; mov $0x10a, %r10d; mov $0x10b, %r11d; mov $0x10c, %r12d\n\t"            \
	"mov $0x10d, %r13d; mov $0x10e, %r14d; mov $0x10f, %r15d; mov stack(%rip), %rsp\n\t"

__asm__(".text\n"
	"call_register: " BEGIN "mov target(%rip), %rax; call *%rax\n"
	"call_memory: " BEGIN "call *target(%rip)\n"
	"call_direct: " BEGIN "call call_register\n"
	"jump_memory: " BEGIN "jmp *0x10(%rdx)\n"
	"jump_target: " BEGIN "jmp *target(%rip)\n"
	"return_here: " BEGIN "ret\n");

static char other_stack[1 << 16];

static void on_fault(int number, siginfo_t *info, void *context)
{
	static const int all[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RBP,
				  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10,
				  REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	printf("signal %d, code %d, RSP moved by %lld, registers", number, info->si_code,
	       (long long)r[REG_RSP] - (long long)stack);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (r[all[i]] != (greg_t)(0x101 + i) && r[all[i]] != (greg_t)target)
			printf(" %zu: %llx", i, (unsigned long long)r[all[i]]);
		else
			printf(" %s", r[all[i]] == (greg_t)target ? "target" : "right");
	/* Two bytes of the instruction say which it is. */
	printf(", at %02x %02x\n", *(uint8_t *)r[REG_RIP], *(uint8_t *)(r[REG_RIP] + 1));
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *const cases[] = {call_register, call_memory, call_direct, jump_memory,
				     return_here,
				     /* To an address that is not canonical. */
				     call_register, call_memory, jump_target, return_here};
	const unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const stack_t other = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	char *pages = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (n >= sizeof(cases) / sizeof(*cases) || pages == MAP_FAILED ||
	    mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE) || sigaltstack(&other, NULL) ||
	    sigaction(SIGSEGV, &action, NULL))
		return 1;
	/* At the lower end of a page: a push faults, and so does a pop one page below. */
	stack = (uint64_t)pages + (n == 4 ? 0 : 4096);
	target = (uint64_t)call_register;
	if (n > 4) {
		stack += 2048;
		target |= UINT64_C(1) << 62;
		*(uint64_t *)stack = target;
	}
	__asm__ volatile("jmp *%0" : : "r"(cases[n]) : "memory");
	return 1;
}
