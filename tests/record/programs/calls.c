/* SPDX-License-Identifier: MIT */
/*
 * Calls and returns that do not pair as return compression assumes: deeper than its stack, left by
 * longjmp, switched between stacks, returns to addresses after no call, and calls that never
 * return.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

static jmp_buf back;
static volatile unsigned sum;

static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + 1 : 0;
}

static unsigned tree(unsigned n)
{
	return n < 2 ? n : tree(n - 1) + tree(n - 2);
}

static void jump_out(unsigned n)
{
	if (n > 1000)
		return;
	if (!n)
		longjmp(back, 1);
	jump_out(n - 1);
	sum++;
}

static int jumps(void)
{
	for (volatile unsigned n = 0; n < 150; n += 7) {
		if (!setjmp(back))
			jump_out(n);
		if (deep(n) != n)
			return 1;
	}
	return sum != 0;
}

static ucontext_t main_context, contexts[3];
static unsigned turns;

static void coroutine(unsigned i)
{
	for (unsigned k = 0; k < 50; k++) {
		deep((i + 1) * k % 11);
		turns++;
		swapcontext(&contexts[i], &contexts[(i + 1) % 3]);
	}
}

static int coroutines(void)
{
	for (unsigned i = 0; i < 3; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(65536);
		contexts[i].uc_stack.ss_size = 65536;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)(void))(uintptr_t)coroutine, 1, i);
	}
	swapcontext(&main_context, &contexts[0]);
	return turns < 140;
}

/* Each returns its argument. */
__asm__(
    ".pushsection .text\n"
    ".type push_return, @function\n"
    "push_return: lea 1f(%rip), %rax\n" /* a return without a call */
    "	push %rax\n"
    "	ret\n"
    "	ud2\n"
    "1:	mov %edi, %eax\n"
    "	ret\n"
    ".size push_return, . - push_return\n"

    ".type zero_call, @function\n"
    "zero_call: call 1f\n" /* a call to the next instruction, only for its address */
    "1:	pop %rax\n"
    "	mov %edi, %eax\n"
    "	ret\n"
    ".size zero_call, . - zero_call\n"

    ".type zero_call_returns, @function\n"
    "zero_call_returns: xor %eax, %eax\n" /* ... but returned from, once */
    "	call 1f\n"
    "1:	inc %eax\n"
    "	cmp $1, %eax\n"
    "	jne 2f\n"
    "	ret\n"
    "2:	mov %edi, %eax\n"
    "	ret\n"
    ".size zero_call_returns, . - zero_call_returns\n"

    ".type pop_return, @function\n"
    "pop_return: call 1f\n" /* the callee returns for its caller */
    "	ud2\n"
    "1:	add $8, %rsp\n"
    "	mov %edi, %eax\n"
    "	ret\n"
    ".size pop_return, . - pop_return\n"

    ".type skip_return, @function\n"
    "skip_return: call 1f\n" /* the callee returns to a later address than that after the call */
    "	ud2\n"
    "	mov %edi, %eax\n"
    "	ret\n"
    "1:	addq $2, (%rsp)\n"
    "	ret\n"
    ".size skip_return, . - skip_return\n"

    ".type retpoline, @function\n"
    "retpoline: lea 3f(%rip), %rax\n"
    "	call 2f\n"
    "1:	pause\n"
    "	jmp 1b\n"
    "2:	mov %rax, (%rsp)\n"
    "	ret\n"
    "3:	mov %edi, %eax\n"
    "	ret\n"
    ".size retpoline, . - retpoline\n"

    ".type return_pop, @function\n"
    "return_pop: push %rdi\n" /* ret imm16, and a call through memory relative to rsp */
    "	push %rdi\n"
    "	lea 1f(%rip), %rax\n"
    "	push %rax\n"
    "	call *(%rsp)\n"
    "	pop %rcx\n"
    "	ret\n"
    "1:	mov %edi, %eax\n"
    "	ret $16\n"
    ".size return_pop, . - return_pop\n"

    ".type branch_to_next, @function\n"
    "branch_to_next: cmp $5, %edi\n" /* taken or not, the path is the same */
    "	jb 1f\n"
    "1:	jmp 2f\n"
    "2:	lea 3f(%rip), %rax\n"
    "	jmp *%rax\n"
    "3:	lea 4f(%rip), %rax\n"
    "	call *%rax\n"
    "4:	pop %rax\n"
    "	mov %edi, %eax\n"
    "	ret\n"
    ".size branch_to_next, . - branch_to_next\n"

    ".type loops, @function\n"
    "loops:	mov $20, %ecx\n" /* the branches that are not Jcc */
    "1:	loop 1b\n"
    "	mov $9, %ecx\n"
    "2:	cmp $99, %ecx\n"
    "	loopne 2b\n"
    "	mov $9, %ecx\n"
    "3:	cmp %eax, %eax\n"
    "	loope 3b\n"
    "	jrcxz 4f\n"
    "	ud2\n"
    "4:	mov %edi, %ecx\n"
    "	jecxz 5f\n"
    "5:	mov %edi, %eax\n"
    "	ret\n"
    ".size loops, . - loops\n"
    ".popsection\n");
unsigned push_return(unsigned), zero_call(unsigned), zero_call_returns(unsigned),
    pop_return(unsigned), skip_return(unsigned), retpoline(unsigned), return_pop(unsigned),
    branch_to_next(unsigned), loops(unsigned);

int main(void)
{
	static unsigned (*const odd[])(unsigned) = {
	    push_return, zero_call,  zero_call_returns, pop_return, skip_return,
	    retpoline,	 return_pop, branch_to_next,	loops,
	};

	for (unsigned n = 0; n < 200; n += 13)
		if (deep(n) != n)
			return 1;
	if (tree(12) != 144)
		return 2;
	if (jumps() || coroutines())
		return 3;
	for (unsigned i = 0; i < 10; i++)
		for (unsigned k = 0; k < sizeof(odd) / sizeof(*odd); k++)
			if (odd[k](i) != i)
				return 10 + (int)k;
	return 0;
}
