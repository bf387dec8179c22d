/* SPDX-License-Identifier: MIT */
/* Looks up processes whose lists of generated code are read (jit_process.h). */
#include "perfdata/jit_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool perfdata_read_proc(int32_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

struct timespec perfdata_process_start(int32_t pid)
{
	const int64_t second = 1000000000, ticks = sysconf(_SC_CLK_TCK);
	struct timespec now, up;
	char text[2048];
	const char *at;
	int64_t time;

	if (!perfdata_read_proc(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')))
		return (struct timespec){INT32_MAX, 0};
	for (unsigned field = 2; field < 22 && at; field++)
		at = strchr(at + 1, ' ');
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	time = (now.tv_sec - up.tv_sec) * second + now.tv_nsec - up.tv_nsec +
	       (at ? strtoll(at, NULL, 10) : 0) * (second / (ticks > 0 ? ticks : 100));
	return (struct timespec){time / second, time % second};
}

int32_t perfdata_inner_pid(int32_t pid)
{
	char text[4096], *at;
	int32_t inner = pid;

	/* Its numbers in all namespaces that it is in, the innermost last. */
	if (!perfdata_read_proc(pid, "status", text, sizeof(text)) ||
	    !(at = strstr(text, "\nNSpid:")))
		return pid;
	for (at += strlen("\nNSpid:"); *at == '\t';)
		inner = (int32_t)strtol(at + 1, &at, 10);
	return inner;
}
