/* SPDX-License-Identifier: MIT */
/* Writes the pieces of a recorder to a perf.data in the layout of a pipe. */
#include <ptah/live.h>

#include "base/bits.h"
#include "perfdata/format.h"
#include "perfdata/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ptah_live_file {
	FILE *file;
	char *path;
	bool created; /* there was no such file */
	bool begun;   /* a piece has come: what was there before is gone */
	struct ptah_record_sink sink;
	int status;
};

static int write_bytes(struct ptah_live_file *f, const void *bytes, size_t n)
{
	if (f->status >= 0 && n && fwrite(bytes, 1, n, f->file) != n)
		f->status = PTAH_E_SYSTEM;
	return f->status;
}

static int write_trace(struct ptah_live_file *f, const struct ptah_record_piece *p)
{
	static const uint8_t zeros[8];
	uint8_t header[PERFDATA_AUXTRACE_HEADER] = {0};
	const size_t padding = -p->size & 7;

	store_le32(header, PERFDATA_AUXTRACE);
	store_le16(header + 6, sizeof(header));
	store_le64(header + 8, p->size + padding);
	store_le64(header + 16, p->offset);
	store_le64(header + 24, 1); /* see perfdata_write_auxtrace() */
	store_le32(header + 32, p->stream);
	store_le32(header + 36, (uint32_t)p->tid);
	store_le32(header + 40, (uint32_t)p->cpu);
	write_bytes(f, header, sizeof(header));
	write_bytes(f, p->bytes, p->size);
	return write_bytes(f, zeros, padding);
}

static void begin_file_watch(struct ptah_live_file *f)
{
	uint8_t header[PERFDATA_PIPE_SIZE];

	f->begun = true;
	if (ftruncate(fileno(f->file), 0) && errno != EINVAL) /* not of a pipe */
		f->status = PTAH_E_SYSTEM;
	memcpy(header, PERFDATA_MAGIC, 8);
	store_le64(header + 8, PERFDATA_PIPE_SIZE);
	write_bytes(f, header, sizeof(header));
}

static int take_file_piece(void *context, const struct ptah_record_piece *p)
{
	struct ptah_live_file *f = context;

	if (!f->begun)
		begin_file_watch(f);
	if (p->kind == PTAH_RECORD_PIECE_TRACE)
		return write_trace(f, p);
	return p->kind == PTAH_RECORD_PIECE_RECORD ? write_bytes(f, p->bytes, p->size) : 0;
}

static int open_live_file(const char *path, struct ptah_live_file **file, struct ptah_message *why)
{
	struct ptah_live_file *f;
	int fd;

	if (!path || !file)
		return PTAH_E_INVAL;
	f = calloc(1, sizeof(*f));
	if (f)
		f->path = strdup(path);
	if (!f || !f->path) {
		ptah_live_file_free(f);
		return PTAH_E_NOMEM;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	f->created = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		f->file = fdopen(fd, "w");
	if (!f->file) {
		const int status = perfdata_system_message(why, errno, path, "create");

		if (fd >= 0)
			close(fd);
		ptah_live_file_free(f);
		return status;
	}
	f->sink = (struct ptah_record_sink){.take = take_file_piece, .context = f};
	*file = f;
	return 0;
}

int ptah_live_file_new(const char *path, struct ptah_live_file **file, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, open_live_file(path, file, why));
}

const struct ptah_record_sink *ptah_live_file_sink(struct ptah_live_file *f)
{
	return f ? &f->sink : NULL;
}

int ptah_live_file_finish(struct ptah_live_file *f)
{
	if (!f || !f->file)
		return PTAH_E_INVAL;
	if (fclose(f->file) && f->status >= 0)
		f->status = PTAH_E_SYSTEM;
	f->file = NULL;
	/* Nothing was recorded. */
	if (f->created && !f->begun)
		unlink(f->path);
	return f->status;
}

void ptah_live_file_free(struct ptah_live_file *f)
{
	if (f && f->file)
		ptah_live_file_finish(f);
	if (f)
		free(f->path);
	free(f);
}
