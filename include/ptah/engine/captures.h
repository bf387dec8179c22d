/* SPDX-License-Identifier: MIT */
/*
 * A set of captures: one for each of several processors, all with the same
 * configuration, and controlled as one. Freestanding.
 *
 *	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
 *	capture = (struct ptah_capture_config){.size = sizeof(capture), .trace = &trace};
 *	config = (struct ptah_captures_config){.size = sizeof(config), .capture = &capture};
 *	if (ptah_captures_new(engine, &config, &set, &problem) < 0 ||
 *	    ptah_captures_start(set, &problem) < 0)
 *		log(problem.cpu, problem.reason);
 *	...
 *	ptah_captures_stop(set);
 *	for (cpu = ptah_captures_next(set, -1); cpu >= 0; cpu = ptah_captures_next(set, cpu))
 *		save(cpu, ptah_captures_get(set, (unsigned)cpu));
 *	ptah_captures_free(set);
 *
 * All or nothing. What acquires something or begins to trace (new, start, resume,
 * map, reconfigure, update) does so on all processors, or fails and takes back
 * what it has done on the others. What ends something (stop, pause, unmap, free)
 * does so wherever it can, and reports the first failure.
 *
 * Together. Start, resume, pause and stop set and clear TraceEn on all processors
 * at the same time as far as the port can (hal->run_on_all): the processors wait
 * for each other, for less than a millisecond with interrupts off, and then act.
 * The status has the time between the first and the last. Nothing but that time
 * depends on the waiting: a processor that comes too late acts when it comes.
 *
 * Threads. As for captures (engine.h): the set is controlled by one thread at a
 * time, and its captures are controlled by the set alone: ptah_capture_start(),
 * _stop(), _pause(), _resume() and _reconfigure() are not to be called on them,
 * and ptah_capture_free() refuses them. During ptah_capture_resize() of one of them
 * no function of the set may be called. Each capture's consumer (pieces, consume,
 * records) is one other thread, which may call ptah_captures_next() and
 * ptah_captures_get() too. ptah_capture_pause_here() and _resume_here() are
 * allowed.
 */
#ifndef PTAH_CAPTURES_H
#define PTAH_CAPTURES_H

#include <ptah/engine/engine.h>

PTAH_BEGIN_DECLS

struct ptah_captures;

/* The buffer of one processor's capture: `memory` and `memories` of struct ptah_capture_config. */
struct ptah_captures_memory {
	const struct ptah_hal_memory *blocks;
	size_t n;
};

struct ptah_captures_config {
	size_t size; /* sizeof(struct ptah_captures_config) */
	/*
	 * The configuration of each capture; copied. `cpu` is not used. With `paused`,
	 * ptah_captures_start() arms only, and ptah_captures_resume() begins.
	 */
	const struct ptah_capture_config *capture;
	/*
	 * The processors: bit n % 64 of word n / 64 is processor n; copied. NULL: all that
	 * are online, and those that come online later: ptah_captures_update().
	 */
	const uint64_t *mask;
	size_t words; /* of the mask */
	/*
	 * A processor of the mask may be offline. Its capture starts when it comes online; if
	 * it has not been online since the engine was created, ptah_captures_update() is
	 * needed then. Implied where there is no mask. Otherwise a processor that is offline
	 * is a failure of new and start, PTAH_E_OFFLINE; one that goes offline later never is.
	 */
	bool offline;
	/*
	 * NULL, or hal->cpus() pointers: the cookie of each processor's capture, in place of
	 * capture->cookie. The array is the caller's, and outlives the set.
	 */
	void *const *cookies;
	/*
	 * NULL, or hal->cpus() entries: memory of the caller's for each processor's capture. The
	 * array and the lists are the caller's, and outlive the set.
	 */
	const struct ptah_captures_memory *memory;
};

/* Which processor failed, and why. */
struct ptah_captures_problem {
	int cpu;	    /* -1: not because of a processor */
	const char *reason; /* a sentence, without its full stop; NULL: nothing failed */
	uint32_t msr;	    /* that raised #GP; 0: none */
	/* The field of the request, and what would be valid, where the failure is PTAH_E_INVAL. */
	struct ptah_trace_problem request;
};

/*
 * PASSIVE. Creates a capture for each processor of the mask; touches no PT
 * register. Fails as ptah_capture_new() does for one of the processors, and then
 * nothing remains allocated. PTAH_E_INVAL: also for an empty mask. *problem may be
 * NULL, here and below.
 */
int ptah_captures_new(struct ptah_engine *engine, const struct ptah_captures_config *config,
		      struct ptah_captures **set, struct ptah_captures_problem *problem);

/*
 * PASSIVE. Stops the set if it is started. PTAH_E_BUSY while a buffer or a page is mapped,
 * and then nothing has changed. NULL is fine.
 */
int ptah_captures_free(struct ptah_captures *set);

/*
 * PASSIVE. Starts all captures, in two steps: each processor is claimed and
 * checked, one after the other, as ptah_capture_start() does it but without
 * setting TraceEn; then TraceEn is set on all, together. PTAH_OK when the set is
 * started already. On failure none is started. If the first step failed nothing
 * was traced; if a register raised #GP in the second one (problem->msr) the other
 * processors were traced for a moment, and these bytes stay in their buffers. The
 * result is that of ptah_capture_start() on the processor that failed.
 */
int ptah_captures_start(struct ptah_captures *set, struct ptah_captures_problem *problem);

/*
 * PASSIVE. Afterwards all bytes are visible and the positions are exact. PTAH_OK
 * when it is stopped already. A failure is the port's, which does not reach a
 * processor that is online: call again.
 */
int ptah_captures_stop(struct ptah_captures *set);

/*
 * PASSIVE. Like stop and start, but the set keeps its processors. PTAH_E_INVAL
 * when it is not started. Resuming also continues captures that a stop range, an
 * error or a full buffer has stopped; when it fails, for a reason of
 * ptah_capture_start(), those that did not run before are paused.
 */
int ptah_captures_pause(struct ptah_captures *set);
int ptah_captures_resume(struct ptah_captures *set, struct ptah_captures_problem *problem);

/*
 * PASSIVE. Makes everything traced so far visible and the positions exact.
 * Tracing is off for a moment, on all processors at about the same time.
 */
int ptah_captures_flush(struct ptah_captures *set);

/*
 * PASSIVE. ptah_capture_resize() of each capture, and the size for processors that
 * come later. Memory for all is allocated first: PTAH_E_INVAL, PTAH_E_NOMEM and
 * PTAH_E_BUSY (one is mapped) change nothing. Then the buffers are exchanged one
 * after the other; what fails then (PTAH_E_NOSPACE, PTAH_E_OFFLINE) leaves that capture
 * its old buffer, *problem names the first, and the others have the new size.
 */
int ptah_captures_resize(struct ptah_captures *set, size_t buffer, size_t region,
			 struct ptah_captures_problem *problem);

/*
 * PASSIVE. Applies other options, filters or ranges, as
 * ptah_capture_reconfigure() does: first all processors are checked, then all are
 * changed. On failure all have the configuration that they had.
 */
int ptah_captures_reconfigure(struct ptah_captures *set, const struct ptah_trace_config *trace,
			      struct ptah_captures_problem *problem);

/*
 * PASSIVE. To be called after processors have come online (after
 * ptah_engine_cpu_online() on each). Creates captures for those that the set was
 * to have and that had never been online, and starts them if the set is started;
 * they are paused if it is paused. Those that went offline and came back need no
 * call. Returns how many captures were added; on failure none, and nothing has
 * changed for the others.
 */
int ptah_captures_update(struct ptah_captures *set, struct ptah_captures_problem *problem);

/*
 * Any but NMI. The set's processors in ascending order: the next one after `cpu`
 * that has a capture (-1: the first); PTAH_E_OFFLINE: there are no more. The
 * capture of a processor; NULL: none. It lives as long as the set.
 */
int ptah_captures_next(const struct ptah_captures *set, int cpu);
struct ptah_capture *ptah_captures_get(const struct ptah_captures *set, unsigned cpu);

/*
 * Status
 */

/* When TraceEn was changed on the processors, in TSC ticks, which must count alike on all (an
 * invariant TSC that no one has written to). */
struct ptah_captures_moment {
	uint64_t first, last; /* last - first is the skew */
	uint32_t cpus; /* of how many processors; those whose TSC cannot be read are not counted */
	bool together; /* all had met before; else some acted earlier than others could */
};

struct ptah_captures_status {
	size_t size;	       /* sizeof(struct ptah_captures_status), set by the caller */
	bool started, paused;  /* by the calls of this header */
	uint32_t cpus;	       /* that have a capture */
	uint32_t waiting;      /* of the mask, and have never been online */
	uint32_t in_state[16]; /* how many captures are in each enum ptah_capture_state */
	struct ptah_captures_moment began; /* at the last start, resume or update */
	struct ptah_captures_moment ended; /* at the last pause, or stop without one */

	/*
	 * The worst `error` of the captures: one by which trace is lost or wrong (DEVICE,
	 * INVAL), before one that prevents tracing (UNSUPPORTED, BUSY), before others. Its
	 * processor (-1: no error) and the register that raised #GP there.
	 */
	int error, error_cpu;
	uint32_t msr;

	/* Sums. */
	uint64_t position, readable, lost; /* readable: position - oldest */
	uint64_t buffer;
	uint64_t looks, starts, pmis, full, errors, partial, dropped_records;
};

/* PASSIVE. PTAH_E_INVAL: status->size. Each number is right by itself, as in ptah_capture_status().
 */
int ptah_captures_status(const struct ptah_captures *set, struct ptah_captures_status *status);

/*
 * PASSIVE. How much has been written on all processors, as ptah_capture_live() says
 * it of one: sums, and exact where all are. The processors are read one after the
 * other, and none is stopped.
 */
int ptah_captures_live(const struct ptah_captures *set, struct ptah_capture_live *live);

/*
 * Mappings
 */

struct ptah_captures_mapping {
	unsigned cpu;
	struct ptah_capture *capture;
	uint64_t address, size; /* of its buffer, for the owner */
	uint64_t page;		/* of its page; 0: not mapped */
};

/*
 * PASSIVE. Maps the buffer of each capture as ptah_capture_map() does. Fills in
 * one entry for each, in ascending order of processors, and returns how many.
 * PTAH_E_NOSPACE: there are more than n. A second call for the same owner returns the
 * addresses of the first. On failure none is mapped that was not before. A buffer that
 * ptah_captures_update() adds later is mapped by ptah_capture_map().
 */
int ptah_captures_map(struct ptah_captures *set, uint64_t owner, bool writable,
		      struct ptah_captures_mapping *mappings, size_t n,
		      struct ptah_captures_problem *problem);

/*
 * PASSIVE. Maps the page of each capture (capture_page.h) beside the buffers that
 * ptah_captures_map() has mapped for this owner, as ptah_capture_map_page() does, and
 * fills in `page` of the n entries that it returned. On failure no page is mapped and
 * the buffers still are; PTAH_E_BUSY: a capture has another consumer.
 */
int ptah_captures_map_pages(struct ptah_captures *set, uint64_t owner, bool consumer,
			    struct ptah_captures_mapping *mappings, size_t n,
			    struct ptah_captures_problem *problem);

/* PASSIVE. Removes all mappings of the set's buffers and pages that this owner has. PTAH_E_INVAL:
 * it has none. */
int ptah_captures_unmap(struct ptah_captures *set, uint64_t owner);

PTAH_END_DECLS

#endif
