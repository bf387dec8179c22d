/* SPDX-License-Identifier: MIT */
/*
 * Calls that may change how the kernel treats a program, and change nothing: as browsers, daemons
 * and sandboxes make them to see what there is. asks namespace: a child in a user namespace.
 */
#include "report.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void keep_limit(const char *what, int resource)
{
	struct rlimit limit;

	report(what, getrlimit(resource, &limit));
	report(what, setrlimit(resource, &limit));
	report(what, prlimit(0, resource, &limit, NULL));
	report(what, syscall(SYS_setrlimit, resource, NULL));
	limit.rlim_cur = limit.rlim_max;
	report(what, setrlimit(resource, &limit));
}

static void ask_for_filters(void)
{
	const struct sock_fprog empty = {0};

	report("no filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
	report("an empty filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty));
	report("no such mode", prctl(PR_SET_SECCOMP, 7, NULL));
	report("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
	report("seccomp flags", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ~0U, NULL));
	report("seccomp operation", syscall(SYS_seccomp, 77, 0, NULL));
}

__attribute__((noinline)) static void after(int i)
{
	__asm__ volatile("" : : "r"(i));
}

static int start_child(void)
{
	const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	int status = -1;

	if (!child)
		_exit(3);
	report("child", child < 0 ? -1 : 0);
	if (child > 0 && waitpid((pid_t)child, &status, 0) == child)
		report_number("status", WEXITSTATUS(status));
	for (int i = 0; i < 1000; i++)
		after(i);
	return 0;
}

static sigjmp_buf behind;

static void on_undefined(int signal)
{
	siglongjmp(behind, signal);
}

/* Outside of a transaction it does nothing, or there is no such instruction. */
static void abort_transaction(void)
{
	int signal = 0;

	sigaction(SIGILL, &(struct sigaction){.sa_handler = on_undefined}, NULL);
	if (!(signal = sigsetjmp(behind, 1)))
		__asm__ volatile(".byte 0xc6, 0xf8, 0x11");
	report_number("XABORT", signal);
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (count > 1 && !strcmp(arguments[1], "namespace"))
		return start_child();
	ask_for_filters();
	abort_transaction();
	keep_limit("data", RLIMIT_DATA);
	keep_limit("address space", RLIMIT_AS);
	report("nothing unshared", unshare(0));
	report("files", unshare(CLONE_FILES));
	report("mounts", unshare(CLONE_NEWNS)); /* for root */
	report("time stamp counter", prctl(PR_SET_TSC, PR_TSC_ENABLE));
	report("floating point of others", prctl(PR_SET_FPEMU, 1));
	report("dumpable", prctl(PR_SET_DUMPABLE, 2));
	report("no dispatch", prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0));
	return 0;
}
