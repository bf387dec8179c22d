/* SPDX-License-Identifier: MIT */
/*
 * What the files share that read a recording's records into a session: records.c goes through the
 * records; tasks.c handles those about processes and threads, turns.c context switches, pieces.c
 * trace; in the end stream_names.c finds out whose trace each stream is, and threads.c which
 * threads ran there.
 */
#ifndef PTAH_SESSION_RECORDS_H
#define PTAH_SESSION_RECORDS_H

#include "base/compiler.h"
#include "perfdata/format.h"
#include "session/session.h"

#include <ptah/trace_set.h>

/*
 * TSC packets lack the highest byte, which is not 0 after 278 days at 3 GHz: the times of records
 * leave it out, too.
 */
#define SESSION_TSC_MASK ((UINT64_C(1) << 56) - 1)

/* records.c */
/* Handles a record of a process, a thread or the kernel; tsc is its time. */
int session_take_record(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
/* Converts a time of perf's clock to the TSC; 0 when that is not possible. */
uint64_t session_tsc(const struct ptah_session *s, uint64_t time);
int session_note_format(struct ptah_session *s, const char *format, ...) PRINTF_LIKE(2, 3);

/* tasks.c. Each takes a record of its type; tsc is the record's time. */
int session_on_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_append_change(struct process *p, const struct change *change);
bool session_is_range(uint64_t address, uint64_t size);
int session_on_code(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_comm(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_fork(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_exit(struct ptah_session *s, const struct perfdata_record *r);
int session_on_begin(struct ptah_session *s, const struct perfdata_record *r);
/* The process or thread with this number; it is created if it is unknown. NULL: out of memory. */
struct process *session_process_of(struct ptah_session *s, int32_t pid);
struct thread *session_thread_of(struct ptah_session *s, int32_t pid, int32_t tid);

/* kernel.c: the kernel's mappings and changes of its code */
int session_on_kernel_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_ksymbol(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_bpf(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_poke(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);

/* turns.c */
int session_on_switch(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
/* The index of the CPU with this number; it is added if it is unknown. SESSION_NONE: out of memory.
 */
size_t session_cpu_of(struct ptah_session *s, int32_t number);
/* Handles ITRACE_START: tracing begins on a CPU while a thread runs there. */
int session_on_start(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);

/* Entries of a trace set: tasks.c, turns.c */
int session_on_set_thread(struct ptah_session *s, const struct ptah_trace_thread *thread);
int session_on_set_switch(struct ptah_session *s, const struct ptah_trace_switch *change);

/*
 * threads.c: lists the threads that ran on the CPU that the stream follows; if the stream is of one
 * process, those of that process.
 */
int session_list_runners(const struct ptah_session *s, struct stream *stream);

/* namespaces.c */
int session_on_namespaces(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
int session_on_cgroup(struct ptah_session *s, const struct perfdata_record *r);

/* pieces.c */
int session_on_truth(struct ptah_session *s, const struct perfdata_record *r);

/* Where the kernel ended a part of the trace: from an AUX record. */
struct cut {
	int32_t cpu, tid; /* -1: unknown */
	uint64_t offset;  /* as the recorder counts, of the first byte after it */
	uint64_t time;	  /* of the record, by perf's clock */
	bool full;	  /* because its buffer was full */
};

/*
 * cuts.c: divides the streams where their trace was stopped because the buffer was full, and notes
 * the times of all cuts (stream->limits, by perf's clock). To be called once, after all trace has
 * been added.
 */
int session_cut_streams(struct ptah_session *s, const struct cut *cuts, size_t count);

/* stream_names.c: takes from a record what it says of streams whose CPU and thread are unknown. */
void session_take_clue(struct ptah_session *s, const struct perfdata_record *r);

/*
 * stream_names.c: the stream of a thread gets the process and the name of the thread. The stream of
 * a CPU gets those of the recording's only process, if there is only one, and otherwise follows the
 * threads that ran there.
 */
int session_name_streams(struct ptah_session *s);

#endif
