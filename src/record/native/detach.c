/* SPDX-License-Identifier: MIT */
/*
 * Detaching. All threads are stopped; those that wait in a system call of the program are held
 * there, and all others run on to their next head. Where a thread has ended its trace, it gives the
 * kernel what it has of the program's (pending signals, alternate stack), and says by NATIVE_CALL
 * with which registers it goes on. When all are there, one of them gives the kernel the program's
 * handlers, the runtime's memory is unmapped, and each goes on natively. Calls in which threads
 * were held are restarted by the kernel, as it does for any tracer.
 */
#include "record/native/attach.h"

#include "record/haste.h"
#include "support/monotonic.h"
#include "record/native/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifdef __x86_64__

#define REPEAT_NS  (INT64_C(5) * 1000000)     /* between two interrupts of threads that run */
#define END_NS	   (INT64_C(10) * 1000000000) /* after this, threads that run are left alone */
#define FLAGS	   0x202
#define STACK_ROOM 256

struct leaving {
	struct threads threads;
	struct native_control control;
	struct detach *d;
	bool ours; /* no thread leaves by itself */
};

static bool read_from(pid_t pid, void *to, uint64_t from, size_t n)
{
	const struct tracee h = {.pid = pid};

	return tracee_read(&h, to, from, n);
}

static bool write_word(pid_t pid, uint64_t to, uint32_t value)
{
	const struct tracee h = {.pid = pid};

	return tracee_write(&h, to, &value, sizeof(value));
}

static void let_go(struct thread *t)
{
	ptrace(PTRACE_DETACH, t->tid, 0, 0);
	t->state = THREAD_GONE;
}

/* It ends its trace at the runtime's function, below what is on its stack of the runtime. */
static void hold(const struct leaving *l, struct thread *t)
{
	struct user_regs_struct r = t->regs;

	r.rip = l->control.held_entry;
	r.rdi = r.gs_base;
	r.rsp = ((r.rsp - STACK_ROOM) & ~UINT64_C(15)) - 8;
	r.eflags = FLAGS;
	r.orig_rax = UINT64_MAX;
	ptrace(PTRACE_SETREGS, t->tid, 0, &r);
	ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(uint64_t), &(uint64_t){ALL_SIGNALS});
}

/* The runtime's own signal, which reaches the thread where it stands, in no call of the program. */
static void interrupt(const struct leaving *l, const struct thread *t)
{
	siginfo_t info = {.si_signo = SIGTRAP, .si_code = NATIVE_STOP_CODE};

	info.si_addr = (void *)(uintptr_t)l->control.runtime;
	syscall(SYS_rt_tgsigqueueinfo, l->threads.pid, t->tid, SIGTRAP, &info);
}

/*
 * The thread was attached to in a call, which it has not made again yet. It comes there by itself,
 * and after a signal the kernel would not know how long it has waited.
 */
static bool is_before_call(const struct leaving *l, const struct thread *t)
{
	uint32_t interrupted = 0;

	return read_from(t->tid, &interrupted, t->regs.gs_base + l->control.interrupted,
			 sizeof(interrupted)) &&
	       interrupted;
}

/* At PTRACE_EVENT_STOP. */
static void send_on(const struct leaving *l, struct thread *t)
{
	if (!threads_read(t))
		return;
	if (!t->regs.gs_base) { /* it is out already, by itself */
		let_go(t);
		return;
	}
	if (t->regs.rip == l->control.window && t->interrupted) {
		hold(l, t);
	} else {
		t->interrupted = 0;
		/* Where it is blocked, the thread is about to stop, or soon here again. */
		if (!(t->mask >> (SIGTRAP - 1) & 1) && !is_before_call(l, t))
			interrupt(l, t);
	}
	t->state = THREAD_RUNS;
	ptrace(PTRACE_SYSCALL, t->tid, 0, 0);
}

/* At the entry of a call. True: it stays there. */
static bool at_call(const struct leaving *l, struct thread *t)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, t->tid, 0, &r))
		return false;
	if (r.orig_rax == NATIVE_CALL && r.rdi == NATIVE_CALL_OUT) {
		t->out = r.rsi;
		t->state = THREAD_OUT;
		return true;
	}
	if (r.rip == l->control.window) { /* of the program: it is not made */
		t->regs = r;
		t->interrupted = 0;
		hold(l, t);
	}
	return false;
}

/* The process has become another program: this is its only thread. */
static void at_exec(struct leaving *l, pid_t tid)
{
	l->d->executed = true;
	for (size_t i = 0; i < l->threads.count; i++)
		l->threads.list[i].state = THREAD_GONE;
	ptrace(PTRACE_DETACH, l->threads.pid, 0, 0);
	(void)tid;
}

static void at_clone(struct leaving *l, pid_t tid)
{
	unsigned long made = 0;

	if (!ptrace(PTRACE_GETEVENTMSG, tid, 0, &made))
		threads_add(&l->threads, (pid_t)made);
}

/* i: not a pointer, because threads may be added. */
static void at_stop(struct leaving *l, size_t i, int status)
{
	struct thread *t = &l->threads.list[i];
	const pid_t tid = t->tid;
	const int signal = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		t->state = THREAD_GONE;
		return;
	}
	if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
		at_exec(l, tid);
		return;
	}
	if (status >> 16 == PTRACE_EVENT_STOP) {
		send_on(l, t);
		return;
	}
	if (status >> 16 == PTRACE_EVENT_CLONE)
		at_clone(l, tid);
	if (signal == SYSCALL_STOP && threads_is_entry(tid) && at_call(l, t))
		return;
	ptrace(PTRACE_SYSCALL, tid, 0, status >> 16 || signal == SYSCALL_STOP ? 0 : signal);
}

/* Returns whether anything has happened. *running: threads that run. */
static bool look(struct leaving *l, unsigned *running)
{
	bool any = false;

	*running = 0;
	for (size_t i = 0; i < l->threads.count; i++) {
		const pid_t tid = l->threads.list[i].tid;
		int status = 0;
		pid_t got;

		if (l->threads.list[i].state != THREAD_RUNS)
			continue;
		got = tracee_look(tid, &status);
		if (got == tid)
			at_stop(l, i, status);
		else if (got < 0)
			l->threads.list[i].state = THREAD_GONE;
		any |= got != 0;
		*running += l->threads.list[i].state == THREAD_RUNS;
	}
	return any;
}

static void interrupt_all(const struct leaving *l)
{
	for (size_t i = 0; i < l->threads.count; i++)
		if (l->threads.list[i].state == THREAD_RUNS)
			ptrace(PTRACE_INTERRUPT, l->threads.list[i].tid, 0, 0);
}

/* Until no thread runs any more. */
static void lead_out(struct leaving *l)
{
	const int64_t begin = monotonic_ns();
	int64_t last = begin;
	unsigned running = 0, looks = 0;

	for (size_t i = 0; i < l->threads.count; i++)
		if (l->threads.list[i].state == THREAD_STANDS)
			send_on(l, &l->threads.list[i]);
	for (;;) {
		const bool any = look(l, &running);
		const int64_t now = monotonic_ns();

		if (!running || now - begin > END_NS || haste_is_late(l->d->late))
			break;
		if (l->d->serve)
			l->d->serve(l->d->context);
		if (!any)
			haste_nap(&looks);
		if (now - last > REPEAT_NS) {
			interrupt_all(l);
			last = now;
		}
	}
	l->d->stuck = running;
}

/* A thread at NATIVE_CALL gives the kernel the program's handlers. */
static void restore_handlers(struct thread *t, const int64_t *late)
{
	struct user_regs_struct r;
	int status;

	threads_answer(t->tid, NATIVE_RESTORE);
	ptrace(PTRACE_SYSCALL, t->tid, 0, 0);
	while (haste_waitpid(t->tid, &status, __WALL, late) == t->tid && WIFSTOPPED(status)) {
		if (WSTOPSIG(status) == SYSCALL_STOP && threads_is_entry(t->tid) &&
		    !ptrace(PTRACE_GETREGS, t->tid, 0, &r) && r.orig_rax == NATIVE_CALL)
			return;
		ptrace(PTRACE_SYSCALL, t->tid, 0, 0);
	}
	t->state = THREAD_GONE;
}

static void set_registers(struct user_regs_struct *r, const struct native_out *o)
{
	const uint64_t *g = o->registers;

	r->rax = g[0], r->rcx = g[1], r->rdx = g[2], r->rbx = g[3];
	r->rsp = g[4], r->rbp = g[5], r->rsi = g[6], r->rdi = g[7];
	r->r8 = g[8], r->r9 = g[9], r->r10 = g[10], r->r11 = g[11];
	r->r12 = g[12], r->r13 = g[13], r->r14 = g[14], r->r15 = g[15];
	r->rip = o->rip;
	r->eflags = o->rflags;
	r->gs_base = 0;
	r->orig_rax = UINT64_MAX;
}

/*
 * From NATIVE_CALL to where it can go on natively: with the registers that it goes on with, in
 * t->regs. In an interrupted call, they are as the kernel has left them there.
 */
static void make_native(struct thread *t, const int64_t *late)
{
	struct native_out out = {.rip = 0};

	if (!read_from(t->tid, &out, t->out, sizeof(out)) ||
	    ptrace(PTRACE_GETREGS, t->tid, 0, &t->regs)) {
		t->state = THREAD_GONE;
		return;
	}
	threads_answer(t->tid, NATIVE_GO_ON);
	if (!threads_to_event(t, late)) {
		t->state = THREAD_GONE;
		return;
	}
	set_registers(&t->regs, &out);
	t->mask = out.mask;
	if (t->interrupted) {
		t->regs.rip += 2;
		t->regs.rcx = t->regs.rip;
		t->regs.r11 = t->regs.eflags;
		t->regs.orig_rax = t->call;
		t->regs.rax = (uint64_t) - (int64_t)t->interrupted;
	}
	t->state = THREAD_STANDS;
}

/* Nobody runs in the runtime any more. */
static void unmap_runtime(const struct leaving *l, const struct thread *t)
{
	struct tracee h = {.pid = t->tid,
			   .process = l->threads.pid,
			   .program = t->regs,
			   .late = l->d->late,
			   .site = threads_find_site(l->threads.pid)};
	struct {
		uint64_t start, end;
	} * ranges;
	uint32_t count = 0;

	if (!h.site || !tracee_read(&h, &count, l->control.range_count, sizeof(count)) || !count ||
	    count > NATIVE_RANGES)
		return;
	ranges = calloc(count, sizeof(*ranges));
	if (ranges && tracee_read(&h, ranges, l->control.ranges, count * sizeof(*ranges)))
		for (uint32_t i = 0; i < count; i++)
			tracee_call(&h, SYS_munmap, ranges[i].start,
				    ranges[i].end - ranges[i].start, 0, 0, 0, 0);
	free(ranges);
}

static void let_all_go(struct leaving *l)
{
	struct thread *t = NULL;

	for (size_t i = 0; i < l->threads.count; i++)
		if (l->threads.list[i].state == THREAD_OUT)
			t = &l->threads.list[i];
	if (t && l->ours)
		restore_handlers(t, l->d->late);
	if (l->d->stuck) {
		/* They leave when they come out, as others do. */
		write_word(l->threads.pid, l->control.leaving, NATIVE_LEAVES);
		write_word(l->threads.pid, l->control.left, 1);
	}
	for (size_t i = 0; i < l->threads.count; i++)
		if (l->threads.list[i].state == THREAD_OUT)
			make_native(&l->threads.list[i], l->d->late);
	t = threads_first(&l->threads);
	if (t && l->ours && !l->d->stuck)
		unmap_runtime(l, t);
	threads_release(&l->threads);
}

void detach_process(struct detach *d)
{
	struct leaving l = {
	    .threads = {.pid = d->pid,
			.some_may_run = true,
			.options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC,
			.serve = d->serve,
			.late = d->late,
			.context = d->context},
	    .d = d,
	};
	struct ptah_message why;
	uint32_t leaving = NATIVE_LEAVES;

	d->executed = false;
	d->stuck = 0;
	if (threads_stop(&l.threads, &why) >= 0 &&
	    read_from(d->pid, &l.control, d->control, sizeof(l.control)) &&
	    read_from(d->pid, &leaving, l.control.leaving, sizeof(leaving))) {
		l.ours =
		    leaving == NATIVE_STAYS && write_word(d->pid, l.control.leaving, NATIVE_LET_GO);
		lead_out(&l);
		let_all_go(&l);
	}
	threads_release(&l.threads);
	threads_free(&l.threads);
}

#else

void detach_process(struct detach *d)
{
	(void)d;
}

#endif
