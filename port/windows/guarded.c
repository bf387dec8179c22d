/* SPDX-License-Identifier: MIT */
/*
 * Structured exception handling: an RDMSR that raises #GP, and the mapper of user memory, which
 * raises where others return NULL. In the C of Microsoft's compiler and of clang; mingw-w64's gcc
 * has no __try, but its assembler can write the table that the kernel's unwinder reads.
 */
#include "port.h"

#ifdef _MSC_VER

int windows_guarded(VOID (*work)(PVOID argument), PVOID argument)
{
	__try {
		work(argument);
	} __except (EXCEPTION_EXECUTE_HANDLER) {
		return -1;
	}
	return 0;
}

#elif defined(__MINGW32__)

/*
 * The table of __C_specific_handler: one scope, from 1 to 2, whose filter is the constant
 * EXCEPTION_EXECUTE_HANDLER and whose handler is 3. The NOP keeps the return address of the call
 * inside of the scope.
 */
__asm__(".text\n"
	".globl windows_guarded\n"
	".def windows_guarded; .scl 2; .type 32; .endef\n"
	".seh_proc windows_guarded\n"
	"windows_guarded:\n"
	"	subq $40, %rsp\n"
	"	.seh_stackalloc 40\n"
	"	.seh_endprologue\n"
	"	movq %rcx, %rax\n"
	"	movq %rdx, %rcx\n"
	"1:	call *%rax\n"
	"	nop\n"
	"2:	xorl %eax, %eax\n"
	"	jmp 4f\n"
	"3:	movl $-1, %eax\n"
	"4:	addq $40, %rsp\n"
	"	ret\n"
	"	.seh_handler __C_specific_handler, @except\n"
	"	.seh_handlerdata\n"
	"	.long 1\n"
	"	.rva 1b\n"
	"	.rva 2b\n"
	"	.long 1\n"
	"	.rva 3b\n"
	".text\n"
	"	.seh_endproc\n");

#endif
