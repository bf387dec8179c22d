/* SPDX-License-Identifier: MIT */
/*
 * Reads a list of generated code while its program writes it (jit.h). The file may be huge, may end
 * inside a record, and may be written anew or deleted at any time.
 */
#include "symbol/jit.h"

#include <ptah/base.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* So much is read at once; a record may be larger, up to the second. */
#define PART	   (UINT64_C(1) << 20)
#define RECORD_MAX (UINT64_C(16) << 20)

void symbol_jit_file_init(struct symbol_jit_file *f, int fd, bool is_dump, bool code)
{
	*f = (struct symbol_jit_file){
	    .fd = fd, .is_dump = is_dump, .dump = {.copies = true, .code = code}};
}

void symbol_jit_file_close(struct symbol_jit_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	symbol_jitdump_end(&f->dump);
}

/* Reads up to `n` bytes; fewer at the end of the file. */
static int64_t read_at(int fd, uint64_t offset, void *bytes, size_t n)
{
	size_t done = 0;

	while (done < n) {
		const ssize_t k =
		    pread(fd, (uint8_t *)bytes + done, n - done, (off_t)(offset + done));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return PTAH_E_SYSTEM;
		if (!k)
			break;
		done += (size_t)k;
	}
	return (int64_t)done;
}

/* Notes how the file begins, as far as that is written. */
static int note_first(struct symbol_jit_file *f, uint64_t size)
{
	int64_t n;

	if (f->first_size == sizeof(f->first) || size <= f->first_size)
		return 0;
	n = read_at(f->fd, 0, f->first, sizeof(f->first));
	f->first_size = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

/* Whether the file has been written anew since. */
static bool is_other(const struct symbol_jit_file *f, uint64_t size)
{
	uint8_t first[sizeof(f->first)];

	return size < f->offset || (f->first_size && (read_at(f->fd, 0, first, f->first_size) !=
							  (int64_t)f->first_size ||
						      memcmp(first, f->first, f->first_size) != 0));
}

/* Forgets all code, but not the names: they may be in use. */
static void restart(struct symbol_jit_file *f, struct symbol_jit *jit)
{
	const bool code = f->dump.code;

	jit->count = jit->indexed = jit->run_count = 0;
	symbol_jitdump_end(&f->dump);
	f->dump = (struct symbol_jitdump){.copies = true, .code = code};
	f->begun = f->ended = false;
	f->offset = f->wanted = 0;
	f->first_size = 0;
	f->restarts++;
}

static int64_t size_of(const struct symbol_jit_file *f)
{
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return PTAH_E_SYSTEM;
	return (uint64_t)st.st_size > SYMBOL_JIT_FILE_MAX ? (int64_t)SYMBOL_JIT_FILE_MAX
							  : (int64_t)st.st_size;
}

int symbol_jit_file_begin(struct symbol_jit_file *f, struct symbol_jit *jit)
{
	uint8_t header[SYMBOL_JITDUMP_HEADER];
	int64_t n;

	if (f->begun || !f->is_dump || f->fd < 0)
		return f->begun;
	n = read_at(f->fd, 0, header, sizeof(header));
	if (n < (int64_t)sizeof(header))
		return n < 0 ? (int)n : 0;
	n = symbol_jitdump_begin(&f->dump, jit, header, sizeof(header));
	if (n < 0) {
		f->ended = true;
		return (int)n;
	}
	f->begun = true;
	f->offset = (uint64_t)n;
	return 1;
}

/* Takes bytes at the offset. */
static void take_jit_bytes(struct symbol_jit_file *f, struct symbol_jit *jit, const uint8_t *bytes,
			   size_t n, bool last)
{
	size_t wanted = 0, used;

	if (f->is_dump)
		used = symbol_jitdump_take(&f->dump, jit, bytes, n, &wanted);
	else
		used = symbol_perf_map_take(jit, bytes, n, last);
	/* No line is so long. */
	if (!f->is_dump && !used && n >= PART)
		used = n;
	f->ended = f->dump.damaged || wanted > RECORD_MAX;
	f->offset += used;
	f->wanted = f->offset + wanted;
}

/* Reads a part. Returns how many bytes it has; 0: there is none now. */
static int64_t read_part(struct symbol_jit_file *f, struct symbol_jit *jit, bool last)
{
	const int64_t size = size_of(f);
	uint64_t n = f->wanted > f->offset ? f->wanted - f->offset : 0;
	uint8_t *bytes;
	int64_t got;

	if (size < 0)
		return size;
	if ((uint64_t)size <= f->offset || ((uint64_t)size < f->wanted && !last))
		return 0;
	n = n > PART ? n : PART;
	n = n < (uint64_t)size - f->offset ? n : (uint64_t)size - f->offset;
	bytes = malloc((size_t)n);
	if (!bytes)
		return PTAH_E_NOMEM;
	got = read_at(f->fd, f->offset, bytes, (size_t)n);
	if (got > 0)
		take_jit_bytes(f, jit, bytes, (size_t)got, last);
	free(bytes);
	return got;
}

int64_t symbol_jit_file_more(struct symbol_jit_file *f, struct symbol_jit *jit, uint64_t most,
			     bool last)
{
	int64_t size, n = 1, sum = 0;
	int status;

	if (f->fd < 0)
		return 0;
	size = size_of(f);
	if (size < 0)
		return size;
	if ((uint64_t)size != f->offset) {
		if (is_other(f, (uint64_t)size))
			restart(f, jit);
		status = note_first(f, (uint64_t)size);
		if (status >= 0)
			status = symbol_jit_file_begin(f, jit);
		if (status < 0)
			return status;
	}
	while (!f->ended && (f->begun || !f->is_dump) && (uint64_t)sum < most && n > 0) {
		const uint64_t before = f->offset, wanted = f->wanted;

		n = read_part(f, jit, last);
		sum += n > 0 ? n : 0;
		/* The last record is not complete, unless it is now known how large it is. */
		if (f->offset == before && f->wanted == wanted)
			break;
	}
	if (jit->failed)
		return PTAH_E_NOMEM;
	return n < 0 ? n : sum;
}
