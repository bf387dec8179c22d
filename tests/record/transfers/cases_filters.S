/* SPDX-License-Identifier: MIT */
/*
 * Transfers that enter and leave what is traced: by privilege, CR3 and address range; and returns
 * that are compressed.
 */
	.include "case.inc"
	.include "user.inc"

	.text
	.code64

/* User code alone. */
CASE user_only, LONG_MODE
	RESUME user_only.back
	ON_WITH user_only, TRACE_EN | USER | DIS_RETC | BRANCH_EN
	TO_USER USER64, user_only.user
user_only.user:
	syscall
user_only.next:
	nop
user_only.int:
	int $128
user_only.back:
	OFF user_only
	ret

CASE user_only_fault, LONG_MODE
	RESUME user_only_fault.after
	ON_WITH user_only_fault, TRACE_EN | USER | DIS_RETC | BRANCH_EN
	TO_USER USER64, user_only_fault.user
user_only_fault.user:
	nop
user_only_fault.at:
	hlt				/* #GP; it returns to .after */
user_only_fault.after:
	RESUME user_only_fault.back
user_only_fault.int:
	int $128
user_only_fault.back:
	OFF user_only_fault
	ret

/* The kernel alone. */
CASE kernel_only, LONG_MODE
	RESUME kernel_only.back
	ON_WITH kernel_only, TRACE_EN | OS | DIS_RETC | BRANCH_EN
	TO_USER USER64, kernel_only.user
kernel_only.user:
	syscall
kernel_only.next:
	nop
	int $128
kernel_only.back:
	OFF kernel_only
	ret

/* One CR3, that of top_2. */
CASE cr3_filter, LONG_MODE
	mov %cr3, %rbx
	mov $top_2, %ebp
	ON_WITH cr3_filter, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | CR3_FILTER
	jmp *1f(%rip)
cr3_filter.untraced:
	mov %rbp, %cr3
cr3_filter.in:
	jmp *2f(%rip)
cr3_filter.traced:
	nop
	mov %rbx, %cr3
	nop
	OFF cr3_filter
	ret
1:	.quad cr3_filter.untraced
2:	.quad cr3_filter.traced

/* An address range, entered and left by branches and by an interrupt. main.c has set its ends. */
CASE range, LONG_MODE
	ON_WITH range, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | RANGE_0_FILTER
	nop
	call range.first
range.back:
	lea range.second(%rip), %rax
	call *%rax
	OFF range
	ret
	.globl range_begin, range_end
range_begin:
range.first:
	nop
range.int:
	int $48
range.next:
	ret
range.second:
	xor %eax, %eax
	jz 1f
	ud2
1:	jmp range.out
range_end:
range.out:
	ret

/* A range that stops the trace, entered by a jump; what runs afterwards is not traced. */
CASE stop_range, LONG_MODE
	ON_WITH stop_range, TRACE_EN | OS | USER | DIS_RETC | BRANCH_EN | RANGE_0_STOP
	call range.out
stop_range.call:
	call range.first
	lea range.second(%rip), %rax
	call *%rax
	OFF stop_range
	ret

/* Returns whose call is traced are outcomes; one whose call is not has a TIP. */
CASE compressed_returns, LONG_MODE
	push $compressed_returns.last
	ON_WITH compressed_returns, TRACE_EN | OS | USER | BRANCH_EN
	call 1f
	call 2f
	ret
compressed_returns.last:
	OFF compressed_returns
	ret
1:	call 2f
	ret
2:	ret

/* A string instruction of a few seconds that the local APIC's timer interrupts after a millisecond. */
CASE rep_interrupt, LONG_MODE
	RESUME rep_interrupt.next
	mov $0xfee003e0, %edx		/* divide by 1 */
	movl $0xb, (%rdx)
	mov $0xfee00320, %edx		/* once, vector 50 */
	movl $50, (%rdx)
	ON rep_interrupt
	xor %esi, %esi
	mov $0xfee00380, %edx
	mov $0xf0000000, %ecx
	sti
	movl $1000000, (%rdx)
rep_interrupt.at:
	rep lodsb
	nop
rep_interrupt.next:
	cli
	OFF rep_interrupt
	ret

/* An SMI, which the chipset raises at a write to port B2H, and which the firmware ignores. */
CASE smi, LONG_MODE
	ON smi
	mov $0xff, %al
	out %al, $0xb2
smi.after:
	nop
	OFF smi
	ret

/* Paging with PAE in 32 bits: CR3[11:5] are part of the address. */
	.code32
CASE pae, LEGACY_MODE
	mov %cr4, %eax
	or $0x20, %eax
	mov %eax, %cr4
	mov $pae_cr3, %eax
	mov %eax, %cr3
	mov %cr0, %eax
	or $0x80000000, %eax
	mov %eax, %cr0
	ON pae
	mov %cr3, %eax
	mov %eax, %cr3
	jmp *1f
pae.back:
	OFF pae
	mov %cr0, %eax
	and $0x7fffffff, %eax
	mov %eax, %cr0
	ret
1:	.long pae.back

	.bss
	.balign 4096
	.skip 32
	.globl pae_cr3			/* the table of pointers to directories; main.c fills it */
pae_cr3:
	.skip 32
	.section .note.GNU-stack, "", @progbits
