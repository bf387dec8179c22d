/* SPDX-License-Identifier: MIT */
/*
 * Maps memory at fixed addresses where a recorder may be: what no one may access over all that is
 * free below libraries, of huge pages and of small ones, and then some that is used in each terabyte of it. Not for a
 * position-independent program, which would be there itself.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define TERABYTE (UINT64_C(1) << 40)
#define FIRST	 (1 * TERABYTE)
#define LAST	 (126 * TERABYTE)
#define BYTES	 (UINT64_C(1) << 20)

static void *map_fixed(uint64_t at, uint64_t bytes, int protection, int flags)
{
	return mmap((void *)at, bytes, protection,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED | flags, -1, 0);
}

int main(void)
{
	volatile uint64_t *words;
	uint64_t sum = 0;

	if (map_fixed(FIRST, LAST - FIRST, PROT_NONE, MAP_HUGETLB) == MAP_FAILED)
		perror("reserving with huge pages");
	if (map_fixed(FIRST, LAST - FIRST, PROT_NONE, 0) == MAP_FAILED)
		perror("reserving");
	for (uint64_t at = FIRST; at < LAST; at += TERABYTE) {
		words = map_fixed(at, BYTES, PROT_READ | PROT_WRITE, 0);
		if ((void *)words == MAP_FAILED)
			perror("mapping");
		for (uint64_t i = 0; i < BYTES / 8; i += 512)
			sum += words[i] + i;
	}
	printf("%lu %d\n", (unsigned long)sum, munmap((void *)FIRST, LAST - FIRST));
	return 0;
}
