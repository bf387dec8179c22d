/* SPDX-License-Identifier: MIT */
/*
 * Calls about memory, and code that changes by them: a translation of what was there before would
 * print an old number.
 */
#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

/* mov $number, %eax; ret */
static void write_code(uint8_t *at, uint32_t number)
{
	at[0] = 0xb8;
	memcpy(at + 1, &number, 4);
	at[5] = 0xc3;
}

static int run(uint8_t *at)
{
	int (*function)(void);

	memcpy(&function, &at, sizeof(function));
	return function();
}

static uint8_t *map(size_t pages, void *at, int flags)
{
	return mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		    -1, 0);
}

static void change_code(void)
{
	uint8_t *code = map(2, NULL, 0), *moved;

	for (uint32_t i = 1; i <= 3; i++) {
		write_code(code, i);
		report("mprotect executable", mprotect(code, PAGE, PROT_READ | PROT_EXEC));
		for (int j = 0; j < 100; j++)
			run(code);
		report_number("code returns", run(code));
		report("mprotect writable", mprotect(code, PAGE, PROT_READ | PROT_WRITE));
	}
	report("munmap", munmap(code, PAGE));
	report_number("the same place", map(1, code, MAP_FIXED_NOREPLACE) == code);
	write_code(code, 4);
	mprotect(code, PAGE, PROT_READ | PROT_EXEC);
	report_number("code returns", run(code));
	report_number("replaced", map(1, code, MAP_FIXED) == code);
	write_code(code, 5);
	mprotect(code, PAGE, PROT_READ | PROT_EXEC);
	report_number("code returns", run(code));
	moved = mremap(code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code + PAGE);
	report_number("moved", moved == code + PAGE);
	report_number("code returns", run(moved));
	map(1, code, MAP_FIXED);
	write_code(code, 6);
	mprotect(code, PAGE, PROT_READ | PROT_EXEC);
	report_number("code returns", run(code));
	report_number("code returns", run(moved));
	report("munmap both", munmap(code, 2 * PAGE));
}

/* Code of a file: what was written into a private copy of it is lost with the copy. */
static void drop_code(void)
{
	int file = memfd_create("code", MFD_CLOEXEC);
	uint8_t bytes[PAGE] = {0}, *code;

	write_code(bytes, 7);
	report_number("written", write(file, bytes, PAGE));
	code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	write_code(code, 8);
	mprotect(code, PAGE, PROT_READ | PROT_EXEC);
	report_number("code returns", run(code));
	report("madvise", madvise(code, PAGE, MADV_DONTNEED));
	report_number("code returns", run(code));
	munmap(code, PAGE);
	code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	report_number("code returns", run(code));
	munmap(code, PAGE);
	close(file);
}

static void make_errors(void)
{
	uint8_t *page = map(1, NULL, 0), *end = sbrk(0);
	unsigned char resident;

	report("munmap of a part of a page", munmap(page + 1, PAGE));
	report("munmap of nothing", munmap(page, 0));
	report("munmap of all of nothing", munmap(page, (size_t)1 << 60));
	report("mprotect of a part of a page", mprotect(page + 1, 1, PROT_READ));
	report("mmap of no bytes", (long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0));
	report("mmap over another", (long)map(1, page, MAP_FIXED_NOREPLACE));
	munmap(page, PAGE);
	report("munmap twice", munmap(page, PAGE));
	report("mprotect of what is not there", mprotect(page, PAGE, PROT_READ));
	report("mincore of what is not there", mincore(page, PAGE, &resident));
	report("mlock of what is not there", mlock(page, PAGE));
	report("madvise of what is not there", madvise(page, PAGE, MADV_DONTNEED));
	report("msync of what is not there", msync(page, PAGE, MS_ASYNC));
	report("mremap of what is not there", (long)mremap(page, PAGE, PAGE, MREMAP_MAYMOVE));
	report_number("brk grows by",
		      (uint8_t *)sbrk(10 * PAGE) == end ? (uint8_t *)sbrk(0) - end : -1);
	end[10 * PAGE - 1] = 1;
	report_number("brk shrinks", brk(end));
	report_number("brk is back", sbrk(0) == end);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	change_code();
	drop_code();
	make_errors();
	return 3;
}
