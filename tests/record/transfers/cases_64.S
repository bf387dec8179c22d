/* SPDX-License-Identifier: MIT */
/* Transfers that begin in 64-bit mode, in compatibility mode among them. */
	.include "case.inc"
	.include "user.inc"

	.text
	.code64

/* An exception, or an interrupt that should not return to where it came from, continues here. */
	.comm resume, 8
	.comm kernel_stack, 8

/* The vectors. Each ends with a jump that leaves no packet. */
.macro VECTOR number, next
	.globl vector_\number
vector_\number:
	jmp \next
.endm
	VECTOR 0, to_resume		/* #DE */
	VECTOR 1, after_debug		/* #DB */
	VECTOR 2, to_resume		/* NMI */
	VECTOR 3, return		/* #BP */
	VECTOR 6, to_resume		/* #UD */
	VECTOR 11, to_resume_error	/* #NP */
	VECTOR 13, to_resume_error	/* #GP */
	VECTOR 14, make_present		/* #PF */
	VECTOR 48, return
	VECTOR 49, end_of_interrupt	/* the local APIC's */
	VECTOR 50, end_of_interrupt_to_resume
	VECTOR 128, to_kernel		/* from user mode back into the case */

to_resume_error:
	add $8, %rsp
to_resume:
	push %rax
	mov resume, %rax
	mov %rax, 8(%rsp)
	pop %rax
return:
	iretq
end_of_interrupt_to_resume:
	push %rax
	mov resume, %rax
	mov %rax, 8(%rsp)
	pop %rax
end_of_interrupt:
	push %rax
	mov $0xfee000b0, %eax
	movl $0, (%rax)
	pop %rax
iret_of_interrupt:
	iretq
after_debug:
	andl $~0x100, 16(%rsp)		/* RFLAGS.TF */
	push %rax
	xor %eax, %eax
	mov %rax, %dr7
	pop %rax
	iretq
make_present:				/* the page of CR2, below 2 MB */
	add $8, %rsp
	push %rax
	mov %cr2, %rax
	shr $12, %eax
	orb $1, low_pages(, %rax, 8)
	pop %rax
iret_of_page_fault:
	iretq
to_kernel:
	mov kernel_stack, %rsp
	jmp *resume

/* Near branches. */
CASE near, LONG_MODE
	ON near
	xor %eax, %eax
	jz 1f				/* taken */
	ud2
1:	jnz 1b				/* not taken */
	call near.function		/* no packet */
near.back:
	lea near.jump(%rip), %rax
	jmp *%rax
near.jump:
	mov $3, %ecx
2:	loop 2b				/* taken, taken, not taken */
	OFF near
	ret
near.function:
	ret

/* Software interrupts. */
CASE int_n, LONG_MODE
	ON int_n
	nop
int_n.at:
	int $48
int_n.next:
	OFF int_n
	ret

CASE int3, LONG_MODE
	ON int3
int3.at:
	int3
int3.next:
	OFF int3
	ret

/* Faults, at the beginning and in the middle of straight code. */
CASE fault_ud, LONG_MODE
	RESUME fault_ud.next
	ON fault_ud
	nop
	nop
fault_ud.at:
	ud2
fault_ud.next:
	OFF fault_ud
	ret

CASE fault_de, LONG_MODE
	RESUME fault_de.next
	ON fault_de
	xor %ecx, %ecx
	nop
fault_de.at:
	div %ecx
	nop
	nop
fault_de.next:
	OFF fault_de
	ret

CASE fault_gp, LONG_MODE
	RESUME fault_gp.next
	ON fault_gp
	mov $0xfff8, %eax
fault_gp.at:
	mov %eax, %ds
	nop
fault_gp.next:
	OFF fault_gp
	ret

/* The handler makes the page present, and the instruction runs again. */
CASE fault_pf, LONG_MODE
	ON fault_pf
	mov $missing_data, %edi
	nop
fault_pf.at:
	mov %eax, (%rdi)
	nop
	OFF fault_pf
	ret

/* REP that a page fault interrupts after four of its eight bytes. */
CASE rep_fault, LONG_MODE
	ON rep_fault
	mov $missing_data - 4, %edi
	mov $8, %ecx
rep_fault.at:
	rep stosb
	OFF rep_fault
	ret

/* A fault while an instruction is fetched: its second byte is on a page that is not present. */
CASE fetch_fault, LONG_MODE
	movabs $fetch_fault.back, %rdx
	mov %rdx, resume
	ON fetch_fault
	mov $fetch_fault.at, %eax
fetch_fault.jump:
	jmp *%rax
fetch_fault.back:
	OFF fetch_fault
	ret

/* An indirect jump and a conditional branch across a page boundary. */
CASE across_pages, LONG_MODE
	ON across_pages
	mov $across_pages.back, %edx
	mov $across_pages.at, %eax
	jmp *%rax
across_pages.back:
	OFF across_pages
	ret

/* A write into the code that runs next. The branch was not taken at first. */
CASE rewritten, LONG_MODE | NOT_EXPORTED
	ON rewritten
	mov $2, %ebx
1:	xor %eax, %eax
rewritten.branch:
	jnz 2f				/* becomes JZ */
	movb $0x74, rewritten.branch
	dec %ebx
	jnz 1b
2:	OFF rewritten
	movb $0x75, rewritten.branch
	ret

/* Gates that are not present: the INT raises #GP, the delivery of #UD raises #NP. */
CASE int_absent, LONG_MODE
	RESUME int_absent.next
	ON int_absent
	nop
int_absent.at:
	int $60
	nop
int_absent.next:
	OFF int_absent
	ret

CASE fault_absent, LONG_MODE
	RESUME fault_absent.next
	andb $0x7f, long_gates + 6 * 16 + 5
	ON fault_absent
	nop
fault_absent.at:
	.byte 0xf0, 0x90		/* LOCK NOP: #UD */
fault_absent.next:
	OFF fault_absent
	orb $0x80, long_gates + 6 * 16 + 5
	ret

/* Breakpoints of the debug registers: before an instruction, and after an access to data. */
CASE breakpoint, LONG_MODE
	mov $breakpoint.at, %eax
	mov %rax, %dr0
	mov $1, %eax
	mov %rax, %dr7
	ON breakpoint
	nop
breakpoint.at:
	nop
	OFF breakpoint
	ret

CASE watchpoint, LONG_MODE
	mov $watched, %eax
	mov %rax, %dr0
	mov $0x000d0001, %eax		/* writes of 4 bytes */
	mov %rax, %dr7
	ON watchpoint
	nop
	movl $1, watched
watchpoint.after:
	nop
	OFF watchpoint
	ret
	.lcomm watched, 8

/* Interrupts. The instruction behind STI runs first. */

CASE interrupt_shadow, LONG_MODE
	cli
	SEND TO_SELF | 49
	mov $1000, %ecx
1:	pause
	loop 1b
	ON interrupt_shadow
	sti
	nop
interrupt_shadow.after:
	nop
	cli
	OFF interrupt_shadow
	ret

CASE interrupt_spin, LONG_MODE
	RESUME interrupt_spin.next
	ON interrupt_spin
	sti
	SEND TO_SELF | 50
interrupt_spin.spin:
	jmp interrupt_spin.spin
interrupt_spin.next:
	cli
	OFF interrupt_spin
	ret

CASE nmi, LONG_MODE
	RESUME nmi.next
	ON nmi
	SEND AS_NMI			/* to the APIC with number 0 */
nmi.spin:
	jmp nmi.spin
nmi.next:
	OFF nmi
	ret

CASE hlt, LONG_MODE
	cli
	SEND TO_SELF | 49
	mov $1000, %ecx
1:	pause
	loop 1b
	ON hlt
	sti
	hlt
hlt.after:
	cli
	OFF hlt
	ret

/* The trap comes after the instruction behind POPF. */
CASE single_step, LONG_MODE
	ON single_step
	pushfq
	orl $0x100, (%rsp)
	popfq
	nop
single_step.after:
	nop
	OFF single_step
	ret

/* The trap of the taken branch: where it led is the next instruction. */
CASE single_step_branch, LONG_MODE
	ON single_step_branch
	xor %eax, %eax
	pushfq
	orl $0x100, (%rsp)
	popfq
	jz single_step_branch.after
	nop
single_step_branch.after:
	OFF single_step_branch
	ret

CASE syscall, LONG_MODE
	RESUME syscall.back
	ON syscall
	TO_USER USER64, syscall.user
syscall.user:
	syscall
syscall.next:
	int $128
syscall.back:
	OFF syscall
	ret
	.globl on_syscall
on_syscall:
	nop
	sysretq

	.set IA32_SYSENTER_EIP, 0x176
.macro SYSENTER_TO label
	mov $\label, %eax
	xor %edx, %edx
	mov $IA32_SYSENTER_EIP, %ecx
	wrmsr
.endm

CASE sysenter, LONG_MODE
	RESUME sysenter.back
	SYSENTER_TO on_sysenter
	ON sysenter
	TO_USER USER64, sysenter.user
sysenter.user:
	mov $sysenter.next, %edx
	mov $user_stack_end, %ecx
	sysenter
sysenter.next:
	int $128
sysenter.back:
	OFF sysenter
	ret
on_sysenter:
	nop
	sysexitq

/* The same from compatibility mode. */
CASE sysenter_32, LONG_MODE
	RESUME sysenter_32.back
	SYSENTER_TO on_sysenter_32
	ON sysenter_32
	TO_USER USER32, sysenter_32.user
	.code32
sysenter_32.user:
	mov $sysenter_32.next, %edx
	mov $user_stack_end, %ecx
	sysenter
sysenter_32.next:
	int $128
	.code64
sysenter_32.back:
	OFF sysenter_32
	ret
on_sysenter_32:
	sysexitl

/* SYSRET to compatibility mode. */
	.set IA32_LSTAR, 0xc0000082
.macro SYSCALL_TO label
	mov $\label, %eax
	xor %edx, %edx
	mov $IA32_LSTAR, %ecx
	wrmsr
.endm

CASE sysret_32, LONG_MODE
	RESUME sysret_32.back
	SYSCALL_TO on_sysret_32
	ON sysret_32
	TO_USER USER64, sysret_32.user
sysret_32.user:
	syscall
	.code32
sysret_32.next:
	int $128
	.code64
sysret_32.back:
	OFF sysret_32
	SYSCALL_TO on_syscall
	ret
on_sysret_32:
	sysretl

CASE user_fault, LONG_MODE
	RESUME user_fault.back
	ON user_fault
	TO_USER USER64, user_fault.user
user_fault.user:
	nop
user_fault.at:
	hlt				/* #GP: to_resume_error returns to user mode */
user_fault.back:
	RESUME user_fault.end
user_fault.int:
	int $128
user_fault.end:
	OFF user_fault
	ret

/* Far branches. */
CASE far_jump_32, LONG_MODE
	ON far_jump_32
	ljmpl *far_jump_32.pointer(%rip)
	.code32
far_jump_32.there:
	nop
	ljmpl $CODE64, $far_jump_32.back
	.code64
far_jump_32.back:
	OFF far_jump_32
	ret
far_jump_32.pointer:
	.long far_jump_32.there
	.short CODE32

CASE far_call_16, LONG_MODE
	ON far_call_16
	push $CODE64
	push $far_call_16.back
	ljmpl *far_call_16.pointer(%rip)
	.pushsection .low, "awx"
	.code16
far_call_16.there:
	nop
	ljmpl $CODE32, $far_call_16.middle
	.popsection
	.code32
far_call_16.middle:
	ljmpl $CODE64, $far_call_16.return
	.code64
far_call_16.return:
	lretq
far_call_16.back:
	OFF far_call_16
	ret
far_call_16.pointer:
	.long far_call_16.there
	.short CODE16

CASE call_gate, LONG_MODE
	ON call_gate
	lcall *call_gate.pointer(%rip)
call_gate.back:
	OFF call_gate
	ret
call_gate.pointer:
	.long 0
	.short GATE64
	.globl call_gate.target
call_gate.target:
	nop
	lretq

/* MOV CR3: the same value, another one and back. */
CASE mov_cr3, LONG_MODE
	ON mov_cr3
	mov %cr3, %rax
	mov %rax, %cr3
	mov $top_2, %ebx
	mov %rbx, %cr3
	mov %rax, %cr3
	jmp *mov_cr3.pointer(%rip)
mov_cr3.back:
	OFF mov_cr3
	ret
mov_cr3.pointer:
	.quad mov_cr3.back

/* Out of long mode and back in, with the trace on. */
CASE leave_long_mode, LONG_MODE
	ON leave_long_mode
	ljmpl *leave_long_mode.pointer(%rip)
	.code32
leave_long_mode.compat:
	mov %cr0, %eax
	and $0x7fffffff, %eax
	mov %eax, %cr0
	mov $0xc0000080, %ecx
	rdmsr
	and $~0x100, %eax
	wrmsr
	jmp *leave_long_mode.pointer_2
leave_long_mode.legacy:
	or $0x100, %eax
	wrmsr
	mov %cr0, %eax
	or $0x80000000, %eax
	mov %eax, %cr0
	ljmp $CODE64, $leave_long_mode.back
	.code64
leave_long_mode.back:
	OFF leave_long_mode
	ret
leave_long_mode.pointer:
	.long leave_long_mode.compat
	.short CODE32
leave_long_mode.pointer_2:
	.long leave_long_mode.legacy

/* Code that lies across two pages. */
	.section .pages, "awx"
	.balign 4096
	.skip 4096 - 3
across_pages.at:
	cmp %eax, %eax
	je 1f				/* its second byte is on the next page */
	ud2
1:	jmp *%rdx
	.balign 4096
	.skip 4096 - 1
fetch_fault.at:
	.byte 0x66			/* NOP with a prefix, on two pages */
	.globl missing_code
missing_code:
	.byte 0x90
	jmp *resume
	.balign 4096
	.skip 4096
	.globl missing_data
missing_data:
	.skip 4096

	.bss
	.balign 16
	.skip 4096
	.globl user_stack_end
user_stack_end:
	.skip 16
	.section .note.GNU-stack, "", @progbits
