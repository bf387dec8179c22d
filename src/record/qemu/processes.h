/* SPDX-License-Identifier: MIT */
/*
 * The processes that are recorded. Most are not our children, so that the
 * system tells us of their end by descriptors alone.
 */
#ifndef PTAH_RECORD_QEMU_PROCESSES_H
#define PTAH_RECORD_QEMU_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct process {
	int32_t pid, parent;
	int fd; /* pidfd; -1: none could be had */
	bool dead;
	char name[16];
	char *native; /* what it may have become that is not recorded; NULL: nothing */
};

struct processes {
	struct process *list;
	size_t count, capacity;
	void *polled; /* struct pollfd, as many as fit in `list` */
};

/* NULL: out of memory. None with that number may be there. */
struct process *processes_add(struct processes *p, int32_t pid, int32_t parent, const char *name);
/* NULL: not known. */
struct process *processes_find(const struct processes *p, int32_t pid);
/* Waits up to timeout_ms for one to end, and marks those that have. */
void processes_wait(struct processes *p, int timeout_ms);
/* Forgets the i-th; the last takes its place. */
void processes_remove(struct processes *p, size_t i);
void processes_free(struct processes *p);

void process_set_name(struct process *process, const char *name);

#endif
