/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process or a thread in /proc/PID/stat, status and task (proc(5)). */
#ifndef PTAH_RECORD_PROC_STAT_H
#define PTAH_RECORD_PROC_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_stat {
	char state; /* R: runs, S: sleeps, D: waits for a device, T: stopped, Z: a zombie, ... */
	bool ended; /* its parent has not waited for it yet */
	/* Its only thread runs none of its code any more. Its memory goes before it has ended. */
	bool exits;
	int32_t parent;
	/* As of waitpid(), of a process that has ended; 0 also where the kernel does not tell it.
	 */
	int exit_code;
};

/* False: there is no such process. */
bool proc_stat_read(int32_t pid, struct proc_stat *stat);

/*
 * What follows "NAME:" in /proc/TID/status, without the end of the line. False: there is no such
 * thread, or no such line. `root` is a prefix of /proc, "" outside tests.
 */
bool proc_status_line(const char *root, int32_t tid, const char *name, char *text, size_t size);

/* The number there, which is written to this base. UINT64_MAX: there is none. */
uint64_t proc_status_number(const char *root, int32_t tid, const char *name, int base);

/*
 * The threads of a process; the caller frees *tids. Returns their number, 0 when there is no such
 * process.
 */
size_t proc_threads(const char *root, int32_t pid, int32_t **tids);

/* The entries of a folder whose names are numbers, in the same way. */
size_t proc_list_numbers(const char *path, int32_t **numbers);

#endif
