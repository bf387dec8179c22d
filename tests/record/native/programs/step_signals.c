/* SPDX-License-Identifier: MIT */
/*
 * step_signals EACH PROGRAM COMMAND...
 *
 * Judges signals of a recorded program at every single step of what the processor executes for it.
 * PROGRAM (boundaries.c) does the same work in a loop. It is run natively first, by single steps,
 * which gives its states at all boundaries of its instructions. Then COMMAND records it: in the
 * n-th turn of the loop a signal is sent after n steps, whatever code that is. What the program's
 * handler finds in its context has to be one of those states, and the work's result has to be
 * right. The same is done natively, to judge this judge; and again when the work has run so often
 * that its code is translated another way. EACH: 1, or n for each n-th step alone.
 */
#include "boundaries.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <linux/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATES_MAX  4096
#define STEPS_MAX   200000 /* of a turn */
#define FIRST_TURNS 2	   /* in which the code is translated */
#define WARM_TURNS  1100

#define RUNTIME_BYTES 0x20000 /* at most, of its code to both sides of an address in it */
#define NEAR_STEPS    60      /* a gate has fewer */
#define FAR_STEPS     211

#define TRAP_FLAG   0x100u
#define RESUME_FLAG 0x10000u

#define PUSHFQ	0x9cu
#define POPFQ	0x9du
#define SYSCALL 0x050fu

/* Of a program that is run, natively or recorded. */
struct run {
	pid_t child; /* this process's */
	struct hello hello;
	int status; /* of the last stop */
	int signal; /* to be passed on when it goes on */
	struct user_regs_struct r;
};

static struct state states[STATES_MAX];
static unsigned state_count;
static uint64_t outside[STATES_MAX]; /* boundaries where not all registers are known */
static unsigned outside_count;
static uint64_t right_result;
static unsigned each;

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("step_signals: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	exit(1);
}

/* Starts a command, and takes hold of the program in it. */
static void begin(struct run *run, char *const *command)
{
	int hello[2], start[2];

	*run = (struct run){0};
	if (pipe(hello) || pipe(start))
		fail("pipe: %s", strerror(errno));
	run->child = fork();
	if (!run->child) {
		/* Above both, so that none is overwritten. */
		const int from = fcntl(hello[1], F_DUPFD, 16), to = fcntl(start[0], F_DUPFD, 16);

		dup2(from, HELLO_FD);
		dup2(to, GO_FD);
		for (int i = GO_FD + 1; i < 32; i++)
			close(i);
		execvp(command[0], command);
		_exit(127);
	}
	close(hello[1]);
	close(start[0]);
	if (read(hello[0], &run->hello, sizeof(run->hello)) != sizeof(run->hello))
		fail("%s does not begin", command[0]);
	if (ptrace(PTRACE_SEIZE, run->hello.pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) {
		printf("SKIP: PTRACE_SEIZE: %s\n", strerror(errno));
		kill(run->hello.pid, SIGKILL);
		exit(77);
	}
	ptrace(PTRACE_INTERRUPT, run->hello.pid, NULL, NULL);
	if (waitpid(run->hello.pid, &run->status, __WALL) < 0)
		fail("waitpid: %s", strerror(errno));
	if (write(start[1], "", 1) != 1)
		fail("write: %s", strerror(errno));
	close(hello[0]);
	close(start[1]);
}

/* Goes on until the next stop. */
static void go(struct run *run, int request)
{
	const long signal = run->signal;

	run->signal = 0;
	if (ptrace(request, run->hello.pid, NULL, signal))
		fail("ptrace: %s", strerror(errno));
	if (waitpid(run->hello.pid, &run->status, __WALL) < 0 || !WIFSTOPPED(run->status))
		fail("the program has ended, status %x", run->status);
	if (WSTOPSIG(run->status) != SIGTRAP && WSTOPSIG(run->status) != (SIGTRAP | 0x80) &&
	    !(run->status >> 16))
		run->signal = WSTOPSIG(run->status);
}

static void get_registers(struct run *run)
{
	if (ptrace(PTRACE_GETREGS, run->hello.pid, NULL, &run->r))
		fail("PTRACE_GETREGS: %s", strerror(errno));
}

/* Goes on to the beginning (or the end) of the system call getpgid(mark). */
static void go_to_mark(struct run *run, int mark, unsigned op)
{
	struct ptrace_syscall_info info;
	bool marked = false;

	for (;;) {
		go(run, PTRACE_SYSCALL);
		if (WSTOPSIG(run->status) != (SIGTRAP | 0x80))
			continue;
		ptrace(PTRACE_GET_SYSCALL_INFO, run->hello.pid, sizeof(info), &info);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			marked = info.entry.nr == SYS_getpgid && (int)info.entry.args[0] == mark;
		if (marked && info.op == op)
			return;
	}
}

/*
 * POPFQ by hand: the kernel takes the trap flag by which it steps for the program's own from there
 * on, because it does not know what POPFQ has loaded.
 */
static void step_popfq(struct run *run)
{
	run->r.eflags = (uint64_t)ptrace(PTRACE_PEEKDATA, run->hello.pid, run->r.rsp, NULL);
	run->r.rsp += 8;
	run->r.rip++;
	ptrace(PTRACE_SETREGS, run->hello.pid, NULL, &run->r);
}

/*
 * One step. The processor saves the trap flag by which it steps; the program must not find it in
 * what it has saved.
 */
static void step(struct run *run)
{
	const pid_t pid = run->hello.pid;
	const uint64_t at = run->r.rip;
	const long code = ptrace(PTRACE_PEEKTEXT, pid, at, NULL);

	if (((unsigned)code & 0xff) == POPFQ && !run->signal) {
		step_popfq(run);
		return;
	}
	go(run, PTRACE_SINGLESTEP);
	get_registers(run);
	if (((unsigned)code & 0xff) == PUSHFQ && run->r.rip == at + 1) {
		const long flags = ptrace(PTRACE_PEEKDATA, pid, run->r.rsp, NULL);

		ptrace(PTRACE_POKEDATA, pid, run->r.rsp, flags & ~(long)TRAP_FLAG);
	}
	if (((unsigned)code & 0xffff) == SYSCALL && run->r.r11 & TRAP_FLAG) {
		run->r.r11 &= ~(uint64_t)TRAP_FLAG;
		ptrace(PTRACE_SETREGS, pid, NULL, &run->r);
	}
}

static bool is_at_end(const struct run *run)
{
	return run->r.rax == SYS_getpgid && (int)run->r.rdi == MARK_END &&
	       ((unsigned)ptrace(PTRACE_PEEKTEXT, run->hello.pid, run->r.rip, NULL) & 0xffff) ==
		   SYSCALL;
}

static void get_state(const struct run *run, struct state *s)
{
	const struct user_regs_struct *r = &run->r;
	struct user_fpregs_struct fp;

	ptrace(PTRACE_GETFPREGS, run->hello.pid, NULL, &fp);
	*s = (struct state){
	    .rip = r->rip,
	    .rflags = r->eflags & ~(uint64_t)(TRAP_FLAG | RESUME_FLAG),
	    .general = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi, r->r8,
			r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15},
	    .mxcsr = fp.mxcsr,
	    .control = fp.cwd,
	    .status = fp.swd,
	};
	memcpy(s->xmm, fp.xmm_space, sizeof(s->xmm));
	memcpy(&s->st[0], &fp.st_space[0], sizeof(s->st[0]));
	memcpy(&s->st[1], &fp.st_space[4], sizeof(s->st[1]));
}

static void get_report(const struct run *run, struct report *report)
{
	struct iovec here = {report, sizeof(*report)};
	struct iovec there = {(void *)(uintptr_t)run->hello.report, sizeof(*report)};

	if (process_vm_readv(run->hello.pid, &here, 1, &there, 1, 0) != sizeof(*report))
		fail("process_vm_readv: %s", strerror(errno));
}

/* All states of one turn; the body and the functions that it calls are those between its two ends.
 */
static void learn(struct run *run)
{
	bool within = false;

	go_to_mark(run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	get_registers(run);
	while (!is_at_end(run)) {
		within =
		    run->r.rip == run->hello.body || (within && run->r.rip != run->hello.body_end);
		if (state_count == STATES_MAX || outside_count == STATES_MAX)
			fail("the work is too long");
		if (within)
			get_state(run, &states[state_count++]);
		else
			outside[outside_count++] = run->r.rip;
		step(run);
	}
	outside[outside_count++] = run->r.rip;
	/* And from there to the next turn. */
	for (;;) {
		step(run);
		outside[outside_count++] = run->r.rip;
		if (run->r.rax == SYS_getpgid && (int)run->r.rdi == MARK_START)
			break;
	}
	step(run);
	outside[outside_count++] = run->r.rip;
}

static void print_state(const char *what, const struct state *s)
{
	fprintf(stderr, "%s: rip %lx rflags %lx", what, (unsigned long)s->rip,
		(unsigned long)s->rflags);
	for (unsigned i = 0; i < 16; i++)
		fprintf(stderr, " %u:%lx", i, (unsigned long)s->general[i]);
	fprintf(stderr, " xmm %lx %lx %lx %lx st %lx %lx mxcsr %x cw %x sw %x\n",
		(unsigned long)s->xmm[0][0], (unsigned long)s->xmm[0][1],
		(unsigned long)s->xmm[1][0], (unsigned long)s->xmm[1][1], (unsigned long)s->st[0],
		(unsigned long)s->st[1], s->mxcsr, s->control, s->status);
}

/* The program was interrupted in the state *s: is this one of those that it has natively? */
static bool is_right(struct state s, bool seen[STATES_MAX])
{
	bool known = false;

	s.rflags &= ~(uint64_t)(TRAP_FLAG | RESUME_FLAG);
	for (unsigned i = 0; i < state_count; i++)
		if (!memcmp(&states[i], &s, sizeof(s))) {
			seen[i] = true;
			return true;
		}
	for (unsigned i = 0; i < outside_count; i++)
		if (outside[i] == s.rip)
			return true;
	print_state("interrupted", &s);
	for (unsigned i = 0; i < state_count; i++)
		if (states[i].rip == s.rip) {
			print_state("natively", &states[i]);
			known = true;
		}
	if (!known)
		fprintf(stderr, "no instruction of the path begins there\n");
	return false;
}

/* One turn, with a signal after so many steps. False: the work has fewer. */
static bool interrupt(struct run *run, unsigned steps)
{
	get_registers(run);
	for (unsigned i = 0; i < steps; i++) {
		if (is_at_end(run))
			return false;
		step(run);
	}
	if (syscall(SYS_tgkill, run->hello.pid, run->hello.pid, SIGUSR1))
		fail("tgkill: %s", strerror(errno));
	return true;
}

/*
 * Chooses after which steps of a turn signals are sent: where the processor is in the cache or near
 * it, in the gates, after each one; in the runtime's C code, in which the turn begins, after some.
 * Returns how many steps the turn has.
 */
static unsigned choose(struct run *run, bool chosen[STEPS_MAX])
{
	unsigned steps = 0, near = 0;
	uint64_t runtime;

	get_registers(run);
	runtime = run->r.rip;
	memset(chosen, 0, STEPS_MAX);
	for (; !is_at_end(run); steps++) {
		const bool away = run->r.rip + RUNTIME_BYTES - runtime > 2 * RUNTIME_BYTES;

		if (steps == STEPS_MAX)
			fail("the work has too many steps");
		for (unsigned i = 0; away && i <= NEAR_STEPS && i <= steps; i++)
			chosen[steps - i] = true;
		near = away ? NEAR_STEPS : near;
		if (near || steps % FAR_STEPS == 0)
			chosen[steps] = true;
		near -= near != 0;
		step(run);
	}
	return steps;
}

/* Signals after each number of steps, or (natively) after all of them. */
static void judge(struct run *run, const char *what, bool all)
{
	static bool chosen[STEPS_MAX];
	bool seen[STATES_MAX] = {false};
	struct report before = {0}, after = {0};
	unsigned steps, positions = 0, signals = 0, number = 0, last;
	bool sent;

	go_to_mark(run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	last = choose(run, chosen);
	go_to_mark(run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	for (steps = 0; steps <= last; steps++) {
		if (!all && steps != last && (!chosen[steps] || number++ % each))
			continue;
		get_report(run, &before);
		sent = interrupt(run, steps);
		go_to_mark(run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
		get_report(run, &after);
		if (after.handled != before.handled + sent)
			fail("%s, step %u: %lu signals were handled, not %d", what, steps,
			     (unsigned long)(after.handled - before.handled), sent);
		if (after.result != right_result)
			fail("%s, step %u: the result is %lx, not %lx", what, steps,
			     (unsigned long)after.result, (unsigned long)right_result);
		if (!sent)
			break;
		signals++;
		if (!is_right(after.state, seen))
			fail("%s, step %u: a state that the program never has", what, steps);
	}
	for (unsigned i = 0; i < state_count; i++)
		positions += seen[i];
	printf("%s: %u signals within %u steps, %u of %u states\n", what, signals, last, positions,
	       state_count);
	fflush(stdout);
	if (positions < 5)
		fail("%s: hardly any signal came within the work", what);
}

static void end(struct run *run)
{
	const uint64_t stop = 1;
	struct iovec here = {(void *)(uintptr_t)&stop, sizeof(stop)};
	struct iovec there = {
	    (void *)(uintptr_t)(run->hello.report + offsetof(struct report, stop)), sizeof(stop)};
	int status;

	if (process_vm_writev(run->hello.pid, &here, 1, &there, 1, 0) != sizeof(stop) ||
	    ptrace(PTRACE_DETACH, run->hello.pid, NULL, NULL))
		fail("the program cannot be let go: %s", strerror(errno));
	if (waitpid(run->child, &status, 0) != run->child || status)
		fail("status %x at the end", status);
}

int main(int argc, char **argv)
{
	char *const alone[] = {argv[2], NULL};
	struct report report = {0};
	struct run run;

	if (argc < 4)
		fail("usage: step_signals EACH PROGRAM COMMAND...");
	each = (unsigned)atoi(argv[1]);
	if (!each)
		fail("EACH is a number from 1 on");
	begin(&run, alone);
	learn(&run);
	go_to_mark(&run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	get_report(&run, &report);
	right_result = report.result;
	judge(&run, "alone", true);
	end(&run);

	begin(&run, argv + 3);
	for (unsigned i = 0; i < FIRST_TURNS; i++)
		go_to_mark(&run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	judge(&run, "recorded", false);
	for (unsigned i = 0; i < WARM_TURNS; i++)
		go_to_mark(&run, MARK_START, PTRACE_SYSCALL_INFO_EXIT);
	judge(&run, "recorded, hot", false);
	end(&run);
	return 0;
}
