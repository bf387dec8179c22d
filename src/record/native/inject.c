/* SPDX-License-Identifier: MIT */
/*
 * Puts the runtime into a program that stands before its first instruction: lets the program make
 * the system calls that map it, one by one, from a SYSCALL that is put over its first instruction
 * for that time, or from a stub in the vDSO (tracee.h). The calls are watched as such (PTRACE_SYSCALL), so that no signal is involved.
 */
#include "record/native/inject.h"
#include "record/native/threads.h"
#include "record/native/tracee.h"

#include "perfdata/message.h"
#include "record/command.h"
#include "record/haste.h"
#include "support/monotonic.h"
#include "record/native/layout.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_NS	   (INT64_C(1) * 1000000000)
#define RELEASE_NS (INT64_C(20) * 1000000)

#ifdef __x86_64__

#define EXEC_STOP (SIGTRAP | PTRACE_EVENT_EXEC << 8)

/* From the exec stop to a process that can be told to make calls. */
static int take_hold(struct tracee *h)
{
	const uint64_t all = ALL_SIGNALS;
	uint8_t byte;
	long word;

	if (!tracee_to_call(h) /* the return from execve: signals come after it */ ||
	    ptrace(PTRACE_GETREGS, h->pid, 0, &h->program))
		return tracee_fail(h, "stopping it");
	if (h->program.cs != CODE_SELECTOR)
		return perfdata_message(h->why, PTAH_E_FOREIGN,
					"the program is a 32-bit program; the recorder native "
					"records 64-bit programs only");
	if (!tracee_read(h, &byte, h->program.rip, 1) && errno == EPERM)
		return perfdata_message(h->why, PTAH_E_SYSTEM, "its file" COMMAND_UNREADABLE);
	h->held = true;
	if (tracee_lend_room(h))
		return ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(all), &all)
			   ? tracee_fail(h, "stopping it")
			   : 0;
	h->held = false;
	h->site = h->program.rip & ~UINT64_C(7); /* a word that is in one page */
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, h->pid, h->site, 0);
	h->word = (uint64_t)word;
	if (errno || ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(all), &all) ||
	    ptrace(PTRACE_POKETEXT, h->pid, h->site,
		   (h->word & ~UINT64_C(0xffff)) | SYSCALL_OPCODE))
		return tracee_fail(h, "writing to its code");
	h->held = h->poked = true;
	return 0;
}

/* The process becomes what it was, but that it goes on with these registers. */
static bool detach(struct tracee *h, struct user_regs_struct *r)
{
	r->orig_rax = UINT64_MAX;
	return (!h->poked || !ptrace(PTRACE_POKETEXT, h->pid, h->site, h->word)) &&
	       !ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(h->mask), &h->mask) &&
	       !ptrace(PTRACE_SETREGS, h->pid, 0, r) && tracee_give_room_back(h) &&
	       !ptrace(PTRACE_DETACH, h->pid, 0, h->stopped ? SIGSTOP : 0);
}

/* It goes on in start(). */
static int let_go(struct tracee *h, const struct inject_memory *m)
{
	struct user_regs_struct r = h->program;
	struct native_handover o;
	uint64_t at = tracee_top(h);

	tracee_handover(h, m, &o);
	r.rip = h->base + NATIVE_PAGE;
	r.rdi = at;
	r.rsp = at - 8; /* as after a CALL */
	if (!tracee_write(h, at, &o, sizeof(o)) || !detach(h, &r))
		return tracee_fail(h, "letting it run");
	return 0;
}

/* After a failure: takes out of the process what was put into it. False: it cannot go on. */
static bool let_go_natively(struct tracee *h)
{
	bool undone;

	if (!h->held) /* nothing has been changed but the mask */
		return !ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(h->mask), &h->mask) &&
		       !ptrace(PTRACE_DETACH, h->pid, 0, h->stopped ? SIGSTOP : 0);
	undone = tracee_close(h);
	if (undone && h->shared)
		undone = tracee_call(h, SYS_munmap, h->shared, h->shared_bytes, 0, 0, 0, 0) >= 0;
	if (undone && h->base)
		undone = tracee_call(h, SYS_munmap, h->base, h->bytes, 0, 0, 0, 0) >= 0;
	return undone && detach(h, &h->program);
}

/* From the exec stop to a process that has the runtime's code and the memory. */
static int put_into(struct tracee *h, const struct inject_memory *memory)
{
	const uint64_t all = ALL_SIGNALS;
	int status;

	if (ptrace(PTRACE_GETSIGMASK, h->pid, sizeof(h->mask), &h->mask))
		return tracee_fail(h, "stopping it");
	status = tracee_map_at_once(h, memory);
	if (status == TRACEE_DONE || status < 0)
		return status;
	if (status == TRACEE_UNTOUCHED)
		status = take_hold(h);
	else if (ptrace(PTRACE_SETSIGMASK, h->pid, sizeof(all), &all))
		status = tracee_fail(h, "stopping it");
	if (status >= 0)
		status = tracee_map_blob(h, memory);
	if (status >= 0)
		status = tracee_map_memory(h, memory);
	if (status >= 0 && !tracee_clear_stack(h))
		status = tracee_fail(h, "letting it run");
	return status;
}

int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why)
{
	struct tracee h = {.pid = pid,
			   .process = pid,
			   .why = why,
			   .late = memory->late,
			   .shared_bytes = memory->bytes,
			   .descriptors = {-1, -1, -1}};
	int status = put_into(&h, memory);

	if (status >= 0)
		status = let_go(&h, memory);
	if (status < 0 && !h.ended && !(memory->or_natively && let_go_natively(&h)))
		inject_kill(pid);
	return status;
}

#else /* another processor: check.c refuses before */

int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why)
{
	(void)memory;
	inject_kill(pid);
	return perfdata_message(why, PTAH_E_SYSTEM,
				"the recorder native is for x86-64 processors only");
}

#endif

void inject_kill(pid_t pid)
{
	const int64_t late = monotonic_ns() + KILL_NS;
	int status;

	kill(pid, SIGKILL);
	while (haste_waitpid(pid, &status, __WALL, &late) == pid && WIFSTOPPED(status))
		;
}

/* Executions */

int inject_seize(pid_t pid, bool calls, struct ptah_message *why)
{
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD))
		return perfdata_system_message(why, errno, "a recorded process", "trace");
	if (calls) /* it goes on by PTRACE_SYSCALL from its next stop on */
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	return 0;
}

#ifdef __x86_64__

/* The thread stands before a PTRACE_TRACEME, which fails while somebody traces it. */
static bool is_traceme(pid_t pid)
{
	struct user_regs_struct r;

	return threads_is_entry(pid) && !ptrace(PTRACE_GETREGS, pid, 0, &r) &&
	       r.orig_rax == SYS_ptrace && r.rdi == PTRACE_TRACEME;
}

#else

static bool is_traceme(pid_t pid)
{
	(void)pid;
	return false;
}

#endif

/* What a stop means for one who waits for an execve: 1 if this is it. Otherwise it goes on. */
static int pass_stop(pid_t pid, int status, bool calls)
{
	const int go_on = calls ? PTRACE_SYSCALL : PTRACE_CONT;
	int signal = WSTOPSIG(status);

	if (status >> 8 == EXEC_STOP)
		return 1;
	if (calls && signal == SYSCALL_STOP && is_traceme(pid)) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return INJECT_TRACED;
	}
	if (status >> 16 == GROUP_STOP)
		ptrace(signal == SIGTRAP ? go_on : PTRACE_LISTEN, pid, 0, 0);
	else
		ptrace(go_on, pid, 0, signal == SYSCALL_STOP ? 0 : signal);
	return 0;
}

int inject_exec(pid_t pid, bool calls, int *ended, struct ptah_message *why)
{
	int status = 0, passed;
	pid_t got;

	while ((got = tracee_look(pid, &status)) == pid) {
		if (!WIFSTOPPED(status)) {
			*ended = status;
			return perfdata_message(why, PTAH_E_MISSING,
						"a process has ended before its execve");
		}
		passed = pass_stop(pid, status, calls);
		if (passed)
			return passed;
	}
	*ended = 0;
	return got < 0 ? perfdata_message(why, PTAH_E_MISSING, "a process has disappeared") : 0;
}

/* Held by inject_exec(): this stop has been reported, and nothing more would be. */
static bool is_at_exec(pid_t pid)
{
	siginfo_t info;

	return !ptrace(PTRACE_GETSIGINFO, pid, 0, &info) && info.si_code == EXEC_STOP;
}

bool inject_release(pid_t pid)
{
	const int64_t late = monotonic_ns() + RELEASE_NS;
	int status;
	pid_t got;

	if (is_at_exec(pid))
		return !ptrace(PTRACE_DETACH, pid, 0, 0);
	if (ptrace(PTRACE_INTERRUPT, pid, 0, 0))
		return true; /* it has ended, or is not traced by us */
	got = haste_waitpid(pid, &status, __WALL, &late);
	/* What stops it may be a signal, which then has to take effect. */
	if (got > 0 && WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, pid, 0,
		       status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status));
	return got != 0;
}

/* Commands */

/* In the child: never returns. */
static void run_command(const char *path, char *const *argv, int socket)
{
	char byte;
	ssize_t n;

	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1) {
		execv(path, argv);
		n = send(socket, &errno, sizeof(errno), MSG_NOSIGNAL);
	}
	_exit(127);
}

/* Waits for the child's execve. It has failed: the child has sent why. */
static int await_exec(pid_t pid, const char *name, int socket, const int64_t *late,
		      struct ptah_message *why)
{
	int status, error = 0;
	pid_t got;

	while ((got = haste_waitpid(pid, &status, __WALL, late)) == pid && WIFSTOPPED(status))
		if (pass_stop(pid, status, false))
			return 0;
	if (!got) {
		inject_kill(pid);
		return perfdata_message(why, PTAH_E_MISSING, "%s has not started yet", name);
	}
	if (recv(socket, &error, sizeof(error), MSG_DONTWAIT) != sizeof(error))
		return perfdata_message(why, PTAH_E_MISSING,
					"%s was killed before its first instruction", name);
	return perfdata_message(why, PTAH_E_MISSING, "%s cannot be started: %s", name,
				strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
}

static int hold_child(pid_t pid, const char *name, int socket, const int64_t *late,
		      struct ptah_message *why)
{
	const long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;

	if (ptrace(PTRACE_SEIZE, pid, 0, options)) {
		perfdata_system_message(why, errno, name, "trace");
		inject_kill(pid);
		return PTAH_E_SYSTEM;
	}
	(void)send(socket, "", 1, MSG_NOSIGNAL);
	return await_exec(pid, name, socket, late, why);
}

static int start_path(const char *path, char *const *argv, pid_t *pid, const int64_t *late,
		      struct ptah_message *why)
{
	int sockets[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return perfdata_system_message(why, errno, argv[0], "start");
	*pid = fork();
	if (*pid == 0) {
		close(sockets[0]); /* so that its read() ends when the recorder is killed */
		run_command(path, argv, sockets[1]);
	}
	close(sockets[1]);
	status = *pid < 0 ? perfdata_system_message(why, errno, argv[0], "start")
			  : hold_child(*pid, argv[0], sockets[0], late, why);
	close(sockets[0]);
	return status;
}

int inject_start(char *const *argv, pid_t *pid, const int64_t *late, struct ptah_message *why)
{
	char *path = command_find(argv[0]);
	int status;

	if (!path)
		return perfdata_message(why, PTAH_E_MISSING, "%s: command not found", argv[0]);
	status = start_path(path, argv, pid, late, why);
	free(path);
	return status;
}
