/* SPDX-License-Identifier: MIT */
/*
 * Instructions that cross the end of a page, end at it, and blocks that are
 * too long for one piece. No packet may come from any of these.
 * 2 + 500 * (5 + 5 + 3 + 2002) + 2 + 3 = 1007507 instructions.
 */
	.globl _start
	.text
_start:
	mov $500, %ebx
	jmp _loop
	.balign 4096, 0x90
	.skip 4096 - 7, 0x90
_loop:	/* 7 bytes before the end */
	test %ebx, %ebx
	jz done			/* 6 bytes: crosses */
	inc %eax
	mov $0x11223344, %ecx
	jmp second

	.balign 4096, 0x90
	.skip 4096 - 9, 0x90
second:	/* a mov crosses, in the middle of a block */
	inc %eax
	mov $0x11223344, %ecx
	mov $0x11223344, %ecx
	nop
	jmp third

	.balign 4096, 0x90
	.skip 4096 - 5, 0x90
third:	/* the second instruction ends with the page */
	inc %eax
	lea (%rax), %rcx
	jmp fourth

	.balign 4096, 0x90
fourth:	/* 2000 in a row: more than QEMU puts into one block */
	.fill 2000, 1, 0x90
	dec %ebx
	jmp _loop

done:	mov $60, %eax
	xor %edi, %edi
	syscall
