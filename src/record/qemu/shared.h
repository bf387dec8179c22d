/* SPDX-License-Identifier: MIT */
/*
 * What the recorder and its plugin share: one memory file, mapped by both.
 *
 * The plugin runs inside the recorded process, where the program may close
 * descriptors, be killed, or fork; the recorder alone writes the recording.
 * So everything that is needed to finish a thread's trace lies here, and the
 * recorder finishes it whichever way the process ended. Children have the
 * memory from their parents, the programs that execve starts open it by name or, if
 * the process has another user by then, get it from the recorder (handover.c).
 *
 * The program can reach this memory, and write to it. The recorder believes nothing that it reads
 * here: it reads a number once, checks it, and uses its own copy. It keeps the positions up to
 * which it has read for itself, and only reports them here. Constants and guard words show that
 * something else than the plugin has written (docs/security.md).
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

#include "record/lifeline.h"
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
#define SHARED_NO_CALLS	    4u /* system calls are not recorded */
/* As shared_thread.tail: nothing is taken any more, and the thread does not wait for that. */
#define SHARED_LEFT_ALONE UINT64_MAX

/* The state of one thread's recording, between two blocks. */
struct shared_state {
	uint64_t first_guard; /* the recording's guard word, as is last_guard */
	struct ptah_model m;
	uint64_t instructions;
	uint64_t counts[KIND_MAX];
	uint64_t hash;	    /* path hash of the runs that are complete */
	uint64_t run_start; /* the current run is [run_start, next_ip) */
	/* While tracing: start of the block that runs now, which is not counted yet. */
	uint64_t next_ip;
	uint64_t lift; /* the thread's clock is instructions + lift */
	uint64_t lost; /* overflows reported because the recorder could not follow */
	uint64_t last_guard;
};

enum shared_thread_state {
	THREAD_FREE = 0,
	THREAD_TAKEN, /* being prepared */
	THREAD_ACTIVE,
	THREAD_ENDED,
};

/* What a system call is about to map or to protect; size 0: nothing that matters here. */
struct shared_mapping {
	uint64_t address, size, file_offset;
	uint32_t prot;
	uint32_t flags; /* mmap's, and its file */
	int32_t fd;
};

/*
 * Whether the thread or the recorder may use the thread's state. It changes hands only between
 * blocks.
 */
enum shared_park {
	PARK_RUNS = 0,
	PARK_PARKED,  /* in a system call, or waiting: the recorder may claim the state */
	PARK_CLAIMED, /* the recorder has claimed it */
};

struct shared_thread {
	_Atomic uint32_t state;
	_Atomic uint32_t park;
	uint64_t guard; /* the recording's guard word */
	int32_t pid, tid;
	/*
	 * tail: bytes of trace that the recorder has taken; it writes this for the plugin and never
	 * reads it. published: bytes that it may take.
	 */
	_Atomic uint64_t tail;
	_Atomic uint64_t published;
	/*
	 * Set while `live` is being changed. A thread that died at such a moment is finished from
	 * `checkpoint`, which is never older than `published`.
	 */
	volatile uint32_t busy;
	/* Every branch is reported to the processor, instead of only those that need it. */
	uint32_t general;
	bool paused;	   /* the value of the header's `paused` that the thread acts on */
	bool pausing;	   /* for the plugin: it pauses when the block that runs now has ended */
	bool timed;	   /* how much time has passed is reported to the processor too */
	uint64_t before;   /* time at which the last block began */
	uint64_t told;	   /* the time in the last PSB+, or less */
	uint64_t guessed;  /* the latest time that perf can have estimated for this thread */
	uint64_t psb_time; /* time for the PSB+ that is due; 0: none is due */
	const void *prev;  /* for the plugin: the block that runs now */
	void *output;	   /* for the plugin: struct thread_output */
	struct shared_mapping mapping; /* for the plugin */
	uint64_t args[6];	       /* for the plugin: of the system call that goes on, */
	bool logged;		       /* whose beginning the recording has */
	uint64_t maps;	/* for the plugin: map_time at the last return from a system call */
	uint64_t named; /* for the plugin: time at which the thread last changed its name */
	struct shared_state live;
	struct shared_state checkpoint;
};

/* An address filter. The addresses of a filter on a file are known once the file is mapped. */
struct shared_filter {
	uint32_t mode;		/* enum ptah_range_mode */
	char path[SHARED_PATH]; /* "": no file, `start` is an address */
	uint64_t start, size;
};

_Static_assert(sizeof(struct shared_thread) <= SHARED_THREAD_BYTES, "raise SHARED_THREAD_BYTES");

enum shared_message_type {
	MESSAGE_THREAD = 1, /* a thread began; value: its slot */
	MESSAGE_COMM,	    /* text: its new name */
	MESSAGE_MAP,	    /* struct perfdata_mapping; text: path */
	MESSAGE_CODE,	    /* address; bytes */
	/* From a child that begins; value: pid of its parent; address: tid of its parent. */
	MESSAGE_FORK,
	MESSAGE_EXEC, /* the process runs another program; text: its name */
	/* About to call execve for a program that cannot be recorded; text: which, and why. */
	MESSAGE_NATIVE,
	MESSAGE_NATIVE_FAILED, /* that execve failed */
	MESSAGE_NOTE,	       /* text */
	/*
	 * A signal ends the process. value: the signal; tid: the thread that it came to; address:
	 * the instruction at which the trace of this thread ends, if size is not 0.
	 */
	MESSAGE_FATAL,
	MESSAGE_CALL,  /* a system call begins or ends: an entry (record/call_entry.h) */
	MESSAGE_ENDED, /* the process exits. value: its status, of which the low 8 bits count */
};

/* Followed by `bytes` bytes of payload, and padding to a multiple of 8. */
struct shared_message {
	uint32_t type;
	uint32_t bytes;
	int32_t pid, tid;
	uint64_t tsc;
	uint64_t address, size, value;
};

struct shared_header {
	/* Up to `recorder`: constant from the start of the recording on. */
	uint32_t magic;
	uint32_t flags;	 /* SHARED_CLOCK_HOST, SHARED_NO_INHERIT */
	uint32_t policy; /* enum ptah_capture_policy */
	uint64_t buffer; /* bytes of a trace buffer */
	struct ptah_trace_config trace;
	bool long_tnt;
	bool mark_loops;
	uint32_t filter_count;
	struct shared_filter filters[SHARED_FILTERS];
	/* A random word. Where it stands and is no longer this, the program has written. */
	uint64_t guard;
	/* Paths for programs that execve starts: of QEMU, of the plugin and of this memory. */
	char qemu[SHARED_PATH], plugin[SHARED_PATH], memory[64];
	/* Address of the recorder's socket (handover.c), for processes that cannot open `memory`.
	 */
	char socket[16];
	uint32_t socket_size; /* 0: there is none */

	_Atomic int32_t recorder; /* pid of the recorder */
	uint32_t alive;		  /* lifeline.h: whether the recorder takes anything */
	_Atomic uint64_t clock;	  /* the latest time that any thread has published */
	/*
	 * What the recorder wants of all threads. A thread that is not parked looks at it when its
	 * output reaches `live.m.limit`, which the recorder sets to NULL to make that happen at the
	 * next block.
	 */
	_Atomic bool stop;   /* end their traces */
	_Atomic bool hold;   /* park until this is false again */
	_Atomic bool paused; /* do not trace */
	/* There were more than SHARED_THREADS threads at a time, and a note says so. */
	_Atomic bool crowded;
	/* SHARED_NO_INHERIT: a thread or child was left out, and a note says so */
	_Atomic bool left_out;
	/* A robust mutex: if a process is killed while it holds the lock, no message was added. */
	pthread_mutex_t message_lock;
	_Atomic uint64_t message_head;
	_Atomic uint64_t message_tail; /* written by the recorder, which never reads it */
};

/* The descriptors that the recorder passes to a process that asks for them. */
enum shared_descriptor {
	PASSED_MEMORY = 0,
	PASSED_PLUGIN, /* the plugin's file */
	PASSED_MAX
};

#define SHARED_HEADER_BYTES (32u << 10)

_Static_assert(sizeof(struct shared_header) <= SHARED_HEADER_BYTES, "raise SHARED_HEADER_BYTES");

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

/*
 * buffer: the header's value when the recording began. The recorder does not read it again, because
 * the program could change it.
 */
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

/* The number of bytes that are still in the processor: the first ones of the staging area. */
static inline uint64_t shared_staged(const struct ptah_model *m)
{
	return (uint64_t)(m->g.out - m->staging);
}

#endif
