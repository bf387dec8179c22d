/* SPDX-License-Identifier: MIT */
/*
 * fork, vfork and execve in many combinations. What the program prints must not depend on whether
 * it is recorded.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *self;

static void wait_for(pid_t child)
{
	int status = 0;

	if (child < 0 || waitpid(child, &status, 0) != child)
		exit(99);
	printf("child: %s %d\n", WIFEXITED(status) ? "status" : "signal",
	       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* What a program can see of how it was started. */
static void show(int argc, char **argv)
{
	sigset_t mask;

	for (int i = 0; i < argc; i++)
		printf("[%s]", argv[i]);
	printf("\n");
	for (char **e = environ; *e; e++)
		printf("%s\n", *e);
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("fd %d: %o\n", fd, fcntl(fd, F_GETFD));
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int i = 1; i < 32; i++) {
		struct sigaction action;

		sigaction(i, NULL, &action);
		if (sigismember(&mask, i) == 1 || action.sa_handler == SIG_IGN)
			printf("signal %d: %d %d\n", i, sigismember(&mask, i),
			       action.sa_handler == SIG_IGN);
	}
	printf("umask %o, priority %d, same group %d\n", umask(0), nice(0),
	       getpgrp() == getpgid(getppid()));
}

static void become(const char *path, char *const *argv)
{
	fflush(stdout);
	execve(path, argv, environ);
	printf("%s: %d\n", path, errno);
}

static void *exec_show(void *unused)
{
	char *argv[] = {(char *)"from a thread", (char *)"show", NULL};

	(void)unused;
	become(self, argv);
	return NULL;
}

static void *fork_here(void *unused)
{
	pid_t child;

	(void)unused;
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(21);
	wait_for(child);
	return NULL;
}

static void *spin(void *unused)
{
	(void)unused;
	for (volatile unsigned long i = 1; i; i++) /* a branch: the trace tells how often */
		;
	return NULL;
}

static void in_thread(void *(*work)(void *))
{
	pthread_t other, thread;

	if (pthread_create(&other, NULL, spin, NULL) || pthread_create(&thread, NULL, work, NULL))
		exit(98);
	pthread_join(thread, NULL);
}

static void failures(void)
{
	static char big[140000];
	char *argv[] = {(char *)"x", NULL};
	char *too_big[] = {(char *)"x", big, NULL};
	int fd = open("text-busy", O_CREAT | O_WRONLY, 0755);

	memset(big, 'x', sizeof(big) - 1);
	become("/nonexistent", argv);
	become("", argv);
	become("/", argv);
	become("not-executable", argv);
	become("no-format", argv);
	become("no-interpreter", argv);
	become("no-loader", argv);
	become("text-busy", argv);
	become("loop", argv);
	become("not-executable/x", argv);
	become("/bin/true", too_big);
	printf("bad pointer: %ld\n", syscall(SYS_execve, 8, argv, environ) < 0 ? -errno : 0L);
	printf("bad list: %ld\n", syscall(SYS_execve, "/bin/true", 8, environ) < 0 ? -errno : 0L);
	close(fd);
}

static int deep(int depth)
{
	pid_t child;

	if (!depth)
		return 0;
	child = fork();
	if (child == 0)
		_exit(1 + deep(depth - 1));
	for (int status;;) {
		if (waitpid(child, &status, 0) == child)
			return WEXITSTATUS(status);
	}
}

static void many(int n)
{
	for (int i = 0; i < n; i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(i & 127);
		if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != (i & 127))
			exit(97);
	}
	printf("%d children\n", n);
}

static void run(const char *what)
{
	char *show_argv[] = {(char *)"a name", (char *)"show", (char *)"", (char *)"a,b", NULL};
	char *nothing[] = {NULL};
	pid_t child, us = getpid();

	fflush(stdout);
	if (!strcmp(what, "parent")) {
		child = fork();
		if (child == 0)
			_exit(getppid() == us && getpid() != us ? 7 : 8);
		wait_for(child);
	} else if (!strcmp(what, "vfork")) {
		child = vfork();
		if (child == 0) {
			execl("/bin/echo", "echo", "vfork", NULL);
			_exit(98);
		}
		wait_for(child);
	} else if (!strcmp(what, "clone")) {
		child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (child == 0)
			_exit(31);
		wait_for(child);
	} else if (!strcmp(what, "spawn")) {
		char *argv[] = {(char *)"echo", (char *)"spawn", NULL};

		if (posix_spawn(&child, "/bin/echo", NULL, NULL, argv, environ))
			exit(99);
		wait_for(child);
	} else if (!strcmp(what, "killed")) {
		child = fork();
		if (child == 0)
			spin(NULL);
		usleep(100000);
		kill(child, SIGKILL);
		wait_for(child);
	} else if (!strcmp(what, "fork-in-thread")) {
		in_thread(fork_here);
	} else if (!strcmp(what, "exec-in-thread")) {
		in_thread(exec_show);
	} else if (!strcmp(what, "exec")) {
		become(self, show_argv);
	} else if (!strcmp(what, "exec-self")) {
		become("/proc/self/exe", show_argv);
	} else if (!strcmp(what, "exec-open")) {
		int fd = open(self, O_RDONLY | O_CLOEXEC);

		fexecve(fd, show_argv, environ);
		exit(96);
	} else if (!strcmp(what, "exec-nothing")) {
		become(self, nothing);
	} else if (!strcmp(what, "failures")) {
		failures();
	} else if (!strcmp(what, "signals")) {
		sigset_t mask;

		sigemptyset(&mask);
		sigaddset(&mask, SIGUSR1);
		sigprocmask(SIG_BLOCK, &mask, NULL);
		signal(SIGUSR2, SIG_IGN);
		umask(027);
	} else if (!strcmp(what, "descriptors")) {
		if (dup2(1, 40) < 0 || dup2(1, 41) < 0 || fcntl(41, F_SETFD, FD_CLOEXEC))
			exit(95);
	} else if (!strcmp(what, "close-all")) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	} else if (!strcmp(what, "drop")) {
		if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
		    setresuid(65534, 65534, 65534))
			exit(92);
		printf("user %d %d\n", (int)getuid(), (int)geteuid());
	} else if (!strcmp(what, "deep")) {
		printf("depth %d\n", deep(20));
	} else if (!strcmp(what, "many")) {
		many(1000);
	} else if (!strcmp(what, "left-behind")) {
		child = fork();
		if (child == 0)
			spin(NULL);
		printf("%d\n", child);
		fflush(stdout);
		usleep(100000);
	} else {
		exit(93);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "show")) {
		show(argc, argv);
		return 0;
	}
	if (!argc || !*argv[0]) {
		printf("no name: %d\n", argc);
		return 0;
	}
	self = argv[0];
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	return 0;
}
