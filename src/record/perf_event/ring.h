/* SPDX-License-Identifier: MIT */
/*
 * The buffers that the kernel shares with who records: a ring of records, and
 * one of trace (AUX). Works on plain memory, so that a test can be the kernel.
 *
 * The order of things is that of perf_event_mmap_page's comments: the kernel
 * stores bytes, then data_head or aux_head; we load it with acquire, copy, and
 * give the place back by storing data_tail or aux_tail with release.
 */
#ifndef PTAH_RECORD_PERF_EVENT_RING_H
#define PTAH_RECORD_PERF_EVENT_RING_H

#include <ptah/record.h>

#include <linux/perf_event.h>

struct ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data; /* the records: data_size bytes, a power of two */
	uint64_t data_size;
	const uint8_t *aux; /* the trace: aux_size bytes; NULL: none */
	uint64_t aux_size;
	bool overwrite;	    /* mapped for reading alone: the kernel goes round and round */
	uint8_t *copy;	    /* aux_size bytes; in overwrite mode what it held the last time */
	uint8_t *linear;    /* overwrite: aux_size bytes, what is handed out */
	uint8_t *joined;    /* a record that goes over the end of the ring */
	uint64_t last;	    /* overwrite: where the last one ended; trace offset and place */
	uint64_t last_head; /* ... aux_head then */
	bool cut; /* an AUX record said TRUNCATED: the kernel has switched the event off */
	struct ptah_record_losses losses;
	uint64_t records; /* bytes of them */
};

/*
 * page and what follows stay the caller's. 0 or PTAH_E_NOMEM. aux may be NULL.
 * In overwrite mode nothing may be traced yet.
 */
int ring_init(struct ring *ring, void *page, const void *data, uint64_t data_size, const void *aux,
	      uint64_t aux_size, bool overwrite);
void ring_fini(struct ring *ring);

/*
 * Gives every record that is there to take(), whole, and counts what they say
 * was lost. 0; what take() answered, when that is negative; PTAH_E_BAD_FILE when
 * the ring holds no records, which loses what is in it.
 */
int ring_read_records(struct ring *ring,
		      int (*take)(void *context, const uint8_t *record, size_t size),
		      void *context);

/* Whether a quarter of the place for records is taken. */
bool ring_is_filling(const struct ring *ring);

/* Trace, in one piece; the bytes are there until the next call. */
struct ring_trace {
	const uint8_t *bytes;
	size_t size;
	uint64_t offset; /* place in all of the trace: a gap is what was lost */
};

/* What there is. False: nothing. The place is given back already. */
bool ring_read_trace(struct ring *ring, struct ring_trace *trace);

/*
 * Overwrite mode, while nothing is traced: what is new since the last time, at
 * most a buffer. aux_head tells where the kernel stopped but not how often it
 * went round: at least once when a byte has changed that it could not have come
 * to otherwise. What it overwrote then is counted as one round less than that, so
 * losses.overwritten is at least what was lost.
 */
bool ring_read_snapshot(struct ring *ring, struct ring_trace *trace);

#endif
