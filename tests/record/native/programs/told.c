/* SPDX-License-Identifier: MIT */
/*
 * A program that does what it is told: it reads letters from standard input, and answers each with
 * itself on standard output when it is done.
 *
 *	a b c		calls alone(), between() or after(), 1000 times
 *	f		forks: the child goes on, and its parent ends as the child does
 *	t		a new thread goes on
 *	e		executes itself
 *	x		calls alone() 1000 times in each of four threads
 *
 * At the end of its input it ends with the status 6.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 1000

#define CALLED __attribute__((noinline, noclone))

static volatile unsigned sum;

CALLED static void alone(void)
{
	sum = sum * 3 + 1;
}

CALLED static void between(void)
{
	sum = sum * 5 + 1;
}

CALLED static void after(void)
{
	sum = sum * 7 + 1;
}

static void call(void (*function)(void))
{
	for (unsigned i = 0; i < CALLS; i++)
		function();
}

static void *call_alone(void *unused)
{
	(void)unused;
	call(alone);
	return NULL;
}

static void call_in_threads(void)
{
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, call_alone, NULL))
			_exit(1);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void *go_on(void *answer);

static void begin_thread(void)
{
	static char answer[] = "t";
	pthread_t thread;

	if (pthread_create(&thread, NULL, go_on, answer))
		_exit(1);
	for (;;)
		pause();
}

static void begin_child(void)
{
	const pid_t child = fork();
	int status = 0;

	if (!child)
		return;
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void obey(char letter)
{
	switch (letter) {
	case 'a':
		call(alone);
		break;
	case 'b':
		call(between);
		break;
	case 'c':
		call(after);
		break;
	case 'f':
		begin_child();
		break;
	case 'x':
		call_in_threads();
		break;
	}
}

static void *go_on(void *answer)
{
	char letter;

	if (answer && write(1, answer, 1) != 1)
		_exit(1);
	while (read(0, &letter, 1) == 1) {
		if (letter == 't')
			begin_thread();
		if (letter == 'e')
			execl("/proc/self/exe", "told", "e", (char *)NULL);
		obey(letter);
		if (write(1, &letter, 1) != 1)
			_exit(1);
	}
	_exit(6);
}

int main(int argc, char **argv)
{
	go_on(argc > 1 ? argv[1] : NULL);
	return 1;
}
