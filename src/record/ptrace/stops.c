/* SPDX-License-Identifier: MIT */
/*
 * Resumes one thread, and handles its stops.
 *
 * An instruction is single-stepped (TF, #DB, SIGTRAP). System calls instead go through the
 * kernel's stops at their entry and exit, because they may take long and must not see TF.
 * ptrace(2) "Stopped states", "Attaching and detaching", "Group-stop"; SDM "Single-Step Exception
 * Condition".
 *
 * The program could notice the steps in these ways, each of which is undone:
 *
 *	PUSHF		pushes TF: it is cleared in memory
 *	POPF, IRET	make the kernel take TF for the program's own: see forget_step()
 *	SIGTRAP		when a step ends while the program blocks SIGTRAP, the kernel
 *			unblocks it and removes its handler. So SIGTRAP is unblocked
 *			while instructions are stepped, and blocked again for system
 *			calls and signal frames, which would show it. A SIGTRAP that was
 *			sent meanwhile is sent again
 */
#include "record/proc_stat.h"
#include "record/ptrace/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TF	      0x100u
#define VSYSCALL_PAGE UINT64_C(0xffffffffff600000)
#define CS_64	      0x33    /* code segment selector of 64-bit user code (__USER_CS) */
#define HANDLER_ENTRY SIGTRAP /* si_code of the stop at a handler: ptrace_notify(SIGTRAP) */

/* Whether a system call returned that the kernel may restart: include/linux/errno.h. */
static bool is_restart(const struct user_regs_struct *regs)
{
	const int64_t result = (int64_t)regs->rax;

	return (int64_t)regs->orig_rax >= 0 &&
	       (result == -512 || result == -513 || result == -514 || result == -516);
}

/* SIGTRAP in the thread's mask */

/*
 * Whether the call waits with a signal mask of its own, which must stay until the signal is
 * delivered.
 */
static bool has_own_mask(const struct user_regs_struct *regs)
{
	if ((int64_t)regs->rax != -EINTR)
		return false;
	switch ((int64_t)regs->orig_rax) {
	case SYS_rt_sigsuspend:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_io_pgetevents:
		return true;
	default:
		return false;
	}
}

static void hide_block(struct thread *t, const struct user_regs_struct *regs)
{
	uint64_t mask = 0;

	if (t->restart || has_own_mask(regs))
		return;
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) ||
	    !(mask & UINT64_C(1) << (SIGTRAP - 1)))
		return;
	mask &= ~(UINT64_C(1) << (SIGTRAP - 1));
	t->unblocked = !ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask);
}

static void restore_block(struct thread *t)
{
	uint64_t mask = 0;

	if (!t->unblocked || ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask))
		return;
	mask |= UINT64_C(1) << (SIGTRAP - 1);
	ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask);
	t->unblocked = false;
	if (t->held)
		syscall(SYS_tgkill, t->process->pid, t->tid, SIGTRAP);
	t->held = false;
}

/* Whether the program has a handler for the signal. */
static bool is_caught(const struct thread *t, int signal)
{
	const uint64_t caught = proc_status_number("", t->tid, "SigCgt", 16);

	return signal > 0 && signal <= 64 && caught != UINT64_MAX && caught >> (signal - 1) & 1;
}

/* Resuming */

void stops_resume(struct thread *t)
{
	enum __ptrace_request how = PTRACE_SINGLESTEP;
	const int signal = t->signal;
	const bool caught = signal && !t->blind && is_caught(t, signal);

	if (t->blind || t->waits) {
		how = PTRACE_CONT;
	} else if (t->in_syscall) {
		how = PTRACE_SYSCALL;
	} else {
		t->known = fetch_insn(t->process, t->ip, !t->follows, &t->insn);
		t->follows = false;
		/* Only a single step stops at the beginning of a handler. */
		if ((t->restart || (t->known && t->insn.syscall)) && !caught)
			how = PTRACE_SYSCALL;
	}
	if (caught || how != PTRACE_SINGLESTEP)
		restore_block(t);
	t->signal = 0;
	t->delivered = signal;
	t->running = !ptrace(how, t->tid, NULL, (void *)(intptr_t)signal);
	if (!t->running)
		t->running = errno == ESRCH; /* killed: its end will be reported */
}

/* What was executed */

static bool may_lead(const struct insn *insn, uint64_t next)
{
	switch (insn->kind) {
	case PTAH_INSN_COND:
		return next == insn->end || next == insn->target;
	case PTAH_INSN_JUMP:
	case PTAH_INSN_CALL:
		return next == insn->target;
	case KIND_REP:
		return next == insn->end || next == insn->ip;
	case PTAH_INSN_OTHER:
	case KIND_ZERO_CALL:
		return next == insn->end;
	default:
		return true;
	}
}

/* Clears TF in what PUSHF pushed: the tracer set it, not the program. */
static void clean_flags(struct thread *t, const struct user_regs_struct *regs)
{
	long word;

	if (t->trap_flag)
		return;
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, t->tid, (void *)(uintptr_t)regs->rsp, NULL);
	if (!errno)
		ptrace(PTRACE_POKEDATA, t->tid, (void *)(uintptr_t)regs->rsp,
		       (void *)(word & ~(long)TF));
}

/*
 * No code runs in the vsyscall page: fetching from it faults, and the kernel does the call and the
 * return. The step ends after the instruction that comes next.
 */
static bool pass_vsyscall(struct thread *t, const struct user_regs_struct *regs)
{
	trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
	for (uint64_t back = 8; back <= 16; back += 8) {
		uint64_t to;

		if (fetch_bytes(t->process, regs->rsp - back, &to, sizeof(to)) &&
		    fetch_insn(t->process, to, true, &t->insn) && !t->insn.syscall &&
		    may_lead(&t->insn, regs->rip)) {
			trace_pass(t, &t->insn, regs->rip);
			return true;
		}
	}
	return false;
}

/* The instruction at t->ip, which the decoder takes for undefined, has run. The first is named. */
static void note_unknown(struct thread *t)
{
	uint8_t bytes[X86_MAX_SIZE];
	char name[X86_NAME_MAX];
	size_t n = sizeof(bytes);

	if (t->process->named_unknown)
		return;
	t->process->named_unknown = true;
	while (n && !fetch_bytes(t->process, t->ip, bytes, n))
		n--;
	x86_name(name, bytes, n, t->ip);
	tracer_note(t->r, INSN_NOTE_UNKNOWN, name);
}

/* The instruction at t->ip was executed, and the thread has stopped at regs->rip. */
static void completed(struct thread *t, const struct user_regs_struct *regs)
{
	bool passed = t->known && may_lead(&t->insn, regs->rip);

	if (passed) {
		trace_pass(t, &t->insn, regs->rip);
	} else if ((t->ip & ~UINT64_C(0xfff)) == VSYSCALL_PAGE) {
		passed = pass_vsyscall(t, regs);
	} else if (t->known && t->insn.covers) {
		trace_pass(t, &t->insn, t->insn.end);
		t->ip = t->insn.end;
		t->known = fetch_insn(t->process, t->ip, true, &t->insn);
		passed = t->known && may_lead(&t->insn, regs->rip);
		if (passed)
			trace_pass(t, &t->insn, regs->rip);
	}
	if (passed && t->insn.pushf)
		clean_flags(t, regs);
	if (passed && t->insn.sets_flags && !(regs->eflags & TF))
		t->forgets = true;
	t->follows = passed && t->insn.kind == PTAH_INSN_OTHER;
	if (!passed && !t->known)
		note_unknown(t);
	if (!passed)
		trace_lose(t);
}

/* Whether the thread runs 32-bit code, which is not recorded: it runs untraced from then on. */
static bool goes_blind(struct thread *t, const struct user_regs_struct *regs)
{
	if (regs->cs == CS_64 || t->blind)
		return t->blind;
	tracer_note(t->r, "process %d runs 32-bit code: what followed was not recorded",
		    t->process->pid);
	trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
	t->blind = true;
	return true;
}

/* System calls */

void stops_report_name(struct thread *t, bool exec)
{
	struct tracer_message message = {.type = TRACER_COMM,
					 .pid = t->process->pid,
					 .tid = t->tid,
					 .tsc = exec ? t->process->born : tracer_change_time(t->r),
					 .value = exec};
	char path[64], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", t->tid);
	f = fopen(path, "re");
	if (!f)
		return;
	message.size = (uint32_t)fread(name, 1, sizeof(name) - 1, f);
	fclose(f);
	if (message.size && name[message.size - 1] == '\n')
		message.size--;
	if (!exec)
		t->named = message.tsc;
	tracer_send(t->r, &message, name);
}

/* The system call at ip has begun. */
static void call(struct thread *t, uint64_t ip, const struct user_regs_struct *regs)
{
	if (t->ip != ip || !t->known) {
		t->ip = ip;
		t->known = fetch_insn(t->process, ip, true, &t->insn);
	}
	if (t->known && t->insn.syscall)
		trace_call(t, &t->insn);
	else
		trace_lose(t);
	t->restart = false;
	t->call = regs->orig_rax;
	syscall_enter(t, regs);
}

static void returned(struct thread *t, const struct user_regs_struct *regs)
{
	t->ip = regs->rip;
	t->restart = is_restart(regs);
	syscall_leave(t, regs);
	switch (t->call) {
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_remap_file_pages:
	case SYS_brk:
	case SYS_personality:
	case SYS_execve:
	case SYS_execveat:
		t->process->stale = true;
		break;
	case SYS_prctl:
		stops_report_name(t, false);
		break;
	default:
		break;
	}
	hide_block(t, regs);
}

static void on_syscall_stop(struct thread *t, const struct user_regs_struct *regs)
{
	if (t->in_syscall) {
		t->in_syscall = false;
		returned(t, regs);
	} else {
		t->in_syscall = true;
		call(t, regs->rip - 2, regs); /* SYSCALL and INT 80h are two bytes long */
	}
}

/* Events */

static bool is_thread_of(int32_t tid, int32_t pid)
{
	return proc_status_number("", tid, "Tgid", 10) == (uint64_t)pid;
}

static void on_clone(struct thread *t)
{
	struct tracer *r = t->r;
	struct tracer_message message = {.type = TRACER_FORK,
					 .pid = t->process->pid,
					 .value = (uint64_t)t->process->pid,
					 .address = (uint64_t)t->tid,
					 .tsc = tracer_time(r)};
	unsigned long tid = 0;
	struct process *p = t->process;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &tid) || !tid || tracer_find(r, (int32_t)tid))
		return;
	if (!is_thread_of((int32_t)tid, p->pid)) {
		p = tracer_add_process(r, (int32_t)tid, p);
		if (!p)
			return;
		message.pid = p->pid;
		message.tsc = p->born;
	}
	message.tid = (int32_t)tid;
	tracer_send(r, &message, NULL);
	if (!tracer_add_thread(r, p, (int32_t)tid))
		tracer_note(r, "out of memory: thread %lu is not recorded", tid);
}

/*
 * The thread that called execve becomes the process's first thread; all other threads have ended,
 * and so has what the first thread did before. proc(5), ptrace(2) "execve(2) under ptrace".
 */
static void on_exec(struct thread *t, const struct user_regs_struct *regs)
{
	struct process *p = t->process;
	unsigned long former = 0;
	struct thread *caller;

	ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &former);
	caller = (int32_t)former == t->tid ? NULL : tracer_find(t->r, (int32_t)former);
	if (caller) {
		trace_end(caller);
		caller->gone = true;
	}
	if (t->begun)
		trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
	maps_forget(p);
	fetch_forget(p);
	maps_init_ranges(p);
	p->born = p->changed = tracer_change_time(t->r);
	t->ip = regs->rip;
	t->in_syscall = true; /* of execve, whose exit stop is still to come */
	t->call = SYS_execve;
	t->restart = t->listening = t->unblocked = t->fresh = false;
	if (t->waits) {
		t->waits = false;
		t->blind = false;
	}
	stops_report_name(t, true);
	if (!goes_blind(t, regs) && !t->begun && !trace_begin(t)) {
		tracer_note(t->r, "out of memory: thread %d is not recorded", t->tid);
		t->blind = true;
	}
	t->logged = true;
}

/*
 * Whether the trap of a step is still to be reported: the step ended just as the thread was
 * interrupted.
 */
static bool has_step_waiting(const struct thread *t)
{
	struct __ptrace_peeksiginfo_args args = {.nr = 8};
	siginfo_t waiting[8];
	const long n = ptrace(PTRACE_PEEKSIGINFO, t->tid, &args, waiting);

	for (long i = 0; i < n; i++)
		if (waiting[i].si_signo == SIGTRAP && waiting[i].si_code > 0)
			return true;
	return false;
}

static void on_stop_event(struct thread *t, int signal, const struct user_regs_struct *regs)
{
	if ((signal == SIGTRAP || t->r->leaving) && has_step_waiting(t)) {
		/*
		 * Without a tracer this trap would kill the program. It arrives before another
		 * instruction runs.
		 */
		t->running = !ptrace(PTRACE_CONT, t->tid, NULL, NULL);
		return;
	}
	if (signal ==
	    SIGTRAP) { /* the thread has begun, was interrupted, or continues after job control */
		if (!t->in_syscall) {
			t->ip = regs->rip;
			t->restart = is_restart(regs);
		}
		return;
	}
	if (!t->in_syscall)
		t->restart = is_restart(regs);
	if (t->r->leaving)
		return;
	t->listening = true;
	t->running = !ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
}

static void on_trap(struct thread *t, const struct user_regs_struct *regs)
{
	const bool own = t->trap_flag; /* as it was before the step */
	siginfo_t info = {0};

	if (ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info))
		return;
	if (info.si_code == HANDLER_ENTRY) {
		trace_leave(t, PTAH_MODEL_INTERRUPT, t->ip);
		t->restart = false;
		t->ip = regs->rip;
		hide_block(t, regs);
		return;
	}
	if (t->known && t->insn.interrupt && !t->insn.syscall && regs->rip == t->insn.end) {
		trace_call(t, &t->insn); /* INT3, INT1: the trap is meant for the program */
		t->signal = SIGTRAP;
	} else if (info.si_code <= 0) { /* sent by kill() and the like */
		if (regs->rip != t->ip && !t->restart)
			completed(t, regs);
		t->held = t->unblocked; /* it is to stay pending: the program has blocked it */
		t->signal = t->held ? 0 : SIGTRAP;
	} else if (t->restart || (t->known && t->insn.syscall && !t->insn.interrupt)) {
		call(t, regs->rip - 2, regs); /* the step went over the system call */
		returned(t, regs);
	} else {
		completed(t, regs);
		if (own)
			t->signal = SIGTRAP;
	}
	t->ip = regs->rip;
}

static void on_signal(struct thread *t, int signal, const struct user_regs_struct *regs)
{
	/*
	 * If the address has not changed nothing was executed: the instruction faulted, or the
	 * signal came before it.
	 */
	if (!t->in_syscall && !t->restart && !t->blind && regs->rip != t->ip)
		completed(t, regs);
	t->signal = signal;
	if (!t->in_syscall)
		t->ip = regs->rip;
}

static void first_stop(struct thread *t, const struct user_regs_struct *regs)
{
	t->fresh = false;
	t->ip = regs->rip;
	t->restart = is_restart(regs);
	if (goes_blind(t, regs))
		return;
	if (!trace_begin(t)) {
		tracer_note(t->r, "out of memory: thread %d is not recorded", t->tid);
		t->blind = true;
	}
	syscall_begin(t, regs);
	hide_block(t, regs);
}

/*
 * After an instruction that may set TF the kernel takes the TF of the next step for the program's
 * own (enable_single_step() in arch/x86/kernel/step.c), unless the thread is resumed without a step
 * in between. It is interrupted first, so that it stops again before it runs anything.
 */
static void forget_step(struct thread *t)
{
	t->forgets = false;
	if (t->signal) /* sent again, because this signal would be lost at the stop */
		syscall(SYS_tgkill, t->process->pid, t->tid, t->signal);
	t->signal = 0;
	t->running = !ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) &&
		     !ptrace(PTRACE_CONT, t->tid, NULL, NULL);
}

/* status: of the thread, which has ended. */
static void on_end(struct thread *t, int status)
{
	struct tracer_message message = {
	    .type = TRACER_FATAL,
	    .pid = t->process->pid,
	    .tid = t->tid,
	    .address = t->ip,
	    .value = (uint64_t)t->delivered,
	};

	trace_end(t);
	/* The other threads of the process end with the same status. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == t->delivered)
		tracer_send(t->r, &message, "");
	message.type = TRACER_ENDED;
	message.value = (uint64_t)status;
	/* The status of the first thread, which ends last, is the process's. */
	if (t->tid == t->process->pid)
		tracer_send(t->r, &message, "");
	t->gone = true;
}

void stops_handle(struct thread *t, int status)
{
	const int signal = WSTOPSIG(status), event = status >> 16;
	struct user_regs_struct regs;

	t->running = t->listening = false;
	if (!WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, t->tid, NULL, &regs)) {
		if (!WIFSTOPPED(status))
			on_end(t, status);
		else
			t->running = true; /* killed: its end will be reported */
		return;
	}
	if (t->fresh && event != PTRACE_EVENT_EXEC)
		first_stop(t, &regs);
	if (event == PTRACE_EVENT_EXEC)
		on_exec(t, &regs);
	else if (event == PTRACE_EVENT_STOP)
		on_stop_event(t, signal, &regs);
	else if (event)
		on_clone(t);
	else if (signal == (SIGTRAP | 0x80))
		on_syscall_stop(t, &regs);
	else if (t->blind || t->waits)
		t->signal = signal;
	else if (signal == SIGTRAP)
		on_trap(t, &regs);
	else
		on_signal(t, signal, &regs);
	if (t->running && event == PTRACE_EVENT_STOP && !t->listening)
		return;
	t->trap_flag = regs.eflags & TF;
	if (!t->in_syscall && !t->blind && t->begun)
		goes_blind(t, &regs);
	if (t->forgets && !t->running)
		forget_step(t);
}

void stops_detach(struct thread *t)
{
	if (!t->restart)
		restore_block(t);
	ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(intptr_t)t->signal);
}
