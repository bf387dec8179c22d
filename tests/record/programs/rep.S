/* SPDX-License-Identifier: MIT */
/*
 * rep instructions: many iterations, none, one, ended by a comparison, and one
 * as a loop's first instruction. Each is one instruction, however often it
 * repeats. 1 + ROUNDS * 17 + 3 instructions.
 */
#ifndef ROUNDS
#define ROUNDS 1000
#endif
	.globl _start
	.text
_start:
	mov $ROUNDS, %ebx
1:	rep stosb		/* ecx is 0 here except on the first round after _start */
	lea source(%rip), %rsi
	lea target(%rip), %rdi
	mov $100, %ecx
	rep movsb		/* 100 iterations */
	rep stosb		/* none */
	inc %ecx
	std
	rep movsb		/* one, backwards */
	cld
	lea source(%rip), %rdi
	mov $50, %ecx
	mov $'e', %eax
	repne scasb		/* ends at the first e */
	xor %ecx, %ecx
	dec %ebx
	jnz 1b
	mov $60, %eax
	xor %edi, %edi
	syscall

	.data
source:	.ascii "some bytes that are copied, and searched for a letter"
	.space 100
target:	.space 200
