/* SPDX-License-Identifier: MIT */
/* What /proc says of a process: whether a list of generated code is its own depends on that. */
#ifndef PTAH_PERFDATA_JIT_PROCESS_H
#define PTAH_PERFDATA_JIT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Reads the beginning of a file of /proc/PID, as a string. False: there is none. */
bool perfdata_read_proc(int32_t pid, const char *name, char *text, size_t size);

/*
 * The time of day at which the process was started: field 22 of its stat, in ticks since the boot.
 * Far in the future, if there is no such process.
 */
struct timespec perfdata_process_start(int32_t pid);

/* The number that the process has in its own namespace, which may be the same. */
int32_t perfdata_inner_pid(int32_t pid);

#endif
