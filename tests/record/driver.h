/* SPDX-License-Identifier: MIT */
/*
 * A simulated /dev/ptah for the recorder module: the calls of port/linux/ptah_ioctl.h, with the
 * capture engine on the simulated machine behind them. Threads run when the test lets them. One
 * source of a test program includes it, because it replaces functions of the C library.
 */
#ifndef PTAH_TESTS_DRIVER_H
#define PTAH_TESTS_DRIVER_H

#define KERNEL_RECORDER recorder_module
#include "engine/rig.h"
#include "kernel.h"

#include "../port/linux/ptah_ioctl.h"

#include <ptah/engine/captures.h>

#include <poll.h>
#include <sys/eventfd.h>

#define OWNER 1
#define FILES 64
#define ARENA ((size_t)4 << 20)

enum kind {
	NO_FILE = 0,
	DEVICE,
	POOL,
	SET,
	CAPTURE
};

struct file {
	enum kind kind;
	int fd;
	struct ptah_capture *capture;
	int32_t cpu, tid; /* -1 */
	bool ended;
	uint32_t seen;
	struct ptah_ioc_next next; /* of a thread that has not been asked for */
	bool waits;
	/* What mmap() returned, and what the engine knows. */
	struct {
		void *memory;
		uint64_t address;
		size_t size;
		bool copied;
	} maps[2];
};

static struct {
	struct rig rig;
	struct file files[FILES];
	struct ptah_pool *pool;
	struct ptah_captures *set;
	struct ptah_trace_config trace;
	bool inherit, paused;
	uint64_t missed;
	/* What the device answers otherwise than it should. */
	int refuse_open; /* errno */
	int refuse;	 /* errno of the next call refuse_call */
	unsigned long refuse_call;
	uint32_t version, obstacle;
	void (*spoil)(struct ptah_capture_page *page); /* changes a copy of the page */
	void (*spoil_status)(struct ptah_ioc_status *status);
} driver;

static inline struct file *file_of(int fd, enum kind kind)
{
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind && driver.files[i].fd == fd && fd >= 0 &&
		    (!kind || driver.files[i].kind == kind))
			return &driver.files[i];
	return NULL;
}

static inline struct file *new_file(enum kind kind)
{
	for (unsigned i = 0; i < FILES; i++) {
		struct file *f = &driver.files[i];

		if (f->kind)
			continue;
		*f = (struct file){
		    .kind = kind, .fd = eventfd(0, EFD_CLOEXEC), .cpu = -1, .tid = -1};
		assert_true(f->fd >= 0);
		return f;
	}
	fail_msg("the test has no more files");
	return NULL;
}

static inline int driver_open(const char *path)
{
	(void)path;
	if (driver.refuse_open) {
		errno = driver.refuse_open;
		return -1;
	}
	return new_file(DEVICE)->fd;
}

static inline void make_readable(const struct file *f)
{
	const uint64_t one = 1;

	assert_int_equal(real_syscall(SYS_write, f->fd, (long)(uintptr_t)&one, 8, 0, 0), 8);
}

static inline void make_quiet(const struct file *f)
{
	struct pollfd polled = {.fd = f->fd, .events = POLLIN};
	uint64_t value;

	if (poll(&polled, 1, 0) > 0)
		assert_int_equal(real_syscall(SYS_read, f->fd, (long)(uintptr_t)&value, 8, 0, 0),
				 8);
}

static inline void driver_wake(void *port, void *cookie)
{
	(void)port;
	(void)cookie;
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind == CAPTURE)
			make_readable(&driver.files[i]);
}

static inline int errno_of(int status)
{
	switch (status) {
	case PTAH_E_INVAL:
		return EINVAL;
	case PTAH_E_NOMEM:
		return ENOMEM;
	case PTAH_E_BUSY:
		return EBUSY;
	case PTAH_E_MISSING:
		return ENODEV;
	case PTAH_E_NOSPACE:
		return ENOSPC;
	case PTAH_E_UNSUPPORTED:
		return EOPNOTSUPP;
	default:
		return EIO;
	}
}

static inline int result_of(int status)
{
	if (status >= 0)
		return 0;
	errno = errno_of(status);
	return -1;
}

static inline void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* Tells what the engine says against a request. */
static inline int refuse_request(int status, const struct ptah_trace_problem *problem,
				 uint64_t address)
{
	struct ptah_ioc_problem *to = at(address);

	assert_non_null(to);
	to->error = status;
	to->cpu = -1;
	if (problem->field)
		snprintf(to->field, sizeof(to->field), "%s", problem->field);
	if (problem->reason)
		snprintf(to->reason, sizeof(to->reason), "%s", problem->reason);
	return result_of(status);
}

/* As the module does it: the fields are those of struct ptah_trace_config. */
static inline void read_trace_config(const struct ptah_ioc_trace *from)
{
	struct ptah_trace_config *t = &driver.trace;

	assert_int_equal(from->size, sizeof(*from));
	*t = (struct ptah_trace_config){
	    .size = sizeof(*t),
	    .os = from->flags & PTAH_IOC_TRACE_OS,
	    .user = from->flags & PTAH_IOC_TRACE_USER,
	    .branch = from->flags & PTAH_IOC_TRACE_BRANCH,
	    .tsc = from->flags & PTAH_IOC_TRACE_TSC,
	    .mtc = from->flags & PTAH_IOC_TRACE_MTC,
	    .cyc = from->flags & PTAH_IOC_TRACE_CYC,
	    .no_retcomp = from->flags & PTAH_IOC_TRACE_NO_RETCOMP,
	    .ptwrite = from->flags & PTAH_IOC_TRACE_PTWRITE,
	    .mtc_period = from->mtc_period,
	    .cyc_threshold = from->cyc_threshold,
	    .psb_period = from->psb_period,
	};
	for (unsigned i = 0; i < PTAH_RANGES; i++)
		t->ranges[i] = (struct ptah_range){from->ranges[i].first, from->ranges[i].last,
						   from->modes[i]};
}

static inline struct ptah_capture_config read_capture(const struct ptah_ioc_capture *from)
{
	assert_int_equal(from->size, sizeof(*from));
	read_trace_config(at(from->trace));
	driver.paused = from->flags & PTAH_IOC_PAUSED;
	return (struct ptah_capture_config){
	    .size = sizeof(struct ptah_capture_config),
	    .trace = &driver.trace,
	    .cpu = PTAH_CAPTURE_THREAD,
	    .owner = OWNER,
	    .policy = (uint8_t)from->policy,
	    .paused = driver.paused,
	    .buffer = from->buffer,
	};
}

static inline int make_pool(const struct ptah_ioc_pool *from)
{
	const struct ptah_ioc_capture *capture = at(from->capture);
	const struct ptah_capture_config config = read_capture(capture);
	struct ptah_trace_problem problem = {0};
	int status =
	    ptah_pool_new(driver.rig.engine, &config, from->captures, &driver.pool, &problem);

	driver.inherit = from->flags & PTAH_IOC_POOL_INHERIT;
	return status < 0 ? refuse_request(status, &problem, capture->problem) : new_file(POOL)->fd;
}

static inline int make_set(const struct ptah_ioc_set *from)
{
	const struct ptah_ioc_capture *capture = at(from->capture);
	const struct ptah_capture_config config = read_capture(capture);
	const struct ptah_captures_config set = {
	    .size = sizeof(set),
	    .capture = &config,
	    .mask = at(from->mask),
	    .words = from->words,
	};
	struct ptah_captures_problem problem = {0};
	int status = ptah_captures_new(driver.rig.engine, &set, &driver.set, &problem);

	return status < 0 ? refuse_request(status, &problem.request, capture->problem)
			  : new_file(SET)->fd;
}

static inline struct file *take_capture(int32_t tid)
{
	struct ptah_capture *capture;
	struct file *f;

	if (ptah_pool_take(driver.pool, OWNER, NULL, NULL, &capture, NULL) < 0) {
		errno = ENOMEM;
		return NULL;
	}
	f = new_file(CAPTURE);
	f->capture = capture;
	f->tid = tid;
	return f;
}

static inline int take_next(struct file *pool, struct ptah_ioc_next *to)
{
	make_quiet(pool);
	for (unsigned i = 0; i < FILES; i++) {
		struct file *f = &driver.files[i];

		if (!f->waits)
			continue;
		f->waits = false;
		*to = f->next;
		to->missed = driver.missed;
		return f->fd;
	}
	to->missed = driver.missed;
	errno = EAGAIN;
	return -1;
}

static inline int take_member(unsigned cpu)
{
	struct ptah_capture *capture = ptah_captures_get(driver.set, cpu);
	struct file *f;

	if (!capture) {
		errno = ENODEV;
		return -1;
	}
	f = new_file(CAPTURE);
	f->capture = capture;
	f->cpu = (int32_t)cpu;
	return f->fd;
}

static inline int tell_status(const struct file *f, struct ptah_ioc_status *to)
{
	struct ptah_capture_status status = {.size = sizeof(status)};

	assert_int_equal(ptah_capture_status(f->capture, &status), 0);
	to->state = status.state;
	to->tid = to->pid = f->tid;
	to->ended = f->ended;
	to->buffer = status.buffer;
	to->page = 16384;
	if (driver.spoil_status)
		driver.spoil_status(to);
	return 0;
}

static inline int tell_caps(const struct ptah_ioc_caps *request)
{
	const struct ptah_caps *caps = ptah_engine_caps(driver.rig.engine, request->cpu);
	struct ptah_caps *to = at(request->caps);

	assert_int_equal(request->bytes, sizeof(*caps));
	*to = *caps;
	if (driver.obstacle)
		to->obstacle = (uint8_t)driver.obstacle;
	return 0;
}

static inline int tell_info(struct ptah_ioc_info *info)
{
	info->version = driver.version ? driver.version : PTAH_IOC_VERSION;
	info->cpus = 2;
	info->limit = UINT64_C(1) << 20; /* half of it is 8 buffers of the tests */
	return 0;
}

static inline int call_set(unsigned long request)
{
	switch (request) {
	case PTAH_IOC_START:
		return result_of(ptah_captures_start(driver.set, NULL));
	case PTAH_IOC_STOP:
		return result_of(ptah_captures_stop(driver.set));
	case PTAH_IOC_PAUSE:
		return result_of(ptah_captures_pause(driver.set));
	default:
		return result_of(ptah_captures_resume(driver.set, NULL));
	}
}

static inline int call_capture(struct file *f, unsigned long request, uintptr_t argument)
{
	switch (request) {
	case PTAH_IOC_START:
		return result_of(ptah_capture_start(f->capture));
	case PTAH_IOC_STOP:
		return result_of(ptah_capture_stop(f->capture));
	case PTAH_IOC_PAUSE:
		return result_of(ptah_capture_pause(f->capture));
	case PTAH_IOC_RESUME:
		return result_of(ptah_capture_resume(f->capture));
	case PTAH_IOC_STATUS:
		return tell_status(f, at(argument));
	case PTAH_IOC_SYNC:
		return result_of(ptah_capture_page_sync(f->capture));
	case PTAH_IOC_SEEN:
		f->seen = (uint32_t)argument;
		if (f->seen == ptah_capture_recorded(f->capture) && !f->ended)
			make_quiet(f);
		return 0;
	default:
		fail_msg("ioctl 0x%lx", request);
		return -1;
	}
}

static inline int call_device(struct file *f, unsigned long request, uintptr_t argument)
{
	switch (request) {
	case PTAH_IOC_INFO:
		return tell_info(at(argument));
	case PTAH_IOC_CAPS:
		return tell_caps(at(argument));
	case PTAH_IOC_POOL:
		return make_pool(at(argument));
	case PTAH_IOC_SET:
		return make_set(at(argument));
	case PTAH_IOC_NEXT:
		return take_next(f, at(argument));
	case PTAH_IOC_MEMBER:
		return take_member((unsigned)argument);
	case PTAH_IOC_TAKE: {
		struct file *taken = take_capture(((const struct ptah_ioc_take *)argument)->tid);

		return taken ? taken->fd : -1;
	}
	default:
		return f->kind == SET ? call_set(request) : call_capture(f, request, argument);
	}
}

static inline bool driver_ioctl(int fd, unsigned long request, uintptr_t argument, int *result)
{
	struct file *f = file_of(fd, NO_FILE);

	if (!f)
		return false;
	if (driver.refuse && driver.refuse_call == request) {
		errno = driver.refuse;
		*result = -1;
		return true;
	}
	*result = call_device(f, request, argument);
	return true;
}

/* Memory */

static inline void *map_of(struct file *f, bool page, size_t size)
{
	uint64_t address;
	uint8_t *memory, *copy;
	size_t bytes;

	assert_int_equal(page ? ptah_capture_map_page(f->capture, OWNER, true, &address)
			      : ptah_capture_map(f->capture, OWNER, false, &address),
			 0);
	memory = ptah_machine_user(driver.rig.machine, OWNER, address, &bytes);
	assert_non_null(memory);
	f->maps[page].memory = memory;
	f->maps[page].address = address;
	f->maps[page].size = size;
	if (!driver.spoil)
		return memory;
	/* A copy with the right bounds, beyond which a sanitizer notices an access. */
	copy = malloc(size);
	assert_non_null(copy);
	memset(copy, 0x5a, size);
	memcpy(copy, memory, bytes < size ? bytes : size);
	if (page)
		driver.spoil((struct ptah_capture_page *)(void *)copy);
	f->maps[page].memory = copy;
	f->maps[page].copied = true;
	return copy;
}

void *mmap(void *where, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *(*next)(void *, size_t, int, int, int, off_t);
	struct file *f = file_of(fd, CAPTURE);
	void *symbol = real("mmap");

	memcpy(&next, &symbol, sizeof(next));
	return f ? map_of(f, offset == (off_t)PTAH_IOC_MAP_PAGE, size)
		 : next(where, size, prot, flags, fd, offset);
}

static inline bool unmap_of(struct file *f, const void *memory)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!memory || f->maps[i].memory != memory)
			continue;
		assert_int_equal(ptah_capture_unmap(f->capture, OWNER, f->maps[i].address), 0);
		if (f->maps[i].copied)
			free(f->maps[i].memory);
		f->maps[i].memory = NULL;
		return true;
	}
	return false;
}

int munmap(void *memory, size_t size)
{
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind == CAPTURE && unmap_of(&driver.files[i], memory))
			return 0;
	return (int)real_syscall(SYS_munmap, (long)(uintptr_t)memory, (long)size, 0, 0, 0);
}

int close(int fd)
{
	struct file *f = file_of(fd, NO_FILE);

	if (f && f->kind == CAPTURE && f->tid >= 0)
		assert_int_equal(ptah_capture_free(f->capture), 0);
	if (f && f->kind == POOL) {
		assert_int_equal(ptah_pool_free(driver.pool), 0);
		driver.pool = NULL;
	}
	if (f && f->kind == SET) {
		assert_int_equal(ptah_captures_free(driver.set), 0);
		driver.set = NULL;
	}
	if (f)
		f->kind = NO_FILE;
	return (int)real_syscall(SYS_close, fd, 0, 0, 0, 0);
}

/* What the test lets happen */

static inline struct file *thread(int32_t tid)
{
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind == CAPTURE && driver.files[i].tid == tid)
			return &driver.files[i];
	return NULL;
}

static inline struct file *processor(int32_t cpu)
{
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind == CAPTURE && driver.files[i].cpu == cpu)
			return &driver.files[i];
	return NULL;
}

/*
 * Leaves marks, and then padding: a recorder holds back the last bytes of what it takes for a
 * packet that has not ended, and marks are no packets.
 */
static inline void leave_marks(unsigned cpu, unsigned marks)
{
	static const uint8_t padding[MARK];

	rig_mark(&driver.rig, cpu, marks);
	ptah_machine_put(driver.rig.machine, cpu, padding, sizeof(padding));
}

/* The thread runs on the processor and leaves so many marks. */
static inline void let_run(int32_t tid, unsigned cpu, unsigned marks)
{
	struct file *f = thread(tid);

	assert_non_null(f);
	ptah_machine_set_cpu(driver.rig.machine, cpu);
	assert_int_equal(ptah_capture_switch_in(f->capture), 0);
	leave_marks(cpu, marks);
	ptah_capture_switch_out(f->capture);
}

/* A thread begins: false if there is no capture for it. */
static inline bool begin_thread(int32_t parent, int32_t tid)
{
	struct file *creator = thread(parent), *f, *pool = NULL;

	assert_true(driver.inherit);
	for (unsigned i = 0; i < FILES; i++)
		if (driver.files[i].kind == POOL)
			pool = &driver.files[i];
	assert_non_null(pool);
	make_readable(pool);
	f = take_capture(tid);
	driver.missed += !f;
	if (!f)
		return false;
	assert_non_null(creator);
	assert_int_equal(ptah_capture_start(f->capture), 0);
	f->waits = true;
	f->next =
	    (struct ptah_ioc_next){.tid = tid, .pid = parent, .parent_tid = parent, .time = 1};
	return true;
}

static inline void end_thread(int32_t tid)
{
	struct file *f = thread(tid);

	assert_non_null(f);
	f->ended = true;
	make_readable(f);
}

/* Each test has a machine of its own. */
static inline void driver_begin(void)
{
	memset(&driver, 0, sizeof(driver));
	rig_open_at(&driver.rig, ptah_model_find("skylake"), 2, ARENA, 0x10000000);
	driver.rig.hal.wake = driver_wake;
	device_open_file = driver_open;
	device_ioctl = driver_ioctl;
}

/* Nothing is open, mapped or allocated any more. */
static inline void driver_end(void)
{
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(driver.files[i].kind, NO_FILE);
	rig_close(&driver.rig);
	device_open_file = NULL;
	device_ioctl = NULL;
}

#endif
