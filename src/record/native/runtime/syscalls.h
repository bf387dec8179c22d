/* SPDX-License-Identifier: MIT */
/* What the files that carry out system calls (syscalls.c, effects.c, mappings.c, threads.c,
 * leave.c) share. */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_SYSCALLS_H
#define PTAH_RECORD_NATIVE_RUNTIME_SYSCALLS_H

#include "record/native/runtime/runtime.h"

/* The columns of syscalls.def. 0 is LEAVE, so that numbers without a row leave. */
enum syscall_treatment {
	SYSCALL_LEAVE = 0,
	SYSCALL_PASS,
	SYSCALL_COMMIT,
	SYSCALL_OPEN,
	SYSCALL_OPENAT,
	SYSCALL_READ,
	SYSCALL_CLOSE,
	SYSCALL_DUP,
	SYSCALL_CLOSE_RANGE,
	SYSCALL_IOCTL,
	SYSCALL_FCNTL,
	SYSCALL_KILL,
	SYSCALL_TGKILL,
	SYSCALL_PRCTL,
	SYSCALL_ARCH_PRCTL,
	SYSCALL_SECCOMP,
	SYSCALL_PERSONALITY,
	SYSCALL_LIMIT,
	SYSCALL_PRLIMIT,
	SYSCALL_UNSHARE,
	SYSCALL_MMAP,
	SYSCALL_MPROTECT,
	SYSCALL_MUNMAP,
	SYSCALL_MREMAP,
	SYSCALL_RANGE,
	SYSCALL_SHMAT,
	SYSCALL_RSEQ,
	SYSCALL_SIGNAL,
	SYSCALL_USER,
	SYSCALL_EXIT,
	SYSCALL_EXIT_GROUP,
	SYSCALL_EXEC,
	SYSCALL_FORK,
	SYSCALL_VFORK,
	SYSCALL_CLONE,
	SYSCALL_CLONE3,
};

/* One system call of the program: the number as the kernel takes it, and its arguments. */
struct call {
	uint64_t words[7]; /* number, then RDI, RSI, RDX, R10, R8, R9; as signals_call() wants it */
	enum syscall_treatment treatment;
	uint64_t next; /* RIP behind the SYSCALL instruction; the call may unmap that */
};

#define SYSCALL_DESCRIPTORS NATIVE_LIMIT(1024, 64) /* that are followed before the first effect */
#define SYSCALL_RANGES	    256	 /* of executable memory that are followed; more: all memory */
#define SYSCALL_KNOWN	    16	 /* mappings that were reported */
#define COMM_BYTES	    16	 /* of a thread's name, with its end */
#define SYSCALL_FILES	    4096 /* bits of a set of files: a power of two */

struct address_range {
	uint64_t start, end;
};

/* context.syscalls: shared by the threads of a process. */
struct syscalls {
	/* Bit n: the program itself has opened descriptor n, a regular file, for reading. */
	uint64_t opened[SYSCALL_DESCRIPTORS / 64];
	/* What the program has made executable since its start; what was unmapped stays. */
	struct address_range executable[SYSCALL_RANGES];
	uint32_t executable_count;
	uint32_t lock; /* of the ranges */
	uint8_t *copy; /* of code, on its way into a message */
	bool cut;      /* a note says that it was not all */
	/* Mappings that the recorder knows, but for what they allow. Emptied, or used in turn. */
	struct address_range known[SYSCALL_KNOWN];
	uint32_t known_next;
	/* By the hashes of their inodes: files that were mapped as code, and opened to write to. */
	uint64_t executed[SYSCALL_FILES / 64], writable[SYSCALL_FILES / 64];
};

/* syscalls.c */
enum syscall_treatment syscall_treatment(uint64_t number);
/* What comes behind the SYSCALL instruction at `rip`, which may have prefixes. */
uint64_t syscall_end(uint64_t rip);
/*
 * What a library reads in a registered area where there is no registration. The kernel's own value
 * would have glibc register the threads that it starts, and end the program where that fails.
 */
void syscall_unset_rseq(const struct native_rseq *q);
/* Sets *r to what it is after the call, with this result. */
void syscall_return(struct registers *r, const struct call *call, int64_t result);

/* effects.c: what others see of the program. */
/* Whether somebody outside of the process may see this call, judged before it is carried out. */
bool effect_is_outside(const struct context *c, const struct call *call);
/* After it: descriptors. True: now that it is done, somebody may have seen it. */
bool effect_after(struct context *c, const struct call *call, int64_t result);
/* Sends NATIVE_MESSAGE_COMMITTED, once for the whole recording. */
void effect_commit(struct context *c);
bool effect_is_committed(const struct context *c);

/* mappings.c: calls that change memory. Each is carried out as if the runtime's memory was free. */
/* Why a call of this kind has to leave; NULL: it need not. */
const char *mapping_refusal(const struct context *c, const struct call *call);
int64_t mapping_call(struct context *c, const struct call *call);
/* The lock of struct syscalls' ranges, if there is one. Around fork(). */
void mapping_lock(struct context *c);
void mapping_unlock(struct context *c);

/*
 * mapped.c: describes the mappings of files in [start, end) to the recorder. False: it has to be
 * asked to look at them (NATIVE_MESSAGE_MAP).
 */
bool mapped_report(struct context *c, uint64_t start, uint64_t end);

/* written.c: system calls that write to files whose code the program runs. */
/* A file is mapped as code. */
void written_executable(struct context *c, uint64_t inode);
/* The same of a descriptor, which may be one to write with. */
void written_code(struct context *c, uint64_t descriptor);
/* A file is mapped so that it can be written to. */
void written_mapped(struct context *c, uint64_t descriptor);
/* After any call that has not failed. */
void written_after(struct context *c, const struct call *call, int64_t result);

/* threads.c */
/* Why a call of this kind has to leave; NULL: it need not. */
const char *process_refusal(const struct context *c, const struct call *call);
/*
 * Carries out EXIT, EXIT_GROUP, EXEC, FORK, VFORK, CLONE and CLONE3, and changes *r. True: this is
 * a child, whose log is empty yet.
 */
bool process_call(struct context *c, struct registers *r, const struct call *call);
/* Copies the program's bytes at an address. False: its memory is not there. */
bool process_read(const struct context *c, uint64_t at, void *into, size_t n);
/* A system call that waits for processes has returned: what ended them may be news. */
void process_reaped(struct context *c, const struct call *call, int64_t result);

/* leave.c: leave() where TIP.PGD stands in the log already. */
_Noreturn void leave_disabled(struct context *c, const struct registers *r, const char *why);

/* user.c */
struct native_user;
void user_read(struct native_user *user);
/*
 * The process was `before` and may be another user's now: it moves to the memory of that user, or
 * leaves. True: it has moved, and the thread's log is empty.
 */
bool user_changed(struct context *c, const struct registers *r, const struct native_user *before);

/* Calls the kernel; for calls that do not wait. */
int64_t syscall_kernel(const struct call *call);

#endif
