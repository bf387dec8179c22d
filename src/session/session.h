/* SPDX-License-Identifier: MIT */
/* The session's inside, shared by its files. */
#ifndef PTAH_SESSION_SESSION_H
#define PTAH_SESSION_SESSION_H

#include "perfdata/reader.h"
#include "session/hash_table.h"

#include <ptah/session.h>

#define SESSION_NONE SIZE_MAX

/* The trace is used, and forgotten behind the reader, in pieces of at most this many bytes. */
#define SESSION_PIECE_MAX (UINT64_C(1) << 20)

/* A change of a process's memory. */
enum change_type {
	CHANGE_MAP,  /* a file is mapped */
	CHANGE_CODE, /* bytes that no file holds */
	CHANGE_EXEC, /* execve: everything is gone */
};

struct change {
	uint8_t type;
	uint64_t tsc;
	uint64_t address, size, file_offset;
	const char *path;     /* MAP: below symfs, as recorded; equal paths are the same pointer */
	const uint8_t *bytes; /* CODE */
	struct perfdata_build_id id;
	size_t execs_at; /* how many of its process's changes the last EXEC leaves behind */
};

/*
 * A process: what it had in memory, in the order of time. It begins with the
 * first `inherited` changes of its parent, which are not copied: a recording of
 * many forks stays as small as its file.
 */
struct process {
	int32_t pid;
	size_t parent, inherited; /* parent: index, SESSION_NONE */
	uint64_t born;		  /* its fork */
	size_t program;		  /* that it runs; SESSION_NONE: nobody has asked yet */
	size_t exec;		  /* changes up to its last execve; 0: there was none */
	size_t older;		  /* that had the number before; SESSION_NONE */
	struct change *changes;
	size_t count, capacity;
	bool has_maps;
	/* For look-ups: the changes by address, and the highest address up to each. */
	size_t *by_address;
	uint64_t *reach;
	size_t indexed;
};

struct thread {
	int32_t pid, tid;
	char comm[16];
	size_t first, last; /* its begins; SESSION_NONE */
	bool begun;	    /* the last one is of who has the number now */
};

/* What a process was between two execve. */
struct program {
	size_t process;
	uint64_t until; /* 0: the end */
	/* Which of its process's own changes are its: [first, last). */
	size_t first, last; /* first 0: also what was inherited; last SESSION_NONE: all there are */
	char comm[16];	    /* of its first thread, the last one */
};

/*
 * A thread's trace begins: once, or again where execve puts another program in
 * its place, or its number is used again. Its streams are in this order.
 */
struct begin {
	size_t program;
	char comm[16];
	size_t next; /* of the same number; SESSION_NONE */
};

/* From `tsc` on this thread runs on a CPU; who was there before left at `from`. */
struct turn {
	uint64_t from, tsc;
	int32_t pid, tid; /* 0: the CPU is idle; -1: somebody that is not known */
	size_t process;	  /* SESSION_NONE: none */
};

struct cpu {
	struct turn *turns; /* in the order of time */
	size_t count, capacity;
	bool comes;    /* the last one is named by who left, and comes at its own time */
	bool has_left; /* the last one is gone, and who comes is not named */
	uint64_t left; /* when */
};

/* A piece of a stream, contiguous in the file. A large file has many. */
struct piece {
	const uint8_t *bytes;
	uint64_t offset : 63; /* in the stream, as it is fed: to where the next one begins */
	uint64_t gap : 1;     /* trace is missing before it */
};

struct stream {
	uint32_t index;
	struct ptah_stream_info info;
	size_t process;	    /* SESSION_NONE: not known */
	size_t first, last; /* of the process's own changes those that it saw, as a program has */
	size_t like;	    /* the first stream that ran over just the same memory, or itself */
	size_t cpu;	    /* whose threads' turns are followed; SESSION_NONE: they are not */
	struct piece *pieces;
	size_t count, capacity;
	uint64_t expected;	 /* trace_offset of the next piece */
	const uint8_t *snapshot; /* the last record's trace */
	uint64_t snapshot_size;
};

/* Where a piece ends, in the stream, and its bytes. */
static inline uint64_t piece_end(const struct stream *stream, size_t i)
{
	return i + 1 < stream->count ? stream->pieces[i + 1].offset : stream->info.bytes;
}

static inline uint64_t piece_size(const struct stream *stream, size_t i)
{
	return piece_end(stream, i) - stream->pieces[i].offset;
}

struct ptah_session {
	struct ptah_session_config config;
	char *symfs;
	struct perfdata_file *file; /* NULL: raw */
	struct ptah_image *image;   /* raw: what it ran over */
	void *raw;		    /* raw: the mapped packets */
	uint64_t raw_size;
	struct ptah_flow_config flow; /* what streams are decoded with */
	unsigned flow_set;	      /* how often that was changed */
	bool has_clock;
	struct perfdata_clock clock;
	struct stream *streams;
	size_t stream_count, stream_capacity;
	struct process *processes;
	size_t process_count, process_capacity;
	struct thread *threads;
	size_t thread_count, thread_capacity;
	struct program *programs;
	size_t program_count, program_capacity;
	struct begin *begins;
	size_t begin_count, begin_capacity;
	struct cpu *cpus;
	size_t cpu_count, cpu_capacity;
	struct table streams_by_index, processes_by_pid, threads_by_tid, cpus_by_number;
	struct strings paths;
	char **notes;
	size_t note_count, note_capacity;
};

/* Grows an array to hold one more. NULL when memory is out; the array is then as before. */
void *session_grow(void *array, size_t count, size_t *capacity, size_t size);

int session_note(struct ptah_session *session, const char *text, size_t n);

/* records.c: fills the session from its file. */
int session_read_records(struct ptah_session *session, const char *path, struct ptah_message *why);

/* pieces.c: `size` bytes of trace for the stream `index`; `offset` is where its recorder places
 * them. */
int session_add_trace(struct ptah_session *session, uint32_t index, int32_t tid, int32_t cpu,
		      uint64_t offset, const uint8_t *bytes, uint64_t size);

/*
 * Forgets the pieces before `next` (see perfdata_forget), so that decoding takes
 * the memory of a few pieces and not of the whole trace.
 */
void session_forget_behind(const struct stream *stream, size_t next);

/* memory.c: what was mapped when. */

/*
 * All changes that a process saw, in the order of time: *changes is for the
 * caller to free. waits[i] tells that changes[i] replaces something and must
 * be applied at its time; the others can be there from the beginning.
 */
int session_memory(const struct ptah_session *session, size_t process,
		   const struct change ***changes, bool **waits, size_t *count);

/* The same of what a stream ran over: a program, where its process was several. */
int session_stream_memory(const struct ptah_session *session, const struct stream *stream,
			  const struct change ***changes, bool **waits, size_t *count);

int session_index_maps(struct ptah_session *session);

/* Finds streams whose memory is the same and does not change while they run: sets `like`. */
int session_find_alike(struct ptah_session *session);

/*
 * filters.c: the address filter that the recording was made with, at the
 * addresses where the process had its files. All off when one is not known.
 */
int session_filters(const struct ptah_session *session, size_t process,
		    struct ptah_range ranges[PTAH_RANGES]);

/* files.c: the binaries. */

/* The path to open for a recorded path. Free it. */
char *session_path(const struct ptah_session *session, const char *path);

/* True for what is a file, and no "[vdso]", "//anon", ... */
bool session_is_file(const char *path);

/* The kernel's code, where it was copied beside the recording. */
int session_add_kernel(const struct ptah_session *session, struct ptah_image *image);

/* Are the files that the streams ran over there, and unchanged? */
int session_check_files(const struct ptah_session *session, struct ptah_message *why);

#endif
