/* SPDX-License-Identifier: MIT */
/*
 * Windows: a part of a recording.
 *
 * A session with a window decodes only what is inside of it: the streams, readers and counts that
 * are opened afterwards return what they would return for that part of the whole recording.
 * Decoding begins at a PSB shortly before the window, which is found by bisection on the time
 * stamps that follow PSBs, so that a window of a second of a long recording takes the time of a
 * second. Memory and threads are as of then.
 *
 *	struct ptah_window w = {.size = sizeof(w), .until = UINT64_MAX, .last = UINT64_MAX};
 *
 *	w.since = ptah_session_tsc(session, 12500000000, true);
 *	w.until = ptah_session_tsc(session, 12600000000, false);
 *	ptah_session_set_window(session, &w);
 *
 * Not the same as in the whole are only the numbers of address spaces (those of ptah_stream_space()
 * are), and what the trace before the window would decide: which thread ran on a CPU if its switch
 * cannot be placed, and after damage, where decoding continued.
 */
#ifndef PTAH_WINDOW_H
#define PTAH_WINDOW_H

#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_window {
	size_t size; /* sizeof(struct ptah_window) */
	/*
	 * Items with times in [since, until], TSC values as those of items. What has no time is
	 * inside if it is between such items. 0 and UINT64_MAX: no limit.
	 */
	uint64_t since, until;
	/*
	 * Instructions from number `first` to number `last` of the stream, counted from 0. A block
	 * across the first or the last is cut: windows side by side have every instruction once.
	 * What is before the first has to be counted, which takes as long as a count of all that
	 * (ptah_session_count()). 0 and UINT64_MAX: no limit. Not for streams per CPU:
	 * PTAH_E_UNSUPPORTED when they are opened.
	 */
	uint64_t first, last;
	/*
	 * If not 0: of each stream only its end, from the PSB at or before this offset on; and from
	 * there on what is inside the other limits. Items before the first address are missing.
	 */
	uint64_t offset;
};

/* NULL: no window. Readers, streams and counts that exist already keep the one they have. */
PTAH_API int ptah_session_set_window(struct ptah_session *session,
				     const struct ptah_window *window);

/* The session's window. False: it has none, and *window has no limits. */
PTAH_API bool ptah_session_get_window(const struct ptah_session *session,
				      struct ptah_window *window);

/*
 * The packets of a stream for the times of the session's window: those from the last PSB before
 * `since`, with its time stamp, up to the first one after `until`, which is at *to (or *to is
 * UINT64_MAX). Without packets at that time, *to is *from. PTAH_E_UNSUPPORTED: the window counts
 * instructions.
 */
PTAH_API int ptah_session_window_packets(const struct ptah_session *session, size_t stream,
					 uint64_t *from, uint64_t *to);

/*
 * The first and the last time in the trace of a stream, as TSC values. PTAH_E_MISSING: it has no
 * time stamps.
 */
PTAH_API int ptah_session_stream_times(const struct ptah_session *session, size_t stream,
				       uint64_t *first, uint64_t *last);

/*
 * The TSC value of a time in nanoseconds of perf's clock: the first one whose ptah_session_time()
 * is not less if `up`, and otherwise the last one whose ptah_session_time() is not more. 0 when the
 * recording has no conversion, or the TSC was less than 0 then.
 */
PTAH_API uint64_t ptah_session_tsc(const struct ptah_session *session, uint64_t ns, bool up);

PTAH_END_DECLS

#endif
