/* SPDX-License-Identifier: MIT */
/*
 * Queries: the trace answers branch by branch, for callers that have their own
 * instruction decoder (debuggers, emulators, binary translators). A query needs
 * no image: the caller knows the code, walks through it, and asks wherever the
 * code alone does not say where execution went.
 *
 *	ptah_query_new(NULL, &q);
 *	ptah_query_feed(q, bytes, n, true);
 *	for (;;) {
 *		switch (ptah_query_next(q)) {
 *		case PTAH_QUERY_EVENT: // is it at this address? (enabled: begin there)
 *			ptah_query_event(q, &event);
 *			break;
 *		case PTAH_QUERY_COND: // walk to the next conditional branch or near return
 *			ptah_query_cond(q, &taken);
 *			break;
 *		case PTAH_QUERY_INDIRECT: // walk to the next indirect branch
 *			ptah_query_indirect(q, &ip);
 *			break;
 *		}
 *	}
 *
 * Return compression (SDM "Indirect Transfer Compression for Returns"): keep a
 * stack of the 64 last return addresses; push at near calls, except direct calls
 * to the next instruction; empty it at PTAH_ITEM_PSB, ENABLED and OVERFLOW. At a
 * near return call ptah_query_return(): a compressed return is a taken outcome
 * and goes to the address on top of the stack; any other return has its address
 * in the trace. Pop in both cases.
 *
 * Deferred TIPs (SDM "Deferred TIPs"): an indirect branch may be answered by a
 * TIP that comes after the outcomes of later conditional branches in the trace.
 *
 * Every function returns 0 or more on success. When it has no answer:
 *   PTAH_E_MORE   feed the next chunk and ask again
 *   PTAH_E_END    the last chunk is used up
 *   PTAH_E_EVENT  an event comes first: ptah_query_event()
 *   PTAH_E_QUERY  the trace answers another kind of branch: the code is not the
 *                 code that ran, or the walk went wrong. Nothing is consumed.
 * Errors in the trace are events (PTAH_ITEM_ERROR), after which the next event
 * says where to continue.
 */
#ifndef PTAH_QUERY_H
#define PTAH_QUERY_H

#include <ptah/event.h>

PTAH_BEGIN_DECLS

struct ptah_query;

/* Configuration, feeding and threads as for ptah_event_decoder. */
PTAH_API int ptah_query_new(const struct ptah_event_config *config, struct ptah_query **query);
PTAH_API void ptah_query_free(struct ptah_query *query);
PTAH_API int ptah_query_feed(struct ptah_query *query, const void *bytes, size_t n, bool last);

/* What the next answer is. */
enum ptah_query_kind {
	PTAH_QUERY_EVENT = 1,
	PTAH_QUERY_COND,     /* the outcome of a conditional branch */
	PTAH_QUERY_INDIRECT, /* the target of an indirect branch */
};

/* An enum ptah_query_kind, or PTAH_E_MORE, PTAH_E_END. Consumes nothing. */
PTAH_API int ptah_query_next(struct ptah_query *query);

/* Whether the next conditional branch was taken. */
PTAH_API int ptah_query_cond(struct ptah_query *query, bool *taken);

/* Where the next indirect branch went. */
PTAH_API int ptah_query_indirect(struct ptah_query *query, uint64_t *ip);

/*
 * Where the next near return went: 0 and *ip, or 1 when it is compressed and went
 * to the top of the caller's stack.
 */
PTAH_API int ptah_query_return(struct ptah_query *query, uint64_t *ip);

/* Copies the event that precedes the next branch: 1; 0 when a branch is next. */
PTAH_API int ptah_query_event(struct ptah_query *query, struct ptah_item *event);

/* The clocks at the last answer. PTAH_E_NO_SYNC before the first time stamp. */
PTAH_API int ptah_query_time(const struct ptah_query *query, struct ptah_time *time);

/* The core:bus ratio at the last answer. PTAH_E_NO_SYNC before the first CBR. */
PTAH_API int ptah_query_core_bus_ratio(const struct ptah_query *query, uint32_t *ratio);

/* Stream offset of the packet that gave the last answer. */
PTAH_API uint64_t ptah_query_offset(const struct ptah_query *query);

/* As ptah_event_seek() and ptah_event_sync_offset(). */
PTAH_API void ptah_query_seek(struct ptah_query *query, uint64_t offset);
PTAH_API int ptah_query_sync_offset(const struct ptah_query *query, uint64_t *offset);

PTAH_END_DECLS

#endif
