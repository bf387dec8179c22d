/* SPDX-License-Identifier: MIT */
/*
 * A JIT whose memory is mapped twice, to be written at one address and to be executed at another.
 * Each function it writes returns its argument plus another number; the sum is known.
 *
 *   writable-first, executable-first: which mapping is made first
 *   protected   the second mapping becomes executable by mprotect()
 *   refused     then something that the recorder native cannot follow
 *   apart       the file is written, unmapped, and mapped again to be executed: no second mapping
 */
#include <asm/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE	  4096
#define FUNCTIONS 200

static int file;

static uint8_t *map(int prot)
{
	return mmap(NULL, SIZE, prot, MAP_SHARED, file, 0);
}

/* lea eax, [rdi + n]; ret */
static void write_function(uint8_t *to, uint8_t n)
{
	const uint8_t code[] = {0x8d, 0x47, n, 0xc3};

	memcpy(to, code, sizeof(code));
}

static int call(const uint8_t *code, int argument)
{
	int (*function)(int);

	memcpy(&function, &code, sizeof(function));
	return function(argument);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	const int prot = strcmp(how, "protected") ? PROT_READ | PROT_EXEC : PROT_READ;
	uint8_t *writable = MAP_FAILED, *code;
	long sum = 0, right = 0;

	file = memfd_create("twice", 0);
	if (file < 0 || ftruncate(file, SIZE))
		return 2;
	if (strcmp(how, "executable-first"))
		writable = map(PROT_READ | PROT_WRITE);
	if (!strcmp(how, "apart")) {
		write_function(writable, 1);
		munmap(writable, SIZE);
	}
	code = map(prot);
	if (!strcmp(how, "executable-first"))
		writable = map(PROT_READ | PROT_WRITE);
	if (writable == MAP_FAILED || code == MAP_FAILED)
		return 2;
	if (!strcmp(how, "protected"))
		mprotect(code, SIZE, PROT_READ | PROT_EXEC);
	if (!strcmp(how, "refused")) {
		write_function(writable, 1);
		call(code, 1);
		syscall(SYS_arch_prctl, ARCH_GET_GS, &right);
		right = 0;
	}
	for (int i = 0; i < FUNCTIONS; i++) {
		const uint8_t n = (uint8_t)(strcmp(how, "apart") ? i % 100 : 1);

		if (strcmp(how, "apart"))
			write_function(writable, n);
		__builtin_ia32_mfence();
		sum += call(code, i);
		right += i + n;
	}
	puts(sum == right ? "right" : "old code ran");
	return 0;
}
