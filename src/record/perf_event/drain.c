/* SPDX-License-Identifier: MIT */
/* Brings records and trace from the kernel's rings into the recording. */
#include "record/perf_event/hardware.h"

#include "base/bits.h"

#include <inttypes.h>
#include <string.h>

/* All records after it are later than those before: perf sorts up to here. */
#define PERFDATA_FINISHED_ROUND 68

/* Whose records are taken. */
struct source {
	struct hardware *h;
	const struct event_ring *ring;
};

/*
 * Writes a record of AUX with its offset in the stream: it counts from the beginning of the ring,
 * which is not the first one of its processor.
 */
static int write_moved_aux(const struct source *s, const uint8_t *record, size_t size)
{
	uint8_t copy[256];
	uint64_t offset;

	memcpy(copy, record, size);
	memcpy(&offset, copy + 8, sizeof(offset));
	offset += s->ring->base;
	memcpy(copy + 8, &offset, sizeof(offset));
	return recorder_wrote(s->h->r, perfdata_write_raw(s->h->r->writer, copy, size));
}

/*
 * In a ring beside those of the trace only samples can be lost, and no records of maps: that is what
 * LOST_SAMPLES says, and LOST does not.
 */
static int take_beside_record(void *context, const uint8_t *record, size_t size)
{
	struct hardware *h = context;
	uint8_t copy[256];
	uint32_t type;

	memcpy(&type, record, sizeof(type));
	h->r->status.sideband_bytes += size;
	h->wrote = true;
	if (type != PERF_RECORD_LOST || size < 24 || size > sizeof(copy))
		return recorder_wrote(h->r, perfdata_write_raw(h->r->writer, record, size));
	/* Without the id, which is in the end of the record, too. */
	memcpy(copy + 8, record + 16, size - 16);
	store_le32(copy, PERF_RECORD_LOST_SAMPLES);
	store_le32(copy + 4, (uint32_t)(size - 8) << 16);
	return recorder_wrote(h->r, perfdata_write_raw(h->r->writer, copy, size - 8));
}

static int take_drain_record(void *context, const uint8_t *record, size_t size)
{
	const struct source *s = context;
	struct hardware *h = s->h;
	uint32_t type, pid, ppid;

	memcpy(&type, record, sizeof(type));
	if (type == PERF_RECORD_FORK && size >= 16) {
		memcpy(&pid, record + 8, sizeof(pid));
		memcpy(&ppid, record + 12, sizeof(ppid));
		h->r->status.processes += pid != ppid;
		h->r->status.threads += h->events.layout.inherit;
	}
	h->r->status.sideband_bytes += size;
	h->wrote = true;
	if (type == PERF_RECORD_AUX && s->ring->base && size >= 16 && size <= 256)
		return write_moved_aux(s, record, size);
	return recorder_wrote(h->r, perfdata_write_raw(h->r->writer, record, size));
}

static void write_drain_trace(struct hardware *h, size_t ring, const struct ring_trace *trace)
{
	struct event_ring *r = &h->events.rings[ring];
	const struct perfdata_aux aux = {
	    .index = (uint32_t)ring,
	    .tid = r->tid,
	    .cpu = r->cpu,
	    .offset = r->base + trace->offset,
	    .reference = __builtin_ia32_rdtsc(),
	    .bytes = trace->bytes,
	    .size = trace->size,
	};

	/* A processor's buffer holds many threads, which take_drain_record() counts as they begin. */
	h->r->status.threads += !h->events.layout.inherit && !r->traced;
	r->traced = true;
	r->end = aux.offset + aux.size;
	h->r->status.trace_bytes += trace->size;
	recorder_wrote(h->r, perfdata_write_aux(h->r->writer, &aux));
}

void hardware_sum_losses(struct hardware *h)
{
	struct ptah_record_losses *status = &h->r->status.losses, sum = {0};

	for (size_t i = 0; i < h->elsewhere.ring_count; i++)
		sum.lost_records += h->elsewhere.rings[i].ring.losses.lost_records;
	for (size_t i = 0; i < h->events.ring_count; i++) {
		const struct ptah_record_losses *l = &h->events.rings[i].ring.losses;

		sum.truncated += l->truncated;
		sum.overwritten += l->overwritten;
		sum.partial += l->partial;
		sum.collisions += l->collisions;
		sum.lost_records += l->lost_records;
	}
	if (!h->source)
		*status = sum;
	else /* what is lost of its trace is the source's to count */
		status->lost_records = sum.lost_records;
}

static void check_ring(struct hardware *h, int status)
{
	if (status == PTAH_E_BAD_FILE)
		recorder_fail(h->r, PTAH_RECORD_BROKEN, status,
			      "one of the kernel's rings of records holds what is no record");
}

static void read_drain_records(struct hardware *h, struct event_ring *ring)
{
	struct source source = {h, ring};

	check_ring(h, ring_read_records(&ring->ring, take_drain_record, &source));
}

static void read_beside(struct hardware *h)
{
	for (size_t i = 0; i < h->beside_count; i++) {
		const struct events *e = &h->beside[i].events;

		for (size_t k = 0; k < e->ring_count && h->r->error >= 0; k++)
			check_ring(h, ring_read_records(&e->rings[k].ring, take_beside_record, h));
	}
}

void hardware_read_records(struct hardware *h, size_t i)
{
	read_drain_records(h, &h->events.rings[i]);
}

/*
 * The kernel switches an event off when its buffer is full, and does not always write a record
 * about it: not if the buffer was full already when the thread was switched in. Now that there is
 * room, the event is switched on again; one that is on stays as it is.
 */
static void read_trace(struct hardware *h, size_t i)
{
	struct ring *ring = &h->events.rings[i].ring;
	struct ring_trace trace;
	bool some = ring_read_trace(ring, &trace);

	if (some)
		write_drain_trace(h, i, &trace);
	if ((some || ring->cut) && h->tracing && !h->r->status.paused)
		events_resume_ring(&h->events, i);
	ring->cut = false;
}

void hardware_drain(struct hardware *h, bool traces)
{
	static const uint32_t round[2] = {PERFDATA_FINISHED_ROUND, 8u << 16};

	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++) {
		hardware_read_records(h, i);
		if (traces)
			read_trace(h, i);
	}
	for (size_t i = 0; i < h->elsewhere.ring_count && h->r->error >= 0; i++)
		read_drain_records(h, &h->elsewhere.rings[i]);
	read_beside(h);
	if (h->wrote && h->r->error >= 0)
		recorder_wrote(h->r, perfdata_write_raw(h->r->writer, round, sizeof(round)));
	h->wrote = false;
	hardware_sum_losses(h);
	if (h->r->error >= 0)
		recorder_flush(h->r);
}

void hardware_read_rest(struct hardware *h, size_t i)
{
	struct ring *ring = &h->events.rings[i].ring;
	struct ring_trace trace;

	hardware_read_records(h, i);
	if (h->r->error >= 0 &&
	    (ring->overwrite ? ring_read_snapshot(ring, &trace) : ring_read_trace(ring, &trace)))
		write_drain_trace(h, i, &trace);
	ring->cut = false;
}

void hardware_read_snapshots(struct hardware *h)
{
	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++) {
		struct ring_trace trace;

		if (ring_read_snapshot(&h->events.rings[i].ring, &trace))
			write_drain_trace(h, i, &trace);
	}
}

void hardware_end_records(struct hardware *h, bool traces)
{
	events_sideband(&h->events, false);
	events_sideband(&h->elsewhere, false);
	hardware_switch_beside(h, false);
	hardware_drain(h, traces);
	for (size_t i = 0; i < h->beside_count && h->r->error >= 0; i++) {
		const struct beside_event *event = &h->beside[i];
		const uint64_t lost = beside_lost(event);

		if (lost)
			recorder_note(
			    h->r,
			    "-e %s: %" PRIu64 " samples were lost, because a ring of %" PRIu64
			    " KiB was full (-m SIZE makes them larger)",
			    event->name, lost, event->events.rings[0].ring.data_size >> 10);
	}
}
