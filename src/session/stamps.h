/* SPDX-License-Identifier: MIT */
/*
 * Stamps: the places of a trace at which the time is known, where it is not known everywhere
 * (docs/time.md). A stamp is a TSC packet. What ran between two stamps has an estimated time
 * (span_times.h), and bounds, which come from the stamps alone.
 */
#ifndef PTAH_SESSION_STAMPS_H
#define PTAH_SESSION_STAMPS_H

#include "session/session.h"

enum stamp_kind {
	STAMP_NONE, /* no time: before the first one, and where trace is missing or damaged */
	/*
	 * Known of the recorded thread itself, where tracing stops or continues: all before it ran.
	 */
	STAMP_OWN,
	/* Put there from outside, while code ran, or in a PSB+. */
	STAMP_LOOK
};

struct tsc_stamp {
	uint8_t kind; /* enum stamp_kind */
	bool stops;   /* OWN: tracing stops there; otherwise it continues */
	/*
	 * Tracing had stopped before it, and that has no stamp: what of the time passed before that
	 * is not known.
	 */
	bool blind;
	/* The interval before it ends at `to`, the one after it begins at `from`. */
	uint64_t to, from;
	uint64_t last; /* offset of the last packet of branches before it */
	uint64_t tsc;
};

/* Goes from stamp to stamp in a stream. All 0: at its beginning. */
struct stamp_walk {
	uint64_t at;	/* of the next packet */
	uint64_t last;	/* of the last packet of branches */
	uint64_t psb;	/* where the PSB+ begins that it is in */
	bool synced;	/* `at` is where a packet begins */
	bool in_psb;	/* it is in a PSB+ */
	bool off;	/* tracing is off, since `last` */
	bool unstamped; /* since the last stamp tracing has stopped without one */
	uint64_t stop;	/* where it stopped last with a stamp */
	bool lost;	/* a stamp of STAMP_NONE is next */
};

/* times.c: whether times are known at stamps alone: neither MTC nor CYC packets say more. */
bool times_at_stamps(const struct ptah_session *session);

/* Whether a stream's items get times; not where they have finer ones, or several threads' times. */
bool stamps_are_used(const struct ptah_session *session, const struct stream *stream);

/* Whether the thread was looked at while it ran, where that is a recorder's way to know the time. */
enum stamp_looks {
	LOOKS_FOUND,  /* at least once */
	LOOKS_SPARED, /* never, but it never ran for long without a stamp of its own */
	LOOKS_MISSING /* never, though it did */
};

/* Reads the stream up to its first look. */
enum stamp_looks stamps_find_looks(const struct ptah_session *session, const struct stream *stream);

/* Goes to a place from which all stamps are found that matter for items from the offset on. */
void stamps_seek(struct stamp_walk *walk, const struct stream *stream, uint64_t offset);

/*
 * The next stamp. False: there is none up to the end of the stream, as far as it is known. The
 * stream may have moved in memory since the last call.
 */
bool stamps_next(struct stamp_walk *walk, const struct stream *stream, struct tsc_stamp *stamp);

/* The time at an offset in the interval between two stamps, by bytes of trace. */
uint64_t stamps_between(const struct tsc_stamp *before, const struct tsc_stamp *after,
			uint64_t offset);

/*
 * Stamps of a stream that grows, which are found when its trace comes and used when that is decoded:
 * the trace may be gone then.
 */
struct stamp_queue {
	struct tsc_stamp *list;
	size_t next, count, capacity;
};

void stamps_free(struct stamp_queue *queue);

/*
 * Adds all stamps up to the end of what is known to two queues, of which the second may be NULL.
 * *known: the offset up to which the stream can be read because no stamp that comes later changes
 * its times. PTAH_E_NOMEM.
 */
int stamps_follow(struct stamp_walk *walk, const struct stream *stream, struct stamp_queue *queue,
		  struct stamp_queue *other, uint64_t *known);

/* The next stamp of the queue or, if that is NULL, of the walk. */
bool stamps_take(struct stamp_queue *queue, struct stamp_walk *walk, const struct stream *stream,
		 struct tsc_stamp *stamp);

/* Stamps before an item that are too near to say when it ran, and stamps behind it. */
#define STAMPS_NEAR  32
#define STAMPS_AHEAD 16

/* Finds bounds: a search that begins at the place of the last one. All 0 at first. */
struct stamp_bounds {
	struct stamp_queue *queue; /* of a stream that grows, which is read once; or NULL */
	struct stamp_walk walk;
	bool begun;
	uint64_t offset; /* of the last item */
	uint64_t until;	 /* what follows it has the same bounds up to this offset */
	uint64_t low;	 /* surely before it */
	/* The bytes of branches that are missing yet between a stamp and the place. */
	struct {
		uint64_t tsc, missing;
	} near[STAMPS_NEAR];
	size_t near_count;
	uint64_t place; /* behind the stamps so far; UINT64_MAX: there is none */
	struct tsc_stamp ahead[STAMPS_AHEAD];
	size_t ahead_count;
};

/*
 * As ptah_session_time_bounds(), for items of one stream in their order. Items before the last one
 * may be asked for, which takes longer.
 */
void stamps_bound(struct stamp_bounds *bounds, const struct ptah_session *session,
		  const struct stream *stream, uint64_t offset, uint64_t *low, uint64_t *high);

#endif
