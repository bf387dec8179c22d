/* SPDX-License-Identifier: MIT */
/*
 * What has become executable is described to the recorder here, so that nobody waits for it to read
 * the process's list of mappings. That is possible where the kernel answers for one address (Linux
 * 6.11), and all that the recorder needs is the file, which its path leads to and which is older
 * than the recording.
 */
#include "record/native/runtime/sandbox.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/syscalls.h"

#include <asm/errno.h>
#include <asm/stat.h>
#include <linux/fcntl.h>
#include <linux/ioctl.h>
#include <linux/mman.h>

#define PATH_BYTES   NATIVE_LIMIT(4096u, 512u)
#define FILE_TYPE    0170000 /* of struct stat.st_mode */
#define FILE_REGULAR 0100000

/* Of <linux/fs.h>, where it is new enough. */
struct query {
	uint64_t size, flags, address;
	uint64_t start, end, found, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};

#define QUERY _IOWR('f', 17, struct query) /* PROCMAP_QUERY */

/* PROCMAP_QUERY_..._VMA */
#define QUERY_READABLE	 1u
#define QUERY_WRITABLE	 2u
#define QUERY_EXECUTABLE 4u
#define QUERY_SHARED	 8u
#define QUERY_OR_NEXT	 16u

struct mapped_file {
	struct native_mapped mapped;
	char path[PATH_BYTES];
};

static uint32_t protection_of(const struct query *q)
{
	return (q->found & QUERY_READABLE ? PROT_READ : 0u) |
	       (q->found & QUERY_WRITABLE ? PROT_WRITE : 0u) |
	       (q->found & QUERY_EXECUTABLE ? PROT_EXEC : 0u);
}

static bool is_older(const struct context *c, const struct query *q, const char *path)
{
	struct stat st;

	if (*path != '/' || sys_call(__NR_stat, (uint64_t)path, (uint64_t)&st, 0, 0, 0, 0) ||
	    st.st_ino != q->inode || (st.st_mode & FILE_TYPE) != FILE_REGULAR)
		return false;
	return st.st_ctime * UINT64_C(1000000000) + st.st_ctime_nsec < c->runtime->began;
}

/* False: it has to be asked for. */
static bool report(struct context *c, const struct query *q, struct mapped_file *f)
{
	struct native_message m = {
	    .type = NATIVE_MESSAGE_MAPPED, .address = q->start, .size = q->end - q->start};

	if (!q->inode) /* what is in no file is sent as bytes */
		return true;
	written_executable(c, q->inode);
	if (!q->name_size || !is_older(c, q, f->path))
		return false;
	f->mapped = (struct native_mapped){
	    .offset = q->offset,
	    .inode = q->inode,
	    .major = q->major,
	    .minor = q->minor,
	    .protection = protection_of(q),
	    .flags = q->found & QUERY_SHARED ? MAP_SHARED : MAP_PRIVATE,
	};
	m.bytes = (uint32_t)(sizeof(f->mapped) + q->name_size - 1);
	return message_send(c, &m, f);
}

bool mapped_report(struct context *c, uint64_t start, uint64_t end)
{
	static const char path[] = "/proc/self/maps";
	struct query q = {.end = start};
	struct mapped_file f;
	bool all = true;
	int64_t file, got;

	/* Filters of system calls are asked about fewer calls than these (own_calls.def). */
	if (!c->runtime->began || sandbox_summary(c))
		return false;
	file = sys_call(__NR_open, (uint64_t)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	if (sys_is_error(file))
		return false;
	for (uint64_t at = start; at < end && all; at = q.end) {
		q = (struct query){.size = sizeof(q),
				   .flags = QUERY_EXECUTABLE | QUERY_OR_NEXT,
				   .address = at,
				   .name_size = sizeof(f.path),
				   .name = (uint64_t)f.path};
		got = sys_call(__NR_ioctl, (uint64_t)file, QUERY, (uint64_t)&q, 0, 0, 0);
		if (got == -ENOENT || (!got && q.start >= end))
			break;
		all = !got && q.end > at && report(c, &q, &f);
	}
	sys_call(__NR_close, (uint64_t)file, 0, 0, 0, 0, 0);
	return all;
}
