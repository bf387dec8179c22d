/* SPDX-License-Identifier: MIT */
/*
 * Pausing threads, and letting them go on. Each looks at native_header.paused when it comes back
 * from a system call. Those that run have to be interrupted, but never in a call of the program,
 * which may end with EINTR. So such a thread is stopped by ptrace for a moment, and gets the
 * runtime's own signal if it is in no call; ptrace is not used where there is no pause. All calls
 * have to come from the same thread.
 */
#ifndef PTAH_RECORD_NATIVE_PAUSES_H
#define PTAH_RECORD_NATIVE_PAUSES_H

#include "record/native/streams.h"

#define NATIVE_STOPS NATIVE_LIMIT(256, 12) /* threads that are traced at a time */

struct native_pauses {
	struct native_streams *streams;
	bool on;
	bool over;   /* nobody is interrupted any more */
	int64_t set; /* nanoseconds: when `on` was set */
	/*
	 * Whether the thread is the process's, may be traced, and is not traced for another reason.
	 * If not, it follows at its next system call.
	 */
	bool (*may_trace)(void *context, int32_t pid, int32_t tid);
	/* A child of this process has ended, and its status was taken. */
	void (*ended)(void *context, int32_t pid, int wait_status);
	void *context;
	const int64_t *late; /* haste.h */
	struct native_pause {
		uint64_t control;   /* address of the process's struct native_control */
		uint64_t gs_base;   /* of the thread */
		bool taken;	    /* what it had written before its call was taken */
		int64_t next, wait; /* nanoseconds: when it is interrupted again, and the time after
				       that */
	} list[NATIVE_SLOTS];	    /* by slot */
	/*
	 * Threads that are traced, until they stop or have ended, by which time their slots may be
	 * those of others.
	 */
	struct native_stop {
		int32_t pid, tid; /* tid 0: none */
		unsigned slot;
	} stops[NATIVE_STOPS];
};

/* A thread has begun: NATIVE_MESSAGE_THREAD. */
void pauses_begin_thread(struct native_pauses *p, unsigned slot, uint64_t control,
			 uint64_t gs_base);
void pauses_set(struct native_pauses *p, bool on);
/*
 * Interrupts threads that have not followed yet, a while apart. Returns whether all have, or are in
 * system calls. Of those, what they have written is taken. To be called again and again.
 */
bool pauses_follow(struct native_pauses *p);
/* Whether it is of no use any more to wait until all threads have followed. */
bool pauses_are_late(const struct native_pauses *p);
/* Whether the thread is traced here: nobody else may wait for it then. */
bool pauses_traces(const struct native_pauses *p, int32_t tid);
/* Traces no thread of the process any more when it returns. 0: of all processes. */
void pauses_end(struct native_pauses *p, int32_t pid);

#endif
