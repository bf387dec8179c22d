/* SPDX-License-Identifier: MIT */
/* System calls and waits of a timeline: what its slices without tracing are called, and say. */
#ifndef PTAH_CLI_EXPORT_WAITS_H
#define PTAH_CLI_EXPORT_WAITS_H

#include "export_view.h"
#include "export/timeline.h"

#include <ptah/calls.h>

struct export_waits;

/* Where a thread is in its samples and waits. All 0: at the beginning. */
struct export_wait_place {
	size_t sample, wait; /* the next ones; SIZE_MAX: there are none */
	bool begun;
};

/* NULL in *waits: the recording has none. 0 or an error. */
int export_waits_new(struct exporting *e, struct export_waits **waits);
void export_waits_free(struct export_waits *waits);

/*
 * A thread's tracing goes off for a system call at `time`. Sets the event's name and details from
 * the call, whose texts live as long as `waits`; they stay as they are if it is not known. Called
 * with growing times for each thread.
 */
void export_waits_describe(struct export_waits *waits, struct export_wait_place *place, int32_t tid,
			   uint64_t time, struct timeline_event *event,
			   struct timeline_detail *details);

/* wait_end_of_thread(), for `ended` of struct ptah_call_reader_config. */
uint64_t export_waits_end(const struct export_waits *waits, const struct ptah_call_thread *thread,
			  uint64_t tsc);

#endif
