/* SPDX-License-Identifier: MIT */
/* Finds out whether a process still runs, and when it began, from /proc/PID/stat. */
#include "record/qemu/shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * proc(5): "pid (comm) state ppid ...". The 22nd field is the start time. A comm may contain
 * anything, also ")".
 */
uint64_t shared_process_start(int32_t pid)
{
	char path[32], text[1024];
	unsigned long long start;
	const char *rest;
	ssize_t n;
	char state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	rest = strrchr(text, ')');
	if (!rest ||
	    sscanf(rest + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%llu",
		   &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}
