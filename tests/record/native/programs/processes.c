/* SPDX-License-Identifier: MIT */
/* Calls that make processes, and how these end. */
#include "report.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void report_end(const char *what, pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		report(what, -1);
	else if (WIFEXITED(status))
		printf("%s: exits with %d\n", what, WEXITSTATUS(status));
	else
		printf("%s: ends by signal %d\n", what, WTERMSIG(status));
}

static void fork_children(void)
{
	static volatile int number = 1;
	int ends[2], sum = 0, part;
	pid_t pid;

	for (int i = 0; i < 3; i++) {
		pid = fork();
		if (!pid) {
			number += i;
			_exit(10 * number + (getppid() != 1));
		}
		report_end("fork", pid);
	}
	report_number("the parent's copy", number);
	if (pipe(ends))
		exit(1);
	for (int i = 0; i < 4; i++)
		if (!fork()) {
			if (!fork()) {
				part = i + 1;
				_exit(write(ends[1], &part, sizeof(part)) != sizeof(part));
			}
			_exit(0);
		}
	for (int i = 0; i < 4; i++) {
		if (read(ends[0], &part, sizeof(part)) != sizeof(part))
			exit(1);
		sum += part;
	}
	report_number("grandchildren say", sum);
	while (wait(NULL) > 0)
		;
	report("wait without children", wait(NULL));
	pid = fork();
	if (!pid) {
		raise(SIGKILL);
		_exit(1);
	}
	report_end("a killed child", pid);
	pid = fork();
	if (!pid)
		abort();
	report_end("a child that aborts", pid);
}

static void share_memory(void)
{
	static volatile int number = 1;
	pid_t pid = vfork();

	if (!pid) {
		number = 2;
		_exit(20);
	}
	report_end("vfork", pid);
	report_number("the shared variable", number);
	pid = vfork();
	if (!pid) {
		execl("/nothing/of/this/name", "x", (char *)NULL);
		_exit(errno == ENOENT ? 21 : 22);
	}
	report_end("vfork and an execve that fails", pid);
}

static void spawn(const char *self)
{
	char *const arguments[] = {(char *)self, (char *)"5", NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;
	int error;

	/* The child writes too: it has ended before the parent goes on to write. */
	error = posix_spawn(&pid, self, NULL, NULL, arguments, environ);
	report_end("posix_spawn", pid);
	report_number("posix_spawn", error);
	report_number("posix_spawn of nothing",
		      posix_spawn(&pid, "/nothing/of/this/name", NULL, NULL, arguments, environ));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	report_number("posix_spawn with actions",
		      posix_spawn(&pid, self, &actions, NULL, arguments, environ));
	report_end("posix_spawn with actions", pid);
	posix_spawn_file_actions_destroy(&actions);
	fflush(stdout);
	report_number("system", WEXITSTATUS(system("exit 6")));
	pid = fork();
	if (!pid) {
		execve(self, arguments, environ);
		_exit(1);
	}
	report_end("fork and execve", pid);
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (count == 2) {
		printf("a new program\n");
		return atoi(arguments[1]);
	}
	fork_children();
	share_memory();
	spawn("/proc/self/exe");
	execl("/nothing/of/this/name", "x", (char *)NULL);
	report("execve", -1);
	execl("/proc/self/exe", arguments[0], "9", (char *)NULL);
	return 1;
}
