/* SPDX-License-Identifier: MIT */
/*
 * When threads were on no processor, as far as the recording has their context switches
 * (PERF_RECORD_SWITCH of the threads that are traced).
 */
#ifndef PTAH_SESSION_ABSENCES_H
#define PTAH_SESSION_ABSENCES_H

#include "session/session.h"

/* When a thread was on no processor, by time. */
struct absences {
	int32_t tid;
	struct absence {
		uint64_t from, to;	   /* to UINT64_MAX: its end is not known (yet) */
		uint64_t before;	   /* ticks of all absences before it, */
		uint64_t preempted_before; /* and of those in which the thread could run */
		bool preempted;
	} * list;
	size_t count, capacity;
};

/* The record of a switch of the thread, in the order of time. 0 or PTAH_E_NOMEM. */
int absences_take(struct ptah_session *session, const struct perfdata_record *record, uint64_t tsc);

void absences_free(struct ptah_session *session);

/* Those of a thread; NULL: none are known. */
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
