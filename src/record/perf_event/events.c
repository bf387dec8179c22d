/* SPDX-License-Identifier: MIT */
/* Opens the perf events of a recording, maps their rings, and switches them on and off. */
#include "record/perf_event/events.h"

#include "base/compiler.h"
#include "record/recorder.h"

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

static int open_event(struct events *e, const struct perf_event_attr *attr, int32_t tid,
		      int32_t cpu)
{
	int fd;

	do {
		/* perf_event_open() writes the size that it expects into it. */
		struct perf_event_attr copy = *attr;

		fd = (int)syscall(SYS_perf_event_open, &copy, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	} while (fd < 0 && errno == EMFILE && raise_file_limit(e));
	return fd;
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
static int open_sideband(struct events *e, int32_t tid, int32_t cpu)
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

/* Opens a pair of events (trace and records) for a thread on a processor. */
static enum ptah_record_problem open_pair(struct events *e, int32_t tid, int32_t cpu,
					  const char *filters, struct ptah_message *why)
{
	bool ok = true;
	int fd;

	if (e->has_trace) {
		fd = open_event(e, &e->trace_attr, tid, cpu);
		if (fd < 0)
			return events_refused(errno, &e->trace_attr, tid, cpu, why);
		ok = keep_event(&e->traces[e->trace_count++], fd, tid, cpu, e->ring_count);
		if (filters && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filters))
			return recorder_refuse(
			    why, errno == ENOMEM ? PTAH_RECORD_NO_MEMORY : PTAH_RECORD_BAD_OPTION,
			    "the kernel refuses the filter \"%s\"", filters);
	}
	fd = open_sideband(e, tid, cpu);
	if (fd < 0)
		return events_refused(errno, &e->sideband_attr, tid, cpu, why);
	ok = keep_event(&e->sidebands[e->sideband_count++], fd, tid, cpu, e->ring_count) && ok;
	return ok ? PTAH_RECORD_FINE
		  : recorder_refuse(why, PTAH_RECORD_BROKEN, "the kernel gives an event no id");
}

/* Makes all events but the first, which the ring was made with, write into that ring too. */
static bool join(const struct event *events, size_t first, size_t count, int output)
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
		problem = open_pair(e, tids[i], cpu, filters, why);
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
	return join(e->traces, traces, e->trace_count, output) &&
		       join(e->sidebands, sidebands, e->sideband_count, output)
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
	const size_t pairs = e->layout.per_cpu ? rings * tid_count : tid_count;
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	e->traces = calloc(pairs ? pairs : 1, sizeof(*e->traces));
	e->sidebands = calloc(pairs ? pairs : 1, sizeof(*e->sidebands));
	e->rings = calloc(rings ? rings : 1, sizeof(*e->rings));
	if (!e->traces || !e->sidebands || !e->rings)
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory");
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

void events_close(struct events *e)
{
	for (size_t i = 0; i < e->ring_count; i++) {
		struct event_ring *r = &e->rings[i];

		ring_fini(&r->ring);
		if (r->aux && r->aux != MAP_FAILED)
			munmap(r->aux, r->aux_size);
		if (r->map && r->map != MAP_FAILED)
			munmap(r->map, r->map_size);
	}
	for (size_t i = 0; i < e->trace_count; i++)
		close(e->traces[i].fd);
	for (size_t i = 0; i < e->sideband_count; i++)
		close(e->sidebands[i].fd);
	restore_file_limit(e);
	free(e->traces);
	free(e->sidebands);
	free(e->rings);
	e->traces = e->sidebands = NULL;
	e->rings = NULL;
	e->trace_count = e->sideband_count = e->ring_count = 0;
}

/* Running */

static bool switch_all(const struct event *events, size_t count, bool on)
{
	bool ok = true;

	for (size_t i = 0; i < count; i++)
		if (ioctl(events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0))
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

void events_resume_ring(const struct events *e, size_t ring)
{
	for (size_t i = 0; i < e->trace_count; i++)
		if (e->traces[i].ring == ring)
			ioctl(e->traces[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

bool events_clock(const struct events *e, uint16_t *shift, uint32_t *mult, uint64_t *zero)
{
	const struct perf_event_mmap_page *page = e->rings[0].map;
	uint32_t before;
	bool told;

	/*
	 * The kernel increments `lock` before and after it changes the values, so that it is odd
	 * meanwhile (perf_event_mmap_page). The processor keeps loads in order; the empty asm
	 * statement makes the compiler keep them, too.
	 */
	do {
		before = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		told = page->cap_user_time_zero;
		*shift = page->time_shift;
		*mult = page->time_mult;
		*zero = page->time_zero;
		__asm__ volatile("" ::: "memory");
	} while (before & 1 || before != __atomic_load_n(&page->lock, __ATOMIC_RELAXED));
	return told;
}
