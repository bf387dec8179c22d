/* SPDX-License-Identifier: MIT */
/* Builds the records that Ptah's recorders write: those of perf, and Ptah's own. */
#include "perfdata/writer_inside.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_ID_SIZE 32

static uint64_t to_time(const struct perfdata_writer *w, uint64_t tsc)
{
	const struct perfdata_clock *c = &w->clock;
	uint64_t quotient = tsc >> c->shift;
	uint64_t rest = tsc & ((UINT64_C(1) << c->shift) - 1);

	return c->zero + quotient * c->mult + (rest * c->mult >> c->shift);
}

static void put_sample_id(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc)
{
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put64(&w->pending, to_time(w, tsc));
	perfdata_put32(&w->pending, 0); /* cpu */
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, w->event_id);
}

static size_t string_size(const char *text)
{
	return (strlen(text) + 8) & ~(size_t)7;
}

int perfdata_write_comm(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			bool exec, const char *comm)
{
	char name[16];

	snprintf(name, sizeof(name), "%s", comm);
	perfdata_begin(w, PERFDATA_COMM, exec ? PERFDATA_MISC_COMM_EXEC : 0,
		       8 + 8 + string_size(name) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put_string(&w->pending, name, 8);
	put_sample_id(w, pid, tid, tsc);
	return perfdata_end(w);
}

static int write_task(struct perfdata_writer *w, uint32_t type, int32_t pid, int32_t tid,
		      int32_t ppid, int32_t ptid, uint64_t tsc)
{
	perfdata_begin(w, type, 0, 8 + 24 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)ppid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put32(&w->pending, (uint32_t)ptid);
	perfdata_put64(&w->pending, to_time(w, tsc));
	put_sample_id(w, pid, tid, tsc);
	return perfdata_end(w);
}

int perfdata_write_fork(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc)
{
	return write_task(w, PERFDATA_FORK, pid, tid, ppid, ptid, tsc);
}

int perfdata_write_exit(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc)
{
	return write_task(w, PERFDATA_EXIT, pid, tid, ppid, ptid, tsc);
}

int perfdata_write_itrace_start(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc)
{
	perfdata_begin(w, PERFDATA_ITRACE_START, 0, 8 + 8 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	put_sample_id(w, pid, tid, tsc);
	return perfdata_end(w);
}

static const struct written_file *file_of(struct perfdata_writer *w, const char *path, int32_t pid)
{
	size_t n = strlen(path) + 1;
	struct written_file *f;

	for (f = w->files; f; f = f->next)
		if (!strcmp(f->path, path))
			return f;
	f = w->file_count < MAX_FILES ? malloc(sizeof(*f) + n) : NULL;
	if (!f)
		return NULL;
	w->file_count++;
	memcpy(f->path, path, n);
	f->pid = pid;
	/*
	 * A file that cannot be read has no id. That it is missing is reported when the recording
	 * is decoded.
	 */
	if (perfdata_build_id_read(path, &f->id) < 0)
		f->id.size = 0;
	f->next = w->files;
	w->files = f;
	return f;
}

int perfdata_write_mmap2(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			 const struct perfdata_mapping *mapping, const char *path)
{
	const struct written_file *file = file_of(w, path, pid);
	bool id = file && file->id.size;

	if (string_size(path) > 4096 + 8)
		return perfdata_writer_fail(
		    w, perfdata_message(&w->why, PTAH_E_LIMIT,
					"the path of a mapped file is too long"));
	perfdata_begin(w, PERFDATA_MMAP2,
		       (uint16_t)(PERFDATA_MISC_USER | (id ? PERFDATA_MISC_MMAP_BUILD_ID : 0)),
		       8 + 8 + 24 + 24 + 8 + string_size(path) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put64(&w->pending, mapping->address);
	perfdata_put64(&w->pending, mapping->size);
	perfdata_put64(&w->pending, mapping->file_offset);
	if (id) {
		perfdata_put32(&w->pending, file->id.size);
		perfdata_put(&w->pending, file->id.bytes, sizeof(file->id.bytes));
	} else {
		perfdata_put32(&w->pending, mapping->major);
		perfdata_put32(&w->pending, mapping->minor);
		perfdata_put64(&w->pending, mapping->inode);
		perfdata_put64(&w->pending, 0); /* the inode's generation is unknown */
	}
	perfdata_put32(&w->pending, mapping->prot);
	perfdata_put32(&w->pending, mapping->flags);
	perfdata_put_string(&w->pending, path, 8);
	put_sample_id(w, pid, tid, tsc);
	return perfdata_end(w);
}

/* Trace */

static struct written_stream *stream_of(struct perfdata_writer *w, uint32_t index)
{
	struct written_stream *streams;

	for (size_t i = w->stream_count; i-- > 0;)
		if (w->streams[i].index == index)
			return &w->streams[i];
	streams = realloc(w->streams, (w->stream_count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	w->streams = streams;
	streams[w->stream_count] = (struct written_stream){index, 0};
	return &streams[w->stream_count++];
}

/*
 * Writes one AUXTRACE record. Like perf's, it is padded to a multiple of eight bytes with PAD
 * packets, and it must not end inside a packet: perf does not join packets that lie in two records.
 */
int perfdata_write_aux(struct perfdata_writer *w, const struct perfdata_aux *aux)
{
	const struct perfdata_piece piece = {
	    .trace = true,
	    .stream = aux->index,
	    .tid = aux->tid,
	    .cpu = aux->cpu,
	    .offset = aux->offset,
	    .bytes = aux->bytes,
	    .size = aux->size,
	};
	const struct written_mark start = {w->size, w->trace_size};
	size_t padding = -aux->size & 7;

	if (w->status < 0 || !aux->size)
		return w->status;
	if (w->take) {
		w->size += aux->size;
		return perfdata_hand_over(w, &piece);
	}
	if (w->indexed) {
		perfdata_put64(&w->index, w->data_offset + w->size);
		perfdata_put64(&w->index, PERFDATA_AUXTRACE_HEADER);
	}
	perfdata_begin(w, PERFDATA_AUXTRACE, 0, PERFDATA_AUXTRACE_HEADER);
	perfdata_put64(&w->pending, aux->size + padding);
	perfdata_put64(&w->pending, aux->offset);
	perfdata_put64(&w->pending, aux->reference);
	perfdata_put32(&w->pending, aux->index);
	perfdata_put32(&w->pending, (uint32_t)aux->tid);
	perfdata_put32(&w->pending, (uint32_t)aux->cpu);
	perfdata_put32(&w->pending, 0);
	if (perfdata_write_part(w, &start) < 0)
		return w->status;
	if (!perfdata_write_at(w->fd, aux->bytes, aux->size, w->data_offset + w->size))
		return perfdata_writer_fail_system(w, "write");
	w->size += aux->size;
	w->trace_size += aux->size;
	perfdata_put(&w->pending, NULL, padding);
	w->size += padding;
	return perfdata_end(w);
}

int perfdata_write_auxtrace(struct perfdata_writer *w, uint32_t index, int32_t tid,
			    const void *bytes, size_t size)
{
	struct written_stream *s = stream_of(w, index);
	struct perfdata_aux aux = {
	    .index = index,
	    .tid = tid,
	    .cpu = -1,
	    /*
	     * perf takes the TSC's highest byte from here; with 0 it would assume that there is no
	     * time at all.
	     */
	    .reference = 1,
	    .bytes = bytes,
	    .size = size,
	};

	if (w->status < 0 || !size)
		return w->status;
	if (!s)
		return perfdata_writer_no_memory(w);
	aux.offset = s->size;
	/* In a file the next piece follows the padding. */
	s->size += w->take ? size : (size + 7) & ~(size_t)7;
	return perfdata_write_aux(w, &aux);
}

/* Adds the file of an MMAP2 record without a build id to the header's list. */
static void list_file(struct perfdata_writer *w, const uint8_t *record, size_t size)
{
	const size_t path = PERFDATA_RECORD_HEADER + 64;

	if (load_le32(record) == PERFDATA_MMAP2 && size > path && record[path] == '/' &&
	    !(load_le16(record + 4) & PERFDATA_MISC_MMAP_BUILD_ID) &&
	    memchr(record + path, '\0', size - path))
		file_of(w, (const char *)record + path, (int32_t)load_le32(record + 8));
}

int perfdata_write_raw(struct perfdata_writer *w, const void *record, size_t size)
{
	if (w->status < 0)
		return w->status;
	if (size < PERFDATA_RECORD_HEADER || size % 8 || size > MAX_RECORD)
		return perfdata_writer_fail(w, perfdata_message(&w->why, PTAH_E_INVAL,
								"a record of %zu bytes is not one",
								size));
	list_file(w, record, size);
	perfdata_put(&w->pending, record, size);
	w->size += size;
	return perfdata_end(w);
}

int perfdata_skip_auxtrace(struct perfdata_writer *w, uint32_t index, uint64_t size)
{
	struct written_stream *s = stream_of(w, index);

	if (!s)
		return perfdata_writer_no_memory(w);
	s->size += (size + 7) & ~UINT64_C(7);
	return w->status;
}

/* Ptah's own records (docs/perf-data.md) */

static void begin_ptah(struct perfdata_writer *w, uint32_t tag, size_t n)
{
	perfdata_begin(w, PERFDATA_HEADER_EVENT_TYPE, 0, 8 + 16 + ((n + 7) & ~(size_t)7));
	perfdata_put32(&w->pending, PERFDATA_PTAH_MAGIC);
	perfdata_put32(&w->pending, PERFDATA_PTAH_VERSION);
	perfdata_put32(&w->pending, tag);
	perfdata_put32(&w->pending, (uint32_t)n);
}

int perfdata_add_truth(struct perfdata_writer *w, uint32_t index, int32_t pid, int32_t tid,
		       const struct ptah_truth *truth, uint64_t lost)
{
	begin_ptah(w, PERFDATA_PTAH_TRUTH, PERFDATA_PTAH_TRUTH_SIZE);
	perfdata_put32(&w->pending, index);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, truth->instructions);
	perfdata_put64(&w->pending, truth->conditional);
	perfdata_put64(&w->pending, truth->indirect);
	perfdata_put64(&w->pending, truth->returns);
	perfdata_put64(&w->pending, truth->path_hash);
	perfdata_put64(&w->pending, lost);
	return perfdata_end(w);
}

int perfdata_add_code(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
		      const void *bytes, size_t size)
{
	if (size > MAX_RECORD - 64)
		return perfdata_writer_fail(
		    w, perfdata_message(&w->why, PTAH_E_LIMIT, "a piece of code is too long"));
	begin_ptah(w, PERFDATA_PTAH_CODE, PERFDATA_PTAH_CODE_HEADER + size);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)size);
	perfdata_put64(&w->pending, tsc);
	perfdata_put64(&w->pending, address);
	perfdata_put_padded(w, bytes, size);
	return perfdata_end(w);
}

int perfdata_add_note(struct perfdata_writer *w, const char *text)
{
	size_t n = strnlen(text, 4096);

	begin_ptah(w, PERFDATA_PTAH_NOTE, n);
	perfdata_put_padded(w, text, n);
	return perfdata_end(w);
}
