/* SPDX-License-Identifier: MIT */
/* Opens the perf events of a recording, maps their rings, and switches them on and off. */
#include "record/perf_event/events.h"

#include "base/compiler.h"
#include "perfdata/format.h"
#include "record/recorder.h"
#include "record/tsc_clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Two events for each thread on each processor quickly exceed the usual soft limit of 1024 open
 * files. False: the hard limit is too low.
 */
static bool raise_file_limit(struct events *e)
{
	const int error = errno;
	struct rlimit limit;
	uint64_t before;

	if (e->files || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max)
		return false;
	before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		e->files = before;
	errno = error;
	return e->files != 0;
}

static void restore_file_limit(struct events *e)
{
	struct rlimit limit;

	if (!e->files || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = e->files;
	setrlimit(RLIMIT_NOFILE, &limit);
	e->files = 0;
}

/* group: the event whose group it joins; -1: none. */
static int open_in_group(struct events *e, const struct perf_event_attr *attr, int32_t tid,
			 int32_t cpu, int group)
{
	int fd;

	do {
		/* perf_event_open() writes the size that it expects into it. */
		struct perf_event_attr copy = *attr;

		fd =
		    (int)syscall(SYS_perf_event_open, &copy, tid, cpu, group, PERF_FLAG_FD_CLOEXEC);
	} while (fd < 0 && errno == EMFILE && raise_file_limit(e));
	return fd;
}

static int open_event(struct events *e, const struct perf_event_attr *attr, int32_t tid,
		      int32_t cpu)
{
	return open_in_group(e, attr, tid, cpu, -1);
}

/* "thread 12 on processor 3" */
static void name_place(int32_t tid, int32_t cpu, char *text, size_t size)
{
	char thread[32] = "", processor[32] = "";

	if (tid >= 0)
		snprintf(thread, sizeof(thread), "thread %d", tid);
	if (cpu >= 0)
		snprintf(processor, sizeof(processor), "processor %d", cpu);
	snprintf(text, size, "%s%s%s", thread, *thread && *processor ? " on " : "", processor);
}

static enum ptah_record_problem too_many(int error, struct ptah_message *why)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	return recorder_refuse(
	    why, PTAH_RECORD_NO_MEMORY,
	    error == ENFILE
		? "the system has no descriptors left (sysctl fs.file-max)"
		: "the limit of %llu open files is too low: two are needed for each thread on "
		  "each processor (ulimit -n)",
	    (unsigned long long)limit.rlim_cur);
}

enum ptah_record_problem events_refused(int error, const struct perf_event_attr *attr, int32_t tid,
					int32_t cpu, struct ptah_message *why)
{
	char place[80];

	name_place(tid, cpu, place, sizeof(place));
	switch (error) {
	case EACCES:
	case EPERM:
		return recorder_refuse(why, PTAH_RECORD_PERMISSION,
				       "%s may not be recorded%s by this user: the kernel refuses "
				       "(perf_event_open)",
				       place,
				       attr->exclude_kernel ? "" : " with the kernel's part");
	case EBUSY:
		return recorder_refuse(why, PTAH_RECORD_BUSY,
				       "Intel PT of %s is in use: another tracer, or a hypervisor, "
				       "has it",
				       place);
	case ESRCH:
		return recorder_refuse(why, PTAH_RECORD_NO_TARGET, "there is no thread %d", tid);
	case ENODEV:
		return recorder_refuse(
		    why, PTAH_RECORD_NO_TARGET,
		    "processor %d is not there, or not online, or has no Intel PT", cpu);
	case ENOENT:
	case EOPNOTSUPP:
	case ENXIO:
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER,
				       "the kernel has no event of type %" PRIu32, attr->type);
	case EMFILE:
	case ENFILE:
		return too_many(error, why);
	case ENOMEM:
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY,
				       "the kernel has no memory for the events");
	case ENOSYS:
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER,
				       "this kernel has no perf events (CONFIG_PERF_EVENTS), or a "
				       "seccomp filter keeps them away");
	default:
		return recorder_refuse(
		    why, PTAH_RECORD_BAD_OPTION,
		    "the kernel refuses the event (type %" PRIu32 ", config 0x%llx) for %s: %s",
		    attr->type, (unsigned long long)attr->config, place,
		    strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error");
	}
}

/* Mapping */

static enum ptah_record_problem map_refused(int error, const char *what, uint64_t size,
					    struct ptah_message *why)
{
	if (error == EPERM)
		return recorder_refuse(
		    why, PTAH_RECORD_MLOCK,
		    "%s of %" PRIu64 " KiB may not be locked in memory: it is more "
		    "than kernel.perf_event_mlock_kb and the limit of locked memory "
		    "let this user have",
		    what, size >> 10);
	if (error == EINVAL)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "%s of %" PRIu64 " KiB: the kernel takes a power of two of "
				       "pages",
				       what, size >> 10);
	if (error == EBUSY)
		return recorder_refuse(
		    why, PTAH_RECORD_BUSY,
		    "Intel PT is in use: another tracer, or a hypervisor, has it");
	return recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "no memory for %s of %" PRIu64 " KiB",
			       what, size >> 10);
}

static enum ptah_record_problem map_ring(struct events *e, struct event_ring *r, int fd,
					 const struct event_sizes *sizes, struct ptah_message *why)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *head;
	int status;

	r->map_size = page + sizes->data;
	r->map = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->map == MAP_FAILED)
		return map_refused(errno, "a ring of records", sizes->data, why);
	head = r->map;
	if (e->has_trace) {
		/*
		 * The kernel overwrites a trace buffer that is mapped for reading alone; otherwise
		 * it stops at aux_tail.
		 */
		int prot = e->layout.snapshot ? PROT_READ : PROT_READ | PROT_WRITE;

		head->aux_offset = r->map_size;
		head->aux_size = r->aux_size = sizes->aux;
		r->aux = mmap(NULL, sizes->aux, prot, MAP_SHARED, fd, (off_t)r->map_size);
		if (r->aux == MAP_FAILED)
			return map_refused(errno, "a trace buffer", sizes->aux, why);
	}
	/* Kernels before 4.1 do not report where the records begin: it is after the first page. */
	status = ring_init(&r->ring, head, (const uint8_t *)r->map + page, sizes->data, r->aux,
			   sizes->aux, e->layout.snapshot);
	return status < 0 ? recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory")
			  : PTAH_RECORD_FINE;
}

/* Opening */

/* Opens the event of the records, with every kind of record that this kernel supports. */
static int open_event_sideband(struct events *e, int32_t tid, int32_t cpu)
{
	int fd;

	while ((fd = open_event(e, &e->sideband_attr, tid, cpu)) < 0 &&
	       (errno == EINVAL || errno == E2BIG)) {
		const char *less = e->sideband_count ? NULL : pmu_sideband_less(&e->sideband_attr);

		if (!less) {
			errno = EINVAL;
			break;
		}
		e->less[e->less_count++] = less;
	}
	return fd;
}

static bool keep_event(struct event *event, int fd, int32_t tid, int32_t cpu, size_t ring)
{
	*event = (struct event){fd, tid, cpu, 0, ring};
	return ioctl(fd, PERF_EVENT_IOC_ID, &event->id) == 0;
}

/* Triggers */

/*
 * After EINVAL: does this kernel know aux-action at all? Where it does, it answers EOPNOTSUPP for an
 * event that does not trace.
 */
static bool is_action_unknown(struct events *e, int32_t tid, int32_t cpu)
{
	struct perf_event_attr dummy = {.size = PERFDATA_ATTR_SIZE,
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_DUMMY,
					.exclude_kernel = 1,
					.disabled = 1};
	int fd;

	triggers_set_action(&dummy, PERFDATA_AUX_START_PAUSED);
	fd = open_event(e, &dummy, tid, cpu);
	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == EINVAL || errno == E2BIG);
}

static enum ptah_record_problem refuse_event(struct events *e, const struct perf_event_attr *attr,
					     int32_t tid, int32_t cpu, struct ptah_message *why)
{
	const int error = errno;

	if (triggers_action(attr) && (error == EINVAL || error == E2BIG) &&
	    is_action_unknown(e, tid, cpu))
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "this kernel cannot pause the trace when an event happens "
				       "(aux-action): Linux 6.13 and later can");
	return events_refused(error, attr, tid, cpu, why);
}

static void close_triggers(struct events *e, size_t trace)
{
	for (size_t i = 0; i < e->trigger_count; i++) {
		int *fd = &e->triggers[trace * e->trigger_count + i];

		if (*fd >= 0)
			close(*fd);
		*fd = -1;
	}
}

/* Joins the triggers to the trace of a thread or processor. They are switched on together. */
static enum ptah_record_problem open_triggers(struct events *e, size_t trace,
					      struct ptah_message *why)
{
	const struct event *leader = &e->traces[trace];

	for (size_t i = 0; i < e->trigger_count; i++) {
		const struct perf_event_attr *attr = &e->trigger_attrs[i];
		int fd = open_in_group(e, attr, leader->tid, leader->cpu, leader->fd);

		if (fd < 0)
			return refuse_event(e, attr, leader->tid, leader->cpu, why);
		e->triggers[trace * e->trigger_count + i] = fd;
	}
	return PTAH_RECORD_FINE;
}

/* Opens a pair of events (trace and records) for a thread on a processor. */
static enum ptah_record_problem open_event_pair(struct events *e, int32_t tid, int32_t cpu,
						const char *filters, struct ptah_message *why)
{
	enum ptah_record_problem problem;
	bool ok = true;
	int fd;

	if (e->has_trace) {
		fd = open_event(e, &e->trace_attr, tid, cpu);
		if (fd < 0)
			return refuse_event(e, &e->trace_attr, tid, cpu, why);
		ok = keep_event(&e->traces[e->trace_count++], fd, tid, cpu, e->ring_count);
		problem = open_triggers(e, e->trace_count - 1, why);
		if (problem)
			return problem;
		if (filters && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filters))
			return recorder_refuse(
			    why, errno == ENOMEM ? PTAH_RECORD_NO_MEMORY : PTAH_RECORD_BAD_OPTION,
			    "the kernel refuses the filter \"%s\"", filters);
	}
	fd = open_event_sideband(e, tid, cpu);
	if (fd < 0)
		return events_refused(errno, &e->sideband_attr, tid, cpu, why);
	ok = keep_event(&e->sidebands[e->sideband_count++], fd, tid, cpu, e->ring_count) && ok;
	return ok ? PTAH_RECORD_FINE
		  : recorder_refuse(why, PTAH_RECORD_BROKEN, "the kernel gives an event no id");
}

/* Makes all events but the first, which the ring was made with, write into that ring too. */
static bool join_event_outputs(const struct event *events, size_t first, size_t count, int output)
{
	for (size_t i = first; i < count; i++)
		if (events[i].fd != output &&
		    ioctl(events[i].fd, PERF_EVENT_IOC_SET_OUTPUT, output))
			return false;
	return true;
}

/*
 * Opens the ring of a processor or of a thread, and the events of these threads that write to it.
 */
static enum ptah_record_problem open_ring(struct events *e, const struct event_targets *targets,
					  const int32_t *tids, size_t tid_count, int32_t cpu,
					  const struct event_sizes *sizes, const char *filters,
					  struct ptah_message *why)
{
	const size_t traces = e->trace_count, sidebands = e->sideband_count;
	struct event_ring *r = &e->rings[e->ring_count];
	enum ptah_record_problem problem;
	int output;

	for (size_t i = 0; i < tid_count; i++) {
		problem = open_event_pair(e, tids[i], cpu, filters, why);
		if (problem == PTAH_RECORD_NO_TARGET && tids[i] >= 0 && !targets->strict)
			continue; /* the thread has ended */
		if (problem)
			return problem;
	}
	if (e->sideband_count == sidebands)
		return PTAH_RECORD_FINE;
	/* Only a ring that was made with an event that traces has a trace buffer. */
	output = e->has_trace ? e->traces[traces].fd : e->sidebands[sidebands].fd;
	r->tid = cpu >= 0 ? -1 : tids[0];
	r->cpu = cpu;
	e->ring_count++;
	problem = map_ring(e, r, output, sizes, why);
	if (problem)
		return problem;
	return join_event_outputs(e->traces, traces, e->trace_count, output) &&
		       join_event_outputs(e->sidebands, sidebands, e->sideband_count, output)
		   ? PTAH_RECORD_FINE
		   : recorder_refuse(why, PTAH_RECORD_BROKEN,
				     "the kernel refuses to join two events");
}

enum ptah_record_problem events_open(struct events *e, const struct event_targets *targets,
				     const struct event_sizes *sizes, const char *filters,
				     struct ptah_message *why)
{
	static const int32_t any = -1;
	const int32_t *tids = targets->tid_count ? targets->tids : &any;
	const size_t tid_count = targets->tid_count ? targets->tid_count : 1;
	const size_t rings = e->layout.per_cpu ? targets->cpu_count : tid_count;
	/* A place more, for events_open_cpu() to open them in. */
	const size_t more = targets->late_cpus + 1;
	const size_t pairs = (e->layout.per_cpu ? rings * tid_count : tid_count) + more;
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	e->traces = calloc(pairs, sizeof(*e->traces));
	e->triggers = malloc(pairs * (e->trigger_count + 1) * sizeof(*e->triggers));
	e->sidebands = calloc(pairs, sizeof(*e->sidebands));
	e->rings = calloc(rings + more, sizeof(*e->rings));
	e->ring_room = rings + targets->late_cpus;
	if (!e->traces || !e->triggers || !e->sidebands || !e->rings)
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < pairs * e->trigger_count; i++)
		e->triggers[i] = -1;
	for (size_t i = 0; i < rings && !problem; i++)
		problem = e->layout.per_cpu
			      ? open_ring(e, targets, tids, tid_count, targets->cpus[i], sizes,
					  filters, why)
			      : open_ring(e, targets, &tids[i], 1, -1, sizes, filters, why);
	if (!problem && !e->ring_count)
		problem = recorder_refuse(why, PTAH_RECORD_NO_TARGET,
					  "all of the processes have ended already");
	return problem;
}

static void close_ring(struct event_ring *r)
{
	ring_fini(&r->ring);
	if (r->aux && r->aux != MAP_FAILED)
		munmap(r->aux, r->aux_size);
	if (r->map && r->map != MAP_FAILED)
		munmap(r->map, r->map_size);
	r->aux = r->map = NULL;
}

static void close_event(struct event *event)
{
	if (event->fd >= 0)
		close(event->fd);
	event->fd = -1;
}

static void close_trace(struct events *e, size_t trace)
{
	close_triggers(e, trace);
	close_event(&e->traces[trace]);
}

/* Closes what was opened after there were so many. */
static void close_after(struct events *e, size_t traces, size_t sidebands, size_t rings)
{
	while (e->ring_count > rings)
		close_ring(&e->rings[--e->ring_count]);
	while (e->trace_count > traces)
		close_trace(e, --e->trace_count);
	while (e->sideband_count > sidebands)
		close_event(&e->sidebands[--e->sideband_count]);
}

void events_close(struct events *e)
{
	close_after(e, 0, 0, 0);
	restore_file_limit(e);
	free(e->traces);
	free(e->triggers);
	free(e->sidebands);
	free(e->rings);
	e->traces = e->sidebands = NULL;
	e->triggers = NULL;
	e->rings = NULL;
}

/* Processors that come and go */

bool events_cpu_is_open(const struct events *e, size_t place)
{
	return e->rings[place].map != NULL;
}

void events_close_cpu(struct events *e, size_t place)
{
	close_ring(&e->rings[place]);
	if (e->has_trace)
		close_trace(e, place);
	close_event(&e->sidebands[place]);
}

/* Those that were at the place are closed. */
static void move_triggers(struct events *e, size_t from, size_t to)
{
	const size_t n = e->trigger_count;

	for (size_t i = 0; i < n; i++) {
		e->triggers[to * n + i] = e->triggers[from * n + i];
		e->triggers[from * n + i] = -1;
	}
}

/* Moves what was opened last to the place that the processor had before. */
static void move_last(struct events *e, size_t place)
{
	const struct event_ring before = e->rings[place];
	struct event_ring *r = &e->rings[place];

	*r = e->rings[--e->ring_count];
	r->traced = before.traced;
	r->base = r->end = before.end;
	r->ring.losses = before.ring.losses;
	r->ring.records = before.ring.records;
	if (e->has_trace) {
		e->traces[place] = e->traces[--e->trace_count];
		e->traces[place].ring = place;
		move_triggers(e, e->trace_count, place);
	}
	e->sidebands[place] = e->sidebands[--e->sideband_count];
	e->sidebands[place].ring = place;
}

enum ptah_record_problem events_open_cpu(struct events *e, int32_t cpu,
					 const struct event_sizes *sizes, const char *filters,
					 size_t *place, struct ptah_message *why)
{
	static const struct event_targets targets = {.strict = true};
	static const int32_t any = -1;
	const size_t traces = e->trace_count, sidebands = e->sideband_count, rings = e->ring_count;
	enum ptah_record_problem problem;

	for (*place = 0; *place < rings && e->rings[*place].cpu != cpu; (*place)++)
		;
	if (*place >= e->ring_room)
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY,
				       "there are more processors than the system promised");
	e->rings[rings] = (struct event_ring){0};
	problem = open_ring(e, &targets, &any, 1, cpu, sizes, filters, why);
	if (problem) {
		close_after(e, traces, sidebands, rings);
		return problem;
	}
	if (*place < rings)
		move_last(e, *place);
	return PTAH_RECORD_FINE;
}

/* Running */

static bool switch_all(const struct event *events, size_t count, bool on)
{
	bool ok = true;

	for (size_t i = 0; i < count; i++)
		if (events[i].fd >= 0 &&
		    ioctl(events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0))
			ok = false;
	return ok;
}

bool events_trace(const struct events *e, bool on)
{
	return switch_all(e->traces, e->trace_count, on);
}

bool events_sideband(const struct events *e, bool on)
{
	return switch_all(e->sidebands, e->sideband_count, on);
}

bool events_start_cpu(const struct events *e, size_t place, bool trace)
{
	return switch_all(&e->sidebands[place], 1, true) &&
	       (!trace || !e->has_trace || switch_all(&e->traces[place], 1, true));
}

void events_resume_ring(const struct events *e, size_t ring)
{
	for (size_t i = 0; i < e->trace_count; i++)
		if (e->traces[i].ring == ring && e->traces[i].fd >= 0)
			ioctl(e->traces[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

bool events_clock(const struct events *e, uint16_t *shift, uint32_t *mult, uint64_t *zero)
{
	struct perfdata_clock clock;
	const bool told = tsc_clock_of_page(e->rings[0].map, &clock);

	*shift = clock.shift;
	*mult = clock.mult;
	*zero = clock.zero;
	return told;
}
