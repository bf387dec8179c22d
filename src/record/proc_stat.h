/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process or a thread in /proc/PID/stat (proc(5)). */
#ifndef PTAH_RECORD_PROC_STAT_H
#define PTAH_RECORD_PROC_STAT_H

#include <stdbool.h>
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

#endif
