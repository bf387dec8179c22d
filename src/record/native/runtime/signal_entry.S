/* SPDX-License-Identifier: MIT */
/*
 * What signals.c needs of assembly: places in the code that the handler knows by their address.
 */
#include "record/native/runtime/assembly.h"
#include "record/native/runtime/context_offsets.h"

	.set SYS_RT_SIGRETURN, 15

	.text

/* Where the handler returns to: the kernel takes its frame back. */
	function signals_restorer
	mov	$SYS_RT_SIGRETURN, %eax
	syscall

/*
 * bool signals_window(const uint64_t call[7], int64_t *result, const bool *pending)
 *
 * Makes a system call, unless a signal is kept. A handler that interrupts it between
 * signals_window_start and signals_window_call, both included, goes on at signals_window_not_made:
 * so no signal is overlooked between the test and the call, and a call which the kernel would make
 * again after the handler (RIP is then that of SYSCALL) is not made again here.
 */
	function signals_window
	push	%rsi
	mov	%rdi, %r11
	mov	%rdx, %rcx
	mov	0(%r11), %rax
	mov	8(%r11), %rdi
	mov	16(%r11), %rsi
	mov	24(%r11), %rdx
	mov	32(%r11), %r10
	mov	40(%r11), %r8
	mov	48(%r11), %r9
	place signals_window_start
	cmpb	$0, (%rcx)
	jne	signals_window_not_made
	place signals_window_call
	syscall
	pop	%rsi
	mov	%rax, (%rsi)
	mov	$1, %eax
	ret
	place signals_window_not_made
	pop	%rsi
	xor	%eax, %eax
	ret

/*
 * bool signals_copy(void *to, const void *from, size_t n)
 *
 * Copies from or to memory of the program. A fault at signals_copy_faults goes on at
 * signals_copy_failed.
 */
	function signals_copy
	mov	%rdx, %rcx
	place signals_copy_faults
	rep movsb
	mov	$1, %eax
	ret
	place signals_copy_failed
	xor	%eax, %eax
	ret

/*
 * void signals_learn(void): returns after a fault, of which the kernel's handler does not return.
 * So no sigreturn is made, which would end an interrupted system call that is to be restarted.
 */
	function signals_learn
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, %gs:CONTEXT_RSP
	place signals_learn_faults
	ud2
	place signals_learned
	mov	%gs:CONTEXT_RSP, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret

/* void signals_save_fp(void *area, uint64_t features): the area's header is zero. */
	function signals_save_fp
	mov	%esi, %eax
	mov	%rsi, %rdx
	shr	$32, %rdx
	xsave64	(%rdi)
	ret

/* void signals_load_fp(const void *area, uint64_t features) */
	function signals_load_fp
	mov	%esi, %eax
	mov	%rsi, %rdx
	shr	$32, %rdx
	xrstor64 (%rdi)
	ret

/* uint32_t signals_get_pkru(void) */
	function signals_get_pkru
	xor	%ecx, %ecx
	rdpkru
	ret

/* void signals_set_pkru(uint32_t value) */
	function signals_set_pkru
	mov	%edi, %eax
	xor	%ecx, %ecx
	xor	%edx, %edx
	wrpkru
	ret

/*
 * void signals_load(const struct signal_frame *frame, bool leave)
 *
 * Lets the kernel load all of a frame: general and vector registers, flags, mask, alternate stack.
 * leave: GS becomes 0, as the program has it.
 */
	function signals_load
	test	%sil, %sil
	jz	1f
	xor	%eax, %eax
	wrgsbase %rax
1:	lea	8(%rdi), %rsp
	mov	$SYS_RT_SIGRETURN, %eax
	syscall
	hlt

/*
 * Where signals_load() returns to for rt_sigreturn; RDI: the context. If the kernel refuses the
 * frame's vector registers, it raises SIGSEGV at this address.
 */
	function signals_returned
	jmp	signals_go_on

	.section .note.GNU-stack, "", @progbits
