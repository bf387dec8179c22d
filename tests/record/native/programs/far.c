/* SPDX-License-Identifier: MIT */
/*
 * Functions that are written in the middle of 8 GB of memory, around which a recorder finds no free
 * addresses: with operands relative to RIP, a loop and a return. Status 3.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define GB	  (1UL << 30)
#define FUNCTIONS 1000

static const unsigned char code[] = {
    0x01, 0x3d, 0xfa, 0x1f, 0, 0, /* 1: add %edi, 0x1ffa(%rip) */
    0x8b, 0x05, 0xf4, 0x1f, 0, 0, /* mov 0x1ff4(%rip), %eax: the same */
    0xff, 0xcf,			  /* dec %edi */
    0x75, 0xf0,			  /* jnz 1b */
    0xc3,			  /* ret */
};

int main(void)
{
	unsigned char *memory = mmap(NULL, 8 * GB, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *first = memory + 3 * GB;
	long sum = 0;

	if (memory == MAP_FAILED || mprotect(first, 2 * GB, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 1;
	for (unsigned long i = 0; i < FUNCTIONS; i++) {
		unsigned char *at = first + i * (512 << 10) + i * 64;
		int (*function)(int);

		memcpy(at, code, sizeof(code));
		memcpy(&function, &at, sizeof(function));
		for (int k = 1; k < (i % 20 ? 4 : 200); k++)
			sum += function(k % 5 + 1);
	}
	printf("%ld\n", sum);
	return 3;
}
