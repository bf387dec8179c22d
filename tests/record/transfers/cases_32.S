/* SPDX-License-Identifier: MIT */
/*
 * Transfers that begin in 32-bit protected mode without IA-32e mode: 16-bit segments, real mode,
 * virtual-8086 mode, tasks. Paging is off unless a case switches it on.
 */
	.include "case.inc"

	.text
	.code32
	.comm resume_32, 4
	.lcomm kernel_stack_32, 4

.macro VECTOR_32 number, next
	.globl vector_32_\number
vector_32_\number:
	jmp \next
.endm
	VECTOR_32 3, return_32
	VECTOR_32 4, return_32		/* #OF */
	VECTOR_32 6, to_resume_32
	VECTOR_32 13, to_resume_error_32
	VECTOR_32 48, return_32
	VECTOR_32 128, to_kernel_32

to_resume_error_32:
	add $4, %esp
to_resume_32:
	push %eax
	mov resume_32, %eax
	mov %eax, 4(%esp)
	pop %eax
return_32:
	iretl
to_kernel_32:
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov kernel_stack_32, %esp
	jmp *resume_32

CASE int_n_32, LEGACY_MODE
	ON int_n_32
int_n_32.at:
	int $48
int_n_32.next:
	OFF int_n_32
	ret

CASE int3_32, LEGACY_MODE
	ON int3_32
int3_32.at:
	int3
int3_32.next:
	OFF int3_32
	ret

/* INTO, once without the flag OF and once with it. */
CASE into, LEGACY_MODE | NOT_EXPORTED
	ON into
	xor %eax, %eax
	into
	mov $0x7f, %al
	inc %al
into.at:
	into
into.next:
	OFF into
	ret

CASE fault_ud_32, LEGACY_MODE
	movl $fault_ud_32.next, resume_32
	ON fault_ud_32
	nop
fault_ud_32.at:
	ud2
fault_ud_32.next:
	OFF fault_ud_32
	ret

CASE far_call_32, LEGACY_MODE
	ON far_call_32
	lcall $CODE32, $far_call_32.there
far_call_32.back:
	OFF far_call_32
	ret
far_call_32.there:
	lret

/* Through a call gate into ring 0, from ring 3, and back. */
CASE call_gate_32, LEGACY_MODE
	movl $call_gate_32.back, resume_32
	mov %esp, kernel_stack_32
	ON call_gate_32
	push $USER_DATA
	push $user_stack_32_end
	push $USER32
	push $call_gate_32.user
	lret				/* to the outer ring */
call_gate_32.user:
	lcall $GATE32, $0
call_gate_32.next:
	int $128
call_gate_32.back:
	OFF call_gate_32
	ret
	.globl call_gate_32.target
call_gate_32.target:
	nop
	lret

CASE sysenter_legacy, LEGACY_MODE
	movl $sysenter_legacy.back, resume_32
	mov %esp, kernel_stack_32
	mov $on_sysenter_legacy, %eax
	xor %edx, %edx
	mov $0x176, %ecx		/* IA32_SYSENTER_EIP */
	wrmsr
	ON sysenter_legacy
	push $USER_DATA
	push $user_stack_32_end
	push $2
	push $USER32
	push $sysenter_legacy.user
	iretl
sysenter_legacy.user:
	mov $sysenter_legacy.next, %edx
	mov $user_stack_32_end, %ecx
	sysenter
sysenter_legacy.next:
	int $128
sysenter_legacy.back:
	OFF sysenter_legacy
	ret
on_sysenter_legacy:
	sysexit

/* A code segment whose base is not 0: without LIP, packets have the offset in the segment. */
CASE segment_base, LEGACY_MODE | NOT_EXPORTED
	ON segment_base
	ljmp $CODE32_BASE, $segment_base.there_rip
segment_base.there:
	xor %eax, %eax
	jz segment_base.taken
	ud2
segment_base.taken:
	mov $segment_base.indirect_rip, %eax
	jmp *%eax
	.set segment_base.there_rip, segment_base.there - CODE_BASE
	.set segment_base.indirect_rip, segment_base.indirect - CODE_BASE
segment_base.indirect:
	ljmp $CODE32, $segment_base.back
segment_base.back:
	OFF segment_base
	ret

/* A jump from the end of a 16-bit segment to its beginning. */
	.set wrap.from, 0xffe0
	.set wrap.to, 0x0010
CASE wrap, LEGACY_MODE | NOT_EXPORTED
	mov $wrap.code, %esi
	mov $CODE_BASE + wrap.from, %edi
	movsl
	mov $CODE_BASE + wrap.to, %edi
	movsl
	movsl
	ON wrap
	ljmp $CODE16_BASE, $wrap.from
wrap.back:
	OFF wrap
	ret
wrap.code:
	.byte 0xe9			/* jmp near */
	.short (wrap.to - wrap.from - 3) & 0xffff
	.byte 0x90
	.byte 0x66, 0xea		/* ljmpl */
	.long wrap.back
	.short CODE32

/* 16-bit protected mode, real mode, an interrupt there, and back. */
CASE real_mode, LEGACY_MODE
	mov %esp, kernel_stack_32
	sidt protected_table
	movl $vector_real_96, 0x60 * 4	/* its segment is 0 */
	ON real_mode
	ljmp $CODE16, $real_mode.protected
	.section .low, "awx"
	.code16
real_mode.protected:
	mov $DATA16, %ax
	mov %ax, %ds
	mov %ax, %ss
	mov $real_stack_end, %sp
	lidt real_table
	mov %cr0, %eax
	and $~1, %eax
	mov %eax, %cr0
	ljmp $0, $real_mode.real
real_mode.real:
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %ss
	test %ax, %ax
	jz 1f
	ud2
1:	call real_mode.function
real_mode.called:
real_mode.int:
	int $0x60
real_mode.next:
	pushw $0
	pushw $real_mode.lret
	lret
real_mode.lret:
	mov %cr0, %eax
	or $1, %eax
	mov %eax, %cr0
	ljmpl $CODE32, $real_mode.back
real_mode.function:
	ret
vector_real_96:
	nop
	iret
	.balign 4
	.globl real_table, real_stack_end
real_table:
	.short 0x3ff
	.long 0
	.skip 256
real_stack_end:
	.text
	.code32
real_mode.back:
	mov $DATA, %eax
	mov %eax, %ds
	mov %eax, %es
	mov %eax, %ss
	mov kernel_stack_32, %esp
	lidt protected_table
	OFF real_mode
	ret
	.lcomm protected_table, 8

/* Virtual-8086 mode. IOPL is 3, so that INT goes through the protected-mode table. */
	.set EFLAGS_VM, 1 << 17
	.set EFLAGS_IOPL_3, 3 << 12
CASE virtual_8086, LEGACY_MODE
	movl $virtual_8086.back, resume_32
	mov %esp, kernel_stack_32
	ON virtual_8086
	push $0				/* GS, FS, DS, ES */
	push $0
	push $0
	push $0
	push $0				/* SS, SP */
	push $virtual_stack_end
	push $EFLAGS_VM | EFLAGS_IOPL_3 | 2
	push $0				/* CS, IP */
	push $virtual_8086.there
	iretl
	.section .low, "awx"
	.code16
virtual_8086.there:
	xor %ax, %ax
	jnz virtual_8086.there
	mov $virtual_8086.jump, %ax
	jmp *%ax
virtual_8086.jump:
	int $48
virtual_8086.next:
	ljmp $0, $virtual_8086.far
virtual_8086.far:
	int $128
	.skip 64
virtual_stack_end:
	.text
	.code32
virtual_8086.back:
	OFF virtual_8086
	ret

/*
 * Tasks: a far jump to one and back; a far call and its IRET, which follows the link because NT is
 * set. Without paging CR3 stays as it is.
 */
CASE task_jump, LEGACY_MODE
	movl $task_jump.there, task_b + 32
	ON task_jump
	ljmp $TASK_B, $0
task_jump.back:
	OFF task_jump
	ret
task_jump.there:
	nop
	ljmp $TASK_A, $0

CASE task_call, LEGACY_MODE
	movl $task_call.there, task_b + 32
	ON task_call
	lcall $TASK_B, $0
task_call.back:
	OFF task_call
	ret
task_call.there:
	nop
	iretl

/* The same with paging, where each task has its own CR3. */
CASE task_paging, LEGACY_MODE
	movl $task_paging.there, task_b + 32
	mov $directory_a, %eax
	mov %eax, %cr3
	mov %cr0, %eax
	or $0x80000000, %eax
	mov %eax, %cr0
	ON task_paging
	lcall $TASK_B, $0
task_paging.back:
	OFF task_paging
	mov %cr0, %eax
	and $0x7fffffff, %eax
	mov %eax, %cr0
	ret
task_paging.there:
	nop
	iretl

	.bss
	.balign 16
	.skip 4096
user_stack_32_end:
	.skip 16
	.section .note.GNU-stack, "", @progbits
