/* SPDX-License-Identifier: MIT */
/* The threads of a process, stopped all together by ptrace. For attach.c and detach.c. */
#ifndef PTAH_RECORD_NATIVE_THREADS_H
#define PTAH_RECORD_NATIVE_THREADS_H

#include "record/native/tracee.h"

#ifdef __x86_64__

enum thread_state {
	THREAD_STANDS = 0, /* at a PTRACE_EVENT_STOP */
	THREAD_RUNS,	   /* it is traced; or it could not be stopped */
	THREAD_OUT,	   /* detach.c: it has ended its trace */
	THREAD_GONE,	   /* it has ended, or is not traced any more */
};

struct thread {
	pid_t tid;
	enum thread_state state;
	struct user_regs_struct regs; /* where it was stopped */
	uint64_t mask;		      /* of signals */
	struct native_rseq rseq;
	uint32_t interrupted; /* NATIVE_RESTART_...: it was stopped in this call; 0: in none */
	uint64_t call;
	uint64_t out; /* address of its struct native_out */
};

struct threads {
	pid_t pid;
	struct thread *list;
	size_t count, room;
	/* Called again and again while threads are waited for; may be NULL. */
	void (*serve)(void *context);
	void *context;
	bool some_may_run; /* threads that cannot be stopped are left running */
	unsigned long options;
	const int64_t *late; /* haste.h */
};

/* Stops all threads, and reads their registers. */
int threads_stop(struct threads *t, struct ptah_message *why);
/* NULL: out of memory. */
struct thread *threads_add(struct threads *t, pid_t tid);
/* The first one that stands. */
struct thread *threads_first(struct threads *t);
/* Those that stand go on with the registers and masks that they were stopped with. */
void threads_release(struct threads *t);
void threads_free(struct threads *t);
/* Reads the registers, and what the thread was stopped in. False: it is gone. */
bool threads_read(struct thread *t);
/*
 * From a stop at a system call to one at PTRACE_EVENT_STOP, from which interrupted calls are
 * restarted. False: it is gone.
 */
bool threads_to_event(struct thread *t, const int64_t *late);
/* Whether a thread that is at a SYSCALL_STOP is about to make the call. */
bool threads_is_entry(pid_t tid);
/* Answers NATIVE_CALL, at whose entry the thread is. */
void threads_answer(pid_t tid, int64_t answer);
/* The address of a SYSCALL instruction in the process's vDSO. 0: there is none. */
uint64_t threads_find_site(pid_t pid);

#endif

#endif
