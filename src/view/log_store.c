/* SPDX-License-Identifier: MIT */
/* Maps a file without a name, piece by piece. */
#include "view/log_store.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The first piece, and the largest: a piece is as large as all before it. */
#define FIRST_PIECE (UINT64_C(1) << 20)
#define LAST_PIECE  (UINT64_C(64) << 20)

struct piece {
	uint8_t *bytes;
	size_t size;
};

struct log_store {
	int fd; /* -1: in memory */
	uint64_t most, mapped;
	atomic_ullong taken;
	struct piece *pieces;
	size_t count;
	size_t used; /* of the last piece */
};

static int open_log_file(const char *folder)
{
	char path[4096];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 ||
	    snprintf(path, sizeof(path), "%s/ptah-view-XXXXXX", folder) >= (int)sizeof(path))
		return fd;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int log_store_new(const char *folder, uint64_t most, struct log_store **store)
{
	struct log_store *s = calloc(1, sizeof(*s));
	struct statvfs v;

	if (!s)
		return PTAH_E_NOMEM;
	s->fd = open_log_file(folder);
	s->most = most;
	if (!most && s->fd >= 0 && !fstatvfs(s->fd, &v))
		s->most = (uint64_t)v.f_bavail * v.f_frsize / 2;
	if (s->fd < 0 && (!most || most > LOG_STORE_MEMORY))
		s->most = LOG_STORE_MEMORY;
	*store = s;
	return 0;
}

void log_store_free(struct log_store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		munmap(s->pieces[i].bytes, s->pieces[i].size);
	free(s->pieces);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/*
 * Adds a piece of at least n bytes. A page of a file for which there is no room on the disk would
 * end the process when it is written, so that the room is taken first.
 */
static bool add_log_piece(struct log_store *s, size_t n)
{
	uint64_t size = s->mapped < FIRST_PIECE ? FIRST_PIECE : s->mapped;
	struct piece *pieces = reallocarray(s->pieces, s->count + 1, sizeof(*pieces));
	void *bytes;

	if (pieces)
		s->pieces = pieces;
	size = size > LAST_PIECE ? LAST_PIECE : size;
	while (size < n)
		size *= 2;
	if (!pieces || size > s->most || s->mapped > s->most - size)
		return false;
	if (s->fd >= 0 && posix_fallocate(s->fd, (off_t)s->mapped, (off_t)size))
		return false;
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     s->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, s->fd,
		     s->fd >= 0 ? (off_t)s->mapped : 0);
	if (bytes == MAP_FAILED)
		return false;
	s->pieces[s->count++] = (struct piece){bytes, size};
	s->mapped += size;
	s->used = 0;
	return true;
}

uint8_t *log_store_take(struct log_store *s, size_t n)
{
	uint8_t *bytes;

	if ((!s->count || s->pieces[s->count - 1].size - s->used < n) && !add_log_piece(s, n))
		return NULL;
	bytes = s->pieces[s->count - 1].bytes + s->used;
	s->used += n;
	s->taken += n;
	return bytes;
}

uint64_t log_store_size(const struct log_store *s)
{
	return s->taken;
}
