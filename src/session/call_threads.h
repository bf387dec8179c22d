/* SPDX-License-Identifier: MIT */
/* The threads of a call reader, each with its call machine. */
#ifndef PTAH_SESSION_CALL_THREADS_H
#define PTAH_SESSION_CALL_THREADS_H

#include "session/session.h"

#include "calls/adder.h"
#include "calls/calls.h"

#include <ptah/calls.h>

struct call_threads;

struct call_thread {
	struct ptah_call_thread info;
	const struct call_threads *all;
	/* Its machine: one that lists marks or, for trees, one that adds to its tree. */
	struct calls_marks *calls;
	struct calls_adder *adder;
	struct ptah_call_tree *tree;
	/*
	 * Its core cycles so far, and how many more they are than those of the stream that it runs
	 * in.
	 */
	uint64_t cycles, more_cycles;
	size_t process; /* index; SESSION_NONE: unknown */
	size_t stream;	/* SESSION_NONE: it may run in several streams */
	/* The time of its process's next execve, and the number of changes up to it. */
	uint64_t exec;
	size_t changes, last_change;
	/*
	 * It may have run unseen from each of these times on: its next turn that begins there or
	 * later begins with a loss. A heap, the earliest first; none is before `born`, when it
	 * began to execute its program.
	 */
	uint64_t *unseen;
	size_t unseen_count, unseen_capacity;
	uint64_t born;
	uint64_t code_changes; /* of the reader, that the machine knows of */
	bool begun, ended;
	struct call_thread *older; /* with the same hash */
};

struct call_threads {
	const struct ptah_session *session;
	struct ptah_functions *functions;
	const struct ptah_call_tree_config *trees; /* NULL: they list marks */
	bool steps;				   /* or steps */
	struct call_thread **list;		   /* by number */
	size_t count, capacity;
	struct table by_hash;
};

void call_threads_init(struct call_threads *all, const struct ptah_session *session,
		       struct ptah_functions *functions, const struct ptah_call_tree_config *trees);
void call_threads_fini(struct call_threads *all);

/* A thread whose trace the stream is: a new one for each stream. NULL: out of memory. */
struct call_thread *call_threads_new(struct call_threads *all, size_t stream,
				     const struct ptah_thread *who);

/*
 * The thread of a turn in a stream per CPU, the unknown one if NULL; it is created if there is
 * none. NULL: out of memory.
 */
struct call_thread *call_threads_find(struct call_threads *all, size_t stream,
				      const struct turn *turn);

/*
 * The thread that continues in the place of one that executes another program. NULL: out of memory.
 */
struct call_thread *call_threads_exec(struct call_threads *all, struct call_thread *before);

/*
 * From the turn `from` on, up to `to`, it is not known which thread ran in the stream: each that
 * may have run has a loss in its next turn.
 */
int call_threads_lose_turns(struct call_threads *all, size_t stream, size_t from, size_t to);

/* The thread runs from `tsc` on; what its process executed before concerns it no longer. */
void call_thread_begin(struct call_thread *t, uint64_t tsc);

/* The session has grown: the thread's process may have another execve. */
void call_thread_find_exec(struct call_thread *t);

/* Frees its machine; the tree stays. */
void call_thread_end(struct call_thread *t);

/* The functions of either machine (calls.h). */
uint64_t call_thread_time(const struct call_thread *t);
void call_thread_wait(struct call_thread *t, uint64_t until);
int call_thread_lost(struct call_thread *t);
int call_thread_exec(struct call_thread *t, uint64_t tsc);
void call_thread_code_changed(struct call_thread *t);

/* Whether a turn of the thread that began at `tsc` begins with a loss. */
bool call_thread_is_lost(struct call_thread *t, uint64_t tsc);

#endif
