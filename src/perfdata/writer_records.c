/* SPDX-License-Identifier: MIT */
/* Builds the records that Ptah's recorders write: those of perf, and Ptah's own. */
#include "perfdata/writer_inside.h"

#include "base/bits.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_ID_SIZE 32
#define MAX_STRING     (4096 + 8) /* of a path or a name, in a record */

uint64_t perfdata_time_of(const struct perfdata_writer *w, uint64_t tsc)
{
	const struct perfdata_clock *c = &w->clock;
	uint64_t quotient = tsc >> c->shift;
	uint64_t rest = tsc & ((UINT64_C(1) << c->shift) - 1);

	return c->zero + quotient * c->mult + (rest * c->mult >> c->shift);
}

static void put_sample_id_on(struct perfdata_writer *w, const struct perfdata_turn *turn,
			     uint64_t time)
{
	perfdata_put32(&w->pending, (uint32_t)turn->pid);
	perfdata_put32(&w->pending, (uint32_t)turn->tid);
	perfdata_put64(&w->pending, time);
	perfdata_put32(&w->pending, (uint32_t)turn->cpu);
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, w->event_id);
}

static void put_sample_id(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc)
{
	const struct perfdata_turn turn = {.pid = pid, .tid = tid};

	put_sample_id_on(w, &turn, perfdata_time_of(w, tsc));
}

static size_t string_size(const char *text)
{
	return (strlen(text) + 8) & ~(size_t)7;
}

int perfdata_write_comm(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			bool exec, const char *comm)
{
	char name[16];

	perfdata_note_process(w, pid);
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
	perfdata_note_process(w, pid);
	perfdata_begin(w, type, 0, 8 + 24 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)ppid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put32(&w->pending, (uint32_t)ptid);
	perfdata_put64(&w->pending, perfdata_time_of(w, tsc));
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

int perfdata_write_first_turn(struct perfdata_writer *w, const struct perfdata_turn *turn)
{
	perfdata_begin(w, PERFDATA_ITRACE_START, 0, 8 + 8 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)turn->pid);
	perfdata_put32(&w->pending, (uint32_t)turn->tid);
	put_sample_id_on(w, turn, 0);
	return perfdata_end(w);
}

static void put_switch(struct perfdata_writer *w, const struct perfdata_turn *turn,
		       const struct perfdata_turn *other, uint64_t tsc, bool out)
{
	perfdata_begin(w, PERFDATA_SWITCH_CPU_WIDE, out ? PERFDATA_MISC_SWITCH_OUT : 0,
		       8 + 8 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)other->pid);
	perfdata_put32(&w->pending, (uint32_t)other->tid);
	put_sample_id_on(w, turn, perfdata_time_of(w, tsc));
}

int perfdata_write_thread_switch(struct perfdata_writer *w, const struct perfdata_turn *turn,
				 uint64_t tsc, bool out, bool preempted)
{
	perfdata_begin(w, PERFDATA_SWITCH,
		       (out ? PERFDATA_MISC_SWITCH_OUT : 0) |
			   (out && preempted ? PERFDATA_MISC_PREEMPTED : 0),
		       8 + SAMPLE_ID_SIZE);
	put_sample_id_on(w, turn, perfdata_time_of(w, tsc));
	return perfdata_end(w);
}

int perfdata_write_switch(struct perfdata_writer *w, const struct perfdata_turn *from,
			  const struct perfdata_turn *to, uint64_t tsc)
{
	put_switch(w, from, to, tsc, true);
	if (perfdata_end(w) < 0)
		return w->status;
	put_switch(w, to, from, tsc, false);
	return perfdata_end(w);
}

/* Lists a file, for the header, with a build id that its caller sets. NULL: the list is full. */
static struct written_file *list_new_file(struct perfdata_writer *w, const char *path)
{
	size_t n = strlen(path) + 1;
	struct written_file *f = w->file_count < MAX_FILES ? malloc(sizeof(*f) + n) : NULL;

	if (!f)
		return NULL;
	w->file_count++;
	memcpy(f->path, path, n);
	f->kernel = false;
	f->next = w->files;
	w->files = f;
	return f;
}

static struct written_file *find_written_file(const struct perfdata_writer *w, const char *path)
{
	for (struct written_file *f = w->files; f; f = f->next)
		if (!strcmp(f->path, path))
			return f;
	return NULL;
}

static const struct written_file *file_of(struct perfdata_writer *w, const char *path)
{
	struct written_file *f = find_written_file(w, path);

	if (f)
		return f;
	f = list_new_file(w, path);
	/*
	 * A file that cannot be read has no id. That it is missing is reported when the recording
	 * is decoded.
	 */
	if (f && perfdata_build_id_read(path, &f->id) < 0)
		f->id.size = 0;
	return f;
}

int perfdata_write_mmap2(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			 const struct perfdata_mapping *mapping, const char *path)
{
	static const struct perfdata_build_id unknown;
	const struct written_file *file = file_of(w, path);

	return perfdata_write_foreign_map(w, pid, tid, tsc, mapping, path,
					  file ? &file->id : &unknown);
}

int perfdata_write_foreign_map(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			       const struct perfdata_mapping *mapping, const char *path,
			       const struct perfdata_build_id *id)
{
	if (string_size(path) > MAX_STRING)
		return perfdata_leave_out(w, "a mapping with its path");
	perfdata_note_mapping(w, pid, path);
	perfdata_begin(
	    w, PERFDATA_MMAP2,
	    (uint16_t)(PERFDATA_MISC_USER | (id->size ? PERFDATA_MISC_MMAP_BUILD_ID : 0)),
	    8 + 8 + 24 + 24 + 8 + string_size(path) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put64(&w->pending, mapping->address);
	perfdata_put64(&w->pending, mapping->size);
	perfdata_put64(&w->pending, mapping->file_offset);
	if (id->size) {
		perfdata_put32(&w->pending, id->size);
		perfdata_put(&w->pending, id->bytes, sizeof(id->bytes));
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

/* The kernel */

/* The header lists the ids of the kernel and its modules, because MMAP has no room for them. */
static int list_kernel_file(struct perfdata_writer *w, const char *path,
			    const struct perfdata_build_id *id)
{
	static const char kernel[] = "[kernel.kallsyms]";
	struct written_file *f;

	if (!strncmp(path, kernel, sizeof(kernel) - 1))
		path = kernel; /* without the symbol */
	f = id->size && !find_written_file(w, path) ? list_new_file(w, path) : NULL;
	if (!f)
		return w->status;
	f->kernel = true;
	f->id = *id;
	if (!w->piped)
		return w->status;
	w->size += perfdata_put_build_id(&w->pending, f);
	return perfdata_end(w);
}

int perfdata_write_kernel_map(struct perfdata_writer *w, uint64_t tsc,
			      const struct perfdata_mapping *mapping, const char *path,
			      const struct perfdata_build_id *id)
{
	if (string_size(path) > MAX_STRING)
		return perfdata_leave_out(w, "a mapping of the kernel with its path");
	if (list_kernel_file(w, path, id) < 0)
		return w->status;
	perfdata_begin(w, PERFDATA_MMAP, PERFDATA_MISC_KERNEL,
		       8 + 8 + 24 + string_size(path) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, UINT32_MAX); /* pid -1: the kernel */
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, mapping->address);
	perfdata_put64(&w->pending, mapping->size);
	perfdata_put64(&w->pending, mapping->file_offset);
	perfdata_put_string(&w->pending, path, 8);
	put_sample_id(w, -1, 0, tsc);
	return perfdata_end(w);
}

int perfdata_write_ksymbol(struct perfdata_writer *w, uint64_t tsc, uint64_t address, uint32_t size,
			   const char *name)
{
	if (string_size(name) > MAX_STRING)
		return perfdata_leave_out(w, "a symbol of the kernel");
	perfdata_begin(w, PERFDATA_KSYMBOL, PERFDATA_MISC_KERNEL,
		       8 + 16 + string_size(name) + SAMPLE_ID_SIZE);
	perfdata_put64(&w->pending, address);
	perfdata_put32(&w->pending, size);
	perfdata_put16(&w->pending, PERFDATA_KSYMBOL_OUT_OF_LINE);
	perfdata_put16(&w->pending, 0);
	perfdata_put_string(&w->pending, name, 8);
	put_sample_id(w, -1, 0, tsc);
	return perfdata_end(w);
}

int perfdata_write_poke(struct perfdata_writer *w, uint64_t tsc, uint64_t address,
			const void *bytes, size_t size)
{
	const size_t body = (12 + size + 7) & ~(size_t)7;

	if (size > PERFDATA_POKE)
		return perfdata_leave_out(w, "changed code of the kernel");
	perfdata_begin(w, PERFDATA_TEXT_POKE, PERFDATA_MISC_KERNEL, 8 + body + SAMPLE_ID_SIZE);
	perfdata_put64(&w->pending, address);
	perfdata_put16(&w->pending, 0); /* the bytes before are not known */
	perfdata_put16(&w->pending, (uint16_t)size);
	perfdata_put(&w->pending, bytes, size);
	perfdata_put(&w->pending, NULL, body - 12 - size);
	put_sample_id(w, -1, 0, tsc);
	return perfdata_end(w);
}

/* Trace */

static struct written_stream *stream_of(struct perfdata_writer *w, uint32_t index)
{

	for (size_t i = w->stream_count; i-- > 0;)
		if (w->streams[i].index == index)
			return &w->streams[i];
	if (!LIST_ADD(w->streams, w->stream_count))
		return NULL;
	w->streams[w->stream_count - 1] = (struct written_stream){index, 0};
	return &w->streams[w->stream_count - 1];
}

static bool write_stream_trace(const struct perfdata_writer *w, const struct perfdata_aux *aux)
{
	const struct iovec whole = {(void *)(uintptr_t)aux->bytes, aux->size};
	const struct iovec *parts = aux->parts ? aux->parts : &whole;
	uint64_t at = w->data_offset + w->size;

	for (size_t i = 0; i < (aux->parts ? aux->part_count : 1); i++) {
		if (!perfdata_write_at(w, parts[i].iov_base, parts[i].iov_len, at))
			return false;
		at += parts[i].iov_len;
	}
	return true;
}

/* Gives the trace to the caller: each part is a piece. */
static int hand_over_trace(struct perfdata_writer *w, const struct perfdata_aux *aux)
{
	const struct iovec whole = {(void *)(uintptr_t)aux->bytes, aux->size};
	const struct iovec *parts = aux->parts ? aux->parts : &whole;
	struct perfdata_piece piece = {
	    .trace = true,
	    .stream = aux->index,
	    .tid = aux->tid,
	    .cpu = aux->cpu,
	    .offset = aux->offset,
	};

	for (size_t i = 0; i < (aux->parts ? aux->part_count : 1) && w->status >= 0; i++) {
		piece.bytes = parts[i].iov_base;
		piece.size = parts[i].iov_len;
		w->size += piece.size;
		if (piece.size)
			perfdata_hand_over(w, &piece);
		piece.offset += piece.size;
	}
	return w->status;
}

/*
 * Writes one AUXTRACE record. Like perf's, it is padded to a multiple of eight bytes with PAD
 * packets, and it must not end inside a packet: perf does not join packets that lie in two records.
 */
int perfdata_write_aux(struct perfdata_writer *w, const struct perfdata_aux *aux)
{
	const struct written_mark start = {w->size, w->trace_size};
	size_t padding = -aux->size & 7;

	if (w->status < 0 || !aux->size)
		return w->status;
	if (w->take)
		return hand_over_trace(w, aux);
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
	if (!write_stream_trace(w, aux))
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

int perfdata_write_aux_flags(struct perfdata_writer *w, const struct perfdata_turn *stream,
			     uint64_t tsc, uint64_t offset, uint64_t flags)
{
	perfdata_begin(w, PERFDATA_AUX, 0, 8 + 24 + SAMPLE_ID_SIZE);
	perfdata_put64(&w->pending, offset);
	perfdata_put64(&w->pending, 0); /* new bytes: none */
	perfdata_put64(&w->pending, flags);
	put_sample_id_on(w, stream, perfdata_time_of(w, tsc));
	return perfdata_end(w);
}

int perfdata_list_build_id(struct perfdata_writer *w, const char *path, bool kernel,
			   const struct perfdata_build_id *id)
{
	struct written_file *f = find_written_file(w, path) ? NULL : list_new_file(w, path);

	if (!f)
		return w->status;
	f->kernel = kernel;
	f->id = *id;
	if (!w->piped)
		return w->status;
	w->size += perfdata_put_build_id(&w->pending, f);
	return perfdata_end(w);
}

/* Adds the file of an MMAP2 record without a build id to the header's list. */
static void list_file(struct perfdata_writer *w, const uint8_t *record, size_t size)
{
	const size_t path = PERFDATA_RECORD_HEADER + 64;

	if (load_le32(record) == PERFDATA_MMAP2 && size > path && record[path] == '/' &&
	    !(load_le16(record + 4) & PERFDATA_MISC_MMAP_BUILD_ID) &&
	    memchr(record + path, '\0', size - path))
		file_of(w, (const char *)record + path);
}

int perfdata_write_raw(struct perfdata_writer *w, const void *record, size_t size)
{
	if (w->status < 0)
		return w->status;
	if (size > MAX_RECORD)
		return perfdata_leave_out(w, "a record of the kernel");
	if (size < PERFDATA_RECORD_HEADER || size % 8)
		return perfdata_writer_fail(w, perfdata_message(&w->why, PTAH_E_INVAL,
								"a record of %zu bytes is not one",
								size));
	if (!perfdata_is_guest_mode(load_le16((const uint8_t *)record + 4))) {
		list_file(w, record, size);
		perfdata_note_raw(w, record, size);
	}
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
	w->truth_count++;
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

size_t perfdata_without_truth(const struct perfdata_writer *w, size_t *streams)
{
	*streams = w->stream_count;
	return w->stream_count > w->truth_count ? w->stream_count - w->truth_count : 0;
}

static int add_code_record(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
			   const void *bytes, size_t size)
{
	begin_ptah(w, PERFDATA_PTAH_CODE, PERFDATA_PTAH_CODE_HEADER + size);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)size);
	perfdata_put64(&w->pending, tsc);
	perfdata_put64(&w->pending, address);
	perfdata_put_padded(w, bytes, size);
	return perfdata_end(w);
}

int perfdata_add_code(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
		      const void *bytes, size_t size)
{
	const uint8_t *p = bytes;
	int status = w->status;

	while (size && status >= 0) {
		const size_t n = size < MAX_CODE ? size : MAX_CODE;

		status = add_code_record(w, pid, tsc, address, p, n);
		p += n;
		address += n;
		size -= n;
	}
	return status;
}

int perfdata_add_vdso(struct perfdata_writer *w, const void *bytes, size_t size)
{
	if (size > MAX_RECORD - 64)
		return perfdata_leave_out(w, "the code of [vdso]");
	begin_ptah(w, PERFDATA_PTAH_VDSO, 8 + size);
	perfdata_put32(&w->pending, 64);
	perfdata_put32(&w->pending, (uint32_t)size);
	perfdata_put_padded(w, bytes, size);
	return perfdata_end(w);
}

int perfdata_add_page(struct perfdata_writer *w, uint32_t page, const void *bytes)
{
	begin_ptah(w, PERFDATA_PTAH_PAGE, PERFDATA_PTAH_PAGE_HEADER + PERFDATA_PAGE);
	perfdata_put32(&w->pending, page);
	perfdata_put32(&w->pending, PERFDATA_PAGE);
	perfdata_put(&w->pending, bytes, PERFDATA_PAGE);
	return perfdata_end(w);
}

int perfdata_add_guest_map(struct perfdata_writer *w, const struct perfdata_guest_map *map)
{
	begin_ptah(w, PERFDATA_PTAH_GUEST_MAP, PERFDATA_PTAH_GUEST_SIZE);
	perfdata_put32(&w->pending, (uint32_t)map->cpu);
	perfdata_put32(&w->pending, map->page);
	perfdata_put64(&w->pending, map->tsc);
	perfdata_put64(&w->pending, map->address);
	perfdata_put64(&w->pending, map->cr3);
	return perfdata_end(w);
}

int perfdata_add_space(struct perfdata_writer *w, uint64_t cr3, uint64_t tsc, const char *name)
{
	char text[PERFDATA_PTAH_SPACE_SIZE - 16] = "";

	snprintf(text, sizeof(text), "%s", name);
	begin_ptah(w, PERFDATA_PTAH_SPACE, PERFDATA_PTAH_SPACE_SIZE);
	perfdata_put64(&w->pending, cr3);
	perfdata_put64(&w->pending, tsc);
	perfdata_put(&w->pending, text, sizeof(text));
	return perfdata_end(w);
}

int perfdata_add_note(struct perfdata_writer *w, const char *text)
{
	size_t n = strnlen(text, 4096);

	w->notes++;
	begin_ptah(w, PERFDATA_PTAH_NOTE, n);
	perfdata_put_padded(w, text, n);
	return perfdata_end(w);
}

int perfdata_add_hit(struct perfdata_writer *w, const struct ptah_hit *hit)
{
	const size_t n = strnlen(hit->text, 4096);

	begin_ptah(w, PERFDATA_PTAH_HIT, PERFDATA_PTAH_HIT_HEADER + n);
	perfdata_put64(&w->pending, hit->time);
	perfdata_put64(&w->pending, hit->since);
	perfdata_put32(&w->pending, (uint32_t)hit->pid);
	perfdata_put32(&w->pending, (uint32_t)hit->tid);
	perfdata_put_padded(w, hit->text, n);
	return perfdata_end(w);
}

bool perfdata_writer_is_read(const struct perfdata_writer *w)
{
	return w->take || w->piped;
}

int perfdata_end_round(struct perfdata_writer *w)
{
	const bool full = w->size != w->round_end;

	if (w->status < 0 || !perfdata_writer_is_read(w) ||
	    (w->round_end && !full && !w->round_full))
		return w->status;
	w->round_full = full;
	begin_ptah(w, PERFDATA_PTAH_ROUND, 0);
	w->round_end = w->size;
	perfdata_end(w);
	/* Who reads the pipe waits for the mark. */
	return w->piped ? perfdata_write_pending(w) : w->status;
}
