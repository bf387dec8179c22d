/* SPDX-License-Identifier: MIT */
/*
 * From the boot loader to bare_main(), and from an interrupt to bare_interrupt(). The loader
 * (GRUB, or QEMU's -kernel) follows the Multiboot specification, version 1, and leaves the
 * processor in 32-bit protected mode without paging.
 */

	.set MULTIBOOT_MAGIC, 0x1badb002
	.set MULTIBOOT_FLAGS, 1 << 16 | 1 << 1	/* the addresses below; the size of the memory */

	.section .multiboot, "a"
	.align 4
header:
	.long MULTIBOOT_MAGIC
	.long MULTIBOOT_FLAGS
	.long -(MULTIBOOT_MAGIC + MULTIBOOT_FLAGS)
	.long header
	.long image_begin
	.long image_loaded
	.long image_end
	.long start

/* The 4 GB of addresses that 32 bits can express, each mapped to itself, in pages of 2 MB. */
	.set PRESENT_WRITABLE, 3
	.set LARGE, 0x80
	.set UNCACHED, 0x18	/* the last gigabyte: the local APIC is there */
	.set CR4_PAE, 1 << 5
	.set IA32_EFER, 0xc0000080
	.set EFER_LME, 1 << 8
	.set CR0_PG_WP, 1 << 31 | 1 << 16

	.section .text.boot, "ax"
	.code32
	.globl start
	.type start, @function
start:
	cli
	cld
	mov $stack_end, %esp
	mov %ebx, %esi			/* the loader's information */

	movl $directory_pointers + PRESENT_WRITABLE, top_table
	mov $directories + PRESENT_WRITABLE, %eax
	mov $directory_pointers, %edi
	mov $4, %ecx
1:	mov %eax, (%edi)
	add $4096, %eax
	add $8, %edi
	loop 1b
	mov $PRESENT_WRITABLE | LARGE, %eax
	mov $directories, %edi
	mov $4 * 512, %ecx
2:	mov %eax, (%edi)
	cmp $0xc0000000, %eax
	jb 3f
	orl $UNCACHED, (%edi)
3:	add $2 << 20, %eax
	add $8, %edi
	loop 2b

	mov %cr4, %eax
	or $CR4_PAE, %eax
	mov %eax, %cr4
	mov $top_table, %eax
	mov %eax, %cr3
	mov $IA32_EFER, %ecx
	rdmsr
	or $EFER_LME, %eax
	wrmsr
	mov %cr0, %eax
	or $CR0_PG_WP, %eax
	mov %eax, %cr0
	lgdt descriptors_pointer
	ljmp $CODE, $start_64

	.code64
start_64:
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov %esi, %edi
	call bare_main
1:	cli
	hlt
	jmp 1b
	.size start, . - start

/*
 * The entries of vectors 0 to 31, 16 bytes each. The processor pushes an error code for some of
 * them; for the others a 0 is pushed in its place.
 */
	.set WITH_ERROR_CODE, 1 << 8 | 0x1f << 10 | 1 << 17 | 1 << 21 | 1 << 29 | 1 << 30

	.globl bare_vectors
	.type bare_vectors, @function
	.align 16
bare_vectors:
	.set vector, 0
	.rept 32
	.align 16
	.if !(WITH_ERROR_CODE >> vector & 1)
	push $0
	.endif
	push $vector
	jmp interrupted
	.set vector, vector + 1
	.endr
	.size bare_vectors, . - bare_vectors

/* Pushes the rest of struct bare_frame (port.h). */
	.type interrupted, @function
interrupted:
	push %rax
	push %rcx
	push %rdx
	push %rbx
	push %rbp
	push %rsi
	push %rdi
	push %r8
	push %r9
	push %r10
	push %r11
	push %r12
	push %r13
	push %r14
	push %r15
	cld
	mov %rsp, %rdi
	call bare_interrupt
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rdi
	pop %rsi
	pop %rbp
	pop %rbx
	pop %rdx
	pop %rcx
	pop %rax
	add $16, %rsp
	iretq
	.size interrupted, . - interrupted

	.section .rodata
	.align 8
descriptors:
	.quad 0
	.set CODE, . - descriptors
	.quad 0x00af9b000000ffff	/* 64-bit code, ring 0 */
	.set DATA, . - descriptors
	.quad 0x00cf93000000ffff
descriptors_pointer:
	.short . - descriptors - 1
	.long descriptors

	.bss
	.align 4096
top_table:
	.skip 4096
directory_pointers:
	.skip 4096
directories:
	.skip 4 * 4096
stack:
	.skip 16384
stack_end:

	.section .note.GNU-stack, "", @progbits
