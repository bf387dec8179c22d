/* SPDX-License-Identifier: MIT */
/*
 * Code and data on one page. beside counter N: a function counts its N calls there. beside ahead N:
 * it stores the constant of its own next instruction. beside nested N: a function within another
 * one, called by what lies on the stack. beside rewriting N: the function is another one from time
 * to time, and so is the data. Status 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static unsigned char *page;

/* inc qword [rip + 0x7f9]: at page + 0x800; ret */
static const unsigned char counter[] = {0x48, 0xff, 0x05, 0xf9, 0x07, 0, 0, 0xc3};

/* mov [rip + 1], dil: the constant; mov eax, 0; ret */
static const unsigned char ahead[] = {0x40, 0x88, 0x3d, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};

static int call(int argument)
{
	int (*function)(int);

	memcpy(&function, &page, sizeof(function));
	return function(argument);
}

static long count(int n)
{
	long calls;

	memcpy(page, counter, sizeof(counter));
	for (int i = 0; i < n; i++)
		call(0);
	memcpy(&calls, page + 0x800, sizeof(calls));
	return calls;
}

static long store_ahead(int n)
{
	long sum = 0;

	memcpy(page, ahead, sizeof(ahead));
	for (int i = 0; i < n; i++)
		sum += call(i % 100);
	return sum;
}

static long rewrite(int n)
{
	unsigned char code[] = {0x8d, 0x47, 0, 0xc3}; /* lea eax, [rdi + i]; ret */
	long sum = 0;

	for (int i = 0; i < n; i++) {
		if (i % 50 == 0) {
			code[2] = (unsigned char)(i / 50 % 100);
			memcpy(page, code, sizeof(code));
		}
		page[64 + i % 512]++;
		sum += call(i);
	}
	return sum;
}

static long sort_nested(int n)
{
	int *numbers = malloc((size_t)n * sizeof(*numbers));
	unsigned x = 1;
	long calls = 0;
	int compare(const void *a, const void *b)
	{
		calls++;
		return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
	}

	for (int i = 0; i < n; i++)
		numbers[i] = (int)((x = x * 1103515245 + 12345) >> 8);
	qsort(numbers, (size_t)n, sizeof(*numbers), compare);
	free(numbers);
	return calls;
}

int main(int count_of, char **arguments)
{
	const char *what = arguments[1];
	const int n = count_of > 2 ? atoi(arguments[2]) : 1000;
	long result;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED)
		return 1;
	result = !strcmp(what, "counter")  ? count(n)
		 : !strcmp(what, "ahead")  ? store_ahead(n)
		 : !strcmp(what, "nested") ? sort_nested(n)
					   : rewrite(n);
	printf("%ld\n", result);
	return 3;
}
