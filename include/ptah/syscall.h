/* SPDX-License-Identifier: MIT */
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
#ifndef PTAH_SYSCALL_H
#define PTAH_SYSCALL_H

#include <ptah/sample.h>

PTAH_BEGIN_DECLS

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
 * beginning is not known. SIZE_MAX: none does.
 */
PTAH_API size_t ptah_syscalls_find(const struct ptah_syscalls *calls, size_t sample);

/* Whether a sample is a part of system calls: their beginnings, ends and data. */
PTAH_API bool ptah_syscalls_has_sample(const struct ptah_syscalls *calls, size_t sample);

/*
 * Writes the call as strace would: "openat(AT_FDCWD, "/tmp/x", O_RDONLY) = 3 <0.000012>". What could
 * disturb a terminal is escaped. Returns `text`, which is cut if it is too short.
 */
PTAH_API const char *ptah_syscall_text(const struct ptah_syscalls *calls, size_t i, char *text,
				       size_t size);

/* "openat"; NULL: the kernel of x86-64 has none of this number that Ptah knows. */
PTAH_API const char *ptah_syscall_name(int64_t number);

PTAH_END_DECLS

#endif
