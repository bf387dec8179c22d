/* SPDX-License-Identifier: MIT */
/*
 * Builds the frame of a signal handler byte by byte as Linux does (arch/x86/kernel/signal.c and
 * signal_64.c say what goes where), and takes it apart again. Pure: the frame is built in memory of
 * the runtime, and signals.c copies it to the program's stack.
 */
#include "record/native/runtime/signal_frame.h"

#define ERROR_PERMISSION  1
#define ERROR_NO_MEMORY	  12
#define ERROR_INVALID	  22
#define LEAST_STACK_BYTES 2048 /* MINSIGSTKSZ */

enum {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP,
	RBP,
	RSI,
	RDI,
	R8
};

/* The alternate stack */

static bool is_within(const struct alternate_stack *stack, uint64_t rsp)
{
	return rsp > stack->address && rsp - stack->address <= stack->size;
}

bool frame_on_stack(const struct alternate_stack *stack, uint64_t rsp)
{
	return !(stack->flags & STACK_AUTODISARM) && is_within(stack, rsp);
}

int64_t frame_set_stack(struct alternate_stack *stack, const struct alternate_stack *wanted,
			uint64_t rsp)
{
	int32_t mode = wanted->flags & ~STACK_AUTODISARM;

	if (frame_on_stack(stack, rsp))
		return -ERROR_PERMISSION;
	if (mode != STACK_DISABLE && mode != STACK_ON && mode != 0)
		return -ERROR_INVALID;
	if (mode != STACK_DISABLE && wanted->size < LEAST_STACK_BYTES)
		return -ERROR_NO_MEMORY;
	*stack = (struct alternate_stack){.flags = wanted->flags};
	if (mode != STACK_DISABLE) {
		stack->address = wanted->address;
		stack->size = wanted->size;
	}
	return 0;
}

void frame_get_stack(const struct alternate_stack *stack, uint64_t rsp,
		     struct alternate_stack *reported)
{
	int32_t state = !stack->size ? STACK_DISABLE : frame_on_stack(stack, rsp) ? STACK_ON : 0;

	*reported = (struct alternate_stack){.address = stack->address,
					     .flags = state | (stack->flags & STACK_AUTODISARM),
					     .size = stack->size};
}

/* The place */

static uint64_t align_down(uint64_t address, uint64_t alignment)
{
	return address & ~(alignment - 1);
}

bool frame_find_place(const struct alternate_stack *stack, uint64_t action_flags, uint64_t rsp,
		      uint64_t fp_size, struct frame_place *place)
{
	uint64_t at = rsp - RED_ZONE;
	bool alternate = frame_on_stack(stack, rsp);

	/* A stack that is disarmed by its use counts as free each time. */
	if (action_flags & ACTION_ONSTACK && stack->size && !frame_on_stack(stack, at)) {
		at = stack->address + stack->size;
		alternate = true;
	}
	place->fp = align_down(at - fp_size, FP_ALIGNMENT);
	place->end = place->fp + fp_size;
	/* At a function's entry RSP is 8 below a multiple of 16: the return address is there. */
	place->frame = align_down(place->fp - sizeof(struct signal_frame), 16) - 8;
	return !alternate || is_within(stack, place->frame);
}

/* The contents */

void frame_set_registers(struct machine_context *m, const struct registers *r)
{
	const uint64_t *g = r->general;

	m->rax = g[RAX], m->rcx = g[RCX], m->rdx = g[RDX], m->rbx = g[RBX];
	m->rsp = g[RSP], m->rbp = g[RBP], m->rsi = g[RSI], m->rdi = g[RDI];
	m->r8 = g[R8], m->r9 = g[9], m->r10 = g[10], m->r11 = g[11];
	m->r12 = g[12], m->r13 = g[13], m->r14 = g[14], m->r15 = g[15];
	m->rip = r->rip, m->rflags = r->rflags;
}

void frame_get_registers(const struct machine_context *m, struct registers *r)
{
	uint64_t *g = r->general;

	g[RAX] = m->rax, g[RCX] = m->rcx, g[RDX] = m->rdx, g[RBX] = m->rbx;
	g[RSP] = m->rsp, g[RBP] = m->rbp, g[RSI] = m->rsi, g[RDI] = m->rdi;
	g[R8] = m->r8, g[9] = m->r9, g[10] = m->r10, g[11] = m->r11;
	g[12] = m->r12, g[13] = m->r13, g[14] = m->r14, g[15] = m->r15;
	r->rip = m->rip, r->rflags = m->rflags;
}

void frame_fill(struct signal_frame *f, const struct frame_contents *contents, uint64_t fp)
{
	const struct frame_model *model = contents->model;
	struct user_context *u = &f->context;

	*f = (struct signal_frame){.restorer = contents->action->restorer};
	u->flags = model->flags;
	u->stack = *contents->stack;
	frame_set_registers(&u->machine, contents->registers);
	u->machine.cs = model->cs, u->machine.gs = model->gs;
	u->machine.fs = model->fs, u->machine.ss = model->ss;
	u->machine.error = contents->error;
	u->machine.trap = contents->trap;
	u->machine.cr2 = contents->cr2;
	u->machine.old_mask = u->mask = contents->mask;
	u->machine.fp = fp;
	if (contents->action->flags & ACTION_SIGINFO)
		f->info = *contents->info;
}

void frame_finish_fp(uint8_t *area, const struct frame_model *model)
{
	uint32_t magic2 = FP_MAGIC2;
	uint64_t used;

	__builtin_memcpy(area + FP_SOFTWARE_AT, &model->fp, FP_SOFTWARE_BYTES);
	/*
	 * Programs that know FXSAVE only change the registers without marking them as used: the
	 * kernel marks them.
	 */
	__builtin_memcpy(&used, area + FP_HEADER_AT, sizeof(used));
	used |= FP_X87_AND_SSE;
	__builtin_memcpy(area + FP_HEADER_AT, &used, sizeof(used));
	__builtin_memcpy(area + model->fp.size, &magic2, sizeof(magic2));
}

bool frame_return(const struct user_context *u, struct registers *r)
{
	const struct machine_context *m = &u->machine;
	uint64_t kept = r->rflags & ~FLAGS_FROM_FRAME;

	/* The kernel sets the lowest two bits of the selector, and checks SS only if told to. */
	if ((m->cs | 3) != SEGMENT_CODE || m->rflags & FLAG_TRAP)
		return false;
	if ((m->ss | 3) != SEGMENT_STACK && u->flags & USER_CONTEXT_STRICT_SS)
		return false;
	frame_get_registers(m, r);
	r->rflags = kept | (m->rflags & FLAGS_FROM_FRAME);
	return true;
}
