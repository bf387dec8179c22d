/* SPDX-License-Identifier: MIT */
/*
 * A file of blocks, each of which begins with the number of the text's next block (spill.h). The
 * number of a block is known before it is written, so that no list of blocks is needed.
 */
#include "export/spill.h"

#include <ptah/base.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define BLOCK  4096
#define HEADER sizeof(uint64_t)
#define FULL   (BLOCK - HEADER)

struct spill {
	int fd;
	uint64_t blocks; /* numbers that are taken */
	int status, error;
};

static int open_file(void)
{
	const char *folder = getenv("TMPDIR");
	char *path;
	int fd;

	if (asprintf(&path, "%s/ptah-XXXXXX", folder && *folder ? folder : "/var/tmp") < 0) {
		errno = ENOMEM;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	free(path);
	return fd;
}

int spill_new(struct spill **spill)
{
	struct spill *s = calloc(1, sizeof(*s));

	*spill = s;
	if (!s)
		return PTAH_E_NOMEM;
	s->fd = open_file();
	if (s->fd >= 0)
		return 0;
	free(s);
	*spill = NULL;
	return PTAH_E_SYSTEM;
}

void spill_free(struct spill *s)
{
	if (s)
		close(s->fd);
	free(s);
}

static void fail(struct spill *s, int status)
{
	s->status = status;
	s->error = errno;
}

/* Reads or writes a whole block. */
static bool transfer(struct spill *s, char *block, uint64_t number, bool write)
{
	const off_t at = (off_t)((number - 1) * BLOCK);
	size_t done = 0;

	while (done < BLOCK) {
		const ssize_t k = write
				      ? pwrite(s->fd, block + done, BLOCK - done, at + (off_t)done)
				      : pread(s->fd, block + done, BLOCK - done, at + (off_t)done);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (!k)
				errno = EIO;
			fail(s, PTAH_E_SYSTEM);
			return false;
		}
		done += (size_t)k;
	}
	return true;
}

/* The block is full: it goes to its place, and a new one is begun. */
static bool put_block(struct spill *s, struct spill_text *t)
{
	const uint64_t next = ++s->blocks;

	memcpy(t->block, &next, HEADER);
	if (!transfer(s, t->block, t->place, true))
		return false;
	t->place = next;
	t->n = 0;
	return true;
}

void spill_bytes(struct spill *s, struct spill_text *t, const char *bytes, size_t n)
{
	if (s->status < 0)
		return;
	if (!t->block) {
		t->block = malloc(BLOCK);
		if (!t->block) {
			fail(s, PTAH_E_NOMEM);
			return;
		}
		t->first = t->place = ++s->blocks;
	}
	t->size += n;
	while (n) {
		const size_t room = FULL - t->n, k = n < room ? n : room;

		memcpy(t->block + HEADER + t->n, bytes, k);
		t->n += k;
		bytes += k;
		n -= k;
		if (t->n == FULL && !put_block(s, t))
			return;
	}
}

void spill_decimal(struct spill *s, struct spill_text *t, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	spill_bytes(s, t, digits + at, sizeof(digits) - at);
}

int spill_write(struct spill *s, struct spill_text *t, struct out *out)
{
	char block[BLOCK];

	for (uint64_t i = t->first; i != t->place && s->status >= 0;) {
		if (!transfer(s, block, i, false))
			break;
		out_bytes(out, block + HEADER, FULL);
		memcpy(&i, block, HEADER);
	}
	if (s->status >= 0 && t->block)
		out_bytes(out, t->block + HEADER, t->n);
	spill_text_free(t);
	errno = s->status == PTAH_E_SYSTEM ? s->error : errno;
	return s->status;
}

void spill_text_free(struct spill_text *t)
{
	free(t->block);
	*t = (struct spill_text){0};
}
