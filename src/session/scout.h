/* SPDX-License-Identifier: MIT */
/*
 * Finds where in the trace of a CPU one thread follows another. The kernel records when it
 * switched. It switches in the kernel, so between a time stamp before that moment and one after it
 * there is a stay away from user code: packets off (TIP.PGD to TIP.PGE) or kernel addresses. If
 * there is one such stay, the switch is in it, however coarse the time stamps are. If there are
 * several, and CR3 does not distinguish them, the user code between them belongs to an unknown
 * thread. The time at which the kernel ended a part of the trace helps: what precedes it was
 * earlier. A scout reads the packets ahead of the decoder and finds these places.
 */
#ifndef PTAH_SESSION_SCOUT_H
#define PTAH_SESSION_SCOUT_H

#include "session/session.h"

/* From this offset on another thread runs: that of the turn `turn`; SESSION_NONE: an unknown one.
 */
struct scout_cut {
	uint64_t offset;
	size_t turn;
	bool late; /* the switch was earlier, and the trace does not show where */
	/*
	 * If `late` or unknown: the first and the last of the switches whose places are not known;
	 * otherwise SESSION_NONE.
	 */
	size_t first, last;
};

struct scout;

int scout_new(const struct ptah_session *session, const struct stream *stream,
	      struct scout **scout);
void scout_free(struct scout *scout);

/* Begins at the PSB at `offset` and at this time, with the switches after it. */
void scout_begin_at(struct scout *scout, uint64_t offset, uint64_t tsc);

/*
 * Finds the next cut (1), or an offset *safe up to which there is none (0); or an error. Of a
 * session that grows, PTAH_E_EMPTY: more must come before anything after `from` can be decoded.
 */
int scout_find(struct scout *scout, uint64_t from, struct scout_cut *cut, uint64_t *safe);

/*
 * The session has grown. The stream has moved, and so many of its first pieces and limits are gone;
 * what the scout has not used of both stays.
 */
void scout_moved(struct scout *scout, const struct stream *stream, size_t pieces, size_t limits);
/* How many limits of the stream it has used. */
size_t scout_limits(const struct scout *scout);
/* The number of the first turn that it still needs, besides the one before. */
size_t scout_turn(const struct scout *scout);

#endif
