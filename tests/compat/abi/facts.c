/* SPDX-License-Identifier: MIT */
/* Compiled twice, each time with another intel-pt.h; ABI_OF is the function's name. */
#include "facts.h"

#include <intel-pt.h>

/* Where the bits that are set begin, and how many there are. */
static long bits_of(const void *object, size_t size)
{
	const unsigned char *bytes = object;
	long first = -1, count = 0;

	for (size_t i = 0; i < 8 * size; i++) {
		if (!(bytes[i / 8] >> i % 8 & 1))
			continue;
		first = first < 0 ? (long)i : first;
		count++;
	}
	return first * BITS_SCALE + count;
}

static void add(struct abi_fact *facts, size_t room, size_t *n, const char *name, long value)
{
	if (*n < room)
		facts[*n] = (struct abi_fact){name, value};
	++*n;
}

#define ADD(name, value)     add(facts, room, &n, name, (long)(value));
#define SIZE(type)	     ADD(#type, sizeof(struct type))
#define OFFSET(type, member) ADD(#type "." #member, offsetof(struct type, member))
#define VALUE(name)	     ADD(#name, name)
#define BITS(type, member)                                                                         \
	{                                                                                          \
		struct type object;                                                                \
		memset(&object, 0, sizeof(object));                                                \
		object.member = ones;                                                              \
		ADD(#type "." #member, bits_of(&object, sizeof(object)))                           \
	}

size_t ABI_OF(struct abi_fact *facts, size_t room)
{
	const volatile unsigned ones = ~0u;
	size_t n = 0;

#include "list.h"
	return n;
}
