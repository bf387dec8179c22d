/* SPDX-License-Identifier: MIT */
/*
 * Several stacks in one thread: ucontext in turns and as generators, and a switch in assembly as
 * boost::context and libco have it.
 */
#include "call_log.h"

#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

static volatile unsigned sum;

NOINLINE static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + 1 : 0;
}

/* Round robin. Stack 0 is the thread's, 1 to 3 are these. */

static ucontext_t main_context, contexts[3];

NOINLINE static void turn(unsigned from, unsigned to)
{
	calls_switch(to + 1);
	swapcontext(&contexts[from], &contexts[to]);
}

NOINLINE static void in_turns(unsigned i)
{
	for (unsigned k = 0; k < 20; k++) {
		sum += deep((i + 1) * k % 5);
		if (k % 4 != i)
			turn(i, (i + 1) % 3);
	}
	calls_switch(0);
	setcontext(&main_context);
}

NOINLINE static void ping_pong(void)
{
	for (unsigned i = 0; i < 3; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(65536);
		contexts[i].uc_stack.ss_size = 65536;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)(void))(uintptr_t)in_turns, 1, i);
	}
	calls_switch(1);
	swapcontext(&main_context, &contexts[0]);
	deep(1);
}

/* Generators: the caller resumes them for a value each, from different depths. */

struct generator {
	ucontext_t self, caller;
	unsigned value, number;
};

static struct generator generators[2];

NOINLINE static void yield(struct generator *g, unsigned value)
{
	g->value = value;
	calls_switch(0);
	swapcontext(&g->self, &g->caller);
}

NOINLINE static void walk(struct generator *g, unsigned n)
{
	if (n > 1)
		walk(g, n - 1);
	yield(g, n);
	if (n > 2)
		walk(g, n - 2);
}

NOINLINE static void generate(unsigned i)
{
	walk(&generators[i], 5);
	generators[i].value = 0;
}

NOINLINE static unsigned next(struct generator *g)
{
	calls_switch(g->number);
	swapcontext(&g->caller, &g->self);
	return g->value;
}

NOINLINE static unsigned next_from_below(struct generator *g, unsigned n)
{
	return n ? next_from_below(g, n - 1) : next(g);
}

/* Assembly: callee-saved registers, and then `ret` on the other stack, or a jump to where it was
 * left. */

void switch_by_return(void **from, void *to), switch_by_jump(void **from, void *to);

__asm__(".pushsection .text\n"
	".macro save_registers\n"
	"	push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
	".endm\n"
	".type switch_by_return, @function\n"
	"switch_by_return: save_registers\n"
	"	ret\n"
	".size switch_by_return, . - switch_by_return\n"
	".type switch_by_jump, @function\n"
	"switch_by_jump: save_registers\n"
	"	pop %rdx\n"
	"	jmp *%rdx\n"
	".size switch_by_jump, . - switch_by_jump\n"
	".popsection\n");

static void *stacks[3]; /* the saved stack pointers; 0 is the thread's */
static void (*change)(void **from, void *to);

NOINLINE static void resume(unsigned from, unsigned to, unsigned base)
{
	calls_switch(to ? base + to : 0);
	change(&stacks[from], stacks[to]);
}

static volatile unsigned base;

NOINLINE static void body(unsigned number)
{
	for (unsigned k = 0;; k++) {
		sum += deep(k % 4);
		resume(number, k % 3 == 2 ? 3 - number : 0, base);
	}
}

NOINLINE static void one(void)
{
	body(1);
}

NOINLINE static void two(void)
{
	body(2);
}

static void *new_stack(void (*function)(void))
{
	uintptr_t *top = (uintptr_t *)((char *)malloc(65536) + 65536 - 64);

	top[6] = (uintptr_t)function;
	top[7] = 0;
	return top;
}

NOINLINE static void assembly(void (*how)(void **, void *), unsigned first)
{
	change = how;
	base = first;
	stacks[1] = new_stack(one);
	stacks[2] = new_stack(two);
	for (unsigned k = 0; k < 12; k++) {
		resume(0, 1 + k % 2, base);
		deep(k % 3);
	}
}

int main(void)
{
	ping_pong();
	for (unsigned i = 0; i < 2; i++) {
		struct generator *g = &generators[i];

		g->number = 4 + i;
		getcontext(&g->self);
		g->self.uc_stack.ss_sp = malloc(65536);
		g->self.uc_stack.ss_size = 65536;
		g->self.uc_link = NULL;
		makecontext(&g->self, (void (*)(void))(uintptr_t)generate, 1, i);
	}
	for (unsigned i = 0; i < 16; i++)
		sum += next_from_below(&generators[i % 2], i % 3);
	assembly(switch_by_return, 5);
	assembly(switch_by_jump, 7);
	deep(2);
	return 0;
}
