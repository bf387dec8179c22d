/* SPDX-License-Identifier: MIT */
/*
 * Sets of captures: one on each of several processors, created, started, stopped and mapped as one.
 *
 * A set is built on captures. They are created with `paused`, so that ptah_capture_start() claims a
 * processor and checks the tables but does not trace. What is to happen on all processors at the
 * same time, setting and clearing TraceEn, is done at a meeting: hal->run_on_all() runs meet_here()
 * on the processors, each of them arrives, waits until all have arrived, and acts. The wait has an
 * end (SPINS). Nothing depends on it but the skew, so a port that runs the work on one processor
 * after the other, or on some twice, or leaves some out, costs time and not correctness.
 *
 * Who may read what, when:
 *
 * - What the calling thread has written (the captures, the members' `turn`) is visible to
 *   meet_here(): `turn` is set to CALLED with release and taken with acquire.
 * - `arrived` and `open` pass no data. The last processor to arrive opens the meeting with release,
 *   the others see that with acquire, so no processor's writes to PT registers are moved before
 *   its arrival; WRMSR waits for the loads before it in any case.
 * - What a processor has found out (`status`, `time`) it writes before it sets `turn` to DONE, with
 *   release; the calling thread reads it after it has read DONE, with acquire. Thus it does not
 *   matter which order the port's own messages guarantee.
 * - A processor acts once for each call: it changes `turn` from CALLED to TAKEN by one atomic
 *   instruction. One that comes after the calling thread has taken its turn away (an interrupt
 *   that was lost and arrives late) does nothing.
 *
 * Nothing is allocated in the meeting, and no lock is taken: all of it is in the set.
 */
#include <ptah/engine/captures.h>

#include "engine/internal.h"

/* 0.2 ms, measured on an AMD EPYC; with the 140 cycles that Intel documents for PAUSE on Skylake,
 * at 3 GHz, 0.4 ms. */
#define SPINS 8192u

_Static_assert(PTAH_CAPTURE_STATE_MAX <=
		   sizeof(((struct ptah_captures_status *)0)->in_state) / sizeof(uint32_t),
	       "a count for each state");

/* member.turn */
enum turn {
	TURN_NONE,
	TURN_CALLED,
	TURN_TAKEN,
	TURN_DONE
};

/* meeting.open */
enum open {
	OPEN_NOT,  /* wait */
	OPEN_MET,  /* all have arrived */
	OPEN_LATE, /* act without waiting */
};

/* What a processor does at a meeting. PINNED. */
typedef int act(struct ptah_capture *c, struct engine_cpu *cpu, unsigned number);

struct meeting {
	act *act;
	unsigned expected;
	atomic_uint arrived, open;
};

struct member {
	_Atomic(struct ptah_capture *) capture; /* NULL: none, or none yet */
	_Atomic(struct ptah_capture *) shown;	/* the same, for consumers: see show_members() */
	bool wanted;				/* in the mask */
	bool call;				/* takes part in what happens now */
	atomic_uint turn;			/* enum turn */
	int status;
	uint64_t time; /* TSC when TraceEn was changed; 0: it was not, or is not known */
};

struct ptah_captures {
	struct ptah_engine *engine;
	struct ptah_captures *next; /* under hal->lock */
	struct ptah_hal_memory memory;
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	void *const *cookies;
	const struct ptah_captures_memory *lent;
	bool offline, arm_only;
	bool started, paused;
	struct ptah_captures_moment began, ended;
	struct meeting meeting;
	uint64_t *called; /* the mask for run_on_all() */
	struct member members[];
};

/* The members */

int ptah_captures_next(const struct ptah_captures *set, int cpu)
{
	unsigned n;

	if (!set || cpu < -1)
		return PTAH_E_INVAL;
	for (n = (unsigned)cpu + 1; n < set->engine->cpus; n++) {
		if (atomic_load_explicit(&set->members[n].shown, memory_order_acquire))
			return (int)n;
	}
	return PTAH_E_OFFLINE;
}

struct ptah_capture *ptah_captures_get(const struct ptah_captures *set, unsigned cpu)
{
	if (!set || cpu >= set->engine->cpus)
		return NULL;
	return atomic_load_explicit(&set->members[cpu].shown, memory_order_acquire);
}

static struct ptah_capture *capture_of(const struct member *m)
{
	return atomic_load_explicit(&m->capture, memory_order_relaxed);
}

/* The next member at or after *n that takes part, if `called`, or that has a capture. */
static NOINLINE struct member *next_member(struct ptah_captures *set, unsigned *n, bool called)
{
	for (; *n < set->engine->cpus; ++*n) {
		struct member *m = &set->members[*n];

		if (capture_of(m) && (m->call || !called))
			return m;
	}
	return NULL;
}

/* Failures */

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
	    {PTAH_E_NOMEM, "out of memory"},
	    {PTAH_E_INVAL, "the tables in memory are not what they were: overwritten"},
	    {PTAH_E_PORT, "the port broke a rule of hal.h"},
	    {PTAH_E_BUSY, "another capture is started on this processor"},
	    {PTAH_E_NOSPACE, "the buffer is full: consume something"},
	    {PTAH_E_LIMIT, "too many mappings"},
	    {PTAH_E_DEVICE, "the processor reports an error of its trace output"},
	    {PTAH_E_OFFLINE, "the processor is offline, or does not exist"},
	};
	unsigned n;

	for (n = 0; n < ARRAY_SIZE(reasons); n++) {
		if (reasons[n].status == status)
			return reasons[n].reason;
	}
	return "not supported";
}

static void no_problem(struct ptah_captures_problem *problem)
{
	if (problem)
		*problem = (struct ptah_captures_problem){.cpu = -1};
}

/* Returns `status`, with the processor and, if the caller knows better than the status alone, the
 * reason. */
static int report(struct ptah_captures_problem *problem, int cpu, int status, const char *reason)
{
	if (problem) {
		problem->cpu = cpu;
		problem->reason = reason ? reason : reason_of(status);
	}
	return status;
}

static int report_capture(struct ptah_captures_problem *problem, unsigned n,
			  const struct ptah_capture *c, int status)
{
	if (problem && status == PTAH_E_UNSUPPORTED)
		problem->msr = c->msr;
	if (status == PTAH_E_UNSUPPORTED)
		return report(problem, (int)n, status,
			      c->msr ? "a register raised #GP"
				     : "in VMX operation, and IA32_VMX_MISC[14] is 0");
	return report(problem, (int)n, status, NULL);
}

/* The meeting */

static void open_meeting(struct meeting *meeting, unsigned how)
{
	unsigned not = OPEN_NOT;

	/* Only the first opens it, so that MET and LATE are never mistaken for each other. */
	atomic_compare_exchange_strong_explicit(&meeting->open, &not, how, memory_order_acq_rel,
						memory_order_relaxed);
}

static void arrive(struct meeting *meeting)
{
	unsigned n;

	if (atomic_fetch_add_explicit(&meeting->arrived, 1, memory_order_acq_rel) + 1 ==
	    meeting->expected)
		open_meeting(meeting, OPEN_MET);
	for (n = 0; n < SPINS; n++) {
		if (atomic_load_explicit(&meeting->open, memory_order_acquire) != OPEN_NOT)
			return;
		SPIN_PAUSE();
	}
	/* Somebody does not come; the others shall not wait as long once more. */
	open_meeting(meeting, OPEN_LATE);
}

/* PINNED, on any processor. */
static void meet_here(void *argument)
{
	struct ptah_captures *set = argument;
	unsigned number, called = TURN_CALLED;
	struct ptah_capture *c;
	struct engine_cpu *cpu;
	struct member *m;

	cpu = engine_here(set->engine, &number);
	if (!cpu)
		return;
	m = &set->members[number];
	if (!atomic_compare_exchange_strong_explicit(&m->turn, &called, TURN_TAKEN,
						     memory_order_acquire, memory_order_relaxed))
		return;
	c = capture_of(m);
	arrive(&set->meeting);
	/* It is about to come online, and starts the capture itself: ptah_engine_cpu_online(). */
	if (atomic_load(&c->holder) != (int)number) {
		atomic_store_explicit(&m->turn, TURN_NONE, memory_order_release);
		return;
	}
	atomic_store_explicit(&c->turned, 0, memory_order_relaxed);
	m->status = set->meeting.act(c, cpu, number);
	m->time = atomic_load_explicit(&c->turned, memory_order_relaxed);
	atomic_store_explicit(&m->turn, TURN_DONE, memory_order_release);
}

static int resume_here(struct ptah_capture *c, struct engine_cpu *cpu, unsigned number)
{
	int status = ptah_capture_resume_here(c);

	(void)number;
	return status < 0 ? status : engine_outcome(c, cpu);
}

static int pause_here(struct ptah_capture *c, struct engine_cpu *cpu, unsigned number)
{
	(void)cpu, (void)number;
	return ptah_capture_pause_here(c);
}

static int look_here(struct ptah_capture *c, struct engine_cpu *cpu, unsigned number)
{
	if (atomic_load(&cpu->target) != c)
		return PTAH_E_INVAL;
	engine_note(cpu);
	engine_serve(c->engine, cpu, number);
	return PTAH_OK;
}

/* Prepares a meeting of those that take part, and calls them. Returns how many there are. */
static unsigned call_members(struct ptah_captures *set, act *what)
{
	struct meeting *meeting = &set->meeting;
	struct member *m;
	unsigned n, called = 0;

	memset(set->called, 0, (set->engine->cpus + 63) / 64 * sizeof(*set->called));
	for (n = 0; (m = next_member(set, &n, true)) != NULL; n++, called++)
		set->called[n / 64] |= UINT64_C(1) << n % 64;
	meeting->act = what;
	meeting->expected = called;
	atomic_store(&meeting->arrived, 0);
	/* One after the other, nobody can wait for the next. */
	atomic_store(&meeting->open,
		     set->engine->hal->run_on_all || called == 1 ? OPEN_NOT : OPEN_LATE);
	for (n = 0; (m = next_member(set, &n, true)) != NULL; n++) {
		m->status = PTAH_E_OFFLINE;
		m->time = 0;
		atomic_store_explicit(&m->turn, TURN_CALLED, memory_order_release);
	}
	return called;
}

static void note_time(struct ptah_captures_moment *moment, uint64_t time)
{
	if (!time)
		return;
	if (!moment->cpus || time < moment->first)
		moment->first = time;
	if (!moment->cpus || time > moment->last)
		moment->last = time;
	moment->cpus++;
}

/*
 * Runs `what` on the processors of all members that take part. Afterwards member.status is its
 * result, or PTAH_E_OFFLINE where it did not run because the processor is offline; and *moment is
 * when TraceEn was changed, if it was.
 */
static void together(struct ptah_captures *set, act *what, struct ptah_captures_moment *moment)
{
	const struct ptah_hal *hal = set->engine->hal;
	struct meeting *meeting = &set->meeting;
	unsigned n, called = call_members(set, what);
	struct ptah_captures_moment now = {0};
	struct member *m;

	if (hal->run_on_all && called > 1)
		hal->run_on_all(set->engine->port, set->called, meet_here, set);
	if (called > 1)
		open_meeting(meeting, OPEN_LATE);
	for (n = 0; (m = next_member(set, &n, true)) != NULL; n++) {
		unsigned untaken = TURN_CALLED;

		if (atomic_load_explicit(&m->turn, memory_order_acquire) == TURN_CALLED)
			hal->run_on(set->engine->port, n, meet_here, set);
		/* If the interrupt arrives after all, it does nothing. */
		atomic_compare_exchange_strong(&m->turn, &untaken, TURN_NONE);
		if (atomic_load_explicit(&m->turn, memory_order_acquire) == TURN_DONE)
			note_time(&now, m->time);
	}
	now.together = called && atomic_load(&meeting->open) == OPEN_MET;
	/* A stop of a set that is paused changes TraceEn nowhere. */
	if (now.cpus || !moment->cpus)
		*moment = now;
}

static bool acted(const struct member *m)
{
	return atomic_load(&m->turn) == TURN_DONE;
}

/* Those take part whose captures a processor holds. The others are changed from here. */
static void call_holders(struct ptah_captures *set)
{
	struct member *m;
	unsigned n;

	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++)
		m->call = atomic_load(&capture_of(m)->holder) >= 0;
}

/* Has `what` done together where a processor holds a capture; then `alone` for each other capture,
 * and where that failed. Returns the first failure. */
static int do_all(struct ptah_captures *set, act *what, int (*alone)(struct ptah_capture *c),
		  struct ptah_captures_moment *moment)
{
	int status = PTAH_OK, one;
	struct member *m;
	unsigned n;

	call_holders(set);
	together(set, what, moment);
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		if (m->call && acted(m) && m->status == PTAH_OK)
			continue;
		one = alone(capture_of(m));
		if (status == PTAH_OK)
			status = one;
	}
	return status;
}

/* Starting and stopping */

/* A capture_work. Prepares a start: what can be found out before TraceEn is set. */
static int prepare(struct ptah_capture *c, struct engine_cpu *cpu, void *argument)
{
	int status = capture_arm(c);

	(void)argument;
	if (status < 0 || !cpu || cpu->loaded)
		return status;
	status = atomic_load(&cpu->blocked) & BLOCKED_VMX ? PTAH_E_UNSUPPORTED
							  : hardware_may_load(c, cpu);
	if (status < 0) {
		atomic_store(&c->error, status);
		hardware_log_refusal(c, status);
	}
	return status;
}

static int prepare_member(struct member *m, unsigned n, struct ptah_captures_problem *problem)
{
	struct ptah_capture *c = capture_of(m);
	int status = capture_at_holder(c, prepare, NULL);

	if (status == PTAH_E_BUSY)
		return report(problem, (int)n, status,
			      "another tracer is at work: TraceEn is set already");
	return status < 0 ? report_capture(problem, n, c, status) : PTAH_OK;
}

/* Claims the member's processor. */
static int claim(const struct ptah_captures *set, struct member *m, unsigned n,
		 struct ptah_captures_problem *problem)
{
	struct ptah_capture *c = capture_of(m);
	int status = ptah_capture_start(c);

	if (status == PTAH_E_OFFLINE && set->offline)
		return PTAH_OK;
	if (status < 0)
		return report_capture(problem, n, c, status);
	return prepare_member(m, n, problem);
}

/* Begins tracing on all that take part. `offline`: a processor may be offline, and then begins when
 * it comes online. */
static int begin(struct ptah_captures *set, bool offline, struct ptah_captures_problem *problem)
{
	struct member *m;
	int status;
	unsigned n;

	together(set, resume_here, &set->began);
	for (n = 0; (m = next_member(set, &n, true)) != NULL; n++) {
		status = m->status;
		if (!acted(m) && offline)
			status = ptah_capture_resume(capture_of(m));
		if (status < 0)
			return report_capture(problem, n, capture_of(m), status);
	}
	return PTAH_OK;
}

/* Returns the first failure: then that processor still holds its capture, and may trace. */
static int halt(struct ptah_captures *set)
{
	int status = PTAH_OK, one;
	struct member *m;
	unsigned n;

	call_holders(set);
	together(set, pause_here, &set->ended);
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		one = ptah_capture_stop(capture_of(m));
		if (status == PTAH_OK)
			status = one;
	}
	return status;
}

static bool any_held(struct ptah_captures *set)
{
	unsigned n = 0;

	call_holders(set);
	return next_member(set, &n, true) != NULL;
}

/* Claims the processors of those that take part, and begins tracing if the set is not to be
 * paused. On failure they are stopped again. */
static int start_called(struct ptah_captures *set, bool paused,
			struct ptah_captures_problem *problem)
{
	int status = PTAH_OK;
	struct member *m;
	unsigned n;

	for (n = 0; status == PTAH_OK && (m = next_member(set, &n, true)) != NULL; n++)
		status = claim(set, m, n, problem);
	if (status == PTAH_OK && !paused)
		status = begin(set, set->offline, problem);
	for (n = 0; status < 0 && (m = next_member(set, &n, true)) != NULL; n++)
		ptah_capture_stop(capture_of(m));
	return status;
}

static void call_all(struct ptah_captures *set)
{
	struct member *m;
	unsigned n;

	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++)
		m->call = true;
}

int ptah_captures_start(struct ptah_captures *set, struct ptah_captures_problem *problem)
{
	int status;

	no_problem(problem);
	if (!set)
		return PTAH_E_INVAL;
	if (set->started)
		return PTAH_OK;
	call_all(set);
	status = start_called(set, set->arm_only, problem);
	set->started = status == PTAH_OK;
	set->paused = set->started && set->arm_only;
	return status;
}

int ptah_captures_stop(struct ptah_captures *set)
{
	bool started;

	if (!set)
		return PTAH_E_INVAL;
	started = set->started;
	set->started = set->paused = false;
	/* Held without being started: a stop that has failed, which this call repeats. */
	return started || any_held(set) ? halt(set) : PTAH_OK;
}

/* A function of this file: the address of a public one would be in a global offset table. */
static int pause_one(struct ptah_capture *c)
{
	return ptah_capture_pause(c);
}

int ptah_captures_pause(struct ptah_captures *set)
{
	if (!set || !set->started)
		return PTAH_E_INVAL;
	set->paused = true;
	return do_all(set, pause_here, pause_one, &set->ended);
}

int ptah_captures_resume(struct ptah_captures *set, struct ptah_captures_problem *problem)
{
	int status = PTAH_OK;
	struct member *m;
	unsigned n;

	no_problem(problem);
	if (!set || !set->started)
		return PTAH_E_INVAL;
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		m->call = !capture_is_running(capture_of(m));
		/* Those that something else has stopped are paused first, so that none begins
		 * before the others. */
		if (m->call)
			ptah_capture_pause(capture_of(m));
	}
	for (n = 0; status == PTAH_OK && (m = next_member(set, &n, true)) != NULL; n++)
		status = prepare_member(m, n, problem);
	if (status == PTAH_OK)
		status = begin(set, true, problem);
	for (n = 0; status < 0 && (m = next_member(set, &n, true)) != NULL; n++)
		ptah_capture_pause(capture_of(m));
	if (status == PTAH_OK)
		set->paused = false;
	return status;
}

static int flush_one(struct ptah_capture *c)
{
	return ptah_capture_flush(c, NULL);
}

int ptah_captures_flush(struct ptah_captures *set)
{
	struct ptah_captures_moment moment = {0};

	return set ? do_all(set, look_here, flush_one, &moment) : PTAH_E_INVAL;
}

/* A buffer for each member, in a block that the caller releases; on failure there is none. */
static int prepare_buffers(struct ptah_captures *set, size_t buffer, size_t region,
			   struct ptah_hal_memory *list, struct ptah_captures_problem *problem)
{
	struct ptah_trace_problem *request = problem ? &problem->request : NULL;
	struct buffer *buffers;
	struct member *m;
	unsigned n, made;
	int status;

	status = buffer_alloc(set->engine->hal, set->engine->port, NOBODY, PTAH_MEMORY_ENGINE,
			      set->engine->cpus * sizeof(*buffers), list);
	if (status < 0)
		return status;
	buffers = list->address;
	for (n = 0; status == PTAH_OK && (m = next_member(set, &n, false)) != NULL; n++) {
		status = resize_prepare(capture_of(m), buffer, region, &buffers[n], request);
		if (status < 0)
			break;
	}
	if (status == PTAH_OK)
		return PTAH_OK;
	for (made = 0; (m = next_member(set, &made, false)) != NULL && made < n; made++)
		buffer_unmake(set->engine, &buffers[made]);
	set->engine->hal->release(set->engine->port, list);
	return report(problem, (int)n, status, request ? request->reason : NULL);
}

int ptah_captures_resize(struct ptah_captures *set, size_t buffer, size_t region,
			 struct ptah_captures_problem *problem)
{
	struct ptah_trace_problem *request = problem ? &problem->request : NULL;
	struct ptah_hal_memory list;
	struct buffer *buffers;
	struct member *m;
	int status, first = PTAH_OK;
	unsigned n;

	no_problem(problem);
	if (!set)
		return PTAH_E_INVAL;
	status = prepare_buffers(set, buffer, region, &list, problem);
	if (status < 0)
		return status;
	buffers = list.address;
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		status = resize_finish(capture_of(m), &buffers[n], first ? NULL : request);
		if (status < 0 && first == PTAH_OK)
			first = report(problem, (int)n, status, request ? request->reason : NULL);
	}
	set->engine->hal->release(set->engine->port, &list);
	if (first == PTAH_OK) { /* processors that come later get the same */
		set->config.buffer = buffer;
		set->config.region = region;
	}
	return first;
}

int ptah_captures_reconfigure(struct ptah_captures *set, const struct ptah_trace_config *trace,
			      struct ptah_captures_problem *problem)
{
	struct ptah_trace_problem *request = problem ? &problem->request : NULL;
	int status = PTAH_OK;
	struct member *m;
	unsigned n;

	no_problem(problem);
	if (!set || !trace || trace->size < sizeof(*trace))
		return PTAH_E_INVAL;
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		status = buffer_check_trace(set->engine, (int)n, false, trace, request);
		if (status < 0)
			return report(problem, (int)n, status, request ? request->reason : NULL);
	}
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		status = ptah_capture_reconfigure(capture_of(m), trace, NULL);
		if (status < 0)
			break;
	}
	if (status == PTAH_OK) {
		set->trace = *trace;
		return PTAH_OK;
	}
	report(problem, (int)n, status, NULL);
	while (n--) {
		if (capture_of(&set->members[n]))
			ptah_capture_reconfigure(capture_of(&set->members[n]), &set->trace, NULL);
	}
	return status;
}

/* Creating and freeing */

static void nothing(void *argument)
{
	(void)argument;
}

static bool is_online(const struct ptah_engine *engine, unsigned n)
{
	return engine->hal->run_on(engine->port, n, nothing, NULL) >= 0;
}

static int add_member(struct ptah_captures *set, unsigned n, struct ptah_captures_problem *problem)
{
	struct ptah_trace_problem *request = problem ? &problem->request : NULL;
	struct member *m = &set->members[n];
	const struct ptah_caps *caps;
	struct ptah_capture *c;
	int status;

	set->config.cpu = (int)n;
	if (set->cookies)
		set->config.cookie = set->cookies[n];
	if (set->lent) {
		set->config.memory = set->lent[n].blocks;
		set->config.memories = set->lent[n].n;
		if (!set->config.memory || !set->config.memories) {
			status = buffer_refuse(request, "memory", "this processor has none",
					       PTAH_PROBLEM_NEEDS, 0, 0);
			return report(problem, (int)n, status, "this processor has no memory");
		}
	}
	status = ptah_capture_new(set->engine, &set->config, &c, request);
	if (status < 0) {
		caps = ptah_engine_caps(set->engine, n);
		if (request && request->reason)
			return report(problem, (int)n, status, request->reason);
		if (status == PTAH_E_UNSUPPORTED && caps && caps->obstacle)
			return report(problem, (int)n, status, ptah_caps_advice(caps->obstacle));
		return report(problem, (int)n, status, NULL);
	}
	c->set = set;
	m->call = true;
	atomic_store_explicit(&m->capture, c, memory_order_relaxed);
	return PTAH_OK;
}

/*
 * The set's consumers may use the new captures. Only now, because a capture that was created is
 * freed again if another one fails. Whoever sees the pointer sees the capture.
 */
static void show_members(struct ptah_captures *set)
{
	struct member *m;
	unsigned n;

	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++)
		atomic_store_explicit(&m->shown, capture_of(m), memory_order_release);
}

static void remove_member(struct member *m)
{
	struct ptah_capture *c = capture_of(m);

	atomic_store(&m->capture, NULL);
	m->call = false;
	c->set = NULL;
	ptah_capture_free(c);
}

/* Creates what is missing, and marks it as taking part. Returns how many; on failure none. */
static int add_members(struct ptah_captures *set, struct ptah_captures_problem *problem)
{
	int status = PTAH_OK, added = 0;
	struct member *m;
	unsigned n;

	for (n = 0; n < set->engine->cpus; n++)
		set->members[n].call = false;
	for (n = 0; status == PTAH_OK && n < set->engine->cpus; n++) {
		bool known = ptah_engine_caps(set->engine, n) != NULL;

		m = &set->members[n];
		if (!m->wanted || capture_of(m) || (set->offline && !known))
			continue;
		if (!known || (!set->offline && !is_online(set->engine, n)))
			status = report(problem, (int)n, PTAH_E_OFFLINE, NULL);
		else
			status = add_member(set, n, problem);
		added += status == PTAH_OK;
	}
	for (n = 0; status < 0 && (m = next_member(set, &n, true)) != NULL; n++)
		remove_member(m);
	return status < 0 ? status : added;
}

static bool in_mask(const struct ptah_captures_config *config, size_t n)
{
	return !config->mask || (n / 64 < config->words && config->mask[n / 64] >> n % 64 & 1);
}

static int check_mask(const struct ptah_engine *engine, const struct ptah_captures_config *config,
		      struct ptah_captures_problem *problem)
{
	bool any = false;
	size_t n;

	for (n = 0; n < engine->cpus && !any; n++)
		any = in_mask(config, n);
	if (!any)
		return report(problem, -1, PTAH_E_INVAL, "there is no processor in the mask");
	for (n = engine->cpus; config->mask && n / 64 < config->words; n++) {
		if (in_mask(config, n))
			return report(problem, (int)n, PTAH_E_OFFLINE, NULL);
	}
	return PTAH_OK;
}

static int allocate_set(struct ptah_engine *engine, const struct ptah_captures_config *config,
			struct ptah_captures **set)
{
	size_t members = engine->cpus * sizeof(struct member);
	struct ptah_hal_memory memory;
	struct ptah_captures *s;
	unsigned n;
	int status = buffer_alloc(
	    engine->hal, engine->port, NOBODY, PTAH_MEMORY_ENGINE,
	    sizeof(*s) + members + (engine->cpus + 63) / 64 * sizeof(uint64_t), &memory);

	if (status < 0)
		return status;
	s = memory.address;
	memset(s, 0, sizeof(*s) + members);
	s->engine = engine;
	s->memory = memory;
	s->config = *config->capture;
	s->trace = *config->capture->trace;
	s->config.trace = &s->trace;
	s->config.paused = true;
	s->arm_only = config->capture->paused;
	s->cookies = config->cookies;
	s->lent = config->memory;
	s->offline = config->offline || !config->mask;
	s->called = (uint64_t *)(void *)((uint8_t *)(s + 1) + members);
	for (n = 0; n < engine->cpus; n++)
		s->members[n].wanted = in_mask(config, n);
	*set = s;
	return PTAH_OK;
}

static void release_set(struct ptah_captures *set)
{
	struct ptah_hal_memory memory = set->memory;

	set->engine->hal->release(set->engine->port, &memory);
}

static void link_set(struct ptah_captures *set)
{
	struct ptah_engine *engine = set->engine;

	engine->hal->lock(engine->port);
	set->next = engine->sets;
	engine->sets = set;
	engine->hal->unlock(engine->port);
}

/* Removes `set`, or (NULL) a set of `owner`, from the engine's list. NULL: there is none. */
static struct ptah_captures *unlink_set(struct ptah_engine *engine, const struct ptah_captures *set,
					uint64_t owner)
{
	struct ptah_captures **at, *found = NULL;

	engine->hal->lock(engine->port);
	for (at = &engine->sets; *at && !found; at = &(*at)->next) {
		if (set ? *at == set : (*at)->config.owner == owner) {
			found = *at;
			*at = found->next;
			break;
		}
	}
	engine->hal->unlock(engine->port);
	return found;
}

int ptah_captures_new(struct ptah_engine *engine, const struct ptah_captures_config *config,
		      struct ptah_captures **set, struct ptah_captures_problem *problem)
{
	const struct ptah_capture_config *capture = config ? config->capture : NULL;
	int status;

	no_problem(problem);
	if (!engine || !set || !config || config->size < sizeof(*config) || !capture ||
	    capture->size < sizeof(*capture) || !capture->trace ||
	    capture->trace->size < sizeof(*capture->trace))
		return report(problem, -1, PTAH_E_INVAL,
			      "an argument is NULL, or a struct of an older size");
	if (capture->memory || capture->memories)
		return report(problem, -1, PTAH_E_INVAL,
			      "each processor has its own memory, in struct ptah_captures_config");
	status = check_mask(engine, config, problem);
	if (status < 0)
		return status;
	status = allocate_set(engine, config, set);
	if (status < 0)
		return report(problem, -1, status, NULL);
	status = add_members(*set, problem);
	if (status < 0) {
		release_set(*set);
		return status;
	}
	show_members(*set);
	link_set(*set);
	return PTAH_OK;
}

int ptah_captures_update(struct ptah_captures *set, struct ptah_captures_problem *problem)
{
	struct member *m;
	int status, added;
	unsigned n;

	no_problem(problem);
	if (!set)
		return PTAH_E_INVAL;
	added = add_members(set, problem);
	if (added <= 0)
		return added;
	status = set->started ? start_called(set, set->paused, problem) : PTAH_OK;
	for (n = 0; status < 0 && (m = next_member(set, &n, true)) != NULL; n++)
		remove_member(m);
	if (status < 0)
		return status;
	show_members(set);
	return added;
}

int ptah_captures_free(struct ptah_captures *set)
{
	struct member *m;
	unsigned n;

	if (!set)
		return PTAH_OK;
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		if (map_any(capture_of(m)))
			return PTAH_E_BUSY;
	}
	ptah_captures_stop(set);
	unlink_set(set->engine, set, 0);
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++)
		remove_member(m);
	release_set(set);
	return PTAH_OK;
}

void sets_release_owner(struct ptah_engine *engine, uint64_t owner)
{
	struct ptah_captures *set;
	struct member *m;
	unsigned n;

	while ((set = unlink_set(engine, NULL, owner)) != NULL) {
		ptah_captures_stop(set);
		for (n = 0; (m = next_member(set, &n, false)) != NULL; n++)
			capture_of(m)->set = NULL;
		release_set(set);
	}
}

/* Status */

/* The higher, the worse. */
static unsigned weight(int error)
{
	switch (error) {
	case PTAH_OK:
		return 0;
	case PTAH_E_DEVICE:
		return 5;
	case PTAH_E_INVAL:
		return 4;
	case PTAH_E_UNSUPPORTED:
		return 3;
	case PTAH_E_BUSY:
		return 2;
	default:
		return 1;
	}
}

static void add_status(struct ptah_captures_status *sum, unsigned n, const struct ptah_capture *c)
{
	struct ptah_capture_status one = {.size = sizeof(one)};

	if (ptah_capture_status(c, &one) < 0)
		return;
	sum->cpus++;
	sum->in_state[one.state]++;
	if (weight(one.error) > weight(sum->error)) {
		sum->error = one.error;
		sum->error_cpu = (int)n;
		sum->msr = one.msr;
	}
	sum->position += one.position;
	sum->readable += one.position - one.oldest;
	sum->lost += one.lost;
	sum->buffer += one.buffer;
	sum->looks += one.looks;
	sum->starts += one.starts;
	sum->pmis += one.pmis;
	sum->full += one.full;
	sum->errors += one.errors;
	sum->partial += one.partial;
	sum->dropped_records += one.dropped_records;
}

int ptah_captures_status(const struct ptah_captures *set, struct ptah_captures_status *status)
{
	unsigned n;

	if (!set || !status || status->size < sizeof(*status))
		return PTAH_E_INVAL;
	*status = (struct ptah_captures_status){
	    .size = sizeof(*status),
	    .started = set->started,
	    .paused = set->paused,
	    .began = set->began,
	    .ended = set->ended,
	    .error_cpu = -1,
	};
	for (n = 0; n < set->engine->cpus; n++) {
		const struct ptah_capture *c = capture_of(&set->members[n]);

		if (c)
			add_status(status, n, c);
		else
			status->waiting += set->members[n].wanted;
	}
	return PTAH_OK;
}

int ptah_captures_live(const struct ptah_captures *set, struct ptah_capture_live *live)
{
	struct ptah_capture_live sum = {.size = sizeof(sum), .exact = true}, one;
	unsigned n;
	int status;

	if (!set || !live || live->size < sizeof(*live))
		return PTAH_E_INVAL;
	for (n = 0; n < set->engine->cpus; n++) {
		struct ptah_capture *c = capture_of(&set->members[n]);

		if (!c)
			continue;
		one = (struct ptah_capture_live){.size = sizeof(one)};
		status = ptah_capture_live(c, &one);
		if (status < 0)
			return status;
		sum.position += one.position;
		sum.limit = sum.limit > UINT64_MAX - one.limit ? UINT64_MAX : sum.limit + one.limit;
		sum.exact = sum.exact && one.exact;
	}
	*live = sum;
	return PTAH_OK;
}

/* Mappings */

int ptah_captures_map(struct ptah_captures *set, uint64_t owner, bool writable,
		      struct ptah_captures_mapping *mappings, size_t n,
		      struct ptah_captures_problem *problem)
{
	size_t used = 0;
	struct member *m;
	int status = PTAH_OK;
	unsigned cpu;
	bool made;

	no_problem(problem);
	if (!set || (n && !mappings))
		return PTAH_E_INVAL;
	for (cpu = 0; status == PTAH_OK && (m = next_member(set, &cpu, false)) != NULL; cpu++) {
		struct ptah_captures_mapping *map = &mappings[used];

		if (used == n) {
			status = report(problem, (int)cpu, PTAH_E_NOSPACE,
					"there are more buffers than entries");
			break;
		}
		map->cpu = cpu;
		map->capture = capture_of(m);
		map->size = map->capture->topa.lap;
		map->page = 0;
		status = map_buffer(map->capture, owner, writable, &map->address, &made);
		if (status < 0)
			report(problem, (int)cpu, status, NULL);
		else
			mappings[used++].page = made;
	}
	for (cpu = 0; cpu < used; cpu++) {
		if (status < 0 && mappings[cpu].page)
			ptah_capture_unmap(mappings[cpu].capture, owner, mappings[cpu].address);
		mappings[cpu].page = 0;
	}
	return status < 0 ? status : (int)used;
}

int ptah_captures_map_pages(struct ptah_captures *set, uint64_t owner, bool consumer,
			    struct ptah_captures_mapping *mappings, size_t n,
			    struct ptah_captures_problem *problem)
{
	size_t used;
	int status;

	no_problem(problem);
	if (!set || (n && !mappings))
		return PTAH_E_INVAL;
	for (used = 0; used < n; used++) {
		struct ptah_captures_mapping *map = &mappings[used];

		status = ptah_capture_map_page(map->capture, owner, consumer, &map->page);
		if (status >= 0)
			continue;
		while (used--) {
			ptah_capture_unmap(mappings[used].capture, owner, mappings[used].page);
			mappings[used].page = 0;
		}
		return report(problem, (int)map->cpu, status,
			      status == PTAH_E_BUSY ? "the capture has another consumer" : NULL);
	}
	return PTAH_OK;
}

int ptah_captures_unmap(struct ptah_captures *set, uint64_t owner)
{
	bool any = false;
	struct member *m;
	unsigned n;

	if (!set)
		return PTAH_E_INVAL;
	for (n = 0; (m = next_member(set, &n, false)) != NULL; n++) {
		while (map_remove(capture_of(m), &owner))
			any = true;
	}
	return any ? PTAH_OK : PTAH_E_INVAL;
}
