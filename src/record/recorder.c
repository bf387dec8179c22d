/* SPDX-License-Identifier: MIT */
/* Implements ptah/record.h: chooses a recorder and keeps the calls in their order. */
#include "record/jit_copies.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/haste.h"
#include "support/monotonic.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define POLL_MS	 100
#define FLUSH_MS 100
#define HASTE_NS 500000000 /* what is left for waiting */

/* In order of preference. */
static const struct recorder_backend *const backends[] = {&recorder_hardware, &recorder_module,
							  &recorder_native,   &recorder_qemu,
							  &recorder_ptrace,   &recorder_vm};

static const char *const names[PTAH_RECORDER_MAX] = {
    [PTAH_RECORDER_BEST] = "best",     [PTAH_RECORDER_HARDWARE] = "hardware",
    [PTAH_RECORDER_QEMU] = "qemu",     [PTAH_RECORDER_PTRACE] = "ptrace",
    [PTAH_RECORDER_VM] = "vm",	       [PTAH_RECORDER_MODULE] = "module",
    [PTAH_RECORDER_NATIVE] = "native",
};

const char *ptah_recorder_name(unsigned kind)
{
	return kind < PTAH_RECORDER_MAX ? names[kind] : "unknown";
}

/* For the backends */

int recorder_fail(struct ptah_recorder *r, enum ptah_record_problem problem, int status,
		  const char *format, ...)
{
	va_list args;

	if (r->error < 0)
		return status;
	r->error = status;
	r->problem = problem;
	va_start(args, format);
	vsnprintf(r->why.text, sizeof(r->why.text), format, args);
	va_end(args);
	return status;
}

int recorder_wrote(struct ptah_recorder *r, int status)
{
	const char *why = status < 0 && r->writer ? perfdata_writer_why(r->writer) : NULL;

	if (status < 0)
		recorder_fail(r, PTAH_RECORD_OUTPUT, status, "%s",
			      why ? why : ptah_strerror(status));
	if (r->writer)
		r->status.notes = perfdata_writer_notes(r->writer);
	return status;
}

static int hand_over(void *context, const struct perfdata_piece *p)
{
	const struct ptah_recorder *r = context;
	const struct ptah_record_piece piece = {
	    .kind = p->trace ? PTAH_RECORD_PIECE_TRACE : PTAH_RECORD_PIECE_RECORD,
	    .stream = p->stream,
	    .tid = p->tid,
	    .cpu = p->cpu,
	    .offset = p->offset,
	    .bytes = p->bytes,
	    .size = p->size,
	};

	return r->config.output.sink->take
		   ? r->config.output.sink->take(r->config.output.sink->context, &piece)
		   : 0;
}

void ptah_recorder_hurry(struct ptah_recorder *r)
{
	int64_t none = 0;

	if (r)
		__atomic_compare_exchange_n(&r->late, &none, monotonic_ns() + HASTE_NS, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool recorder_is_late(const struct ptah_recorder *r)
{
	return haste_is_late(&r->late);
}

bool recorder_is_full(const struct ptah_recorder *r)
{
	return r->config.output.max_size && r->writer &&
	       perfdata_writer_size(r->writer) >= r->config.output.max_size;
}

void recorder_flush(struct ptah_recorder *r)
{
	const int64_t now = monotonic_ms();

	recorder_wrote(r, perfdata_end_round(r->writer));
	if (now - r->flushed < FLUSH_MS)
		return;
	recorder_wrote(r, perfdata_writer_flush(r->writer));
	r->flushed = now;
}

int recorder_open_writer(struct ptah_recorder *r, struct perfdata_writer_config *config)
{
	struct ptah_message why = {""};
	int status;

	config->path = r->config.output.path ? r->config.output.path : "perf.data";
	config->command = r->config.target.argv;
	config->take = r->config.output.sink ? hand_over : NULL;
	config->context = r;
	config->late = &r->late;
	status = perfdata_writer_open(config, &r->writer, &why);
	if (status < 0)
		recorder_fail(r, PTAH_RECORD_OUTPUT, status, "%s",
			      why.text[0] ? why.text : ptah_strerror(status));
	/* The first mark says that there will be others. */
	return status < 0 ? status : recorder_wrote(r, perfdata_end_round(r->writer));
}

void recorder_note(struct ptah_recorder *r, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	recorder_wrote(r, perfdata_add_note(r->writer, text));
}

/* NULL: a signal by which programs are ended as a matter of course. */
static const char *name_of_end(int signal)
{
	static const struct {
		int number;
		const char *name;
	} list[] = {
	    {SIGILL, "SIGILL"},	  {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
	    {SIGFPE, "SIGFPE"},	  {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGXCPU, "SIGXCPU"},
	    {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (list[i].number == signal)
			return list[i].name;
	return NULL;
}

void recorder_process_ended(struct ptah_recorder *r, int32_t pid, int wait_status)
{
	const struct ptah_record_sink *sink = r->config.output.sink;
	int status = sink && sink->ended ? sink->ended(sink->context, pid, wait_status) : 0;

	r->end_told = r->end_told || pid == r->command;
	if (status < 0 && r->error >= 0)
		r->error = status;
}

void recorder_note_end(struct ptah_recorder *r, const struct recorder_end *end)
{
	const char *name = name_of_end(end->signal);
	char comm[32] = "", thread[32] = "", place[32] = "";

	if (!name)
		return;
	if (*end->comm)
		snprintf(comm, sizeof(comm), " (%.15s)", end->comm);
	if (end->tid != end->pid)
		snprintf(thread, sizeof(thread), " in its thread %d", end->tid);
	if (end->placed)
		snprintf(place, sizeof(place), " at 0x%" PRIx64, end->ip);
	recorder_note(r, "%s ended process %d%s%s%s", name, end->pid, comm, thread, place);
	r->status.crashes++;
	r->end_noted = r->end_noted || end->pid == r->command;
}

/* The backend may not know it. */
static void note_end_of_command(struct ptah_recorder *r)
{
	const int status = r->status.wait_status;
	const struct recorder_end end = {
	    .signal = WTERMSIG(status), .pid = r->command, .tid = r->command, .comm = ""};

	if (r->config.target.kind == PTAH_RECORD_COMMAND && !r->status.pid && status != -1 &&
	    WIFSIGNALED(status) && !r->end_noted)
		recorder_note_end(r, &end);
	if (r->config.target.kind == PTAH_RECORD_COMMAND && !r->status.pid && status != -1 &&
	    !r->end_told)
		recorder_process_ended(r, r->command, status);
}

/* Configurations that no recorder accepts */

static enum ptah_record_problem check_filters(const struct ptah_record_config *config,
					      struct ptah_message *why)
{
	if (config->filter_count > PTAH_RANGES)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION, "more than %d filters",
				       PTAH_RANGES);
	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *f = &config->filters[i];

		if ((f->mode != PTAH_RANGE_FILTER && f->mode != PTAH_RANGE_STOP) || !f->size)
			return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					       "filter %zu makes no sense", i);
	}
	return PTAH_RECORD_FINE;
}

void ptah_record_trace_default(struct ptah_trace_config *trace)
{
	*trace = (struct ptah_trace_config){.size = sizeof(*trace),
					    .user = true,
					    .branch = true,
					    .tsc = true,
					    .mtc = true,
					    .mtc_period = PTAH_RECORD_CHOOSE,
					    .psb_period = PTAH_RECORD_CHOOSE};
}

static enum ptah_record_problem check_trace(const struct ptah_trace_config *trace,
					    struct ptah_message *why)
{
	bool ranges = false;

	for (unsigned i = 0; i < PTAH_RANGES; i++)
		ranges |= trace->ranges[i].mode != PTAH_RANGE_OFF;
	if (trace->cr3_filter || ranges || trace->force_psb || trace->psb_pmi_on_enable)
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "a recorder takes no CR3 filter, no ranges but its filters, "
				       "and no PSBs by force");
	if (trace->size < sizeof(*trace) || trace->cyc_threshold > 15 ||
	    (trace->mtc_period > 15 && trace->mtc_period != PTAH_RECORD_CHOOSE) ||
	    (trace->psb_period > 15 && trace->psb_period != PTAH_RECORD_CHOOSE))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "an option of the trace is out of range");
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_config(const struct ptah_record_config *config,
					     struct ptah_message *why)
{
	enum ptah_record_problem problem;

	if (config->target.kind == PTAH_RECORD_COMMAND &&
	    (!config->target.argv || !config->target.argv[0]))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION, "no command to record");
	if ((config->target.kind == PTAH_RECORD_PROCESSES ||
	     config->target.kind == PTAH_RECORD_THREADS) &&
	    (!config->target.ids || !config->target.id_count))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION, "no process to record");
	if ((unsigned)config->buffer.policy >= PTAH_RECORD_BUFFER_MAX ||
	    (unsigned)config->target.kind >= PTAH_RECORD_TARGET_MAX ||
	    (unsigned)config->backend.kind >= PTAH_RECORDER_MAX)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "an option's value is out of range");
	problem = check_trace(&config->trace, why);
	return problem ? problem : check_filters(config, why);
}

/* Choosing a recorder */

/* A configuration that names the emulator or its plugin asks for the recorder qemu. */
static enum ptah_recorder_kind wanted(const struct ptah_record_config *config)
{
	return config->backend.kind == PTAH_RECORDER_BEST &&
		       (config->backend.qemu || config->backend.plugin)
		   ? PTAH_RECORDER_QEMU
		   : config->backend.kind;
}

/*
 * How much a problem helps the user. That of a recorder that does not exist here, or is not made
 * for this target, helps less than that of one that nearly could.
 */
static unsigned weight(enum ptah_record_problem problem)
{
	return problem == PTAH_RECORD_FINE						 ? 0
	       : problem == PTAH_RECORD_NOT_POSSIBLE					 ? 1
	       : problem == PTAH_RECORD_NO_PROCESSOR || problem == PTAH_RECORD_NO_DRIVER ? 2
											 : 3;
}

/*
 * Whether the recorder would slow down, thousands of times, what already runs and perhaps serves
 * others. This is done only on demand.
 */
static bool would_slow_down(const struct recorder_backend *backend,
			    const struct ptah_record_config *config)
{
	return backend->kind == PTAH_RECORDER_PTRACE && config->target.kind != PTAH_RECORD_COMMAND;
}

/* why: on entry, why no recorder before the one by single steps was taken. */
static enum ptah_record_problem refuse_slow(struct ptah_message *why)
{
	const struct ptah_message before = *why;

	return recorder_refuse(why, PTAH_RECORD_TOO_SLOW,
			       "%.300s: what runs already could be recorded by single steps alone, "
			       "which make it thousands of times slower",
			       before.text);
}

/* Samples of the kernel's events have a path beside them only on hardware. */
static enum ptah_record_problem refuse_events(const struct recorder_backend *backend,
					      const struct ptah_record_config *config,
					      struct ptah_message *why)
{
	return recorder_refuse(
	    why, PTAH_RECORD_NOT_POSSIBLE,
	    "the recorder %s records no other events (-e %s): that takes Intel PT hardware. %s",
	    names[backend->kind], config->events.items[0],
	    backend->kind == PTAH_RECORDER_VM
		? "Of a virtual machine it records what runs"
		: "Without -e it records system calls with their times, from which 'ptah waits' "
		  "finds what threads waited for");
}

/* The recorder's own check, and what only one of them can. */
static enum ptah_record_problem check_backend(const struct recorder_backend *backend,
					      const struct ptah_record_config *config,
					      struct ptah_message *why)
{
	if ((config->triggers.count || config->triggers.start_paused) &&
	    backend->kind != PTAH_RECORDER_HARDWARE)
		return recorder_refuse(
		    why, PTAH_RECORD_NOT_POSSIBLE,
		    "the recorder %s cannot pause and resume the trace when an event happens, or a "
		    "function is called: Linux' driver for Intel PT can (6.13 and later)",
		    names[backend->kind]);
	if (config->events.count && backend->kind != PTAH_RECORDER_HARDWARE &&
	    backend->kind != PTAH_RECORDER_MODULE)
		return refuse_events(backend, config, why);
	return backend->check(config, why);
}

/* A processor does not count what runs: ground truth that is asked for needs another recorder. */
static bool counts_nothing(const struct recorder_backend *backend)
{
	return backend->kind == PTAH_RECORDER_HARDWARE || backend->kind == PTAH_RECORDER_MODULE;
}

/*
 * Sets r->backend to the first suitable recorder. If there is none, returns the most helpful
 * problem.
 */
static enum ptah_record_problem choose_recorder_kind(struct ptah_recorder *r,
						     struct ptah_message *why)
{
	const enum ptah_recorder_kind kind = wanted(&r->config);
	enum ptah_record_problem worst = PTAH_RECORD_FINE;
	const struct recorder_backend *without_truth = NULL;
	struct ptah_message reason = {""}, native = {""};

	for (size_t i = 0; i < ARRAY_SIZE(backends) && !r->backend; i++) {
		enum ptah_record_problem problem;

		if (kind && kind != backends[i]->kind)
			continue;
		problem = check_backend(backends[i], &r->config, &reason);
		if (!problem && !kind && r->config.backend.truth && counts_nothing(backends[i])) {
			without_truth = without_truth ? without_truth : backends[i];
			problem = PTAH_RECORD_NOT_POSSIBLE;
			snprintf(reason.text, sizeof(reason.text),
				 "a processor does not count what runs, and --truth asks for it");
		}
		if (!problem && !kind && would_slow_down(backends[i], &r->config))
			return refuse_slow(why);
		if (problem && backends[i] == &recorder_native)
			native = reason;
		if (problem == PTAH_RECORD_FINE)
			r->backend = backends[i];
		else if (weight(problem) > weight(worst)) {
			worst = problem;
			*why = reason;
		}
	}
	if (!r->backend && without_truth) { /* no other can do what is asked */
		r->backend = without_truth;
		worst = PTAH_RECORD_FINE;
	}
	if (!r->backend && !kind && r->config.events.count &&
	    (worst == PTAH_RECORD_NO_PROCESSOR || worst == PTAH_RECORD_NO_DRIVER)) {
		reason = *why;
		refuse_events(&recorder_native, &r->config, &native);
		snprintf(why->text, sizeof(why->text), "%.300s, and %.600s", reason.text,
			 native.text);
	}
	if (!r->backend)
		return worst;
	/* The choice includes the reasons why no recorder before it was taken. */
	if (!strcmp(native.text, why->text))
		native.text[0] = '\0';
	snprintf(r->choice, sizeof(r->choice), "%s%s%.500s%s%.500s", names[r->backend->kind],
		 worst ? ": " : "", worst ? why->text : "", native.text[0] ? "; " : "",
		 native.text);
	return PTAH_RECORD_FINE;
}

/* Opening */

static int refuse_recorder(enum ptah_record_problem reason, const struct ptah_message *text,
			   enum ptah_record_problem *problem, struct ptah_message *why, int status)
{
	if (problem)
		*problem = reason;
	if (why)
		*why = *text;
	return status;
}

static struct ptah_record_config with_defaults(const struct ptah_record_config *config)
{
	struct ptah_record_config full = *config;

	if (!full.trace.size)
		ptah_record_trace_default(&full.trace);
	full.trace.user |= !full.trace.os;
	return full;
}

int recorder_new(const struct recorder_backend *backend, const struct ptah_record_config *config,
		 struct ptah_recorder **recorder, enum ptah_record_problem *problem,
		 struct ptah_message *why)
{
	struct ptah_message text = {""};
	enum ptah_record_problem reason;
	struct ptah_record_config full;
	struct ptah_recorder *r;
	int status;

	if (!recorder)
		return PTAH_E_INVAL;
	*recorder = NULL;
	if (!config || config->size < sizeof(*config))
		return refuse_recorder(PTAH_RECORD_BAD_OPTION, &text, problem, why, PTAH_E_INVAL);
	full = with_defaults(config);
	reason = check_config(&full, &text);
	if (reason)
		return refuse_recorder(reason, &text, problem, why, recorder_status_of(reason));
	r = calloc(1, sizeof(*r));
	if (!r)
		return refuse_recorder(PTAH_RECORD_NO_MEMORY, &text, problem, why, PTAH_E_NOMEM);
	r->config = full;
	r->status.wait_status = -1;
	r->backend = backend;
	reason =
	    backend ? check_backend(backend, &r->config, &text) : choose_recorder_kind(r, &text);
	if (!reason)
		reason = timer_check(r, &text);
	if (reason) {
		free(r);
		return refuse_recorder(reason, &text, problem, why, recorder_status_of(reason));
	}
	status = r->backend->open(r);
	if (status < 0) {
		refuse_recorder(r->problem ? r->problem : PTAH_RECORD_NO_MEMORY, &r->why, problem,
				why, 0);
		ptah_recorder_free(r);
		return status;
	}
	r->status.paused = config->target.start_paused;
	*recorder = r;
	return 0;
}

int ptah_recorder_new(const struct ptah_record_config *config, struct ptah_recorder **recorder,
		      enum ptah_record_problem *problem, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, recorder_new(NULL, config, recorder, problem, why));
}

/* Calls */

int ptah_recorder_start(struct ptah_recorder *r)
{
	int status;

	if (!r || r->state != RECORDER_NEW)
		return PTAH_E_INVAL;
	r->state = RECORDER_STARTED;
	jit_copies_begin(r);
	status = r->backend->start(r);
	r->command = r->status.pid;
	if (status >= 0)
		status = timer_start(r);
	r->status.running = status >= 0;
	return status < 0 ? status : r->error;
}

static bool end_if_full(struct ptah_recorder *r)
{
	if (!recorder_is_full(r))
		return false;
	r->status.full = true;
	recorder_note(r, "the recording ended at its greatest size, %" PRIu64 " bytes",
		      r->config.output.max_size);
	return true;
}

/* Lets go of the recorder that refused, with its program and what it has written. */
static void drop_backend(struct ptah_recorder *r)
{
	struct ptah_record_status status = {.size = r->status.size, .wait_status = -1};

	r->backend->close(r);
	r->self = NULL;
	if (r->writer)
		perfdata_writer_abort(r->writer);
	r->writer = NULL;
	status.paused = r->status.paused;
	r->config.target.start_paused = r->status.paused;
	r->status = status;
}

/* After it, there is nothing to stop and no file. */
static int fail_again(struct ptah_recorder *r, enum ptah_record_problem problem,
		      const struct ptah_message *why)
{
	r->state = RECORDER_STOPPED;
	return recorder_fail(r, problem, recorder_status_of(problem), "%s: %s", r->refusal.text,
			     why->text);
}

/* The backend has refused what it had begun: qemu records the same command from its beginning. */
static int start_again(struct ptah_recorder *r)
{
	const char *before = names[r->backend->kind];
	const struct ptah_record_sink *sink = r->config.output.sink;
	struct ptah_message why = {"a sink cannot begin again with another recorder"};
	enum ptah_record_problem problem = PTAH_RECORD_NOT_POSSIBLE;
	int status;

	drop_backend(r);
	r->backend = &recorder_qemu;
	if (!sink || !sink->take || sink->restart)
		problem = recorder_qemu.check(&r->config, &why);
	if (!problem && sink && sink->restart && sink->restart(sink->context) < 0) {
		why = (struct ptah_message){"the sink does not begin again"};
		problem = PTAH_RECORD_OUTPUT;
	}
	if (problem)
		return fail_again(r, problem, &why);
	snprintf(r->choice, sizeof(r->choice), "qemu: %s", r->refusal.text);
	status = r->backend->open(r);
	if (status < 0) {
		r->state = RECORDER_STOPPED;
		return status;
	}
	recorder_note(r, "recorded by qemu, not by %s: %s", before, r->refusal.text);
	jit_copies_begin(r);
	status = r->backend->start(r);
	r->command = r->status.pid;
	return status < 0 ? status : 1;
}

int ptah_recorder_poll(struct ptah_recorder *r, int timeout_ms)
{
	int status;

	if (!r || r->state == RECORDER_NEW)
		return PTAH_E_INVAL;
	if (r->state != RECORDER_STARTED && r->self && r->backend->look_after)
		r->backend->look_after(r);
	if (r->error < 0)
		return r->error;
	if (r->state != RECORDER_STARTED || !r->status.running)
		return 0;
	status = timer_is_over(r) || end_if_full(r) ? 0 : r->backend->poll(r, timeout_ms);
	if (status == RECORDER_REFUSED)
		status = start_again(r);
	r->status.running = status > 0;
	return r->error < 0 ? r->error : status;
}

int ptah_recorder_pause(struct ptah_recorder *r, bool on)
{
	int status;

	if (!r || r->state == RECORDER_FINISHED)
		return PTAH_E_INVAL;
	if (r->error < 0)
		return r->error;
	if (r->status.paused == on || r->state == RECORDER_STOPPED)
		return 0;
	status = r->backend->pause(r, on);
	if (status >= 0)
		r->status.paused = on;
	return status;
}

int ptah_recorder_snapshot(struct ptah_recorder *r)
{
	int status;

	if (!r || r->state != RECORDER_STARTED || r->config.buffer.policy != PTAH_RECORD_SNAPSHOT)
		return PTAH_E_INVAL;
	if (r->error < 0)
		return r->error;
	status = r->backend->snapshot(r);
	if (status >= 0)
		r->status.snapshots++;
	return status;
}

int ptah_recorder_stop(struct ptah_recorder *r)
{
	if (!r || r->state == RECORDER_NEW)
		return PTAH_E_INVAL;
	if (r->state == RECORDER_STARTED) {
		int status = r->backend->stop(r);

		r->state = RECORDER_STOPPED;
		r->status.running = false;
		if (status < 0 && r->error >= 0)
			r->error = status;
		if (r->writer && recorder_is_late(r))
			recorder_note(r, "the recording was ended in haste: what came last may be "
					 "missing");
		if (r->writer)
			note_end_of_command(r);
	}
	return r->error;
}

/*
 * Notes that the recording has no ground truth although it was asked for, or although this recorder
 * always counts. `ptah verify` looks for these words, so that it gives no advice that was followed.
 */
static void note_missing_truth(struct ptah_recorder *r)
{
	const enum ptah_recorder_kind kind = r->backend->kind;
	const bool counts = kind != PTAH_RECORDER_HARDWARE && kind != PTAH_RECORDER_MODULE;
	const bool always = counts && kind != PTAH_RECORDER_NATIVE;
	size_t streams, without = perfdata_without_truth(r->writer, &streams);

	if (!without || (!always && !r->config.backend.truth))
		return;
	if (!counts)
		recorder_note(r,
			      "no ground truth, although --truth asks for one: a processor does "
			      "not count what it runs; the recorders native, qemu and ptrace do");
	else
		recorder_note(r,
			      "no ground truth of %zu of %zu threads: the recording has a part "
			      "of their trace only, or the recorder could not count to their end",
			      without, streams);
}

int ptah_recorder_finish(struct ptah_recorder *r)
{
	struct ptah_message why = {""};
	int status = ptah_recorder_stop(r);
	uint64_t kept = 0;

	if (!r || r->state == RECORDER_NEW || r->state == RECORDER_FINISHED)
		return status;
	if (status < 0 && !r->status.trace_bytes)
		return status; /* nothing is worth keeping */
	if (status < 0 && !perfdata_writer_why(r->writer))
		recorder_note(r, "the recording is not complete: %s", r->why.text);
	note_missing_truth(r);
	r->state = RECORDER_FINISHED;
	jit_copies_make(r);
	status = perfdata_writer_finish(r->writer, &kept, &why);
	r->writer = NULL;
	r->kept = status >= 0 || kept;
	if (status >= 0)
		return r->error;
	recorder_fail(r, PTAH_RECORD_OUTPUT, status, "%s", why.text);
	if (!r->config.output.sink) {
		r->status.losses.unwritten += r->status.trace_bytes - kept;
		r->status.trace_bytes = kept;
	}
	return r->error;
}

void ptah_recorder_free(struct ptah_recorder *r)
{
	if (!r)
		return;
	if (r->state == RECORDER_STARTED)
		ptah_recorder_stop(r);
	r->backend->close(r);
	if (r->writer)
		perfdata_writer_abort(r->writer);
	free(r);
}

/* Questions to a recorder */

enum ptah_recorder_kind ptah_recorder_kind(const struct ptah_recorder *r, const char **choice)
{
	if (choice)
		*choice = r ? r->choice : "";
	return r ? r->backend->kind : PTAH_RECORDER_BEST;
}

int ptah_recorder_status(const struct ptah_recorder *r, struct ptah_record_status *status)
{
	if (!r || !status || status->size < sizeof(*status))
		return PTAH_E_INVAL;
	*status = r->status;
	status->size = sizeof(*status);
	return 0;
}

int ptah_recorder_metadata(const struct ptah_recorder *r, struct ptah_record_metadata *metadata)
{
	if (!r || !metadata || metadata->size < sizeof(*metadata))
		return PTAH_E_INVAL;
	*metadata = r->metadata;
	metadata->size = sizeof(*metadata);
	return 0;
}

const char *ptah_recorder_why(const struct ptah_recorder *r, enum ptah_record_problem *problem)
{
	if (problem)
		*problem = r ? r->problem : PTAH_RECORD_FINE;
	return r ? r->why.text : "";
}

/* The whole recording in one call */

int ptah_record(const struct ptah_record_config *config, struct ptah_record_status *result,
		struct ptah_message *why)
{
	struct ptah_recorder *r = NULL;
	int status = ptah_recorder_new(config, &r, NULL, why);

	if (status < 0)
		return status;
	status = ptah_recorder_start(r);
	while (status >= 0 && (status = ptah_recorder_poll(r, POLL_MS)) > 0)
		;
	if (status >= 0)
		status = ptah_recorder_finish(r);
	else
		ptah_recorder_finish(r); /* keeps what there is */
	/*
	 * After a failure the recorded command runs on. A command that only says how long to record
	 * is ended.
	 */
	if (r->status.pid && config->target.kind != PTAH_RECORD_COMMAND)
		kill(r->status.pid, SIGTERM);
	while (r->status.pid && waitpid(r->status.pid, &r->status.wait_status, 0) < 0 &&
	       errno == EINTR)
		;
	if (result) {
		*result = r->status;
		result->size = sizeof(*result);
	}
	if (status < 0 && why)
		*why = r->why;
	ptah_recorder_free(r);
	return perfdata_message_end(why, status);
}
