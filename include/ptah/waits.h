/* SPDX-License-Identifier: MIT */
/*
 * Waits: where threads of a recording waited, for what, and who ended it.
 *
 *	ptah_waits_new(session, &config, &waits);
 *	for (i = 0; ptah_waits_get(waits, i, &wait) >= 0; i++)
 *		use(&wait);
 *	ptah_waits_free(waits);
 *
 * They are found in the system calls of the recording and, where it has them, in its
 * context switches (PERF_RECORD_SWITCH, sched:sched_switch) and wake-ups (sched:sched_wakeup,
 * sched:sched_waking):
 *
 * - A FUTEX_WAKE ends as many waits at its address as it returned, those that began first.
 * - A read from a pipe or a socket waits for the call that wrote its first byte: bytes are counted.
 *   A write to a full pipe waits for the last read before its end.
 * - A lock of a file, a semaphore of System V and a message end with the last call that gave back or
 *   sent one.
 * - A wait for the end of a thread or a process ends with its exit; one that a signal ends, with the
 *   kill() that sent it.
 * - Where a wake-up is recorded, it says who ended a wait that these rules leave open.
 *
 * Everything else ends by the kernel (a disk, a network, a timer), or by something that was not
 * recorded, and says so. Nothing is guessed: PTAH_WAIT_SEVERAL marks what had more candidates.
 *
 * Without context switches it is not seen whether a thread slept. Then a call that could have
 * waited and took less than PTAH_WAITS_SHORT nanoseconds is no wait, unless its waker is known; and
 * what a thread waited for a processor outside of waits is not known. A call whose return was lost,
 * since the thread makes another one, is a wait only where the switches say that it slept.
 *
 * The order is that of the beginnings. The waits refer to their session; any number of threads may
 * read them. Memory: in proportion to the number of samples.
 */
#ifndef PTAH_WAITS_H
#define PTAH_WAITS_H

#include <ptah/session.h>

PTAH_BEGIN_DECLS

/*
 * System calls: those of a recording, from its samples of raw_syscalls:sys_enter and sys_exit.
 *
 *	ptah_syscalls_new(session, &calls);
 *	for (i = 0; ptah_syscalls_get(calls, i, &call) >= 0; i++)
 *		puts(ptah_syscall_text(calls, i, text, sizeof(text)));
 *	ptah_syscalls_free(calls);
 *
 * They are in the order in which they began. What their arguments point to is known as far as the
 * recorder has copied it (the event ptah:sys_data): paths, addresses of sockets, the descriptors
 * of a new pipe, and the word of a futex; never what is read or written. All of it comes from the
 * recorded program, which may write any character there. The calls refer to their session, which
 * must live as long as they do. They do not change: any number of threads may read them.
 */

struct ptah_syscalls;

/* The recording has no system calls: there are none, which is no error. */
PTAH_API int ptah_syscalls_new(const struct ptah_session *session, struct ptah_syscalls **calls);
PTAH_API void ptah_syscalls_free(struct ptah_syscalls *calls);

PTAH_API size_t ptah_syscalls_count(const struct ptah_syscalls *calls);

enum ptah_syscall_flags {
	PTAH_SYSCALL_ENTERED = 1 << 0, /* its beginning is known: `begin` and the arguments */
	/* It returned: `end` and `result` are known. Calls such as exit_group do not. */
	PTAH_SYSCALL_RETURNED = 1 << 1,
};

/* What a descriptor is. */
enum ptah_descriptor_kind {
	PTAH_DESCRIPTOR_UNKNOWN,
	PTAH_DESCRIPTOR_FILE, /* `name` is its path */
	PTAH_DESCRIPTOR_PIPE,
	PTAH_DESCRIPTOR_SOCKET, /* `name` is the address that it was connected or bound to */
	PTAH_DESCRIPTOR_EVENTFD,
	PTAH_DESCRIPTOR_EPOLL,
	PTAH_DESCRIPTOR_TIMERFD,
	PTAH_DESCRIPTOR_SIGNALFD,
	PTAH_DESCRIPTOR_INOTIFY,
	PTAH_DESCRIPTOR_PIDFD, /* a process */
	PTAH_DESCRIPTOR_QUEUE, /* a message queue of POSIX */
	PTAH_DESCRIPTOR_KIND_MAX
};

struct ptah_syscall {
	size_t size;	/* sizeof(struct ptah_syscall) */
	unsigned flags; /* enum ptah_syscall_flags */
	int32_t pid, tid;
	int64_t number, result; /* as the program sees it: an error is a negative errno */
	uint64_t args[6];
	uint64_t begin, end; /* nanoseconds of perf's clock; 0: not known */
	uint64_t ip;	     /* the address after the instruction */
	/* What argument `data_arg` points to; NULL: it was not copied. Lives as long as the
	 * session. */
	const uint8_t *data;
	size_t data_size;
	unsigned data_arg;
	/* The descriptor in the first argument, if that is one, as of the beginning. */
	unsigned descriptor; /* enum ptah_descriptor_kind */
	uint32_t object;     /* the same number: the same file, pipe or socket; 0: not known */
};

/* PTAH_E_MISSING: there is no i-th. */
PTAH_API int ptah_syscalls_get(const struct ptah_syscalls *calls, size_t i,
			       struct ptah_syscall *call);

/*
 * The system call that begins with this sample (ptah_session_sample()), or ends with it if its
 * beginning is not known. SIZE_MAX: none does. *part, unless `part` is NULL: whether the sample is a
 * part of system calls: their beginnings, ends and data.
 */
PTAH_API size_t ptah_syscalls_find(const struct ptah_syscalls *calls, size_t sample, bool *part);

/*
 * Writes the call as strace would: "openat(AT_FDCWD, "/tmp/x", O_RDONLY) = 3 <0.000012>". What could
 * disturb a terminal is escaped. Returns `text`, which is cut if it is too short.
 */
PTAH_API const char *ptah_syscall_text(const struct ptah_syscalls *calls, size_t i, char *text,
				       size_t size);

/* "openat"; NULL: the kernel of x86-64 has none of this number that Ptah knows. */
PTAH_API const char *ptah_syscall_name(int64_t number);

#define PTAH_WAITS_SHORT 20000

/* What is waited for. */
enum ptah_wait_kind {
	PTAH_WAIT_FUTEX,  /* a mutex, a condition variable, a semaphore, ... */
	PTAH_WAIT_THREAD, /* the end of a thread */
	PTAH_WAIT_CHILD,  /* the end of a process */
	PTAH_WAIT_PIPE,
	PTAH_WAIT_SOCKET,
	PTAH_WAIT_EVENTFD,
	PTAH_WAIT_POLL,	 /* one of several descriptors */
	PTAH_WAIT_SLEEP, /* a time */
	PTAH_WAIT_SIGNAL,
	PTAH_WAIT_FILE,	   /* a file, or the disk */
	PTAH_WAIT_LOCK,	   /* a lock on a file */
	PTAH_WAIT_MESSAGE, /* semaphores of System V, and message queues */
	/* It slept in another system call; or it is not known where, because there are none in the
	 * recording. */
	PTAH_WAIT_CALL,
	PTAH_WAIT_PREEMPTED, /* it could run, but other threads did */
	PTAH_WAIT_FAULT,     /* it slept outside of system calls: for a page of memory */
	PTAH_WAIT_INOTIFY,   /* a change of a file */
	/* It slept outside of system calls, recorded natively: for a page, or for the recorder. */
	PTAH_WAIT_OUTSIDE,
	PTAH_WAIT_KIND_MAX
};

/* How it ended. */
enum ptah_wait_end {
	PTAH_WAIT_END_UNKNOWN, /* by the kernel, or by what is not recorded */
	PTAH_WAIT_END_WOKEN,   /* by the thread `waker_tid` */
	PTAH_WAIT_END_TIME,    /* the time was over */
	PTAH_WAIT_END_SIGNAL,  /* a signal came; by `waker_tid`, if it is known */
	PTAH_WAIT_END_NEVER,   /* it lasted until the end of the recording or the thread */
	PTAH_WAIT_END_MAX
};

enum ptah_wait_flags {
	PTAH_WAIT_SEVERAL = 1 << 0, /* several threads may have ended it; this was the first */
};

/* Times are nanoseconds of perf's clock; 0: not known. */
struct ptah_wait {
	size_t size;	/* sizeof(struct ptah_wait) */
	uint8_t kind;	/* enum ptah_wait_kind */
	uint8_t how;	/* enum ptah_wait_end */
	uint16_t flags; /* enum ptah_wait_flags */
	int32_t pid, tid;
	uint64_t begin, end;
	/* When it was ended: from there on the thread waited for a processor, until `ran`. */
	uint64_t woken, ran;
	size_t call;		      /* of ptah_waits_syscalls(), SIZE_MAX: none */
	uint64_t address;	      /* of the futex; 0: another kind */
	uint32_t object;	      /* of a descriptor (struct ptah_syscall); 0: none */
	int32_t waker_pid, waker_tid; /* -1: not known */
	size_t waker_call;	      /* in which the waker was; SIZE_MAX: not known */
	/*
	 * Who had the lock when the wait began, as glibc's mutex or the futex has it; of the end of a
	 * thread, that thread. 0: not known.
	 */
	int32_t holder;
	/* If it was a poll, the descriptor that ended it, which `object` is of; -1: not known. */
	int32_t descriptor;
};

struct ptah_waits_config {
	size_t size; /* sizeof(struct ptah_waits_config) */
	/* Also read the calls of all threads, for ptah_waits_stack(). */
	bool stacks;
	unsigned jobs; /* for that: see struct ptah_call_reader_config */
	/* Or NULL. As there; false leaves the stacks out that are not known yet. */
	bool (*progress)(void *context, uint64_t bytes);
	void *context;
};

struct ptah_waits;

/* `config` may be NULL. A recording without system calls and switches has no waits. */
PTAH_API int ptah_waits_new(const struct ptah_session *session,
			    const struct ptah_waits_config *config, struct ptah_waits **waits);
PTAH_API void ptah_waits_free(struct ptah_waits *waits);

PTAH_API size_t ptah_waits_count(const struct ptah_waits *waits);
/* PTAH_E_MISSING: there is no i-th. */
PTAH_API int ptah_waits_get(const struct ptah_waits *waits, size_t i, struct ptah_wait *wait);

/* The system calls of the recording; they belong to the waits. */
PTAH_API const struct ptah_syscalls *ptah_waits_syscalls(const struct ptah_waits *waits);

/* Whether context switches of this thread are recorded: then its waits for a processor are known. */
PTAH_API bool ptah_waits_has_switches(const struct ptah_waits *waits, int32_t tid);

/*
 * The first wait of a thread that ends after `since`, and the wait of the same thread after the
 * i-th; SIZE_MAX: there is none. Waits of one thread do not overlap.
 */
PTAH_API size_t ptah_waits_of_thread(const struct ptah_waits *waits, int32_t tid, uint64_t since);
PTAH_API size_t ptah_waits_next(const struct ptah_waits *waits, size_t i);

/* Whose stack, and when. */
enum ptah_wait_stack {
	PTAH_WAIT_STACK_OWN,	/* the waiting thread's, when it began to wait */
	PTAH_WAIT_STACK_WAKER,	/* the waker's, in the call that ended it */
	PTAH_WAIT_STACK_HOLDER, /* the holder's, when the wait began */
	PTAH_WAIT_STACK_MAX
};

/* A function that was being executed. */
struct ptah_wait_frame {
	uint64_t function; /* the address where it begins */
	int32_t space;	   /* for ptah_session_find_map() */
	uint64_t call;	   /* the number of this call in its thread (struct ptah_call_mark) */
	uint64_t tsc;	   /* when it began, 0: not known */
};

/*
 * The stack, the innermost function first, at most `room` of them. Returns how many there are; 0:
 * it is not known, or config.stacks was false.
 */
PTAH_API size_t ptah_waits_stack(const struct ptah_waits *waits, size_t i,
				 enum ptah_wait_stack which, struct ptah_wait_frame *frames,
				 size_t room);

/* "futex", "thread", ...; "woken", ...; NULL when out of range. */
PTAH_API const char *ptah_wait_kind_name(unsigned kind);
PTAH_API const char *ptah_wait_end_name(unsigned how);

PTAH_END_DECLS

#endif
