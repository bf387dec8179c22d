/* SPDX-License-Identifier: MIT */
/*
 * Signals of the program. The kernel calls the runtime's handler on a stack of the runtime:
 *
 *	a store to the log faulted	the exit is taken again (unit_log_fault())
 *	the program faulted		its registers are computed (unit_state()), and its handler
 *					is entered as the kernel would have done; without a handler
 *					the instruction is repeated natively, and the process dies
 *	any other signal		is kept until the next head, which is made to come soon
 *					(unit_interrupt())
 *
 * At a head the frame is built on the program's stack, and the program goes on at its handler, in
 * the cache. What the kernel's handler finds out is carried out on the runtime's own stack: the
 * kernel's frame is changed so that its return leads to a function here. So FP and vector registers
 * are the program's again there, and no system call is made in the kernel's handler but for
 * requeue().
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/insn.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"

#define OWN_STACK_BYTES (128u << 10)

enum {
	RAX = 0,
	RCX = 1,
	RDX = 2,
	RSP = 4,
	RSI = 6,
	RDI = 7,
	R11 = 11
};

#define SIGNAL_SETMASK 2

enum {
	TRAP_SINGLE_STEP = 1,
	TRAP_BREAKPOINT = 3,
	TRAP_PAGE_FAULT = 14
};

#define FAULT_WRITES  2u /* in the error code of a page fault */
#define INFO_NO_RIGHT 2	 /* SEGV_ACCERR: something is mapped there */

static struct context *this_context(void)
{
	struct context *c;

	__asm__ volatile("mov %%gs:%c1, %0" : "=r"(c) : "i"(CONTEXT_SELF));
	return c;
}

/* Addresses are numbers here, because most of them are the program's. */
static void *from_address(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static uint8_t *log_at(const struct context *c)
{
	return from_address(c->log);
}

static void put(struct context *c, const uint8_t *end)
{
	c->log = (uintptr_t)end;
}

static bool is_fault_number(int number)
{
	return number >= 1 && number < FAULT_SLOTS && FAULTS & SIGNAL_BIT(number);
}

/* The lock of the handlers */

void signals_lock(struct handlers *h)
{
	while (__atomic_exchange_n(&h->lock, 1, __ATOMIC_ACQUIRE))
		sys_call(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
}

void signals_unlock(struct handlers *h)
{
	__atomic_store_n(&h->lock, 0, __ATOMIC_RELEASE);
}

/* The program's action for a signal that has arrived; SA_RESETHAND takes effect. */
static struct action take_action(struct handlers *h, int number)
{
	struct action a;

	signals_lock(h);
	a = h->actions[number];
	if (a.handler > SIGNAL_IGNORE && a.flags & ACTION_RESETHAND)
		h->actions[number].handler = SIGNAL_DEFAULT;
	signals_unlock(h);
	return a;
}

/* Kept signals and the kernel's mask */

static void set_kernel_mask(uint64_t mask)
{
	sys_call(__NR_rt_sigprocmask, SIGNAL_SETMASK, (uintptr_t)&mask, 0, SIGNAL_SET_SIZE, 0, 0);
}

void signals_apply_mask(struct context *c)
{
	const struct signals *s = c->signals;

	set_kernel_mask((s->ordinary.info.number ? ~UINT64_C(0) : s->blocked) & ~FAULTS);
}

bool signals_are_deliverable(const struct signals *s)
{
	uint64_t mask = signals_current_mask(s);

	for (int n = 1; n < FAULT_SLOTS; n++)
		if (s->sent[n].info.number && !(mask & SIGNAL_BIT(n)))
			return true;
	return s->ordinary.info.number != 0;
}

void signals_update(struct context *c)
{
	/* A handler that comes between the two may set it, too. */
	__atomic_store_n(&c->pending, false, __ATOMIC_SEQ_CST);
	if (signals_are_deliverable(c->signals))
		__atomic_store_n(&c->pending, true, __ATOMIC_SEQ_CST);
}

static bool is_pending(const struct context *c)
{
	return __atomic_load_n(&c->pending, __ATOMIC_SEQ_CST);
}

/* Back to the kernel, in which the signal is blocked now. */
static void requeue(const struct context *c, const struct signal_info *info)
{
	uint64_t number = (uint32_t)info->number;

	if (sys_call(__NR_rt_tgsigqueueinfo, (uint32_t)c->pid, (uint32_t)c->tid, number,
		     (uintptr_t)info, 0, 0))
		sys_call(__NR_tgkill, (uint32_t)c->pid, (uint32_t)c->tid, number, 0, 0, 0);
}

/* Takes the next signal to be delivered out of the kept ones, faults first. */
static bool take_kept(struct context *c, struct kept *k)
{
	struct signals *s = c->signals;
	uint64_t mask = signals_current_mask(s);

	for (int n = 1; n < FAULT_SLOTS; n++)
		if (s->sent[n].info.number && !(mask & SIGNAL_BIT(n))) {
			/* Not the handler, which waits for the lock of the actions. */
			set_kernel_mask(ALL_BUT_FAULTS);
			*k = s->sent[n];
			__atomic_store_n(&s->sent[n].info.number, 0, __ATOMIC_SEQ_CST);
			k->action = take_action(s->handlers, n);
			return true;
		}
	if (!s->ordinary.info.number)
		return false;
	*k = s->ordinary;
	s->ordinary.info.number = 0;
	if (!(mask & SIGNAL_BIT(k->info.number)))
		return true;
	/* The program blocked it after it had arrived. */
	requeue(c, &k->info);
	return false;
}

/* The kernel's handler */

/* Remembers what only the kernel's frame says. */
static void learn(struct signals *s, const struct user_context *u)
{
	const uint8_t *area = from_address(u->machine.fp);

	if (!s->model.fp.magic1)
		s->stack = u->stack; /* the first one: see signals_begin() */
	s->model.flags = u->flags;
	s->model.cs = u->machine.cs, s->model.gs = u->machine.gs;
	s->model.fs = u->machine.fs, s->model.ss = u->machine.ss;
	__builtin_memcpy(&s->model.fp, area + FP_SOFTWARE_AT, FP_SOFTWARE_BYTES);
	if (s->model.fp.features & FP_PKRU)
		s->handler_pkru = signals_get_pkru();
}

/* The handler's return leads to function(c), on the runtime's stack. */
static void go_to(struct context *c, struct user_context *u, void (*function)(struct context *))
{
	c->inside = true;
	u->machine.rip = (uintptr_t)function;
	u->machine.rsp = c->stack - 8; /* as behind a CALL */
	u->machine.rdi = (uintptr_t)c;
	u->machine.rflags = FLAGS_INITIAL;
	u->mask |= ALL_BUT_FAULTS; /* until the program's mask is set again */
}

/* The next head must come soon. */
static void interrupt(struct context *c, struct user_context *u)
{
	uint64_t rip = u->machine.rip;

	if (rip >= (uintptr_t)signals_window_start && rip <= (uintptr_t)signals_window_call)
		u->machine.rip = (uintptr_t)signals_window_not_made;
	else if (!c->inside && !c->poisoned && unit_is_code(c->runtime, rip))
		unit_interrupt(c, rip, &u->machine.r11);
}

static void keep(struct context *c, const struct signal_info *info, struct user_context *u)
{
	struct signals *s = c->signals;
	int number = info->number;

	if (is_fault_number(number)) {
		if (!s->sent[number].info.number)
			s->sent[number].info = *info;
	} else if (s->ordinary.info.number) {
		requeue(c, info);
	} else {
		s->ordinary.info = *info;
		s->ordinary.action = take_action(s->handlers, number);
	}
	signals_update(c);
	if (s->ordinary.info.number)
		u->mask |= ALL_BUT_FAULTS;
	if (is_pending(c))
		interrupt(c, u);
}

void signals_place_trap(struct context *c, uint64_t next)
{
	struct signal_info *info = &c->signals->ordinary.info;

	if (info->number == SIGNAL_SYS && info->code == INFO_SECCOMP)
		info->address = next;
}

/* Registers, mask, and vector registers, by rt_sigreturn */

/* The program's vector registers, which are in the processor, into an area of our own. */
static void save_fp(struct signals *s)
{
	__builtin_memset(s->fp + FP_HEADER_AT, 0, FP_HEADER_BYTES);
	signals_save_fp(s->fp, s->model.fp.features);
	frame_finish_fp(s->fp, &s->model);
}

/* leaves: GS becomes 0. */
static _Noreturn void load(struct context *c, const struct registers *r, uint64_t mask,
			   const struct alternate_stack *stack, bool leaves)
{
	struct signals *s = c->signals;
	struct action none = {.flags = 0};
	struct frame_contents contents = {
	    .registers = r, .action = &none, .stack = stack, .model = &s->model, .mask = mask};

	save_fp(s);
	frame_fill(&s->frame, &contents, (uintptr_t)s->fp);
	signals_load(&s->frame, leaves);
}

static void set_kernel_action(int number, const struct action *a)
{
	sys_call(__NR_rt_sigaction, (uint64_t)number, (uintptr_t)a, 0, SIGNAL_SET_SIZE, 0, 0);
}

void signals_restore(struct context *c)
{
	const struct signals *s = c->signals;

	changes_give_back_all(c);
	set_kernel_mask(~UINT64_C(0));
	for (int n = 1; n <= SIGNALS; n++) {
		const struct action *a = &s->handlers->actions[n];

		if (is_fault_number(n) || a->handler > SIGNAL_IGNORE)
			set_kernel_action(n, a);
	}
}

/* Mask, alternate stack and registers: what is the thread's own. */
static _Noreturn void leave_thread(struct context *c, const struct registers *r)
{
	const struct alternate_stack none = {.flags = STACK_DISABLE};
	struct signals *s = c->signals;

	/* A frame can bring back a stack, but not that there is none. */
	if (!s->stack.size)
		sys_call(__NR_sigaltstack, (uintptr_t)&none, 0, 0, 0, 0, 0);
	load(c, r, s->blocked, &s->stack, true);
}

/* Blocks all signals, and gives the kernel those that are kept. */
static void requeue_all(struct context *c)
{
	struct signals *s = c->signals;

	set_kernel_mask(~UINT64_C(0));
	for (int n = 1; n < FAULT_SLOTS; n++) {
		if (s->sent[n].info.number)
			requeue(c, &s->sent[n].info);
		s->sent[n].info.number = 0;
	}
	if (s->ordinary.info.number)
		requeue(c, &s->ordinary.info);
	s->ordinary.info.number = 0;
}

void signals_give_back(struct context *c, uint64_t *mask)
{
	struct alternate_stack stack = c->signals->stack;

	requeue_all(c);
	if (!stack.size)
		stack.flags = STACK_DISABLE;
	stack.flags &= STACK_DISABLE | STACK_AUTODISARM;
	sys_call(__NR_sigaltstack, (uintptr_t)&stack, 0, 0, 0, 0, 0);
	*mask = c->signals->blocked;
}

_Noreturn void signals_leave(struct context *c, const struct registers *r)
{
	requeue_all(c);
	if (!__atomic_load_n(&c->runtime->left, __ATOMIC_ACQUIRE))
		signals_restore(c);
	leave_thread(c, r);
}

/* Delivery */

/* Puts the frame on the program's stack and *r at the handler. False: it has no room there. */
static bool enter_handler(struct context *c, struct registers *r, const struct kept *k)
{
	struct signals *s = c->signals;
	struct frame_contents contents = {.registers = r,
					  .action = &k->action,
					  .info = &k->info,
					  .stack = &s->stack,
					  .model = &s->model,
					  .mask = s->blocked,
					  .error = s->error,
					  .trap = s->trap,
					  .cr2 = s->cr2};
	size_t size = k->action.flags & ACTION_SIGINFO ? sizeof(struct signal_frame)
						       : offsetof(struct signal_frame, info);
	struct frame_place place;

	if (!(k->action.flags & ACTION_RESTORER) ||
	    !frame_find_place(&s->stack, k->action.flags, r->general[RSP],
			      s->model.fp.extended_size, &place))
		return false;
	save_fp(s);
	frame_fill(&s->frame, &contents, place.fp);
	if (!signals_copy(from_address(place.fp), s->fp, s->model.fp.extended_size) ||
	    !signals_copy(from_address(place.frame), &s->frame, size))
		return false;
	r->general[RDI] = (uint32_t)k->info.number;
	r->general[RAX] = 0;
	r->general[RSI] = place.frame + offsetof(struct signal_frame, info);
	r->general[RDX] = place.frame + offsetof(struct signal_frame, context);
	r->general[RSP] = place.frame;
	r->rip = k->action.handler;
	r->rflags &= ~(FLAG_DIRECTION | FLAG_RESUME | FLAG_TRAP);
	return true;
}

/* What becomes of the thread's state when a handler is entered. */
static void begin_handler(struct signals *s, const struct kept *k)
{
	/* XRSTOR with an empty header: every component gets its initial value. */
	static const struct {
		_Alignas(FP_ALIGNMENT) uint8_t legacy[FP_MXCSR_AT];
		uint32_t mxcsr;
		uint8_t rest[FP_LEAST - FP_MXCSR_AT - 4];
	} initial = {.mxcsr = FP_MXCSR_INITIAL};
	uint64_t self = k->action.flags & ACTION_NODEFER ? 0 : SIGNAL_BIT(k->info.number);

	s->blocked = (signals_current_mask(s) | k->action.mask | self) & ~NEVER_BLOCKED;
	s->suspended = false;
	if (s->stack.flags & STACK_AUTODISARM)
		s->stack = (struct alternate_stack){.flags = STACK_DISABLE};
	signals_load_fp(&initial, s->model.fp.features & ~FP_PKRU);
	if (s->model.fp.features & FP_PKRU)
		signals_set_pkru(s->handler_pkru);
}

static bool is_alone(const struct context *c)
{
	const struct context *other = __atomic_load_n(&c->runtime->contexts, __ATOMIC_ACQUIRE);

	while (other &&
	       (other == c || __atomic_load_n(&other->state, __ATOMIC_ACQUIRE) != CONTEXT_RUNNING))
		other = other->next;
	return !other;
}

/* The process ends by this signal. repeat: the instruction at r->rip raises it again. */
static _Noreturn void die(struct context *c, const struct registers *r, const struct kept *k,
			  bool repeat)
{
	struct signals *s = c->signals;
	int number = k->info.number;
	struct registers last = *r;
	const struct native_message m = {.type = NATIVE_MESSAGE_FATAL,
					 .pid = c->pid,
					 .tid = c->tid,
					 .address = r->rip,
					 .size = 1,
					 .value = (uint32_t)number};

	/* A trap has gone past its instruction: a core dump has RIP there, too. */
	if (repeat)
		last.rip = s->fault_ip;
	message_send(c, &m, NULL);
	ring_end(c);
	set_kernel_mask(~UINT64_C(0));
	if (!repeat)
		requeue(c, &k->info);
	signals_lock(s->handlers);
	s->handlers->actions[number] = (struct action){.handler = SIGNAL_DEFAULT};
	s->blocked &= ~SIGNAL_BIT(number);
	s->ordinary.info.number = 0;
	for (int n = 1; n < FAULT_SLOTS; n++)
		s->sent[n].info.number = 0;
	if (is_alone(c))
		signals_leave(c, &last);
	/* The others are in the cache until the process has ended: they need their handlers. */
	changes_give_back_all(c);
	set_kernel_action(number, &s->handlers->actions[number]);
	leave_thread(c, &last);
}

/*
 * A handler is entered before a call that the recorder has interrupted when it attached: the call
 * fails, or is made again after the handler, as the kernel would have it.
 */
static void end_interrupted(struct context *c, struct registers *r, const struct action *a)
{
	const uint32_t kind = r->rip == c->interrupted_at ? c->interrupted : 0;

	if (!kind)
		return;
	c->interrupted = 0;
	if (kind == NATIVE_RESTART_NOINTR ||
	    (kind == NATIVE_RESTART_SYS && a->flags & ACTION_RESTART))
		return;
	r->rip += 2;
	r->general[RAX] = (uint64_t)-ERROR_INTERRUPTED;
	r->general[RCX] = r->rip;
	r->general[R11] = r->rflags;
}

/*
 * Delivers a signal. forced: by a fault, which a mask or SIG_IGN does not keep away. repeat: as
 * die() has it. True: *r has changed.
 */
static bool deliver(struct context *c, struct registers *r, const struct kept *k, bool forced,
		    bool repeat)
{
	struct signals *s = c->signals;
	int number = k->info.number;
	uint64_t handler = k->action.handler;

	if (forced && (handler == SIGNAL_IGNORE || signals_current_mask(s) & SIGNAL_BIT(number)))
		handler = SIGNAL_DEFAULT;
	if (handler == SIGNAL_IGNORE)
		return false;
	if (handler == SIGNAL_DEFAULT) {
		if (is_fault_number(number))
			die(c, r, k, repeat);
		/* The handler was removed meanwhile: now the kernel knows what to do. */
		requeue(c, &k->info);
		return false;
	}
	end_interrupted(c, r, &k->action);
	if (enter_handler(c, r, k)) {
		begin_handler(s, k);
	} else {
		/* A handler of SIGSEGV that cannot be entered is not tried again. */
		if (number == SIGNAL_SEGV)
			s->handlers->actions[number].handler = SIGNAL_DEFAULT;
		signals_force_segv(c, r);
	}
	return true;
}

void signals_force_segv(struct context *c, struct registers *r)
{
	struct kept k = {.info = {.number = SIGNAL_SEGV, .code = INFO_KERNEL}};

	set_kernel_mask(ALL_BUT_FAULTS);
	k.action = take_action(c->signals->handlers, SIGNAL_SEGV);
	deliver(c, r, &k, true, false);
}

bool signals_deliver(struct context *c, struct registers *r)
{
	bool changed = false;
	struct kept k;

	while (is_pending(c)) {
		if (take_kept(c, &k))
			changed |= deliver(c, r, &k, false, false);
		/* Setting the mask lets the next ones in. */
		signals_update(c);
		if (!c->signals->ordinary.info.number)
			signals_apply_mask(c);
	}
	c->signals->suspended = false;
	return changed;
}

bool signals_interrupt(struct context *c, struct registers *r)
{
	bool changed;

	if (!is_pending(c))
		return false;
	/* Room for both packets: no chunk begins while tracing is off. */
	put(c, packets_async_disable(c, packets_room(c, r->rip), r->rip));
	changed = signals_deliver(c, r);
	put(c, packets_enable(c, log_at(c), r->rip));
	return changed;
}

_Noreturn void signals_head(struct context *c, struct registers *r, bool traced)
{
	uint8_t bytes[X86_MAX_SIZE];
	uint64_t address;

	if (traced)
		signals_interrupt(c, r);
	else
		signals_deliver(c, r);
	if (pause_is_due(c))
		pause_follow(c, r->rip, traced);
	if (!traced)
		put(c, packets_enable(c, log_at(c), r->rip));
	if (leave_is_due(c))
		leave_too(c, r);
	address = unit_enter(c, r->rip);
	if (address)
		gate_resume(c, r, address);
	/* A longest instruction that cannot be read: the processor says what is wrong. */
	if (!signals_copy(bytes, from_address(r->rip), sizeof(bytes)))
		signals_no_code(c, r);
	leave(c, r, "code cannot be translated");
}

/* Where signals_returned jumps to. */
_Noreturn void signals_go_on(struct context *c)
{
	struct registers r = c->signals->registers;

	signals_update(c);
	signals_head(c, &r, false);
}

/* The kernel's handler: faults */

static void at_boundary(struct context *c)
{
	struct registers r = c->signals->registers;

	signals_head(c, &r, true);
}

static void after_fault(struct context *c)
{
	struct signals *s = c->signals;
	struct registers r = s->registers;
	struct kept k = s->fault;

	if (s->fault_code)
		unit_cut(c, s->fault_code);
	else
		put(c, packets_room(c, s->fault_ip));
	put(c, packets_async_disable(c, log_at(c), s->fault_ip));
	s->fault.info.number = 0;
	/*
	 * A signal that came earlier is delivered first, before the instruction, which faults again
	 * after the handler. A trap does not come again.
	 */
	if (k.info.number && (s->fault_is_trap || !is_pending(c))) {
		k.action = take_action(s->handlers, k.info.number);
		deliver(c, &r, &k, true, true);
		signals_update(c);
	}
	signals_apply_mask(c);
	signals_head(c, &r, false);
}

static void after_failed_return(struct context *c)
{
	struct registers r = c->signals->registers;

	r.general[RAX] = 0;
	signals_force_segv(c, &r);
	signals_update(c);
	signals_apply_mask(c);
	signals_head(c, &r, false);
}

/*
 * The size of the instruction that raised SIGTRAP, if it is INT3, INT 3 or INT1: the processor has
 * gone past them. Else 0.
 */
static unsigned trap_size(uint64_t trap, const uint8_t *behind)
{
	if (trap != TRAP_BREAKPOINT && (trap != TRAP_SINGLE_STEP || behind[-1] != 0xf1))
		return 0;
	return trap == TRAP_BREAKPOINT && behind[-1] == 3 && behind[-2] == 0xcd ? 2 : 1;
}

/* A fault at an instruction of the program, of which *r are the program's registers. */
static void take_fault(struct context *c, const struct signal_info *info, struct user_context *u,
		       const struct registers *r, unsigned trap)
{
	struct signals *s = c->signals;
	const struct machine_context *m = &u->machine;

	s->registers = *r;
	s->fault_ip = r->rip;
	s->registers.rip += trap;
	s->fault_is_trap = trap != 0;
	s->fault.info = *info;
	/* SIGILL, SIGFPE and single steps have the address of the instruction. */
	if (info->address == m->rip)
		s->fault.info.address = r->rip;
	s->error = m->error;
	s->trap = m->trap;
	if (m->trap == TRAP_PAGE_FAULT)
		s->cr2 = m->cr2;
	go_to(c, u, after_fault);
}

/* The thread is natively where there was no code, or has made a single step there. */
static void take_no_code(struct context *c, const struct signal_info *info, struct user_context *u)
{
	struct signals *s = c->signals;
	struct registers r = s->registers;

	s->no_code = false;
	s->fault_code = 0;
	if (info->number != SIGNAL_TRAP || u->machine.trap != TRAP_SINGLE_STEP) {
		r.rflags |= u->machine.rflags & FLAG_RESUME;
		take_fault(c, info, u, &r, 0);
		return;
	}
	/* There is code by now. */
	s->fault_ip = r.rip;
	s->fault.info.number = 0;
	frame_get_registers(&u->machine, &s->registers);
	s->registers.rflags &= ~FLAG_TRAP;
	go_to(c, u, after_fault);
}

_Noreturn void signals_step(struct context *c, const struct registers *r)
{
	struct signals *s = c->signals;
	struct registers trapped = *r;

	step_begin(c, r);
	s->registers = *r;
	s->stepping = true;
	trapped.rflags |= FLAG_TRAP;
	load(c, &trapped, ALL_BUT_FAULTS, &s->own, false);
}

/* A store in a unit whose code it may change: it is carried out, and then looked up again. */
static void step(struct context *c)
{
	const struct registers r = c->signals->registers;

	unit_cut(c, c->signals->fault_code);
	signals_step(c, &r);
}

static void after_step(struct context *c)
{
	struct registers r = c->signals->registers;

	step_end(c, &r);
	signals_apply_mask(c);
	signals_head(c, &r, true);
}

/* Whether a page was held that the store that has faulted can be made to now. */
static bool gives_back(struct context *c, const struct signal_info *info,
		       const struct user_context *u)
{
	return info->number == SIGNAL_SEGV && info->code == INFO_NO_RIGHT &&
	       u->machine.trap == TRAP_PAGE_FAULT && u->machine.error & FAULT_WRITES &&
	       changes_give_back(c, info->address);
}

static void take_step(struct context *c, const struct signal_info *info, struct user_context *u)
{
	struct signals *s = c->signals;
	struct registers r = s->registers;

	if (gives_back(c, info, u))
		return; /* the store crosses into another page */
	s->stepping = false;
	if (info->number == SIGNAL_TRAP && u->machine.trap == TRAP_SINGLE_STEP) {
		frame_get_registers(&u->machine, &s->registers);
		s->registers.rflags &= ~(FLAG_TRAP | FLAG_RESUME);
		go_to(c, u, after_step);
		return;
	}
	s->fault_code = 0;
	r.rflags |= u->machine.rflags & FLAG_RESUME;
	take_fault(c, info, u, &r, 0);
}

/*
 * A thread that fills its chunks faster than the recorder takes them is mostly here, with signals
 * blocked: the recorder's own signal, which tells it to pause or to leave, would never reach it.
 */
static void heed_recorder(struct context *c, struct user_context *u)
{
	if (!pause_is_due(c) && !leave_is_due(c))
		return;
	__atomic_store_n(&c->pending, true, __ATOMIC_SEQ_CST);
	interrupt(c, u);
}

static void take_cache_fault(struct context *c, const struct signal_info *info,
			     struct user_context *u)
{
	struct signals *s = c->signals;
	struct registers r = {.rip = 0};
	uint64_t head = 0;
	unsigned trap = 0;

	frame_get_registers(&u->machine, &r);
	if (info->number == SIGNAL_SEGV && unit_log_fault(c, &r, info->address, &head)) {
		if (!head) {
			frame_set_registers(&u->machine, &r);
			heed_recorder(c, u);
			return;
		}
		s->registers = r;
		s->registers.rip = head;
		s->registers.rflags &= ~FLAG_RESUME; /* of the store's fault */
		go_to(c, u, at_boundary);
		return;
	}
	if (gives_back(c, info, u)) {
		if (!unit_is_forgotten(c->runtime, r.rip))
			return;
		s->fault_code = r.rip;
		unit_state(c, &r);
		s->registers = r;
		s->registers.rflags &= ~FLAG_RESUME;
		go_to(c, u, step);
		return;
	}
	if (info->number == SIGNAL_TRAP)
		trap = trap_size(u->machine.trap, from_address(r.rip));
	r.rip -= trap;
	s->fault_code = r.rip;
	unit_state(c, &r);
	take_fault(c, info, u, &r, trap);
}

/* A signal that was sent has no positive code. */
static bool is_fault(const struct signal_info *info)
{
	return is_fault_number(info->number) && info->code > 0;
}

static void on_fault(struct context *c, const struct signal_info *info, struct user_context *u)
{
	uint64_t rip = u->machine.rip;

	if (rip == (uintptr_t)signals_learn_faults) {
		signals_load_fp(from_address(u->machine.fp), c->signals->model.fp.features);
		signals_learned();
	}
	if (rip == (uintptr_t)signals_copy_faults && gives_back(c, info, u))
		return;
	if (rip == (uintptr_t)signals_copy_faults)
		u->machine.rip = (uintptr_t)signals_copy_failed;
	else if (rip == (uintptr_t)signals_returned && info->code == INFO_KERNEL)
		go_to(c, u, after_failed_return);
	else if (unit_is_code(c->runtime, rip))
		take_cache_fault(c, info, u);
	else if (c->signals->stepping)
		take_step(c, info, u);
	else if (c->signals->no_code)
		take_no_code(c, info, u);
	else
		leave_broken(c, "a fault in the runtime's own code");
}

static bool is_stop(const struct context *c, const struct signal_info *info)
{
	return info->number == SIGNAL_TRAP && info->code == NATIVE_STOP_CODE &&
	       info->address == (uintptr_t)c->runtime;
}

void signals_stop(const struct context *c, const struct context *other)
{
	const struct signal_info info = {
	    .number = SIGNAL_TRAP, .code = NATIVE_STOP_CODE, .address = (uintptr_t)c->runtime};
	const int32_t tid = __atomic_load_n(&other->tid, __ATOMIC_RELAXED);

	if (tid) /* it has begun */
		sys_call(__NR_rt_tgsigqueueinfo, (uint32_t)c->pid, (uint32_t)tid, SIGNAL_TRAP,
			 (uintptr_t)&info, 0, 0);
}

/* A signal may come between the branch and its fault. */
static bool misses_table(const struct context *c, const struct user_context *u)
{
	return !u->machine.rip && !c->inside && !c->signals->stepping && !c->signals->no_code;
}

static void on_signal(int number, struct signal_info *info, struct user_context *u)
{
	struct context *c = this_context();
	const bool missed = misses_table(c, u);

	(void)number;
	learn(c->signals, u);
	if (missed)
		u->machine.rip = unit_fill_table(c, u->machine.rcx);
	if (missed && info->number == SIGNAL_SEGV && is_fault(info))
		return;
	if (is_fault(info)) {
		on_fault(c, info, u);
	} else if (is_stop(c, info)) {
		__atomic_store_n(&c->pending, true, __ATOMIC_SEQ_CST);
		interrupt(c, u);
	} else {
		keep(c, info, u);
	}
}

_Noreturn void signals_no_code(struct context *c, struct registers *r)
{
	struct signals *s = c->signals;
	struct registers step = *r;

	s->registers = *r;
	s->no_code = true;
	/* If there is code after all, one instruction runs. */
	step.rflags |= FLAG_TRAP;
	load(c, &step, ALL_BUT_FAULTS, &s->own, false);
}

/* Beginnings */

struct action signals_real_action(int number, const struct action *a)
{
	const uint64_t passed = ACTION_NOCLDSTOP | ACTION_NOCLDWAIT | ACTION_RESTART;
	struct action real = {.flags = ACTION_SIGINFO | ACTION_ONSTACK | ACTION_RESTORER,
			      .mask = ~UINT64_C(0)};

	/* Not as a constant that is copied: the runtime can have no addresses in its constants. */
	real.handler = (uintptr_t)on_signal;
	__asm__("" : "+r"(real.handler));
	real.restorer = (uintptr_t)signals_restorer;
	__asm__("" : "+r"(real.restorer));
	if (is_fault_number(number)) {
		/* Without a handler of the program, system calls seem not to be interrupted. */
		real.flags |=
		    a->handler > SIGNAL_IGNORE ? a->flags & ACTION_RESTART : ACTION_RESTART;
		return real;
	}
	if (a->handler <= SIGNAL_IGNORE)
		return *a;
	real.flags |= a->flags & (passed | ACTION_RESETHAND | ACTION_EXPOSE_TAGS);
	return real;
}

static _Noreturn void no_memory(struct context *c)
{
	leave_broken(c, "there is no memory for signals");
}

/* The stack of the kernel's handler, and what a thread needs of its own. */
static struct signals *make(const struct context *c)
{
	struct signals *s = memory_take(c->runtime, sizeof(*s));
	uint32_t a = 0xd, b, count = 0, d;
	uint8_t *stack;

	/* ECX: the most bytes that XSAVE can need on this processor. */
	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(count), "=d"(d));
	/* One region: the stack grows towards its beginning. */
	stack = memory_take(c->runtime, OWN_STACK_BYTES + count + sizeof(uint32_t));
	if (s && stack) {
		s->fp = stack + OWN_STACK_BYTES;
		s->own =
		    (struct alternate_stack){.address = (uintptr_t)stack, .size = OWN_STACK_BYTES};
		s->stack.flags = STACK_DISABLE;
		return s;
	}
	return NULL;
}

static struct signals *make_first(struct context *c)
{
	struct signals *s = make(c);
	struct handlers *handlers = memory_take(c->runtime, sizeof(*handlers));

	if (s && handlers) {
		s->handlers = handlers;
		return s;
	}
	no_memory(c);
}

static void set_own_stack(const struct signals *s)
{
	sys_call(__NR_sigaltstack, (uintptr_t)&s->own, 0, 0, 0, 0, 0);
}

static void ask_actions(struct handlers *h)
{
	for (int n = 1; n <= SIGNALS; n++)
		sys_call(__NR_rt_sigaction, (uint64_t)n, 0, (uintptr_t)&h->actions[n],
			 SIGNAL_SET_SIZE, 0, 0);
}

static void take_actions(const struct handlers *h)
{
	for (int n = 1; n <= SIGNALS; n++) {
		const struct action *a = &h->actions[n], real = signals_real_action(n, a);

		if (is_fault_number(n) || a->handler > SIGNAL_IGNORE)
			set_kernel_action(n, &real);
	}
}

void signals_begin(struct context *c)
{
	struct signals *s = make_first(c);
	uint8_t byte;

	sys_call(__NR_rt_sigprocmask, SIGNAL_SETMASK, 0, (uintptr_t)&s->blocked, SIGNAL_SET_SIZE, 0,
		 0);
	c->signals = s;
	c->runtime->handlers = s->handlers;
	ask_actions(s->handlers);
	take_actions(s->handlers);
	signals_apply_mask(c);
	/*
	 * A fault, so that the handler sees what the kernel's frames are like here, with the
	 * program's alternate stack in them (sigaltstack() does not report all of its flags).
	 */
	signals_copy(&byte, NULL, 1);
	set_own_stack(s);
}

/* ---- Programs that run already -------------------------------------------------- */

bool signals_attach(struct context *c, uint64_t mask)
{
	struct signals *s = make(c);
	struct handlers *handlers = memory_take(c->runtime, sizeof(*handlers));

	if (!s || !handlers)
		return false;
	c->signals = s;
	s->handlers = c->runtime->handlers = handlers;
	s->blocked = mask;
	ask_actions(handlers);
	return true;
}

void signals_attach_all(struct context *c)
{
	struct signals *s = c->signals;
	struct alternate_stack stack;

	/* First of all, so that no frame of ours comes to where a handler may be running. */
	sys_call(__NR_sigaltstack, 0, (uintptr_t)&stack, 0, 0, 0, 0);
	set_own_stack(s);
	take_actions(s->handlers);
	set_kernel_mask(ALL_BUT_FAULTS);
	signals_learn();
	set_kernel_mask(~UINT64_C(0));
	s->stack = stack;
}

void signals_attach_other(struct context *c, const struct context *from, uint64_t mask)
{
	c->signals->blocked = mask;
	c->signals->model = from->signals->model;
	c->signals->handler_pkru = from->signals->handler_pkru;
}

void signals_attach_thread(struct context *c)
{
	struct signals *s = c->signals;
	struct alternate_stack stack;

	sys_call(__NR_sigaltstack, 0, (uintptr_t)&stack, 0, 0, 0, 0);
	if (stack.address != s->own.address) /* of the first thread, it is known already */
		s->stack = stack;
	set_own_stack(s);
	signals_apply_mask(c);
}

#define CLONE_VM    0x100u
#define CLONE_VFORK 0x4000u

bool signals_prepare_thread(struct context *c, const struct context *parent, uint64_t clone_flags)
{
	const struct signals *p = parent->signals;
	struct signals *s = c->signals ? c->signals : make(c);
	struct alternate_stack own;
	uint8_t *fp;

	if (!s)
		return false;
	own = s->own, fp = s->fp;
	__builtin_memset(s, 0, sizeof(*s));
	s->own = own, s->fp = fp;
	s->handlers = p->handlers;
	s->blocked = p->blocked;
	s->stack.flags = STACK_DISABLE;
	if ((clone_flags & (CLONE_VM | CLONE_VFORK)) != CLONE_VM)
		s->stack = p->stack;
	s->error = p->error, s->trap = p->trap, s->cr2 = p->cr2;
	s->model = p->model;
	s->handler_pkru = p->handler_pkru;
	c->signals = s;
	return true;
}

void signals_begin_thread(struct context *c)
{
	set_own_stack(c->signals);
	signals_apply_mask(c);
}

void signals_forked(struct context *c)
{
	struct signals *s = c->signals;

	s->ordinary.info.number = 0;
	for (int n = 1; n < FAULT_SLOTS; n++)
		s->sent[n].info.number = 0;
	s->handlers->lock = 0;
	c->pending = false;
	signals_apply_mask(c);
}

void signals_hold(struct context *c)
{
	(void)c;
	set_kernel_mask(ALL_BUT_FAULTS);
}

void signals_release(struct context *c)
{
	signals_apply_mask(c);
}

/* execve resets handlers, but not what is ignored or blocked. */
void signals_exec(struct context *c)
{
	const struct signals *s = c->signals;
	const struct action ignore = {.handler = SIGNAL_IGNORE};

	for (int n = 1; n < FAULT_SLOTS; n++)
		if (is_fault_number(n) && s->handlers->actions[n].handler == SIGNAL_IGNORE)
			set_kernel_action(n, &ignore);
	set_kernel_mask(s->blocked);
}

void signals_exec_failed(struct context *c)
{
	const struct signals *s = c->signals;

	for (int n = 1; n < FAULT_SLOTS; n++)
		if (is_fault_number(n) && s->handlers->actions[n].handler == SIGNAL_IGNORE) {
			const struct action real = signals_real_action(n, &s->handlers->actions[n]);

			set_kernel_action(n, &real);
		}
	signals_apply_mask(c);
}
