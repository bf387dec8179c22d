/* SPDX-License-Identifier: MIT */
/*
 * Code that rewrites a jump right before it is executed, within one block as well as in another:
 * its target alternates between far and near. 3 + 200 * (3 + 3 + 6 + 3) + 100 * (3 + 3) + 3 = 3606
 * instructions.
 */
	.globl _start
	.section .writable_code, "awx", @progbits
_start:
	mov $200, %ebx
	call clean			/* 3 with the mov and the return */
1:	mov %ebx, %eax			/* 3 */
	and $1, %eax
	lea (%rax, %rax, 2), %eax	/* 0 or 3 */

	movb %al, first + 1(%rip)	/* 3: the store hits its own block */
	nop
first:	jmp 2f				/* displacement 0 or 3 */
2:	nop				/* 3, every other time */
	nop
	nop

	movb %al, second + 1(%rip)	/* 6, the called one's return among them */
	call away
	nop
	nop
	jmp second

	.balign 64
clean:	ret

	.balign 4096
second:	jmp 3f				/* 3, and the nops every other time */
3:	nop
	nop
	nop
	dec %ebx
	jnz 1b
	mov $60, %eax			/* 3 */
	xor %edi, %edi
	syscall

	.balign 4096
away:	ret
