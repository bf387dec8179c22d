/* SPDX-License-Identifier: MIT */
/* The trace of a recording: its streams, their bytes, and what the engine reports about them. */
#include "record/recording.h"

#include "perfdata/format.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The reference of an AUXTRACE record. perf takes the highest byte of times from it, which TSC
 * packets do not have; with 0 it would assume that there is no time.
 */
static uint64_t reference_of(const struct ptah_recording *r)
{
	return r->now ? r->now : 1;
}

/* Streams */

static int check_stream(struct ptah_recording *r, const struct ptah_recording_stream *config)
{
	if (config->size < sizeof(*config))
		return recording_refuse(r, "the stream's size is not set");
	if (r->kind == PTAH_RECORDING_CPUS &&
	    (config->cpu < 0 || config->cpu >= RECORDING_CPUS_MAX))
		return recording_refuse(r, "processor %d: the numbers are 0 to %d", config->cpu,
					RECORDING_CPUS_MAX - 1);
	if (r->kind == PTAH_RECORDING_THREADS && (config->pid <= 0 || config->tid <= 0))
		return recording_refuse(r, "process %d, thread %d: the numbers begin with 1",
					config->pid, config->tid);
	if (r->stream_count >= UINT32_MAX)
		return recording_refuse(r, "there are too many streams");
	return 0;
}

int ptah_recording_add_stream(struct ptah_recording *r, const struct ptah_recording_stream *config,
			      uint32_t *stream)
{
	const bool cpu = r && r->kind == PTAH_RECORDING_CPUS;
	int status = recording_check(r);

	if (status < 0)
		return status;
	if (!config || !stream)
		return recording_refuse(r, "a stream needs a configuration and a place for its "
					   "number");
	status = check_stream(r, config);
	if (status < 0)
		return status;
	if (!LIST_ROOM(r->streams, r->stream_count, r->stream_capacity))
		return recording_no_memory(r);
	recording_reach(r, cpu ? 0 : config->tsc);
	if (!cpu)
		status = recording_wrote(r, perfdata_write_itrace_start(r->writer, config->pid,
									config->tid, config->tsc));
	if (status < 0)
		return status;
	r->streams[r->stream_count] = (struct recorded_stream){
	    .of = {cpu ? config->cpu : -1, cpu ? -1 : config->pid, cpu ? -1 : config->tid}};
	*stream = (uint32_t)r->stream_count++;
	return 0;
}

/* The stream that a call is about, if the call can be carried out. */
static int find_stream(struct ptah_recording *r, uint32_t stream, struct recorded_stream **s)
{
	int status = recording_check(r);

	if (status < 0)
		return status;
	if (stream >= r->stream_count) {
		recording_refuse(r, "stream %" PRIu32 ": there are %zu", stream, r->stream_count);
		return PTAH_E_INVAL;
	}
	*s = &r->streams[stream];
	return 0;
}

/* Bytes */

static int write_recorded_parts(struct ptah_recording *r, uint32_t stream, uint64_t offset,
				const struct iovec *parts, size_t n, size_t size)
{
	const struct recorded_stream *s = &r->streams[stream];
	const struct perfdata_aux aux = {
	    .index = stream,
	    .tid = s->of.tid,
	    .cpu = s->of.cpu,
	    .offset = offset,
	    .reference = reference_of(r),
	    .size = size,
	    .parts = parts,
	    .part_count = n,
	};

	return recording_wrote(r, perfdata_write_aux(r->writer, &aux));
}

/* Writes the bytes that were held back, which nothing follows. */
static int release_rest(struct ptah_recording *r, uint32_t stream)
{
	struct recorded_stream *s = &r->streams[stream];
	const struct packet_cut cut = s->cut;
	const struct iovec part = {(void *)(uintptr_t)cut.rest, cut.rest_size};

	s->cut = (struct packet_cut){0};
	if (!cut.rest_size)
		return 0;
	return write_recorded_parts(r, stream, s->end - cut.rest_size, &part, 1, cut.rest_size);
}

static int write_flags(struct ptah_recording *r, const struct recorded_stream *s, uint64_t time,
		       uint64_t position, uint64_t flags)
{
	struct perfdata_turn of = s->of;

	/* A thread's record has some processor. */
	if (of.cpu < 0)
		of.cpu = 0;
	return recording_wrote(r, perfdata_write_aux_flags(r->writer, &of, time, position, flags));
}

/* Where the stream continues at `position`: writes what was held back before a gap. */
static int continue_at(struct ptah_recording *r, uint32_t stream, uint64_t position)
{
	struct recorded_stream *s = &r->streams[stream];
	int status;

	if (!s->begun || position == s->end)
		return 0;
	status = release_rest(r, stream);
	if (status < 0 || r->snapshot)
		return status;
	return write_flags(r, s, s->time, s->end, PERFDATA_AUX_TRUNCATED);
}

static void leave_out(struct iovec *parts, size_t count, size_t n)
{
	while (n) {
		struct iovec *last = &parts[--count];
		size_t k = last->iov_len < n ? last->iov_len : n;

		last->iov_len -= k;
		n -= k;
	}
}

/*
 * Adds `size` bytes in `count` parts, of which parts[0] is free for what was held back. A packet
 * that the caller has cut is held back until it is whole. A snapshot is complete as it is.
 */
static int add_parts(struct ptah_recording *r, uint32_t stream, uint64_t position,
		     struct iovec *parts, size_t count, size_t size)
{
	struct recorded_stream *s = &r->streams[stream];
	int status = continue_at(r, stream, position);
	struct packet_cut before;
	uint64_t offset;

	if (status < 0)
		return status;
	before = s->cut;
	offset = position - before.rest_size;
	parts[0] = (struct iovec){before.rest, before.rest_size};
	if (!r->snapshot)
		leave_out(parts, count, packet_cut(&s->cut, parts + 1, count - 1));
	s->begun = true;
	s->end = position + size;
	r->bytes += size;
	size += before.rest_size - s->cut.rest_size;
	return size ? write_recorded_parts(r, stream, offset, parts, count, size) : 0;
}

static int check_position(struct ptah_recording *r, const struct recorded_stream *s,
			  uint32_t stream, uint64_t position, uint64_t size)
{
	if (position > INT64_MAX || size > INT64_MAX - position)
		return recording_refuse(r,
					"stream %" PRIu32 ": %" PRIu64 " bytes do not fit after "
					"position %" PRIu64,
					stream, size, position);
	if (s->begun && !r->snapshot && position < s->end)
		return recording_refuse(r,
					"stream %" PRIu32 ": position %" PRIu64
					" was passed already: the stream has the bytes before "
					"%" PRIu64,
					stream, position, s->end);
	return 0;
}

int ptah_recording_add_pieces(struct ptah_recording *r, uint32_t stream, uint64_t position,
			      const struct ptah_piece *pieces, size_t n)
{
	struct recorded_stream *s;
	int status = find_stream(r, stream, &s);
	struct iovec *parts;
	uint64_t size = 0;

	if (status < 0)
		return status;
	if (n && !pieces)
		return recording_refuse(r, "pieces without an address");
	for (size_t i = 0; i < n; i++) {
		if (pieces[i].size && !pieces[i].address)
			return recording_refuse(r, "piece %zu has no address", i);
		if (pieces[i].size > INT64_MAX - size)
			return recording_refuse(r, "the pieces are too large");
		size += pieces[i].size;
	}
	status = check_position(r, s, stream, position, size);
	if (status < 0 || !size)
		return status;
	parts = calloc(n + 1, sizeof(*parts));
	if (!parts)
		return recording_no_memory(r);
	for (size_t i = 0; i < n; i++)
		parts[i + 1] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].size};
	status = add_parts(r, stream, position, parts, n + 1, (size_t)size);
	free(parts);
	return status;
}

/* The engine's records */

/*
 * As the Linux driver reports it: trace ended early, because there was no room, or something is
 * missing that will not come; or something ran untraced.
 */
static uint64_t aux_flags(uint32_t flags)
{
	return (flags & (PTAH_CAPTURED_FULL | PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_ERROR |
			 PTAH_CAPTURED_LOST)
		    ? PERFDATA_AUX_TRUNCATED
		    : 0) |
	       (flags & PTAH_CAPTURED_PARTIAL ? PERFDATA_AUX_PARTIAL : 0);
}

static int append_capture_record(struct ptah_recording *r, struct recorded_stream *s,
				 const struct ptah_capture_record *record)
{
	const uint64_t flags = aux_flags(record->flags);

	if (record->time > s->time)
		s->time = record->time;
	recording_reach(r, record->time);
	s->lost += record->lost;
	s->unsure += (record->flags & PTAH_CAPTURED_UNSURE) != 0;
	s->dropped += (record->flags & PTAH_CAPTURED_DROPPED) != 0;
	s->reconfigured += (record->flags & PTAH_CAPTURED_RECONFIGURED) != 0;
	return flags ? write_flags(r, s, record->time, record->position, flags) : 0;
}

int ptah_recording_add_records(struct ptah_recording *r, uint32_t stream,
			       const struct ptah_capture_record *records, size_t n)
{
	struct recorded_stream *s;
	int status = find_stream(r, stream, &s);

	if (status < 0)
		return status;
	if (n && !records)
		return recording_refuse(r, "records without an address");
	for (size_t i = 0; i < n && status >= 0; i++)
		status = append_capture_record(r, s, &records[i]);
	return status;
}

int recording_add_truth(struct ptah_recording *r, uint32_t stream, const struct ptah_truth *truth)
{
	struct recorded_stream *s;
	int status = find_stream(r, stream, &s);

	if (status < 0)
		return status;
	if (!truth)
		return recording_refuse(r, "truth without an address");
	s->truth = *truth;
	s->has_truth = true;
	return 0;
}

/* The end */

static int note_count(struct ptah_recording *r, const struct recorded_stream *s, const char *what,
		      uint64_t count)
{
	char text[256];

	if (!count)
		return 0;
	snprintf(text, sizeof(text), "%s %d: %s: %" PRIu64, s->of.cpu < 0 ? "thread" : "processor",
		 s->of.cpu < 0 ? s->of.tid : s->of.cpu, what, count);
	return recording_wrote(r, perfdata_add_note(r->writer, text));
}

static int note_records(struct ptah_recording *r, const struct recorded_stream *s)
{
	int status = note_count(r, s, "bytes that were overwritten before they were read", s->lost);

	if (status >= 0)
		status = note_count(r, s,
				    "times that the buffer may have wrapped unnoticed, so that "
				    "trace is missing",
				    s->unsure);
	if (status >= 0)
		status = note_count(r, s,
				    "records of the capture into which others were merged, because "
				    "there was no room",
				    s->dropped);
	if (status >= 0)
		status = note_count(r, s,
				    "times that the options were changed (the recording has the "
				    "first ones)",
				    s->reconfigured);
	return status;
}

int recording_end_streams(struct ptah_recording *r)
{
	int status = 0;

	for (uint32_t i = 0; i < r->stream_count && status >= 0; i++) {
		const struct recorded_stream *s = &r->streams[i];

		status = release_rest(r, i);
		if (status >= 0 && s->begun && s->has_truth)
			status = recording_wrote(r, perfdata_add_truth(r->writer, i, s->of.pid,
								       s->of.tid, &s->truth, 0));
		if (status >= 0)
			status = note_records(r, s);
	}
	return status;
}
