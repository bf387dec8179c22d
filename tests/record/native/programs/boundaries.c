/* SPDX-License-Identifier: MIT */
/*
 * Does the same some 250 instructions of all kinds, again and again, while its driver
 * (step_signals.c) sends it signals. All that is in its registers there is known.
 */
#include "boundaries.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

uint64_t work(void);
extern const char work_body[], work_body_end[];

__asm__("	.text\n"
	"work:	push	%rbx\n"
	"	push	%rbp\n"
	"	push	%r12\n"
	"	push	%r13\n"
	"	push	%r14\n"
	"	push	%r15\n"
	"	mov	%rsp, work_saved(%rip)\n"
	"	lea	work_stack_end(%rip), %rsp\n"
	"	movq	$7, work_data(%rip)\n"
	"	movq	$9, work_data+8(%rip)\n"
	"	ldmxcsr	work_mxcsr(%rip)\n"
	"	fninit\n"
	"	fld1\n"
	"	fldpi\n"
	"	mov	$0x1111111111111111, %rax\n"
	"	movq	%rax, %xmm0\n"
	"	mov	$0x3ff8000000000000, %rbx\n" /* 1.5 */
	"	movq	%rbx, %xmm1\n"
	"	mov	$0x2222222222222222, %rcx\n"
	"	mov	$0x3333333333333333, %rdx\n"
	"	mov	$0x5555555555555555, %rbp\n"
	"	mov	$0x6666666666666666, %rsi\n"
	"	mov	$0x7777777777777777, %rdi\n"
	"	mov	$0x8888888888888888, %r8\n"
	"	mov	$0x9999999999999999, %r9\n"
	"	mov	$0xaaaaaaaaaaaaaaaa, %r10\n"
	"	mov	$0xbbbbbbbbbbbbbbbb, %r11\n"
	"	mov	$0xcccccccccccccccc, %r12\n"
	"	mov	$0xdddddddddddddddd, %r13\n"
	"	mov	$0xeeeeeeeeeeeeeeee, %r14\n"
	"	mov	$0xffffffffffffffff, %r15\n"
	"	pushq	$0x246\n"
	"	popfq\n"
	"work_body:\n"
	/* The red zone is the program's. */
	"	mov	%rdx, -8(%rsp)\n"
	"	mov	%rdi, -128(%rsp)\n"
	/* Flags that live over branches: DEC keeps CF. */
	"	mov	$5, %ecx\n"
	"	xor	%esi, %esi\n"
	"1:	adc	%rcx, %rsi\n"
	"	lea	1(%rsi), %rsi\n"
	"	dec	%ecx\n"
	"	jnz	1b\n"
	"	stc\n"
	"	jmp	2f\n"
	"	ud2\n"
	"2:	jnc	work_wrong\n"
	"	setc	%dil\n"
	"	sbb	%r8, %r8\n"
	"	mov	$3, %ecx\n"
	"3:	lea	(%rsi,%rcx,2), %rsi\n"
	"	cmp	$2, %ecx\n"
	"	cmove	%rsi, %r9\n"
	"	loop	3b\n"
	"	jrcxz	4f\n"
	"	ud2\n"
	/* Users of R11, also in a loop and as an operand of branches. */
	"4:	mov	$4, %r11d\n"
	"5:	add	%r11, %rsi\n"
	"	dec	%r11\n"
	"	jnz	5b\n"
	"	test	%r11, %r11\n"
	"	jnz	work_wrong\n"
	"	lea	work_leaf(%rip), %r11\n"
	"	call	*%r11\n"
	"	lea	work_table(%rip), %r11\n"
	"	call	*8(%r11)\n"
	"	call	*work_table(%rip)\n"
	"	mov	$1, %r10d\n"
	"	call	*work_table(,%r10,8)\n"
	"	call	work_nested\n"
	"	call	work_nested\n"
	"	lea	6f(%rip), %rdx\n"
	"	jmp	*%rdx\n"
	"	ud2\n"
	"6:	push	%rsi\n"
	"	pushq	$0x1234\n"
	"	pushq	work_data(%rip)\n"
	"	pop	%r11\n"
	"	pop	%rax\n"
	"	popq	work_data+8(%rip)\n"
	"	push	%rax\n"
	"	push	%r11\n"
	"	call	work_pops\n"
	"	call	7f\n"
	"7:	pop	%r14\n"
	"	pushfq\n"
	"	pop	%r15\n"
	"	and	$0x8d5, %r15d\n"
	/* String instructions. */
	"	lea	work_room(%rip), %rdi\n"
	"	mov	$5, %ecx\n"
	"	rep stosq\n"
	"	lea	work_room(%rip), %rsi\n"
	"	lea	work_room+64(%rip), %rdi\n"
	"	mov	$7, %ecx\n"
	"	rep movsb\n"
	"	lea	work_room(%rip), %rsi\n"
	"	lea	work_room+64(%rip), %rdi\n"
	"	mov	$20, %ecx\n"
	"	repe cmpsb\n"
	"	std\n"
	"	lodsq\n"
	"	scasb\n"
	"	cld\n"
	"	stosb\n"
	/* Operands relative to RIP, with and without R11. */
	"	incq	work_data(%rip)\n"
	"	mov	work_data(%rip), %r11\n"
	"	lock xadd %r11, work_data(%rip)\n"
	"	cmpq	$16, work_data(%rip)\n"
	"	jne	8f\n"
	"	addl	$3, work_data+4(%rip)\n"
	"8:	mov	$16, %eax\n"
	"	cmpxchg	%r11, work_data(%rip)\n"
	"	imul	$77, work_data(%rip), %r12\n"
	/* Arithmetic. */
	"	mov	%rsi, %rax\n"
	"	mul	%r8\n"
	"	mov	$12345, %ecx\n"
	"	xor	%edx, %edx\n"
	"	div	%rcx\n"
	"	shld	$5, %rax, %rbp\n"
	"	rol	%cl, %rbp\n"
	"	bt	$3, %rbp\n"
	"	rcr	$1, %r13\n"
	"	bswap	%r13\n"
	"	xchg	%r13, %r10\n"
	"	movsbq	%dl, %rdx\n"
	"	cqo\n"
	/* SSE and x87. */
	"	addsd	%xmm1, %xmm1\n"
	"	cvtsi2sd %rcx, %xmm0\n"
	"	comisd	%xmm1, %xmm0\n"
	"	jbe	work_wrong\n"
	"	mulsd	%xmm1, %xmm0\n"
	"	movapd	%xmm0, %xmm1\n"
	"	sqrtsd	%xmm1, %xmm1\n"
	"	fadd	%st(1), %st\n"
	"	fxch\n"
	"	fmul	%st(1), %st\n"
	"	fldpi\n"
	"	faddp\n"
	"	fnstsw	%ax\n"
	"	cvttsd2si %xmm1, %rbx\n"
	/* A system call, after which RCX and R11 are what it leaves. */
	"	mov	$121, %eax\n" /* getpgid */
	"	mov	$-1, %edi\n"
	"	syscall\n"
	"	cmp	$-3, %rax\n"
	"	jne	work_wrong\n"
	"	mov	%r11, %r9\n"
	/* A switch, as compilers make it. */
	"	mov	$3, %ebx\n"
	"9:	lea	work_cases(%rip), %rdx\n"
	"	movslq	-4(%rdx,%rbx,4), %rax\n"
	"	add	%rdx, %rax\n"
	"	jmp	*%rax\n"
	"10:	add	$1, %r8\n"
	"	jmp	13f\n"
	"11:	add	$2, %r8\n"
	"	jmp	13f\n"
	"12:	sub	$3, %r8\n"
	"13:	dec	%ebx\n"
	"	jnz	9b\n"
	/* All of it goes into the result. */
	"	mov	-8(%rsp), %rdx\n"
	"	mov	%r8, %rax\n"
	"	add	%rsi, %rax\n"
	"	rol	$7, %rax\n"
	"	add	%rbp, %rax\n"
	"	rol	$7, %rax\n"
	"	add	%r10, %rax\n"
	"	rol	$7, %rax\n"
	"	add	%r12, %rax\n"
	"	add	work_data(%rip), %rax\n"
	"	add	work_data+8(%rip), %rax\n"
	"	add	work_room+64(%rip), %rax\n"
	"	sub	%r15, %rax\n"
	"work_body_end:\n"
	"	mov	work_saved(%rip), %rsp\n"
	"	fninit\n"
	"	pop	%r15\n"
	"	pop	%r14\n"
	"	pop	%r13\n"
	"	pop	%r12\n"
	"	pop	%rbp\n"
	"	pop	%rbx\n"
	"	ret\n"
	"work_wrong:\n"
	"	ud2\n"
	"work_leaf:\n"
	"	lea	3(%rsi), %rsi\n"
	"	ret\n"
	"work_uses_r11:\n"
	"	mov	(%rsp), %r11\n"
	"	and	$15, %r11\n"
	"	xor	%r11, %rsi\n"
	"	stc\n"
	"	ret\n"
	"work_nested:\n"
	"	push	%rbx\n"
	"	mov	$2, %ebx\n"
	"1:	call	work_leaf\n"
	"	dec	%ebx\n"
	"	jnz	1b\n"
	"	pop	%rbx\n"
	"	ret\n"
	"work_pops:\n"
	"	mov	8(%rsp), %rax\n"
	"	add	16(%rsp), %rax\n"
	"	ret	$16\n"
	"	.section .rodata\n"
	"	.balign 8\n"
	"work_table:\n"
	"	.quad	work_leaf, work_uses_r11\n"
	"work_mxcsr:\n"
	"	.quad	0x1f80\n"
	"work_cases:\n"
	"	.long	10b - work_cases, 11b - work_cases, 12b - work_cases\n"
	"	.bss\n"
	"	.balign 64\n"
	"work_data:	.skip 64\n"
	"work_room:	.skip 128\n"
	"work_saved:	.skip 8\n"
	"	.balign 16\n"
	"	.skip	65536\n"
	"work_stack_end:\n"
	"	.skip	64\n"
	"	.text\n");

static struct report report;

static void on_signal(int number, siginfo_t *info, void *u)
{
	static const int numbers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					REG_R12, REG_R13, REG_R14, REG_R15};
	const mcontext_t *m = &((ucontext_t *)u)->uc_mcontext;
	const struct _libc_fpstate *fp = m->fpregs;
	struct state *s = &report.state;

	(void)number;
	(void)info;
	s->rip = (uint64_t)m->gregs[REG_RIP];
	s->rflags = (uint64_t)m->gregs[REG_EFL];
	for (unsigned i = 0; i < 16; i++)
		s->general[i] = (uint64_t)m->gregs[numbers[i]];
	memcpy(s->xmm, fp->_xmm, sizeof(s->xmm));
	for (unsigned i = 0; i < 2; i++)
		memcpy(&s->st[i], fp->_st[i].significand, sizeof(s->st[i]));
	s->mxcsr = fp->mxcsr;
	s->control = fp->cwd;
	s->status = fp->swd;
	report.handled++;
}

int main(void)
{
	const struct hello hello = {.pid = getpid(),
				    .report = (uintptr_t)&report,
				    .body = (uintptr_t)work_body,
				    .body_end = (uintptr_t)work_body_end};
	struct sigaction action = {.sa_flags = SA_SIGINFO};
	char byte;

	action.sa_sigaction = on_signal;
	sigaction(SIGUSR1, &action, NULL);
	if (write(HELLO_FD, &hello, sizeof(hello)) != sizeof(hello) || read(GO_FD, &byte, 1) != 1)
		return 1;
	while (!*(volatile uint64_t *)&report.stop) {
		syscall(SYS_getpgid, MARK_START);
		report.result = work();
		syscall(SYS_getpgid, MARK_END);
	}
	return 0;
}
