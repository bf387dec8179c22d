/* SPDX-License-Identifier: MIT */
/*
 * Makes system calls that return, fail, are interrupted, are restarted, and do not return; the same
 * in each run, thread by thread. PIDFILE FIFO [SPAWNED]: the number of the process is written to PIDFILE, and
 * a byte is read from FIFO. The program SPAWNED, if not /bin/true, is started once. Somebody interrupts that with SIGUSR1, whose handler makes the folder
 * `interrupted`, and then writes the byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_FROM 100 /* by this who interrupts the call knows it */

static void check(bool right, const char *what)
{
	if (right)
		return;
	perror(what);
	_exit(1);
}

static void handler(int number)
{
	(void)number;
	getppid();
}

/* Says that it runs, so that the byte is written after the interruption. */
static void interrupted(int number)
{
	(void)number;
	mkdir("interrupted", 0700);
}

static void files(void)
{
	char byte;
	int fd = open("/etc/passwd", O_RDONLY);

	check(fd >= 0 && read(fd, &byte, 1) == 1 && !close(fd), "/etc/passwd");
	check(open("there is no such file", O_RDONLY) < 0, "open");
	check(syscall(SYS_open, (void *)1, O_RDONLY) < 0 && errno == EFAULT, "open");
	check(syscall(SYS_read, -1, &byte, 1) < 0 && errno == EBADF, "read");
}

static void sockets(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
	struct sockaddr_un peer;
	socklen_t size = sizeof(peer);
	int pair[2], server = socket(AF_UNIX, SOCK_STREAM, 0);
	int client = socket(AF_UNIX, SOCK_STREAM, 0), taken;

	unlink(name.sun_path);
	check(!bind(server, (void *)&name, sizeof(name)) && !listen(server, 1), "bind");
	check(!connect(client, (void *)&name, sizeof(name)), "connect");
	taken = accept(server, (void *)&peer, &size);
	check(taken >= 0 && write(client, "x", 1) == 1, "accept");
	check(!pipe2(pair, O_CLOEXEC) && !close(pair[0]) && !close(pair[1]), "pipe2");
	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !close(pair[0]) && !close(pair[1]),
	      "socketpair");
	close(taken);
	close(client);
	close(server);
}

static void locks(void)
{
	static uint32_t words[3] = {1, 2, 3};
	const struct timespec at_once = {0};

	syscall(SYS_futex, words, FUTEX_WAIT, 7, NULL, NULL, 0);
	syscall(SYS_futex, words, FUTEX_WAIT_PRIVATE, 1, &at_once, NULL, 0);
	syscall(SYS_futex, words, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Signals that are pending come in the call, for certain. */
static void interruptions(const char *fifo)
{
	struct sigaction act = {.sa_handler = handler}, restart = {.sa_handler = interrupted};
	sigset_t some, none;
	char byte;
	int fd;

	sigemptyset(&none);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	restart.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &act, NULL);
	sigaction(SIGUSR1, &restart, NULL);
	sigprocmask(SIG_BLOCK, &some, NULL);
	raise(SIGUSR2);
	check(sigsuspend(&none) < 0 && errno == EINTR, "sigsuspend");
	raise(SIGUSR2);
	check(ppoll(NULL, 0, NULL, &none) < 0 && errno == EINTR, "ppoll");
	fd = open(fifo, O_RDONLY);
	check(fd >= 0 && dup2(fd, READ_FROM) == READ_FROM && read(READ_FROM, &byte, 1) == 1,
	      "read");
	close(fd);
	close(READ_FROM);
}

static int from_thread[2];

static void *thread(void *unused)
{
	syscall(SYS_gettid);
	check(write(from_thread[1], "t", 1) == 1, "write");
	for (;;)
		pause(); /* until the process ends */
	return unused;
}

static void processes(const char *spawned)
{
	static char *const command[] = {"true", NULL};
	char byte;
	int status, to_child[2];
	pid_t pid;

	check(!pipe(to_child), "pipe");
	pid = fork();
	if (!pid) {
		getppid();
		_exit(3);
	}
	check(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3, "fork");
	pid = fork();
	if (!pid) {
		write(to_child[1], "c", 1);
		for (;;)
			pause(); /* until it is killed */
	}
	check(read(to_child[0], &byte, 1) == 1 && !kill(pid, SIGKILL), "kill");
	check(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL, "waitpid");
	check(!posix_spawn(&pid, spawned, NULL, NULL, command, environ), "posix_spawn");
	check(waitpid(pid, &status, 0) == pid && !status, "true");
}

int main(int argc, char **argv)
{
	pthread_t id;
	char byte, number[16], text[16];
	FILE *f;

	if (argc == 1)
		return 0; /* instead of /bin/true */
	if (!strcmp(argv[1], "again")) {
		check(!pipe(from_thread), "pipe");
		check(!pthread_create(&id, NULL, thread, NULL), "pthread_create");
		check(read(from_thread[0], &byte, 1) == 1, "read");
		return 0; /* the thread is in its call */
	}
	f = fopen(argv[1], "w");
	/* As many bytes whatever the number is: a shell leaves newlines at the end out. */
	memset(text, '\n', sizeof(text));
	memcpy(text, number, (size_t)snprintf(number, sizeof(number), "%d", getpid()));
	fwrite(text, 1, sizeof(text), f);
	fclose(f);
	files();
	sockets();
	locks();
	interruptions(argv[2]);
	processes(argc > 3 ? argv[3] : "/bin/true");
	execl("there is no such program", "", NULL);
	execl(argv[0], argv[0], "again", NULL);
	return 1;
}
