/* SPDX-License-Identifier: MIT */
/*
 * Prints what a program can see of how it was started: arguments, the auxiliary vector, its
 * mappings, the heap, open descriptors, signals, the tracer. Ends with the number of its arguments.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern char **environ;

/* only: the names of the lines to be printed, in a list; NULL: all. */
static void put_file(const char *path, const char *only)
{
	char line[4096];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		char name[64];

		snprintf(name, sizeof(name), " %.*s ", (int)strcspn(line, ":"), line);
		if (!only || strstr(only, name))
			fputs(line, stdout);
	}
	if (f)
		fclose(f);
}

static void put_auxv(void)
{
	const uint64_t *at = (const uint64_t *)environ;

	while (*at)
		at++;
	for (at++; at[0]; at += 2)
		printf("auxv %lu %lx\n", (unsigned long)at[0], (unsigned long)at[1]);
}

int main(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		printf("argument %s\n", argv[i]);
	put_auxv();
	printf("break %p\n", sbrk(0));
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d %d\n", fd, fcntl(fd, F_GETFD));
	put_file("/proc/self/status",
		 " Name State TracerPid SigPnd ShdPnd SigBlk SigIgn SigCgt Seccomp ");
	put_file("/proc/self/maps", NULL);
	return argc;
}
