/* SPDX-License-Identifier: MIT */
/* A program whose branches depend on the random bytes that the system gives it (AT_RANDOM). */
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

int main(void)
{
	uint64_t bytes[2];
	volatile unsigned ones = 0;

	memcpy(bytes, (const void *)(uintptr_t)getauxval(AT_RANDOM), sizeof(bytes));
	for (int i = 0; i < 128; i++)
		if (bytes[i / 64] >> i % 64 & 1)
			ones++;
	return ones ? 1 : 0;
}
