/* SPDX-License-Identifier: MIT */
/*
 * A machine's only code, 64 KiB of ROM, for vm.sh: 16-bit code that jumps around the end of its
 * segment and runs code that it changes; 32-bit code; 64-bit code in two address spaces, with a page
 * table that it changes. Each part runs a known number of instructions at known addresses.
 */
	.text
	.globl _start
_start:
rom:
	.code16
entry:
	cli
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %es
	mov %ax, %ss
	mov $0x7000, %sp
	jmp near_end
around:				/* copies the fragment to 0x600, runs it, changes it, runs it */
	mov $(fragment - rom), %si
	mov $0x600, %di
	mov $(fragment_end - fragment), %cx
	rep movsb %cs:(%si), %es:(%di)
	lcall $0, $0x600
	movb $0x90, 0x601	/* inc %bx becomes inc %ax; nop */
	movb $0x40, 0x600
	lcall $0, $0x600
	lgdtl %cs:(gdt_pointer - rom)
	mov %cr0, %eax
	or $1, %al
	mov %eax, %cr0
	ljmpl $8, $protected
fragment:
	.byte 0xff, 0xc3	/* inc %bx */
	lret
fragment_end:

	.code32
protected:
	mov $16, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov $0x7000, %esp
	mov $3, %ecx
1:	loop 1b
	/* Two address spaces: tables at 0x10000 and 0x20000. 0 to 2 MiB as they are; at 1 GiB the
	   page 0x30000 or 0x31000. */
	mov $0x10000, %edi
	mov $0x30003, %ebx
	call make_tables
	mov $0x20000, %edi
	mov $0x31003, %ebx
	call make_tables
	movl $0xc3c3ff, 0x30000		/* inc %ebx; ret */
	movl $0xc3ffc3ff, 0x31000	/* inc %ebx; inc %ebx; ret */
	movb $0xc3, 0x31004
	mov $0x20, %eax
	mov %eax, %cr4			/* PAE */
	mov $0x10000, %eax
	mov %eax, %cr3
	mov $0xc0000080, %ecx
	rdmsr
	or $0x100, %eax			/* LME */
	wrmsr
	mov %cr0, %eax
	or $0x80000000, %eax
	mov %eax, %cr0
	ljmp $24, $long_mode
make_tables:
	lea 0x1003(%edi), %eax
	mov %eax, (%edi)
	lea 0x2003(%edi), %eax
	mov %eax, 0x1000(%edi)		/* 0 */
	lea 0x3003(%edi), %eax
	mov %eax, 0x1008(%edi)		/* 1 GiB */
	movl $0x83, 0x2000(%edi)
	lea 0x4003(%edi), %eax
	mov %eax, 0x3000(%edi)
	mov %ebx, 0x4000(%edi)
	ret

	.code64
long_mode:
	mov $0x40000000, %eax
	call *%rax			/* one increment */
	mov $0x20000, %ecx
	mov %rcx, %cr3
	call *%rax			/* two */
	mov $0x10000, %ecx
	mov %rcx, %cr3
	call *%rax			/* one */
	movl $0x31003, 0x14000
	invlpg (%rax)
	call *%rax			/* two */
	call sys			/* the upper half */
	mov $0, %eax
	out %al, $0xf4
1:	hlt
	jmp 1b
sys:
	ret

	.align 8
gdt:
	.quad 0
	.quad 0x00cf9b000000ffff
	.quad 0x00cf93000000ffff
	.quad 0x00af9b000000ffff
gdt_pointer:
	.word 31
	.long gdt

	.code16
	.org 0xff00
near_end:
	.byte 0xe9			/* jmp around, beyond the segment's end */
	.word (around - rom) - (. + 2 - rom)
	.org 0xfff0
	ljmp $0xf000, $(entry - rom)
	.org 0x10000
