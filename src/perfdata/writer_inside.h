/* SPDX-License-Identifier: MIT */
/*
 * What the writer's files share: writer.c opens, writes and closes the output, writer_records.c
 * builds records, writer_calls.c those of system calls, writer_header.c writes what precedes and follows them.
 */
#ifndef PTAH_PERFDATA_WRITER_INSIDE_H
#define PTAH_PERFDATA_WRITER_INSIDE_H

#include "perfdata/byte_buffer.h"
#include "perfdata/build_id.h"
#include "perfdata/format.h"
#include "perfdata/message.h"
#include "perfdata/writer.h"

#define MAX_FILES  10000 /* mapped files whose build ids are read; the list is searched */
#define MAX_DUMPS  4096	 /* jitdumps of which the writer keeps the paths */
#define MARKS	   4
#define MAX_RECORD 65528 /* a record's size is a u16, and here a multiple of 8 */
#define MAX_CODE   32768 /* bytes of code in one record */

/* A mapped file. Its build id is read once, and listed in the header. */
struct written_file {
	struct written_file *next;
	bool kernel; /* the kernel, or a module of it */
	struct perfdata_build_id id;
	char path[];
};

/* A jitdump that a process has mapped. */
struct written_dump {
	struct written_dump *next;
	int32_t pid;
	char path[];
};

/* A place between two records. */
struct written_mark {
	uint64_t size, trace_size; /* of the data section before it */
};

/* How many bytes of a stream were written, padding included. */
struct written_stream {
	uint32_t index;
	uint64_t size;
};

/* A copy of an event. */
struct written_event {
	char *name;
	uint64_t *ids;
	size_t id_count, id_room; /* used, and in the file in all */
	uint8_t attr[PERFDATA_ATTR_SIZE];
};

struct perfdata_writer {
	int fd;
	int status;
	bool regular, renamed;
	bool lent;  /* to a descriptor of the caller's */
	bool piped; /* the layout of a recording through a pipe: nothing is changed later */
	char *path, *old_path;
	char *copies, *old_copies; /* their folders of copies (jit_folder.h) */
	struct perfdata_clock clock;
	uint64_t size;	     /* bytes of the data section, written or buffered */
	uint64_t trace_size; /* bytes of trace among them, without padding */
	uint64_t round_end;  /* `size` after the last mark of a round */
	bool round_full;     /* something was written in the round that this mark ended */
	/*
	 * Where the file can be cut when no more can be written: after the last record that is
	 * complete in the file, or some way before that, which makes room for the features.
	 * before[i] is at least 4 KB << 4 * i away, and next[i] will become before[i].
	 */
	struct written_mark last, next[MARKS], before[MARKS];
	struct perfdata_buffer pending;
	struct written_file *files;
	size_t file_count;
	uint8_t *processes; /* a bit for each number; NULL: none yet */
	struct written_dump *dumps;
	size_t dump_count;
	struct written_stream *streams;
	size_t stream_count;
	size_t truth_count; /* how many of them have a truth */
	char **command;
	bool bare_command;
	struct ptah_message why;
	size_t left_out; /* records that do not fit, and of which no note says how many */
	uint32_t notes;
	struct written_event *events;
	size_t event_count;
	uint64_t event_id;		/* event id in the records that the writer builds */
	struct perfdata_buffer tracing; /* the formats of tracepoints */
	uint64_t call_ids;    /* the first one of the events of system calls; 0: there are none */
	uint64_t data_offset; /* after the header, the ids and the attributes */
	uint32_t pmu_type;
	char *pmus, *cpuid, *osrelease;
	bool branch_stacks;
	bool indexed; /* the header is to list the AUXTRACE records */
	struct perfdata_buffer index;
	const int64_t *late;
	int (*take)(void *context, const struct perfdata_piece *piece);
	void *context;
	bool (*given_up)(void);
};

/* writer.c */
/*
 * Makes the writer fail with this status, if it has not failed before. Returns the writer's status.
 */
int perfdata_writer_fail(struct perfdata_writer *w, int status);
int perfdata_writer_no_memory(struct perfdata_writer *w);
/*
 * A record does not fit into the format, which is no failure: it is left out. A note says so, of
 * the first one with what it is, and of all at the end. Returns the writer's status.
 */
int perfdata_leave_out(struct perfdata_writer *w, const char *what);
/* As perfdata_writer_fail(), with errno; what: what could not be done ("write", "create"). */
int perfdata_writer_fail_system(struct perfdata_writer *w, const char *what);
/* Writes all n bytes; through a pipe at its end, else at `offset`. False with errno on failure. */
bool perfdata_write_at(const struct perfdata_writer *w, const void *bytes, size_t n,
		       uint64_t offset);
/* Writes what is buffered, which ends with a whole record. w->size already counts it. */
int perfdata_write_pending(struct perfdata_writer *w);
/* The same for a record whose end is not buffered yet; the last whole record ends at *complete. */
int perfdata_write_part(struct perfdata_writer *w, const struct written_mark *complete);
/* Begins a record of `size` bytes, which is a multiple of 8. */
void perfdata_begin(struct perfdata_writer *w, uint32_t type, uint16_t misc, size_t size);
/* Passes a piece to the callback. If that returns a negative status, the writer fails with it. */
int perfdata_hand_over(struct perfdata_writer *w, const struct perfdata_piece *piece);
/* Ends the record, which is complete in w->pending. */
int perfdata_end(struct perfdata_writer *w);
/* Appends n bytes and zeros up to a multiple of 8. */
void perfdata_put_padded(struct perfdata_writer *w, const void *bytes, size_t n);

/* writer_records.c: by perf's clock. */
uint64_t perfdata_time_of(const struct perfdata_writer *w, uint64_t tsc);

/* writer_processes.c */
/* Notes the process of a record, and the file of a mapping if it is a jitdump. */
void perfdata_note_process(struct perfdata_writer *w, int32_t pid);
void perfdata_note_mapping(struct perfdata_writer *w, int32_t pid, const char *path);
/* The same for a record as the kernel wrote it. */
void perfdata_note_raw(struct perfdata_writer *w, const uint8_t *record, size_t size);
void perfdata_free_processes(struct perfdata_writer *w);

/* writer_calls.c */
#define CALL_EVENTS 3
/* The attribute of the i-th event of system calls: PERFDATA_ATTR_SIZE zeros; its name. */
const char *perfdata_build_call_attr(uint8_t *attr, unsigned i);
/* The formats of these events, as the feature TRACING_DATA has them. */
void perfdata_put_tracing_data(struct perfdata_buffer *b);

/* writer_header.c */
/* Copies what the header will contain about the events. False: out of memory. */
bool perfdata_copy_events(struct perfdata_writer *w, const struct perfdata_writer_config *config);
/* The header, all ids, then the attributes with their sections of ids. */
int perfdata_write_header(struct perfdata_writer *w);
/* AUXTRACE_INFO, the first record. */
int perfdata_write_info(struct perfdata_writer *w, const struct perfdata_writer_config *config);
/*
 * Writes the features after the data: a table of sections in the order of their bits, then the
 * sections.
 */
int perfdata_write_features(struct perfdata_writer *w);
/* The features that are known at the beginning, as records of a pipe (HEADER_FEATURE). */
int perfdata_write_piped_features(struct perfdata_writer *w);

/*
 * Appends a HEADER_BUILD_ID: a record of a pipe, and an entry in the header's list. Returns its
 * size.
 */
size_t perfdata_put_build_id(struct perfdata_buffer *b, const struct written_file *f);

#endif
