/* SPDX-License-Identifier: MIT */
/*
 * Brings trace and records of the driver's captures into the recording, from the memory that the
 * driver shares: capture_page.h.
 */
#include "record/module/module.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/*
 * Whether the reader stays within what is mapped. ptah_capture_reader_init() compares the page's
 * numbers with each other; here they are compared with the mapping.
 */
static bool fits(const struct module_stream *s)
{
	const struct ptah_capture_reader *r = &s->reader;
	const size_t page = s->mapping.page_size;
	const size_t records = (size_t)(r->records - (const unsigned char *)s->mapping.page);
	size_t starts;

	if (r->size > s->mapping.buffer_size || records > page || r->record_mask == UINT32_MAX ||
	    (page - records) / r->record_size <= r->record_mask)
		return false;
	if (!r->starts)
		return true;
	starts = (size_t)((const unsigned char *)(const void *)r->starts -
			  (const unsigned char *)s->mapping.page);
	return starts <= page && (page - starts) / sizeof(uint64_t) >= r->regions &&
	       r->region <= r->size;
}

static int bad_page(struct module *m, const struct module_stream *s)
{
	const bool thread = s->mapping.cpu < 0;

	return recorder_fail(m->records.r, PTAH_RECORD_BROKEN, PTAH_E_BAD_FILE,
			     "the page of %s %d, which the kernel module writes, makes no sense",
			     thread ? "thread" : "processor",
			     thread ? s->mapping.tid : s->mapping.cpu);
}

/* What the public writer returned: its failures are those of the recorder's own writer. */
static int wrote(struct module *m, const struct module_stream *s, int status)
{
	/* A position or a size that cannot be. */
	if (status == PTAH_E_INVAL)
		return bad_page(m, s);
	return recorder_wrote(m->records.r, status);
}

/* New captures */

static struct module_stream *new_stream(struct module *m)
{
	return LIST_ROOM(m->streams, m->stream_count, m->stream_room) ? &m->streams[m->stream_count]
								      : NULL;
}

int module_add_stream(struct module *m, const struct device_mapping *mapping)
{
	const struct ptah_recording_stream config = {
	    .size = sizeof(config),
	    .cpu = mapping->cpu,
	    .pid = mapping->pid,
	    .tid = mapping->tid,
	    .tsc = mapping->time,
	};
	struct epoll_event event = {.events = EPOLLIN};
	struct module_stream *s = new_stream(m);
	struct device_mapping copy = *mapping;

	if (!s) {
		device_release(&copy);
		return PTAH_E_NOMEM;
	}
	*s = (struct module_stream){.mapping = copy};
	m->stream_count++; /* from here on it is released at the end */
	if (!ptah_capture_reader_init(&s->reader, copy.page, copy.buffer) || !fits(s))
		return bad_page(m, s);
	if (epoll_ctl(m->source.fd, EPOLL_CTL_ADD, copy.fd, &event))
		return recorder_fail(m->records.r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "too many files are watched");
	return wrote(m, s, ptah_recording_add_stream(m->recording, &config, &s->stream));
}

/* Trace */

static void count_losses(struct module *m, const struct ptah_capture_record *record)
{
	struct ptah_record_losses *losses = &m->records.r->status.losses;

	losses->truncated += (record->flags & (PTAH_CAPTURED_FULL | PTAH_CAPTURED_TRUNCATED)) != 0;
	losses->overwritten += record->lost;
	losses->partial += (record->flags & PTAH_CAPTURED_PARTIAL) != 0;
}

/* With a buffer that wraps, overwriting the oldest bytes is what was asked for. */
static void without_overwriting(struct ptah_capture_record *record)
{
	record->flags &= ~(PTAH_CAPTURED_LOST | PTAH_CAPTURED_WRAPPED);
	record->lost = 0;
}

static int drain_records(struct module *m, struct module_stream *s)
{
	const bool wraps = s->reader.policy == PTAH_POLICY_WRAP;
	const uint32_t seen = s->reader.record;
	struct ptah_capture_record record;
	uint32_t n = 0;
	int status = 0;

	/* At most as many as there is room for, so that this ends whatever the driver writes. */
	while (status >= 0 && n++ <= s->reader.record_mask &&
	       ptah_capture_reader_record(&s->reader, &record)) {
		count_losses(m, &record);
		if (wraps)
			without_overwriting(&record);
		status =
		    wrote(m, s, ptah_recording_add_records(m->recording, s->stream, &record, 1));
	}
	if (s->reader.record != seen)
		device_seen(&s->mapping, s->reader.record);
	return status;
}

static int write_stream_bytes(struct module *m, struct module_stream *s, uint64_t from, uint64_t to)
{
	struct ptah_record_status *sum = &m->records.r->status;
	int status = 0;

	while (from < to && status >= 0) {
		const void *bytes;
		const size_t n = ptah_capture_reader_bytes(&s->reader, from, to, &bytes);

		if (!n)
			return bad_page(m, s);
		status =
		    wrote(m, s, ptah_recording_add_trace(m->recording, s->stream, from, bytes, n));
		from += n;
		sum->trace_bytes += n;
	}
	return status;
}

/* Takes what can be read, and frees its room. Returns 1 when the driver is writing the page. */
static int drain_stream(struct module *m, struct module_stream *s)
{
	struct ptah_record_status *sum = &m->records.r->status;
	struct ptah_capture_view view;
	uint64_t from;
	int status = drain_records(m, s);

	if (status < 0)
		return status;
	if (!ptah_capture_reader_view(&s->reader, &view))
		return 1;
	/* What was released since the driver looked last is not in its `tail` yet. */
	from = view.tail > view.oldest ? view.tail : view.oldest;
	if (from < s->taken)
		from = s->taken;
	if (view.end < from || view.end - from > s->reader.size)
		return bad_page(m, s);
	if (view.end > from) {
		sum->threads += !s->counted && !m->records.events.layout.inherit;
		s->counted = true;
	}
	status = write_stream_bytes(m, s, from, view.end);
	s->taken = view.end;
	if (status >= 0 && ptah_capture_reader_release(&s->reader, view.end))
		device_sync(&s->mapping);
	return status;
}

/*
 * Whether the stream's bytes are taken now: those of a buffer that is drained always; others when
 * all are asked for, or nothing more will come.
 */
static int drain_one(struct module *m, struct module_stream *s, bool all)
{
	struct device_state state = {0};
	int status = 0;

	/* Asked before the bytes are read, so that these are all. */
	if (s->mapping.cpu < 0 && device_state(&s->mapping, &state))
		s->ended = state.ended;
	if (s->reader.policy == PTAH_POLICY_DRAIN || all || s->ended)
		status = drain_stream(m, s);
	else
		status = drain_records(m, s);
	if (status > 0)
		s->ended = false; /* it was not read: next time */
	if (s->ended)
		device_release(&s->mapping);
	return status < 0 ? status : 0;
}

int module_drain(struct module *m, bool all)
{
	int status = m->records.r->error;

	if (m->recording)
		recording_reach(m->recording, __builtin_ia32_rdtsc());
	for (size_t i = 0; i < m->stream_count && status >= 0; i++) {
		status = drain_one(m, &m->streams[i], all);
		if (m->streams[i].ended)
			m->streams[i--] = m->streams[--m->stream_count];
	}
	return status;
}

void module_free_streams(struct module *m)
{
	for (size_t i = 0; i < m->stream_count; i++)
		device_release(&m->streams[i].mapping);
	free(m->streams);
	m->streams = NULL;
	m->stream_count = m->stream_room = 0;
}
