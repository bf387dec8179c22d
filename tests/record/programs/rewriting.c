/* SPDX-License-Identifier: MIT */
/* Code that changes: while it runs, between two calls, by mmap, and by another thread. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

typedef unsigned function(unsigned);

static unsigned char *new_code(void)
{
	void *code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return code == MAP_FAILED ? NULL : code;
}

static unsigned call(const unsigned char *code, unsigned argument)
{
	function *f;

	memcpy(&f, &code, sizeof(f));
	return f(argument);
}

/* mov eax, value; ret */
static void write_constant(unsigned char *code, unsigned value)
{
	code[0] = 0xb8;
	memcpy(code + 1, &value, 4);
	code[5] = 0xc3;
}

/* The store changes the instruction after it, without a branch between them. */
static int straight_line(unsigned char *code)
{
	static const unsigned char store[] = {
	    0x40, 0x88, 0x3d, 0x02, 0x00, 0x00, 0x00, /* mov [rip + 2], dil */
	    0x90,				      /* nop */
	    0xb8, 0x00, 0x00, 0x00, 0x00,	      /* mov eax, <changed> */
	    0xc3,
	};

	memcpy(code, store, sizeof(store));
	for (unsigned i = 0; i < 20; i++)
		if (call(code, i % 5) != i % 5)
			return 1;
	return 0;
}

/* A loop that turns one of its instructions, each time round, from inc into dec and back. */
static int changing_loop(unsigned char *code)
{
	static const unsigned char loop[] = {
	    0x31, 0xc0,				      /* xor eax, eax */
	    0xff, 0xc0,				      /* again: inc eax | dec eax */
	    0x80, 0x35, 0xf8, 0xff, 0xff, 0xff, 0x08, /* xor byte [again + 1], 8 */
	    0xff, 0xcf,				      /* dec edi */
	    0x75, 0xf3,				      /* jnz again */
	    0xc3,
	};

	memcpy(code, loop, sizeof(loop));
	return call(code, 101) != 1 || call(code, 100) != 0;
}

/* A store changes its own first byte, after it was executed. */
static int own_bytes(unsigned char *code)
{
	static const unsigned char store[] = {
	    0xb8, 0x07, 0x00, 0x00, 0x00,	      /* mov eax, 7 */
	    0xc6, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xc6, /* mov byte [this], 0xc6: no change */
	    0xc6, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xc3, /* mov byte [this], 0xc3: a ret */
	    0xc3,
	};

	memcpy(code, store, sizeof(store));
	return call(code, 0) != 7 || call(code, 0) != 7;
}

static int patched_between_calls(unsigned char *code)
{
	for (unsigned i = 0; i < 50; i++) {
		write_constant(code, i);
		if (call(code, 0) != i || call(code, 0) != i)
			return 1;
	}
	return 0;
}

/* Code of changing length: 0 to 9 times inc eax. */
static int jit(unsigned char *code)
{
	for (unsigned i = 0; i < 60; i++) {
		unsigned char *p = code + PAGE - 7 + i % 3;
		unsigned n = i * 7 % 10;
		unsigned char *q = p;

		*q++ = 0x89; /* mov eax, edi */
		*q++ = 0xf8;
		for (unsigned k = 0; k < n; k++) {
			*q++ = 0xff;
			*q++ = 0xc0;
		}
		*q = 0xc3;
		if (call(p, i) != i + n)
			return 1;
	}
	return 0;
}

/* Memory that is first writable, then executable, as in a JIT compiler that never has both. */
static int write_xor_execute(unsigned char *code)
{
	for (unsigned i = 0; i < 10; i++) {
		mprotect(code, PAGE, PROT_READ | PROT_WRITE);
		write_constant(code, i);
		mprotect(code, PAGE, PROT_READ | PROT_EXEC);
		if (call(code, 0) != i)
			return 1;
	}
	mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	return 0;
}

/* The same address, mapped again; and the same bytes, moved to another address. */
static int mapped_again(unsigned char *code)
{
	for (unsigned i = 0; i < 10; i++) {
		unsigned char *moved;

		if (mmap(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != code)
			return 1;
		write_constant(code, i);
		if (call(code, 0) != i)
			return 2;
		moved = mremap(code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code + PAGE);
		if (moved != code + PAGE || call(moved, 0) != i)
			return 3;
	}
	return 0;
}

static unsigned char *shared_code;
static pthread_barrier_t barrier;

static void *run_changed(void *bad)
{
	for (unsigned i = 0; i < 20; i++) {
		pthread_barrier_wait(&barrier);
		for (unsigned k = 0; k < 50; k++)
			if (call(shared_code, 0) != i)
				*(int *)bad = 1;
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

/* One thread writes, all run it; each sees each version. */
static int changed_by_another(unsigned char *code)
{
	pthread_t threads[3];
	int bad[3] = {0};

	shared_code = code;
	pthread_barrier_init(&barrier, NULL, 4);
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run_changed, &bad[i]);
	for (unsigned i = 0; i < 20; i++) {
		write_constant(code, i);
		pthread_barrier_wait(&barrier);
		if (call(code, 0) != i)
			bad[0] = 1;
		pthread_barrier_wait(&barrier);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return bad[0] | bad[1] | bad[2];
}

/* Changed by one thread, executed by another that has made no system call in between. */
static _Atomic unsigned version, seen;

static void *run_spinning(void *bad)
{
	for (unsigned i = 1; i <= 20; i++) {
		while (version != i)
			;
		if (call(shared_code, 0) != i)
			*(int *)bad = 1;
		seen = i;
	}
	return NULL;
}

static int changed_without_system_call(unsigned char *code)
{
	pthread_t thread;
	int bad = 0;

	shared_code = code;
	pthread_create(&thread, NULL, run_spinning, &bad);
	for (unsigned i = 1; i <= 20; i++) {
		write_constant(code, i);
		version = i;
		while (seen != i)
			;
		if (i % 2 && call(code, 0) != i)
			bad = 1;
	}
	pthread_join(thread, NULL);
	return bad;
}

int main(void)
{
	static int (*const cases[])(unsigned char *) = {
	    straight_line,     changing_loop, own_bytes,	  patched_between_calls,       jit,
	    write_xor_execute, mapped_again,  changed_by_another, changed_without_system_call,
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		unsigned char *code = new_code();

		if (!code || cases[i](code))
			return (int)i + 1;
	}
	return 0;
}
