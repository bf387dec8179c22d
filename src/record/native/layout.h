/* SPDX-License-Identifier: MIT */
/*
 * What the recorder and the runtime in the recorded program share: a memory file, mapped by both.
 * All processes of one user have the same, those of another user another one (users.h). The program
 * can write to it: the recorder reads each number once, checks it, uses its own copy, and keeps its
 * own positions. The runtime trusts it no more: what it could be harmed by comes in the handover.
 *
 *	struct native_header			NATIVE_HEADER_BYTES
 *	message ring (bytes, wrapping)		NATIVE_MESSAGES
 *	NATIVE_THREADS times a slot:
 *		struct native_thread		NATIVE_THREAD_BYTES
 *		the log of system calls, NATIVE_CALL_BYTES: call_entry.h
 *		native_slot_chunks() times a chunk of trace and one of the log of exits: each up to
 *		NATIVE_CHUNK bytes, and a guard page
 *
 * The file has no pages where nobody has written, so that what is not used takes addresses alone.
 * The first slots, which are taken first, have room for many chunks; where many threads run, each
 * of the others has two. The guard pages are mapped without access in the program alone, when their
 * chunks are used for the first time: a store that would run over the end of a chunk faults, and
 * the runtime goes on in the next chunk (ring.c). So no store needs a test.
 */
#ifndef PTAH_RECORD_NATIVE_LAYOUT_H
#define PTAH_RECORD_NATIVE_LAYOUT_H

#include "record/lifeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A limit. Tests build the recorder and its runtime once more with the small ones, so that all
 * programs reach them (tests/record/native/small.sh).
 */
#ifdef PTAH_NATIVE_SMALL
#define NATIVE_LIMIT(usual, small) (small)
#else
#define NATIVE_LIMIT(usual, small) (usual)
#endif

#define NATIVE_MAGIC	    UINT32_C(0x4e415450)
#define NATIVE_THREADS	    NATIVE_LIMIT(8192, 6)
#define NATIVE_ROOMY	    NATIVE_LIMIT(128, 3) /* so many slots have NATIVE_CHUNKS chunks */
#define NATIVE_FEW_CHUNKS   2			 /* and the others these */
#define NATIVE_MEMORIES	    NATIVE_LIMIT(8, 2)	 /* of a recording: for so many users */
#define NATIVE_SLOTS	    (NATIVE_MEMORIES * NATIVE_THREADS) /* of all memories */
#define NATIVE_HEADER_BYTES (64u << 10)
#define NATIVE_MESSAGES	    NATIVE_LIMIT(4u << 20, 16u << 10)
#define NATIVE_MESSAGE_MAX  NATIVE_LIMIT(64u << 10, 5u << 10)
#define NATIVE_THREAD_BYTES 4096
#define NATIVE_PAGE	    4096
#define NATIVE_CHUNK	    NATIVE_LIMIT(128u << 10, 4096u)
#define NATIVE_CHUNKS	    NATIVE_LIMIT(32, 2)
#define NATIVE_STRIDE	    (NATIVE_CHUNK + NATIVE_PAGE)
#define NATIVE_CALL_BYTES   NATIVE_LIMIT(256u << 10, 8u << 10)

/* native_header.flags */
#define NATIVE_TRUTH  1u /* every exit is also written to the second log */
#define NATIVE_STRICT 2u /* tests: what would let the program run on untraced ends it instead */
#define NATIVE_ALONE  4u /* children, and threads that begin later, are left out */
#define NATIVE_CALLS  8u /* system calls are logged */

#define NATIVE_STOPPED 2u /* native_thread.paused */

/* Of a chunk; a futex word. The runtime waits while the next chunk is FULL. */
enum native_chunk_state {
	CHUNK_FREE = 0,
	CHUNK_FULL
};

struct native_chunk {
	uint32_t state;	 /* enum native_chunk_state */
	uint32_t length; /* bytes that were written, <= chunk_bytes; whole packets, or whole words
			    of the log of exits; or NATIVE_PASSED_OVER */
};

#define NATIVE_PASSED_OVER UINT32_MAX /* nothing was written: the chunk has got no guard page */

enum native_thread_state {
	NATIVE_SLOT_FREE = 0,
	NATIVE_SLOT_ACTIVE,
	NATIVE_SLOT_ENDED
};

/* Index 0: packets; 1: the log of exits, uint32_t each: see MESSAGE_EXITS. */
enum {
	NATIVE_LOG_TRACE = 0,
	NATIVE_LOG_EXITS,
	NATIVE_LOGS
};

struct native_thread {
	uint32_t state; /* enum native_thread_state */
	int32_t pid, tid;
	/*
	 * Not 0: the thread has paused, or with NATIVE_STOPPED come into a stop range, for good.
	 * All that counts is in chunks that are FULL; what stands in its current chunks is
	 * discarded.
	 */
	uint32_t paused;
	/*
	 * Chunks are used in turn, n modulo native_slot_chunks(). current: the number n of the
	 * chunk that is being written. A thread that was killed has written it up to the last whole
	 * packet before its first zero bytes at the end: the runtime hands out chunks filled with
	 * zeros (PAD packets), and the recorder zeroes a chunk before it gives it back.
	 */
	uint64_t current[NATIVE_LOGS];
	/*
	 * Of the trace: number of a chunk * NATIVE_CHUNK + bytes of it, which will not change any
	 * more. Written before each system call of the program, in which the thread may wait.
	 */
	uint64_t settled;
	struct native_chunk chunks[NATIVE_LOGS][NATIVE_CHUNKS];
	uint64_t calls_head, calls_tail; /* of the log of system calls: call_entry.h */
};

enum native_message_type {
	/*
	 * A thread begins. value: its slot; address: its process's struct native_control; size: its
	 * base of GS.
	 */
	NATIVE_MESSAGE_THREAD = 1,
	NATIVE_MESSAGE_COMM, /* payload: the thread's new name */
	/*
	 * address, size: executable memory was mapped or became executable. The recorder reads
	 * /proc/PID/maps there and answers (native_header.answered) before the program uses it.
	 */
	NATIVE_MESSAGE_MAP,
	NATIVE_MESSAGE_CODE, /* address; payload: bytes that are in no file and will be executed */
	/*
	 * A process was made; sent by the child. value: its parent; address: RDTSC before that;
	 * payload: its name, if it may ask for it.
	 */
	NATIVE_MESSAGE_FORK,
	/*
	 * About to execve; the recorder seizes the process, answers, and injects at the stop. value:
	 * the filters of system calls that are known, and << 32 what they deny (enum native_need).
	 */
	NATIVE_MESSAGE_EXEC,
	NATIVE_MESSAGE_EXEC_FAILED,
	/*
	 * This program cannot be recorded, and nothing outside it has seen it run: payload: why,
	 * a sentence without a full stop. The process waits to be killed.
	 */
	NATIVE_MESSAGE_REFUSED,
	/* From here on the process runs untraced. address: where; payload: why. */
	NATIVE_MESSAGE_LEFT,
	NATIVE_MESSAGE_NOTE, /* payload: a remark for the user */
	/*
	 * With NATIVE_TRUTH: describes exits value, value + 1, ... of the log of exits. payload:
	 * struct native_exit and its blocks, one after the other.
	 */
	NATIVE_MESSAGE_EXITS,
	/* The first external effect has happened, or is about to: it is too late for REFUSED. */
	NATIVE_MESSAGE_COMMITTED,
	/* Ends by a signal. value: its number; address: the instruction, if size is not 0. */
	NATIVE_MESSAGE_FATAL,
	/* Exits. value: its status, of which the kernel takes the low 8 bits. */
	NATIVE_MESSAGE_ENDED,
	/*
	 * Has waited for a process that a signal ended. value: the signal; address: the process.
	 * One that the kernel killed could not say so itself.
	 */
	NATIVE_MESSAGE_REAPED,
	/*
	 * address, size: this mapping of a file is executable now; payload: struct native_mapped and
	 * the file's path. Nobody waits: the path leads to the file, which is older than the
	 * recording.
	 */
	NATIVE_MESSAGE_MAPPED,
	/* The process has become another user's: the recorder traces it for NATIVE_CALL_MOVE. */
	NATIVE_MESSAGE_USER,
};

/* Followed by `bytes` bytes of payload, and padding to a multiple of 8. */
struct native_message {
	uint32_t type;
	uint32_t bytes;
	int32_t pid, tid;
	uint64_t tsc; /* RDTSC */
	uint64_t address, size, value;
};

/* As /proc/PID/maps has it. protection, flags: of mmap(). */
struct native_mapped {
	uint64_t offset, inode;
	uint32_t major, minor, protection, flags;
};

/*
 * What ran when this exit was taken, from the head of its unit on. The instructions are not
 * described: the recorder decodes the blocks' bytes itself.
 */
struct native_exit {
	uint64_t blocks; /* number of struct native_block behind this, at least one */
};

/*
 * Straight code [start, end) all of which ran; its last instruction may be a branch. Its bytes
 * follow, and zeros up to a multiple of 8.
 */
struct native_block {
	uint64_t start, end;
};

/*
 * The most exits that are described in a memory. A process that gets another one goes on using
 * those of the one that it had.
 */
#define NATIVE_EXITS_MAX   (1u << 24)
#define NATIVE_BLOCK_MAX   1024 /* the most bytes of code in one block */
#define NATIVE_EXIT_BLOCKS 64	/* and the most blocks of an exit */

#define NATIVE_FILTERS	   4
#define NATIVE_FILTER_PATH 4096

/* An address range: struct ptah_record_filter. */
struct native_filter {
	uint64_t start, size;
	uint32_t mode; /* enum ptah_range_mode */
	uint32_t unused;
	char path[NATIVE_FILTER_PATH]; /* "": none, start is an address */
};

struct native_header {
	/*
	 * Constant from the start on: what the recorder wrote. Nobody goes by it, because programs
	 * can change it: the recorder has its own copy, and each runtime another one
	 * (native_handover.constants).
	 */
	uint32_t magic;
	uint32_t flags;
	uint64_t bytes; /* of the file */
	uint64_t guard; /* a random word */
	/* Trace options. */
	uint8_t no_retcomp; /* no return is written as a TNT bit */
	uint8_t tsc;	    /* TSC packets are written */
	uint32_t chunks;    /* of each log that are used where there is room: 2 to NATIVE_CHUNKS */
	uint32_t chunk_bytes; /* of each that are used: whole pages, up to NATIVE_CHUNK */
	uint64_t began;	      /* the recording, in nanoseconds, as files have it */
	int32_t recorder_pid; /* for people who debug: nothing depends on it */
	uint32_t filter_count;
	struct native_filter filters[NATIVE_FILTERS];

	/* Not 0: threads pause at their next head. Written by the recorder alone. */
	uint32_t paused;
	/* Not 0: a note says that something was left out (NATIVE_ALONE). */
	uint32_t left_out;

	/* lifeline.h: whether the recorder takes anything, so that somebody may wait for it. */
	uint32_t recorder_alive;
	/* Messages. The lock is a futex word: 0 free, 1 taken, 2 taken and waited for. */
	uint32_t message_lock;
	uint64_t message_head; /* written by programs */
	uint64_t message_tail; /* written by the recorder, which never reads it */
	/*
	 * A futex word: the low half of the position up to which the recorder has answered. Who has
	 * sent a MAP or an EXEC waits until its message is before it.
	 */
	uint32_t answered;
	/*
	 * Counted up with each message, each chunk that is FULL and each thread that has ENDED; the
	 * recorder may wait on it.
	 */
	/*
	 * So many slots, from the first one on, have been claimed by programs; and one below which
	 * none is known to be free. Both only save looking.
	 */
	uint32_t slots, first_free;
	/* The last number of an exit that was given out, from native_exits_from() on. */
	uint32_t exits;
	uint32_t message_event;
};

/* Of struct native_header: what is constant. */
#define NATIVE_CONSTANTS offsetof(struct native_header, paused)

/* Memory that is executable or shared, as /proc/PID/maps lists it. */
struct native_mapping {
	uint64_t start, end;
	uint64_t offset, inode;
	uint32_t device;    /* major << 20 | minor */
	uint8_t protection; /* PROT_READ and others */
	bool shared;
};

#define NATIVE_MAPPINGS 32

/*
 * Handover: what the recorder puts at the beginning of the stack of the runtime (inject.c), and
 * runtime/start.c finds there.
 */
struct native_handover {
	uint64_t shared;	   /* address at which the file is mapped */
	uint64_t blob, blob_bytes; /* where the runtime is, all of its mapping */
	uint64_t registers[16];	   /* of the program at its first instruction, as in struct insn */
	uint64_t rip, rflags, fs_base, gs_base;
	uint32_t slot; /* of the first thread */
	int32_t pid;
	bool committed; /* NATIVE_MESSAGE_COMMITTED has been sent */
	/* Filters of system calls that it begins with, and what they deny: enum native_need. */
	uint32_t filters, denied;
	bool names; /* paths lead the process and the recorder to the same files */
	/* A program that runs already: struct native_attached, with all of its threads. 0: none. */
	uint64_t attached;
	/*
	 * What is mapped at the beginning, because the program may be where there is no /proc, or may
	 * open no file. 0: there is more, or it runs already.
	 */
	uint32_t mapping_count;
	struct native_mapping mappings[NATIVE_MAPPINGS];
	struct native_header constants; /* what is constant in it */
};

/* What the runtime makes system calls for: runtime/own_calls.def. Bits, of what filters deny. */
enum native_need {
	NATIVE_NEEDS_ALWAYS = 1,
	NATIVE_NEEDS_ADVICE = 2,
	NATIVE_NEEDS_MAPS = 4,
	NATIVE_NEEDS_USER = 8,
	NATIVE_NEEDS_ENTRY = 16,
};

/*
 * A system call that no kernel has. The runtime makes it where it has to stop for the recorder,
 * which traces the process then and answers with the result; without a tracer it fails.
 */
#define NATIVE_CALL 0x5054

/* Its first argument. */
enum native_call {
	/* All of a program's threads can begin. Second argument: 0, or no memory. */
	NATIVE_CALL_READY = 1,
	/* This thread has ended its trace; second argument: its struct native_out. */
	NATIVE_CALL_OUT,
	/*
	 * The process has become another user's, and waits for another memory in the place of this
	 * one. The answer is its thread's slot there, or negative: it has to leave.
	 */
	NATIVE_CALL_MOVE,
};

/* Its result. */
enum native_answer {
	NATIVE_GO_ON = 1,
	/* All threads are out: the kernel is to have the program's handlers again. */
	NATIVE_RESTORE,
};

/* Results of system calls that were interrupted, as tracers see them: <linux/errno.h>. */
#define NATIVE_RESTART_SYS    512 /* is made again, unless a handler without SA_RESTART ran */
#define NATIVE_RESTART_NOINTR 513 /* is made again */
#define NATIVE_RESTART_NOHAND 514 /* is made again, unless a handler ran */
#define NATIVE_RESTART_BLOCK  516 /* likewise, by restart_syscall() */

struct native_rseq {	  /* as PTRACE_GET_RSEQ_CONFIGURATION has it */
	uint64_t address; /* 0: there is none */
	uint32_t size, signature;
};

/* A thread of a program that runs already. */
struct native_attached_thread {
	uint64_t registers[16], rip, rflags, mask;
	struct native_rseq rseq;
	int32_t tid;
	uint32_t slot;	      /* NATIVE_THREADS: none is free */
	uint32_t interrupted; /* NATIVE_RESTART_...: it stands before a call that was interrupted */
	uint32_t unused;
	uint64_t start; /* written by the runtime: argument of native_control.thread_entry;
				 where it leads is its base of GS */
};

#define NATIVE_ATTACHED_RANGES 256

struct native_attached {
	uint64_t bytes;
	uint32_t range_count, thread_count;
	struct {
		uint64_t start, end;
	} ranges[NATIVE_ATTACHED_RANGES];	 /* memory that is executable */
	struct native_attached_thread threads[]; /* the first one runs start() */
};

/*
 * In the process's memory: what the recorder needs to know in order to detach. Its address is in
 * NATIVE_MESSAGE_THREAD.
 */
struct native_control {
	uint64_t runtime;      /* what signals_stop() sends */
	uint64_t thread_entry; /* of a thread that runs already; RDI: its `start`, as is RSP */
	uint64_t held_entry;   /* of a thread that is held in a call of the program; RDI: GS base */
	uint64_t window;       /* behind the SYSCALL that calls of the program come from */
	uint64_t interrupted;  /* offset of context.interrupted, from the base of GS */
	uint64_t in_call;      /* offset of context.in_call, likewise */
	uint64_t leaving, left;	      /* addresses of uint32_t: enum native_leaving */
	uint64_t ranges, range_count; /* of the runtime's memory: pairs, and their uint32_t */
};

#define NATIVE_RANGES NATIVE_LIMIT(4096, 256) /* of the runtime's memory, at most */

enum native_leaving {
	NATIVE_STAYS = 0,
	NATIVE_LEAVES, /* one of its threads cannot go on */
	NATIVE_LET_GO, /* the recorder detaches: it restores what the threads cannot themselves */
};

/* siginfo.si_code of a SIGTRAP by which a thread is stopped; its address is native_control.runtime.
 */
#define NATIVE_STOP_CODE (-0x5054)

/* How a thread goes on natively: NATIVE_CALL_OUT. */
struct native_out {
	uint64_t registers[16], rip, rflags, mask;
};

_Static_assert(sizeof(struct native_header) <= NATIVE_HEADER_BYTES, "");
_Static_assert(sizeof(struct native_thread) <= NATIVE_THREAD_BYTES, "");

/* Offset of the log of system calls within its slot. */
#define NATIVE_CALLS_AT NATIVE_THREAD_BYTES

/* Of each log, that a thread in this slot uses in turn. chunks: native_header.chunks. */
static inline uint32_t native_slot_chunks(unsigned slot, uint32_t chunks)
{
	return slot % NATIVE_THREADS < NATIVE_ROOMY ? chunks : NATIVE_FEW_CHUNKS;
}

/* Offset of a log's chunk within its slot. index: below native_slot_chunks(). */
static inline uint64_t native_chunk_at(unsigned log, uint64_t index)
{
	return NATIVE_CALLS_AT + NATIVE_CALL_BYTES + (index * NATIVE_LOGS + log) * NATIVE_STRIDE;
}

#define NATIVE_ROOMY_BYTES native_chunk_at(0, NATIVE_CHUNKS)
#define NATIVE_SLOT_BYTES  native_chunk_at(0, NATIVE_FEW_CHUNKS)
#define NATIVE_LONE_BYTES  native_chunk_at(0, 1) /* of a thread whose logs nobody reads */

static inline uint64_t native_slot_at(unsigned slot)
{
	const uint64_t roomy = slot < NATIVE_ROOMY ? slot : NATIVE_ROOMY;

	return NATIVE_HEADER_BYTES + NATIVE_MESSAGES + roomy * NATIVE_ROOMY_BYTES +
	       (slot - roomy) * NATIVE_SLOT_BYTES;
}

/* The number of the slot that begins there. */
static inline unsigned native_slot_from(uint64_t at)
{
	const uint64_t few = native_slot_at(NATIVE_ROOMY);

	return at < few ? (unsigned)((at - native_slot_at(0)) / NATIVE_ROOMY_BYTES)
			: (unsigned)(NATIVE_ROOMY + (at - few) / NATIVE_SLOT_BYTES);
}

/* native_header.exits of the n-th memory, before any exit is described there. */
static inline uint32_t native_exits_from(unsigned memory)
{
	return memory * NATIVE_EXITS_MAX;
}

static inline uint64_t native_bytes(void)
{
	return native_slot_at(NATIVE_THREADS);
}

/* Where a slot of all memories is, which the recorder maps one behind the other. */
static inline uint64_t native_slot_of_all_at(unsigned slot)
{
	return slot / NATIVE_THREADS * native_bytes() + native_slot_at(slot % NATIVE_THREADS);
}

#endif
