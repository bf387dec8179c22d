/* SPDX-License-Identifier: MIT */
/* The main thread and another one change their names. before() and after() run with known names. */
#include <pthread.h>
#include <sys/prctl.h>

static __attribute__((noinline)) void before(void)
{
	__asm__ volatile("nop");
}

static __attribute__((noinline)) void after(void)
{
	__asm__ volatile("nop");
}

static void *other(void *unused)
{
	before();
	prctl(PR_SET_NAME, "other");
	after();
	return unused;
}

int main(void)
{
	pthread_t thread;

	before();
	prctl(PR_SET_NAME, "first");
	after();
	if (pthread_create(&thread, NULL, other, NULL))
		return 1;
	pthread_join(thread, NULL);
	prctl(PR_SET_NAME, "second");
	after();
	return 0;
}
