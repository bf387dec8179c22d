/* SPDX-License-Identifier: MIT */
/*
 * The watcher: a thread of the recorder that looks, every so often, how far the recorded threads
 * have written their logs, and notes at what time. The logs lie in shared memory that was zeroed,
 * so that the recorded threads need do nothing for it. What was seen becomes TSC packets when a
 * chunk is taken (look_packets.h).
 *
 * One nap serves all threads. It costs more than the looks: the watcher measures its own processor
 * time, and naps longer where it would take more than its share of a processor, and where no thread
 * gets on.
 */
#ifndef PTAH_RECORD_NATIVE_WATCH_H
#define PTAH_RECORD_NATIVE_WATCH_H

#include "record/native/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At some time between these two, the first `at` bytes of a chunk were written, and no more. */
struct look {
	uint32_t at;
	uint64_t before, after; /* TSC */
};

/* So many looks at a chunk are kept: where there are more, every other one is forgotten. */
#define WATCH_LOOKS 4096

struct watch_config {
	uint8_t *memory; /* the shared ones, as in struct native_streams */
	uint32_t flags;	 /* native_header.flags */
	uint32_t chunks, chunk_bytes;
	uint64_t period_ns; /* between two looks, if the share allows it */
	unsigned percent;   /* of a processor that the watcher may take */
};

struct watch;

/* NULL: there is no memory, or no thread, for it. The recording has no such times then. */
struct watch *watch_start(const struct watch_config *config);
/* Of all of these, `watch` may be NULL. */
void watch_stop(struct watch *watch);

/* A thread writes to the slot from now on, or none does any more. */
void watch_begin(struct watch *watch, unsigned slot);
void watch_end(struct watch *watch, unsigned slot);

/* Called before a chunk is zeroed: it is not looked at any more. */
void watch_leave(struct watch *watch, unsigned slot, uint64_t number);

/*
 * Looks at once if the watcher should have long since: the thread that calls it may be what keeps
 * the watcher from its processor.
 */
void watch_poll(struct watch *watch);

/*
 * Takes what was seen of a chunk after its first `from` bytes and before `to`, in order; what was
 * seen before is forgotten. Returns how many; looks has room for WATCH_LOOKS.
 */
size_t watch_take(struct watch *watch, unsigned slot, uint64_t number, size_t from, size_t to,
		  struct look *looks);

#endif
