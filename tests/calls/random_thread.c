/* SPDX-License-Identifier: MIT */
/*
 * Makes up a thread (random_thread.h). Every stack is an array of frames, and an instruction has 4
 * bytes. Calls that switch stacks, and landing pads, have addresses of their own, so that where
 * execution continues is never in doubt: what is in doubt on real processors, too, has tests of its
 * own.
 */
#include "random.h"
#include "random_thread.h"

#include <stdlib.h>
#include <string.h>

#define INSN	   4
#define PLAIN	   24 /* functions that do everything */
#define MAX_DEPTH  60
#define MAX_CHAIN  6
#define MAX_STACKS 6
#define FUNCTION   0x100000 /* from one function to the next */
#define CODE	   0x80000  /* bytes of a function */

/* Functions that do one thing. */
enum {
	THROW = PLAIN,
	LONGJMP,
	SETJMP,
	SWITCH,
	STUB,
	RESTORER,
	HANDLER,
	FUNCTIONS
};

struct frame {
	unsigned function;
	uint32_t id;
	uint64_t return_ip;
	bool tail, signal;
	uint64_t setjmp_ip; /* 0: it has not called setjmp() */
};

struct stack {
	struct frame frames[MAX_DEPTH];
	unsigned depth;
	uint64_t resume_ip; /* where it continues, in the function that called SWITCH */
	bool used;
};

struct maker {
	struct random_thread *t;
	uint64_t seed, ip, instructions, tsc;
	unsigned fresh; /* instructions that nothing else has used */
	uint32_t last_id;
	struct stack stacks[MAX_STACKS]; /* the first is the thread's own */
	struct stack *now;
	size_t item_capacity, mark_capacity;
};

static unsigned pick(struct maker *k, unsigned n)
{
	return (unsigned)(random_next(&k->seed) >> 20) % n;
}

static uint64_t start_of(unsigned function)
{
	return (uint64_t)(function + 1) * FUNCTION;
}

bool random_thread_find(void *context, unsigned space, uint64_t ip, uint64_t tsc,
			struct ptah_function *f)
{
	const uint64_t function = ip / FUNCTION - 1;

	(void)context;
	(void)space;
	(void)tsc;
	if (ip < FUNCTION || function >= FUNCTIONS || ip % FUNCTION >= CODE)
		return false;
	f->low = f->start = start_of((unsigned)function);
	f->high = f->low + CODE;
	f->flags = function == SETJMP	? PTAH_FUNCTION_TWICE
		   : function == SWITCH ? PTAH_FUNCTION_SWITCH
		   : function == STUB	? PTAH_FUNCTION_STUB
					: 0;
	return true;
}

static void *append(void **array, size_t *capacity, size_t *count, size_t size)
{
	if (*count == *capacity) {
		*capacity = *capacity ? 2 * *capacity : 1024;
		*array = realloc(*array, *capacity * size);
		if (!*array)
			abort();
	}
	memset((char *)*array + *count * size, 0, size);
	return (char *)*array + (*count)++ * size;
}

static struct ptah_item *add_item(struct maker *k, unsigned type)
{
	void *items = k->t->items;
	struct ptah_item *item =
	    append(&items, &k->item_capacity, &k->t->item_count, sizeof(*item));

	k->t->items = items;
	item->type = (uint8_t)type;
	item->tsc = k->tsc += pick(k, 4);
	item->offset = k->t->item_count;
	return item;
}

/* Instructions from k->ip on, of which the last is a branch of this class; it goes to `to`. */
static void run(struct maker *k, unsigned insn_class, uint64_t to)
{
	struct ptah_item *block = add_item(k, PTAH_ITEM_BLOCK);

	block->ip = k->ip;
	block->ninsn = (uint16_t)(1 + pick(k, 3));
	block->end = k->ip + INSN * block->ninsn;
	block->last_size = INSN;
	block->insn_class = (uint8_t)insn_class;
	k->instructions += block->ninsn;
	k->ip = insn_class == PTAH_INSN_OTHER ? block->end : to;
}

static struct frame *top(struct maker *k)
{
	return &k->now->frames[k->now->depth - 1];
}

static void add_mark(struct maker *k, const struct frame *f, bool end, unsigned how)
{
	void *marks = k->t->marks;
	struct true_mark *mark =
	    append(&marks, &k->mark_capacity, &k->t->mark_count, sizeof(*mark));

	k->t->marks = marks;
	*mark = (struct true_mark){
	    .function = start_of(f->function),
	    .offset = k->t->item_count,
	    .instructions = k->instructions,
	    .id = f->id,
	    .end = end,
	    .how = (uint8_t)how,
	};
}

static void push(struct maker *k, unsigned function, unsigned how, uint64_t return_ip)
{
	struct frame *f = &k->now->frames[k->now->depth++];

	*f = (struct frame){
	    .function = function,
	    .id = ++k->last_id,
	    .return_ip = return_ip,
	    .tail = how == PTAH_CALL_TAIL,
	    .signal = how == PTAH_CALL_SIGNAL,
	};
	add_mark(k, f, false, how);
}

static void pop(struct maker *k, unsigned how)
{
	add_mark(k, top(k), true, how);
	k->now->depth--;
}

/* An instruction of the function that no other step uses; there is room for a block before it. */
static uint64_t fresh_ip(struct maker *k)
{
	return start_of(top(k)->function) + 0x8000 + 16 * INSN * (uint64_t)(k->fresh++ % 0x1000);
}

/* Goes elsewhere in the function. */
static void jump_to(struct maker *k, uint64_t ip)
{
	run(k, pick(k, 2) ? PTAH_INSN_COND : PTAH_INSN_JUMP, ip);
}

static void call(struct maker *k, unsigned function)
{
	uint64_t return_ip;

	jump_to(k, start_of(top(k)->function) + 16 * INSN * (1 + pick(k, 200)));
	run(k, pick(k, 2) ? PTAH_INSN_CALL : PTAH_INSN_CALL_IND, start_of(function));
	return_ip = k->t->items[k->t->item_count - 1].end;
	push(k, function, PTAH_CALL_CALLED, return_ip);
}

/* The chain of tail calls that the top ends. */
static unsigned chain(struct maker *k, unsigned function, bool *has)
{
	unsigned n = 1, i = k->now->depth - 1;

	*has = k->now->frames[i].function == function;
	for (; k->now->frames[i].tail && i > 0; n++)
		*has |= k->now->frames[--i].function == function;
	return n;
}

static void tail_call(struct maker *k, unsigned function)
{
	const uint64_t return_ip = top(k)->return_ip;
	bool has;

	if (chain(k, function, &has) > MAX_CHAIN || has)
		return;
	run(k, pick(k, 2) ? PTAH_INSN_JUMP : PTAH_INSN_COND, start_of(function));
	push(k, function, PTAH_CALL_TAIL, return_ip);
}

static void call_through_stub(struct maker *k, unsigned function)
{
	call(k, STUB);
	run(k, PTAH_INSN_JUMP_IND, start_of(function));
	push(k, function, PTAH_CALL_TAIL, top(k)->return_ip);
}

static void system_call(struct maker *k)
{
	run(k, PTAH_INSN_FAR_CALL, k->ip);
	k->ip = k->t->items[k->t->item_count - 1].end;
	add_item(k, PTAH_ITEM_DISABLED)->flags = PTAH_ITEM_IP_SUPPRESSED;
	add_item(k, PTAH_ITEM_ENABLED)->ip = k->ip;
}

/* The handler returns to the restorer, which ends in rt_sigreturn. */
static void end_handler(struct maker *k, uint64_t interrupted)
{
	run(k, PTAH_INSN_RETURN, start_of(RESTORER));
	for (bool tail = top(k)->tail, first = true; first || tail; first = false) {
		tail = top(k)->tail;
		pop(k, first ? PTAH_CALL_END_RETURN : PTAH_CALL_END_TAIL);
		if (!tail)
			break;
	}
	push(k, RESTORER, PTAH_CALL_TAIL, 0);
	run(k, PTAH_INSN_FAR_CALL, interrupted);
	add_item(k, PTAH_ITEM_DISABLED)->flags = PTAH_ITEM_IP_SUPPRESSED;
	add_item(k, PTAH_ITEM_ENABLED)->ip = interrupted;
	pop(k, PTAH_CALL_END_RETURN);
}

static void do_return(struct maker *k)
{
	const uint64_t to = top(k)->return_ip;
	unsigned i = k->now->depth - 1;
	bool tail = true;

	while (k->now->frames[i].tail)
		i--;
	if (i == 0) /* the first of its stack */
		return;
	if (k->now->frames[i].signal) {
		end_handler(k, to);
		return;
	}
	run(k, PTAH_INSN_RETURN, to);
	for (unsigned how = PTAH_CALL_END_RETURN; tail; how = PTAH_CALL_END_TAIL) {
		tail = top(k)->tail;
		pop(k, how);
	}
}

static void signal(struct maker *k)
{
	const uint64_t interrupted = k->ip;

	/* Before the handler's first instruction it would look like a page fault there. */
	if (interrupted == start_of(HANDLER))
		return;
	add_item(k, PTAH_ITEM_ASYNC_DISABLED)->ip = interrupted;
	add_item(k, PTAH_ITEM_ENABLED)->ip = start_of(HANDLER);
	k->ip = start_of(HANDLER);
	push(k, HANDLER, PTAH_CALL_SIGNAL, interrupted);
}

static void call_setjmp(struct maker *k)
{
	jump_to(k, start_of(top(k)->function) + 0x70000 + 16 * INSN * pick(k, 20));
	run(k, PTAH_INSN_CALL, start_of(SETJMP));
	push(k, SETJMP, PTAH_CALL_CALLED, k->t->items[k->t->item_count - 1].end);
	do_return(k);
	top(k)->setjmp_ip = k->ip;
}

static void unwind_to(struct maker *k, unsigned depth)
{
	while (k->now->depth > depth)
		pop(k, PTAH_CALL_END_UNWOUND);
}

static void call_longjmp(struct maker *k)
{
	unsigned depth = k->now->depth;

	while (depth && !k->now->frames[depth - 1].setjmp_ip)
		depth--;
	if (!depth)
		return;
	call(k, LONGJMP);
	run(k, PTAH_INSN_JUMP_IND, k->now->frames[depth - 1].setjmp_ip);
	unwind_to(k, depth);
}

/* To a landing pad of the innermost call of some function. */
static void throw(struct maker * k)
{
	const unsigned depth = 1 + pick(k, k->now->depth);
	const uint64_t pad = start_of(k->now->frames[depth - 1].function) + 0x60000 +
			     16 * INSN * (uint64_t)pick(k, 100);

	for (unsigned i = depth; i < k->now->depth; i++)
		if (k->now->frames[i].function == k->now->frames[depth - 1].function)
			return;
	call(k, THROW);
	run(k, PTAH_INSN_RETURN, pad);
	unwind_to(k, depth);
}

/* Marks of a stack that is left, and of one that continues. */
static void suspend(struct maker *k)
{
	for (unsigned i = k->now->depth; k->now != k->stacks && i-- > 0;)
		add_mark(k, &k->now->frames[i], true, PTAH_CALL_END_SUSPENDED);
}

static void resume(struct maker *k, struct stack *stack)
{
	k->now = stack;
	for (unsigned i = 0; stack != k->stacks && i < stack->depth; i++)
		add_mark(k, &stack->frames[i], false, PTAH_CALL_RESUMED);
	pop(k, PTAH_CALL_END_RETURN); /* the function that had switched away from it */
}

static void switch_stack(struct maker *k)
{
	struct stack *to = &k->stacks[pick(k, MAX_STACKS)];
	const unsigned function = pick(k, PLAIN), how = pick(k, 2);

	for (unsigned i = 0; i < k->now->depth; i++)
		if (k->now->frames[i].signal)
			return;
	if (to == k->now)
		return;
	jump_to(k, fresh_ip(k));
	run(k, PTAH_INSN_CALL, start_of(SWITCH));
	k->now->resume_ip = k->t->items[k->t->item_count - 1].end;
	push(k, SWITCH, PTAH_CALL_CALLED, k->now->resume_ip);
	run(k, how ? PTAH_INSN_RETURN : PTAH_INSN_JUMP_IND,
	    to->used ? to->resume_ip : start_of(function));
	suspend(k);
	if (to->used) {
		resume(k, to);
	} else {
		to->used = true;
		k->now = to;
		push(k, function, PTAH_CALL_TAIL, 0);
		top(k)->tail = false; /* nothing to return to */
	}
}

static void step(struct maker *k)
{
	const bool room = k->now->depth < MAX_DEPTH - 4;

	switch (pick(k, 24)) {
	case 0 ... 6:
		if (room)
			call(k, pick(k, PLAIN));
		break;
	case 7 ... 12:
		do_return(k);
		break;
	case 13:
	case 14:
		if (room && k->now->depth > 1)
			tail_call(k, pick(k, PLAIN));
		break;
	case 15:
		if (room)
			call_through_stub(k, pick(k, PLAIN));
		break;
	case 16:
		system_call(k);
		break;
	case 17:
		if (room)
			signal(k);
		break;
	case 18:
		if (room && !top(k)->setjmp_ip) /* a second time may be at the same place */
			call_setjmp(k);
		break;
	case 19:
		if (room && pick(k, 4) == 0)
			call_longjmp(k);
		break;
	case 20:
		if (room && pick(k, 4) == 0)
			throw(k);
		break;
	case 21:
		if (room)
			switch_stack(k);
		break;
	default:
		run(k, PTAH_INSN_OTHER, 0);
	}
}

struct random_thread *random_thread_new(uint64_t seed, unsigned steps)
{
	struct maker *k = calloc(1, sizeof(*k));
	struct random_thread *t = calloc(1, sizeof(*t));

	if (!k || !t)
		abort();
	k->t = t;
	k->seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	k->tsc = 1000;
	k->now = k->stacks;
	k->now->used = true;
	k->ip = start_of(0);
	push(k, 0, PTAH_CALL_CALLED, 0);
	t->marks[0].offset = 0;
	run(k, PTAH_INSN_OTHER, 0);
	while (steps--)
		step(k);
	run(k, PTAH_INSN_OTHER, 0);
	for (struct stack *s = k->now; s; s = s == k->stacks ? NULL : k->stacks) {
		k->now = s;
		while (s->depth)
			pop(k, PTAH_CALL_END_TRACE);
	}
	free(k);
	return t;
}

void random_thread_free(struct random_thread *t)
{
	free(t->items);
	free(t->marks);
	free(t);
}
