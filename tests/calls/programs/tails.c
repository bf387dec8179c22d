/* SPDX-License-Identifier: MIT */
/*
 * Functions that end by a jump to another one, in assembly, so that no compiler decides about it:
 * chains of them, loops of them, through pointers and retpolines, and `ret` used as a jump. Each
 * logs its beginning, and whether it returns or jumps.
 */
#include "call_log.h"

#include <stdint.h>

static volatile uintptr_t table[4];

/*
 * A function that logs its beginning and keeps its argument, and ends by one of
 *	give_back	returns the argument plus 1
 *	leave_for	logs that it jumps; the argument minus 1 is in edi for the jump that follows
 */
__asm__(".pushsection .text\n"
	".macro function name\n"
	"	.globl \\name\n"
	"	.type \\name, @function\n"
	"\\name:	push %rdi\n"
	"	lea \\name(%rip), %rdi\n"
	"	call calls_enter\n"
	".endm\n"
	".macro give_back name\n"
	"	lea \\name(%rip), %rdi\n"
	"	call calls_exit\n"
	"	pop %rax\n"
	"	inc %eax\n"
	"	ret\n"
	".endm\n"
	".macro leave_for name\n"
	"	lea \\name(%rip), %rdi\n"
	"	call calls_tail\n"
	"	pop %rdi\n"
	"	dec %edi\n"
	".endm\n"
	".macro finish name\n"
	"	.size \\name, . - \\name\n"
	".endm\n"

	"function last\n" /* returns */
	"	give_back last\n"
	"finish last\n"

	"function chain_3\n" /* one jumps to the next */
	"	leave_for chain_3\n"
	"	jmp last\n"
	"finish chain_3\n"
	"function chain_2\n"
	"	leave_for chain_2\n"
	"	jmp chain_3\n"
	"finish chain_2\n"
	"function chain_1\n"
	"	leave_for chain_1\n"
	"	jmp chain_2\n"
	"finish chain_1\n"

	"function is_even\n" /* each other's tail calls, conditional ones */
	"	cmpl $0, (%rsp)\n"
	"	je 1f\n"
	"	leave_for is_even\n"
	"	jmp is_odd\n"
	"1:	give_back is_even\n"
	"finish is_even\n"
	"function is_odd\n"
	"	cmpl $0, (%rsp)\n"
	"	je 1f\n"
	"	leave_for is_odd\n"
	"	test %edi, %edi\n"
	"	jns is_even\n"
	"	ud2\n"
	"1:	give_back is_odd\n"
	"finish is_odd\n"

	"function calls_and_leaves\n" /* calls, then jumps */
	"	mov (%rsp), %rdi\n"
	"	call chain_2\n"
	"	mov (%rsp), %rdi\n"
	"	call last\n"
	"	leave_for calls_and_leaves\n"
	"	jmp chain_3\n"
	"finish calls_and_leaves\n"

	"function by_pointer\n" /* by an indirect jump */
	"	leave_for by_pointer\n"
	"	lea chain_2(%rip), %rax\n"
	"	jmp *%rax\n"
	"finish by_pointer\n"

	"function by_return\n" /* pushes the address and returns to it */
	"	leave_for by_return\n"
	"	lea chain_3(%rip), %rax\n"
	"	push %rax\n"
	"	ret\n"
	"finish by_return\n"

	"	.type thunk, @function\n" /* as -mindirect-branch=thunk has it */
	"thunk:	call 2f\n"
	"1:	pause\n"
	"	lfence\n"
	"	jmp 1b\n"
	"2:	mov %rax, (%rsp)\n"
	"	ret\n"
	"	.size thunk, . - thunk\n"

	"function by_retpoline\n" /* a call and a tail call through it */
	"	mov (%rsp), %rdi\n"
	"	lea chain_3(%rip), %rax\n"
	"	call thunk\n"
	"	leave_for by_retpoline\n"
	"	lea chain_2(%rip), %rax\n"
	"	jmp thunk\n"
	"finish by_retpoline\n"

	"function where_am_i\n" /* a call to the next instruction is none */
	"	call 1f\n"
	"1:	pop %rax\n"
	"	give_back where_am_i\n"
	"finish where_am_i\n"

	".globl loops\n" /* a jump to the own beginning is a loop */
	".type loops, @function\n"
	"loops:	dec %edi\n"
	"	js 1f\n"
	"	jne loops\n"
	"	jmp loops\n"
	"1:	ret\n"
	"finish loops\n"
	".popsection\n");

unsigned last(unsigned), chain_1(unsigned), chain_2(unsigned), chain_3(unsigned), is_even(unsigned),
    is_odd(unsigned), calls_and_leaves(unsigned), by_pointer(unsigned), by_return(unsigned),
    by_retpoline(unsigned), where_am_i(unsigned), loops(unsigned);

typedef unsigned function(unsigned);

NOINLINE static unsigned through(function *f, unsigned n)
{
	return f(n) + 1;
}

int main(void)
{
	static function *const all[] = {chain_1,    is_even,   is_odd,	     calls_and_leaves,
					by_pointer, by_return, by_retpoline, where_am_i};

	for (unsigned n = 3; n < 6; n++)
		for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
			table[n % 4] += through(all[i], n);
	calls_enter((const void *)(uintptr_t)loops);
	loops(5);
	calls_exit((const void *)(uintptr_t)loops);
	return 0;
}
