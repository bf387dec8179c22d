/* SPDX-License-Identifier: MIT */
/*
 * The open perf events of a recording and the rings that they write to; all system calls of them
 * are made here.
 *
 * There are two events for each thread on each processor: one of the trace, one of the records
 * around it. The events of a processor share a ring. Where a thread is followed over all
 * processors, its events share a ring.
 */
#ifndef PTAH_RECORD_PERF_EVENT_EVENTS_H
#define PTAH_RECORD_PERF_EVENT_EVENTS_H

#include "record/perf_event/pmu.h"
#include "record/perf_event/ring.h"
#include "record/perf_event/triggers.h"

struct event {
	int fd;		  /* -1: closed by events_close_cpu() */
	int32_t tid, cpu; /* -1: any */
	uint64_t id;
	size_t ring;
};

struct event_ring {
	struct ring ring;
	void *map, *aux; /* the whole areas that mmap() returned */
	size_t map_size, aux_size;
	int32_t tid, cpu;
	bool traced; /* trace was taken from it */
	/*
	 * A processor that goes offline and comes back gets another ring in the place of the first.
	 * Its trace continues the same stream, at this offset.
	 */
	uint64_t base;
	uint64_t end; /* of the stream so far */
};

struct events {
	struct pmu_layout layout;
	bool has_trace; /* false: only records */
	struct perf_event_attr trace_attr, sideband_attr;
	/* Events in the group of each one that traces, which pause and resume it. */
	struct perf_event_attr trigger_attrs[PTAH_RECORD_TRIGGERS];
	size_t trigger_count;
	int *triggers; /* descriptors of traces[i]: from triggers[i * trigger_count] on; -1: none */
	struct event *traces, *sidebands;
	size_t trace_count, sideband_count;
	struct event_ring *rings;
	size_t ring_count, ring_room;
	const char *less[8]; /* kinds of records that this kernel does not support */
	size_t less_count;
	uint64_t files; /* the soft limit of open files before it was raised; 0: it was not */
};

/* What is to be recorded: these threads on these processors. */
struct event_targets {
	const int32_t *tids; /* none: everything that runs on the processors */
	size_t tid_count;
	const int32_t *cpus;
	size_t cpu_count;
	size_t late_cpus; /* so many more may come online: events_open_cpu() */
	/*
	 * Each thread was named by the user, so that it is an error if one has ended; else those
	 * that have ended are left out.
	 */
	bool strict;
};

/* Bytes of each ring of records and each trace buffer. */
struct event_sizes {
	uint64_t data, aux;
};

/*
 * Opens and maps everything; the events are not switched on yet. On failure the caller still calls
 * events_close(), and *why is what the system refused. The soft limit of open files is raised, if
 * it is too low, until the events are closed.
 */
enum ptah_record_problem events_open(struct events *e, const struct event_targets *targets,
				     const struct event_sizes *sizes, const char *filters,
				     struct ptah_message *why);
void events_close(struct events *e);

/*
 * A recording of everything that runs on processors calls this, where traces[i], sidebands[i] and
 * rings[i] are those of one processor: it opens them for a processor that came online, in the place
 * that it had before, or else after the others. The events are not switched on yet. Afterwards
 * *place is that i. On failure everything is as before.
 */
enum ptah_record_problem events_open_cpu(struct events *e, int32_t cpu,
					 const struct event_sizes *sizes, const char *filters,
					 size_t *place, struct ptah_message *why);

/* Closes the events and the ring of a processor that went offline. Its place remains. */
void events_close_cpu(struct events *e, size_t place);
/* Switches its records on, and with `trace` its trace. */
bool events_start_cpu(const struct events *e, size_t place, bool trace);
bool events_cpu_is_open(const struct events *e, size_t place);

/* Switches the trace, or the records, on or off. False with errno on failure. */
bool events_trace(const struct events *e, bool on);
bool events_sideband(const struct events *e, bool on);

/* Switches the trace of one ring on again after the kernel stopped it. */
void events_resume_ring(const struct events *e, size_t ring);

/* How TSC is converted to perf's time, as the kernel reports it. False: it does not report it. */
bool events_clock(const struct events *e, uint16_t *shift, uint32_t *mult, uint64_t *zero);

/* Turns the error of a failed perf_event_open() into a problem and a sentence. */
enum ptah_record_problem events_refused(int error, const struct perf_event_attr *attr, int32_t tid,
					int32_t cpu, struct ptah_message *why);

#endif
