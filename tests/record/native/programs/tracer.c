/* SPDX-License-Identifier: MIT */
/*
 * tracer fork|vfork: a child asks to be traced, as a debugger's does, and becomes another program
 * (true), which its parent holds at its first instruction and lets go. tracer exec: it becomes the
 * program without asking.
 */
#include "report.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int asked = -1; /* errno; seen by the parent of vfork() alone */

static void run_child(bool asks)
{
	static char *const arguments[] = {"true", NULL};

	if (asks)
		asked = ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0;
	execvp("true", arguments);
	_exit(9);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "vfork";
	const bool asks = strcmp(what, "exec") != 0;
	int status = -1;
	pid_t child;

	setvbuf(stdout, NULL, _IONBF, 0);
	child = strcmp(what, "fork") ? vfork() : fork();
	if (!child)
		run_child(asks);
	if (!strcmp(what, "vfork"))
		report_number("asked", asked);
	if (asks) {
		report("first stop", waitpid(child, &status, 0) == child ? 0 : -1);
		report_number("stopped by SIGTRAP",
			      WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
		report("let go", (int)ptrace(PTRACE_CONT, child, NULL, NULL));
	}
	report("end", waitpid(child, &status, 0) == child ? 0 : -1);
	report_number("exited", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}
