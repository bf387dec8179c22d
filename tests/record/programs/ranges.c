/* SPDX-License-Identifier: MIT */
/*
 * What address filters meet: threads, handlers, system calls inside and outside of ranges, a child,
 * a library that is mapped again and again (first argument: its path), an execve (second argument).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define THREADS	 4
#define PASSES	 1000

static volatile unsigned long sink;

NOINLINE static void handler(int signal)
{
	(void)signal;
	sink += 3;
	getppid();
}

NOINLINE static unsigned long leaf(unsigned long x)
{
	for (unsigned i = 0; i < (x & 3); i++)
		sink += i;
	return x * 31;
}

NOINLINE static unsigned long caller(unsigned long x)
{
	getppid();
	if (x % 100 == 7)
		raise(SIGUSR1);
	return leaf(x) + leaf(x >> 1);
}

NOINLINE static void stopper(void)
{
	sink++;
}

NOINLINE static void *run(void *argument)
{
	unsigned long number = (unsigned long)argument;

	for (unsigned long i = 0; i < PASSES; i++) {
		sink += caller(i);
		if (i == PASSES / 2 && number == 2)
			stopper();
	}
	return NULL;
}

static int use_library(const char *path)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen(path, RTLD_NOW);
		unsigned long (*work)(unsigned long);

		if (!library)
			return 1;
		*(void **)&work = dlsym(library, "work");
		for (unsigned long x = 0; x < PASSES; x++)
			sink += work(x);
		dlclose(library);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int status = 0;

	signal(SIGUSR1, handler);
	for (unsigned long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (!fork()) {
		run(NULL);
		_exit(0);
	}
	wait(&status);
	if (argc > 1)
		status |= use_library(argv[1]);
	if (argc > 2)
		execl("/proc/self/exe", argv[0], argv[1], (char *)NULL);
	return status;
}
