/* SPDX-License-Identifier: MIT */
/* Reads /proc/PID/stat: whether a process still runs, and whose child it is. */
#include "record/proc_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* proc(5) counts fields from 1; the text from the third one on is read here. */
#define FIRST_FIELD	3
#define FIELD_PARENT	4
#define FIELD_FLAGS	9
#define FIELD_THREADS	20
#define FIELD_EXIT_CODE 52

#define PF_EXITING 4UL /* <linux/sched.h>: it is in do_exit() */

/* One field, "" behind the last one. */
static const char *field_at(const char *text, unsigned field)
{
	for (; field > FIRST_FIELD && *text; field--) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return text;
}

static long number_at(const char *text, unsigned field)
{
	return strtol(field_at(text, field), NULL, 10);
}

bool proc_stat_read(int32_t pid, struct proc_stat *stat)
{
	char path[32], text[2048];
	const char *rest;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	/* "pid (comm) state ppid ...". A comm may contain anything, also ")". */
	rest = strrchr(text, ')');
	if (!rest || rest[1] != ' ')
		return false;
	rest += 2;
	*stat = (struct proc_stat){
	    .state = *rest,
	    .ended = *rest == 'Z' || *rest == 'X',
	    .exits = (unsigned long)number_at(rest, FIELD_FLAGS) & PF_EXITING &&
		     number_at(rest, FIELD_THREADS) <= 1,
	    .parent = (int32_t)number_at(rest, FIELD_PARENT),
	    .exit_code = (int)number_at(rest, FIELD_EXIT_CODE),
	};
	return true;
}
