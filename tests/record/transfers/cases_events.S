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
	.section .note.GNU-stack, "", @progbits
