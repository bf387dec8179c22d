/* SPDX-License-Identifier: MIT */
/* Makes the calls of /dev/ptah, and turns their failures into sentences. */
#include "record/module/device.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The driver has no more processors than the engine. */
#define MAX_CPUS 65536u

/* A call that a signal interrupts has done nothing. */
static int call(int fd, unsigned long number, void *argument)
{
	int result;

	do
		result = ioctl(fd, number, argument);
	while (result < 0 && errno == EINTR);
	return result;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Failures */

/* A text of the driver: ends within its field, and is printable. */
static const char *clean(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return text;
}

static enum ptah_record_problem kind_of(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return PTAH_RECORD_PERMISSION;
	case EBUSY:
		return PTAH_RECORD_BUSY;
	case ENODEV:
	case ESRCH:
		return PTAH_RECORD_NO_TARGET;
	case EOPNOTSUPP:
		return PTAH_RECORD_NO_PROCESSOR;
	case EINVAL:
	case E2BIG:
		return PTAH_RECORD_BAD_OPTION;
	case ENOMEM:
	case ENOSPC:
	case EUSERS:
	case EMFILE:
	case ENFILE:
		return PTAH_RECORD_NO_MEMORY;
	default:
		return PTAH_RECORD_BROKEN;
	}
}

static const char *sentence_of(int error)
{
	switch (kind_of(error)) {
	case PTAH_RECORD_PERMISSION:
		return "this user may not";
	case PTAH_RECORD_BUSY:
		return "Intel PT is in use: another tracer, perf included, has it";
	case PTAH_RECORD_NO_TARGET:
		return error == ESRCH ? "there is no such thread"
				      : "the processor is not there, or not online";
	case PTAH_RECORD_NO_PROCESSOR:
		return "the processor cannot be traced";
	case PTAH_RECORD_NO_MEMORY:
		return error == EMFILE || error == ENFILE
			   ? "too many open files (ulimit -n)"
			   : "no memory for the buffers, or they are more than the module's limit";
	default:
		return strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error";
	}
}

static enum ptah_record_problem refused(int error, struct ptah_ioc_problem *problem,
					const char *what, struct ptah_message *why)
{
	char cpu[40] = "", field[48] = "", msr[48] = "";
	const char *reason = clean(problem->reason, sizeof(problem->reason));

	if (problem->cpu >= 0 && problem->error)
		snprintf(cpu, sizeof(cpu), "processor %d: ", problem->cpu);
	if (*clean(problem->field, sizeof(problem->field)))
		snprintf(field, sizeof(field), "%s: ", problem->field);
	if (problem->msr)
		snprintf(msr, sizeof(msr), " (register 0x%" PRIx32 ")", problem->msr);
	return recorder_refuse(why, kind_of(error), "the kernel module refuses %s: %s%s%s%s", what,
			       cpu, field, *reason ? reason : sentence_of(error), msr);
}

static enum ptah_record_problem broken(const char *what, struct ptah_message *why)
{
	return recorder_refuse(why, PTAH_RECORD_BROKEN, "the kernel module gives %s", what);
}

/* The device */

static enum ptah_record_problem not_opened(int error, struct ptah_message *why)
{
	if (error == ENOENT || error == ENODEV || error == ENXIO)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER,
				       "there is no " PTAH_IOC_DEVICE
				       ": Ptah's kernel module is not loaded");
	if (error == EACCES || error == EPERM)
		return recorder_refuse(why, PTAH_RECORD_PERMISSION,
				       "this user may not open " PTAH_IOC_DEVICE
				       ": it takes CAP_PERFMON or CAP_SYS_ADMIN, and the file's "
				       "permission");
	return recorder_refuse(why, kind_of(error), PTAH_IOC_DEVICE " cannot be opened: %s",
			       sentence_of(error));
}

static bool ask_caps(struct device *d, uint32_t cpu)
{
	struct ptah_ioc_caps request = {
	    .size = sizeof(request),
	    .cpu = cpu,
	    .caps = (uintptr_t)&d->caps,
	    .bytes = sizeof(d->caps),
	};

	memset(&d->caps, 0, sizeof(d->caps));
	return call(d->fd, PTAH_IOC_CAPS, &request) >= 0;
}

/* The driver's answer: a range of the architecture where a shift or an index comes of it. */
static void bound_caps(struct ptah_caps *caps)
{
	caps->size = sizeof(*caps);
	if (caps->ranges > PTAH_RANGES)
		caps->ranges = PTAH_RANGES;
}

static enum ptah_record_problem ask(struct device *d, struct ptah_message *why)
{
	struct ptah_ioc_info info = {.size = sizeof(info)};
	uint32_t cpu = 0;

	if (call(d->fd, PTAH_IOC_INFO, &info) < 0)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER,
				       PTAH_IOC_DEVICE
				       " is not the device of Ptah's kernel module");
	if (info.version != PTAH_IOC_VERSION)
		return recorder_refuse(
		    why, PTAH_RECORD_NO_DRIVER,
		    "the kernel module speaks version %" PRIu32
		    " of its interface, and this program version %u: use those of "
		    "one release",
		    info.version, PTAH_IOC_VERSION);
	if (!info.cpus || info.cpus > MAX_CPUS)
		return broken("an impossible number of processors", why);
	d->cpus = info.cpus;
	d->limit = info.limit;
	d->used = info.used;
	/* The first that is online; processors that differ are refused when they are to trace. */
	while (cpu < d->cpus && !ask_caps(d, cpu))
		cpu++;
	if (cpu == d->cpus)
		return broken("no processor's capabilities", why);
	bound_caps(&d->caps);
	return PTAH_RECORD_FINE;
}

enum ptah_record_problem device_open(struct device *d, struct ptah_message *why)
{
	enum ptah_record_problem problem;

	*d = (struct device){.captures = -1};
	d->fd = open(PTAH_IOC_DEVICE, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		return not_opened(errno, why);
	problem = ask(d, why);
	if (problem)
		device_close(d);
	return problem;
}

void device_close(struct device *d)
{
	close_fd(&d->captures);
	close_fd(&d->fd);
}

/* Captures */

struct request {
	struct ptah_ioc_trace trace;
	struct ptah_ioc_problem problem;
	struct ptah_ioc_capture capture;
};

static void fill_request(struct request *r, const struct device_request *from)
{
	memset(r, 0, sizeof(*r));
	ptah_ioc_trace_set(&r->trace, from->trace);
	r->capture = (struct ptah_ioc_capture){
	    .size = sizeof(r->capture),
	    .flags = from->paused ? PTAH_IOC_PAUSED : 0,
	    .trace = (uintptr_t)&r->trace,
	    .problem = (uintptr_t)&r->problem,
	    .cpu = PTAH_IOC_CPU_THREAD,
	    .policy = from->policy,
	    .buffer = from->buffer,
	};
}

enum ptah_record_problem device_make_pool(struct device *d, const struct device_request *request,
					  uint32_t count, bool inherit, struct ptah_message *why)
{
	struct request r;
	struct ptah_ioc_pool pool = {
	    .size = sizeof(pool),
	    .flags = inherit ? PTAH_IOC_POOL_INHERIT : 0,
	    .capture = (uintptr_t)&r.capture,
	    .captures = count,
	};

	fill_request(&r, request);
	d->captures = call(d->fd, PTAH_IOC_POOL, &pool);
	return d->captures >= 0 ? PTAH_RECORD_FINE
				: refused(errno, &r.problem, "the captures", why);
}

enum ptah_record_problem device_make_set(struct device *d, const struct device_request *request,
					 const int32_t *cpus, size_t cpu_count,
					 struct ptah_message *why)
{
	const size_t words = (d->cpus + 63) / 64;
	uint64_t *mask = calloc(words, sizeof(*mask));
	struct request r;
	struct ptah_ioc_set set = {.size = sizeof(set), .capture = (uintptr_t)&r.capture};
	int error;

	if (!mask)
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory");
	fill_request(&r, request);
	for (size_t i = 0; i < cpu_count; i++)
		if (cpus[i] >= 0 && (uint32_t)cpus[i] < d->cpus)
			mask[cpus[i] / 64] |= UINT64_C(1) << cpus[i] % 64;
	if (cpu_count) {
		set.mask = (uintptr_t)mask;
		set.words = words;
	}
	d->captures = call(d->fd, PTAH_IOC_SET, &set);
	error = errno;
	free(mask);
	d->set = true;
	return d->captures >= 0 ? PTAH_RECORD_FINE
				: refused(error, &r.problem, "the captures", why);
}

/* Mapping */

static enum ptah_record_problem map(struct device_mapping *m, struct ptah_message *why)
{
	struct ptah_ioc_status status = {.size = sizeof(status)};

	if (call(m->fd, PTAH_IOC_STATUS, &status) < 0)
		return broken("no status of a capture", why);
	if (!status.buffer || status.buffer > SIZE_MAX / 2 || status.page > SIZE_MAX / 2 ||
	    status.page < sizeof(struct ptah_capture_page))
		return broken("a capture without a buffer or a page", why);
	if (m->cpu < 0 && m->tid <= 0) {
		m->pid = status.pid;
		m->tid = status.tid;
	}
	m->buffer_size = (size_t)status.buffer;
	m->page_size = (size_t)status.page;
	m->buffer =
	    mmap(NULL, m->buffer_size, PROT_READ, MAP_SHARED, m->fd, (off_t)PTAH_IOC_MAP_BUFFER);
	m->page = m->buffer == MAP_FAILED ? MAP_FAILED
					  : mmap(NULL, m->page_size, PROT_READ | PROT_WRITE,
						 MAP_SHARED, m->fd, (off_t)PTAH_IOC_MAP_PAGE);
	if (m->page != MAP_FAILED)
		return PTAH_RECORD_FINE;
	return recorder_refuse(why, kind_of(errno),
			       "the kernel module's buffer cannot be mapped: %s",
			       sentence_of(errno));
}

/* Maps what a call has returned. fd: -1 on failure. */
static enum ptah_record_problem map_device_buffer(struct device_mapping *m,
						  struct ptah_message *why)
{
	enum ptah_record_problem problem = map(m, why);

	if (problem)
		device_release(m);
	return problem;
}

enum ptah_record_problem device_take(struct device *d, int32_t tid, struct device_mapping *m,
				     struct ptah_message *why)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	struct ptah_ioc_take request = {
	    .size = sizeof(request), .tid = tid, .problem = (uintptr_t)&problem};
	char what[40];

	*m = (struct device_mapping){.cpu = -1};
	m->fd = call(d->captures, PTAH_IOC_TAKE, &request);
	if (m->fd >= 0)
		return map_device_buffer(m, why);
	snprintf(what, sizeof(what), "thread %d", tid);
	return refused(errno, &problem, what, why);
}

enum ptah_record_problem device_next(struct device *d, struct device_mapping *m, uint64_t *missed,
				     struct ptah_message *why)
{
	struct ptah_ioc_next next = {.size = sizeof(next)};
	struct ptah_ioc_problem problem = {.cpu = -1};

	*m = (struct device_mapping){.cpu = -1};
	m->fd = call(d->captures, PTAH_IOC_NEXT, &next);
	if (m->fd < 0 && errno != EAGAIN)
		return refused(errno, &problem, "the capture of a new thread", why);
	if (next.missed > *missed)
		*missed = next.missed;
	if (m->fd < 0)
		return PTAH_RECORD_FINE;
	m->pid = next.pid;
	m->tid = next.tid;
	m->time = next.time;
	return map_device_buffer(m, why);
}

enum ptah_record_problem device_member(struct device *d, int32_t cpu, struct device_mapping *m,
				       struct ptah_message *why)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	char what[40];

	*m = (struct device_mapping){.cpu = cpu};
	m->fd = call(d->captures, PTAH_IOC_MEMBER, (void *)(uintptr_t)(uint32_t)cpu);
	if (m->fd >= 0)
		return map_device_buffer(m, why);
	if (errno == ENODEV)
		return PTAH_RECORD_FINE;
	snprintf(what, sizeof(what), "processor %d", cpu);
	return refused(errno, &problem, what, why);
}

void device_release(struct device_mapping *m)
{
	if (m->page && m->page != MAP_FAILED)
		munmap(m->page, m->page_size);
	if (m->buffer && m->buffer != MAP_FAILED)
		munmap((void *)(uintptr_t)m->buffer, m->buffer_size);
	m->page = NULL;
	m->buffer = NULL;
	close_fd(&m->fd);
}

/* Control */

enum ptah_record_problem device_control(int fd, unsigned long number, struct ptah_message *why)
{
	struct ptah_ioc_problem problem = {.cpu = -1};
	const bool begins = number == PTAH_IOC_START || number == PTAH_IOC_RESUME;

	if (call(fd, number, begins ? &problem : NULL) >= 0)
		return PTAH_RECORD_FINE;
	/* A buffer that is full continues when there is room. */
	if (begins && errno == ENOSPC)
		return PTAH_RECORD_FINE;
	return refused(errno, &problem, begins ? "to trace" : "to stop", why);
}

bool device_state(const struct device_mapping *m, struct device_state *state)
{
	struct ptah_ioc_status status = {.size = sizeof(status)};

	if (call(m->fd, PTAH_IOC_STATUS, &status) < 0)
		return false;
	state->state = status.state;
	state->ended = status.ended;
	return true;
}

void device_sync(const struct device_mapping *m)
{
	call(m->fd, PTAH_IOC_SYNC, NULL);
}

void device_seen(const struct device_mapping *m, uint32_t records)
{
	call(m->fd, PTAH_IOC_SEEN, (void *)(uintptr_t)records);
}
