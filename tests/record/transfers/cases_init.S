/* SPDX-License-Identifier: MIT */
/* INIT and SIPI. They come last, because INIT resets the local APIC. */
	.include "case.inc"

	.set ICR, 0xfee00300
	.set ICR_HIGH, 0xfee00310	/* the APIC's number from bit 24 on */
	.set IPI_INIT, 0x4500
	.set IPI_SIPI, 0x4600		/* and the number of the page where the processor begins */

/*
 * INIT of the first processor: it begins at the reset vector, in firmware. CMOS register 0FH tells the
 * firmware to jump to the address at 467H.
 */
	.text
	.code32
CASE init, LEGACY_MODE | NOT_EXPORTED
	mov %esp, init.stack
	mov $0x0f, %al
	out %al, $0x70
	mov $0x0a, %al
	out %al, $0x71
	movl $init.there, 0x467		/* the segment is 0 */
	movl $0, ICR_HIGH
	ON init
	movl $IPI_INIT, ICR
init.spin:
	jmp init.spin
	.section .low, "awx"
	.code16
init.there:
	xor %ax, %ax
	mov %ax, %ds
	lgdtl init.table
	mov %cr0, %eax
	or $1, %eax
	mov %eax, %cr0
	ljmpl $CODE32, $init.protected
	.balign 4
init.table:
	.short 24 * 8 - 1
	.long descriptors
	.text
	.code32
init.protected:
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov init.stack, %esp
	OFF init
	ret
	.lcomm init.stack, 4

/*
 * INIT of another processor, which waits for a SIPI then. The first SIPI starts it; it traces itself,
 * gets an INIT and the second SIPI, and stops tracing.
 */
	.code64
CASE sipi, LONG_MODE | NOT_EXPORTED
	mov $1, %ebx			/* the stage that is waited for */
1:	mov $ICR_HIGH, %edx
	movl $0x1000000, (%rdx)
	mov $ICR, %edx
	movl $IPI_INIT, (%rdx)
	mov $1000, %ecx
2:	pause
	loop 2b
	mov $sipi_page, %eax
	or $IPI_SIPI, %eax
	mov %eax, (%rdx)
	mov $30000000, %ecx
3:	pause
	cmp %ebx, sipi.stage
	je 4f
	loop 3b
	ret				/* there is no such processor */
4:	inc %ebx
	cmp $2, %ebx
	je 1b
	mov sipi.bytes, %eax
	mov %eax, other_bytes
	ret

	.section .low_page, "awx"
	.code16
sipi.entry:
	cmpl $0, sipi.stage
	jne 1f
	ljmp $0, $sipi.first
1:	ljmp $0, $sipi.second
sipi.stage:
	.long 0
sipi.bytes:
	.long 0
sipi.first:
	mov $output, %eax
	xor %edx, %edx
	mov $0x560, %ecx		/* IA32_RTIT_OUTPUT_BASE, _MASK_PTRS, _STATUS */
	wrmsr
	mov $0xfff, %eax
	inc %ecx
	wrmsr
	xor %eax, %eax
	mov $0x571, %ecx
	wrmsr
	ON sipi
	movl $1, sipi.stage
sipi.spin:
	jmp sipi.spin
sipi.second:
	OFF sipi
	mov $0x561, %ecx
	rdmsr
	mov %edx, sipi.bytes
	movl $2, sipi.stage
2:	hlt
	jmp 2b
	.section .note.GNU-stack, "", @progbits
