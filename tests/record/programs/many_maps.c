/* SPDX-License-Identifier: MIT */
/* Maps one page of its own file argv[1] times, every other time to be executed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	const int file = open("/proc/self/exe", O_RDONLY), n = argc > 1 ? atoi(argv[1]) : 0;
	int made = 0;

	for (int i = 0; i < n; i++)
		made += mmap(NULL, 4096, PROT_READ | (i & 1 ? PROT_EXEC : 0), MAP_PRIVATE, file,
			     0) != MAP_FAILED;
	printf("%d\n", made);
	return 0;
}
