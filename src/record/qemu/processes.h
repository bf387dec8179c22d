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

struct ptah_recorder;

struct process {
	int32_t pid, parent;
	int fd; /* pidfd; -1: the system gave none */
	bool dead;
	bool end_known;	 /* it has said that it ends, or the kernel has */
	bool end_told;	 /* to whom it concerns; not before all its trace has come */
	int wait_status; /* how it ends, as of waitpid() */
	char name[16];
	/* The program it may have become by an execve that could not be followed; NULL: none. */
	char *native;
	size_t next; /* in its bucket: an index, counted from 1; 0: none */
	/*
	 * Of the recorder native: the number of the memory that it has; that of the program whose
	 * exits it describes, and whether a child may log them, too; it runs on untraced.
	 */
	unsigned memory, program;
	bool forked;
	bool untraced;
};

struct processes {
	struct process *list;
	size_t count, capacity;
	void *polled; /* struct pollfd, as many as fit in `list` */
	/* `capacity` times the first one of those whose pids have the same remainder; as `next`. */
	size_t *buckets;
};

/* Adds a process; there must be none with this pid. NULL: out of memory. */
struct process *processes_add(struct processes *p, int32_t pid, int32_t parent, const char *name);
/* NULL: there is none. */
struct process *processes_find(const struct processes *p, int32_t pid);
/* Waits up to timeout_ms for a process to end, and marks those that have ended. */
void processes_wait(struct processes *p, int timeout_ms);
/*
 * It is known how a process ends, mostly from itself: it may take a while until it is dead, where
 * it writes a core dump. recorder_process_ended() is called when its trace has been taken.
 */
void processes_set_end(struct processes *p, struct ptah_recorder *r, int32_t pid, int wait_status);
/*
 * One that a signal ended may have said nothing, and who waits for it may do so late, or never: if
 * it is dead and its end not known, the kernel is asked.
 */
void process_find_end(struct process *process, struct ptah_recorder *r);
/* All trace of the process has been taken: tells how it ended, if that is known. */
void process_tell_end(struct process *process, struct ptah_recorder *r);
/* Removes the i-th; the last one takes its index. */
void processes_remove(struct processes *p, size_t i);
void processes_free(struct processes *p);

/* Whether the thread runs, or would if a processor were free: it is not stopped, and waits for
 * nobody. */
bool process_thread_runs(int32_t tid);

void process_set_name(struct process *process, const char *name);

#endif
