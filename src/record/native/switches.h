/* SPDX-License-Identifier: MIT */
/*
 * When recorded threads left their processors and came back: the kernel's PERF_RECORD_SWITCH, where
 * the recorder may ask for them (perf_event_paranoid of 2 or less, CAP_PERFMON). They go into the
 * recording as perf writes them. Each processor has an event for the first thread, which what it
 * creates inherits.
 */
#ifndef PTAH_RECORD_NATIVE_SWITCHES_H
#define PTAH_RECORD_NATIVE_SWITCHES_H

#include "perfdata/writer.h"

struct switches;

struct thread_switch {
	struct perfdata_turn turn; /* the thread, and on which processor it was */
	uint64_t tsc;
	bool out, preempted;
};

/* NULL: no memory. */
struct switches *switches_new(void);
void switches_free(struct switches *switches);

/*
 * From now on the switches of all threads of a process are recorded, and those of what they create;
 * with `alone` of new threads only, not of new processes. False: the kernel does not allow it.
 */
bool switches_follow_all(struct switches *switches, int32_t pid, bool alone);

/* Takes what has happened since the last call, in the order of time. Returns how many. */
size_t switches_take(struct switches *switches, struct thread_switch **list);

/*
 * In a pause: keeps what was taken last, of each thread the last switch alone. What comes after the
 * pause begins where they are then: switches_take_held().
 */
void switches_hold(struct switches *switches);
size_t switches_take_held(struct switches *switches, struct thread_switch **list);

/* Some were lost, because they came faster than they were taken. */
bool switches_lost(const struct switches *switches);

#endif
