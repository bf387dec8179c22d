/* SPDX-License-Identifier: MIT */
/*
 * Which system calls somebody outside of the process can see. Until the first one, the recorder
 * can kill the program and start it again with another recorder; so a call is only held to be
 * invisible where that is certain. The loader opens, reads and maps files: that has to be.
 *
 * Descriptors 0, 1, 2 and others that the program has inherited are shared with those who opened
 * them: reading moves their position, or takes bytes out of a pipe. Only what the program itself
 * has opened for reading, and what is a regular file or a folder, is nobody else's.
 */
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

#include <asm/ioctls.h>
#include <asm/stat.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/sched.h>

/* As <linux/stat.h> has them, but not beside a libc. */
#define FILE_TYPE    0170000
#define FILE_REGULAR 0100000
#define FILE_FOLDER  0040000

bool effect_is_committed(const struct context *c)
{
	return __atomic_load_n(&c->runtime->committed, __ATOMIC_SEQ_CST);
}

void effect_commit(struct context *c)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_COMMITTED};

	if (!__atomic_exchange_n(&c->runtime->committed, true, __ATOMIC_SEQ_CST))
		message_send(c, &m, NULL);
}

static bool is_opened(const struct syscalls *s, uint64_t descriptor)
{
	uint32_t n = (uint32_t)descriptor; /* the kernel takes 32 bits */

	return n < SYSCALL_DESCRIPTORS && s->opened[n / 64] >> n % 64 & 1;
}

static void set_opened(struct syscalls *s, uint64_t descriptor, bool opened)
{
	uint32_t n = (uint32_t)descriptor;

	if (n >= SYSCALL_DESCRIPTORS)
		return;
	if (opened)
		__atomic_fetch_or(&s->opened[n / 64], UINT64_C(1) << n % 64, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&s->opened[n / 64], ~(UINT64_C(1) << n % 64), __ATOMIC_RELAXED);
}

static bool opens_for_reading(uint64_t flags)
{
	return (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY;
}

static bool ioctl_asks(uint64_t request)
{
	switch ((uint32_t)request) {
	case TCGETS:
	case TIOCGWINSZ:
	case TIOCGPGRP:
	case FIONREAD:
	case FIOCLEX:
	case FIONCLEX:
		return true;
	default:
		return false;
	}
}

static bool fcntl_asks(uint64_t command)
{
	switch ((uint32_t)command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_GETFD:
	case F_SETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_GET_SEALS:
	case F_GETPIPE_SZ:
		return true;
	default:
		return false;
	}
}

bool effect_is_outside(const struct context *c, const struct call *call)
{
	const uint64_t *w = call->words;

	switch (call->treatment) {
	case SYSCALL_COMMIT:
	case SYSCALL_SHMAT:
	case SYSCALL_FORK:
	case SYSCALL_VFORK:
		return true;
	case SYSCALL_CLONE:
		return !(w[1] & CLONE_THREAD);
	case SYSCALL_OPEN:
		return !opens_for_reading(w[2]);
	case SYSCALL_OPENAT:
		return !opens_for_reading(w[3]);
	case SYSCALL_READ:
		return !is_opened(c->syscalls, w[1]);
	case SYSCALL_IOCTL:
		return !ioctl_asks(w[2]);
	case SYSCALL_FCNTL:
		return !fcntl_asks(w[2]);
	case SYSCALL_KILL:
		return (int32_t)w[1] != c->pid;
	case SYSCALL_TGKILL:
		return (int32_t)w[1] != c->pid || (int32_t)w[2] != c->tid;
	case SYSCALL_PRLIMIT:
		return (int32_t)w[1] != 0 && (int32_t)w[1] != c->pid;
	/*
	 * Not seen by anybody, but memory that is mapped twice, to be written and to be executed,
	 * is what the recorder qemu runs wrongly. mmap() doubles files alone, those of
	 * memfd_create() among them, which count as somebody else's.
	 */
	case SYSCALL_MREMAP:
		return !w[2];
	case SYSCALL_MMAP: /* of a file of somebody else, which can be written now or later */
		return !(w[4] & MAP_ANONYMOUS) && (w[4] & MAP_SHARED) &&
		       !is_opened(c->syscalls, w[5]);
	default:
		return false;
	}
}

bool effect_after(struct context *c, const struct call *call, int64_t result)
{
	struct syscalls *s = c->syscalls;
	struct stat stat;

	switch (call->treatment) {
	case SYSCALL_OPEN:
	case SYSCALL_OPENAT:
		if (sys_is_error(result) || effect_is_committed(c))
			return false;
		/* A pipe's other end may have waited for this, a device may have moved. */
		if (sys_call(__NR_fstat, (uint64_t)result, (uint64_t)&stat, 0, 0, 0, 0) ||
		    ((stat.st_mode & FILE_TYPE) != FILE_REGULAR &&
		     (stat.st_mode & FILE_TYPE) != FILE_FOLDER))
			return true;
		set_opened(s, (uint64_t)result, true);
		return false;
	case SYSCALL_CLOSE:
		set_opened(s, call->words[1], false);
		return false;
	case SYSCALL_DUP:
		set_opened(s, call->words[2], false);
		return false;
	case SYSCALL_CLOSE_RANGE:
		for (unsigned i = 0; i < SYSCALL_DESCRIPTORS / 64; i++)
			__atomic_store_n(&s->opened[i], 0, __ATOMIC_RELAXED);
		return false;
	default:
		return false;
	}
}
