/* SPDX-License-Identifier: MIT */
/* Does what its arguments say, one after the other. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *const true_argv[] = {(char *)"true", NULL};

static void wait_for(pid_t child, int expected)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status != expected << 8)
		exit(99);
}

static void run(const char *what)
{
	pid_t child;

	if (!strcmp(what, "fork")) {
		child = fork();
		if (child == 0)
			_exit(7);
		wait_for(child, 7);
	} else if (!strcmp(what, "vfork")) {
		child = vfork();
		if (child == 0) {
			execv("/bin/true", true_argv);
			_exit(98);
		}
		wait_for(child, 0);
	} else if (!strcmp(what, "spawn")) {
		if (posix_spawn(&child, "/bin/true", NULL, NULL, true_argv, environ))
			exit(99);
		wait_for(child, 0);
	} else if (!strcmp(what, "exec-nothing")) {
		execv("/nonexistent", true_argv);
	} else if (!strcmp(what, "exec")) {
		execv("/bin/true", true_argv);
	} else if (!strcmp(what, "close-all")) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	} else if (!strcmp(what, "term")) {
		raise(SIGTERM);
	} else if (!strcmp(what, "abort")) {
		abort();
	} else if (!strcmp(what, "exit")) {
		_exit(5);
	} else {
		exit(97);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	return 0;
}
