/* SPDX-License-Identifier: MIT */
/* The session's inside, shared by its files. */
#ifndef PTAH_SESSION_SESSION_H
#define PTAH_SESSION_SESSION_H

#include "perfdata/reader.h"

#include <ptah/session.h>

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
	const char *path;     /* MAP: below symfs, as recorded */
	const uint8_t *bytes; /* CODE */
	struct perfdata_build_id id;
};

/* A process: what it had in memory, in the order of time. */
struct process {
	int32_t pid;
	struct change *changes;
	size_t count, capacity;
};

struct thread_name {
	int32_t pid, tid;
	char comm[16];
};

/* A piece of a stream, contiguous in the file. */
struct piece {
	const uint8_t *bytes;
	uint64_t offset, size; /* in the stream, as it is fed */
};

struct stream {
	uint32_t index;
	struct ptah_stream_info info;
	struct piece *pieces;
	size_t count, capacity;
	uint64_t expected; /* trace_offset of the next piece */
};

struct ptah_session {
	struct ptah_session_config config;
	char *symfs;
	struct perfdata_file *file; /* NULL: raw */
	struct ptah_image *image;   /* raw: what it ran over */
	void *raw;		    /* raw: the mapped packets */
	uint64_t raw_size;
	bool has_clock;
	struct perfdata_clock clock;
	struct stream *streams;
	size_t stream_count;
	struct process *processes;
	size_t process_count;
	struct thread_name *threads;
	size_t thread_count;
	char **strings; /* paths and notes, owned */
	size_t string_count;
	char **notes; /* borrowed from strings */
	size_t note_count;
};

/* The process of a stream; NULL when nothing is known. */
const struct process *session_process(const struct ptah_session *session, int32_t pid);

/* The path to open for a recorded path. Free it. */
char *session_path(const struct ptah_session *session, const char *path);

/* True for what the kernel names but no file is: "[vdso]", "//anon", ... */
bool session_is_file(const char *path);

#endif
