/* SPDX-License-Identifier: MIT */
/* The functions that compilers call by themselves. The options keep them from calling themselves.
 */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--) {
		t[n] = f[n];
		__asm__ volatile("" : : : "memory"); /* so that the loop does not become a call */
	}
	return to;
}

void *memset(void *to, int value, size_t n)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}
