/* SPDX-License-Identifier: MIT */
/*
 * Calls into the vsyscall page, in which no code runs: the kernel does the call and the return. 1 +
 * 100 * 7 + 3 = 704 instructions.
 */
	.globl _start
	.text
_start:
	mov $100, %ebx
1:	mov $0xffffffffff600400, %rax	/* time */
	xor %edi, %edi
	call *%rax
	test %rax, %rax
	js bad
	dec %ebx
	jnz 1b
	mov $60, %eax
	xor %edi, %edi
	syscall
bad:	ud2
