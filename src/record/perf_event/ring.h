/* SPDX-License-Identifier: MIT */
/*
 * The two buffers that the kernel shares with a recorder: a ring of records, and one of trace
 * (AUX). This code works on plain memory, so that a test can play the kernel.
 *
 * The order of accesses is that of the comments on perf_event_mmap_page: the kernel stores bytes,
 * then data_head or aux_head; the reader loads that with acquire, copies the bytes, and frees their
 * room by storing data_tail or aux_tail with release.
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
	bool overwrite;	 /* mapped for reading alone: the kernel overwrites the oldest bytes */
	uint8_t *copy;	 /* aux_size bytes; in overwrite mode the buffer as of the last snapshot */
	uint8_t *linear; /* overwrite: aux_size bytes, which the caller is given */
	uint8_t *joined; /* a record that wraps, put together */
	uint64_t last;	 /* overwrite: where the last snapshot ended, as an offset of the trace */
	uint64_t last_head; /* ... and as aux_head */
	uint64_t taken;	    /* all trace before this aux_head was taken */
	bool cut; /* an AUX record has the flag TRUNCATED: the kernel has switched the event off */
	struct ptah_record_losses losses;
	uint64_t records; /* bytes of records so far */
};

/*
 * page, data and aux still belong to the caller. 0 or PTAH_E_NOMEM. aux may be NULL. In overwrite
 * mode nothing may have been traced yet.
 */
int ring_init(struct ring *ring, void *page, const void *data, uint64_t data_size, const void *aux,
	      uint64_t aux_size, bool overwrite);
/* Nothing can be read from the ring afterwards; the losses stay. */
void ring_fini(struct ring *ring);

/*
 * Passes every record in the ring to take(), in one piece, and adds up the losses that records
 * report. Returns 0; the result of take(), if that is negative; PTAH_E_BAD_FILE when the ring does
 * not contain records, in which case its content is dropped.
 */
int ring_read_records(struct ring *ring,
		      int (*take)(void *context, const uint8_t *record, size_t size),
		      void *context);

/* Whether a quarter of the room for records is used. */
bool ring_is_filling(const struct ring *ring);

/* Trace, in one piece. The bytes are valid until the next call. */
struct ring_trace {
	const uint8_t *bytes;
	size_t size;
	uint64_t offset; /* offset in the whole trace: a gap in the offsets is lost trace */
};

/* Takes all trace that is in the ring, and frees its room. False: the ring has none. */
bool ring_read_trace(struct ring *ring, struct ring_trace *trace);

/*
 * Overwrite mode, while the trace is switched off: takes what is new since the last snapshot, at
 * most a buffer. aux_head shows the byte at which the kernel stopped, but not how often it wrote
 * around the whole buffer. It did so at least once if a byte has changed that it could not have
 * reached otherwise. Then exactly once is assumed, so losses.overwritten is a lower bound.
 */
bool ring_read_snapshot(struct ring *ring, struct ring_trace *trace);

#endif
