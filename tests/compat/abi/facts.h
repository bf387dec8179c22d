/* SPDX-License-Identifier: MIT */
/* What a compiler makes of a header intel-pt.h. */
#ifndef PTAH_TESTS_COMPAT_ABI_FACTS_H
#define PTAH_TESTS_COMPAT_ABI_FACTS_H

#include <stddef.h>

#define BITS_SCALE 1000

struct abi_fact {
	const char *name;
	long value; /* of a bit field: BITS_SCALE * first bit + number of bits */
};

/* Their number; `room` is enough for all. The same of two headers. */
size_t abi_of_debian(struct abi_fact *facts, size_t room);
size_t abi_of_ptah(struct abi_fact *facts, size_t room);

#endif
