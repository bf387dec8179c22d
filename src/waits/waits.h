/* SPDX-License-Identifier: MIT */
/*
 * What the files that find waits share: waits.c lists the calls that may wait and keeps those that
 * did; futexes.c, channels.c (pipes, sockets and the like), locks.c (of files, and what System V
 * has) and endings.c (exits, signals) find out who ended them; switches.c knows when threads ran;
 * stacks.c what was on their stacks.
 */
#ifndef PTAH_WAITS_WAITS_H
#define PTAH_WAITS_WAITS_H

#include "support/table.h"
#include "session/absences.h"
#include "waits/syscalls.h"

#include <ptah/waits.h>

#define WAITS_NONE UINT32_MAX

struct wait {
	uint8_t kind, how;
	uint16_t flags;
	bool is_sure;	/* it waited; false: nobody knows */
	bool is_none;	/* it did not */
	bool has_waker; /* waker_tid is known */
	int32_t pid, tid;
	uint64_t begin, end, woken, ran;
	uint32_t call, waker_call; /* WAITS_NONE: none */
	uint32_t ready;		   /* of a poll: what ended it, a struct member; 0: not known */
	int32_t waker_pid, waker_tid, holder;
	uint32_t stacks[PTAH_WAIT_STACK_MAX]; /* of stacks.c: numbers of nodes; 0: not known */
	uint32_t next;			      /* of the thread */
};

/* A wake-up that the kernel recorded. */
struct wakeup {
	int32_t tid, waker_tid, waker_pid;
	uint64_t time;
};

/* A call that was being executed; see stacks.c. */
struct stack_node {
	uint32_t parent, depth; /* depth: with its callers; of number 0 it is 0 */
	int32_t space;
	uint64_t function, call, tsc;
};

struct ptah_waits {
	const struct ptah_session *session;
	struct ptah_syscalls *calls;
	struct wait *waits;
	size_t count, capacity;
	uint64_t last_time;	       /* of the recording */
	struct absence_lists absences; /* of threads whose switches are recorded */
	struct wakeup *wakeups;	       /* by thread, then by time */
	size_t wakeup_count, wakeup_capacity;
	struct table pids;	  /* of all threads that made system calls, by tid */
	struct table threaded;	  /* processes of which several threads did */
	uint32_t *by_thread;	  /* all waits, by thread, then by time */
	struct stack_node *nodes; /* number 0 is none */
	size_t node_count, node_capacity;
};

static inline const struct system_call *wait_call(const struct ptah_waits *w,
						  const struct wait *wait)
{
	return &w->calls->calls[wait->call];
}

/* Its return was lost: the thread's next call says only that it was over by then. */
static inline bool call_is_cut(const struct system_call *c)
{
	return !(c->flags & PTAH_SYSCALL_RETURNED) && c->end;
}

/* When a call ended, at the latest; one that did not, at the end of the recording. */
static inline uint64_t call_end(const struct ptah_waits *w, const struct system_call *c)
{
	return c->flags & PTAH_SYSCALL_RETURNED || c->end ? c->end : w->last_time;
}

/* The wait in a call, as long as waits are in the order of their calls. NULL: it is none. */
struct wait *wait_in(const struct ptah_waits *w, size_t count, uint32_t call);

/* Whether a call writes to its descriptor; such a one waits only for room. */
bool call_writes(int64_t number);

/* The wait was ended by this call. */
void wait_set_waker(struct ptah_waits *w, struct wait *wait, uint32_t call);

/* Each finds out who ended waits of its kinds. 0 or PTAH_E_NOMEM. */
int futexes_match(struct ptah_waits *w);

/* Whether a call, which may be any, could have woken the wait: it woke at the futex of the wait. */
bool futexes_may_wake(const struct ptah_waits *w, uint32_t call, const struct wait *wait);
int channels_match(struct ptah_waits *w);
int locks_match(struct ptah_waits *w);
int endings_match(struct ptah_waits *w);

/* switches.c: reads context switches and wake-ups of the samples. */
int switches_read(struct ptah_waits *w);
/* The last wake-up of a thread in (from, to]. NULL: none. */
const struct wakeup *switches_wakeup(const struct ptah_waits *w, int32_t tid, uint64_t from,
				     uint64_t to);

/* stacks.c: reads the calls of all threads. */
int stacks_read(struct ptah_waits *w, const struct ptah_waits_config *config);

#endif
