/* SPDX-License-Identifier: MIT */
/*
 * What timelines are written from: the beginnings and ends of calls, and what happened between
 * them.
 *
 * The events of one thread come in order, with times that never decrease; those of several threads
 * come one thread after the other, or interleaved. Calls nest: each end is that of the call that
 * began last and is still open, and every call that began also ends. Writers keep no events, so
 * that their memory does not depend on the length of the trace; a format that lists the events of
 * each thread in several places has them in a file meanwhile (spill.h).
 */
#ifndef PTAH_EXPORT_TIMELINE_H
#define PTAH_EXPORT_TIMELINE_H

#include "output/out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline_thread {
	size_t number; /* in the order of appearance, from 0 on without gaps */
	/* Threads that the kernel does not distinguish (idle ones, unknown ones) have made-up
	 * numbers from TIMELINE_MADE_UP on, which are those of no thread. */
	int32_t pid, tid;
	const char *comm; /* "" if unknown */
};

#define TIMELINE_MADE_UP (1 << 30)

/* A function. Each has one struct, which lives as long as the writer. */
struct timeline_function {
	uint32_t id; /* in the order of appearance, from 1 on without gaps */
	/* Valid UTF-8 of any length; the same text is the same string in all functions. */
	const char *name; /* as it is shown */
	const char *object;
	bool kernel;	  /* it is in the upper half of the address space */
	const char *file; /* of the source, where it is declared; NULL: not known */
	uint32_t line;
};

enum timeline_kind {
	TIMELINE_BEGIN,
	TIMELINE_END,
	TIMELINE_INSTANT
};

/* Something to show of an event. */
struct timeline_detail {
	/* Valid UTF-8; it lives as long as the writer, which may keep it and compare addresses. */
	const char *name;
	const char *text; /* NULL: the number */
	uint64_t number;
};

#define TIMELINE_DETAILS 12

struct timeline_event {
	enum timeline_kind kind;
	const struct timeline_thread *thread;
	uint64_t at;				  /* on the clock of struct timeline_recording */
	const struct timeline_function *function; /* of calls */
	const char *name;			  /* of instants: it lives as long as the writer */
	/* Of calls: the details say what is missing or not certain, and not only how the call began
	 * or ended. A format that has no details of calls says it by an event of its own. */
	bool noted;
	const struct timeline_detail *details; /* at most TIMELINE_DETAILS */
	size_t detail_count;
};

/*
 * Perfetto's interface forgets the beginnings, but not the ends, of slices below the 512th, so that
 * the slices above them end too early. Instants need a level, too.
 */
#define TIMELINE_PERFETTO_DEPTH 500

struct timeline_recording {
	const char *command; /* that was recorded, untrusted; NULL: not known */
	/* `at` counts instructions of each thread, and not nanoseconds of perf's clock. */
	bool instructions;
	/* What the nanoseconds are (ptah_session_times().text); NULL: `at` is no time. */
	const char *times;
};

struct timeline_format {
	/* Readers lose track of calls that are nested deeper: they are left out. 0: no limit. */
	uint64_t max_depth;
	/* Makes a writer to `out`. All functions return 0 or an error. */
	int (*begin)(struct out *out, const struct timeline_recording *recording, void **writer);
	/* Before the first event of a thread, and when its name has changed. */
	int (*thread)(void *writer, const struct timeline_thread *thread);
	int (*event)(void *writer, const struct timeline_event *event);
	int (*end)(void *writer); /* no event follows */
	void (*free)(void *writer);
};

#endif
