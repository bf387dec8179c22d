/* SPDX-License-Identifier: MIT */
/* Opens, writes and closes the output of the writer, and keeps its first failure. */
#include "perfdata/writer_inside.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "perfdata/jit_folder.h"
#include "support/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BEHIND (64u << 10)
#define PIPE_MS	     20 /* between two looks whether it is late */

/* Output */

int perfdata_writer_fail(struct perfdata_writer *w, int status)
{
	if (w->status >= 0)
		w->status = status;
	return w->status;
}

int perfdata_writer_no_memory(struct perfdata_writer *w)
{
	return perfdata_writer_fail(
	    w, perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
}

int perfdata_writer_fail_system(struct perfdata_writer *w, const char *what)
{
	if (w->status < 0)
		return w->status;
	return perfdata_writer_fail(w, perfdata_system_message(&w->why, errno, w->path, what));
}

int perfdata_leave_out(struct perfdata_writer *w, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s is left out: it is too long for a record of perf.data",
		 what);
	return w->left_out++ ? w->status : perfdata_add_note(w, text);
}

/* The first one has a note already. */
static int note_left_out(struct perfdata_writer *w)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "%zu records are left out: they are too long for records of perf.data",
		 w->left_out);
	return w->left_out > 1 ? perfdata_add_note(w, text) : w->status;
}

static bool is_late(const struct perfdata_writer *w)
{
	const int64_t from = w->late ? __atomic_load_n(w->late, __ATOMIC_ACQUIRE) : 0;

	return from && monotonic_ns() > from;
}

/* poll() says that there is room for PIPE_BUF bytes, for which write() does not wait then. */
static ssize_t write_to_pipe(const struct perfdata_writer *w, const void *bytes, size_t n)
{
	struct pollfd room = {.fd = w->fd, .events = POLLOUT};

	while (poll(&room, 1, PIPE_MS) <= 0)
		if (is_late(w) || (w->given_up && w->given_up())) {
			errno = EINTR;
			return -1;
		}
	return write(w->fd, bytes, n < PIPE_BUF ? n : PIPE_BUF);
}

bool perfdata_write_at(const struct perfdata_writer *w, const void *bytes, size_t n,
		       uint64_t offset)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t k = w->piped ? write_to_pipe(w, p, n) : pwrite(w->fd, p, n, (off_t)offset);

		if (k < 0 && errno == EINTR && !is_late(w) && !(w->given_up && w->given_up()))
			continue;
		if (k <= 0) {
			if (!k)
				errno = ENOSPC;
			return false;
		}
		p += k;
		offset += (uint64_t)k;
		n -= (size_t)k;
	}
	return true;
}

/* Everything before the mark is in the file. */
static void set_mark(struct perfdata_writer *w, const struct written_mark *mark)
{
	w->last = *mark;
	for (unsigned i = 0; i < MARKS; i++) {
		if (w->last.size - w->next[i].size < UINT64_C(4096) << 4 * i)
			continue;
		w->before[i] = w->next[i];
		w->next[i] = w->last;
	}
}

int perfdata_write_pending(struct perfdata_writer *w)
{
	const struct written_mark end = {w->size, w->trace_size};

	return perfdata_write_part(w, &end);
}

int perfdata_write_part(struct perfdata_writer *w, const struct written_mark *complete)
{
	if (w->status < 0)
		return w->status;
	if (w->pending.failed)
		return perfdata_writer_no_memory(w);
	if (w->take)
		return 0;
	if (w->pending.size && !perfdata_write_at(w, w->pending.bytes, w->pending.size,
						  w->data_offset + w->size - w->pending.size))
		return perfdata_writer_fail_system(w, "write");
	w->pending.size = 0;
	set_mark(w, complete);
	return 0;
}

void perfdata_begin(struct perfdata_writer *w, uint32_t type, uint16_t misc, size_t size)
{
	perfdata_put32(&w->pending, type);
	perfdata_put16(&w->pending, misc);
	perfdata_put16(&w->pending, (uint16_t)size);
	w->size += size;
}

int perfdata_hand_over(struct perfdata_writer *w, const struct perfdata_piece *piece)
{
	int status = w->status < 0 ? w->status : w->take(w->context, piece);

	return status < 0 && w->status >= 0
		   ? perfdata_writer_fail(w, perfdata_message(&w->why, status,
							      "the output was refused: %s",
							      ptah_strerror(status)))
		   : w->status;
}

static int hand_over_record(struct perfdata_writer *w)
{
	const struct perfdata_piece piece = {
	    .tid = -1, .cpu = -1, .bytes = w->pending.bytes, .size = w->pending.size};
	int status = perfdata_write_pending(w); /* checks for lack of memory */

	if (status >= 0)
		status = perfdata_hand_over(w, &piece);
	w->pending.size = 0;
	return status;
}

int perfdata_end(struct perfdata_writer *w)
{
	if (w->take)
		return hand_over_record(w);
	return w->pending.size >= WRITE_BEHIND || w->pending.failed ? perfdata_write_pending(w)
								    : w->status;
}

void perfdata_put_padded(struct perfdata_writer *w, const void *bytes, size_t n)
{
	perfdata_put(&w->pending, bytes, n);
	if (n % 8)
		perfdata_put(&w->pending, NULL, 8 - n % 8);
}

int perfdata_writer_flush(struct perfdata_writer *w)
{
	uint8_t size[8];

	if (perfdata_write_pending(w) < 0 || w->take || w->piped)
		return w->status;
	store_le64(size, w->size);
	if (!perfdata_write_at(w, size, sizeof(size), PERFDATA_AT_DATA_SIZE))
		return perfdata_writer_fail_system(w, "write");
	return 0;
}

/* Opening and closing */

static void writer_free(struct perfdata_writer *w)
{
	while (w->files) {
		struct written_file *next = w->files->next;

		free(w->files);
		w->files = next;
	}
	if (w->fd >= 0)
		close(w->fd);
	perfdata_buffer_free(&w->pending);
	perfdata_buffer_free(&w->index);
	perfdata_buffer_free(&w->tracing);
	free(w->streams);
	for (size_t i = 0; i < w->event_count; i++) {
		free(w->events[i].name);
		free(w->events[i].ids);
	}
	free(w->events);
	free(w->pmus);
	free(w->cpuid);
	free(w->osrelease);
	for (char **arg = w->command; arg && *arg; arg++)
		free(*arg);
	free(w->command);
	perfdata_free_processes(w);
	free(w->path);
	free(w->old_path);
	free(w->copies);
	free(w->old_copies);
	free(w);
}

static char **copy_command(char *const *command)
{
	size_t n = 0;
	char **copy;

	while (command && command[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++)
		copy[i] = strdup(command[i]);
	return copy;
}

/* What is no file, or can only be appended to, gets the layout of a pipe. */
static void choose_layout(struct perfdata_writer *w, const struct stat *st)
{
	w->regular = S_ISREG(st->st_mode);
	w->piped = !w->regular || fcntl(w->fd, F_GETFL) & O_APPEND;
	w->indexed = w->indexed && !w->piped;
}

static int take_descriptor(struct perfdata_writer *w, int fd)
{
	struct stat st;

	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (w->fd < 0 || fstat(w->fd, &st))
		return perfdata_writer_fail_system(w, "use the descriptor");
	if (S_ISREG(st.st_mode) && st.st_size)
		return perfdata_writer_fail(
		    w,
		    perfdata_message(&w->why, PTAH_E_INVAL, "%s: the file is not empty", w->path));
	choose_layout(w, &st);
	return 0;
}

static int open_writer_file(struct perfdata_writer *w)
{
	struct stat st;
	bool there = stat(w->path, &st) == 0;

	/* An existing file is kept as PATH.old. A device or pipe is written to directly. */
	if (there && S_ISREG(st.st_mode) && st.st_size) {
		if (rename(w->path, w->old_path))
			return perfdata_writer_fail_system(w, "rename the old recording");
		w->renamed = true;
		perfdata_jit_remove(w->old_copies);
		rename(w->copies, w->old_copies);
	}
	w->fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return perfdata_writer_fail_system(w, "create");
	if (fstat(w->fd, &st))
		return perfdata_writer_fail_system(w, "create");
	choose_layout(w, &st);
	/* Copies that are left here were those of a recording that has been removed. */
	if (w->regular)
		perfdata_jit_remove(w->copies);
	return 0;
}

static bool name_others(struct perfdata_writer *w)
{
	if (asprintf(&w->old_path, "%s.old", w->path) < 0)
		w->old_path = NULL;
	w->copies = perfdata_jit_folder(w->path);
	w->old_copies = w->old_path ? perfdata_jit_folder(w->old_path) : NULL;
	return w->copies && w->old_copies;
}

int perfdata_writer_open(const struct perfdata_writer_config *config,
			 struct perfdata_writer **writer, struct ptah_message *why)
{
	struct perfdata_writer *w = calloc(1, sizeof(*w));
	int status;

	if (!w)
		return PTAH_E_NOMEM;
	w->fd = -1;
	w->path = strdup(config->path);
	w->clock = config->clock;
	w->command = copy_command(config->command);
	w->bare_command = config->bare_command;
	if (!w->path || !w->command || !name_others(w)) {
		writer_free(w);
		return PTAH_E_NOMEM;
	}
	w->take = config->take;
	w->context = config->context;
	w->given_up = config->given_up;
	w->late = config->late;
	if (!perfdata_copy_events(w, config)) {
		writer_free(w);
		return PTAH_E_NOMEM;
	}
	w->lent = config->to_fd;
	status = w->take ? 0 : w->lent ? take_descriptor(w, config->fd) : open_writer_file(w);
	if (status >= 0)
		status = perfdata_write_header(w);
	if (status >= 0 && w->piped)
		status = perfdata_write_piped_features(w);
	if (status >= 0 && w->pmu_type)
		status = perfdata_write_info(w, config);
	if (status >= 0)
		status = perfdata_writer_flush(w);
	if (status < 0) {
		if (why)
			*why = w->why;
		perfdata_writer_abort(w);
		return status;
	}
	*writer = w;
	return 0;
}

int perfdata_writer_status(const struct perfdata_writer *w)
{
	return w->status;
}

uint32_t perfdata_writer_notes(const struct perfdata_writer *w)
{
	return w->notes;
}

const char *perfdata_writer_why(const struct perfdata_writer *w)
{
	return w->status < 0 ? w->why.text : NULL;
}

/* Data of no bytes mark a file whose writer did not end: one without records gets an empty round. */
static int write_some_record(struct perfdata_writer *w)
{
	static const uint8_t round[8] = {PERFDATA_FINISHED_ROUND, [6] = sizeof(round)};

	return w->size || w->piped ? w->status : perfdata_write_raw(w, round, sizeof(round));
}

/* Writes what follows the data, and closes the file. */
static int complete(struct perfdata_writer *w)
{
	int fd = w->fd;

	if (note_left_out(w) < 0 || write_some_record(w) < 0 || perfdata_writer_flush(w) < 0 ||
	    w->take)
		return w->status;
	if (!w->piped && perfdata_write_features(w) < 0)
		return w->status;
	w->fd = -1;
	return close(fd) ? perfdata_writer_fail_system(w, "close") : 0;
}

/* Cuts the file after the mark, so that writing can continue there. */
static bool cut_after_mark(struct perfdata_writer *w, const struct written_mark *mark)
{
	w->status = 0;
	w->size = mark->size;
	w->trace_size = mark->trace_size;
	w->pending.size = 0;
	w->pending.failed = false;
	while (w->index.size >= 16 &&
	       load_le64(w->index.bytes + w->index.size - 16) >= w->data_offset + w->size)
		w->index.size -= 16;
	return w->fd >= 0 && ftruncate(w->fd, (off_t)(w->data_offset + w->size)) == 0;
}

/*
 * Keeps what was written before the writer failed. The file cannot become larger: the disk is full,
 * or a limit is reached. So if there is no room for the note and the features after the last whole
 * record, the file is cut further back. It can be read without them too.
 */
static bool keep_written_records(struct perfdata_writer *w)
{
	struct written_mark marks[MARKS + 1], end = w->last;
	char note[sizeof(w->why.text) + 64];

	if (!w->regular || w->piped || !end.trace_size)
		return false;
	snprintf(note, sizeof(note), "the recording is not complete: %s", w->why.text);
	marks[0] = end;
	memcpy(marks + 1, w->before, sizeof(w->before));
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (!marks[i].trace_size || marks[i].size > end.size)
			continue;
		end = marks[i];
		if (cut_after_mark(w, &end) && perfdata_add_note(w, note) >= 0 && complete(w) >= 0)
			return true;
	}
	return cut_after_mark(w, &end) && perfdata_writer_flush(w) >= 0;
}

int perfdata_writer_finish(struct perfdata_writer *w, uint64_t *trace_size,
			   struct ptah_message *why)
{
	int status = complete(w);
	bool kept;

	if (status < 0 && why)
		*why = w->why;
	kept = status >= 0 || keep_written_records(w);
	if (trace_size)
		*trace_size = kept ? w->trace_size : 0;
	if (kept)
		writer_free(w);
	else
		perfdata_writer_abort(w);
	return status;
}

uint64_t perfdata_writer_size(const struct perfdata_writer *w)
{
	return w->data_offset + w->size;
}

void perfdata_writer_abort(struct perfdata_writer *w)
{
	if (w->regular && w->lent)
		(void)!ftruncate(w->fd, 0); /* nothing better can be done about a failure */
	else if (w->regular)
		unlink(w->path);
	if (w->regular && !w->lent)
		perfdata_jit_remove(w->copies);
	/* If this fails, the old recording stays as PATH.old, as perf leaves it too. */
	if (w->renamed && !rename(w->old_path, w->path))
		rename(w->old_copies, w->copies);
	writer_free(w);
}
