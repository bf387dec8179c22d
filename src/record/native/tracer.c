/* SPDX-License-Identifier: MIT */
/* Whether a program may be a debugger: see tracer.h. */
#include "record/native/tracer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST (64 << 20) /* bytes of a file that are searched */
#define PART (64 << 10)

/* Read, not mapped: the file may become shorter meanwhile. */
static bool names_ptrace(int fd)
{
	static const char name[] = "ptrace";
	const size_t kept = sizeof(name) - 2; /* it may begin in one part and end in the next */
	char bytes[PART];
	bool found = false;
	ssize_t n = sizeof(bytes);

	for (off_t at = 0; at < MOST && !found; at += n - (ssize_t)kept) {
		n = pread(fd, bytes, sizeof(bytes), at);
		found = n > 0 && memmem(bytes, (size_t)n, name, sizeof(name) - 1);
		if (n < (ssize_t)sizeof(bytes))
			break;
	}
	return found;
}

static struct tracer_file *find_file(struct tracer *t, const struct stat *s)
{
	for (struct tracer_file *f = t->files; f < t->files + TRACER_FILES; f++)
		if (s->st_dev == f->device && s->st_ino == f->inode && s->st_size == f->size)
			return f;
	return NULL;
}

bool tracer_may_be(struct tracer *t, int32_t pid)
{
	struct tracer_file *file;
	char path[32];
	struct stat s;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &s) || !S_ISREG(s.st_mode))
		s = (struct stat){.st_size = 0};
	file = find_file(t, &s);
	if (!file) {
		file = &t->files[t->next++ % TRACER_FILES];
		*file = (struct tracer_file){s.st_dev, s.st_ino, s.st_size, names_ptrace(fd)};
	}
	close(fd);
	return file->may_be;
}
