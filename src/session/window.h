/* SPDX-License-Identifier: MIT */
/* Where the window of a session (<ptah/session.h>) begins and ends in a stream. */
#ifndef PTAH_SESSION_WINDOW_H
#define PTAH_SESSION_WINDOW_H

#include "session/stream.h"

/* Whether the session has a window. Such a session is decoded by the caller's thread alone. */
static inline bool session_has_window(const struct ptah_session *session)
{
	const struct ptah_window *w = &session->window;

	return w->since || w->until != UINT64_MAX || w->first || w->last != UINT64_MAX || w->offset;
}

/* Brings a stream that is at its beginning to the window of its session. */
int window_enter(struct stream_decoder *s);

#endif
