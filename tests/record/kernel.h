/* SPDX-License-Identifier: MIT */
/*
 * A simulated kernel for the recorder hardware: perf_event_open() returns files in memory, which
 * are mapped as the kernel's buffers are, and the test writes into them what intel_pt's driver
 * would. The driver's files are those of machine.h; all other system calls and files are real. One
 * source of a test program includes it, because it replaces functions of the C library.
 */
#ifndef PTAH_TESTS_KERNEL_H
#define PTAH_TESTS_KERNEL_H

#include "machine.h"

#include "perfdata/format.h"
#include "record/perf_event/perf_event.h"
#include "record/perf_event/triggers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

/* The simulated kernel */

#define FAKES 64

struct fake {
	struct perf_event_attr attr;
	int fd, output; /* -1: its own */
	int32_t tid, cpu;
	atomic_bool on;
	unsigned enabled, disabled; /* number of times that it was enabled, disabled */
	char filter[256];
	/* As the recorder maps it: a page, the records, the trace. */
	struct perf_event_mmap_page *page;
	uint8_t *data, *aux;
	uint64_t data_size, aux_size, data_head, aux_head;
	bool overwrite;
	int group;   /* -1: its own */
	bool paused; /* by aux-action */
};

static struct fake fakes[FAKES];
static unsigned fake_count;
static int refuse_with;		/* errno that the next perf_event_open() returns */
static int32_t absent_cpu = -1; /* perf_event_open() says that it is not online */
static rlim_t wanted_files;	/* EMFILE if the limit of open files is lower */
static bool no_aux_action;	/* as before Linux 6.13: EINVAL */
static uint64_t unknown_flags;	/* flags of attr that cause EINVAL, as with an older kernel */

static inline uint64_t flags_of(const struct perf_event_attr *attr)
{
	uint64_t flags;

	memcpy(&flags, (const char *)attr + PERFDATA_ATTR_AT_FLAGS, sizeof(flags));
	return flags;
}

/* The newest: the number of an event that was closed may be used again. */
static inline struct fake *fake_of(int fd)
{
	for (unsigned i = fake_count; i--;)
		if (fakes[i].fd == fd)
			return &fakes[i];
	return NULL;
}

static inline rlim_t file_limit(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur;
}

/*
 * aux-action: Intel PT may start paused, and an event in its group, on the same thread and processor,
 * may either pause or resume it (perf_event_open(), perf_get_aux_event() of Linux 6.13).
 */
static inline int check_aux_action(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	const uint32_t action = triggers_action(attr);
	const struct fake *leader = group < 0 ? NULL : fake_of(group);

	if (action >= 8 || (action && no_aux_action) ||
	    (action & PERFDATA_AUX_PAUSE && action & PERFDATA_AUX_RESUME))
		return EINVAL;
	if (action & PERFDATA_AUX_START_PAUSED && attr->type != 8)
		return EOPNOTSUPP;
	if (action & (PERFDATA_AUX_PAUSE | PERFDATA_AUX_RESUME) &&
	    (!leader || leader->attr.type != 8 || leader->tid != tid || leader->cpu != cpu ||
	     !attr->sample_period))
		return EINVAL;
	return 0;
}

static inline long fake_open(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	struct fake *f = &fakes[fake_count];

	assert_true(fake_count < FAKES);
	if (cpu >= 0 && cpu == absent_cpu) {
		errno = ENODEV;
		return -1;
	}
	if (refuse_with || flags_of(attr) & unknown_flags) {
		errno = refuse_with ? refuse_with : EINVAL;
		return -1;
	}
	errno = check_aux_action(attr, tid, cpu, group);
	if (errno)
		return -1;
	if (file_limit() < wanted_files) {
		errno = EMFILE;
		return -1;
	}
	*f = (struct fake){.attr = *attr,
			   .tid = tid,
			   .cpu = cpu,
			   .output = -1,
			   .group = group,
			   .paused = triggers_action(attr) & PERFDATA_AUX_START_PAUSED};
	/* The clock in the page: nanoseconds are TSC ticks. */
	f->fd = memfd_create("fake", MFD_CLOEXEC);
	assert_int_equal(ftruncate(f->fd, 64 << 20), 0);
	f->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	assert_true(f->page != MAP_FAILED);
	f->page->cap_user_time_zero = 1;
	f->page->time_mult = 1;
	f->on = !attr->disabled;
	fake_count++;
	return f->fd;
}

static inline long real_syscall(long n, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	if (result < 0) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

long syscall(long n, ...)
{
	va_list args;
	long a, b, c, d, e;

	va_start(args, n);
	a = va_arg(args, long);
	b = va_arg(args, long);
	c = va_arg(args, long);
	d = va_arg(args, long);
	e = va_arg(args, long);
	va_end(args);
	if (n == SYS_perf_event_open) {
		assert_int_equal(e, PERF_FLAG_FD_CLOEXEC);
		return fake_open((const struct perf_event_attr *)(uintptr_t)a, (int)b, (int)c,
				 (int)d);
	}
	return real_syscall(n, a, b, c, d, e);
}

/* A device of another driver, if a test has one: descriptors that it does not know are not its. */
static int (*device_open_file)(const char *path);
static bool (*device_ioctl)(int fd, unsigned long request, uintptr_t argument, int *result);

int ioctl(int fd, unsigned long request, ...)
{
	struct fake *f = fake_of(fd);
	uintptr_t argument;
	va_list args;
	int result;

	va_start(args, request);
	argument = va_arg(args, uintptr_t);
	va_end(args);
	if (device_ioctl && device_ioctl(fd, request, argument, &result))
		return result;
	assert_non_null(f);
	switch (request) {
	case PERF_EVENT_IOC_ENABLE:
		f->on = true;
		f->enabled++;
		return 0;
	case PERF_EVENT_IOC_DISABLE:
		f->on = false;
		f->disabled++;
		return 0;
	case PERF_EVENT_IOC_ID:
		*(uint64_t *)argument = (uint64_t)(f - fakes) + 1;
		return 0;
	case PERF_EVENT_IOC_SET_OUTPUT:
		/* As perf_event_set_output() requires: on the same processor, and mapped. */
		assert_int_equal(fake_of((int)argument)->cpu, f->cpu);
		assert_true(fake_of((int)argument)->page->aux_size);
		f->output = (int)argument;
		return 0;
	case PERF_EVENT_IOC_SET_FILTER:
		snprintf(f->filter, sizeof(f->filter), "%s", (const char *)argument);
		return 0;
	default:
		fail_msg("ioctl 0x%lx", request);
		return -1;
	}
}

static int64_t ahead; /* seconds that this test's clock is ahead of the real one */

int clock_gettime(clockid_t id, struct timespec *t)
{
	long status = real_syscall(SYS_clock_gettime, id, (long)(uintptr_t)t, 0, 0, 0);

	t->tv_sec += id == CLOCK_MONOTONIC ? ahead : 0;
	return (int)status;
}

static unsigned moves; /* number of times that a thread was bound to processors */

int sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	moves++;
	return (int)real_syscall(SYS_sched_setaffinity, tid, (long)size, (long)(uintptr_t)set, 0,
				 0);
}

#define PROCESSORS "/sys/devices/system/cpu/"

/* The driver's files are those of the simulated machine. */
static inline void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static bool own_processors; /* which of them are online: as put_online() says */
static bool own_kernel;	    /* the kernel's code is that of the simulated machine, too */

static inline const char *place_of(const char *path, char *text, size_t size)
{
	if (strncmp(path, PMU, strlen(PMU)) != 0 &&
	    strncmp(path, "/sys/bus/event_source/devices/uprobe", 36) != 0 &&
	    strncmp(path, "/sys/kernel/tracing", 19) != 0 &&
	    !(own_processors && !strncmp(path, PROCESSORS, strlen(PROCESSORS))) &&
	    !(own_kernel && (!strcmp(path, "/proc/kcore") || !strcmp(path, "/proc/kallsyms") ||
			     !strcmp(path, "/proc/modules"))))
		return path;
	snprintf(text, size, "%s%s", root, path);
	return text;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *);
	void *symbol = real("fopen");
	char text[512];

	memcpy(&next, &symbol, sizeof(next));
	return next(place_of(path, text, sizeof(text)), mode);
}

int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...);
	void *symbol = real("open");
	char text[512];
	va_list args;
	int mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	if (device_open_file && !strncmp(path, "/dev/ptah", 9))
		return device_open_file(path);
	memcpy(&next, &symbol, sizeof(next));
	return next(place_of(path, text, sizeof(text)), flags, mode);
}

DIR *opendir(const char *path)
{
	DIR *(*next)(const char *);
	void *symbol = real("opendir");
	char text[512];

	memcpy(&next, &symbol, sizeof(next));
	return next(place_of(path, text, sizeof(text)));
}

static inline void reset(void)
{
	for (unsigned i = 0; i < fake_count; i++)
		munmap(fakes[i].page, 4096);
	fake_count = 0;
	refuse_with = 0;
	absent_cpu = -1;
	wanted_files = 0;
	unknown_flags = 0;
	no_aux_action = false;
	own_processors = false;
}

/* The driver's part */

/* Maps the buffers as the recorder has mapped them. */
static inline void map_as_recorder(struct fake *f)
{
	f->data_size = f->page->aux_offset - 4096;
	f->aux_size = f->page->aux_size;
	munmap(f->page, 4096);
	f->page = mmap(NULL, 4096 + f->data_size + f->aux_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       f->fd, 0);
	assert_true(f->page != MAP_FAILED);
	f->data = (uint8_t *)f->page + 4096;
	f->aux = f->data + f->data_size;
}

/* False: there is no room. */
static inline bool put_record(struct fake *f, const void *record, size_t size)
{
	uint64_t tail = __atomic_load_n(&f->page->data_tail, __ATOMIC_ACQUIRE);

	if (f->data_head + size - tail > f->data_size)
		return false;
	for (size_t i = 0; i < size; i++)
		f->data[(f->data_head + i) % f->data_size] = ((const uint8_t *)record)[i];
	f->data_head += size;
	__atomic_store_n(&f->page->data_head, f->data_head, __ATOMIC_RELEASE);
	return true;
}

static inline uint64_t id_of(const struct fake *f)
{
	return (uint64_t)(f - fakes) + 1;
}

static inline uint64_t cpu_of(const struct fake *f)
{
	return f->cpu < 0 ? 0 : (uint64_t)f->cpu;
}

/* Sample id: pid and tid, time, processor, event. */
static inline void put_aux_record(struct fake *f, uint64_t at, uint64_t size, uint64_t flags)
{
	const uint64_t record[8] = {PERF_RECORD_AUX | UINT64_C(64) << 48,
				    at,
				    size,
				    flags,
				    (uint64_t)(uint32_t)f->tid << 32 | (uint32_t)f->tid,
				    0,
				    cpu_of(f),
				    id_of(f)};

	while (!put_record(f, record, sizeof(record)))
		sched_yield();
}

/* Full-trace mode: writes as much as fits. */
static inline size_t put_trace(struct fake *f, const uint8_t *bytes, size_t size)
{
	uint64_t tail = __atomic_load_n(&f->page->aux_tail, __ATOMIC_ACQUIRE);

	if (f->paused || size > f->aux_size - (f->aux_head - tail))
		return 0;
	for (size_t i = 0; i < size; i++)
		f->aux[(f->aux_head + i) % f->aux_size] = bytes[i];
	f->aux_head += size;
	__atomic_store_n(&f->page->aux_head, f->aux_head, __ATOMIC_RELEASE);
	return size;
}

/* The event happens: it counts while its group is on. */
static inline void happen(const struct fake *f)
{
	struct fake *leader = fake_of(f->group);

	if (leader->on && f->on)
		leader->paused = triggers_action(&f->attr) == PERFDATA_AUX_PAUSE;
}

static inline void put_overwriting(struct fake *f, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		f->aux[(f->aux_head + i) % f->aux_size] = bytes[i];
	f->aux_head = (f->aux_head + size) % f->aux_size;
	__atomic_store_n(&f->page->aux_head, f->aux_head, __ATOMIC_RELEASE);
}

/* The recorder without its check, which would look for a processor */

static inline enum ptah_record_problem fine(const struct ptah_record_config *config,
					    struct ptah_message *why)
{
	(void)config;
	(void)why;
	return PTAH_RECORD_FINE;
}

#ifndef KERNEL_RECORDER
#define KERNEL_RECORDER recorder_hardware
#endif

static inline int open_recorder(const struct ptah_record_config *config, struct ptah_recorder **r,
				enum ptah_record_problem *problem, struct ptah_message *why)
{
	static struct recorder_backend backend;

	put_driver();
	backend = KERNEL_RECORDER;
	backend.check = fine;
	return recorder_new(&backend, config, r, problem, why);
}

static inline struct ptah_recorder *start(const struct ptah_record_config *config)
{
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;

	if (open_recorder(config, &r, NULL, &why) < 0)
		fail_msg("%s", why.text);
	if (ptah_recorder_start(r) < 0)
		fail_msg("%s", ptah_recorder_why(r, NULL));
	return r;
}

static inline struct ptah_record_status status_of(const struct ptah_recorder *r)
{
	struct ptah_record_status status = {.size = sizeof(status)};

	assert_int_equal(ptah_recorder_status(r, &status), 0);
	return status;
}

/* Keeps the trace that a sink receives. */
struct taken {
	uint8_t bytes[1 << 16];
	size_t size;
	unsigned pieces;
	struct ptah_record_piece last;
};

static inline int take_trace(void *context, const struct ptah_record_piece *piece)
{
	struct taken *t = context;

	if (piece->kind != PTAH_RECORD_PIECE_TRACE)
		return 0;
	assert_true(t->size + piece->size <= sizeof(t->bytes));
	memcpy(t->bytes + t->size, piece->bytes, piece->size);
	t->size += piece->size;
	t->pieces++;
	t->last = *piece;
	return 0;
}

static struct taken taken;
static const struct ptah_record_sink sink = {.take = take_trace, .context = &taken};

static inline struct ptah_record_config self_config(enum ptah_record_buffer buffer)
{
	memset(&taken, 0, sizeof(taken));
	reset();
	return (struct ptah_record_config){
	    .size = sizeof(struct ptah_record_config),
	    .target.kind = PTAH_RECORD_SELF,
	    .buffer.policy = buffer,
	    .buffer.size = 8192,
	    .buffer.sideband = 8192,
	    .output.sink = &sink,
	};
}

static inline const uint8_t *pattern(void)
{
	static uint8_t bytes[1 << 16];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)((i ^ i >> 8) * 167 + 13);
	return bytes;
}

/* For the group of tests: in the folder of the simulated machine. */
static inline int enter(void **state)
{
	return make_root(state) || chdir(root);
}

static inline int leave(void **state)
{
	reset();
	return chdir("/") || remove_root(state);
}

#endif
