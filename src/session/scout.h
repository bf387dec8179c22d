/* SPDX-License-Identifier: MIT */
/*
 * Where in the trace of a CPU one thread follows another. The kernel tells when
 * it switched. It does so in the kernel, so that between a stamp before and one
 * after that moment there is a stay away from user code: packets off (TIP.PGD to
 * TIP.PGE) or kernel addresses. One such stay: it is there, however coarse the
 * stamps are. Several, and CR3 does not tell: the user code between them is
 * nobody's. A scout goes through the packets ahead of who decodes them and finds
 * these places.
 */
#ifndef PTAH_SESSION_SCOUT_H
#define PTAH_SESSION_SCOUT_H

#include "session/session.h"

/* From a place in the stream on: a thread, or, NULL, one that is not known. */
struct scout_cut {
	uint64_t offset;
	const struct turn *turn;
	bool late; /* the thread came before, and the trace does not show where */
};

struct scout;

int scout_new(const struct ptah_session *session, const struct stream *stream,
	      struct scout **scout);
void scout_free(struct scout *scout);

/* The next cut, or where everything up to *safe is known to have none. 1, 0 or an error. */
int scout_find(struct scout *scout, uint64_t from, struct scout_cut *cut, uint64_t *safe);

#endif
