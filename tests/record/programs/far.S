/* SPDX-License-Identifier: MIT */
/*
 * Far transfers that stay in user mode: RETF, IRET, JMP FAR and CALL FAR.
 * 1 + 100 * (4 + 8 + 1 + 2 + 2) + 3 = 1704 instructions.
 */
	.globl _start
	.text
_start:
	mov $100, %ebx
1:	lea 2f(%rip), %rax
	pushq $0x33
	push %rax
	lretq
	ud2
2:	mov %rsp, %rdx
	pushq $0x2b
	push %rdx
	pushfq
	pushq $0x33
	lea 3f(%rip), %rax
	push %rax
	iretq
	ud2
3:	ljmp *jump
	ud2
4:	.byte 0x48		/* 64-bit operand: the 32-bit form fails in QEMU */
	lcall *call
	dec %ebx
	jnz 1b
	mov $60, %eax
	xor %edi, %edi
	syscall
callee:	lretq

	.data
jump:	.long 4b
	.short 0x33
call:	.quad callee
	.short 0x33
