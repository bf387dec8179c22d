/* SPDX-License-Identifier: MIT */
/*
 * When threads were on no processor, as far as their context switches are known. A session has those
 * of the threads that are traced (PERF_RECORD_SWITCH), by the TSC; waits have those of all samples,
 * by perf's clock.
 */
#ifndef PTAH_SESSION_ABSENCES_H
#define PTAH_SESSION_ABSENCES_H

#include "support/table.h"

#include <stdbool.h>

struct ptah_session;
struct perfdata_record;

/* When a thread was on no processor, by time. */
struct absences {
	int32_t pid, tid;
	struct absence {
		uint64_t from, to;	   /* to UINT64_MAX: its end is not known (yet) */
		uint64_t before;	   /* ticks of all absences before it, */
		uint64_t preempted_before; /* and of those in which the thread could run */
		bool preempted;
		/* Switches were lost: of this time nothing is known, and it counts for no sum. */
		bool lost;
	} * list;
	size_t count, capacity;
};

/* Of all threads. Zeros at first. */
struct absence_lists {
	struct absences *threads;
	size_t count, capacity;
	struct table by_tid;
};

/* Less than that between two switches of which one was lost says nothing: nanoseconds or ticks. */
#define ABSENCES_NEAR 20000

/*
 * A thread leaves its processor, or comes back to one; in the order of time. pid -1: not known. 0 or
 * PTAH_E_NOMEM.
 */
int absences_switch(struct absence_lists *lists, int32_t pid, int32_t tid, uint64_t time, bool out,
		    bool preempted);
void absences_free(struct absence_lists *lists);

/* Those of a thread; NULL: its switches are not known. */
struct absences *absences_find(const struct absence_lists *lists, int32_t tid);

/* The number of the first one that ends after a time. */
size_t absences_after(const struct absences *absences, uint64_t time);

/* Whether switches of this time are missing. */
bool absences_lost(const struct absences *absences, uint64_t from, uint64_t to);

/* The record of a switch of a thread of a session. 0 or PTAH_E_NOMEM. */
int absences_take(struct ptah_session *session, const struct perfdata_record *record, uint64_t tsc);

/* Those of a thread of a session; NULL: none are known. */
const struct absences *absences_of(const struct ptah_session *session, int32_t tid);

/* How many ticks the thread was off its processor before a time; NULL: it never was. */
uint64_t absences_before(const struct absences *absences, uint64_t tsc);

/* How many ticks of a part it was off its processor and could not have run. NULL: none. */
uint64_t absences_waited(const struct absences *absences, uint64_t from, uint64_t to);

/*
 * The time at which the thread had been on its processor for so many ticks, as absences_on() says.
 * *until: up to so many ticks the difference of the two is the same.
 */
uint64_t absences_when(const struct absences *absences, uint64_t on, uint64_t *until);

/* A clock that stands still while the thread is off its processor. */
static inline uint64_t absences_on(const struct absences *absences, uint64_t tsc)
{
	return tsc - absences_before(absences, tsc);
}

#endif
