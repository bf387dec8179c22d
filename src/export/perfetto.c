/* SPDX-License-Identifier: MIT */
/*
 * Perfetto's track events: protocol buffers, one packet for each event, with a track for each
 * thread. Names are written once and then referred to by numbers.
 */
#include "export/formats.h"
#include "support/table.h"
#include "export/protobuf.h"
#include "export/utf8.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* Numbers of fields, from perfetto/protos/perfetto/trace. */
enum {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,

	TRACK_UUID = 1,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	PROCESS_LABELS = 8,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,

	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_LOCATION = 34,
	ANNOTATION_NAME = 1,
	ANNOTATION_NUMBER = 3,
	ANNOTATION_TEXT = 6,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_ANNOTATION = 3,
	INTERNED_LOCATION = 4,
	ENTRY_NUMBER = 1,
	ENTRY_TEXT = 2,
	LOCATION_FILE = 2,
	LOCATION_FUNCTION = 3,
	LOCATION_LINE = 4,
};

enum {
	FLAG_CLEARED = 1, /* no number refers to what was before */
	FLAG_NEEDS = 2,	  /* the packet refers to numbers */
};

#define SEQUENCE 1

/* Tracks of processes and threads have numbers from here on, unlike those of other traces that are
 * merged with this one. */
#define FIRST_PROCESS (UINT64_C(1) << 33)
#define FIRST_THREAD  (UINT64_C(1) << 34)

struct perfetto {
	struct out *out;
	const char *times; /* what they are: a label of each process; or NULL */
	struct protobuf packet;
	/* Names have numbers of their own in each of the tables. */
	struct table categories, names, annotations, locations;
	bool begun; /* a packet has been written */
};

static size_t begin_packet(struct perfetto *p)
{
	const size_t begin = protobuf_begin(&p->packet, TRACE_PACKET);

	protobuf_number(&p->packet, PACKET_SEQUENCE_ID, SEQUENCE);
	protobuf_number(&p->packet, PACKET_FLAGS,
			p->begun ? FLAG_NEEDS : FLAG_CLEARED | FLAG_NEEDS);
	p->begun = true;
	return begin;
}

static int end_packet(struct perfetto *p, size_t begin)
{
	protobuf_end(&p->packet, begin);
	return protobuf_flush(&p->packet, p->out);
}

static int perfetto_begin(struct out *out, const struct timeline_recording *recording,
			  void **writer)
{
	struct perfetto *p = calloc(1, sizeof(*p));

	*writer = p;
	if (!p)
		return PTAH_E_NOMEM;
	p->out = out;
	p->times = recording->times;
	return 0;
}

/* A process has a track for each of its first threads: one that executes another program is a
 * process of another name from there on. */
static int put_process(struct perfetto *p, const struct timeline_thread *thread)
{
	const size_t packet = begin_packet(p), track = protobuf_begin(&p->packet, PACKET_TRACK);
	size_t process;

	protobuf_number(&p->packet, TRACK_UUID, FIRST_PROCESS + (uint32_t)thread->pid);
	process = protobuf_begin(&p->packet, TRACK_PROCESS);
	protobuf_number(&p->packet, PROCESS_PID, (uint64_t)thread->pid);
	if (thread->pid == thread->tid)
		protobuf_text(&p->packet, PROCESS_NAME, thread->comm);
	if (p->times)
		protobuf_text(&p->packet, PROCESS_LABELS, p->times);
	protobuf_end(&p->packet, process);
	protobuf_end(&p->packet, track);
	return end_packet(p, packet);
}

static int perfetto_thread(void *writer, const struct timeline_thread *t)
{
	struct perfetto *p = writer;
	int status = put_process(p, t);
	size_t packet, track, thread;

	if (status < 0)
		return status;
	packet = begin_packet(p);
	track = protobuf_begin(&p->packet, PACKET_TRACK);
	protobuf_number(&p->packet, TRACK_UUID, FIRST_THREAD + t->number);
	protobuf_number(&p->packet, TRACK_PARENT, FIRST_PROCESS + (uint32_t)t->pid);
	thread = protobuf_begin(&p->packet, TRACK_THREAD);
	protobuf_number(&p->packet, THREAD_PID, (uint64_t)t->pid);
	protobuf_number(&p->packet, THREAD_TID, (uint64_t)t->tid);
	protobuf_text(&p->packet, THREAD_NAME, t->comm);
	protobuf_end(&p->packet, thread);
	protobuf_end(&p->packet, track);
	return end_packet(p, packet);
}

/* What an event refers to. 0: nothing. */
struct references {
	uint32_t category, name, location, annotations[TIMELINE_DETAILS];
};

/* The message of new entries is begun with the first of them. */
static void begin_interned(struct perfetto *p, size_t *begin)
{
	if (!*begin)
		*begin = protobuf_begin(&p->packet, PACKET_INTERNED);
}

static uint32_t refer(struct perfetto *p, struct table *table, unsigned field, const char *text,
		      size_t *begin)
{
	bool is_new;
	const uint32_t number = table_number(table, (uintptr_t)text, UINT32_MAX, &is_new);
	size_t entry;

	if (!number)
		p->packet.failed = true;
	if (!is_new)
		return number;
	begin_interned(p, begin);
	entry = protobuf_begin(&p->packet, field);
	protobuf_number(&p->packet, ENTRY_NUMBER, number);
	protobuf_text(&p->packet, ENTRY_TEXT, text);
	protobuf_end(&p->packet, entry);
	return number;
}

static uint32_t refer_location(struct perfetto *p, const struct timeline_function *function,
			       size_t *begin)
{
	bool is_new;
	uint32_t number;
	size_t entry;

	if (!function->file)
		return 0;
	number = table_number(&p->locations, (uintptr_t)function, UINT32_MAX, &is_new);
	if (!number)
		p->packet.failed = true;
	if (!is_new)
		return number;
	begin_interned(p, begin);
	entry = protobuf_begin(&p->packet, INTERNED_LOCATION);
	protobuf_number(&p->packet, ENTRY_NUMBER, number);
	protobuf_text(&p->packet, LOCATION_FILE, function->file);
	protobuf_text(&p->packet, LOCATION_FUNCTION, function->name);
	protobuf_number(&p->packet, LOCATION_LINE, function->line);
	protobuf_end(&p->packet, entry);
	return number;
}

/* Ends of slices have no name: they are those of the innermost one. */
static void refer_all(struct perfetto *p, const struct timeline_event *e, struct references *r)
{
	size_t begin = 0;

	if (e->kind != TIMELINE_END) {
		r->category = refer(p, &p->categories, INTERNED_CATEGORY,
				    e->function ? e->function->object : "event", &begin);
		r->name = refer(p, &p->names, INTERNED_NAME,
				e->function ? e->function->name : e->name, &begin);
		if (e->function)
			r->location = refer_location(p, e->function, &begin);
	}
	for (size_t i = 0; i < e->detail_count; i++)
		r->annotations[i] =
		    refer(p, &p->annotations, INTERNED_ANNOTATION, e->details[i].name, &begin);
	if (begin)
		protobuf_end(&p->packet, begin);
}

static void put_event(struct perfetto *p, const struct timeline_event *e,
		      const struct references *r)
{
	static const uint8_t types[] = {
	    [TIMELINE_BEGIN] = 1, [TIMELINE_END] = 2, [TIMELINE_INSTANT] = 3};
	const size_t event = protobuf_begin(&p->packet, PACKET_EVENT);

	protobuf_number(&p->packet, EVENT_TYPE, types[e->kind]);
	protobuf_number(&p->packet, EVENT_TRACK, FIRST_THREAD + e->thread->number);
	if (r->category)
		protobuf_number(&p->packet, EVENT_CATEGORY, r->category);
	if (r->name)
		protobuf_number(&p->packet, EVENT_NAME, r->name);
	if (r->location)
		protobuf_number(&p->packet, EVENT_LOCATION, r->location);
	for (size_t i = 0; i < e->detail_count; i++) {
		const size_t detail = protobuf_begin(&p->packet, EVENT_ANNOTATION);

		protobuf_number(&p->packet, ANNOTATION_NAME, r->annotations[i]);
		if (e->details[i].text)
			protobuf_text(&p->packet, ANNOTATION_TEXT, e->details[i].text);
		else
			protobuf_number(&p->packet, ANNOTATION_NUMBER, e->details[i].number);
		protobuf_end(&p->packet, detail);
	}
	protobuf_end(&p->packet, event);
}

static int perfetto_event(void *writer, const struct timeline_event *e)
{
	struct perfetto *p = writer;
	const size_t packet = begin_packet(p);
	struct references r = {0};

	protobuf_number(&p->packet, PACKET_TIMESTAMP, e->at);
	refer_all(p, e, &r);
	put_event(p, e, &r);
	return end_packet(p, packet);
}

static int perfetto_end(void *writer)
{
	(void)writer;
	return 0;
}

static void perfetto_free(void *writer)
{
	struct perfetto *p = writer;

	protobuf_free(&p->packet);
	table_free(&p->categories);
	table_free(&p->names);
	table_free(&p->annotations);
	table_free(&p->locations);
	free(p);
}

const struct timeline_format export_perfetto = {
    .max_depth = TIMELINE_PERFETTO_DEPTH,
    .begin = perfetto_begin,
    .thread = perfetto_thread,
    .event = perfetto_event,
    .end = perfetto_end,
    .free = perfetto_free,
};
