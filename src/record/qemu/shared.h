/* SPDX-License-Identifier: MIT */
/*
 * What the recorder and its plugin share: one memory file, mapped by both.
 *
 * The plugin runs inside the recorded process, where the program may close
 * descriptors, be killed, or fork; the recorder alone writes the recording.
 * So everything that is needed to finish a thread's trace lies here, and the
 * recorder finishes it whichever way the process ended. Children have the
 * memory from their parents, the programs that execve starts open it by name.
 *
 *	struct shared_header
 *	message ring (bytes, wrapping)
 *	SHARED_THREADS times: struct shared_thread, staging area, trace buffer
 *
 * Each thread runs on a logical processor of its own (model/), whose output the
 * capture engine (engine/) directs into the trace buffer: byte n of the trace
 * lies at n modulo the buffer's size. The processor's last bytes are in its
 * staging area.
 */
#ifndef PTAH_RECORD_QEMU_SHARED_H
#define PTAH_RECORD_QEMU_SHARED_H

#include "record/simulated/insn.h"
#include "record/simulated/trace_output.h"

#include <ptah/event.h>

#include <pthread.h>
#include <stdatomic.h>

#define SHARED_MAGIC	    0x50544148u
#define SHARED_THREADS	    512
#define SHARED_FILTERS	    4
#define SHARED_PATH	    4096
#define SHARED_MESSAGES	    (4u << 20)
#define SHARED_MESSAGE_MAX  8192
#define SHARED_THREAD_BYTES 8192
#define SHARED_CLOCK_HOST   1u
#define SHARED_NO_INHERIT   2u

/* One thread's recording at an instant between two blocks. */
struct shared_state {
	struct ptah_model m;
	uint64_t instructions;
	uint64_t counts[KIND_MAX];
	uint64_t hash;	    /* path hash of the closed runs */
	uint64_t run_start; /* the open run is [run_start, next_ip) */
	uint64_t next_ip;   /* tracing: the block that runs now, not counted yet */
	uint64_t lift;	    /* clock: instructions + lift */
	uint64_t lost;	    /* overflows the recorder had to make */
};

enum shared_thread_state {
	THREAD_FREE = 0,
	THREAD_TAKEN, /* being made */
	THREAD_ACTIVE,
	THREAD_ENDED,
};

/* What a system call is about to map; size 0: nothing to run. */
struct shared_mapping {
	uint64_t address, size, file_offset;
};

/* Who may touch a thread's state. Between blocks alone does it change hands. */
enum shared_park {
	PARK_RUNS = 0,
	PARK_PARKED,  /* in a system call, or held: the recorder may claim it */
	PARK_CLAIMED, /* the recorder has */
};

struct shared_thread {
	_Atomic uint32_t state;
	_Atomic uint32_t park;
	int32_t pid, tid;
	/* The recorder: bytes taken. The plugin: bytes that may be taken. */
	_Atomic uint64_t tail;
	_Atomic uint64_t published;
	/* Set while `live` is being changed. A thread that died then is finished from
	 * `checkpoint`, which is never older than `published`. */
	volatile uint32_t busy;
	uint32_t general;	       /* every branch is told to the processor */
	bool paused;		       /* as the header's, which the thread has followed */
	bool timed;		       /* and how much time has passed */
	uint64_t before;	       /* when the last block began */
	uint64_t told;		       /* the time the last PSB+ told, or less */
	uint64_t guessed;	       /* the time that perf has got to at most, by its guesses */
	uint64_t psb_time;	       /* of the PSB+ that is due; 0: none is */
	const void *prev;	       /* plugin's: the block that runs now */
	void *output;		       /* plugin's: the engine that captures this thread */
	struct shared_mapping mapping; /* plugin's */
	uint64_t maps; /* plugin's: map_time at the last return from a system call */
	struct shared_state live;
	struct shared_state checkpoint;
};

/* Where the code of a filter lies is known when its file is mapped. */
struct shared_filter {
	uint32_t mode;		/* enum ptah_range_mode */
	char path[SHARED_PATH]; /* "": `start` is an address */
	uint64_t start, size;
};

_Static_assert(sizeof(struct shared_thread) <= SHARED_THREAD_BYTES, "raise SHARED_THREAD_BYTES");

enum shared_message_type {
	MESSAGE_THREAD = 1,    /* a thread began: its slot in `value` */
	MESSAGE_COMM,	       /* text: its new name */
	MESSAGE_MAP,	       /* address, size, value: file offset; text: path */
	MESSAGE_CODE,	       /* address; bytes */
	MESSAGE_FORK,	       /* from a child that begins; value, address: its parent's pid, tid */
	MESSAGE_EXEC,	       /* another program has begun in the process; text: its name */
	MESSAGE_NATIVE,	       /* about to execve what cannot be followed; text: what, and why */
	MESSAGE_NATIVE_FAILED, /* and did not */
	MESSAGE_NOTE,	       /* text */
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
	uint32_t flags;	 /* SHARED_CLOCK_HOST, SHARED_NO_INHERIT */
	uint32_t policy; /* enum ptah_capture_policy */
	uint64_t buffer; /* bytes of a trace buffer */
	struct ptah_trace_config trace;
	bool long_tnt;
	uint32_t filter_count;
	struct shared_filter filters[SHARED_FILTERS];
	_Atomic int32_t recorder; /* pid; 0: it takes no more */
	uint64_t recorder_start;  /* when it began, as in /proc/PID/stat: pids come again */
	_Atomic uint64_t clock;	  /* the latest time any thread has told */
	/*
	 * What the recorder wants of all threads. Who is not parked looks when its
	 * `live.m.limit` is reached, which the recorder sets to NULL for that.
	 */
	_Atomic bool stop;     /* to end their traces */
	_Atomic bool hold;     /* to park until it is over */
	_Atomic bool paused;   /* not to trace */
	_Atomic bool crowded;  /* more than SHARED_THREADS at a time, and it was told */
	_Atomic bool left_out; /* SHARED_NO_INHERIT: somebody was, and it was told */
	/* For programs that execve starts: the files of QEMU, of the plugin and of this memory. */
	char qemu[SHARED_PATH], plugin[SHARED_PATH], memory[64];
	/* Robust: a process that is killed in between has put no message. */
	pthread_mutex_t message_lock;
	_Atomic uint64_t message_head, message_tail;
};

#define SHARED_HEADER_BYTES (32u << 10)

_Static_assert(sizeof(struct shared_header) <= SHARED_HEADER_BYTES, "raise SHARED_HEADER_BYTES");

/* When a process began, in the system's own unit; 0: it is not there, or has ended. */
uint64_t shared_process_start(int32_t pid);

static inline uint64_t shared_slot_bytes(uint64_t buffer)
{
	return SHARED_THREAD_BYTES + SIMULATED_STAGING + buffer;
}

static inline uint64_t shared_bytes(uint64_t buffer)
{
	return SHARED_HEADER_BYTES + SHARED_MESSAGES + SHARED_THREADS * shared_slot_bytes(buffer);
}

static inline uint8_t *shared_messages(struct shared_header *h)
{
	return (uint8_t *)h + SHARED_HEADER_BYTES;
}

/* `buffer`: as in the header, which the recorder does not look at again: the program could write
 * there. */
static inline struct shared_thread *shared_slot(struct shared_header *h, uint64_t buffer,
						unsigned i)
{
	return (struct shared_thread *)(void *)((uint8_t *)h + SHARED_HEADER_BYTES +
						SHARED_MESSAGES + i * shared_slot_bytes(buffer));
}

static inline uint8_t *shared_staging(struct shared_thread *t)
{
	return (uint8_t *)t + SHARED_THREAD_BYTES;
}

static inline uint8_t *shared_buffer(struct shared_thread *t)
{
	return (uint8_t *)t + SHARED_THREAD_BYTES + SIMULATED_STAGING;
}

/* Bytes that are still in the processor: the staging area's first ones. */
static inline uint64_t shared_staged(const struct ptah_model *m)
{
	return (uint64_t)(m->g.out - m->staging);
}

#endif
