/* SPDX-License-Identifier: MIT */
/*
 * Between the cache and the runtime's C code. Exits come to the gates with the program's registers
 * and flags, but for R11, which is the log's pointer, and RCX and RAX, which are in the context as
 * each gate says. GS is the base of struct context (runtime.h has the offsets).
 */
#include "record/native/runtime/assembly.h"
#include "record/native/runtime/context_offsets.h"

	.section .note.GNU-stack, "", @progbits
	.text

/*
 * Saves the program's registers as a struct registers at the end of the runtime's stack, and calls
 * C code with the context, the registers and what RCX had.
 */
	.macro enter function
	movb	$1, %gs:CONTEXT_INSIDE
	mov	%rsp, %gs:CONTEXT_RSP
	mov	%gs:CONTEXT_STACK, %rsp
	pushfq				/* rflags */
	pushq	$0			/* rip: the C code knows */
	push	%r15
	push	%r14
	push	%r13
	push	%r12
	pushq	%gs:CONTEXT_R11
	push	%r10
	push	%r9
	push	%r8
	push	%rdi
	push	%rsi
	push	%rbp
	pushq	%gs:CONTEXT_RSP
	push	%rbx
	push	%rdx
	pushq	%gs:CONTEXT_RCX
	push	%rax
	mov	%r11, %gs:CONTEXT_LOG
	pushq	$2			/* no direction, no alignment checks */
	popfq
	mov	%gs:CONTEXT_SELF, %rdi
	mov	%rsp, %rsi
	mov	%rcx, %rdx
	xor	%ebp, %ebp
	call	\function
	ud2
	.endm

/* A direct exit: RCX is the number of its slot, the program's is in the context. */
	function gate_exit
	enter	gate_take_exit

/* The same before a SYSCALL. */
	function gate_syscall
	enter	gate_take_syscall

/*
 * An indirect branch. RCX - RAX is its target, the program's RCX and RAX are in the context. What
 * the table has for targets that are not there yet comes to gate_miss, with the target in RCX.
 */
	function gate_miss
	mov	$0, %eax
	function gate_indirect
	movb	$1, %gs:CONTEXT_INSIDE
	mov	%rsp, %gs:CONTEXT_RSP
	mov	%gs:CONTEXT_STACK, %rsp
	pushfq
	sub	%rax, %rcx
	mov	%gs:CONTEXT_RAX, %rax
	popfq
	mov	%gs:CONTEXT_RSP, %rsp
	enter	gate_take_indirect

/*
 * gate_resume(c, r, cache_address): from `gate_restart` on a signal may come, which finds nothing
 * changed that is not loaded again when it starts anew here.
 */
	function gate_resume
	mov	%rsi, %gs:CONTEXT_RESUME
	mov	%rdx, %gs:CONTEXT_CONTINUE
	mov	88(%rsi), %rax		/* the program's R11 */
	mov	%rax, %gs:CONTEXT_R11
	function gate_restart
	mov	%gs:CONTEXT_RESUME, %rsp
	movb	$0, %gs:CONTEXT_INSIDE
	cmpb	$0, %gs:CONTEXT_PENDING
	jne	1f
	mov	0(%rsp), %rax
	mov	8(%rsp), %rcx
	mov	16(%rsp), %rdx
	mov	24(%rsp), %rbx
	mov	40(%rsp), %rbp
	mov	48(%rsp), %rsi
	mov	56(%rsp), %rdi
	mov	64(%rsp), %r8
	mov	72(%rsp), %r9
	mov	80(%rsp), %r10
	mov	%gs:CONTEXT_LOG, %r11
	place gate_log_loaded
	mov	96(%rsp), %r12
	mov	104(%rsp), %r13
	mov	112(%rsp), %r14
	mov	120(%rsp), %r15
	pushq	136(%rsp)
	popfq
	mov	32(%rsp), %rsp
	jmp	*%gs:CONTEXT_CONTINUE
	place gate_resume_end
1:	movb	$1, %gs:CONTEXT_INSIDE
	mov	%rsp, %rsi
	mov	%gs:CONTEXT_STACK, %rsp
	lea	-1024(%rsp), %rsp	/* below the registers, which are there or elsewhere */
	and	$-16, %rsp
	pushq	$2
	popfq
	mov	%gs:CONTEXT_SELF, %rdi
	call	gate_take_signal
	ud2
