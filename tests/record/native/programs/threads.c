/* SPDX-License-Identifier: MIT */
/*
 * threads WHAT: what programs do with threads. Prints what is the same in each run, and ends with
 * status 5.
 */
#include "report.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define ITEMS	400
#define CHURN	300
#define MANY	150

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items;
static long taken;
static __thread long own;
static __thread volatile sig_atomic_t caught;
static atomic_bool stop, awake;
static sem_t ready;

static pthread_t begin(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, argument))
		exit(1);
	return thread;
}

static long end(pthread_t thread)
{
	void *result = NULL;

	pthread_join(thread, &result);
	return (long)result;
}

/* Mutexes, condition variables, thread-local storage, malloc() in several threads. */
static void *take_items(void *unused)
{
	(void)unused;
	for (;;) {
		int item;

		pthread_mutex_lock(&mutex);
		while (!items)
			pthread_cond_wait(&changed, &mutex);
		item = items > 0 ? items-- : 0;
		pthread_mutex_unlock(&mutex);
		if (!item)
			return (void *)own;
		free(malloc((size_t)item * 100));
		own++;
	}
}

static void work(void)
{
	pthread_t threads[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		threads[i] = begin(take_items, NULL);
	for (int i = 0; i < ITEMS; i++) {
		pthread_mutex_lock(&mutex);
		items++;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&mutex);
	}
	for (bool done = false; !done; sched_yield()) {
		pthread_mutex_lock(&mutex);
		done = !items;
		if (done)
			items = -1;
		pthread_mutex_unlock(&mutex);
	}
	pthread_cond_broadcast(&changed);
	for (int i = 0; i < WORKERS; i++)
		taken += end(threads[i]);
	report_number("taken", taken);
	report_number("of the first thread", own);
}

/* Signals to threads that run, that wait, and to the process. */
static void catch (int signal)
{
	(void)signal;
	caught++;
}

static void *spin(void *unused)
{
	(void)unused;
	sem_post(&ready);
	while (!caught)
		;
	return (void *)(long)caught;
}

static void *sleep_long(void *unused)
{
	const struct timespec time = {.tv_sec = 1000};

	(void)unused;
	sem_post(&ready);
	while (!caught)
		nanosleep(&time, NULL);
	awake = true;
	return (void *)(long)caught;
}

static void *wait_for_signal(void *unused)
{
	sigset_t set;
	int signal = 0;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sem_post(&ready);
	sigwait(&set, &signal);
	return (void *)(long)(signal == SIGUSR2);
}

static void await(int count)
{
	while (count)
		count -= !sem_wait(&ready);
}

static void send_signals(void)
{
	const struct sigaction action = {.sa_handler = catch};
	pthread_t threads[3];
	sigset_t set;
	pthread_t waits;
	bool finished;

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	threads[0] = begin(spin, NULL);
	threads[1] = begin(sleep_long, NULL);
	threads[2] = begin(spin, NULL);
	waits = begin(wait_for_signal, NULL);
	await(4);
	for (int i = 0; i < 3; i++) {
		/* The second one may not sleep yet, and sleeps on then: it is told until it ends.
		 */
		for (finished = false; !finished; usleep(1000)) {
			pthread_kill(threads[i], SIGUSR1);
			finished = i != 1 || awake;
		}
		report_number("caught", end(threads[i]) > 0);
	}
	kill(getpid(), SIGUSR2);
	report_number("waited for", end(waits));
	report_number("caught by the first thread", caught);
}

/* Ends. */
static void *print_and_exit(void *first)
{
	end(*(pthread_t *)first);
	report("the first thread has ended", 0);
	fflush(stdout);
	exit(5);
}

static void *count_for_ever(void *unused)
{
	(void)unused;
	sem_post(&ready);
	while (!stop)
		own++;
	return NULL;
}

static void *exit_group(void *unused)
{
	(void)unused;
	await(2);
	report("others run", 0);
	fflush(stdout);
	exit(5);
}

/* Nothing handles it. */
static void *fault(void *unused)
{
	(void)unused;
	await(2);
	report("others run", 0);
	fflush(stdout);
	*(volatile int *)8 = 0;
	return NULL;
}

static void *execute(void *unused)
{
	(void)unused;
	await(2);
	fflush(stdout);
	execl("/bin/sh", "sh", "-c", "echo executed; exit 5", (char *)NULL);
	return NULL;
}

static void *allocate(void *unused)
{
	(void)unused;
	while (!stop)
		free(malloc(100000));
	return NULL;
}

/* Children of a process with several threads have one. */
static void fork_children(void)
{
	pthread_t threads[2] = {begin(allocate, NULL), begin(allocate, NULL)};
	int status, sum = 0;

	fflush(stdout);
	for (int i = 0; i < 10; i++) {
		const pid_t child = fork();

		if (!child) {
			free(malloc(1000));
			end(begin(take_items, (items = -1, NULL)));
			_exit(i);
		}
		if (waitpid(child, &status, 0) == child && WIFEXITED(status))
			sum += WEXITSTATUS(status);
	}
	stop = true;
	end(threads[0]);
	end(threads[1]);
	report_number("statuses", sum);
}

/* More threads than there is room for at a time, one after the other and at once. */
static void *count_one(void *count)
{
	atomic_fetch_add((atomic_long *)count, 1);
	return NULL;
}

static void *wait_and_count(void *count)
{
	sem_wait(&ready);
	return count_one(count);
}

static void churn(void)
{
	atomic_long count = 0;

	for (int i = 0; i < CHURN; i++)
		end(begin(count_one, &count));
	report_number("ended", count);
}

static void many(void)
{
	static pthread_t threads[MANY];
	atomic_long count = 0;

	for (int i = 0; i < MANY; i++)
		threads[i] = begin(wait_and_count, &count);
	for (int i = 0; i < MANY; i++)
		sem_post(&ready);
	for (int i = 0; i < MANY; i++)
		end(threads[i]);
	report_number("ended", count);
}

/* A child has the name of the thread that has forked. */
static void *fork_named(void *argument)
{
	pid_t child;
	int status = 0;

	pthread_setname_np(pthread_self(), "worker");
	child = fork();
	if (!child)
		_exit(6);
	waitpid(child, &status, 0);
	report_number("named child", WEXITSTATUS(status));
	return argument;
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";

	sem_init(&ready, 0, 0);
	if (!strcmp(what, "work")) {
		work();
	} else if (!strcmp(what, "signals")) {
		send_signals();
	} else if (!strcmp(what, "fork")) {
		fork_children();
	} else if (!strcmp(what, "named")) {
		end(begin(fork_named, NULL));
	} else if (!strcmp(what, "churn")) {
		churn();
	} else if (!strcmp(what, "many")) {
		many();
	} else if (!strcmp(what, "first-ends")) {
		static pthread_t first;

		first = pthread_self();
		begin(print_and_exit, &first);
		pthread_exit(NULL);
	} else if (!strcmp(what, "exit") || !strcmp(what, "exec") || !strcmp(what, "fault")) {
		begin(count_for_ever, NULL);
		begin(*what == 'f' ? fault : what[2] == 'e' ? execute : exit_group, NULL);
		count_for_ever(NULL);
	}
	return 5;
}
