/* SPDX-License-Identifier: MIT */
/*
 * How Ctrl-C, SIGTERM and SIGHUP end a command, wherever it waits.
 *
 * A command looks at interrupted() between two steps, and a step may wait for ever: for what comes
 * through a pipe, for room in one, for somebody to open a fifo, for the end of the pager. A signal
 * that arrives after such a look and before the system call begins to wait would be lost, because
 * only a call that waits already fails with EINTR. So the first signal starts a timer, whose signal
 * comes again and again: whatever waits is woken within WAKE_US, whenever it began to wait, and
 * whichever call it is. Waiting in ppoll() with signals unblocked there alone has no such gap
 * either; but open(), waitpid() and write() of more than a pipe has room for do not wait in
 * ppoll().
 */
#include "interrupt.h"

#include "command.h"
#include "support/monotonic.h"

#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds between two of the timer's signals. */
#define WAKE_US 20000

/* How long after the first signal others are part of it: timeout(1), for one, sends two. */
#define ONE_SIGNAL 500000000 /* nanoseconds */

/* How long after the first signal the consumer of the output may still take what is there. */
#define LAST_CHANCE 1000000000 /* nanoseconds */

/* The signal that ends the reading; and the one after which nobody is waited for, and its time. */
static volatile sig_atomic_t was_interrupted, ending_signal;
static int64_t ending_since;

/*
 * A session is being opened. That may take minutes without a look at interrupted(), and nothing has
 * been written yet: the process ends.
 */
static volatile sig_atomic_t is_opening;

static int64_t since_ending(void)
{
	return monotonic_ns() - ending_since;
}

void begin_ending(int number)
{
	static const struct itimerval again = {{.tv_usec = WAKE_US}, {.tv_usec = WAKE_US}};

	if (ending_signal)
		return;
	ending_since = monotonic_ns();
	ending_signal = number;
	/* A mere system call: a handler may do it, although it is not on POSIX' list. */
	setitimer(ITIMER_REAL, &again, NULL);
}

static void on_interrupt(int number)
{
	if (!was_interrupted) {
		begin_ending(
		    number); /* first: another signal may come here, and look at the time */
		was_interrupted = number;
	} else if (since_ending() > ONE_SIGNAL) {
		signal(number, SIG_DFL);
		raise(number);
	}
}

/* The system call that waits has failed with EINTR, which is what this signal is for. */
static void on_timer(int number)
{
	(void)number;
	if (is_opening && was_interrupted && since_ending() > ONE_SIGNAL)
		_exit(interrupted_status());
}

void watch_timer(void)
{
	struct sigaction old;

	/* A recorded command inherits what is ignored, and no handlers. */
	if (!sigaction(SIGALRM, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_timer}, NULL);
}

/*
 * The first signal ends the reading, so that no half-written file is left, one that comes later the
 * command. nohup ignores SIGHUP, and that stays. A consumer of the output that ends early shows as
 * EPIPE, and a limit of the size of files (RLIMIT_FSIZE) as EFBIG.
 */
void input_watch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = on_interrupt};
	struct sigaction old;

	watch_timer();
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i] == SIGINT ||
		    (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN))
			sigaction(signals[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

void interrupt_opening(bool opening)
{
	is_opening = opening;
}

bool interrupted(void)
{
	return was_interrupted;
}

int interrupted_status(void)
{
	return was_interrupted ? 128 + was_interrupted : EXIT_OK;
}

bool consumer_given_up(void)
{
	return ending_signal && since_ending() > LAST_CHANCE;
}

bool output_given_up(bool pager)
{
	if (!pager)
		return consumer_given_up();
	return ending_signal && ending_signal != SIGINT;
}
