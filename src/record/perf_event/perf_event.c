/* SPDX-License-Identifier: MIT */
/*
 * The recorder hardware: Intel PT by Linux' intel_pt driver.
 *
 * Two events go together: one of the trace, which is switched on and off, and
 * one that counts nothing, for the records of maps, names and switches, which
 * goes on all the time. What was there before is told from /proc.
 */
#include "record/perf_event/perf_event.h"

#include "perfdata/message.h"
#include "record/command.h"
#include "record/perf_event/events.h"
#include "record/perf_event/kcore.h"
#include "record/perf_event/proc.h"

#include <ptah/host.h>

#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_DATA   (UINT64_C(512) << 10)
#define DEFAULT_AUX    (UINT64_C(4) << 20)
#define SMALL_DATA     (UINT64_C(256) << 10) /* both fit what a user may lock by default */
#define SMALL_AUX      (UINT64_C(128) << 10)
#define FLUSH_INTERVAL 1 /* seconds */

#define PERFDATA_FINISHED_ROUND 68 /* what comes later is of later: perf's sorting wants it */

/* A command that was made to wait before its execve(). */
struct waiting {
	pid_t pid;
	int socket; /* a byte lets it run; it answers with errno when it could not */
	int ended;  /* pidfd; -1: none */
};

struct hardware {
	struct ptah_recorder *r;
	struct pmu pmu;
	struct events events;
	struct waiting command;
	int32_t *tids, *cpus;
	size_t tid_count, cpu_count;
	struct pollfd *polled; /* those of the records' events, then of the command */
	size_t left;	       /* of them, events of what still runs */
	char *filters;
	char *folder, *file; /* of a recording with a copy of the kernel: OUTPUT, OUTPUT/data */
	char *old_folder;
	bool made_folder;
	bool tracing; /* the trace is on, apart from pauses */
	bool wrote;   /* records since the last round */
	time_t flushed;
};

/* What can be checked */

static bool is_power_of_pages(uint64_t size)
{
	return !(size & (size - 1)) && size >= 4096;
}

static enum ptah_record_problem check_sizes(const struct ptah_record_config *config,
					    struct ptah_message *why)
{
	/* Output stops at the end of a ToPA region alone, a page at least: one is written to
	 * while the other is taken. */
	const unsigned least = config->buffer == PTAH_RECORD_SNAPSHOT ? 4096 : 8192;

	if (config->buffer_size &&
	    (!is_power_of_pages(config->buffer_size) || config->buffer_size < least ||
	     config->buffer_size > UINT64_C(1) << 31))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "trace buffer of %" PRIu64
				       " bytes: it must be a power of two "
				       "from %u to 2147483648",
				       config->buffer_size, least);
	if (config->sideband_size && (!is_power_of_pages(config->sideband_size) ||
				      config->sideband_size > UINT64_C(1) << 31))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "ring of records of %" PRIu64
				       " bytes: it must be a power of "
				       "two from 4096 to 2147483648",
				       config->sideband_size);
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_command(const struct ptah_record_config *config,
					      struct ptah_message *why)
{
	char *program;
	bool found;

	if (!config->argv || !config->argv[0])
		return PTAH_RECORD_FINE;
	program = command_find(config->argv[0]);
	found = program && access(program, X_OK) == 0;
	free(program);
	return found ? PTAH_RECORD_FINE
		     : recorder_refuse(why, PTAH_RECORD_NO_TARGET, "%s: no such command",
				       config->argv[0]);
}

static enum ptah_record_problem check_host(const struct ptah_host *host,
					   const struct ptah_record_config *config,
					   struct ptah_message *why)
{
	const char *what = config->target == PTAH_RECORD_CPUS && !host->may_cpu ? "whole processors"
			   : config->kernel && !host->may_kernel		? "the kernel"
										: NULL;

	if (host->obstacle == PTAH_HOST_PROCESSOR)
		return recorder_refuse(why, PTAH_RECORD_NO_PROCESSOR, "%s",
				       host->caps.obstacle == PTAH_CAPS_NOT_INTEL ||
					       host->caps.obstacle == PTAH_CAPS_NO_PT
					   ? "this processor has no Intel PT"
					   : ptah_caps_advice(host->caps.obstacle));
	if (host->obstacle == PTAH_HOST_DRIVER)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER, "the kernel offers no intel_pt");
	if (host->obstacle == PTAH_HOST_PERMISSION)
		what = "anything";
	return what
		   ? recorder_refuse(why, PTAH_RECORD_PERMISSION,
				     "kernel.perf_event_paranoid is %d: this user may not trace %s",
				     host->paranoid, what)
		   : PTAH_RECORD_FINE;
}

/* What concerns no processor, driver or permission. */
static enum ptah_record_problem check_wishes(const char *root,
					     const struct ptah_record_config *config,
					     struct ptah_message *why)
{
	enum ptah_record_problem problem = check_sizes(config, why);
	int status = 0;

	if (!problem && config->long_tnt)
		problem = recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
					  "a processor chooses between TNT-8 and TNT-64 by itself");
	if (!problem && config->kcore && config->sink && config->sink->take)
		problem =
		    recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				    "a copy of the kernel's code needs a folder to go to, not a "
				    "callback");
	if (!problem && config->kcore)
		status = kcore_check(root, why);
	if (status < 0)
		return status == PTAH_E_MISSING ? PTAH_RECORD_NOT_POSSIBLE : PTAH_RECORD_PERMISSION;
	return problem ? problem : check_command(config, why);
}

enum ptah_record_problem perf_event_check(const struct ptah_caps *caps, const char *root,
					  const struct ptah_record_config *config,
					  struct ptah_message *why)
{
	struct ptah_host host = {.size = sizeof(host)};
	enum ptah_record_problem problem;
	struct pmu pmu;
	uint64_t word;
	char *filters;

	ptah_host_look(caps, root, &host);
	problem = check_host(&host, config, why);
	if (problem)
		return problem;
	if (pmu_read(root ? root : "", &pmu) < 0)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER, "the kernel offers no intel_pt");
	problem = pmu_config(&pmu, config, &word, why);
	if (!problem)
		problem = pmu_filters(&pmu, config, &filters, why);
	if (problem)
		return problem;
	free(filters);
	return check_wishes(root ? root : "", config, why);
}

static enum ptah_record_problem check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	return perf_event_check(NULL, NULL, config, why);
}

static enum ptah_record_problem check_sideband(const struct ptah_record_config *config,
					       struct ptah_message *why)
{
	return check_wishes("", config, why);
}

/* The command */

/* In the child: never returns. */
static void run_command(char *const *argv, int socket)
{
	char byte;
	ssize_t n;

	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1) {
		execvp(argv[0], argv);
		/* Who reads it has the sentence for people. */
		n = send(socket, &errno, sizeof(errno), MSG_NOSIGNAL);
	}
	_exit(127);
}

static int fork_command(struct hardware *h)
{
	struct waiting *c = &h->command;
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return recorder_fail(h->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "%s cannot be started: too many open files (ulimit -n)",
				     h->r->config.argv[0]);
	c->pid = fork();
	if (c->pid == 0) {
		close(sockets[0]); /* so that it sees when we are killed, and does not wait on */
		run_command(h->r->config.argv, sockets[1]);
	}
	close(sockets[1]);
	c->socket = sockets[0];
	if (c->pid < 0) {
		c->pid = 0;
		return recorder_fail(h->r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "%s cannot be started: no more processes (ulimit -u)",
				     h->r->config.argv[0]);
	}
	c->ended = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return 0;
}

/* Lets the command run, and sees whether its execve() did. */
static int release_command(struct hardware *h)
{
	struct waiting *c = &h->command;
	int error = 0;
	ssize_t n;

	if (!c->pid)
		return 0;
	h->r->status.pid = c->pid;
	/* When somebody has killed it already, waitpid() will tell. */
	(void)send(c->socket, "", 1, MSG_NOSIGNAL);
	do
		n = read(c->socket, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(error))
		return 0; /* its end was closed by execve() */
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = h->r->status.pid = 0;
	return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
			     "%s cannot be started: %s", h->r->config.argv[0],
			     strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
}

static void close_command(struct waiting *c, bool started)
{
	if (c->socket >= 0)
		close(c->socket);
	if (c->ended >= 0)
		close(c->ended);
	if (!c->pid || started)
		return;
	kill(c->pid, SIGKILL); /* it waits still */
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Targets */

/* Whether the id has been named before: two events of the driver on one thing are refused. */
static bool is_repeated(const struct ptah_record_config *config, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (config->ids[k] == config->ids[i])
			return true;
	return false;
}

static bool copy_ids(const struct ptah_record_config *config, int32_t **ids, size_t *n)
{
	*n = 0;
	*ids = calloc(config->id_count ? config->id_count : 1, sizeof(**ids));
	for (size_t i = 0; *ids && i < config->id_count; i++)
		if (!is_repeated(config, i))
			(*ids)[(*n)++] = config->ids[i];
	return *ids != NULL;
}

/* The threads of all processes that are asked for. */
static int find_threads(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;

	for (size_t i = 0; i < config->id_count; i++) {
		int32_t *some, *all;
		size_t n;

		if (is_repeated(config, i))
			continue;
		n = proc_threads("", config->ids[i], &some);
		if (!n) {
			free(some);
			return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
					     "there is no process %d", config->ids[i]);
		}
		all = realloc(h->tids, (h->tid_count + n) * sizeof(*all));
		if (all) {
			memcpy(all + h->tid_count, some, n * sizeof(*all));
			h->tids = all;
			h->tid_count += n;
		}
		free(some);
		if (!all)
			return PTAH_E_NOMEM;
	}
	return 0;
}

static bool one_thread(struct hardware *h, int32_t tid)
{
	h->tids = calloc(1, sizeof(*h->tids));
	if (!h->tids)
		return false;
	h->tids[h->tid_count++] = tid;
	return true;
}

/* Those that are named, if any, else all that are online. */
static int find_processors(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	size_t named = config->target == PTAH_RECORD_CPUS ? config->id_count : 0;

	h->cpu_count = proc_cpus("", &h->cpus);
	if (!h->cpu_count)
		return recorder_fail(h->r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "/sys/devices/system/cpu/online does not tell the processors");
	for (size_t i = 0; i < named; i++) {
		bool online = false;

		for (size_t k = 0; k < h->cpu_count; k++)
			online = online || h->cpus[k] == config->ids[i];
		if (!online)
			return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
					     "processor %d is not there, or not online",
					     config->ids[i]);
	}
	if (!named)
		return 0;
	free(h->cpus);
	return copy_ids(config, &h->cpus, &h->cpu_count) ? 0 : PTAH_E_NOMEM;
}

static int find_targets(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	bool ok = true;
	int status = config->argv && config->argv[0] ? fork_command(h) : 0;

	if (status < 0)
		return status;
	switch (config->target) {
	case PTAH_RECORD_COMMAND:
		ok = one_thread(h, h->command.pid);
		break;
	case PTAH_RECORD_PROCESSES:
		status = find_threads(h);
		break;
	case PTAH_RECORD_THREADS:
		ok = copy_ids(config, &h->tids, &h->tid_count);
		break;
	case PTAH_RECORD_SELF:
		ok = one_thread(h, gettid());
		break;
	default:
		break;
	}
	if (!ok)
		return PTAH_E_NOMEM;
	return status < 0 ? status : find_processors(h);
}

static struct pmu_layout layout_of(const struct ptah_record_config *config)
{
	const bool threads =
	    config->target == PTAH_RECORD_THREADS || config->target == PTAH_RECORD_SELF;
	const bool system = config->target == PTAH_RECORD_CPUS;
	/* The kernel maps no ring for a thread and what it begets: it is one for each
	 * processor then (perf_mmap()). */
	const bool inherit = !system && !threads && !config->no_inherit && !config->per_thread;

	return (struct pmu_layout){
	    .per_cpu = inherit || system,
	    .system = system,
	    .inherit = inherit,
	    .on_exec = config->target == PTAH_RECORD_COMMAND,
	    .paused = config->start_paused,
	    .snapshot = config->buffer == PTAH_RECORD_SNAPSHOT,
	};
}

/* Events */

static enum ptah_record_problem try_events(struct hardware *h, uint64_t word,
					   const struct event_sizes *sizes,
					   struct ptah_message *why)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct event_targets targets = {
	    .tids = h->tids,
	    .tid_count = h->tid_count,
	    .cpus = h->cpus,
	    .cpu_count = h->cpu_count,
	    .strict = config->target != PTAH_RECORD_PROCESSES,
	};

	h->events.less_count = 0;
	pmu_trace_attr(&h->pmu, config, &h->events.layout, word, sizes->aux, &h->events.trace_attr);
	pmu_sideband_attr(config, &h->events.layout, sizes->data, &h->events.sideband_attr);
	/* The ring has its watermark of the event that makes it (perf_mmap()). */
	h->events.trace_attr.watermark = 1;
	h->events.trace_attr.wakeup_watermark = h->events.sideband_attr.wakeup_watermark;
	return events_open(&h->events, &targets, sizes, h->filters, why);
}

static int status_of(enum ptah_record_problem problem)
{
	return problem == PTAH_RECORD_NO_MEMORY	   ? PTAH_E_NOMEM
	       : problem == PTAH_RECORD_NO_TARGET  ? PTAH_E_MISSING
	       : problem == PTAH_RECORD_BUSY	   ? PTAH_E_BUSY
	       : problem == PTAH_RECORD_BAD_OPTION ? PTAH_E_INVAL
						   : PTAH_E_SYSTEM;
}

/* Buffers of the default size may be too large for a user without privileges. */
static int open_events(struct hardware *h, bool *small)
{
	const struct ptah_record_config *config = &h->r->config;
	struct event_sizes sizes = {
	    .data = config->sideband_size ? config->sideband_size : DEFAULT_DATA,
	    .aux = config->buffer_size ? config->buffer_size : DEFAULT_AUX,
	};
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	uint64_t word = 0;

	h->events.layout = layout_of(config);
	if (h->events.has_trace) {
		if (pmu_read("", &h->pmu) < 0)
			return PTAH_E_UNSUPPORTED;
		problem = pmu_config(&h->pmu, config, &word, &why);
		if (!problem)
			problem = pmu_filters(&h->pmu, config, &h->filters, &why);
	}
	if (!problem)
		problem = try_events(h, word, &sizes, &why);
	*small = problem == PTAH_RECORD_MLOCK && !(config->sideband_size && config->buffer_size);
	if (*small) {
		events_close(&h->events);
		sizes.data = config->sideband_size ? sizes.data : SMALL_DATA;
		sizes.aux = config->buffer_size ? sizes.aux : SMALL_AUX;
		problem = try_events(h, word, &sizes, &why);
	}
	return problem ? recorder_fail(h->r, problem, status_of(problem), "%s", why.text) : 0;
}

/* Output */

/* OUTPUT becomes a folder with the recording and the copy of the kernel. */
static int make_folder(struct hardware *h)
{
	struct ptah_recorder *r = h->r;
	const char *output = r->config.output ? r->config.output : "perf.data";
	struct ptah_message why = {""};
	struct stat st;

	h->folder = strdup(output);
	if (!h->folder || asprintf(&h->file, "%s/data", output) < 0) {
		h->file = NULL;
		return PTAH_E_NOMEM;
	}
	if (asprintf(&h->old_folder, "%s.old", output) < 0) {
		h->old_folder = NULL;
		return PTAH_E_NOMEM;
	}
	if (stat(output, &st) != 0) {
		free(h->old_folder); /* nothing to put back */
		h->old_folder = NULL;
	} else if (rename(output, h->old_folder)) {
		perfdata_system_message(&why, errno, output, "rename the old recording");
		free(h->old_folder);
		h->old_folder = NULL;
		return recorder_fail(r, PTAH_RECORD_OUTPUT, PTAH_E_SYSTEM, "%s", why.text);
	}
	if (mkdir(output, 0700)) {
		perfdata_system_message(&why, errno, output, "create");
		return recorder_fail(r, PTAH_RECORD_OUTPUT, PTAH_E_SYSTEM, "%s", why.text);
	}
	h->made_folder = true;
	r->config.output = h->file;
	return 0;
}

static void remove_folder(struct hardware *h)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/kcore_dir", h->folder);
	kcore_remove(path);
	unlink(h->file);
	rmdir(h->folder);
	if (h->old_folder && rename(h->old_folder, h->folder))
		return; /* it stays as OUTPUT.old */
}

static void fill_metadata(struct hardware *h)
{
	struct ptah_record_metadata *m = &h->r->metadata;
	struct ptah_host host = {.size = sizeof(host)};
	uint32_t r[4] = {0};

	ptah_host_look(NULL, NULL, &host);
	__cpuid(0, r[0], r[1], r[2], r[3]);
	memcpy(m->vendor, &r[1], 4);
	memcpy(m->vendor + 4, &r[3], 4);
	memcpy(m->vendor + 8, &r[2], 4);
	m->family = host.caps.family;
	m->model = host.caps.model;
	m->stepping = host.caps.stepping;
	memcpy(m->cpuid_14[0], host.caps.leaf_14_0, sizeof(m->cpuid_14[0]));
	memcpy(m->cpuid_14[1], host.caps.leaf_14_1, sizeof(m->cpuid_14[1]));
	memcpy(m->cpuid_15, host.caps.leaf_15, sizeof(m->cpuid_15));
	m->nominal_ratio =
	    h->pmu.max_nonturbo_ratio ? h->pmu.max_nonturbo_ratio : host.caps.max_nonturbo_ratio;
	if (!h->events.has_trace)
		return;
	m->pmu_type = h->pmu.type;
	m->rtit_ctl = pmu_rtit_ctl(&h->pmu, &h->events.trace_attr);
	if (!h->pmu.tsc_art_n || !h->pmu.tsc_art_d) {
		h->pmu.tsc_art_n = host.caps.tsc_n;
		h->pmu.tsc_art_d = host.caps.tsc_d;
	}
}

/* The ids of events, the caller's to free. */
static uint64_t *ids_of(const struct event *events, size_t count)
{
	uint64_t *ids = calloc(count ? count : 1, sizeof(*ids));

	for (size_t i = 0; ids && i < count; i++)
		ids[i] = events[i].id;
	return ids;
}

static const char *event_name(const struct ptah_record_config *config, bool trace)
{
	if (!config->kernel)
		return trace ? "intel_pt//u" : "dummy:u";
	if (!trace)
		return "dummy";
	return config->user ? "intel_pt//" : "intel_pt//k";
}

static void fill_driver(const struct hardware *h, struct perfdata_driver *driver)
{
	/* Only where a buffer holds several threads: else perf looks for them in vain. */
	if (h->events.layout.per_cpu && h->events.sideband_attr.context_switch)
		driver->sched_switch = h->events.layout.system ? 3 : 2;
	driver->snapshot = h->events.layout.snapshot;
	driver->per_cpu = h->events.layout.per_cpu;
	if (!h->events.has_trace)
		return;
	driver->pmu_type = h->pmu.type;
	driver->tsc_bit = pmu_bits(&h->pmu, "tsc");
	driver->noretcomp_bit = pmu_bits(&h->pmu, "noretcomp");
	driver->mtc_bit = pmu_bits(&h->pmu, "mtc");
	driver->mtc_freq_bits = pmu_bits(&h->pmu, "mtc_period");
	driver->cyc_bit = pmu_bits(&h->pmu, "cyc");
}

static int open_writer(struct hardware *h)
{
	struct ptah_record_metadata *m = &h->r->metadata;
	const struct ptah_record_config *config = &h->r->config;
	uint64_t *traces = ids_of(h->events.traces, h->events.trace_count);
	uint64_t *sidebands = ids_of(h->events.sidebands, h->events.sideband_count);
	char *pmus = pmu_list(""), cpuid[64];
	const struct perfdata_event events[] = {
	    {event_name(config, true), &h->events.trace_attr, traces, h->events.trace_count},
	    {event_name(config, false), &h->events.sideband_attr, sidebands,
	     h->events.sideband_count},
	};
	struct perfdata_driver driver = {
	    .events = h->events.has_trace ? events : events + 1,
	    .event_count = h->events.has_trace ? 2 : 1,
	    .pmus = pmus,
	    .cpuid = cpuid,
	};
	struct perfdata_writer_config writer = {
	    .driver = &driver,
	    .filter = h->filters,
	    .tsc_n = h->pmu.tsc_art_n,
	    .tsc_d = h->pmu.tsc_art_d,
	    .max_nonturbo_ratio = m->nominal_ratio,
	};
	int status = PTAH_E_NOMEM;

	fill_driver(h, &driver);
	driver.time_zero = events_clock(&h->events, &m->time_shift, &m->time_mult, &m->time_zero);
	writer.clock = (struct perfdata_clock){m->time_shift, m->time_mult, m->time_zero};
	snprintf(cpuid, sizeof(cpuid), "%s,%u,%u,%u", m->vendor, m->family, m->model, m->stepping);
	if (traces && sidebands)
		status = recorder_open_writer(h->r, &writer);
	free(traces);
	free(sidebands);
	free(pmus);
	return status;
}

/* What is different from what was asked for, or from what newer kernels tell. */
static void write_notes(struct hardware *h, bool small)
{
	if (small)
		recorder_note(h->r,
			      "this user may not lock much memory: buffers of %" PRIu64
			      " KiB of trace and %" PRIu64 " KiB of records for each %s",
			      h->events.has_trace ? h->events.rings[0].ring.aux_size >> 10 : 0,
			      h->events.rings[0].ring.data_size >> 10,
			      h->events.layout.per_cpu ? "processor" : "thread");
	for (size_t i = 0; i < h->events.less_count; i++)
		recorder_note(h->r, "this kernel does not tell of %s", h->events.less[i]);
	if (h->r->metadata.pmu_type && !h->r->metadata.time_mult)
		recorder_note(h->r, "this kernel does not tell how TSC becomes time");
}

static int open_with(struct ptah_recorder *r, bool has_trace)
{
	struct hardware *h = r->self = calloc(1, sizeof(*h));
	bool small;
	int status;

	if (!h)
		return PTAH_E_NOMEM;
	h->r = r;
	h->events.has_trace = has_trace;
	h->command.socket = h->command.ended = -1;
	status = find_targets(h);
	if (status >= 0)
		status = open_events(h, &small);
	if (status >= 0 && r->config.kcore && !r->config.sink)
		status = make_folder(h);
	if (status < 0)
		return status;
	fill_metadata(h);
	h->left = h->events.sideband_count;
	h->polled = calloc(h->left + 1, sizeof(*h->polled));
	if (!h->polled)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < h->left; i++)
		h->polled[i] = (struct pollfd){.fd = h->events.sidebands[i].fd, .events = POLLIN};
	h->polled[h->left] = (struct pollfd){.fd = h->command.ended, .events = POLLIN};
	status = open_writer(h);
	if (status >= 0)
		write_notes(h, small);
	return status < 0 ? status : r->error;
}

static int open_recorder(struct ptah_recorder *r)
{
	return open_with(r, true);
}

static int open_sideband(struct ptah_recorder *r)
{
	return open_with(r, false);
}

static void close_recorder(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	if (!h)
		return;
	close_command(&h->command, r->status.pid != 0);
	events_close(&h->events);
	if ((r->state != RECORDER_FINISHED || r->error < 0) && h->made_folder) {
		if (r->writer)
			perfdata_writer_abort(r->writer);
		r->writer = NULL;
		remove_folder(h);
	}
	free(h->tids);
	free(h->cpus);
	free(h->polled);
	free(h->filters);
	free(h->folder);
	free(h->file);
	free(h->old_folder);
	free(h);
}

/* Records and trace */

static int take_record(void *context, const uint8_t *record, size_t size)
{
	struct hardware *h = context;
	uint32_t type, pid, ppid;

	memcpy(&type, record, sizeof(type));
	if (type == PERF_RECORD_FORK && size >= 16) {
		memcpy(&pid, record + 8, sizeof(pid));
		memcpy(&ppid, record + 12, sizeof(ppid));
		h->r->status.processes += pid != ppid;
		h->r->status.threads += h->events.layout.inherit;
	}
	h->r->status.sideband_bytes += size;
	h->wrote = true;
	return recorder_wrote(h->r, perfdata_write_raw(h->r->writer, record, size));
}

static void write_trace(struct hardware *h, size_t ring, const struct ring_trace *trace)
{
	struct event_ring *r = &h->events.rings[ring];
	const struct perfdata_aux aux = {
	    .index = (uint32_t)ring,
	    .tid = r->tid,
	    .cpu = r->cpu,
	    .offset = trace->offset,
	    .reference = __builtin_ia32_rdtsc(),
	    .bytes = trace->bytes,
	    .size = trace->size,
	};

	/* A processor's buffer holds many: those that begin are counted (take_record()). */
	h->r->status.threads += !h->events.layout.inherit && !r->traced;
	r->traced = true;
	h->r->status.trace_bytes += trace->size;
	recorder_wrote(h->r, perfdata_write_aux(h->r->writer, &aux));
}

static void sum_losses(struct hardware *h)
{
	struct ptah_record_losses *sum = &h->r->status.losses;

	*sum = (struct ptah_record_losses){0};
	for (size_t i = 0; i < h->events.ring_count; i++) {
		const struct ptah_record_losses *l = &h->events.rings[i].ring.losses;

		sum->truncated += l->truncated;
		sum->overwritten += l->overwritten;
		sum->partial += l->partial;
		sum->collisions += l->collisions;
		sum->lost_records += l->lost_records;
	}
}

static void read_records(struct hardware *h, size_t i)
{
	int status = ring_read_records(&h->events.rings[i].ring, take_record, h);

	if (status == PTAH_E_BAD_FILE)
		recorder_fail(h->r, PTAH_RECORD_BROKEN, status,
			      "the kernel's ring of records %zu holds what is no record", i);
}

/*
 * The kernel switches an event off when its buffer is full, and does not always
 * say so: not where the thread found it full as it was switched in. Now there is
 * room; an event that is on stays as it is.
 */
static void read_trace(struct hardware *h, size_t i)
{
	struct ring *ring = &h->events.rings[i].ring;
	struct ring_trace trace;
	bool some = ring_read_trace(ring, &trace);

	if (some)
		write_trace(h, i, &trace);
	if ((some || ring->cut) && h->tracing && !h->r->status.paused)
		events_resume_ring(&h->events, i);
	ring->cut = false;
}

static void drain(struct hardware *h, bool traces)
{
	static const uint32_t round[2] = {PERFDATA_FINISHED_ROUND, 8u << 16};
	time_t now = time(NULL);

	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++) {
		read_records(h, i);
		if (traces)
			read_trace(h, i);
	}
	if (h->wrote && h->r->error >= 0)
		recorder_wrote(h->r, perfdata_write_raw(h->r->writer, round, sizeof(round)));
	h->wrote = false;
	sum_losses(h);
	if (now - h->flushed >= FLUSH_INTERVAL && h->r->error >= 0) {
		recorder_wrote(h->r, perfdata_writer_flush(h->r->writer));
		h->flushed = now;
	}
}

/* Each ring's last bytes, while nothing is traced. */
static void read_snapshots(struct hardware *h)
{
	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++) {
		struct ring_trace trace;

		if (ring_read_snapshot(&h->events.rings[i].ring, &trace))
			write_trace(h, i, &trace);
	}
}

/* What was there before */

/* Telling takes its time on a busy machine, whose rings fill meanwhile. */
static int take_told(void *context, const uint8_t *record, size_t size)
{
	struct hardware *h = context;

	h->r->status.sideband_bytes += size;
	recorder_wrote(h->r, perfdata_write_raw(h->r->writer, record, size));
	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++)
		if (ring_is_filling(&h->events.rings[i].ring))
			read_records(h, i);
	return h->r->error;
}

static bool was_told(const struct hardware *h, size_t i, int32_t pid)
{
	for (size_t k = 0; k < i; k++)
		if (proc_process_of("", h->tids[k]) == pid)
			return true;
	return false;
}

static void tell_targets(struct hardware *h, const struct proc_teller *teller)
{
	const struct ptah_record_config *config = &h->r->config;
	const bool whole = config->target == PTAH_RECORD_PROCESSES;
	const size_t n = whole ? config->id_count : h->tid_count;

	for (size_t i = 0; i < n && h->r->error >= 0; i++) {
		int32_t tid = whole ? config->ids[i] : h->tids[i];
		int32_t pid = whole ? tid : proc_process_of("", tid);
		int status;

		if (whole && is_repeated(config, i))
			continue;
		status = pid ? proc_tell(teller, pid, whole ? 0 : tid) : PTAH_E_MISSING;
		h->r->status.processes += whole || !was_told(h, i, pid);
		if (status == PTAH_E_SYSTEM)
			recorder_note(h->r,
				      "the mappings of process %d may not be read: what was mapped "
				      "before the recording is missing",
				      pid);
	}
}

static void tell_what_is_there(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct proc_teller teller = {
	    .root = "",
	    .id = h->events.sidebands[0].id,
	    .build_ids = true,
	    .take = take_told,
	    .context = h,
	};

	if (config->kernel && proc_tell_kernel(&teller) == PTAH_E_MISSING)
		recorder_note(h->r, "the kernel's addresses are hidden (kernel.kptr_restrict): its "
				    "code is not in the recording");
	if (config->target == PTAH_RECORD_CPUS)
		proc_tell_all(&teller);
	else if (config->target == PTAH_RECORD_COMMAND)
		h->r->status.processes++; /* it has nothing before its execve() */
	else
		tell_targets(h, &teller);
}

/* Calls */

static int copy_kernel(struct hardware *h)
{
	struct ptah_message why = {""};
	char path[4096];
	int status;

	if (!h->made_folder)
		return 0;
	snprintf(path, sizeof(path), "%s/kcore_dir", h->folder);
	status = kcore_copy("", path, &why);
	return status < 0 ? recorder_fail(h->r, PTAH_RECORD_OUTPUT, status, "%s", why.text) : 0;
}

static int start(struct ptah_recorder *r)
{
	struct hardware *h = r->self;
	const struct pmu_layout *layout = &h->events.layout;
	int status = copy_kernel(h);

	if (status < 0)
		return status;
	if (!layout->on_exec && !events_sideband(&h->events, true))
		return recorder_fail(r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "the kernel does not switch an event on");
	tell_what_is_there(h);
	if (layout->inherit)
		r->status.threads = (uint32_t)h->tid_count;
	if (r->error < 0)
		return r->error;
	if (!layout->on_exec && !r->status.paused && !events_trace(&h->events, true))
		return recorder_fail(r, PTAH_RECORD_BUSY, PTAH_E_BUSY,
				     "the kernel does not switch the trace on");
	h->tracing = true;
	return release_command(h);
}

/* Events of what has ended are heard of no more: poll() would not wait any longer. */
static void leave_out_ended(struct hardware *h)
{
	for (size_t i = 0; i < h->events.sideband_count; i++)
		if (h->polled[i].fd >= 0 && h->polled[i].revents & (POLLHUP | POLLERR)) {
			h->polled[i].fd = -1;
			h->left--;
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

static int poll_events(struct ptah_recorder *r, int timeout_ms)
{
	struct hardware *h = r->self;
	const bool commanded = h->command.pid != 0;
	bool ended;

	if (poll(h->polled, h->events.sideband_count + 1, timeout_ms) > 0)
		leave_out_ended(h);
	/* First this: what it did to its end is there then. */
	ended = commanded ? command_has_ended(h) : !h->left;
	drain(h, r->config.buffer == PTAH_RECORD_DRAIN);
	return r->error < 0 ? r->error : !ended;
}

static int set_paused(struct ptah_recorder *r, bool on)
{
	struct hardware *h = r->self;

	/* The next execve() switches the event on whatever happens before. */
	if (r->state == RECORDER_NEW && h->events.layout.on_exec)
		return on == h->events.layout.paused ? 0 : PTAH_E_UNSUPPORTED;
	if (r->state == RECORDER_NEW)
		return 0; /* start() looks */
	if (!events_trace(&h->events, !on))
		return recorder_fail(r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "the kernel does not switch the trace %s", on ? "off" : "on");
	return 0;
}

static int take_snapshot(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	if (!r->status.paused)
		events_trace(&h->events, false);
	drain(h, false);
	read_snapshots(h);
	sum_losses(h);
	if (!r->status.paused && r->error >= 0)
		events_trace(&h->events, true);
	return r->error;
}

static int stop(struct ptah_recorder *r)
{
	struct hardware *h = r->self;

	h->tracing = false;
	events_trace(&h->events, false);
	events_sideband(&h->events, false);
	drain(h, r->config.buffer != PTAH_RECORD_SNAPSHOT);
	/* What snapshots found is what was wanted; without any, it is the end. */
	if (r->config.buffer == PTAH_RECORD_SNAPSHOT && !r->status.snapshots)
		read_snapshots(h);
	sum_losses(h);
	return r->error;
}

const struct recorder_backend recorder_hardware = {
    .kind = PTAH_RECORDER_HARDWARE,
    .check = check,
    .open = open_recorder,
    .start = start,
    .poll = poll_events,
    .pause = set_paused,
    .snapshot = take_snapshot,
    .stop = stop,
    .close = close_recorder,
};

const struct recorder_backend recorder_sideband = {
    .kind = PTAH_RECORDER_HARDWARE,
    .check = check_sideband,
    .open = open_sideband,
    .start = start,
    .poll = poll_events,
    .pause = set_paused,
    .snapshot = take_snapshot,
    .stop = stop,
    .close = close_recorder,
};
