/* SPDX-License-Identifier: MIT */
/*
 * The events of a recording, opened, and the rings they write to: the system
 * calls. One event of the trace and one of the records around it for each
 * thread on each processor; those of a processor share a ring, and so do those
 * of a thread where there is no processor.
 */
#ifndef PTAH_RECORD_PERF_EVENT_EVENTS_H
#define PTAH_RECORD_PERF_EVENT_EVENTS_H

#include "record/perf_event/pmu.h"
#include "record/perf_event/ring.h"

struct event {
	int fd;
	int32_t tid, cpu; /* -1: any */
	uint64_t id;
	size_t ring;
};

struct event_ring {
	struct ring ring;
	void *map, *aux; /* as mmap() gave them */
	size_t map_size, aux_size;
	int32_t tid, cpu;
	bool traced; /* something was */
};

struct events {
	struct pmu_layout layout;
	bool has_trace; /* false: the records alone */
	struct perf_event_attr trace_attr, sideband_attr;
	struct event *traces, *sidebands;
	size_t trace_count, sideband_count;
	struct event_ring *rings;
	size_t ring_count;
	const char *less[8]; /* what this kernel cannot tell */
	size_t less_count;
	uint64_t files; /* the soft limit of open files that was raised; 0: it was not */
};

/* What is to be recorded: threads, on processors. */
struct event_targets {
	const int32_t *tids; /* none: whatever runs on the processors */
	size_t tid_count;
	const int32_t *cpus;
	size_t cpu_count;
	bool strict; /* every one of the threads was asked for; else those that have ended are
			left out */
};

/* Bytes of each ring of records and each trace buffer. */
struct event_sizes {
	uint64_t data, aux;
};

/*
 * Opens and maps everything; nothing runs yet. On failure what is open stays to
 * be closed, and *why says what the system refused. Where this process may have
 * more open files than it has asked for, and needs them, its soft limit is raised
 * until the events are closed.
 */
enum ptah_record_problem events_open(struct events *e, const struct event_targets *targets,
				     const struct event_sizes *sizes, const char *filters,
				     struct ptah_message *why);
void events_close(struct events *e);

/* Switches the trace, or the records, on or off. False: errno says why. */
bool events_trace(const struct events *e, bool on);
bool events_sideband(const struct events *e, bool on);

/* Switches the trace of one ring on again after the kernel stopped it. */
void events_resume_ring(const struct events *e, size_t ring);

/* How TSC becomes perf's time, as the kernel tells it. False: it does not. */
bool events_clock(const struct events *e, uint16_t *shift, uint32_t *mult, uint64_t *zero);

/* A failed perf_event_open(), as a problem and a sentence. */
enum ptah_record_problem events_refused(int error, const struct perf_event_attr *attr, int32_t tid,
					int32_t cpu, struct ptah_message *why);

#endif
