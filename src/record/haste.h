/* SPDX-License-Identifier: MIT */
/*
 * Waits for programs, which end when there is no time left for them. `late` is the time, in
 * nanoseconds of CLOCK_MONOTONIC, from which on nothing is waited for. A signal handler or another
 * thread may set it at any moment (ptah_recorder_hurry()): so no wait sleeps longer than it may go
 * unnoticed. 0, or no pointer: there is time.
 */
#ifndef PTAH_RECORD_HASTE_H
#define PTAH_RECORD_HASTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

bool haste_is_late(const int64_t *late);
/* Between two looks at something that is about to happen. *looks: so many until now. */
void haste_nap(unsigned *looks);
/* As waitpid(), also after signals. 0: it is late. */
pid_t haste_waitpid(pid_t pid, int *status, int options, const int64_t *late);

#endif
