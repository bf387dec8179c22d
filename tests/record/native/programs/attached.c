/* SPDX-License-Identifier: MIT */
/*
 * A program for a recorder to attach to and to detach from while it runs. It checks itself: each
 * thread does one thing again and again, whose result is known, until standard input ends; then it
 * prints what went wrong, and ends with the status 7. attached [THREAD...]: only these; "alone":
 * no threads, it reads and computes.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

static atomic_bool ends;
static atomic_uint failures;

static void fail(const char *what, long value)
{
	if (atomic_fetch_add(&failures, 1) < 10)
		printf("%s: %ld\n", what, value);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void compute(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < 100000; i++) {
		sum = sum * 31 + i;
		if (sum & 64)
			sum ^= i >> 3;
	}
	if (sum != UINT64_C(0xc4ba77b1146f9c8e))
		fail("the sum is wrong", (long)sum);
}

/* Vector registers, all the time. */
static void floats(void)
{
	double v[64], sum = 0;

	for (int i = 0; i < 64; i++)
		v[i] = i;
	for (int n = 0; n < 2000; n++)
		for (int i = 0; i < 64; i++)
			sum += v[i] * 0.5;
	if (sum != 2000 * 1008.0)
		fail("the floating-point sum is wrong", (long)sum);
}

static void sleeps(void)
{
	const struct timespec wait = {.tv_nsec = 7 * MS};
	struct timespec rest = {0, 0};
	const int64_t begin = now();

	if (nanosleep(&wait, &rest))
		fail("nanosleep", errno);
	if (now() - begin < 7 * MS)
		fail("nanosleep was too short", now() - begin);
}

static void polls(void)
{
	const int64_t begin = now();
	int pipes[2];

	if (pipe(pipes))
		return;
	if (poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, 5))
		fail("poll", errno);
	if (now() - begin < 5 * MS)
		fail("poll was too short", now() - begin);
	if (ppoll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1,
		  &(struct timespec){.tv_nsec = 5 * MS}, NULL))
		fail("ppoll", errno);
	close(pipes[0]);
	close(pipes[1]);
}

static void epolls(void)
{
	const int set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	if (epoll_wait(set, &event, 1, 5))
		fail("epoll_wait", errno);
	close(set);
}

static void waits(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	struct timespec end;
	int status;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 5 * MS;
	if (end.tv_nsec >= 1000 * MS) {
		end.tv_nsec -= 1000 * MS;
		end.tv_sec++;
	}
	pthread_mutex_lock(&mutex);
	status = pthread_cond_timedwait(&condition, &mutex, &end);
	pthread_mutex_unlock(&mutex);
	if (status != ETIMEDOUT)
		fail("pthread_cond_timedwait", status);
}

static int pipes[2][2];

/* Two threads that send each other numbers. */
static void answers(void)
{
	uint64_t n;

	while (read(pipes[0][0], &n, sizeof(n)) == sizeof(n)) {
		n = n * 3 + 1;
		if (write(pipes[1][1], &n, sizeof(n)) != sizeof(n))
			fail("write", errno);
	}
	if (!atomic_load(&ends))
		fail("read", errno);
}

static void asks(void)
{
	static uint64_t n;
	uint64_t answer = 0;

	n++;
	if (write(pipes[0][1], &n, sizeof(n)) != sizeof(n) ||
	    read(pipes[1][0], &answer, sizeof(answer)) != sizeof(answer))
		fail("a pipe", errno);
	if (answer != n * 3 + 1)
		fail("what came through the pipe", (long)answer);
}

static atomic_uint handled;
static _Thread_local char *stack;

static void handle(int number)
{
	char here;

	if (&here < stack || &here >= stack + SIGSTKSZ)
		fail("the handler's stack", number);
	atomic_fetch_add(&handled, 1);
}

/* A handler on an alternate stack, and masks. */
static void signals(void)
{
	sigset_t set, old;
	stack_t now_set;

	if (!stack) {
		stack = malloc(SIGSTKSZ);
		sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = SIGSTKSZ}, NULL);
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigaddset(&set, SIGUSR2);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		sigaction(SIGUSR1,
			  &(struct sigaction){.sa_handler = handle, .sa_flags = SA_ONSTACK}, NULL);
	}
	for (int i = 0; i < 20; i++) {
		const unsigned before = atomic_load(&handled);

		pthread_kill(pthread_self(), SIGUSR1);
		if (atomic_load(&handled) != before + 1)
			fail("a signal's handler", (long)(atomic_load(&handled) - before));
	}
	sigaltstack(NULL, &now_set);
	if (now_set.ss_sp != stack || now_set.ss_flags)
		fail("the alternate stack", now_set.ss_flags);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	pthread_kill(pthread_self(), SIGUSR2);
	sigpending(&old);
	if (!sigismember(&old, SIGUSR2))
		fail("what is pending", 0);
	if (sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = 50 * MS}) != SIGUSR2)
		fail("sigtimedwait", errno);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static atomic_uint alarms;

static void on_alarm(int number)
{
	(void)number;
	atomic_fetch_add(&alarms, 1);
}

/* A timer's signal that ends a system call: it has to come, and the call has to end. */
static void timers(void)
{
	sigset_t none;

	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
	sigfillset(&none);
	sigdelset(&none, SIGALRM);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 3000}, NULL);
	if (sigsuspend(&none) != -1 || errno != EINTR)
		fail("sigsuspend", errno);
	sigemptyset(&none);
	sigaddset(&none, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &none, NULL);
	/* Again and again, because the first one may come before the call. */
	setitimer(ITIMER_REAL,
		  &(struct itimerval){.it_value.tv_usec = 3000, .it_interval.tv_usec = 3000}, NULL);
	if (!poll(NULL, 0, 5000) || errno != EINTR)
		fail("a poll that a timer ends", errno);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 0}, NULL);
	pthread_sigmask(SIG_BLOCK, &none, NULL);
}

static void forks(void)
{
	const pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(42);
	if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 42)
		fail("a child", status);
}

static void *nothing(void *argument)
{
	return argument;
}

static void creates(void)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, nothing, &failures) || pthread_join(thread, &result))
		fail("a thread", errno);
	if (result != &failures)
		fail("a thread's result", 0);
}

/* Code that is written and then executed: MOV EAX, n; RET. */
static void codes(void)
{
	static uint8_t *code;
	static int n;
	int (*function)(void);

	if (!code)
		code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	n++;
	code[0] = 0xb8;
	memcpy(code + 1, &n, sizeof(n));
	code[5] = 0xc3;
	memcpy(&function, &code, sizeof(code));
	for (int i = 0; i < 100; i++)
		if (function() != n)
			fail("code that changes", n);
}

static void cpus(void)
{
	if (sched_getcpu() < 0)
		fail("sched_getcpu", errno);
	compute();
}

static const struct job {
	const char *name;
	void (*run)(void);
} jobs[] = {
    {"compute", compute}, {"floats", floats}, {"sleeps", sleeps},   {"polls", polls},
    {"epolls", epolls},	  {"waits", waits},   {"answers", answers}, {"asks", asks},
    {"signals", signals}, {"timers", timers}, {"forks", forks},	    {"creates", creates},
    {"codes", codes},	  {"cpus", cpus},
};

#define JOBS (sizeof(jobs) / sizeof(jobs[0]))

static void *work(void *argument)
{
	const struct job *job = argument;

	while (!atomic_load(&ends))
		job->run();
	if (job->run == asks)
		close(pipes[0][1]);
	return NULL;
}

static bool wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	pthread_t threads[JOBS];
	bool started[JOBS] = {false};
	sigset_t all;
	ssize_t got;
	char byte;

	if (pipe(pipes[0]) || pipe(pipes[1]))
		return 1;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (size_t i = 0; i < JOBS; i++)
		if (wanted(argc, argv, jobs[i].name))
			started[i] =
			    !pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)&jobs[i]);
	puts("begun");
	fflush(stdout);
	while ((got = read(0, &byte, 1)) == 1)
		compute();
	if (got < 0)
		fail("read", errno);
	atomic_store(&ends, true);
	for (size_t i = 0; i < JOBS; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
	printf("%u failures\n", atomic_load(&failures));
	return 7;
}
