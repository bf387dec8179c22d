/* SPDX-License-Identifier: MIT */
/*
 * Code written at run time: new; rewritten in place with other lengths; executed by another thread
 * than the one that wrote it; at an address where a file was mapped before; and from a file that
 * has been deleted when it runs. -DFILES_STAY: no file is deleted.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 60
#endif
#define SIZE 8192

typedef unsigned function(void);

static pthread_barrier_t barrier;
static uint8_t *code;

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* xor eax, eax; n times inc eax with a jump over junk of a length that depends on n; ret */
static size_t write_code(uint8_t *p, unsigned n)
{
	uint8_t *start = p;

	*p++ = 0x31, *p++ = 0xc0;
	for (unsigned i = 0; i < n; i++) {
		*p++ = 0xff, *p++ = 0xc0;
		*p++ = 0xeb, *p++ = (uint8_t)(n % 5);
		memset(p, 0xcc, n % 5);
		p += n % 5;
	}
	*p++ = 0xc3;
	return (size_t)(p - start);
}

static unsigned run(const uint8_t *p)
{
	function *f;

	memcpy(&f, &p, sizeof(f));
	return f();
}

static void *other(void *unused)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier); /* written */
		check(run(code + 4096) == i + 1 && run(code) == i, "the other thread's call");
		pthread_barrier_wait(&barrier); /* run */
	}
	return unused;
}

/* One thread writes; both execute the code, in alternating order. */
static void rewrite(void)
{
	pthread_t thread;

	code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	check(code != MAP_FAILED, "mmap");
	pthread_barrier_init(&barrier, NULL, 2);
	check(!pthread_create(&thread, NULL, other, NULL), "pthread_create");
	for (unsigned i = 0; i < ROUNDS; i++) {
		write_code(code, i);
		write_code(code + 4096, i + 1);
		if (i % 2)
			check(run(code) == i && run(code + 4096) == i + 1, "call");
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		check(run(code) == i && run(code + 4096) == i + 1, "call");
	}
	pthread_join(thread, NULL);
	munmap(code, SIZE);
}

static int write_file(const char *path, unsigned n)
{
	uint8_t bytes[SIZE] = {0};
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	check(fd >= 0, path);
	write_code(bytes, n);
	write_code(bytes + 4096, n + 1);
	check(write(fd, bytes, SIZE) == SIZE, path);
	return fd;
}

/* Two files and anonymous memory take turns at one address. */
static void remap(void)
{
	int one = write_file("jit-one.bin", 7), two = write_file("jit-two.bin", 12);
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, one, 0);

	check(p != MAP_FAILED, "mmap");
	for (unsigned i = 0; i < 10; i++) {
		check(run(p) == 7 && run(p + 4096) == 8, "the first file");
		check(mmap(p, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, two, 0) == p,
		      "mmap");
		check(run(p + 4096) == 13 && run(p) == 12, "the second file");
		check(mmap(p, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS,
			   -1, 0) == p,
		      "mmap");
		write_code(p, 20 + i);
		check(!mprotect(p, SIZE, PROT_READ | PROT_EXEC), "mprotect");
		check(run(p) == 20 + i, "anonymous code");
		munmap(p, SIZE);
		check(mmap(p, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, one, 0) == p,
		      "mmap");
	}
	close(one);
	close(two);
}

#ifndef FILES_STAY
static void deleted(void)
{
	int fd = write_file("jit-deleted.bin", 30);
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	check(p != MAP_FAILED, "mmap");
	unlink("jit-deleted.bin");
	close(fd);
	check(run(p) == 30 && run(p + 4096) == 31, "the deleted file");
}
#endif

/* A private mapping of a file that is written to: its bytes are not the file's any more. */
static void patched(void)
{
	int fd = write_file("jit-patched.bin", 3);
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	check(p != MAP_FAILED, "mmap");
	write_code(p, 9);
	check(!mprotect(p, SIZE, PROT_READ | PROT_EXEC), "mprotect");
	check(run(p) == 9 && run(p + 4096) == 4, "the patched file");
	close(fd);
}

int main(void)
{
	rewrite();
	remap();
#ifndef FILES_STAY
	deleted();
#endif
	patched();
	return 0;
}
