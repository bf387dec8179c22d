/* SPDX-License-Identifier: MIT */
/* Event Trace: interrupts and exceptions with their vectors, and RFLAGS.IF. */
	.include "case.inc"
	.include "user.inc"

	.text
	.code64

CASE event_interrupt, LONG_MODE | EVENTS
	RESUME event_interrupt.next
	ON_WITH event_interrupt, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | EVENT_EN
	nop
	sti
event_interrupt.enabled:
	SEND TO_SELF | 50
event_interrupt.spin:
	jmp event_interrupt.spin
event_interrupt.next:
	nop
	cli
event_interrupt.disabled:
	nop
	cli
	OFF event_interrupt
	ret

CASE event_fault, LONG_MODE | EVENTS
	ON_WITH event_fault, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | EVENT_EN
	mov $missing_data, %edi
event_fault.at:
	mov %eax, (%rdi)
	OFF event_fault
	ret

/* POPF, and CLI before a branch. */
CASE event_flag, LONG_MODE | EVENTS
	ON_WITH event_flag, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | EVENT_EN
	pushfq
	orl $0x200, (%rsp)
	popfq
event_flag.enabled:
	xor %eax, %eax
	cli
event_flag.disabled:
	jz 1f
	ud2
1:	OFF event_flag
	ret

/* A table of 32-bit gates, and one of real mode. */
	.code32
CASE event_fault_32, LEGACY_MODE | EVENTS
	movl $event_fault_32.next, resume_32
	ON_WITH event_fault_32, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | EVENT_EN
event_fault_32.at:
	ud2
event_fault_32.next:
	OFF event_fault_32
	ret

CASE event_real, LEGACY_MODE | EVENTS
	mov %esp, event_real.stack
	sidt event_real.table
	movl $event_real.vector, 6 * 4	/* its segment is 0 */
	ljmp $CODE16, $event_real.protected
	.section .low, "awx"
	.code16
event_real.protected:
	mov $DATA16, %ax
	mov %ax, %ds
	mov %ax, %ss
	lidt real_table
	mov %cr0, %eax
	and $~1, %eax
	mov %eax, %cr0
	ljmp $0, $event_real.real
event_real.real:
	mov %cs, %ax
	mov %ax, %ss
	mov %ax, %ds
	mov $real_stack_end, %sp
	ON_WITH event_real, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | EVENT_EN
event_real.at:
	ud2
event_real.next:
	OFF event_real
	mov %cr0, %eax
	or $1, %eax
	mov %eax, %cr0
	ljmpl $CODE32, $event_real.back
event_real.vector:
	pop %ax
	pushw $event_real.next
event_real.iret:
	iret
	.text
	.code32
event_real.back:
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov event_real.stack, %esp
	lidt event_real.table
	ret
	.lcomm event_real.table, 8
	.lcomm event_real.stack, 4
	.section .note.GNU-stack, "", @progbits
