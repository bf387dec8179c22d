/* SPDX-License-Identifier: MIT */
/* A machine's only code, for vm.sh: it resets the machine twice and then ends QEMU. */
	.text
	.code16
	.globl _start
_start:
rom:
	cli
	xor %ax, %ax
	mov %ax, %ds
	incb 0x500
	cmpb $3, 0x500
	je done
	mov $0xcf9, %dx
	mov $6, %al
	out %al, %dx
1:	hlt
	jmp 1b
done:
	mov $0, %al
	out %al, $0xf4
	.org 0xfff0
	ljmp $0xf000, $0
	.org 0x10000
