/* SPDX-License-Identifier: MIT */
/*
 * What the recorder and its plugin share: one memory file, mapped by both.
 *
 * The plugin runs inside the recorded process, where the program may close
 * descriptors, be killed, or fork; the recorder alone writes the recording.
 * So everything that is needed to finish a thread's trace lies here, and the
 * recorder finishes it whichever way the process ended.
 *
 *	struct shared_header
 *	message ring (bytes, wrapping)
 *	SHARED_THREADS times: struct shared_thread, trace ring, slack
 */
#ifndef PTAH_RECORD_QEMU_SHARED_H
#define PTAH_RECORD_QEMU_SHARED_H

#include "model/generator.h"

#include <ptah/event.h>

#include <stdatomic.h>

#define SHARED_MAGIC	    0x50544148u
#define SHARED_THREADS	    512
#define SHARED_RING	    (4u << 20)
#define SHARED_SLACK	    4096	/* a burst may run over the ring's end before it wraps */
#define SHARED_STEP	    (64u << 10) /* bytes of trace between two looks at the ring */
#define SHARED_MESSAGES	    (4u << 20)
#define SHARED_MESSAGE_MAX  8192
#define SHARED_THREAD_BYTES 8192
#define SHARED_CLOCK_HOST   1u

/* Block kinds: enum ptah_insn_class for the last instruction, and these. */
enum shared_kind {
	KIND_REP = PTAH_INSN_CLASS_MAX, /* ends with a rep instruction, one iteration a time */
	KIND_ZERO_CALL,			/* a direct call to the next instruction */
	KIND_KERNEL,			/* INT n and the like: leaves user mode */
	KIND_MAX
};

/* One thread's recording at an instant between two blocks. */
struct shared_state {
	struct ptah_generator g;
	uint64_t origin; /* g.out - origin: bytes of trace so far */
	uint64_t instructions;
	uint64_t counts[KIND_MAX];
	uint64_t hash;	    /* path hash of the closed runs */
	uint64_t run_start; /* the open run is [run_start, next_ip) */
	uint64_t next_ip;   /* tracing: the block that runs now, not counted yet */
	uint64_t lift;	    /* clock: instructions + lift */
	uint64_t lost;	    /* overflows the recorder had to make */
	bool enabled;
};

enum shared_thread_state {
	THREAD_FREE = 0,
	THREAD_ACTIVE,
	THREAD_ENDED,
};

struct shared_thread {
	_Atomic uint32_t state;
	int32_t pid, tid;
	/* The recorder: bytes taken. The plugin: bytes that may be taken. */
	_Atomic uint64_t tail;
	_Atomic uint64_t published;
	uint64_t ring; /* the plugin's address of the trace ring */
	/* Set while `live` is being changed. A thread that died then is finished from
	 * `checkpoint`, which is never older than `published`. */
	volatile uint32_t busy;
	uint8_t *limit; /* g.out behind this: look at the ring, place a PSB+ */
	uint8_t *psb_at;
	uint64_t told;	   /* the time the last PSB+ told */
	uint64_t psb_time; /* of the PSB+ that is due; 0: none is */
	const void *prev;  /* plugin's: the block that runs now */
	struct shared_state live;
	struct shared_state checkpoint;
};

_Static_assert(sizeof(struct shared_thread) <= SHARED_THREAD_BYTES, "raise SHARED_THREAD_BYTES");

enum shared_message_type {
	MESSAGE_THREAD = 1, /* a thread began: its slot in `value` */
	MESSAGE_COMM,	    /* text: its new name */
	MESSAGE_MAP,	    /* address, size, value: file offset; text: path */
	MESSAGE_CODE,	    /* address; bytes */
	MESSAGE_FORK,	    /* value: the child's pid */
	MESSAGE_EXEC,	    /* about to execve; text: path */
	MESSAGE_EXEC_FAILED,
	MESSAGE_NOTE, /* text */
};

/* Followed by `bytes` bytes of payload, the whole padded to 8. */
struct shared_message {
	uint32_t type;
	uint32_t bytes;
	int32_t pid, tid;
	uint64_t tsc;
	uint64_t address, size, value;
};

struct shared_header {
	uint32_t magic;
	uint32_t flags; /* SHARED_CLOCK_HOST */
	uint32_t psb_period;
	bool retcomp, long_tnt;
	int32_t recorder;	/* pid */
	_Atomic uint64_t clock; /* the latest time any thread has told */
	_Atomic uint64_t message_head, message_tail;
};

#define SHARED_HEADER_BYTES 4096
#define SHARED_SLOT_BYTES   (SHARED_THREAD_BYTES + SHARED_RING + SHARED_SLACK)
#define SHARED_BYTES                                                                               \
	(SHARED_HEADER_BYTES + SHARED_MESSAGES + (uint64_t)SHARED_THREADS * SHARED_SLOT_BYTES)

static inline uint8_t *shared_messages(struct shared_header *h)
{
	return (uint8_t *)h + SHARED_HEADER_BYTES;
}

static inline struct shared_thread *shared_slot(struct shared_header *h, unsigned i)
{
	return (struct shared_thread *)(void *)((uint8_t *)h + SHARED_HEADER_BYTES +
						SHARED_MESSAGES + (uint64_t)i * SHARED_SLOT_BYTES);
}

static inline uint8_t *shared_ring(struct shared_thread *t)
{
	return (uint8_t *)t + SHARED_THREAD_BYTES;
}

static inline uint64_t shared_position(const struct shared_state *s)
{
	return (uint64_t)(uintptr_t)s->g.out - s->origin;
}

#endif
