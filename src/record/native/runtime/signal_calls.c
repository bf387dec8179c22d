/* SPDX-License-Identifier: MIT */
/*
 * System calls about signals. What the program sets is virtual (struct signals), and the kernel is
 * given what follows from it; calls that wait with another mask are made in the kernel with a copy
 * of that mask in which no fault is blocked.
 */
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"

enum {
	RAX = 0,
	RCX = 1,
	RDX = 2,
	RSP = 4,
	RSI = 6,
	RDI = 7,
	R8 = 8,
	R9 = 9,
	R10 = 10,
	R11 = 11
};

/* rt_sigprocmask */
enum {
	MASK_BLOCK = 0,
	MASK_UNBLOCK = 1,
	MASK_SET = 2
};

#define SYSCALL_SIZE 2

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* The program's memory; a kernel's address faults as it does in the kernel's own copy. */
static bool get(void *to, uint64_t from, size_t n)
{
	return signals_copy(to, pointer(from), n);
}

static bool put(uint64_t to, const void *from, size_t n)
{
	return signals_copy(pointer(to), from, n);
}

/* SYSCALL is done: it has overwritten RCX and R11. */
static void finish(struct registers *r, int64_t result)
{
	r->general[RAX] = (uint64_t)result;
	r->general[RCX] = r->rip + SYSCALL_SIZE;
	r->general[R11] = r->rflags;
	r->rip += SYSCALL_SIZE;
}

static void get_call(const struct registers *r, uint64_t call[7])
{
	static const uint8_t order[7] = {RAX, RDI, RSI, RDX, R10, R8, R9};

	for (unsigned i = 0; i < 7; i++)
		call[i] = r->general[order[i]];
}

bool signals_call(struct context *c, const uint64_t call[7], int64_t *result)
{
	bool made;

	/* Written before and after the call, and read by a thread that leaves: see leave.c. */
	__atomic_store_n(&c->in_call, true, __ATOMIC_SEQ_CST);
	made = signals_window(call, result, &c->pending);
	__atomic_store_n(&c->in_call, false, __ATOMIC_SEQ_CST);
	return made;
}

/* Actions, mask, alternate stack */

static void change_action(struct context *c, int number, const struct action *new)
{
	struct signals *s = c->signals;
	struct action real = signals_real_action(number, new);

	sys_call(__NR_rt_sigaction, (uint64_t)number, (uintptr_t)&real, 0, SIGNAL_SET_SIZE, 0, 0);
	s->handlers->actions[number] = *new;
	if (new->handler == SIGNAL_IGNORE) {
		/* What is pending and ignored is forgotten. */
		if (number < FAULT_SLOTS)
			s->sent[number].info.number = 0;
		if (s->ordinary.info.number == number)
			s->ordinary.info.number = 0;
	}
}

static int64_t do_action(struct context *c, const uint64_t call[7])
{
	struct handlers *h = c->signals->handlers;
	struct action new, old;
	int number = (int)call[1];

	if (call[4] != SIGNAL_SET_SIZE)
		return -ERROR_INVALID;
	if (call[2] && !get(&new, call[2], sizeof(new)))
		return -ERROR_FAULT;
	if (number < 1 || number > SIGNALS || (call[2] && NEVER_BLOCKED & SIGNAL_BIT(number)))
		return -ERROR_INVALID;
	signals_hold(c);
	signals_lock(h);
	old = h->actions[number];
	if (call[2]) {
		new.flags &= ACTION_FLAGS_KNOWN;
		new.mask &= ~NEVER_BLOCKED;
		change_action(c, number, &new);
	}
	signals_unlock(h);
	signals_update(c);
	signals_release(c);
	return call[3] && !put(call[3], &old, sizeof(old)) ? -ERROR_FAULT : 0;
}

static int64_t do_mask(struct context *c, const uint64_t call[7])
{
	struct signals *s = c->signals;
	uint64_t old = s->blocked, set;

	if (call[4] != SIGNAL_SET_SIZE)
		return -ERROR_INVALID;
	if (call[2]) {
		if (!get(&set, call[2], sizeof(set)))
			return -ERROR_FAULT;
		set &= ~NEVER_BLOCKED;
		switch ((int)call[1]) {
		case MASK_BLOCK:
			s->blocked |= set;
			break;
		case MASK_UNBLOCK:
			s->blocked &= ~set;
			break;
		case MASK_SET:
			s->blocked = set;
			break;
		default:
			return -ERROR_INVALID;
		}
		signals_update(c);
		signals_apply_mask(c);
	}
	return call[3] && !put(call[3], &old, sizeof(old)) ? -ERROR_FAULT : 0;
}

static int64_t do_stack(struct context *c, const struct registers *r)
{
	struct alternate_stack *stack = &c->signals->stack, wanted, old;
	uint64_t rsp = r->general[RSP];
	int64_t result = 0;

	if (r->general[RDI] && !get(&wanted, r->general[RDI], sizeof(wanted)))
		return -ERROR_FAULT;
	frame_get_stack(stack, rsp, &old);
	if (r->general[RDI])
		result = frame_set_stack(stack, &wanted, rsp);
	if (!result && r->general[RSI] && !put(r->general[RSI], &old, sizeof(old)))
		return -ERROR_FAULT;
	return result;
}

static int64_t do_pending(struct context *c, const uint64_t call[7])
{
	const struct signals *s = c->signals;
	uint64_t set = 0;
	int64_t result;

	if (call[2] > sizeof(set))
		return -ERROR_INVALID;
	result = sys_call(__NR_rt_sigpending, (uintptr_t)&set, sizeof(set), 0, 0, 0, 0);
	for (int n = 1; n < FAULT_SLOTS; n++)
		if (s->sent[n].info.number && s->blocked & SIGNAL_BIT(n))
			set |= SIGNAL_BIT(n);
	if (!result && !put(call[1], &set, call[2]))
		return -ERROR_FAULT;
	return result;
}

/* Calls that wait */

/* A mask of the program, for the kernel, in a place of its own. False: it cannot be read. */
static bool replace_mask(struct signals *s, uint64_t *address)
{
	if (!get(&s->temporary, *address, sizeof(s->temporary)))
		return false;
	s->temporary &= ~NEVER_BLOCKED;
	s->sets[0] = s->temporary & ~FAULTS;
	*address = (uintptr_t)&s->sets[0];
	return true;
}

/*
 * Makes a call that waits with the mask s->temporary. A handler that interrupts it runs with that
 * mask, too, and the handler's return brings back the program's.
 */
static bool wait_with_mask(struct context *c, const uint64_t call[7], int64_t *result)
{
	struct signals *s = c->signals;

	/* Faults that were sent wait here and not in the kernel: the mask may let them in. */
	s->suspended = true;
	signals_update(c);
	/* Not c->pending, which signals_stop() and the recorder set, too. */
	if (signals_are_deliverable(s) && !s->ordinary.info.number) {
		*result = -ERROR_INTERRUPTED;
		return true;
	}
	s->suspended = false;
	signals_update(c);
	if (!signals_call(c, call, result))
		return false;
	s->suspended = *result == -ERROR_INTERRUPTED;
	signals_update(c);
	return true;
}

/* sigmask, sigsetsize: indices of the call's arguments. */
static bool do_wait(struct context *c, uint64_t call[7], unsigned mask, int64_t *result)
{
	/* A wrong size or address is the kernel's to refuse. */
	if (!call[mask] || call[mask + 1] != SIGNAL_SET_SIZE ||
	    !replace_mask(c->signals, &call[mask]))
		return signals_call(c, call, result);
	return wait_with_mask(c, call, result);
}

/* Its last argument points to the mask's address and size. */
static bool do_pselect(struct context *c, uint64_t call[7], int64_t *result)
{
	struct signals *s = c->signals;
	uint64_t pair[2];

	if (!call[6] || !get(pair, call[6], sizeof(pair)) || !pair[0] ||
	    pair[1] != SIGNAL_SET_SIZE || !replace_mask(s, &pair[0]))
		return signals_call(c, call, result);
	s->sets[1] = pair[0];
	s->sets[2] = pair[1];
	call[6] = (uintptr_t)&s->sets[1];
	return wait_with_mask(c, call, result);
}

static bool do_suspend(struct context *c, uint64_t call[7], int64_t *result)
{
	if (call[2] != SIGNAL_SET_SIZE)
		*result = -ERROR_INVALID;
	else if (!replace_mask(c->signals, &call[1]))
		*result = -ERROR_FAULT;
	else
		return wait_with_mask(c, call, result);
	return true;
}

/* Faults that were sent and are blocked can be waited for. */
static bool do_timed_wait(struct context *c, const uint64_t call[7], int64_t *result)
{
	struct signals *s = c->signals;
	uint64_t set;

	if (call[4] != SIGNAL_SET_SIZE || !get(&set, call[1], sizeof(set)))
		return signals_call(c, call, result);
	for (int n = 1; n < FAULT_SLOTS; n++) {
		struct signal_info info = s->sent[n].info;

		if (!info.number || !(set & SIGNAL_BIT(n)))
			continue;
		s->sent[n].info.number = 0;
		signals_update(c);
		*result = call[2] && !put(call[2], &info, sizeof(info)) ? -ERROR_FAULT : n;
		return true;
	}
	return signals_call(c, call, result);
}

/* rt_sigreturn */

/*
 * The kernel itself loads the vector registers from the program's memory, after it has checked
 * them. So it gets a frame of the runtime which has their address, but leads to
 * signals_returned.
 */
static _Noreturn void do_return(struct context *c, struct registers *r)
{
	struct signals *s = c->signals;
	struct user_context *u = &s->frame.context;
	/* The handler's RET has taken the address of the restorer off the stack. */
	uint64_t frame = r->general[RSP] - sizeof(s->frame.restorer);
	struct registers after = *r;

	if (!get(u, frame + offsetof(struct signal_frame, context), sizeof(*u))) {
		finish(r, 0);
		signals_force_segv(c, r);
		signals_update(c);
		signals_apply_mask(c);
		signals_head(c, r, false);
	}
	if (!frame_return(u, &after)) {
		/* leave() begins where tracing is enabled. */
		c->log = (uintptr_t)packets_enable(c, pointer(c->log), r->rip);
		leave(c, r, "a signal handler returns to another code segment or to single steps");
	}
	s->registers = after;
	s->blocked = u->mask & ~NEVER_BLOCKED;
	frame_set_stack(&s->stack, &u->stack, r->general[RSP]); /* whatever it answers */
	u->stack = s->own;
	u->mask = s->blocked & ~FAULTS;
	u->machine.rip = (uintptr_t)signals_returned;
	u->machine.rsp = c->stack - 8;
	u->machine.rdi = (uintptr_t)c;
	u->machine.rflags = FLAGS_INITIAL;
	signals_load(&s->frame, false);
}

bool signals_syscall(struct context *c, struct registers *r)
{
	uint64_t call[7];
	int64_t result = 0;
	bool made = true;

	get_call(r, call);
	switch (call[0]) {
	case __NR_rt_sigaction:
	case __NR_rt_sigprocmask:
	case __NR_rt_sigpending:
	case __NR_sigaltstack:
	case __NR_rt_sigreturn:
	case __NR_rt_sigsuspend:
	case __NR_rt_sigtimedwait:
	case __NR_ppoll:
	case __NR_pselect6:
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
		break;
	default:
		return false;
	}
	/* A signal that came before the call is delivered before it, with the mask of that time. */
	if (c->pending)
		return true;
	switch (call[0]) {
	case __NR_rt_sigaction:
		result = do_action(c, call);
		break;
	case __NR_rt_sigprocmask:
		result = do_mask(c, call);
		break;
	case __NR_rt_sigpending:
		result = do_pending(c, call);
		break;
	case __NR_sigaltstack:
		result = do_stack(c, r);
		break;
	case __NR_rt_sigreturn:
		do_return(c, r);
	case __NR_rt_sigsuspend:
		made = do_suspend(c, call, &result);
		break;
	case __NR_rt_sigtimedwait:
		made = do_timed_wait(c, call, &result);
		break;
	case __NR_ppoll:
		made = do_wait(c, call, 4, &result);
		break;
	case __NR_pselect6:
		made = do_pselect(c, call, &result);
		break;
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
		made = do_wait(c, call, 5, &result);
		break;
	}
	if (made)
		finish(r, result);
	return true;
}
