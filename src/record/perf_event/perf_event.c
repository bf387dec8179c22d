/* SPDX-License-Identifier: MIT */
/*
 * The recorder hardware: Intel PT through Linux' intel_pt driver.
 *
 * It opens pairs of perf events: one for the trace, which is switched on and off, and one that
 * counts nothing and delivers the records of maps, names and switches the whole time. For what
 * existed before the recording began it writes records from /proc.
 */
#include "record/perf_event/hardware.h"

#include "perfdata/format.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#define DEFAULT_DATA (UINT64_C(512) << 10)
#define DEFAULT_AUX  (UINT64_C(4) << 20)
/* Both fit into what a user may lock in memory by default. */
#define SMALL_DATA (UINT64_C(256) << 10)
#define SMALL_AUX  (UINT64_C(128) << 10)

static struct pmu_layout layout_of(const struct ptah_record_config *config)
{
	const bool threads =
	    config->target.kind == PTAH_RECORD_THREADS || config->target.kind == PTAH_RECORD_SELF;
	const bool system = config->target.kind == PTAH_RECORD_CPUS;
	/*
	 * The kernel maps no ring for an event that follows a thread's children: such events get
	 * one ring for each processor (perf_mmap()).
	 */
	const bool inherit =
	    !system && !threads && !config->target.no_inherit && !config->target.per_thread;

	return (struct pmu_layout){
	    .per_cpu = inherit || system,
	    .system = system,
	    .inherit = inherit,
	    .on_exec = config->target.kind == PTAH_RECORD_COMMAND,
	    .paused = config->target.start_paused,
	    .snapshot = config->buffer.policy == PTAH_RECORD_SNAPSHOT,
	};
}

static struct event_targets targets_of(const struct hardware *h)
{
	return (struct event_targets){
	    .tids = h->tids,
	    .tid_count = h->tid_count,
	    .cpus = h->cpus,
	    .cpu_count = h->cpu_count,
	    .late_cpus = h->late_cpus,
	    .strict = h->r->config.target.kind != PTAH_RECORD_PROCESSES,
	};
}

static enum ptah_record_problem try_events(struct hardware *h, uint64_t word,
					   const struct event_sizes *sizes,
					   struct ptah_message *why)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct event_targets targets = targets_of(h);

	h->sizes = *sizes;
	h->events.less_count = 0;
	pmu_trace_attr(&h->pmu, config, &h->events.layout, word, sizes->aux, &h->events.trace_attr);
	if (config->triggers.start_paused)
		triggers_set_action(&h->events.trace_attr, PERFDATA_AUX_START_PAUSED);
	pmu_sideband_attr(config, &h->events.layout, sizes->data, &h->events.sideband_attr);
	/*
	 * A ring takes its watermark from the event it is made with (perf_mmap()), which is that of
	 * the trace.
	 */
	h->events.trace_attr.watermark = 1;
	h->events.trace_attr.wakeup_watermark = h->events.sideband_attr.wakeup_watermark;
	return events_open(&h->events, &targets, sizes, h->filters, why);
}

/*
 * Opens the events. If default buffers are more than this user may lock in memory, smaller ones are
 * tried (*small).
 */
static int open_events(struct hardware *h, bool *small)
{
	const struct ptah_record_config *config = &h->r->config;
	struct event_sizes sizes = {
	    .data = config->buffer.sideband ? config->buffer.sideband : DEFAULT_DATA,
	    .aux = config->buffer.size ? config->buffer.size : DEFAULT_AUX,
	};
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	uint64_t word = 0;

	h->events.layout = layout_of(config);
	if (hardware_prepare_cpus(h) < 0)
		return PTAH_E_NOMEM;
	if (h->events.has_trace && pmu_read("", &h->pmu) < 0)
		return PTAH_E_UNSUPPORTED;
	if (hardware_has_trace(h)) {
		problem = pmu_config(&h->pmu, config, &word, &why);
		if (!problem)
			problem = pmu_filters(&h->pmu, config, &h->filters, &why);
	}
	if (!problem && h->events.has_trace) {
		problem = triggers_read("", config, h->events.layout.inherit,
					h->events.trigger_attrs, &why);
		h->events.trigger_count = config->triggers.count;
	}
	if (!problem)
		problem = try_events(h, word, &sizes, &why);
	*small = problem == PTAH_RECORD_MLOCK && !(config->buffer.sideband && config->buffer.size);
	if (*small) {
		events_close(&h->events);
		sizes.data = config->buffer.sideband ? sizes.data : SMALL_DATA;
		sizes.aux = config->buffer.size ? sizes.aux : SMALL_AUX;
		problem = try_events(h, word, &sizes, &why);
	}
	return problem ? recorder_fail(h->r, problem, recorder_status_of(problem), "%s", why.text)
		       : 0;
}

static int open_beside(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct event_targets targets = targets_of(h);
	struct ptah_message why = {""};
	enum ptah_record_problem problem = beside_check("", config, &why);

	if (!problem && config->events.count) {
		h->beside = calloc(config->events.count, sizeof(*h->beside));
		if (!h->beside)
			return PTAH_E_NOMEM;
	}
	while (!problem && h->beside_count < config->events.count) {
		struct beside_event *event = &h->beside[h->beside_count];

		problem = beside_parse("", config->events.items[h->beside_count++], event, &why);
		if (!problem)
			problem = beside_open(event, &h->events.layout, &targets,
					      config->buffer.sideband, &why);
		h->beside_polled += event->events.sideband_count;
	}
	return problem ? recorder_fail(h->r, problem, recorder_status_of(problem), "%s", why.text)
		       : 0;
}

/* What poll() waits for. */
static int fill_polled(struct hardware *h)
{
	struct pollfd *p;

	h->left = h->events.sideband_count;
	h->polled =
	    calloc(HARDWARE_POLLED + h->beside_polled + h->left + h->late_cpus, sizeof(*h->polled));
	if (!h->polled)
		return PTAH_E_NOMEM;
	p = h->polled;
	*p++ = (struct pollfd){.fd = h->command.ended, .events = POLLIN};
	*p++ = (struct pollfd){.fd = h->source ? h->source->fd : -1, .events = POLLIN};
	for (size_t i = 0; i < h->beside_count; i++)
		for (size_t k = 0; k < h->beside[i].events.sideband_count; k++)
			*p++ = (struct pollfd){.fd = h->beside[i].events.sidebands[k].fd,
					       .events = POLLIN};
	for (size_t i = 0; i < h->left; i++)
		*p++ = (struct pollfd){.fd = h->events.sidebands[i].fd, .events = POLLIN};
	return 0;
}

int hardware_open(struct hardware *h, struct ptah_recorder *r)
{
	bool small;
	int status;

	h->r = r;
	h->command.socket = h->command.ended = -1;
	status = hardware_find_targets(h);
	if (status >= 0)
		status = open_events(h, &small);
	if (status >= 0)
		status = open_beside(h);
	if (status >= 0 && r->config.output.kcore && !r->config.output.sink)
		status = hardware_make_folder(h);
	if (status < 0)
		return status;
	hardware_open_elsewhere(h);
	hardware_fill_metadata(h);
	status = fill_polled(h);
	if (status >= 0)
		status = hardware_open_writer(h);
	if (status >= 0) {
		hardware_write_vdso(h);
		hardware_write_notes(h, small);
	}
	return status < 0 ? status : r->error;
}

static int open_with(struct ptah_recorder *r, bool has_trace)
{
	struct hardware *h = r->self = calloc(1, sizeof(*h));

	if (!h)
		return PTAH_E_NOMEM;
	h->events.has_trace = has_trace;
	return hardware_open(h, r);
}

static int open_perf_event_recorder(struct ptah_recorder *r)
{
	return open_with(r, true);
}

static int open_perf_event_sideband(struct ptah_recorder *r)
{
	return open_with(r, false);
}

void hardware_close(struct hardware *h)
{
	struct ptah_recorder *r = h->r;

	if (!r)
		return;
	hardware_close_command(&h->command, r->status.pid != 0);
	for (size_t i = 0; i < h->beside_count; i++)
		events_close(&h->beside[i].events);
	free(h->beside);
	events_close(&h->elsewhere);
	events_close(&h->events);
	if (!r->kept && h->made_folder) {
		if (r->writer)
			perfdata_writer_abort(r->writer);
		r->writer = NULL;
		hardware_remove_folder(h);
	}
	free(h->tids);
	free(h->cpus);
	free(h->polled);
	free(h->attempts);
	free(h->filters);
	free(h->folder);
	free(h->file);
	free(h->old_folder);
}

static void close_recorder(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	if (!h)
		return;
	hardware_close(h);
	free(h);
}

/* Calls */

bool hardware_switch_beside(const struct hardware *h, bool on)
{
	bool ok = true;

	for (size_t i = 0; i < h->beside_count; i++)
		ok = events_sideband(&h->beside[i].events, on) && ok;
	return ok;
}

int hardware_start_records(struct hardware *h)
{
	struct ptah_recorder *r = h->r;
	const struct pmu_layout *layout = &h->events.layout;
	int status = hardware_copy_kernel(h);

	if (status < 0)
		return status;
	if (!layout->on_exec &&
	    !(events_sideband(&h->elsewhere, true) && events_sideband(&h->events, true) &&
	      (r->status.paused || hardware_switch_beside(h, true))))
		return recorder_fail(r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "the kernel does not switch an event on");
	hardware_report_existing(h);
	if (layout->inherit)
		r->status.threads = (uint32_t)h->tid_count;
	return r->error;
}

static int start_perf_event(struct ptah_recorder *r)
{
	struct hardware *h = r->self;
	const struct pmu_layout *layout = &h->events.layout;
	int status = hardware_start_records(h);

	if (status < 0)
		return status;
	if (!layout->on_exec && !r->status.paused && !events_trace(&h->events, true))
		return recorder_fail(r, PTAH_RECORD_BUSY, PTAH_E_BUSY,
				     "the kernel does not switch the trace on");
	h->tracing = true;
	hardware_follow_cpus(h); /* the first look: what came online since they were counted */
	return hardware_release_command(h);
}

/*
 * Leaves the events of threads that have ended out of poll(), which would return at once because of
 * them.
 */
static void leave_out_ended(struct hardware *h)
{
	const size_t first = HARDWARE_POLLED + h->beside_polled;

	for (size_t i = HARDWARE_POLLED; i < first + h->events.sideband_count; i++)
		if (h->polled[i].fd >= 0 && h->polled[i].revents & (POLLHUP | POLLERR)) {
			h->polled[i].fd = -1;
			h->left -= i >= first;
		}
}

static bool command_has_ended(struct hardware *h)
{
	pid_t pid = waitpid(h->command.pid, &h->r->status.wait_status, WNOHANG);

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return false;
	h->command.pid = h->r->status.pid = 0;
	return true;
}

bool hardware_wait(struct hardware *h, int timeout_ms)
{
	const bool commanded = h->command.pid != 0;
	bool ended;

	if (hardware_follows_cpus(h) && (timeout_ms < 0 || timeout_ms > HARDWARE_LOOK_MS))
		timeout_ms = HARDWARE_LOOK_MS;
	if (poll(h->polled, HARDWARE_POLLED + h->beside_polled + h->events.sideband_count,
		 timeout_ms) > 0)
		leave_out_ended(h);
	/* The end is detected first, so that what the caller reads now has everything up to it. */
	ended = commanded ? command_has_ended(h) : !h->left && !h->events.layout.system;
	hardware_follow_cpus(h);
	return !ended;
}

static int poll_events(struct ptah_recorder *r, int timeout_ms)
{
	struct hardware *h = r->self;
	const bool continues = hardware_wait(h, timeout_ms);

	hardware_drain(h, r->config.buffer.policy == PTAH_RECORD_DRAIN);
	return r->error < 0 ? r->error : continues;
}

static int set_paused(struct ptah_recorder *r, bool on)
{
	struct hardware *h = r->self;

	/* The command's execve() will switch the event on, whatever is done before. */
	if (r->state == RECORDER_NEW && h->events.layout.on_exec)
		return on == h->events.layout.paused ? 0 : PTAH_E_UNSUPPORTED;
	if (r->state == RECORDER_NEW)
		return 0; /* start_perf_event() looks at status.paused */
	if (!events_trace(&h->events, !on) || !hardware_switch_beside(h, !on))
		return recorder_fail(r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "the kernel does not switch the trace %s", on ? "off" : "on");
	return 0;
}

static int take_perf_event_snapshot(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	if (!r->status.paused)
		events_trace(&h->events, false);
	hardware_drain(h, false);
	hardware_read_snapshots(h);
	hardware_sum_losses(h);
	if (!r->status.paused && r->error >= 0)
		events_trace(&h->events, true);
	return r->error;
}

static int stop_perf_event(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	h->tracing = false;
	events_trace(&h->events, false);
	hardware_end_records(h, r->config.buffer.policy != PTAH_RECORD_SNAPSHOT);
	/*
	 * The user wanted the snapshots that were taken. If there was none, the end of the trace is
	 * taken.
	 */
	if (r->config.buffer.policy == PTAH_RECORD_SNAPSHOT && !r->status.snapshots)
		hardware_read_snapshots(h);
	hardware_sum_losses(h);
	return r->error;
}

const struct recorder_backend recorder_hardware = {
    .kind = PTAH_RECORDER_HARDWARE,
    .check = hardware_check,
    .open = open_perf_event_recorder,
    .start = start_perf_event,
    .poll = poll_events,
    .pause = set_paused,
    .snapshot = take_perf_event_snapshot,
    .stop = stop_perf_event,
    .close = close_recorder,
};

const struct recorder_backend recorder_sideband = {
    .kind = PTAH_RECORDER_HARDWARE,
    .check = hardware_check_sideband,
    .open = open_perf_event_sideband,
    .start = start_perf_event,
    .poll = poll_events,
    .pause = set_paused,
    .snapshot = take_perf_event_snapshot,
    .stop = stop_perf_event,
    .close = close_recorder,
};
