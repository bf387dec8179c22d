/* SPDX-License-Identifier: MIT */
/*
 * A boot sector that traces what the firmware does for it in 16-bit code (video, disk, memory map,
 * time, interrupts). It copies the memory that has code, and the trace, to QEMU's debug console: the
 * first 128 KB, and 256 KB from C0000H on.
 */
	.set TRACE, 0x10000		/* 64 KB */
	.set TRACED, 0x600		/* how many bytes, for firmware.sh */
	.set BUFFER, 0x9000

	.code16
	.globl start
start:
	ljmp $0, $1f
1:	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %es
	mov %ax, %ss
	mov $start, %sp
	mov %dl, drive
	mov $TRACE, %eax
	xor %edx, %edx
	mov $0x560, %ecx		/* IA32_RTIT_OUTPUT_BASE, _MASK_PTRS, _STATUS, _CTL */
	wrmsr
	mov $0xffff, %eax
	inc %ecx
	wrmsr
	xor %eax, %eax
	mov $0x571, %ecx
	wrmsr
	mov $0x200d, %eax		/* TraceEn, OS, User, BranchEn */
	dec %ecx
	wrmsr
	sti
	mov $text, %si
2:	lodsb
	test %al, %al
	jz 3f
	mov $0x0e, %ah			/* write a character */
	mov $7, %bx
	int $0x10
	jmp 2b
3:	mov $0x0201, %ax		/* read a sector */
	mov $0x0002, %cx
	xor %dh, %dh
	mov drive, %dl
	mov $BUFFER, %bx
	int $0x13
	mov $0x42, %ah			/* read a sector by its number */
	mov drive, %dl
	mov $packet, %si
	int $0x13
	xor %ebx, %ebx			/* the map of memory */
	mov $0xe820, %eax
	mov $0x534d4150, %edx
	mov $20, %ecx
	mov $BUFFER, %di
	int $0x15
	xor %ah, %ah			/* the time */
	int $0x1a
	mov $0xb101, %ax		/* PCI */
	int $0x1a
	mov $0x0003, %ax		/* the screen's mode */
	int $0x10
	hlt				/* two timer interrupts */
	hlt
	cli
	xor %eax, %eax
	xor %edx, %edx
	mov $0x570, %ecx
	wrmsr
	mov $0x50740000, %ecx		/* the plugin's register: report */
	wrmsr
	mov $0x561, %ecx
	rdmsr
	mov %edx, TRACED
	mov $0xe9, %dx
	xor %bx, %bx
4:	mov %bx, %ds			/* segment after segment */
	xor %si, %si
	mov $0x8000, %cx
	rep outsb
	mov $0x8000, %cx
	rep outsb
	add $0x1000, %bx
	jz 6f
	cmp $0x2000, %bx
	jne 4b
	mov $0xc000, %bx		/* there is no code in between */
	jmp 4b
6:
	mov $0xf4, %dx
	mov $16, %al
	out %al, %dx
5:	hlt
	jmp 5b
drive:
	.byte 0
text:
	.asciz "booted\r\n"
	.balign 4
packet:
	.byte 16, 0
	.short 1, BUFFER, 0
	.quad 1
	.org 510
	.short 0xaa55
	.section .note.GNU-stack, "", @progbits
