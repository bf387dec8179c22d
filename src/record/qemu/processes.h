/* SPDX-License-Identifier: MIT */
/*
 * The processes that are recorded. Most of them are not children of the recorder, so the system
 * reports their end only through pidfds.
 */
#ifndef PTAH_RECORD_QEMU_PROCESSES_H
#define PTAH_RECORD_QEMU_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process {
	int32_t pid, parent;
	int fd; /* pidfd; -1: the system gave none */
	bool dead;
	bool told; /* native: it is known how it ended, or that it exits */
	char name[16];
	/* The program it may have become by an execve that could not be followed; NULL: none. */
	char *native;
};

struct processes {
	struct process *list;
	size_t count, capacity;
	void *polled; /* struct pollfd, as many as fit in `list` */
};

/* Adds a process; there must be none with this pid. NULL: out of memory. */
struct process *processes_add(struct processes *p, int32_t pid, int32_t parent, const char *name);
/* NULL: there is none. */
struct process *processes_find(const struct processes *p, int32_t pid);
/* Waits up to timeout_ms for a process to end, and marks those that have ended. */
void processes_wait(struct processes *p, int timeout_ms);
/* Removes the i-th; the last one takes its index. */
void processes_remove(struct processes *p, size_t i);
void processes_free(struct processes *p);

void process_set_name(struct process *process, const char *name);

#endif
