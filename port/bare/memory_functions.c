/* SPDX-License-Identifier: MIT */
/* The functions of a C library that the engine and the packet decoder call. */
#include <string.h>

void *memcpy(void *to, const void *from, size_t n)
{
	void *result = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return result;
}

void *memset(void *to, int byte, size_t n)
{
	void *result = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return result;
}
