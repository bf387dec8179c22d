/* SPDX-License-Identifier: MIT */
/*
 * Gives spans and items, as they are read, the times at which they ended, where the trace has times
 * at stamps only (docs/time.md).
 *
 * The time between two stamps is shared among what ran there, by the cost of an instruction of each
 * piece of code. The costs are learned from the intervals themselves, one after the other: so what
 * a span gets depends on what was read before, and never on what comes later or on how many threads
 * decode. What is read waits here until its next stamp is known.
 */
#ifndef PTAH_SESSION_SPAN_TIMES_H
#define PTAH_SESSION_SPAN_TIMES_H

#include "flow/flow_machine.h"
#include "session/code_costs.h"
#include "session/stamps.h"

/* Some spans, or some items. */
struct timed_batch {
	struct ptah_span *spans;
	size_t span_count;
	struct ptah_item *items;
	size_t item_count;
	uint64_t generation; /* of the image from which they were decoded */
};

/* A span or, with this class, an item; the item ends before the class. */
#define CLASS_ITEM (FLOW_SPAN_EVENT - 1)

union span_entry {
	struct ptah_span span;
	struct ptah_item item;
};

_Static_assert(sizeof(struct ptah_item) <= offsetof(struct ptah_span, insn_class),
	       "an item beside the class");

/* What an entry that waits has. */
struct entry_wait {
	uint64_t generation;
	double weight; /* of what of it ran in the interval */
};

struct span_times {
	bool used;			    /* false: times are left as they are */
	const struct ptah_session *session; /* or NULL: nothing is known of the thread */
	int32_t tid;
	bool begun; /* the walk is at the place of what is read */
	struct stamp_walk walk;
	struct stamp_queue *queue;	/* stamps come from there; NULL: from the walk */
	struct tsc_stamp before, after; /* of the interval that is being filled */
	bool has_before, has_after;
	struct tsc_stamp *crossed; /* by the entry that is taken */
	union span_entry *list;
	struct entry_wait *waits; /* of each entry of the list */
	size_t count, capacity, wait_capacity;
	size_t ready, next; /* the first ones have their times, and these were returned */
	double weight;	    /* of all that waits, and of what runs through the interval's end */
	uint64_t place;	    /* the offset up to which the last entry ran */
	struct code_costs costs;
	bool looks_ahead;     /* what is read teaches costs, and gets no times */
	bool learned;	      /* all that is to be learned is */
	struct ptah_span cut; /* may go on with the next one */
	uint64_t cut_generation;
	bool has_cut;
	struct ptah_item *items; /* those that are returned */
};

/* Returns more: 1, 0 at the end, or an error. */
typedef int read_untimed(void *context, struct timed_batch *batch);

void span_times_begin(struct span_times *times, const struct ptah_session *session,
		      const struct stream *stream);
void span_times_free(struct span_times *times);

/* What is read next is what follows this offset, where nothing is known. */
typedef void seek_untimed(void *context, uint64_t offset);

/*
 * Reads ahead, to learn costs from what is read: the stream or, if it is long, parts of all of it.
 * The reader then begins again. `seek` NULL: parts cannot be left out.
 */
int span_times_look_ahead(struct span_times *times, const struct stream *stream, read_untimed *read,
			  seek_untimed *seek, void *context);

/*
 * The next spans or items, whose times are set, valid until the next call. Returns what `read`
 * does. `more`: the stream grows, and what waits is kept when `read` has nothing.
 */
int span_times_next(struct span_times *times, const struct stream *stream, read_untimed *read,
		    void *context, bool more, struct timed_batch *batch);

#endif
