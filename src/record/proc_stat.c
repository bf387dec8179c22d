/* SPDX-License-Identifier: MIT */
/* Reads /proc of a process: whether it still runs, whose child it is, its threads (proc_stat.h). */
#include "record/proc_stat.h"

#include "support/list.h"

#include <dirent.h>
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

bool proc_status_line(const char *root, int32_t tid, const char *name, char *text, size_t size)
{
	const size_t n = strlen(name);
	char path[4096], *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/%d/status", root, tid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &room, f) > 0) {
		found = !strncmp(line, name, n) && line[n] == ':';
		if (found)
			snprintf(text, size, "%.*s", (int)strcspn(line + n + 1, "\n"),
				 line + n + 1);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

uint64_t proc_status_number(const char *root, int32_t tid, const char *name, int base)
{
	char text[64];

	return proc_status_line(root, tid, name, text, sizeof(text)) ? strtoull(text, NULL, base)
								     : UINT64_MAX;
}

size_t proc_list_numbers(const char *path, int32_t **numbers)
{
	size_t n = 0, capacity = 0;
	struct dirent *entry;
	DIR *folder = opendir(path);

	*numbers = NULL;
	while (folder && (entry = readdir(folder))) {
		long value = strtol(entry->d_name, NULL, 10);

		if (value <= 0 || value > INT32_MAX)
			continue;
		if (!LIST_ROOM(*numbers, n, capacity))
			break;
		(*numbers)[n++] = (int32_t)value;
	}
	if (folder)
		closedir(folder);
	return n;
}

size_t proc_threads(const char *root, int32_t pid, int32_t **tids)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/proc/%d/task", root, pid);
	return proc_list_numbers(path, tids);
}
