/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the threads' logs: takes the chunks that are FULL, in order, and gives
 * them back. The memory belongs to the recorded programs as much as to us: each number in it is
 * read once and checked, bytes are copied before they are looked at, and what we need to know of
 * ourselves is kept here.
 */
#ifndef PTAH_RECORD_NATIVE_STREAMS_H
#define PTAH_RECORD_NATIVE_STREAMS_H

#include "record/native/look_packets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct native_stream {
	bool used; /* a thread has begun in this slot, and has not been finished */
	bool left; /* it was finished while it ran, and has the slot until it ends */
	uint32_t stream;
	int32_t pid, tid;
	/*
	 * It was killed, or still is, where nothing is traced: its last packet is a TIP.PGD, or it
	 * has paused. What has arrived of its two logs is of the same.
	 */
	bool closed;
	struct look_state looks;
	uint64_t next[NATIVE_LOGS]; /* number of the chunk that is taken next */
	size_t taken[NATIVE_LOGS];  /* bytes of it that were taken already */
	/* call_log.c: bytes that were taken of the log of system calls; the time of the last */
	uint64_t calls, call_time;
};

struct native_streams {
	uint8_t *memory;		/* the shared files, one behind the other */
	unsigned slots;			/* of those that there are */
	unsigned used[NATIVE_MEMORIES]; /* of a memory's, from the first one on, may be in use */
	uint32_t flags;			/* native_header.flags, our own copy */
	uint32_t chunks, chunk_bytes;	/* likewise */
	/*
	 * Takes bytes of a log, in order: whole packets of NATIVE_LOG_TRACE, whole numbers of
	 * NATIVE_LOG_EXITS. n > 0.
	 */
	void (*take)(void *context, const struct native_stream *s, unsigned log,
		     const uint8_t *bytes, size_t n);
	void *context;
	bool damaged; /* a program has written what the runtime does not write */
	struct native_stream list[NATIVE_SLOTS];
	uint8_t bytes[NATIVE_CHUNK]; /* our copy of a chunk */
	struct watch *watch;	     /* NULL: nobody looks at what threads are writing */
	struct look looks[WATCH_LOOKS];
	uint8_t timed[LOOK_ROOM]; /* a chunk with the times of looks */
};

static inline struct native_header *streams_header(const struct native_streams *s, unsigned slot)
{
	return (struct native_header *)(void *)(s->memory + slot / NATIVE_THREADS * native_bytes());
}

static inline struct native_thread *streams_thread(const struct native_streams *s, unsigned slot)
{
	return (struct native_thread *)(void *)(s->memory + native_slot_of_all_at(slot));
}

/* Of a log, that the slot's thread uses in turn. */
static inline uint32_t streams_chunks(const struct native_streams *s, unsigned slot)
{
	return native_slot_chunks(slot, s->chunks);
}

/* The next slot that may be in use. */
static inline unsigned streams_after(const struct native_streams *s, unsigned slot)
{
	unsigned next = slot + 1;

	while (next < s->slots && next % NATIVE_THREADS >= s->used[next / NATIVE_THREADS])
		next = (next / NATIVE_THREADS + 1) * NATIVE_THREADS;
	return next;
}

/* Slots that have never been in use are not looked at, because they would get pages. */
#define STREAMS_EACH(s, slot)                                                                      \
	for (unsigned slot = streams_after(s, UINT32_MAX); slot < (s)->slots;                      \
	     slot = streams_after(s, slot))

/* The slot may be in use from now on. */
void streams_use(struct native_streams *s, unsigned slot);
/* The same for those that programs have claimed. */
void streams_use_claimed(struct native_streams *s);

/* A thread begins (NATIVE_MESSAGE_THREAD). False: there is no such slot, or it is in use. */
bool streams_begin(struct native_streams *s, uint64_t slot, int32_t pid, int32_t tid,
		   uint32_t stream);

/*
 * Whether the thread of a slot says that it has ended. To be read before the messages are taken,
 * which have been sent before.
 */
bool streams_has_ended(const struct native_streams *s, unsigned slot);
/* Whether a program has taken a slot whose thread has not begun, as far as is known. */
bool streams_any_unknown(const struct native_streams *s);

/*
 * Takes the chunks of a slot that are FULL, no more than *most of trace, from which it takes their
 * number away. True: others are left. Those of a slot that nobody has reported are given back
 * unread once the memory is known to be damaged: their thread would wait for ever.
 */
bool streams_drain(struct native_streams *s, unsigned slot, unsigned *most);
#define STREAMS_ALL UINT32_MAX
/* Whether the thread has chunks of trace that are FULL. */
bool streams_has_more(const struct native_streams *s, unsigned slot);

/*
 * A thread has ended of which nothing is taken: one that was finished before, or that has never
 * begun. The slot becomes free, for who waits for one.
 */
void streams_give_up(struct native_streams *s, unsigned slot);

/* Takes what a thread that goes on has written of the chunk that is not FULL yet. */
void streams_take_early(struct native_streams *s, unsigned slot);

/* Whether the thread has paused: what counts is in chunks that are FULL. */
bool streams_has_paused(const struct native_streams *s, unsigned slot);
/* Whether it has come into a stop range: it neither pauses nor goes on any more. */
bool streams_has_stopped(const struct native_streams *s, unsigned slot);

/*
 * Takes what is written in the chunks that are not FULL, of a thread that is in a system call, so
 * that all of its packets are whole.
 */
void streams_take_written(struct native_streams *s, unsigned slot);

/*
 * A look at the chunk that the thread is writing, after streams_drain(): s->bytes has the whole
 * packets in it that were not taken yet, and they are taken later all the same. Returns how many
 * bytes.
 */
size_t streams_look(struct native_streams *s, unsigned slot);

/*
 * Takes all that the thread has left, and makes the slot free. The thread has ended, or its process
 * has died, or nothing more is recorded of it: then a chunk that was being written counts up to its
 * last whole packet. runs: it may still write, and keeps its slot.
 */
void streams_finish(struct native_streams *s, unsigned slot, bool runs);

#endif
