/* SPDX-License-Identifier: MIT */
/*
 * When threads were on no processor, as far as the recording has their context switches
 * (PERF_RECORD_SWITCH of the threads that are traced).
 */
#ifndef PTAH_SESSION_ABSENCES_H
#define PTAH_SESSION_ABSENCES_H

#include "session/session.h"

/* The record of a switch of the thread, in the order of time. 0 or PTAH_E_NOMEM. */
int absences_take(struct ptah_session *session, const struct perfdata_record *record, uint64_t tsc);

/* How many ticks the thread was off its processor before a time; thread NULL: it is not known. */
uint64_t absences_before(const struct thread *thread, uint64_t tsc);

/* The time at which the thread had been on its processor for so many ticks, as absences_on() says.
 */
uint64_t absences_when(const struct thread *thread, uint64_t on);

/* A clock that stands still while the thread is off its processor. */
static inline uint64_t absences_on(const struct thread *thread, uint64_t tsc)
{
	return tsc - absences_before(thread, tsc);
}

/* The thread of this number, if it has absences; or NULL. */
const struct thread *absences_of(const struct ptah_session *session, int32_t tid);

#endif
