/* SPDX-License-Identifier: MIT */
/*
 * Instructions that decoders did not know. Without an argument: NOPs that were reserved for hints,
 * 100 times, then encodings that are not defined, or by processors of later years alone. A handler
 * of SIGILL goes on behind those that fault, and their number is the exit status. "f": a form that
 * QEMU carries out although it is undefined. "in": INCSSPQ, of shadow stacks.
 */
	.macro try bytes:vararg
	mov $(2f - 1f), %r12d
1:	.byte \bytes
2:
	.endm

	.globl _start
	.type _start, @function
_start:	mov (%rsp), %r13
	mov 16(%rsp), %r14
	lea -64(%rsp), %rbp
	mov $1, %eax			/* somebody outside sees it run */
	mov $1, %edi
	lea hello(%rip), %rsi
	mov $6, %edx
	syscall
	mov $13, %eax			/* rt_sigaction(SIGILL, &action, NULL, 8) */
	mov $4, %edi
	lea action(%rip), %rsi
	xor %edx, %edx
	mov $8, %r10d
	syscall
	cmp $2, %r13d
	jne 1f
	cmpb $'f', (%r14)
	je form
	jmp shadow
1:	mov $100, %ebx
1:	call nops
	dec %ebx
	jnz 1b
	call undefined
end:	mov $231, %eax
	mov faults(%rip), %edi
	syscall
	.size _start, . - _start

	.type nops, @function
nops:	.byte 0x0f, 0x1a, 0x0d, 0, 0, 0, 0
	.byte 0x0f, 0x1b, 0x4c, 0x24, 0x08
	.byte 0xf3, 0x0f, 0x1a, 0xff
	.byte 0xf2, 0x0f, 0x1a, 0x25, 0, 0, 0, 0
	.byte 0x0f, 0x18, 0x3d, 0, 0, 0, 0
	ret
	.size nops, . - nops

	.type undefined, @function
undefined:
	try 0x06				/* PUSH ES */
	try 0x0f, 0x3c
	try 0x8d, 0xc0				/* LEA of a register */
	try 0xf0, 0x90				/* LOCK NOP */
	try 0xc4, 0xe2, 0x7f, 0xcc, 0xc1	/* VSHA512MSG1 */
	try 0xc4, 0xe2, 0x69, 0xe0, 0x4d, 0	/* CMPOXADD to (%rbp) */
	try 0xc4, 0xe2, 0x73, 0xda, 0xc2	/* VSM4RNDS4 */
	try 0xd5, 0x10, 0x01, 0xc0		/* ADD to R16 */
	try 0x62, 0xf4, 0x7c, 0x18, 0x01, 0xd8	/* ADD of three operands */
	mov $11, %r12d
	.byte 0xd5, 0, 0xa1			/* JMPABS */
	.quad 1f
1:	ret
	.size undefined, . - undefined

	.type form, @function
form:	mov $10, %ebx
3:	try 0xc6, 0xc8, 5			/* as MOV, but with ModRM.reg = 1 */
	dec %ebx
	jnz 3b
	jmp end
	.size form, . - form

	.type shadow, @function
shadow:
	try 0xf3, 0x48, 0x0f, 0xae, 0xe8
	jmp end
	.size shadow, . - shadow

	.type handler, @function
handler:
	incl faults(%rip)
	add %r12, 168(%rdx)			/* uc_mcontext.gregs[REG_RIP] */
	ret
	.size handler, . - handler
	.type restorer, @function
restorer:
	mov $15, %eax
	syscall
	.size restorer, . - restorer

	.data
hello:	.ascii "hello\n"
	.balign 8
action:	.quad handler, 0x04000004, restorer, 0	/* SA_RESTORER, SA_SIGINFO */
faults:	.long 0
	.section .note.GNU-stack, "", @progbits
