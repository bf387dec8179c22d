/* SPDX-License-Identifier: MIT */
/*
 * One thread rewrites jumps and four execute them, with no system call between: a block may be
 * replaced, and the replacement run by another thread, between the moment at which a thread looks
 * it up and the moment at which it begins. With an argument, signals arrive too.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define THREADS	  4
#define FUNCTIONS 16
#define SIZE	  512 /* bytes of a function */
#define WAYS	  3   /* targets of a function's jump */

static uint8_t *code;
static atomic_bool stop;

/* jmp way; ...; way: mov eax, k; cmp eax, k; je +2; ud2; ret */
static void write_function(uint8_t *p)
{
	static const uint8_t jump[] = {0xe9, 64 - 5, 0, 0, 0, 0x90, 0x90, 0x90};

	memcpy(p, jump, sizeof(jump));
	for (uint8_t k = 0; k < WAYS; k++) {
		const uint8_t way[] = {0xb8, k,	   0,	 0,    0,    0x83, 0xf8,
				       k,    0x74, 0x02, 0x0f, 0x0b, 0xc3};

		memcpy(p + 64 + 32 * k, way, sizeof(way));
	}
}

static unsigned call(const uint8_t *p)
{
	unsigned (*f)(void);

	memcpy(&f, &p, sizeof(f));
	return f();
}

static void *run(void *bad)
{
	while (!stop)
		for (unsigned i = 0; i < FUNCTIONS; i++)
			if (call(code + (size_t)i * SIZE) >= WAYS)
				*(int *)bad = 1;
	return NULL;
}

/* Eight aligned bytes at once, as compilers patch code that runs. */
static void patch(uint8_t *p, unsigned way)
{
	uint8_t bytes[8];
	uint64_t word;

	memcpy(bytes, p, sizeof(bytes));
	bytes[1] = (uint8_t)(64 + 32 * way - 5);
	memcpy(&word, bytes, sizeof(word));
	atomic_store((_Atomic uint64_t *)(void *)p, word);
}

static void on_alarm(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 900}, {0, 900}};
	pthread_t threads[THREADS];
	int bad[THREADS] = {0}, any = 0;
	unsigned random = 1;

	(void)argv;
	code = mmap(NULL, FUNCTIONS * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < FUNCTIONS; i++)
		write_function(code + (size_t)i * SIZE);
	sigaction(SIGALRM, &action, NULL);
	if (argc > 1)
		setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, &bad[i]);
	for (unsigned i = 0; i < 400; i++) {
		random = random * 1103515245 + 12345;
		patch(code + (size_t)((random >> 16) % FUNCTIONS) * SIZE, (random >> 24) % WAYS);
		for (volatile unsigned k = 0; k < (random >> 20) % 300; k++)
			;
		if (i % 50 == 0)
			usleep(1000);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		any |= bad[i];
	}
	return any;
}
