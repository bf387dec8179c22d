/* SPDX-License-Identifier: MIT */
/*
 * String instructions with every kind of count, across page ends, and with a fault in the middle.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

static void copy(char *to, const char *from, unsigned long n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void fill(char *to, unsigned long n)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"('x') : "memory");
}

static void fill_words(char *to, unsigned long n)
{
	__asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0) : "memory");
}

/* Returns how many bytes are left after the first difference. */
static unsigned long same(const char *a, const char *b, unsigned long n)
{
	__asm__ volatile("cmp %%eax, %%eax\n\trepe cmpsb"
			 : "+D"(a), "+S"(b), "+c"(n)
			 :
			 : "memory", "cc");
	return n;
}

static unsigned long find(const char *text, char c, unsigned long n)
{
	__asm__ volatile("test %%edi, %%edi\n\trepne scasb" : "+D"(text), "+c"(n) : "a"(c) : "cc");
	return n;
}

static void backwards(char *to, const char *from, unsigned long n)
{
	to += n - 1;
	from += n - 1;
	__asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* Two in a row, the second in a loop of its own. */
static void twice(char *to, unsigned long n)
{
	char *other = to;
	unsigned long again = n;

	__asm__ volatile("rep stosb\n\tmov %2, %%rdi\n\tmov %3, %%rcx\n\trep stosb"
			 : "+D"(to), "+c"(n)
			 : "r"(other), "r"(again), "a"(0)
			 : "memory");
}

static char *volatile locked;

static void unlock(int signal)
{
	(void)signal;
	mprotect(locked, PAGE, PROT_READ | PROT_WRITE);
}

int main(void)
{
	static const unsigned long counts[] = {0, 1, 2, 63, 5000};
	char *a = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *b = a + 4 * PAGE;

	if (a == MAP_FAILED)
		return 1;
	signal(SIGSEGV, unlock);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		unsigned long n = counts[i];

		fill(a + PAGE - 1, n);
		copy(b + PAGE - 2, a + PAGE - 1, n);
		if (same(b + PAGE - 2, a + PAGE - 1, n) != 0)
			return 2;
		if (n > 1) {
			b[PAGE - 2 + n / 2] = 'y';
			if (same(b + PAGE - 2, a + PAGE - 1, n) != n - n / 2 - 1 ||
			    find(b + PAGE - 2, 'y', n) != n - n / 2 - 1)
				return 3;
			backwards(b, a, n);
		}
		fill_words(b, n / 8);
		twice(a, n);
	}
	/* The fault happens in the middle; the instruction continues from there. */
	locked = a + PAGE;
	mprotect(locked, PAGE, PROT_NONE);
	fill(a, 2 * PAGE);
	locked = b + PAGE;
	mprotect(locked, PAGE, PROT_NONE);
	copy(b, a, 2 * PAGE);
	return memcmp(a, b, 2 * PAGE) ? 4 : 0;
}
