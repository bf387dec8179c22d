/* SPDX-License-Identifier: MIT */
/*
 * A chain of threads: main writes to a pipe, whose reader writes to a socket, whose reader (epoll)
 * writes to an eventfd, whose reader writes to a pipe that main reads. In the end a child is waited
 * for.
 */
#include "wait_log.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROUNDS 50

static int there[2], sockets[2], event, back[2];

static void check(int is_right)
{
	if (!is_right)
		abort();
}

__attribute__((noinline)) void stage1(void)
{
	char c;

	check(read(there[0], &c, 1) == 1);
	spin(3000);
	check(write(sockets[0], &c, 1) == 1);
}

__attribute__((noinline)) void stage2(int epoll)
{
	struct epoll_event found;
	uint64_t one = 1;
	char c;

	check(epoll_wait(epoll, &found, 1, -1) == 1);
	check(read(sockets[1], &c, 1) == 1);
	spin(3000);
	check(write(event, &one, sizeof(one)) == sizeof(one));
}

__attribute__((noinline)) void stage3(void)
{
	uint64_t number;
	char c = 0;

	check(read(event, &number, sizeof(number)) == sizeof(number));
	spin(3000);
	check(write(back[1], &c, 1) == 1);
}

static void *run1(void *argument)
{
	begin_log();
	log_line("stage1", 0);
	for (int i = 0; i < ROUNDS; i++)
		stage1();
	return argument;
}

static void *run2(void *argument)
{
	const int epoll = epoll_create1(0);
	struct epoll_event wanted = {.events = EPOLLIN};

	begin_log();
	log_line("stage2", 0);
	check(!epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[1], &wanted));
	for (int i = 0; i < ROUNDS; i++)
		stage2(epoll);
	return argument;
}

static void *run3(void *argument)
{
	begin_log();
	log_line("stage3", 0);
	for (int i = 0; i < ROUNDS; i++)
		stage3();
	return argument;
}

/* In the child: until its parent waits in wait4(). */
static void await_parent(void)
{
	const struct timespec pause = {0, 5000000};
	char path[64], text[8] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)getppid());
	do {
		FILE *file = fopen(path, "r");

		nanosleep(&pause, NULL);
		if (!file)
			return;
		check(fgets(text, sizeof(text), file) != NULL);
		fclose(file);
	} while (atoi(text) != SYS_wait4);
}

int main(int argc, char **argv)
{
	void *(*const stages[])(void *) = {run1, run2, run3};
	pthread_t threads[3];
	pid_t child;
	int status;

	begin_log();
	log_line("main", 0);
	check(!pipe(there) && !pipe(back) && !socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	event = eventfd(0, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, stages[i], NULL);
	for (int i = 0; i < ROUNDS; i++) {
		char c = 1;

		check(write(there[1], &c, 1) == 1);
		check(read(back[0], &c, 1) == 1);
	}
	child = fork();
	if (!child) {
		await_parent();
		_exit(3);
	}
	log_line("child", child);
	check(waitpid(child, &status, 0) == child);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (argc > 1)
		write_logs(argv[1]);
	return 0;
}
