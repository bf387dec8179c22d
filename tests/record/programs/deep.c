/* SPDX-License-Identifier: MIT */
/* deep FRAMES: prints the limit of the stack's size, and needs a stack of FRAMES times 64 KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

__attribute__((noinline)) static int deeper(int n)
{
	volatile char frame[65536 - 64];

	frame[0] = (char)n;
	return n > 1 ? deeper(n - 1) + frame[0] : 0;
}

int main(int argc, char **argv)
{
	struct rlimit limit;

	if (argc < 2 || getrlimit(RLIMIT_STACK, &limit))
		return 1;
	printf("%lld\n", (long long)limit.rlim_cur);
	deeper(atoi(argv[1]));
	puts("deep enough");
	return 0;
}
