/* SPDX-License-Identifier: MIT */
/*
 * Backings: the bytes of sections, from a mapped file, a buffer or the cache, with a reference
 * count.
 */
#include "image/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(const uint8_t *bytes, size_t size, bool mapped)
{
	if (mapped)
		munmap((void *)(uintptr_t)bytes, size);
	else
		free((void *)(uintptr_t)bytes);
}

struct backing *backing_new(const uint8_t *bytes, size_t size, bool mapped)
{
	struct backing *b = calloc(1, sizeof(*b));

	if (!b) {
		forget(bytes, size, mapped);
		return NULL;
	}
	b->references = 1;
	b->bytes = bytes;
	b->size = size;
	b->mapped = mapped;
	return b;
}

void backing_put(struct backing *b)
{
	if (!b || --b->references)
		return;
	forget(b->bytes, b->size, b->mapped);
	ptah_cache_free(b->cache);
	free(b->path);
	free(b);
}

int backing_map(const char *path, struct stat *st, struct backing **backing)
{
	void *bytes = MAP_FAILED;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int status = PTAH_E_SYSTEM;

	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	if (!fstat(fd, st)) {
		if (!S_ISREG(st->st_mode))
			status = PTAH_E_BAD_FILE;
		else if (!st->st_size)
			status = PTAH_E_EMPTY;
		else
			bytes = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (bytes == MAP_FAILED)
		return status;
	*backing = backing_new(bytes, (size_t)st->st_size, true);
	if (!*backing)
		return PTAH_E_NOMEM;
	(*backing)->path = strdup(path);
	if (!(*backing)->path) {
		backing_put(*backing);
		return PTAH_E_NOMEM;
	}
	return 0;
}

size_t backing_read(const struct backing *b, uint64_t at, void *bytes, size_t n)
{
	int got;

	if (b->bytes) {
		memcpy(bytes, b->bytes + at, n);
		return n;
	}
	got = ptah_cache_read(b->cache, b->cache_id, b->address + at, bytes, n);
	return got > 0 ? (size_t)got : 0;
}
