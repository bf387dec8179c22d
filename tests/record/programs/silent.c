/* SPDX-License-Identifier: MIT */
/*
 * Silent loops: loops whose branches are all jumps and calls to fixed addresses. They end by a
 * fault after a known number of passes, or by a timer's signal.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE  4096
#define BYTES ((uint8_t *)0x60000000)

/* After one of these the program continues at `after`, by the handler. */
void walk(void *from), descend(void *stack_end), spin(void), stay(void), bounce(void *from);

__asm__(".pushsection .text\n"
	".macro function name\n"
	"	.globl \\name\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	".endm\n"
	"function walk\n" /* a pass for each byte that is mapped, then a fault */
	"1:	mov (%rdi), %al\n"
	"	inc %rdi\n"
	"	jmp 1b\n"
	"function descend\n" /* the stack is this page: 512 words */
	"	mov %rdi, %rsp\n"
	"	call sink\n"
	"function sink\n"
	"	push %rax\n"
	"	call sink\n"
	"function spin\n"
	"1:	inc %rax\n"
	"	jmp 1b\n"
	"function stay\n"
	"1:	jmp 1b\n"
	"function bounce\n" /* backwards twice in each pass, and forwards */
	"	jmp 3f\n"
	"1:	inc %rdi\n"
	"	jmp 4f\n"
	"	ud2\n"
	"2:	mov (%rdi), %al\n"
	"	jmp 1b\n"
	"	ud2\n"
	"3:	jmp 2b\n"
	"4:	nop\n"
	"	jmp 3b\n"
	".popsection\n");

static void on_alarm(int number)
{
	(void)number;
	_exit(0);
}

static void after(void)
{
	_exit(0);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)after;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP] =
	    (greg_t)(uintptr_t)__builtin_frame_address(0);
}

int main(int argc, char **argv)
{
	static uint8_t stack[1 << 16];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction fault = {.sa_sigaction = on_fault,
					.sa_flags = SA_SIGINFO | SA_ONSTACK};
	const struct itimerval soon = {.it_value.tv_usec = 20000};
	const char *how = argc > 1 ? argv[1] : "";

	if (mmap(BYTES, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != BYTES)
		return 3;
	sigaltstack(&other, NULL);
	if (argc > 2) /* is handled */
		sigaction(SIGSEGV, &fault, NULL);
	signal(SIGALRM, on_alarm);
	if (!strcmp(how, "walk"))
		walk(BYTES + PAGE - 1000);
	if (!strcmp(how, "one"))
		walk(BYTES + PAGE - 1);
	if (!strcmp(how, "two"))
		walk(BYTES + PAGE - 2);
	if (!strcmp(how, "none"))
		walk(BYTES + PAGE);
	if (!strcmp(how, "bounce"))
		bounce(BYTES + PAGE - 1000);
	if (!strcmp(how, "descend"))
		descend(BYTES + PAGE);
	if (!strcmp(how, "forever"))
		spin();
	setitimer(ITIMER_REAL, &soon, NULL);
	if (!strcmp(how, "spin"))
		spin();
	if (!strcmp(how, "stay"))
		stay();
	return 4;
}
