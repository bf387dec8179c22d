/* SPDX-License-Identifier: MIT */
/* A stream's inside, for stream.c and for those who decode it in segments. */
#ifndef PTAH_SESSION_STREAM_H
#define PTAH_SESSION_STREAM_H

#include "flow/state.h"
#include "profile/profile_internal.h"
#include "session/session.h"

struct ptah_stream {
	const struct ptah_session *session;
	const struct stream *stream;
	struct ptah_flow_config config;
	unsigned flow_set; /* the session's, when that was made of it */
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_profile *profile; /* once the stream is counted: instead of the flow */
	bool paused;		      /* the profile */
	size_t next_piece;
	uint64_t fed;  /* bytes of it that have been */
	uint64_t stop; /* no byte from here on is fed */
	bool ended;
	/* Of a CPU's stream that several processes share; else NULL, NULL, and no limit. */
	struct follow *follow;
	const struct ptah_space *space; /* of who runs now */
	const struct turn *turn;	/* NULL: it is not known */
	uint64_t feed_limit;		/* who comes behind it is not known yet */
	/* Changes that must wait for their time. */
	const struct change **later;
	size_t later_count, next_later;
	uint64_t offset;
	struct ptah_stream
	    *shelf; /* streams of other memory that it stood for: see stream_renew() */
};

/* Where it stands. */
static inline struct ptah_flow *stream_flow(const struct ptah_stream *s)
{
	return s->profile ? s->profile->flow : s->flow;
}

/* follow.c: who runs on the stream's CPU. */
int follow_new(struct ptah_stream *s);
void follow_free(struct ptah_stream *s);
int follow_begin(struct ptah_stream *s);

/*
 * Before the byte at `at` is fed: sets how far to feed, which is `at` itself when
 * there is more to ask; *told says that who runs from here on is not known.
 */
int follow_go_on(struct ptah_stream *s, uint64_t at, bool *told);

/* The process that a space of a followed stream stands for; -1: none. */
int32_t follow_pid(const struct ptah_session *session, const struct ptah_space *space);

/* Puts a process's memory into the image; what must wait is in `later`. */
int stream_build_image(struct ptah_stream *s, size_t process);

/* Applies all that has happened by `tsc`, and sets the next limit. */
int stream_catch_up(struct ptah_stream *s, uint64_t tsc);

/* Bytes to be fed. */
struct stream_bytes {
	const uint8_t *bytes;
	size_t n;
	bool last;
};

/* The next of them, which count as fed. False: none before the end, or `stop`. */
bool stream_next_bytes(struct ptah_stream *s, struct stream_bytes *bytes);

/* The next bytes fed are those at `offset`. */
void stream_seek(struct ptah_stream *s, uint64_t offset);

/* The flow has paused: the changes of this time are applied, and the next limit set. */
int stream_apply_changes(struct ptah_stream *s);

/* The stream is counted from now on. */
int stream_begin_to_count(struct ptah_stream *s);

/*
 * A stream at its beginning, with counts of 0: *s, if that has the same memory
 * and what it knows of the code holds here, too, else a new one in its place.
 * When that fails *s is NULL.
 */
int stream_renew(const struct ptah_session *session, size_t index, struct ptah_stream **s);

/* The same, and it is counted. */
int stream_renew_counted(const struct ptah_session *session, size_t index, struct ptah_stream **s);

/* segment.c: parts of a stream that can be decoded by themselves. */

/*
 * A segment begins at `start`, a place behind the PSB at `psb` where the flow is
 * at rest, in `state` if it comes from that PSB with nothing known: the first
 * place where that may be the state of one that comes from before it. (SDM "PSB
 * Packet": last IP and the return stack are cleared there; but the flow may
 * stand a few direct branches before the PSB's address until it has moved.)
 * It ends where the next one begins.
 */
struct segment {
	size_t stream;
	bool whole_start; /* begins with the stream: psb, start and state mean nothing */
	uint64_t psb, start, stop;
	struct flow_state state;
	size_t changes; /* applied at its start */
};

/* Finds segments, from stream to stream. */
struct segment_finder {
	const struct ptah_session *session;
	struct ptah_stream *probe; /* of the stream that is being cut; NULL: none yet */
	struct segment next;	   /* the one to be handed out next */
	bool has_next;
	uint64_t size; /* at least this many bytes each */
};

/* Begins with a stream, perhaps after another one. 0 or an error. */
int segment_begin(struct segment_finder *finder, size_t stream, uint64_t size);

/* The stream's next segment. False: there is none. */
bool segment_next(struct segment_finder *finder, struct segment *segment);
void segment_end(struct segment_finder *finder);

/* Brings a stream to where the segment begins, and lets it stop where it ends. */
int segment_enter(struct ptah_stream *s, const struct segment *segment);

#endif
