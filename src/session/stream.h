/* SPDX-License-Identifier: MIT */
/* The decoder of a stream, for stream.c and for the files that decode in segments. */
#ifndef PTAH_SESSION_STREAM_H
#define PTAH_SESSION_STREAM_H

#include "event/time_window.h"
#include "flow/state.h"
#include "profile/profile_internal.h"
#include "session/session.h"

/* As many as a stub that is bound lazily has, and one. */
#define STREAM_BEFORE 4

struct stream_decoder {
	const struct ptah_session *session;
	const struct stream *stream;
	struct ptah_flow_config config;
	unsigned flow_set; /* the session's flow_set when this decoder was made */
	struct ptah_image *image;
	struct guest_view *view; /* of a virtual machine: the image's reader; else NULL */
	struct ptah_flow *flow;
	struct ptah_profile *profile; /* instead of the flow, once the stream is counted */
	bool paused;		      /* the profile has paused */
	size_t next_piece;
	uint64_t fed;  /* bytes of the current piece that were fed */
	uint64_t stop; /* nothing from this offset on is fed */
	bool ended;
	bool fresh;		    /* as stream_new() has made it */
	bool was_read;		    /* by the caller: it is not counted any more */
	bool half_read;		    /* window_enter() left a chunk that is to be counted on */
	bool open_end;		    /* what was fed last was not the last of its piece of trace */
	struct time_window window;  /* what is outside of it is decoded and not returned */
	struct window_place *place; /* where the window begins, once it was found */
	/* The last blocks before what was returned; nothing else lay between them. */
	struct ptah_item before[STREAM_BEFORE];
	unsigned before_count; /* of all, the next one's place modulo STREAM_BEFORE */
	/*
	 * The dynamic linker's resolver that was entered before what was returned, and was not left:
	 * the code from low to high - 1, and the branch of its caller. high 0: there is none.
	 */
	struct stream_resolver {
		uint64_t low, high;
		struct ptah_item caller;
	} resolver;
	uint64_t taken; /* bytes of trace that were fed since the stream was made */
	/* For a CPU's stream whose threads are followed; otherwise NULL, NULL and no limit. */
	struct follow *follow;
	size_t turn;	     /* number of the current turn; SESSION_NONE: unknown */
	uint64_t feed_limit; /* the thread from this offset on is not known yet */
	/*
	 * The numbers of the first and the last of the switches whose places in the trace are not
	 * known, since a reader has set these to SESSION_NONE.
	 */
	size_t unsure_from, unsure_to;
	/* The space of the current thread, if several processes share the stream; or NULL. */
	const struct ptah_space *space;
	/* Changes that wait for their time. */
	const struct change **later;
	size_t later_count, next_later;
	size_t kernel_changes; /* how many of the kernel's changes that have a time are applied */
	uint64_t offset;
	bool event_spans;	    /* see stream_read_spans() */
	struct span_bounds *bounds; /* of functions, for spans; NULL: see span_reader.c */
	/* Other decoders, for streams with other memory: see stream_renew(). */
	struct stream_decoder *shelf;
};

int stream_new(const struct ptah_session *session, size_t index, struct stream_decoder **stream);
void stream_free(struct stream_decoder *stream);

/* These are the functions of ptah_reader_. */
int stream_read(struct stream_decoder *stream, struct ptah_item *items, size_t capacity);
int stream_read_blocks(struct stream_decoder *stream, struct ptah_block *blocks, size_t capacity);
int stream_insns(const struct stream_decoder *stream, const struct ptah_item *block,
		 struct ptah_insn *insns, size_t capacity);
int stream_thread(const struct stream_decoder *stream, struct ptah_thread *thread);
int32_t stream_space(const struct stream_decoder *stream, unsigned space);
uint64_t stream_version(const struct stream_decoder *stream, unsigned space, uint64_t ip,
			unsigned mode);

/*
 * Counts instead of returning the path, much faster: processes the next piece of the stream, about
 * a megabyte. 1 when there is more, 0 at the end. A stream is either read or counted: PTAH_E_INVAL
 * for one that has been read, as stream_read() returns for one that is counted.
 */
int stream_count(struct stream_decoder *stream);

/* What was counted so far; it lives as long as the decoder. NULL before the first count. */
struct ptah_profile *stream_profile(struct stream_decoder *stream);

/* How many changes wait for their time, of the process and of the kernel, from the beginning on. */
static inline size_t stream_later(const struct stream_decoder *s)
{
	return s->later_count + kernel_later(&s->session->kernel);
}

/* How many of these have been applied. */
static inline size_t stream_applied(const struct stream_decoder *s)
{
	return s->next_later + s->kernel_changes;
}

/* The turn with this number; NULL for SESSION_NONE. */
static inline const struct turn *stream_turn(const struct stream_decoder *s, size_t number)
{
	return number == SESSION_NONE ? NULL : cpu_turn(&s->session->cpus[s->stream->cpu], number);
}

/* The flow, wherever it is. */
static inline struct ptah_flow *stream_flow(const struct stream_decoder *s)
{
	return s->profile ? s->profile->flow : s->flow;
}

/*
 * follow.c: the threads that run on the stream's CPU. follow_restart() begins with the stream's
 * first byte; it does nothing for a stream of one thread.
 */
int follow_restart(struct stream_decoder *s);
void follow_free(struct stream_decoder *s);

/*
 * The same from an offset in the middle on, at which the time is `tsc`: the thread there is the one
 * whose turn it was then.
 */
int follow_begin_at(struct stream_decoder *s, uint64_t offset, uint64_t tsc);

/*
 * Called before the byte at `at` is fed: changes threads if necessary, and sets how far to feed,
 * which is `at` itself if the function must be called again first. *unknown: the thread from here
 * on is unknown.
 */
int follow_go_on(struct stream_decoder *s, uint64_t at, bool *unknown);

/*
 * The session has grown: its lists have moved, and so many of the stream's first pieces and limits
 * are gone.
 */
void follow_moved(struct stream_decoder *s, size_t pieces, size_t limits);

/* Enters the current turn again if it is known now that several processes run. */
int follow_settle(struct stream_decoder *s);

/* Another change of a process's memory is known. */
int follow_take_change(struct stream_decoder *s, size_t process, const struct change *change);

/* How many limits of the stream have been used, and the first turn that is still needed. */
void follow_needs(const struct stream_decoder *s, size_t *limits, size_t *turn);

/* The pid of the process that a space of a followed stream stands for; -1: none. */
int32_t follow_pid(const struct ptah_session *session, const struct ptah_space *space);

/*
 * stream_image.c: puts a process's memory into the image. Changes that must wait for their time go
 * to `later`; the second function applies one of them.
 */
int stream_build_image(struct stream_decoder *s, size_t process);
int stream_apply_change(struct stream_decoder *s, const struct change *change);

/*
 * Another change of the stream's memory is known, in a session that grows. It takes effect at once,
 * or at its time if it replaces something.
 */
int stream_take_change(struct stream_decoder *s, const struct change *change);

/* Another change may be the next one: the decoder pauses before it. */
void stream_set_limit(struct stream_decoder *s);

/* Applies a change that has waited. */
int stream_apply_later(struct stream_decoder *s, const struct change *change);

/* Frees the changes that wait. */
void stream_forget_changes(struct stream_decoder *s);
/* Frees a list of changes, of which those from `next` on have not been applied. */
void stream_free_changes(const struct ptah_session *session, const struct change **changes,
			 size_t next, size_t count);

/* Applies all changes that have happened by `tsc`, and sets the next time limit. */
int stream_catch_up(struct stream_decoder *s, uint64_t tsc);

/*
 * Reads spans, as ptah_flow_read_spans() or, if the stream's `event_spans` is set, with events
 * among them (flow_read_event_spans()), or one item that is no block: *is_item. Returns how many;
 * 0: the end of the stream. Not for a stream with a window.
 */
int stream_read_spans(struct stream_decoder *s, struct ptah_span *spans, size_t capacity,
		      struct ptah_item *item, bool *is_item);

/* Bytes to be fed. */
struct stream_bytes {
	const uint8_t *bytes;
	size_t n;
	bool last;
};

/*
 * The next bytes to feed; they count as fed. False: there are none before the end, or before
 * `stop`.
 */
bool stream_next_bytes(struct stream_decoder *s, struct stream_bytes *bytes);

/* The next bytes that the flow or the profile is fed are those at `offset`. */
void stream_seek(struct stream_decoder *s, uint64_t offset);

/* Called when the flow has paused: applies the changes of this time, and sets the next limit. */
int stream_apply_changes(struct stream_decoder *s);

/* From now on the stream is counted. */
int stream_begin_to_count(struct stream_decoder *s);

/*
 * Makes *s a decoder at the beginning of the stream, with counts of 0: *s itself, if the new stream
 * has the same memory and what *s knows of the code is valid, otherwise a new one in its place. On
 * failure *s is NULL.
 */
int stream_renew(const struct ptah_session *session, size_t index, struct stream_decoder **s);

/* The same, for a stream that is counted. */
int stream_renew_counted(const struct ptah_session *session, size_t index,
			 struct stream_decoder **s);

/* Only what is inside is returned or counted from now on. */
void stream_set_window(struct stream_decoder *s, const struct time_window *window);

/* Moves the stream to an offset, with nothing known of the state there. */
void stream_go_to(struct stream_decoder *s, uint64_t offset);

/* segment.c: parts of a stream that can be decoded independently */

/*
 * A segment begins at `start`, an offset after the PSB at `psb`, at which the flow is at rest.
 * `state` is the state there of a flow that comes from that PSB with nothing known: `start` is the
 * first offset where it may equal the state of a flow that comes from before the PSB. (SDM "PSB
 * Packet": last IP and the return address stack are cleared there; but a flow may be a few direct
 * branches before the PSB's address until it has moved.) A segment ends where the next one begins.
 */
struct segment {
	size_t stream;
	bool whole_start; /* it begins with the stream: psb, start and state are not used */
	uint64_t psb, start, stop;
	struct flow_state state;
	size_t changes; /* number of changes of the image that are applied at its start */
};

/*
 * Finds the first place in [from, before) of the stream where a segment can begin, independently of
 * what was found before, and brings `s`, which may count, to its start. What precedes the start is
 * decoded, not counted. segment->stop is where the bytes end that `s` was fed: a few KB after the
 * PSB. False: there is none, and `s` is anywhere.
 */
bool segment_find(struct stream_decoder *s, uint64_t from, uint64_t before,
		  struct segment *segment);

/*
 * Whether a segment begins in the state in which a decode of what precedes it ended, after so many
 * changes of the image. With `timed` the time is compared too.
 */
bool segment_follows(const struct segment *segment, const struct flow_state *end, size_t changes,
		     bool timed);

/* Finds the segments of one stream after the other. */
struct segment_finder {
	const struct ptah_session *session;
	/* A decoder of the stream that is being cut into segments; NULL: none yet. */
	struct stream_decoder *probe;
	struct segment next; /* the segment that is returned next */
	bool has_next;
	uint64_t size; /* least size of a segment */
};

/* Begins with a stream, possibly after another one. 0 or an error. */
int segment_begin(struct segment_finder *finder, size_t stream, uint64_t size);

/* Returns the stream's next segment. False: there is none. */
bool segment_next(struct segment_finder *finder, struct segment *segment);
void segment_end(struct segment_finder *finder);

/* Brings a decoder to where the segment begins, and makes it stop where the segment ends. */
int segment_enter(struct stream_decoder *s, const struct segment *segment);

#endif
