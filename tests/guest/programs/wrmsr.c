/* SPDX-License-Identifier: MIT */
/* wrmsr REGISTER VALUE: writes a model-specific register of processor 0. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	uint64_t value = strtoull(argv[2], NULL, 0);
	int file = open("/dev/cpu/0/msr", O_WRONLY);
	if (file < 0 ||
	    pwrite(file, &value, sizeof(value), (off_t)strtoull(argv[1], NULL, 0)) != 8) {
		perror("wrmsr");
		return 1;
	}
	return 0;
}
