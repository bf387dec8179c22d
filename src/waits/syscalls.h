/* SPDX-License-Identifier: MIT */
/* The system calls of a recording, and what their descriptors are. */
#ifndef PTAH_WAITS_SYSCALLS_H
#define PTAH_WAITS_SYSCALLS_H

#include <ptah/waits.h>

/* Numbers of the calls whose meaning is known here. */
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_CLOSE = 3,
	NR_POLL = 7,
	NR_PREAD64 = 17,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_PIPE = 22,
	NR_SELECT = 23,
	NR_DUP = 32,
	NR_DUP2 = 33,
	NR_PAUSE = 34,
	NR_NANOSLEEP = 35,
	NR_SENDFILE = 40,
	NR_SOCKET = 41,
	NR_CONNECT = 42,
	NR_ACCEPT = 43,
	NR_SENDTO = 44,
	NR_RECVFROM = 45,
	NR_SENDMSG = 46,
	NR_RECVMSG = 47,
	NR_BIND = 49,
	NR_SOCKETPAIR = 53,
	NR_CLONE = 56,
	NR_FORK = 57,
	NR_VFORK = 58,
	NR_EXIT = 60,
	NR_WAIT4 = 61,
	NR_KILL = 62,
	NR_SEMOP = 65,
	NR_SEMCTL = 66,
	NR_MSGRCV = 70,
	NR_FCNTL = 72,
	NR_FLOCK = 73,
	NR_FSYNC = 74,
	NR_FDATASYNC = 75,
	NR_CREAT = 85,
	NR_RT_SIGTIMEDWAIT = 128,
	NR_RT_SIGQUEUEINFO = 129,
	NR_RT_SIGSUSPEND = 130,
	NR_SYNC = 162,
	NR_TKILL = 200,
	NR_FUTEX = 202,
	NR_SEMTIMEDOP = 220,
	NR_CLOCK_NANOSLEEP = 230,
	NR_EXIT_GROUP = 231,
	NR_EPOLL_WAIT = 232,
	NR_EPOLL_CTL = 233,
	NR_TGKILL = 234,
	NR_MQ_OPEN = 240,
	NR_MQ_TIMEDSEND = 242,
	NR_MQ_TIMEDRECEIVE = 243,
	NR_WAITID = 247,
	NR_INOTIFY_INIT = 253,
	NR_OPENAT = 257,
	NR_PSELECT6 = 270,
	NR_PPOLL = 271,
	NR_SPLICE = 275,
	NR_TEE = 276,
	NR_VMSPLICE = 278,
	NR_EPOLL_PWAIT = 281,
	NR_SIGNALFD = 282,
	NR_TIMERFD_CREATE = 283,
	NR_EVENTFD = 284,
	NR_ACCEPT4 = 288,
	NR_SIGNALFD4 = 289,
	NR_EVENTFD2 = 290,
	NR_EPOLL_CREATE = 213,
	NR_EPOLL_CREATE1 = 291,
	NR_DUP3 = 292,
	NR_PIPE2 = 293,
	NR_INOTIFY_INIT1 = 294,
	NR_RT_TGSIGQUEUEINFO = 297,
	NR_RECVMMSG = 299,
	NR_SYNCFS = 306,
	NR_SENDMMSG = 307,
	NR_PREADV2 = 327,
	NR_PWRITEV2 = 328,
	NR_PIDFD_SEND_SIGNAL = 424,
	NR_PIDFD_OPEN = 434,
	NR_MSGSND = 69,
	NR_CLONE3 = 435,
	NR_OPENAT2 = 437,
	NR_EPOLL_PWAIT2 = 441,
	NR_FUTEX_WAITV = 449,
};

/* A call that did not return, because a signal or the end of its thread came. */
#define SYSCALL_RESTART_FIRST (-512)
#define SYSCALL_RESTART_LAST  (-516)

/* What a descriptor is the number of. */
struct object {
	uint8_t kind; /* enum ptah_descriptor_kind */
	/*
	 * What is written here is read from this object: of a pipe and an eventfd itself, of
	 * sockets their peer. 0: not known.
	 */
	uint32_t peer;
	const uint8_t *name; /* a path or a socket's address; NULL: not known */
	uint32_t name_size;
	uint32_t members; /* of epoll: the first of its struct member; 0: none */
	/* The call that connected or accepted this side of a connection, plus 1; 0: none. */
	uint32_t call;
	/* Since then, it is not known how many bytes were read from it and written; 0: it is. */
	uint64_t uncounted;
	/*
	 * The most bytes that F_SETPIPE_SZ has set for this pipe, first at that time; 0: it has
	 * not.
	 */
	uint32_t room;
	uint64_t room_since;
	int32_t pid; /* of the process that a pidfd is of */
	/* A lock belongs to it (flock, F_OFD_SETLK); the call that closed its last number, plus 1. */
	bool locked;
	uint32_t closed;
};

/* An object that an epoll watches, or that was ready at the end of poll() and the like. */
struct member {
	uint32_t object, next;
	uint32_t epoll; /* that watches it */
	int32_t descriptor;
	bool has_data;
	uint64_t data;	       /* what epoll_wait() returns for it; of one that was ready, how */
	uint64_t since, until; /* when it was watched */
};

struct system_call {
	uint8_t flags, data_arg;
	int32_t pid, tid;
	uint32_t second; /* the object to which splice() and tee() write */
	int64_t number, result;
	uint64_t args[6];
	/* Where the return was lost, `end` is the beginning of the thread's next call. */
	uint64_t begin, end, ip;
	const uint8_t *data;
	uint32_t data_size;
	uint32_t object; /* of the descriptor in the first argument, as of the beginning */
	uint32_t ready;	 /* poll and the like: the first of its struct member; 0: not known */
	uint32_t sample; /* with which it begins, or ends if the beginning is not known */
};

struct ptah_syscalls {
	const struct ptah_session *session;
	struct system_call *calls;
	size_t count, capacity;
	struct object *objects; /* number 0 is none */
	size_t object_count, object_capacity;
	struct member *members; /* number 0 is none */
	size_t member_count, member_capacity;
	/* Of events: what it is of a system call. */
	uint8_t *roles;
	size_t event_count;
};

/*
 * descriptors.c: follows the descriptors of all processes while the calls are read in the order of
 * their beginnings, ends and data. Each returns 0 or PTAH_E_NOMEM.
 */
struct descriptors;
int descriptors_new(struct ptah_syscalls *calls, struct descriptors **descriptors);
void descriptors_free(struct descriptors *descriptors);
/* A call begins: sets its `object`. */
int descriptors_enter(struct descriptors *descriptors, struct system_call *call);
/* It returned. */
int descriptors_leave(struct descriptors *descriptors, const struct system_call *call);
/* What it reads from memory is known: the address to which a socket connects. */
void descriptors_read(struct descriptors *descriptors, const struct system_call *call);
/* What it has written to memory is known: of a new pipe, and the like. */
int descriptors_written(struct descriptors *descriptors, struct system_call *call);

/* Bits of poll()'s `revents`, with which struct member says how an object was ready. */
#define READY_IN  1u
#define READY_OUT 4u

/* Whether the first argument of a call is a descriptor. */
bool syscall_has_descriptor(int64_t number);

/* "result and arguments", as syscalls.def has them. */
const char *syscall_signature(int64_t number);

#endif
