/* SPDX-License-Identifier: MIT */
/*
 * Programs that write to files which they have mapped as code: a private mapping shows that as well
 * as a shared one, and no store faults. Only where a file is both mapped as code and opened to
 * write to by the same process are its calls looked at; changes.c does the rest. What another
 * process writes is not seen.
 *
 * Who opens /proc/self/mem to write can change all memory so, and so can who serves faults.
 */
#include "base/hash.h"
#include "record/native/runtime/changes.h"
#include "record/native/runtime/sandbox.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/syscalls.h"

#include <asm/stat.h>
#include <asm/statfs.h>
#include <linux/fcntl.h>
#include <linux/magic.h>

#define FILE_TYPE    0170000 /* of struct stat.st_mode */
#define FILE_REGULAR 0100000
#define SERVER_NEW   0xaa00u /* USERFAULTFD_IOC_NEW, which older headers do not have */

static bool has_file(const uint64_t *set, uint64_t inode)
{
	const uint64_t bit = (hash_number(inode) >> 32) % SYSCALL_FILES;

	return set[bit / 64] >> bit % 64 & 1;
}

static void add_file(uint64_t *set, uint64_t inode)
{
	const uint64_t bit = (hash_number(inode) >> 32) % SYSCALL_FILES;

	__atomic_fetch_or(&set[bit / 64], UINT64_C(1) << bit % 64, __ATOMIC_RELAXED);
}

/* 0: it is no regular file. */
static uint64_t inode_of(uint64_t number, uint64_t file)
{
	struct stat st;

	if (sys_call(number, file, (uint64_t)&st, 0, 0, 0, 0) ||
	    (st.st_mode & FILE_TYPE) != FILE_REGULAR)
		return 0;
	return st.st_ino;
}

void written_executable(struct context *c, uint64_t inode)
{
	add_file(c->syscalls->executed, inode);
	if (has_file(c->syscalls->writable, inode))
		changes_file(c, inode);
}

static bool is_executed(struct context *c, uint64_t inode)
{
	bool executed;

	cache_lock(c);
	executed = has_file(c->syscalls->executed, inode) || changes_executes(c, inode);
	cache_unlock(c);
	return executed;
}

/* Filters of system calls are not asked about what is called here. */
static bool is_filtered(const struct context *c)
{
	return sandbox_summary(c) != 0;
}

/* Returns its inode; 0: it is no file. */
static uint64_t note_writable(struct context *c, uint64_t descriptor)
{
	const uint64_t inode = inode_of(__NR_fstat, descriptor);

	if (inode)
		add_file(c->syscalls->writable, inode);
	if (inode && is_executed(c, inode))
		changes_file(c, inode);
	return inode;
}

void written_mapped(struct context *c, uint64_t descriptor)
{
	if (!is_filtered(c))
		note_writable(c, descriptor);
}

void written_code(struct context *c, uint64_t descriptor)
{
	const uint64_t inode = is_filtered(c) ? 0 : inode_of(__NR_fstat, descriptor);

	if (!inode)
		return;
	/* It may be inherited, or from a socket, so that nobody has seen how it was opened. */
	if ((sys_call(__NR_fcntl, descriptor, F_GETFL, 0, 0, 0, 0) & O_ACCMODE) != O_RDONLY)
		add_file(c->syscalls->writable, inode);
	written_executable(c, inode);
}

/* The files of /proc that can be written to, but for one of them, are short texts. */
static bool is_of_proc(uint64_t descriptor)
{
	struct statfs fs;

	return !sys_call(__NR_fstatfs, descriptor, (uint64_t)&fs, 0, 0, 0, 0) &&
	       fs.f_type == PROC_SUPER_MAGIC;
}

static bool opens_to_write(const struct call *call)
{
	const uint64_t *w = call->words;

	switch (w[0]) {
	case __NR_open:
		return (w[2] & O_ACCMODE) != O_RDONLY || w[2] & O_TRUNC;
	case __NR_openat:
		return (w[3] & O_ACCMODE) != O_RDONLY || w[3] & O_TRUNC;
	case __NR_openat2:
	case __NR_creat:
	case __NR_memfd_create:
		return true;
	default:
		return false;
	}
}

/* The argument that is the descriptor of the file to which the call writes; 0: it does not. */
static unsigned written_argument(uint64_t number)
{
	switch (number) {
	case __NR_write:
	case __NR_pwrite64:
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
	case __NR_sendfile:
	case __NR_ftruncate:
	case __NR_fallocate:
		return 1;
	case __NR_splice:
	case __NR_copy_file_range:
		return 3;
	default:
		return 0;
	}
}

static void look_at_write(struct context *c, const uint64_t *w)
{
	const unsigned argument = written_argument(w[0]);
	uint64_t inode = 0;

	if (argument)
		inode = inode_of(__NR_fstat, w[argument]);
	if (inode && is_of_proc(w[argument]))
		changes_written(c, 0);
	else if (w[0] == __NR_truncate)
		inode = inode_of(__NR_stat, w[1]);
	else if (w[0] == __NR_io_uring_enter || w[0] == __NR_io_submit) /* whose lists say where */
		changes_written(c, 0);
	if (inode)
		changes_written(c, inode);
}

/* From now on the program may put memory where nothing was, when it is read. */
static bool serves_faults(const struct call *call)
{
	return call->words[0] == __NR_userfaultfd ||
	       (call->words[0] == __NR_ioctl && (uint32_t)call->words[2] == SERVER_NEW);
}

void written_after(struct context *c, const struct call *call, int64_t result)
{
	uint64_t inode;

	if (is_filtered(c))
		return;
	if (serves_faults(call)) {
		changes_file(c, 0);
		c->runtime->serves_faults = true;
	} else if (opens_to_write(call)) {
		inode = note_writable(c, (uint64_t)result);
		if (inode && is_of_proc((uint64_t)result))
			changes_file(c, 0);
		if (inode && changes_has_files(c)) /* it may have been cut off */
			changes_written(c, inode);
	} else if (changes_has_files(c)) {
		look_at_write(c, call->words);
	}
}
