/* SPDX-License-Identifier: MIT */
/*
 * Copies lists of generated code beside the recording (jit_copies.h). A map for perf is in /tmp, as
 * the process sees it. A jitdump is where the recording says that it was mapped; emulators do not
 * record that, so the working directory and /tmp are searched as well. Whoever may write there can
 * put a file of such a name there: only regular files of the process's own user, and of root, are
 * taken, and no symbolic links are followed.
 */
#include "record/jit_copies.h"

#include "perfdata/jit_folder.h"
#include "perfdata/jit_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copying {
	struct ptah_recorder *r;
	const char *to; /* the folder's path */
	int folder;	/* -1: it has not been made */
	uint64_t left;	/* bytes that may still be copied */
};

/* A process that has records. */
struct process {
	int32_t pid;
	int32_t inner; /* its number in its own namespace */
	bool alive;
	uid_t uid;		 /* its user, if it is alive */
	struct timespec started; /* if it is alive */
};

void jit_copies_begin(struct ptah_recorder *r)
{
	/* The kernel takes the times of files from the same clock. */
	clock_gettime(CLOCK_REALTIME_COARSE, &r->began);
}

/* Processes */

static struct process look_at(int32_t pid)
{
	struct process p = {.pid = pid, .inner = pid};
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st))
		return p;
	p.alive = true;
	p.uid = st.st_uid;
	p.started = perfdata_process_start(pid);
	p.inner = perfdata_inner_pid(pid);
	return p;
}

/* Copying */

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/*
 * Whether it is the process's own file, and not one that an earlier process of this number has
 * left.
 */
static bool is_own(const struct copying *c, const struct process *p, const struct stat *st)
{
	const uid_t me = geteuid();

	if (!S_ISREG(st->st_mode))
		return false;
	if (st->st_uid && st->st_uid != (p->alive ? p->uid : me) && (p->alive || me))
		return false;
	return !is_before(&st->st_mtim, &c->r->began) ||
	       (p->alive && !is_before(&st->st_mtim, &p->started));
}

static bool copy_bytes(int from, int to, uint64_t size)
{
	char bytes[65536];

	while (size) {
		const ssize_t n = read(from, bytes, size < sizeof(bytes) ? size : sizeof(bytes));

		if (n == 0)
			break;
		for (ssize_t done = 0, k; done < n; done += k) {
			k = write(to, bytes + done, (size_t)(n - done));
			if (k < 0)
				return false;
		}
		if (n < 0)
			return false;
		size -= (uint64_t)n;
	}
	return true;
}

static bool open_folder(struct copying *c)
{
	if (c->folder < 0 && (!mkdir(c->to, 0700) || errno == EEXIST))
		c->folder = open(c->to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return c->folder >= 0;
}

static void copy_jit_bytes(struct copying *c, int from, uint64_t size, const char *name)
{
	int to = -1, error;
	bool done = false;

	if (open_folder(c))
		to = openat(c->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (to < 0 && errno == EEXIST)
		return; /* of several places, the first is valid */
	done = to >= 0 && copy_bytes(from, to, size);
	error = errno;
	if (to >= 0)
		close(to);
	if (done) {
		c->left -= size;
		c->r->status.jit_copies++;
		return;
	}
	if (to >= 0)
		unlinkat(c->folder, name, 0);
	recorder_note(c->r, "%s/%s: names of generated code were not copied: %s", c->to, name,
		      strerror(error));
}

/* Copies the file `name` of a folder, if it is a list of the process. */
static void copy_jit_file(struct copying *c, const struct process *p, int folder, const char *name,
			  enum perfdata_jit_kind kind)
{
	const int fd =
	    openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *format = kind == PERFDATA_JIT_MAP ? "perf-%d.map" : "jit-%d.dump";
	char to[64];
	struct stat st;

	snprintf(to, sizeof(to), format, (int)p->pid);
	if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0 && is_own(c, p, &st)) {
		if ((uint64_t)st.st_size <= c->left)
			copy_jit_bytes(c, fd, (uint64_t)st.st_size, to);
		else
			recorder_note(c->r,
				      "names of generated code of process %d were not copied: with "
				      "them the copies would have more than %" PRIu64 " bytes",
				      (int)p->pid, JIT_COPIES_MAX);
	}
	if (fd >= 0)
		close(fd);
}

/* Jitdumps whose mapping was recorded */

static void take_mapped(struct copying *c)
{
	const char *dump, *slash;
	int32_t pid = 0;

	for (size_t i = 0; (dump = perfdata_mapped_dump(c->r->writer, i, &pid)); i++) {
		const struct process p = look_at(pid);
		char folder[4200];
		int fd;

		slash = strrchr(dump, '/');
		if (!slash)
			continue;
		if (p.alive)
			snprintf(folder, sizeof(folder), "/proc/%d/root%.*s", (int)pid,
				 (int)(slash + 1 - dump), dump);
		else
			snprintf(folder, sizeof(folder), "%.*s", (int)(slash + 1 - dump), dump);
		fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		copy_jit_file(c, &p, fd, slash + 1, PERFDATA_JIT_DUMP);
		close(fd);
	}
}

/* Processes that see another /tmp */

static void take_from_root(struct copying *c, int32_t pid, const struct stat *ours)
{
	char path[64], name[64];
	struct process p;
	struct stat st;
	int root, tmp;

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* A link would lead out of the process's root. */
	tmp = root < 0 ? -1 : openat(root, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tmp >= 0 && !fstat(tmp, &st)) {
		p = look_at(pid);
		if (st.st_dev != ours->st_dev || st.st_ino != ours->st_ino || p.inner != pid) {
			snprintf(name, sizeof(name), "perf-%d.map", (int)p.inner);
			copy_jit_file(c, &p, tmp, name, PERFDATA_JIT_MAP);
			snprintf(name, sizeof(name), "jit-%d.dump", (int)p.inner);
			copy_jit_file(c, &p, tmp, name, PERFDATA_JIT_DUMP);
		}
	}
	if (tmp >= 0)
		close(tmp);
	if (root >= 0)
		close(root);
}

static void take_from_roots(struct copying *c)
{
	struct stat ours = {0};
	DIR *d = opendir("/proc");
	struct dirent *entry;

	if (stat("/tmp", &ours))
		ours.st_ino = 0;
	while (d && (entry = readdir(d))) {
		const long pid = strtol(entry->d_name, NULL, 10);

		if (pid > 0 && pid <= INT32_MAX && perfdata_has_process(c->r->writer, (int32_t)pid))
			take_from_root(c, (int32_t)pid, &ours);
	}
	if (d)
		closedir(d);
}

/* Folders of this machine. A process of another namespace has another number in its files. */
static void take_from(struct copying *c, const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		int32_t pid;
		const enum perfdata_jit_kind kind =
		    perfdata_jit_kind(entry->d_name, strlen(entry->d_name), &pid);
		struct process p;

		if (!kind || !perfdata_has_process(c->r->writer, pid))
			continue;
		p = look_at(pid);
		if (p.inner == pid)
			copy_jit_file(c, &p, dirfd(d), entry->d_name, kind);
	}
	if (d)
		closedir(d);
}

void jit_copies_make(struct ptah_recorder *r)
{
	struct copying c = {r, perfdata_copies_folder(r->writer), -1, JIT_COPIES_MAX};

	/* The processes of a virtual machine have numbers of their own, and other files. */
	if (r->config.output.no_jit_copies || !c.to || r->backend->kind == PTAH_RECORDER_VM)
		return;
	take_mapped(&c);
	take_from_roots(&c);
	take_from(&c, "/tmp");
	take_from(&c, ".");
	if (c.folder >= 0)
		close(c.folder);
}
