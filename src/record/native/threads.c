/* SPDX-License-Identifier: MIT */
/* Stopping all threads of a process: see threads.h. */
#include "record/native/threads.h"

#include "perfdata/message.h"
#include "record/haste.h"
#include "record/proc_stat.h"
#include "support/list.h"
#include "support/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__

#define ROUNDS_MAX 64 /* of looking for threads in a process that keeps making them */
#define STOP_NS	   (INT64_C(3) * 1000000000) /* after this a thread cannot be stopped */
#define VDSO_MAX   (64u << 10)

/* Not in the headers of some systems. */
#define GET_SYSCALL_INFO 0x420e
#define GET_RSEQ	 0x420f
#define INFO_ENTRY	 1

struct rseq_configuration {
	uint64_t address;
	uint32_t size, signature, flags, unused;
};

struct thread *threads_add(struct threads *t, pid_t tid)
{
	if (!LIST_ROOM(t->list, t->count, t->room))
		return NULL;
	t->list[t->count] = (struct thread){.tid = tid, .state = THREAD_RUNS};
	return &t->list[t->count++];
}

struct thread *threads_first(struct threads *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].state == THREAD_STANDS)
			return &t->list[i];
	return NULL;
}

static bool is_known(const struct threads *t, pid_t tid)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].tid == tid && t->list[i].state != THREAD_GONE)
			return true;
	return false;
}

/* The first thread stays in the list when it has ended, until all others have. */
static bool is_zombie(pid_t tid)
{
	struct proc_stat stat;

	return !proc_stat_read(tid, &stat) || stat.ended;
}

static bool is_traced_by_us(pid_t tid)
{
	return proc_status_number("", tid, "TracerPid", 10) == (uint64_t)getpid();
}

static int cannot_trace(pid_t pid, int error, struct ptah_message *why)
{
	return perfdata_message(why, PTAH_E_SYSTEM, "process %d cannot be traced: %s", pid,
				strerror(error));
}

/* Seizes the threads that are not known yet. Returns their number, or a negative status. */
static int seize_new(struct threads *t, struct ptah_message *why)
{
	struct dirent *entry;
	int found = 0;
	char path[32];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", t->pid);
	folder = opendir(path);
	if (!folder)
		return perfdata_message(why, PTAH_E_MISSING, "there is no process %d", t->pid);
	while (found >= 0 && (entry = readdir(folder))) {
		const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || is_known(t, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | t->options)) {
			/* With PTRACE_O_TRACECLONE it may be traced from its beginning. */
			const int error = errno;

			if (error == ESRCH || (!is_traced_by_us(tid) && is_zombie(tid)))
				continue;
			if (!is_traced_by_us(tid)) {
				found = cannot_trace(t->pid, error, why);
				continue;
			}
		} else {
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		}
		if (!threads_add(t, tid))
			found = perfdata_message(why, PTAH_E_NOMEM, "out of memory");
		else
			found++;
	}
	closedir(folder);
	return found;
}

/*
 * The kernel restarts none of these, without any need where no handler ran: they wait, and nothing
 * has happened yet.
 */
static bool can_be_made_again(uint64_t call)
{
	return call == SYS_epoll_wait || call == SYS_epoll_pwait ||
	       call == 441 /* epoll_pwait2 */ || call == SYS_semop || call == SYS_semtimedop ||
	       call == SYS_rt_sigtimedwait || call == SYS_io_getevents;
}

static uint32_t interruption(const struct user_regs_struct *r)
{
	if ((int64_t)r->orig_rax < 0)
		return 0;
	switch (-(int64_t)r->rax) {
	case NATIVE_RESTART_SYS:
	case NATIVE_RESTART_NOINTR:
	case NATIVE_RESTART_NOHAND:
	case NATIVE_RESTART_BLOCK:
		return (uint32_t)-r->rax;
	case EINTR:
		return can_be_made_again(r->orig_rax) ? NATIVE_RESTART_NOHAND : 0;
	default:
		return 0;
	}
}

bool threads_read(struct thread *t)
{
	struct rseq_configuration q = {.address = 0};

	if (ptrace(PTRACE_GETREGS, t->tid, 0, &t->regs) ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(t->mask), &t->mask)) {
		t->state = THREAD_GONE;
		return false;
	}
	if (ptrace(GET_RSEQ, t->tid, sizeof(q), &q) == (long)sizeof(q))
		t->rseq = (struct native_rseq){q.address, q.size, q.signature};
	t->interrupted = interruption(&t->regs);
	t->call = t->regs.orig_rax;
	return true;
}

/* False: it cannot be stopped in time. Signals are passed on: their handlers come before. */
static bool await_stop(const struct threads *all, struct thread *t, int64_t end)
{
	unsigned looks = 0;
	int status;
	pid_t got;

	for (;;) {
		got = tracee_look(t->tid, &status);
		if (!got) {
			if (monotonic_ns() > end || haste_is_late(all->late))
				return false;
			if (all->serve)
				all->serve(all->context);
			haste_nap(&looks);
		} else if (got < 0 || !WIFSTOPPED(status)) {
			t->state = THREAD_GONE;
			return true;
		} else if (status >> 16 == PTRACE_EVENT_STOP) {
			t->state = THREAD_STANDS;
			threads_read(t);
			return true;
		} else {
			ptrace(PTRACE_CONT, t->tid, 0, status >> 16 ? 0 : WSTOPSIG(status));
		}
	}
}

static int await_stops(struct threads *t, struct ptah_message *why)
{
	const int64_t end = monotonic_ns() + STOP_NS;

	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].state == THREAD_RUNS && !await_stop(t, &t->list[i], end) &&
		    !t->some_may_run)
			return perfdata_message(
			    why, PTAH_E_SYSTEM,
			    "thread %d of process %d cannot be stopped now: it waits for the "
			    "kernel, or for a child that it has made by vfork()",
			    t->list[i].tid, t->pid);
	return 0;
}

int threads_stop(struct threads *t, struct ptah_message *why)
{
	int found = 1;

	for (unsigned i = 0; i < ROUNDS_MAX && found > 0; i++) {
		int status;

		found = seize_new(t, why);
		if (found < 0)
			return found;
		status = await_stops(t, why);
		if (status < 0)
			return status;
	}
	if (!threads_first(t) && !t->some_may_run)
		return perfdata_message(why, PTAH_E_MISSING, "process %d has ended", t->pid);
	return found ? perfdata_message(why, PTAH_E_SYSTEM,
					"process %d starts threads faster than they can be stopped",
					t->pid)
		     : 0;
}

bool threads_to_event(struct thread *t, const int64_t *late)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0) || ptrace(PTRACE_CONT, t->tid, 0, 0))
		return false;
	while (haste_waitpid(t->tid, &status, __WALL, late) == t->tid && WIFSTOPPED(status)) {
		if (status >> 16 == PTRACE_EVENT_STOP)
			return true;
		ptrace(PTRACE_CONT, t->tid, 0,
		       status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status));
	}
	return false;
}

void threads_release(struct threads *t)
{
	for (size_t i = 0; i < t->count; i++) {
		struct thread *thread = &t->list[i];
		siginfo_t info;

		if (thread->state != THREAD_STANDS)
			continue;
		/* It has made calls for us: it stands at the end of one. */
		if (!ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) &&
		    info.si_code >> 8 != PTRACE_EVENT_STOP)
			threads_to_event(thread, t->late);
		ptrace(PTRACE_SETREGS, thread->tid, 0, &thread->regs);
		ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(thread->mask), &thread->mask);
		ptrace(PTRACE_DETACH, thread->tid, 0, 0);
		thread->state = THREAD_GONE;
	}
}

void threads_free(struct threads *t)
{
	free(t->list);
	t->list = NULL;
	t->count = t->room = 0;
}

bool threads_is_entry(pid_t tid)
{
	uint8_t info[128] = {0};

	return ptrace(GET_SYSCALL_INFO, tid, sizeof(info), info) > 0 && info[0] == INFO_ENTRY;
}

void threads_answer(pid_t tid, int64_t answer)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r))
		return;
	r.orig_rax = UINT64_MAX; /* no call is made, and RAX is its result */
	r.rax = (uint64_t)answer;
	ptrace(PTRACE_SETREGS, tid, 0, &r);
}

static uint64_t search(pid_t pid, uint64_t start, uint64_t end)
{
	const uint64_t n = end - start;
	uint8_t *bytes = n <= VDSO_MAX ? malloc(n) : NULL;
	struct iovec to = {bytes, n}, from = {(void *)(uintptr_t)start, n};
	uint64_t found = 0;
	ssize_t got = bytes ? process_vm_readv(pid, &to, 1, &from, 1, 0) : 0;

	for (ssize_t i = 0; i + 1 < got && !found; i++)
		if (bytes[i] == 0x0f && bytes[i + 1] == 0x05)
			found = start + (uint64_t)i;
	free(bytes);
	return found;
}

uint64_t threads_find_site(pid_t pid)
{
	uint64_t start, end;

	return tracee_find_vdso(pid, &start, &end) ? search(pid, start, end) : 0;
}

#endif
