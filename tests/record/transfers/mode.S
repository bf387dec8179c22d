/* SPDX-License-Identifier: MIT */
/* From main.c, in 64-bit mode, to a case and back. */
	.include "case.inc"

	.text
	.code64

/* A function may change every register but RSP. */
	.globl call_long
call_long:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	call *%rdi
	cli
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret

/* The same for a function of 32-bit protected mode without paging. */
	.globl call_legacy
call_legacy:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	mov %edi, %ebx
	mov %cr3, %rax
	mov %eax, long_cr3
	mov %rsp, long_stack
	ljmpl *1f(%rip)
1:	.long 2f
	.short CODE32
	.code32
2:	mov %cr0, %eax
	and $0x7fffffff, %eax
	mov %eax, %cr0
	mov $0xc0000080, %ecx		/* EFER.LME */
	rdmsr
	and $~0x100, %eax
	wrmsr
	mov %cr4, %eax			/* PAE off, PSE on: for cases that switch paging on */
	and $~0x20, %eax
	or $0x10, %eax
	mov %eax, %cr4
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	lidt legacy_table
	andb $~2, descriptors + TASK_A + 5	/* not busy */
	andb $~2, descriptors + TASK_B + 5
	mov $TASK_A, %eax
	ltr %ax
	call *%ebx
	cli
	mov %cr4, %eax
	or $0x20, %eax
	mov %eax, %cr4
	mov long_cr3, %eax
	mov %eax, %cr3
	mov $0xc0000080, %ecx
	rdmsr
	or $0x100, %eax
	wrmsr
	mov %cr0, %eax
	or $0x80000000, %eax
	mov %eax, %cr0
	ljmp $CODE64, $3f
	.code64
3:	mov long_stack, %rsp
	lidt long_table
	andb $~2, descriptors + TASK_64 + 5
	mov $TASK_64, %eax
	ltr %ax
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret

	.lcomm long_cr3, 4
	.lcomm long_stack, 8
	.section .note.GNU-stack, "", @progbits
