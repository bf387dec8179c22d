/* SPDX-License-Identifier: MIT */
/*
 * Stops the command that is recorded at the end of its execve(): then its program and its thread
 * are known, and nothing of it has run.
 */
#include "record/module/module.h"

#include "record/haste.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static bool is_exec_stop(int status)
{
	return WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8);
}

/* Waits for the stop. Other stops are those of signals that came before it: they are delivered. */
static int await_exec(pid_t pid, int *status, const int64_t *late)
{
	for (;;) {
		const pid_t result = haste_waitpid(pid, status, __WALL, late);

		if (result <= 0 || !WIFSTOPPED(*status))
			return 0;
		if (is_exec_stop(*status))
			return 1;
		/* A stop that is no signal's has an event, and nothing is to be delivered. */
		ptrace(PTRACE_CONT, pid, NULL, *status >> 16 ? 0 : WSTOPSIG(*status));
	}
}

int module_run_to_exec(struct hardware *h)
{
	const pid_t pid = h->command.pid;
	int status, stopped;

	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXEC))
		return recorder_fail(h->r, PTAH_RECORD_PERMISSION, PTAH_E_SYSTEM,
				     "the command cannot be stopped at its beginning: the system "
				     "forbids ptrace (kernel.yama.ptrace_scope, or seccomp)");
	hardware_send_command(h);
	/* First this: a signal stops it before its execve(), too, and then it answers nothing. */
	stopped = await_exec(pid, &h->r->status.wait_status, &h->r->late);
	status = hardware_confirm_command(h);
	if (status >= 0 && !stopped)
		h->command.pid = h->r->status.pid = 0;
	return status < 0 ? status : stopped;
}

void module_let_go(int32_t pid)
{
	ptrace(PTRACE_DETACH, pid, NULL, 0);
}
