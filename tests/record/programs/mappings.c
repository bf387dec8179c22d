/* SPDX-License-Identifier: MIT */
/*
 * Maps parts of a file of code in every way in which the kernel makes executable mappings of their
 * own, calls each page, and prints /proc/self/maps. argv[1]: the file, which is created here: page
 * n returns n.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096u
#define PAGES 16

static int file;

static void make_file(const char *path)
{
	uint8_t page[PAGE] = {0};

	file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0755);
	for (uint8_t n = 0; n < PAGES; n++) {
		const uint8_t code[] = {0xb8, n, 0, 0, 0, 0xc3}; /* mov $n, %eax; ret */

		memcpy(page, code, sizeof(code));
		if (write(file, page, PAGE) != PAGE)
			exit(2);
	}
}

static uint8_t *map(void *at, int first, int pages, int prot, int flags)
{
	uint8_t *p = mmap(at, (size_t)pages * PAGE, prot, flags, file, (off_t)first * PAGE);

	if (p == MAP_FAILED)
		exit(2);
	return p;
}

static void call(uint8_t *page, int expected)
{
	int (*function)(void);

	memcpy(&function, &page, sizeof(function));
	if (function() != expected)
		exit(3);
}

static void print_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		fputs(line, stdout);
}

int main(int argc, char **argv)
{
	const int rx = PROT_READ | PROT_EXEC, private = MAP_PRIVATE;
	uint8_t *p;

	if (argc < 2)
		return 1;
	make_file(argv[1]);
	/* A page in the middle becomes executable. */
	p = map(NULL, 0, 3, PROT_READ, private);
	if (mprotect(p + PAGE, PAGE, rx))
		return 2;
	call(p + PAGE, 1);
	/* A page in the middle is unmapped, and another one of the file takes its place. */
	p = map(NULL, 4, 5, rx, private);
	call(p, 4);
	if (munmap(p + PAGE, PAGE))
		return 2;
	call(p + 2 * PAGE, 6);
	map(p + PAGE, 12, 1, rx, private | MAP_FIXED);
	call(p + PAGE, 12);
	call(p + 4 * PAGE, 8);
	/* Readable neighbours that continue it; shared; writable; not readable. */
	p = map(NULL, 9, 5, PROT_READ, private);
	map(p + PAGE, 10, 2, rx, private | MAP_FIXED);
	call(p + 2 * PAGE, 11);
	call(map(NULL, 13, 1, rx, MAP_SHARED), 13);
	call(map(NULL, 14, 1, rx | PROT_WRITE, private), 14);
	call(map(NULL, 15, 1, PROT_EXEC, private), 15);
	print_maps();
	return 0;
}
