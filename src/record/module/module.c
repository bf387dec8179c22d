/* SPDX-License-Identifier: MIT */
/*
 * The recorder module: Intel PT through Ptah's kernel module (port/linux/), which has the capture
 * engine in it.
 *
 * Threads have a capture each, wherever they run; those of new threads and processes are taken by
 * the kernel from a pool that was made at the beginning. Processors have a capture each. The
 * records of maps, names and switches come from perf, and what existed before from /proc, as with
 * the recorder hardware.
 */
#include "record/module/module.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSOR_BUFFER (UINT64_C(4) << 20)
/* Threads that may come take their buffers from a pool, which exists from the beginning on. */
#define THREAD_BUFFER (UINT64_C(1) << 20)
#define POOL_BYTES    (UINT64_C(128) << 20)
#define POOL_LEAST    8u
#define POOL_MOST     512u

static bool by_thread(const struct ptah_record_config *config)
{
	return config->target.kind != PTAH_RECORD_CPUS;
}

static int fail(struct module *m, enum ptah_record_problem problem, const struct ptah_message *why)
{
	return recorder_fail(m->records.r, problem, recorder_status_of(problem), "%s", why->text);
}

/* Captures */

static uint8_t policy_of(const struct ptah_record_config *config)
{
	static const uint8_t policies[PTAH_RECORD_BUFFER_MAX] = {
	    [PTAH_RECORD_DRAIN] = PTAH_POLICY_DRAIN,
	    [PTAH_RECORD_SNAPSHOT] = PTAH_POLICY_WRAP,
	    [PTAH_RECORD_STOP_WHEN_FULL] = PTAH_POLICY_STOP,
	};

	return policies[config->buffer.policy];
}

/* How many threads more than those that exist may be recorded at a time. */
static uint32_t more_threads(const struct module *m, uint64_t buffer)
{
	const uint64_t free = m->device.limit - m->device.used;
	struct sysinfo info = {0};
	uint64_t bytes = POOL_BYTES, n;

	if (!m->records.events.layout.inherit)
		return 0;
	/* An eighth of the memory, and half of what the driver lets all recordings have. */
	if (!sysinfo(&info) && info.mem_unit && bytes > info.totalram / 8 * info.mem_unit)
		bytes = info.totalram / 8 * info.mem_unit;
	if (m->device.used < m->device.limit && bytes > free / 2)
		bytes = free / 2;
	n = bytes / buffer;
	return n < POOL_LEAST ? POOL_LEAST : n > POOL_MOST ? POOL_MOST : (uint32_t)n;
}

static enum ptah_record_problem make_pool(struct module *m, const struct device_request *request,
					  struct ptah_message *why)
{
	const uint32_t threads = (uint32_t)m->records.tid_count;
	const bool inherit = m->records.events.layout.inherit;
	uint32_t more = more_threads(m, request->buffer);
	enum ptah_record_problem problem;

	do {
		problem = device_make_pool(&m->device, request, threads + more, inherit, why);
		more /= 2;
	} while (problem == PTAH_RECORD_NO_MEMORY && more);
	return problem;
}

static enum ptah_record_problem make_captures(struct module *m, struct ptah_message *why)
{
	const struct ptah_record_config *config = &m->records.r->config;
	const uint64_t chosen = by_thread(config) ? THREAD_BUFFER : PROCESSOR_BUFFER;
	const struct device_request request = {
	    .trace = &m->trace,
	    .policy = policy_of(config),
	    .buffer = config->buffer.size ? config->buffer.size : chosen,
	    .paused = m->records.r->status.paused,
	};

	if (by_thread(config))
		return make_pool(m, &request, why);
	return device_make_set(&m->device, &request, m->records.cpus,
			       config->target.id_count ? m->records.cpu_count : 0, why);
}

static int watch(struct module *m)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (!m->device.set && epoll_ctl(m->source.fd, EPOLL_CTL_ADD, m->device.captures, &event))
		return recorder_fail(m->records.r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "too many files are watched");
	return 0;
}

/* The threads that exist. One that has ended meanwhile is left out, unless it was named. */
static int take_threads(struct module *m)
{
	const struct hardware *h = &m->records;
	const bool strict = h->r->config.target.kind != PTAH_RECORD_PROCESSES;
	int status = 0;

	for (size_t i = 0; i < h->tid_count && status >= 0; i++) {
		struct ptah_message why = {""};
		struct device_mapping mapping;
		enum ptah_record_problem problem =
		    device_take(&m->device, h->tids[i], &mapping, &why);

		if (problem == PTAH_RECORD_NO_TARGET && !strict)
			continue;
		mapping.tid = h->tids[i];
		mapping.time = __builtin_ia32_rdtsc(); /* its stream begins now */
		mapping.pid = problem ? 0 : proc_process_of("", h->tids[i]);
		if (!problem && !mapping.pid) {
			device_release(&mapping); /* it has ended by now */
			problem = PTAH_RECORD_NO_TARGET;
			if (!strict)
				continue;
			recorder_refuse(&why, problem, "there is no thread %d", h->tids[i]);
		}
		status = problem ? fail(m, problem, &why) : module_add_stream(m, &mapping);
	}
	return status;
}

/* The processors of the set that have a capture and no stream. */
static int take_processors(struct module *m)
{
	int32_t *online = NULL;
	const size_t n = proc_cpus("", &online);
	int status = 0;

	for (size_t i = 0; i < n && status >= 0; i++) {
		struct ptah_message why = {""};
		struct device_mapping mapping;
		enum ptah_record_problem problem;
		bool known = false;

		for (size_t k = 0; k < m->stream_count; k++)
			known = known || m->streams[k].mapping.cpu == online[i];
		if (known)
			continue;
		problem = device_member(&m->device, online[i], &mapping, &why);
		if (problem)
			status = fail(m, problem, &why);
		else if (mapping.fd >= 0)
			status = module_add_stream(m, &mapping);
	}
	free(online);
	return status;
}

/* A new thread traces as the others do, or not. */
static int match(struct module *m, const struct device_mapping *mapping)
{
	const bool paused = m->records.r->status.paused || !m->records.tracing;
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct device_state state = {0};
	struct ptah_message why = {""};

	if (!device_state(mapping, &state) || state.ended)
		return 0;
	if (paused)
		device_control(mapping->fd, PTAH_IOC_PAUSE, &why);
	else if (state.state == PTAH_CAPTURE_IDLE)
		problem = device_control(mapping->fd, PTAH_IOC_START, &why);
	else if (state.state == PTAH_CAPTURE_PAUSED)
		problem = device_control(mapping->fd, PTAH_IOC_RESUME, &why);
	return problem ? fail(m, problem, &why) : 0;
}

/* The threads that have begun since the last call. */
static int take_new_threads(struct module *m)
{
	for (;;) {
		struct ptah_message why = {""};
		struct device_mapping mapping;
		enum ptah_record_problem problem =
		    device_next(&m->device, &mapping, &m->missed, &why);
		int status;

		if (problem)
			return fail(m, problem, &why);
		if (mapping.fd < 0)
			return 0;
		status = match(m, &mapping);
		if (status < 0) {
			device_release(&mapping);
			return status;
		}
		status = module_add_stream(m, &mapping);
		if (status < 0)
			return status;
	}
}

static int take_new_module_trace(struct module *m)
{
	if (m->device.captures < 0 || m->records.r->error < 0)
		return m->records.r->error;
	if (m->device.set)
		return take_processors(m);
	return m->records.events.layout.inherit ? take_new_threads(m) : 0;
}

/* Carries out a call for all captures. */
static enum ptah_record_problem control(struct module *m, unsigned long call,
					struct ptah_message *why)
{
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	if (m->device.captures < 0)
		return PTAH_RECORD_FINE;
	if (m->device.set)
		return device_control(m->device.captures, call, why);
	for (size_t i = 0; i < m->stream_count; i++) {
		struct ptah_message text = {""};
		enum ptah_record_problem one =
		    device_control(m->streams[i].mapping.fd, call, &text);

		/* A thread may have ended meanwhile. */
		if (one && one != PTAH_RECORD_NO_TARGET && !problem) {
			problem = one;
			*why = text;
		}
	}
	return problem;
}

/* Opening */

static int open_parts(struct module *m, struct ptah_recorder *r)
{
	struct ptah_message why = {""};
	enum ptah_record_problem problem = device_open(&m->device, &why);
	int status;

	if (problem)
		return recorder_fail(r, problem, recorder_status_of(problem), "%s", why.text);
	m->source.fd = epoll_create1(EPOLL_CLOEXEC);
	if (m->source.fd < 0)
		return recorder_fail(r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "too many open files (ulimit -n)");
	module_describe(&m->device.caps, &m->records.pmu);
	status = hardware_open(&m->records, r);
	if (status < 0)
		return status;
	m->recording = recording_lend(
	    r->writer, by_thread(&r->config) ? PTAH_RECORDING_THREADS : PTAH_RECORDING_CPUS,
	    r->config.buffer.policy == PTAH_RECORD_SNAPSHOT);
	return m->recording ? 0 : PTAH_E_NOMEM;
}

static int open_module_recorder(struct ptah_recorder *r)
{
	struct module *m = r->self = calloc(1, sizeof(*m));

	if (!m)
		return PTAH_E_NOMEM;
	m->device = (struct device){.fd = -1, .captures = -1};
	m->source = (struct hardware_source){.fd = -1, .by_thread = by_thread(&r->config)};
	m->records.source = &m->source;
	return open_parts(m, r);
}

static void close_recorder(struct ptah_recorder *r)
{
	struct module *m = r->self;

	if (!m)
		return;
	module_free_streams(m);
	device_close(&m->device);
	recording_give_back(m->recording);
	if (m->source.fd >= 0)
		close(m->source.fd);
	hardware_close(&m->records);
	free(m);
}

/* Starting */

/*
 * Leaves the processor. A sleep that is over before the kernel gets to the switch is none, so the
 * kernel's count of switches decides.
 */
static void sleep_once(void)
{
	const struct timespec moment = {.tv_nsec = 500000};
	struct rusage before, after;
	int tries;

	getrusage(RUSAGE_THREAD, &before);
	for (tries = 0; tries < 20; tries++) {
		nanosleep(&moment, NULL);
		getrusage(RUSAGE_THREAD, &after);
		if (after.ru_nvcsw != before.ru_nvcsw)
			break;
	}
}

/*
 * Runs on each processor for a moment: the records of these switches say who runs there when the
 * trace begins. The thread sleeps at the end, because it may not have had to move.
 */
static void visit_processors(const struct hardware *h)
{
	cpu_set_t before, one;

	if (sched_getaffinity(0, sizeof(before), &before))
		return; /* more processors than the set can hold */
	for (size_t i = 0; i < h->cpu_count; i++) {
		if (h->cpus[i] >= CPU_SETSIZE)
			continue;
		CPU_ZERO(&one);
		CPU_SET(h->cpus[i], &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
	sched_setaffinity(0, sizeof(before), &before);
	sleep_once();
}

/*
 * Everything but the beginning of the trace. The kernel's code is copied when the captures exist,
 * which change it: the driver hooks the scheduler for them.
 */
static int prepare(struct module *m)
{
	struct ptah_message why = {""};
	enum ptah_record_problem problem = make_captures(m, &why);
	int status = problem ? fail(m, problem, &why) : watch(m);

	if (status >= 0)
		status = m->device.set ? take_processors(m) : take_threads(m);
	return status < 0 ? status : hardware_start_records(&m->records);
}

static int begin_to_trace(struct module *m)
{
	struct ptah_message why = {""};
	enum ptah_record_problem problem;

	if (m->device.set)
		visit_processors(&m->records);
	problem = control(m, PTAH_IOC_START, &why);
	m->records.tracing = true;
	return problem ? fail(m, problem, &why) : 0;
}

/* The command has not run yet, and would run without being recorded. */
static void kill_command(struct hardware *h)
{
	kill(h->command.pid, SIGKILL);
	while (waitpid(h->command.pid, &h->r->status.wait_status, __WALL) < 0 && errno == EINTR)
		;
	h->command.pid = h->r->status.pid = 0;
}

static int start_command(struct module *m)
{
	struct hardware *h = &m->records;
	int status = module_run_to_exec(h);

	if (status <= 0)
		return status; /* poll() finds out that it has ended */
	status = module_place_filters(h->r, h->command.pid, &m->trace);
	if (status >= 0)
		status = prepare(m);
	if (status >= 0)
		status = begin_to_trace(m);
	if (status < 0)
		kill_command(h);
	else
		module_let_go(h->command.pid);
	return status;
}

static int start_others(struct module *m)
{
	struct ptah_recorder *r = m->records.r;
	const struct ptah_record_config *config = &r->config;
	int32_t pid = 0;
	int status;

	if (config->target.kind == PTAH_RECORD_PROCESSES)
		pid = config->target.ids[0];
	else if (m->records.tid_count)
		pid = proc_process_of("", m->records.tids[0]);
	status = module_place_filters(r, pid, &m->trace);
	if (status >= 0)
		status = prepare(m);
	if (status >= 0)
		status = begin_to_trace(m);
	return status < 0 ? status : hardware_release_command(&m->records);
}

static int start_module(struct ptah_recorder *r)
{
	struct module *m = r->self;

	module_trace_config(&r->config, m->records.events.trace_attr.config, &m->trace);
	return m->records.events.layout.on_exec ? start_command(m) : start_others(m);
}

/* Recording */

static int poll_recorder(struct ptah_recorder *r, int timeout_ms)
{
	struct module *m = r->self;
	const bool continues = hardware_wait(&m->records, timeout_ms);
	int status = take_new_module_trace(m);

	hardware_drain(&m->records, false);
	if (status >= 0)
		status = module_drain(m, false);
	return r->error < 0 ? r->error : status < 0 ? status : continues;
}

static int set_paused(struct ptah_recorder *r, bool on)
{
	struct module *m = r->self;
	enum ptah_record_problem problem;
	struct ptah_message why = {""};
	int status;

	if (r->state == RECORDER_NEW)
		return 0; /* start_module() looks at status.paused */
	status = take_new_module_trace(m);
	if (status < 0)
		return status;
	problem = control(m, on ? PTAH_IOC_PAUSE : PTAH_IOC_RESUME, &why);
	if (!problem && !hardware_switch_beside(&m->records, !on))
		problem = recorder_refuse(&why, PTAH_RECORD_BROKEN,
					  "the kernel does not switch an event");
	return problem ? fail(m, problem, &why) : 0;
}

static int take_module_snapshot(struct ptah_recorder *r)
{
	struct module *m = r->self;
	const bool pause = !r->status.paused;
	int status = pause ? set_paused(r, true) : take_new_module_trace(m);

	hardware_drain(&m->records, false);
	if (status >= 0)
		status = module_drain(m, true);
	if (status >= 0 && pause)
		status = set_paused(r, false);
	return status;
}

static int stop_module(struct ptah_recorder *r)
{
	struct module *m = r->self;
	const bool snapshots = r->config.buffer.policy == PTAH_RECORD_SNAPSHOT;
	struct ptah_message why = {""};

	take_new_module_trace(m);
	control(m, PTAH_IOC_STOP, &why);
	m->records.tracing = false;
	take_new_module_trace(m); /* threads that began meanwhile */
	control(m, PTAH_IOC_STOP, &why);
	hardware_end_records(&m->records, false);
	/* The user wanted the snapshots that were taken. If there was none, the end is taken. */
	if (r->error >= 0)
		module_drain(m, !snapshots || !r->status.snapshots);
	if (m->missed)
		recorder_note(r,
			      "threads that were not recorded, because more ran at a time than "
			      "there were buffers for (-m ,SIZE makes smaller ones): %" PRIu64,
			      m->missed);
	if (r->error >= 0)
		recorder_wrote(r, recording_end_streams(m->recording));
	return r->error;
}

const struct recorder_backend recorder_module = {
    .kind = PTAH_RECORDER_MODULE,
    .check = module_check,
    .open = open_module_recorder,
    .start = start_module,
    .poll = poll_recorder,
    .pause = set_paused,
    .snapshot = take_module_snapshot,
    .stop = stop_module,
    .close = close_recorder,
};
