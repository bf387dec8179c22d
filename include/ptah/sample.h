/* SPDX-License-Identifier: MIT */
/*
 * Samples: what a recording has of other events beside Intel PT.
 *
 * `perf record -e intel_pt//u -e sched:sched_switch -e page-faults` records samples of each event,
 * and recorders of Ptah write the system calls of a program as samples of raw_syscalls:sys_enter and
 * raw_syscalls:sys_exit. A session that was opened for them
 * (ptah_session_config.samples) knows them in the order of time:
 *
 *	for (i = 0; i < ptah_session_samples(session); i++) {
 *		ptah_session_sample(session, i, &sample);
 *		for (k = 0; ptah_sample_field(session, &sample, k, &field) >= 0; k++)
 *			use(field.name, field.number);
 *	}
 *
 * The fields of a tracepoint are those that the recording describes. Names and text come from the
 * recording, so that they may contain any character.
 *
 * The place of a sample in the path of its thread is known by its time: it lies before the first
 * item that is later. Where items have bounds in place of a time (ptah_session_time_bounds()), the
 * place has them, too. A system call ends where tracing begins again, with the same time.
 */
#ifndef PTAH_SAMPLE_H
#define PTAH_SAMPLE_H

#include <ptah/session.h>

PTAH_BEGIN_DECLS

/* An event of a recording. */
struct ptah_sample_event {
	size_t size;	  /* sizeof(struct ptah_sample_event) */
	const char *name; /* "sched:sched_switch"; lives as long as the session */
	uint32_t type;	  /* as in struct perf_event_attr */
	uint64_t config;  /* the same */
	size_t fields;	  /* how many its samples have; 0: it is no tracepoint, or not described */
	uint64_t samples; /* how many there are */
};

/* Events of a recording, numbered from 0 on; that of Intel PT is one of them. */
PTAH_API size_t ptah_session_events(const struct ptah_session *session);
PTAH_API int ptah_session_event(const struct ptah_session *session, size_t i,
				struct ptah_sample_event *event);

enum ptah_sample_kind {
	PTAH_SAMPLE_EVENT,
	/* Context switches of a thread: it runs from here on, or does not run any longer. */
	PTAH_SAMPLE_SWITCH_IN,
	PTAH_SAMPLE_SWITCH_OUT,	      /* it waits */
	PTAH_SAMPLE_SWITCH_PREEMPTED, /* it could run, but another thread does */
	PTAH_SAMPLE_KIND_MAX
};

struct ptah_sample {
	size_t size;		      /* sizeof(struct ptah_sample) */
	uint8_t kind;		      /* enum ptah_sample_kind */
	uint32_t event;		      /* its number; of context switches UINT32_MAX */
	uint64_t time;		      /* nanoseconds of perf's clock; 0: not known */
	uint64_t tsc;		      /* the same as items have it; 0: not known */
	int32_t pid, tid, cpu;	      /* where it was taken; -1: not known */
	uint64_t ip, address, period; /* 0 where the event does not record them */
	const uint8_t *raw; /* what a tracepoint has recorded, NULL: nothing. Lives as long as the
			       session */
	size_t raw_size;
};

/* How many samples and context switches of threads there are, and the i-th in the order of time. */
PTAH_API size_t ptah_session_samples(const struct ptah_session *session);
PTAH_API int ptah_session_sample(const struct ptah_session *session, size_t i,
				 struct ptah_sample *sample);

/*
 * The first sample of a thread, as a number for ptah_session_sample(); and the one of the same
 * thread after the i-th sample. SIZE_MAX: there is none.
 */
PTAH_API size_t ptah_session_thread_sample(const struct ptah_session *session, int32_t tid);
PTAH_API size_t ptah_session_next_sample(const struct ptah_session *session, size_t i);

enum ptah_field_kind {
	PTAH_FIELD_UNSIGNED,
	PTAH_FIELD_SIGNED,
	PTAH_FIELD_TEXT,  /* bytes, without a NUL */
	PTAH_FIELD_ARRAY, /* numbers of `element` bytes each */
	PTAH_FIELD_KIND_MAX
};

struct ptah_sample_field {
	size_t size; /* sizeof(struct ptah_sample_field) */
	const char *name;
	uint8_t kind;	      /* enum ptah_field_kind */
	uint64_t number;      /* of a number; one with a sign is extended to 64 bits */
	const uint8_t *bytes; /* of text and arrays; they live as long as the session */
	size_t count;	      /* of these bytes */
	size_t element;
};

/*
 * The i-th field of a sample, without those that all tracepoints have (common_type and so on).
 * PTAH_E_MISSING: there are no more.
 */
PTAH_API int ptah_sample_field(const struct ptah_session *session, const struct ptah_sample *sample,
			       size_t i, struct ptah_sample_field *field);

/* The field of this name. PTAH_E_MISSING: there is none. */
PTAH_API int ptah_sample_find_field(const struct ptah_session *session,
				    const struct ptah_sample *sample, const char *name,
				    struct ptah_sample_field *field);

PTAH_END_DECLS

#endif
