/* SPDX-License-Identifier: MIT */
/*
 * Tests /dev/ptah (port/linux) inside a guest: every kind of descriptor, what a careless or hostile
 * program can do with them, and that nothing remains of a program that has died. Traces that are
 * to be decoded are left in the working folder, with the names that module.sh knows.
 *
 * Usage: module_device TEST...; without an argument all tests.
 */
#include "ptah_ioctl.h"

#include <ptah/engine/caps.h>
#include <ptah/engine/capture_page.h>
#include <ptah/engine/engine.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MSR_REPORT 0x50740000 /* of the plugin: docs/virtual-pt.md */

static int device;
static unsigned cpus;
static const char *test;
static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			failures++;                                                                \
			printf("FAIL %s: line %d: %s (errno %d, %s)\n", test, __LINE__,            \
			       #condition, errno, strerror(errno));                                \
		}                                                                                  \
	} while (0)

/* The call fails with this errno. */
#define REFUSES(number, call)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK((call) == -1 && errno == (number));                                          \
	} while (0)

static int call(int fd, unsigned long number, const void *argument)
{
	return ioctl(fd, number, argument);
}

/* Something to trace: the same instructions each time, all in this program. */
static volatile unsigned sink;

__attribute__((noinline)) static void work(unsigned rounds)
{
	for (unsigned n = 0; n < rounds; n++) {
		if (n % 3)
			sink += n;
		else
			sink ^= n;
	}
}

/* The plugin writes what it has counted since the last report. */
static void report(uint64_t tag)
{
	int fd = open("/dev/cpu/0/msr", O_WRONLY);

	if (fd < 0 || pwrite(fd, &tag, sizeof(tag), MSR_REPORT) != sizeof(tag))
		printf("SKIP: the plugin's register cannot be written\n");
	close(fd);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void unpin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (unsigned n = 0; n < cpus; n++)
		CPU_SET(n, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static struct ptah_ioc_trace user_code(void)
{
	struct ptah_ioc_trace trace = {
	    .size = sizeof(trace),
	    .flags = PTAH_IOC_TRACE_USER | PTAH_IOC_TRACE_BRANCH | PTAH_IOC_TRACE_TSC,
	};

	return trace;
}

static struct ptah_ioc_problem problem;

/* A capture of this thread, user code, unless `change` makes it something else. */
static int new_capture(void (*change)(struct ptah_ioc_capture *, struct ptah_ioc_trace *))
{
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_capture want = {.size = sizeof(want),
					.trace = (uintptr_t)&trace,
					.problem = (uintptr_t)&problem,
					.cpu = PTAH_IOC_CPU_THREAD,
					.buffer = 1 << 20};
	int fd;

	if (change)
		change(&want, &trace);
	fd = call(device, PTAH_IOC_CAPTURE, &want);
	if (fd < 0 && problem.error)
		printf("# %s: %s: %s\n", test, problem.field, problem.reason);
	return fd;
}

static struct ptah_ioc_status status_of(int fd)
{
	struct ptah_ioc_status s = {.size = sizeof(s)};

	CHECK(call(fd, PTAH_IOC_STATUS, &s) == 0);
	return s;
}

/* Of all records that wait. */
static uint32_t record_flags(int fd)
{
	struct ptah_capture_record records[64];
	struct ptah_ioc_records r = {.size = sizeof(r), .records = (uintptr_t)records};
	uint32_t flags = 0;

	do {
		r.n = 64;
		CHECK(call(fd, PTAH_IOC_RECORDS, &r) == 0 && r.n <= 64);
		for (uint32_t n = 0; n < r.n; n++)
			flags |= records[n].flags;
	} while (r.n == 64);
	return flags;
}

static uint64_t memory_used(void)
{
	struct ptah_ioc_info info = {.size = sizeof(info)};

	CHECK(call(device, PTAH_IOC_INFO, &info) == 0);
	return info.used;
}

/* Writes the bytes [oldest, position) to a file. Returns how many. */
static uint64_t save(int capture, const char *name)
{
	struct ptah_ioc_status s = status_of(capture);
	int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	uint64_t at = s.oldest;
	static char bytes[100000];
	ssize_t n;

	while ((n = pread(capture, bytes, sizeof(bytes), (off_t)at)) > 0) {
		if (write(file, bytes, (size_t)n) != n)
			CHECK(!"written");
		at += (uint64_t)n;
	}
	CHECK(n == 0 && at == s.position);
	close(file);
	return at - s.oldest;
}

/*
 * What the module says of itself
 */

static void test_info(void)
{
	struct ptah_ioc_info info = {.size = sizeof(info)};
	struct ptah_caps caps;
	struct ptah_ioc_caps want = {
	    .size = sizeof(want), .caps = (uintptr_t)&caps, .bytes = sizeof(caps)};

	CHECK(call(device, PTAH_IOC_INFO, &info) == 0);
	CHECK(info.version == PTAH_IOC_VERSION && info.cpus >= 1 && info.limit > info.used);
	CHECK(info.has == (PTAH_IOC_HAS_PMI | PTAH_IOC_HAS_PERF));
	CHECK(call(device, PTAH_IOC_CAPS, &want) == 0);
	CHECK(want.bytes == sizeof(caps) && caps.size == sizeof(caps));
	CHECK(caps.obstacle == PTAH_CAPS_NONE && caps.topa && caps.cpu.family == 6);
	want.bytes = 8;
	CHECK(call(device, PTAH_IOC_CAPS, &want) == 0 && want.bytes == 8);
	want.cpu = 100000;
	REFUSES(ENODEV, call(device, PTAH_IOC_CAPS, &want));
}

/*
 * Captures of this thread
 */

static void test_self(void)
{
	int c = new_capture(NULL);
	struct ptah_ioc_status s;

	CHECK(c >= 0);
	report(1);
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	work(100000);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	report(2);
	s = status_of(c);
	CHECK(s.state == PTAH_CAPTURE_IDLE && s.position > 1000 && s.oldest == 0);
	CHECK(s.tid == gettid() && s.pid == getpid() && !s.ended && s.pmi == 1);
	CHECK(s.processor == PTAH_IOC_CPU_THREAD && s.rtit_ctl != 0);
	save(c, "self.pt");
	close(c);
}

/* Many laps of a small buffer: PMIs come, and the last lap can be decoded. */
static void small(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	(void)trace;
	want->buffer = 16384;
	want->region = 4096;
}

static void test_wrap(void)
{
	int c = new_capture(small);
	struct ptah_ioc_status s;

	CHECK(c >= 0 && call(c, PTAH_IOC_START, &problem) == 0);
	work(500000);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	s = status_of(c);
	CHECK(s.position > 3 * s.buffer && s.oldest > 0 && s.position - s.oldest <= s.buffer);
	CHECK(s.pmis >= s.position / s.cycle);
	CHECK(pread(c, &s, 1, 0) == -1 && errno == ENODATA);
	save(c, "wrap.pt");
	close(c);
}

static void stopping(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	small(want, trace);
	want->policy = PTAH_POLICY_STOP;
}

static void test_stop(void)
{
	int c = new_capture(stopping);
	struct ptah_ioc_status s;

	CHECK(c >= 0 && call(c, PTAH_IOC_START, &problem) == 0);
	work(500000);
	s = status_of(c);
	CHECK(s.state == PTAH_CAPTURE_FULL && s.position == s.buffer && s.oldest == 0);
	REFUSES(ENOSPC, call(c, PTAH_IOC_RESUME, &problem));
	CHECK(problem.error == PTAH_E_NOSPACE && problem.reason[0]);
	save(c, "stop.pt");
	close(c);
}

/* A consumer with the page and the buffer mapped, in the process that is traced. */
static void draining(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	(void)trace;
	want->buffer = 65536;
	want->region = 4096;
	want->policy = PTAH_POLICY_DRAIN;
}

static void *map(int capture, uint64_t size, int protection, uint64_t offset)
{
	return mmap(NULL, size, protection, MAP_SHARED, capture, (off_t)offset);
}

static uint64_t drain(struct ptah_capture_reader *r, int capture, FILE *file)
{
	struct ptah_capture_view view = {0};
	const void *bytes;
	uint64_t at;
	size_t n;

	CHECK(call(capture, PTAH_IOC_SYNC, NULL) == 0);
	CHECK(ptah_capture_reader_view(r, &view));
	for (at = view.tail; at < view.end; at += n) {
		n = ptah_capture_reader_bytes(r, at, view.end, &bytes);
		CHECK(n && fwrite(bytes, 1, n, file) == n);
		if (!n)
			break;
	}
	ptah_capture_reader_release(r, view.end);
	return view.position;
}

static void test_drain(void)
{
	int c = new_capture(draining);
	struct ptah_ioc_status s = status_of(c);
	void *buffer = map(c, s.buffer, PROT_READ, PTAH_IOC_MAP_BUFFER);
	void *page = map(c, s.page, PROT_READ | PROT_WRITE, PTAH_IOC_MAP_PAGE);
	struct ptah_capture_record record;
	struct ptah_capture_reader r;
	FILE *file = fopen("drain.pt", "w");
	uint64_t position = 0;
	uint32_t flags = 0;

	CHECK(buffer != MAP_FAILED && page != MAP_FAILED);
	CHECK(ptah_capture_reader_init(&r, page, buffer));
	report(3);
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	for (int i = 0; i < 40; i++) {
		work(20000);
		position = drain(&r, c, file);
	}
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	report(4);
	position = drain(&r, c, file);
	CHECK(call(c, PTAH_IOC_SYNC, NULL) == 0);
	while (ptah_capture_reader_record(&r, &record))
		flags |= record.flags;
	CHECK(!(flags & (PTAH_CAPTURED_LOST | PTAH_CAPTURED_FULL | PTAH_CAPTURED_PARTIAL)));
	s = status_of(c);
	CHECK(s.position == position && s.tail == position && position > 2 * s.buffer);
	CHECK((uint64_t)ftell(file) == position);
	fclose(file);
	munmap(buffer, s.buffer);
	munmap(page, s.page);
	close(c);
}

/* The thread moves between processors while it is traced. */
static void test_move(void)
{
	int c = new_capture(NULL);
	struct ptah_ioc_status s;

	report(5);
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	for (int i = 0; i < 30; i++) {
		pin(i % (int)cpus);
		work(1000);
		sched_yield();
	}
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	report(6);
	unpin();
	s = status_of(c);
	CHECK(s.partial == 0 && (cpus == 1 || s.starts > 15));
	save(c, "move.pt");
	close(c);
}

static void test_pause(void)
{
	int c = new_capture(NULL);
	uint64_t before, position = 0;

	REFUSES(EINVAL, call(c, PTAH_IOC_PAUSE, NULL));
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	work(1000);
	CHECK(call(c, PTAH_IOC_PAUSE, NULL) == 0);
	before = status_of(c).position;
	CHECK(status_of(c).state == PTAH_CAPTURE_PAUSED);
	work(10000);
	CHECK(call(c, PTAH_IOC_FLUSH, &position) == 0 && position == before);
	CHECK(call(c, PTAH_IOC_RESUME, &problem) == 0);
	work(1000);
	CHECK(call(c, PTAH_IOC_FLUSH, &position) == 0 && position > before);
	close(c); /* it runs */
}

static void paused(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	(void)trace;
	want->flags = PTAH_IOC_PAUSED;
}

static void test_armed(void)
{
	int c = new_capture(paused);

	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	work(1000);
	CHECK(status_of(c).position == 0 && status_of(c).state == PTAH_CAPTURE_PAUSED);
	CHECK(call(c, PTAH_IOC_RESUME, &problem) == 0);
	work(1000);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0 && status_of(c).position > 100);
	close(c);
}

static void test_reconfigure(void)
{
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_reconfigure r = {
	    .size = sizeof(r), .trace = (uintptr_t)&trace, .problem = (uintptr_t)&problem};
	struct ptah_ioc_resize resize = {
	    .size = sizeof(resize), .buffer = 1 << 21, .problem = (uintptr_t)&problem};
	int c = new_capture(NULL);
	void *buffer;

	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	trace.flags |= PTAH_IOC_TRACE_NO_RETCOMP;
	trace.modes[0] = PTAH_RANGE_FILTER;
	trace.ranges[0].first = (uintptr_t)work;
	trace.ranges[0].last = (uintptr_t)work + 4096;
	CHECK(call(c, PTAH_IOC_RECONFIGURE, &r) == 0);
	CHECK(call(c, PTAH_IOC_FLUSH, NULL) == 0);
	CHECK(status_of(c).rtit_ctl >> 32 & 1);
	trace.modes[0] = 9;
	REFUSES(EINVAL, call(c, PTAH_IOC_RECONFIGURE, &r));
	CHECK(!strncmp(problem.field, "ranges[0]", 9));
	CHECK(call(c, PTAH_IOC_RESIZE, &resize) == 0 && status_of(c).buffer == 1 << 21);
	buffer = map(c, 1 << 21, PROT_READ, PTAH_IOC_MAP_BUFFER);
	CHECK(buffer != MAP_FAILED);
	resize.buffer = 1 << 20;
	REFUSES(EBUSY, call(c, PTAH_IOC_RESIZE, &resize));
	munmap(buffer, 1 << 21);
	resize.buffer = 12345;
	REFUSES(EINVAL, call(c, PTAH_IOC_RESIZE, &resize));
	CHECK(!strcmp(problem.field, "buffer"));
	close(c);
}

/*
 * Processors and sets
 */

static void processor(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	want->cpu = 0;
	trace->flags |= PTAH_IOC_TRACE_OS;
}

static void test_processor(void)
{
	int c = new_capture(processor), second = new_capture(processor);

	pin(0);
	CHECK(c >= 0 && second >= 0);
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	REFUSES(EBUSY, call(second, PTAH_IOC_START, &problem));
	CHECK(problem.error == PTAH_E_BUSY && problem.cpu == 0);
	for (int i = 0; i < 100; i++)
		getppid();
	CHECK(status_of(c).state == PTAH_CAPTURE_RUNNING && status_of(c).cpu == 0);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	CHECK(status_of(c).position > 1000);
	CHECK(call(second, PTAH_IOC_START, &problem) == 0);
	close(second);
	close(c);
	unpin();
}

static void of_cr3(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	want->cpu = 0;
	trace->flags |= PTAH_IOC_TRACE_CR3_OF_PID;
	trace->cr3_pid = getpid();
}

static void of_cr3_both(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	of_cr3(want, trace);
	trace->flags |= PTAH_IOC_TRACE_CR3_FILTER;
}

static void of_no_cr3(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	of_cr3(want, trace);
	trace->cr3_pid = 2; /* kthreadd */
}

static void test_cr3(void)
{
	int c = new_capture(of_cr3);
	pid_t child;

	pin(0);
	report(7);
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	child = fork();
	if (!child) {
		work(500000); /* another process on this processor: not traced */
		_exit(0);
	}
	work(100000);
	waitpid(child, NULL, 0);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	report(8);
	save(c, "cr3.pt");
	close(c);
	REFUSES(EINVAL, new_capture(of_cr3_both));
	REFUSES(ESRCH, new_capture(of_no_cr3));
	unpin();
}

static int new_set(uint64_t *mask, uint64_t words, uint32_t flags)
{
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_capture capture = {.size = sizeof(capture),
					   .trace = (uintptr_t)&trace,
					   .problem = (uintptr_t)&problem,
					   .buffer = 1 << 20};
	struct ptah_ioc_set want = {.size = sizeof(want),
				    .flags = flags,
				    .capture = (uintptr_t)&capture,
				    .mask = (uintptr_t)mask,
				    .words = words};

	return call(device, PTAH_IOC_SET, &want);
}

static struct ptah_ioc_set_status set_status(int set)
{
	struct ptah_ioc_set_status s = {.size = sizeof(s)};

	CHECK(call(set, PTAH_IOC_SET_STATUS, &s) == 0);
	return s;
}

static void test_set(void)
{
	uint64_t first = 1, beyond[3] = {0, 0, 1};
	int set = new_set(NULL, 0, 0), one = new_set(&first, 1, 0), member = -1;
	struct ptah_ioc_live live = {.size = sizeof(live)};
	struct ptah_ioc_set_status s;

	CHECK(set >= 0 && one >= 0);
	REFUSES(ENODEV, ioctl(one, PTAH_IOC_MEMBER, 1ul));
	REFUSES(EINVAL, new_set(&first, 0, 0));
	REFUSES(EFAULT, new_set((uint64_t *)8, 1, 0));
	CHECK(new_set(beyond, 3, 0) == -1);
	CHECK(call(set, PTAH_IOC_START, &problem) == 0);
	REFUSES(EBUSY, call(one, PTAH_IOC_START, &problem));
	CHECK(problem.cpu == 0 && problem.error == PTAH_E_BUSY);
	for (unsigned n = 0; n < cpus; n++) {
		pin((int)n);
		work(10000);
	}
	s = set_status(set);
	CHECK(s.started && s.cpus == cpus && s.in_state[PTAH_CAPTURE_RUNNING] == cpus);
	CHECK(call(set, PTAH_IOC_LIVE, &live) == 0 && !live.exact);
	CHECK(call(set, PTAH_IOC_PAUSE, NULL) == 0);
	CHECK(call(set, PTAH_IOC_RESUME, &problem) == 0);
	CHECK(call(set, PTAH_IOC_FLUSH, NULL) == 0);
	CHECK(call(set, PTAH_IOC_STOP, NULL) == 0);
	for (unsigned n = 0; n < cpus; n++) {
		member = ioctl(set, PTAH_IOC_MEMBER, (unsigned long)n);
		CHECK(member >= 0 && status_of(member).position > 1000);
		CHECK(status_of(member).processor == (int)n);
		REFUSES(EBUSY, call(member, PTAH_IOC_START, &problem));
		if (n + 1 < cpus)
			close(member);
	}
	close(set);
	CHECK(status_of(member).position > 1000); /* a member keeps the set */
	close(member);
	close(one);
	unpin();
}

static void set_online(unsigned cpu, bool on)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, on ? "1" : "0", 1) == 1);
	close(fd);
}

static int perf_open(int cpu, pid_t pid);

/* A processor goes offline and comes back while it is traced. */
static void test_hotplug(void)
{
	int set, member;
	uint64_t before;
	int event = -1;

	if (cpus < 2)
		return;
	set = new_set(NULL, 0, 0);
	member = ioctl(set, PTAH_IOC_MEMBER, 1ul);
	CHECK(call(set, PTAH_IOC_START, &problem) == 0);
	pin(1);
	work(10000);
	unpin();
	set_online(1, false);
	CHECK(status_of(member).state == PTAH_CAPTURE_BLOCKED);
	before = status_of(member).position;
	set_online(1, true);
	CHECK(status_of(member).state == PTAH_CAPTURE_RUNNING);
	pin(1);
	work(10000);
	CHECK(call(set, PTAH_IOC_STOP, NULL) == 0);
	CHECK(status_of(member).position > before);
	CHECK(record_flags(member) & PTAH_CAPTURED_PARTIAL);
	close(member);
	close(set);
	/* Created while it is offline: it joins by itself. */
	unpin();
	set_online(1, false);
	set = new_set(NULL, 0, 0);
	CHECK(call(set, PTAH_IOC_START, &problem) == 0);
	set_online(1, true);
	for (int i = 0; i < 1000 && set_status(set).in_state[PTAH_CAPTURE_RUNNING] < cpus; i++)
		usleep(10000);
	CHECK(set_status(set).in_state[PTAH_CAPTURE_RUNNING] == cpus);
	/* Perf forgets what is held on a processor that goes offline. */
	set_online(1, false);
	set_online(1, true);
	for (int i = 0; i < 1000 && (event = perf_open(1, -1)) >= 0; i++) {
		close(event);
		usleep(10000);
	}
	CHECK(event < 0 && errno == EBUSY);
	close(set);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Kernels without CONFIG_PM_DEBUG cannot test suspend, and file systems of 9p do not survive it. */
static bool can_suspend(void)
{
	FILE *mounts = fopen("/proc/mounts", "r");
	char line[1000];
	bool can = mounts && access("/sys/power/pm_test", W_OK) == 0;

	while (mounts && fgets(line, sizeof(line), mounts))
		can &= !strstr(line, " 9p ");
	if (mounts)
		fclose(mounts);
	return can;
}

/* The whole way into suspend and back, but for the moment in which the firmware has the machine. */
static void test_suspend(void)
{
	int set = new_set(NULL, 0, 0);
	int member = ioctl(set, PTAH_IOC_MEMBER, 0ul);
	uint64_t before;

	if (!can_suspend()) {
		printf("# suspend: not here\n");
		close(member);
		close(set);
		return;
	}
	CHECK(call(set, PTAH_IOC_START, &problem) == 0);
	write_file("/sys/module/suspend/parameters/pm_test_delay", "0");
	write_file("/sys/power/pm_test", "core");
	before = status_of(member).position;
	write_file("/sys/power/state", "mem");
	pin(0);
	work(10000);
	CHECK(set_status(set).in_state[PTAH_CAPTURE_RUNNING] == cpus);
	CHECK(call(set, PTAH_IOC_STOP, NULL) == 0);
	CHECK(status_of(member).position > before);
	CHECK(record_flags(member) & PTAH_CAPTURED_PARTIAL);
	unpin();
	close(member);
	close(set);
}

/*
 * Other threads and processes
 */

static void on_exec(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	(void)trace;
	want->flags = PTAH_IOC_ON_EXEC;
}

static pid_t traced_child;

static void of_child(struct ptah_ioc_capture *want, struct ptah_ioc_trace *trace)
{
	on_exec(want, trace);
	want->tid = traced_child;
}

/* The trace begins with the first instruction of the program and ends with the process. */
static void test_exec(void)
{
	struct pollfd wait = {.events = POLLIN};
	struct ptah_ioc_wait w = {.size = sizeof(w), .milliseconds = 20000};
	int go[2], c, status;
	char byte;

	CHECK(pipe(go) == 0);
	traced_child = fork();
	if (!traced_child) {
		if (read(go[0], &byte, 1) == 1)
			execl("/proc/self/exe", "module_device", "child", NULL);
		_exit(9);
	}
	c = new_capture(of_child);
	CHECK(c >= 0);
	REFUSES(EBUSY, new_capture(of_child));
	CHECK(status_of(c).tid == traced_child && status_of(c).state == PTAH_CAPTURE_IDLE);
	report(9);
	CHECK(write(go[1], "g", 1) == 1);
	CHECK(call(c, PTAH_IOC_WAIT, &w) == 0);
	CHECK(waitpid(traced_child, &status, 0) == traced_child && status == 0);
	wait.fd = c;
	while (!(wait.revents & POLLHUP) && poll(&wait, 1, 20000) > 0)
		ioctl(c, PTAH_IOC_SEEN, status_of(c).records);
	CHECK(wait.revents & POLLHUP && status_of(c).ended);
	CHECK(call(c, PTAH_IOC_STOP, NULL) == 0);
	report(10);
	save(c, "exec.pt");
	close(c);
	close(go[0]);
	close(go[1]);
}

static void *thread(void *rounds)
{
	work((unsigned)(uintptr_t)rounds);
	return NULL;
}

/* Threads and processes inherit captures from a pool. */
static void test_inherit(void)
{
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_capture capture = {.size = sizeof(capture),
					   .trace = (uintptr_t)&trace,
					   .problem = (uintptr_t)&problem,
					   .buffer = 1 << 18};
	struct ptah_ioc_pool want = {.size = sizeof(want),
				     .flags = PTAH_IOC_POOL_INHERIT,
				     .capture = (uintptr_t)&capture,
				     .captures = 4};
	struct ptah_ioc_take take = {.size = sizeof(take), .problem = (uintptr_t)&problem};
	struct ptah_ioc_next next = {.size = sizeof(next)};
	struct pollfd wait = {.events = POLLIN};
	pthread_t threads[2];
	int pool, own, fds[3];
	pid_t child;

	pool = call(device, PTAH_IOC_POOL, &want);
	CHECK(pool >= 0);
	REFUSES(EAGAIN, call(pool, PTAH_IOC_NEXT, &next));
	own = call(pool, PTAH_IOC_TAKE, &take);
	CHECK(own >= 0);
	REFUSES(EBUSY, call(pool, PTAH_IOC_TAKE, &take));
	CHECK(call(own, PTAH_IOC_START, &problem) == 0);
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, thread, (void *)(10000 * (i + 1))) == 0);
	child = fork();
	if (!child) {
		work(30000);
		_exit(0);
	}
	if (!fork()) /* the fourth of three that are left */
		_exit(0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	while (wait4(-1, NULL, 0, NULL) > 0)
		;
	CHECK(call(own, PTAH_IOC_STOP, NULL) == 0);
	wait.fd = pool;
	CHECK(poll(&wait, 1, 0) == 1 && wait.revents & POLLIN);
	for (int i = 0; i < 3; i++) {
		fds[i] = call(pool, PTAH_IOC_NEXT, &next);
		CHECK(fds[i] >= 0 && next.time && next.missed == 1);
		/* pthread_join() returns while the thread is still ending. */
		wait = (struct pollfd){.fd = fds[i]};
		CHECK(poll(&wait, 1, 20000) == 1 && wait.revents & POLLHUP);
		CHECK(status_of(fds[i]).ended);
	}
	CHECK(next.parent_tid == 0 || next.parent_tid == gettid());
	REFUSES(EAGAIN, call(pool, PTAH_IOC_NEXT, &next));
	for (int i = 0; i < 3; i++)
		CHECK(status_of(fds[i]).position > 1000u * ((unsigned)i + 1));
	REFUSES(EINVAL, call(fds[0], PTAH_IOC_RESIZE,
			     &((struct ptah_ioc_resize){.size = 32, .buffer = 1 << 20})));
	save(fds[2], "inherit.pt");
	close(fds[0]); /* it can be taken again, and shows nothing of its last owner */
	take.tid = 1;
	fds[0] = call(pool, PTAH_IOC_TAKE, &take);
	CHECK(fds[0] >= 0 && status_of(fds[0]).position == 0 && status_of(fds[0]).tid == 1);
	close(pool);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(own);
}

/*
 * Mappings
 */

static void test_mappings(void)
{
	int c = new_capture(NULL), status;
	struct ptah_ioc_status s = status_of(c);
	char *buffer, *page, *second, *moved;
	unsigned char resident;
	pid_t child;

	errno = 0;
	CHECK(map(c, s.buffer, PROT_READ | PROT_WRITE, 0) == MAP_FAILED && errno == EACCES);
	CHECK(map(c, s.buffer + 4096, PROT_READ, 0) == MAP_FAILED);
	CHECK(map(c, 4096, PROT_READ, 0) == MAP_FAILED);
	CHECK(map(c, s.buffer, PROT_READ, 4096) == MAP_FAILED);
	CHECK(map(c, s.page, PROT_READ, PTAH_IOC_MAP_PAGE + 4096) == MAP_FAILED);
	CHECK(mmap(NULL, s.buffer, PROT_READ, MAP_PRIVATE, c, 0) == MAP_FAILED);
	CHECK(map(c, s.buffer, PROT_READ | PROT_EXEC, 0) == MAP_FAILED);

	buffer = map(c, s.buffer, PROT_READ, 0);
	CHECK(buffer != MAP_FAILED);
	REFUSES(EACCES, mprotect(buffer, s.buffer, PROT_READ | PROT_WRITE));
	CHECK(munmap(buffer + 4096, 4096) == -1); /* not in parts */
	CHECK(mprotect(buffer, 4096, PROT_NONE) == -1);
	CHECK(madvise(buffer, s.buffer, MADV_DOFORK) == -1);
	CHECK(mremap(buffer, s.buffer, s.buffer * 2, MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK(mremap(buffer, 0, s.buffer, MREMAP_MAYMOVE) == MAP_FAILED);
	moved = mmap(NULL, s.buffer, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	moved = mremap(buffer, s.buffer, s.buffer, MREMAP_MAYMOVE | MREMAP_FIXED, moved);
	CHECK(moved != MAP_FAILED && mincore(buffer, 4096, &resident) == -1);

	page = map(c, s.page, PROT_READ | PROT_WRITE, PTAH_IOC_MAP_PAGE);
	CHECK(page != MAP_FAILED);
	errno = 0;
	second = map(c, s.page, PROT_READ | PROT_WRITE, PTAH_IOC_MAP_PAGE);
	CHECK(second == MAP_FAILED && errno == EBUSY); /* one consumer */
	second = map(c, s.page, PROT_READ, PTAH_IOC_MAP_PAGE);
	CHECK(second != MAP_FAILED);
	child = fork();
	if (!child)
		_exit(*(volatile char *)moved); /* not inherited: SIGSEGV */
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGSEGV);

	/* Nothing is freed while it is mapped, not even by close(). */
	CHECK(call(c, PTAH_IOC_START, &problem) == 0);
	close(c);
	work(10000);
	CHECK(((struct ptah_capture_page *)(void *)second)->magic == PTAH_CAPTURE_PAGE_MAGIC);
	memset(page, 0xa5, s.page); /* a consumer that writes nonsense */
	work(100000);
	munmap(page, s.page);
	CHECK(moved[0] == 2 && (unsigned char)moved[1] == 0x82); /* PSB */
	munmap(second, s.page);
	munmap(moved, s.buffer);
}

/*
 * Perf
 */

static int perf_open(int cpu, pid_t pid)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr), .disabled = 1, .exclude_kernel = 1, .exclude_hv = 1};
	FILE *file = fopen("/sys/bus/event_source/devices/intel_pt/type", "r");

	if (!file || fscanf(file, "%u", &attr.type) != 1)
		return -1;
	fclose(file);
	return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, 0);
}

static void test_perf(void)
{
	int c = new_capture(NULL), event;

	REFUSES(EBUSY, perf_open(0, -1));
	REFUSES(EBUSY, perf_open(-1, 0));
	close(c);
	event = perf_open(-1, 0);
	CHECK(event >= 0);
	REFUSES(EBUSY, new_capture(NULL));
	CHECK(problem.error == PTAH_E_BUSY && strstr(problem.reason, "perf"));
	REFUSES(EBUSY, new_set(NULL, 0, 0));
	close(event);
	event = perf_open(0, -1);
	CHECK(event >= 0);
	REFUSES(EBUSY, new_capture(NULL));
	close(event);
	c = new_capture(NULL);
	CHECK(c >= 0);
	close(c);
}

/*
 * Requests that are wrong
 */

static void test_requests(void)
{
	static unsigned char noise[8192], target[8192];
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_capture good = {.size = sizeof(good),
					.trace = (uintptr_t)&trace,
					.cpu = PTAH_IOC_CPU_THREAD},
				want;
	struct ptah_ioc_status s = {.size = sizeof(s)};
	struct ptah_ioc_records records = {.size = sizeof(records), .n = 5000};
	int c, fd;

#define WRONG(number, member, value)                                                               \
	do {                                                                                       \
		want = good;                                                                       \
		want.member = (value);                                                             \
		REFUSES(number, call(device, PTAH_IOC_CAPTURE, &want));                            \
	} while (0)
	WRONG(EINVAL, size, 0);
	WRONG(EINVAL, size, 7);
	WRONG(E2BIG, size, 100000);
	WRONG(EINVAL, flags, 0x80);
	WRONG(EINVAL, reserved, 1);
	WRONG(EFAULT, trace, 0);
	WRONG(EFAULT, trace, UINT64_C(0xffff888000000000));
	WRONG(EFAULT, problem, 16);
	WRONG(EINVAL, cpu, -2);
	WRONG(ENODEV, cpu, 100000);
	WRONG(EINVAL, tid, -5);
	WRONG(ESRCH, tid, 0x3fffff);
	WRONG(EINVAL, shape, 0x100); /* 0 in its low byte */
	WRONG(EINVAL, policy, 0x100);
	WRONG(EINVAL, buffer, 5000);
	WRONG(EINVAL, region, 5000);
	WRONG(EINVAL, records, 63);
	WRONG(EINVAL, records, 1u << 31);
	good.region = 1 << 22;
	WRONG(ENOMEM, buffer, UINT64_C(1) << 30); /* a quarter of the memory is the limit */
	good.region = 0;
	trace.flags |= UINT64_C(1) << 60;
	WRONG(EINVAL, tid, 0);
	trace = user_code();
	trace.reserved = 1;
	WRONG(EINVAL, tid, 0);
	trace = user_code();
	trace.mtc_period = 255;
	WRONG(EINVAL, tid, 0);
	trace = user_code();

	/* Sizes of other versions. */
	trace = user_code();
	want = good;
	want.size = 32; /* as if the rest were 0 */
	fd = call(device, PTAH_IOC_CAPTURE, &want);
	CHECK(fd >= 0);
	close(fd);
	memcpy(noise, &good, sizeof(good));
	*(uint32_t *)(void *)noise = sizeof(good) + 8;
	fd = call(device, PTAH_IOC_CAPTURE, noise);
	CHECK(fd >= 0);
	close(fd);
	noise[sizeof(good) + 3] = 1;
	REFUSES(E2BIG, call(device, PTAH_IOC_CAPTURE, noise));

	c = new_capture(NULL);
	REFUSES(EINVAL, call(c, PTAH_IOC_RECORDS, &records));
	REFUSES(EFAULT, call(c, PTAH_IOC_STATUS, NULL));
	REFUSES(EFAULT, call(c, PTAH_IOC_STATUS, (void *)UINT64_C(0xffffffff81000000)));
	REFUSES(ENOTTY, call(c, PTAH_IOC_INFO, &s));
	REFUSES(ENOTTY, call(device, PTAH_IOC_STATUS, &s));
	REFUSES(EINVAL, call(c, PTAH_IOC_SYNC, NULL)); /* nobody has mapped the page */
	CHECK(pread(c, noise, 10, INT64_MAX - 5000) == 0);
	close(c);

	/* Noise in every struct of every call: any result, no harm. */
	srand(1);
	for (int i = 0; i < 500; i++) {
		for (size_t n = 0; n < 300; n++)
			noise[n] = (unsigned char)(rand() % 5 ? 0 : rand());
		*(uint32_t *)(void *)noise = (uint32_t)rand() % 300;
		memcpy(target, &trace, sizeof(trace));
		if (rand() % 2)
			memcpy(noise + 8, &(uint64_t){(uintptr_t)target}, 8);
		fd = call(device, PTAH_IOC_NUMBER(rand() % 5), noise);
		if (fd > 2)
			close(fd);
	}
	c = new_capture(NULL);
	for (int i = 0; i < 500; i++) {
		for (size_t n = 0; n < 300; n++)
			noise[n] = (unsigned char)(rand() % 5 ? 0 : rand());
		*(uint32_t *)(void *)noise = (uint32_t)rand() % 300;
		if (rand() % 2)
			memcpy(noise + 8, &(uint64_t){(uintptr_t)target}, 8);
		if ((i & 15) != 12) /* WAIT may take for ever */
			call(c, PTAH_IOC_NUMBER(0x10 + (i & 15)), noise);
	}
	close(c);
}

/*
 * Programs that die
 */

static void test_deaths(void)
{
	const uint64_t before = memory_used();
	int status, go[2];
	char byte;
	pid_t child;

	for (int i = 0; i < 3; i++) {
		CHECK(pipe(go) == 0);
		child = fork();
		if (!child) {
			int c =
			    i == 0 ? new_set(NULL, 0, 0) : new_capture(i == 1 ? NULL : draining);
			struct ptah_ioc_status s;

			call(c, PTAH_IOC_START, &problem);
			if (i) {
				s = status_of(c);
				map(c, s.buffer, PROT_READ, 0);
				map(c, s.page, PROT_READ | PROT_WRITE, PTAH_IOC_MAP_PAGE);
			}
			if (write(go[1], "g", 1) == 1)
				for (;;)
					work(1000);
		}
		CHECK(read(go[0], &byte, 1) == 1);
		CHECK(memory_used() > before);
		kill(child, SIGKILL);
		CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
		close(go[0]);
		close(go[1]);
	}
	CHECK(memory_used() == before);
}

/* Everybody forks, captures come and go, and all are killed in the middle. */
static void storm(int go)
{
	struct ptah_ioc_trace trace = user_code();
	struct ptah_ioc_capture capture = {
	    .size = sizeof(capture), .trace = (uintptr_t)&trace, .buffer = 16384};
	struct ptah_ioc_pool want = {.size = sizeof(want),
				     .flags = PTAH_IOC_POOL_INHERIT,
				     .capture = (uintptr_t)&capture,
				     .captures = 24};
	struct ptah_ioc_take take = {.size = sizeof(take)};
	struct ptah_ioc_next next = {.size = sizeof(next)};
	int pool = call(device, PTAH_IOC_POOL, &want), own = call(pool, PTAH_IOC_TAKE, &take);
	int fds[24], n = 0;
	uint64_t ended = 0;

	CHECK(own >= 0 && call(own, PTAH_IOC_START, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned rounds = 0;; rounds += 300) {
			pid_t child = fork();

			if (!child) {
				work(rounds % 2100);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
	}
	for (;;) {
		while (n < 24 && (fds[n] = call(pool, PTAH_IOC_NEXT, &next)) >= 0)
			n++;
		for (int i = 0; i < n; i++) {
			if (!status_of(fds[i]).ended)
				continue;
			close(fds[i]); /* it can be taken again */
			fds[i--] = fds[--n];
			ended++;
		}
		if (ended > 40 && go >= 0) {
			CHECK(write(go, "g", 1) == 1);
			go = -1;
		}
	}
}

static void test_storm(void)
{
	const uint64_t before = memory_used();
	int go[2];
	char byte;
	pid_t child;

	CHECK(pipe(go) == 0);
	child = fork();
	if (!child) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		storm(go[1]);
	}
	CHECK(read(go[0], &byte, 1) == 1);
	CHECK(memory_used() > before);
	kill(-child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	close(go[0]);
	close(go[1]);
	/* Descriptors are inherited: the last of its children has to be gone. */
	for (int i = 0; i < 1000 && memory_used() != before; i++)
		usleep(10000);
	CHECK(memory_used() == before);
}

/* Threads that call all at once, and captures that are closed meanwhile. */
static int shared;

static void *caller(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed;
	struct ptah_ioc_status s;

	for (int i = 0; i < 200; i++) {
		s = (struct ptah_ioc_status){.size = sizeof(s)};
		switch (rand_r(&random) % 8) {
		case 0:
			call(shared, PTAH_IOC_START, NULL);
			break;
		case 1:
			call(shared, PTAH_IOC_STOP, NULL);
			break;
		case 2:
			call(shared, PTAH_IOC_PAUSE, NULL);
			break;
		case 3:
			call(shared, PTAH_IOC_RESUME, NULL);
			break;
		case 4: {
			void *buffer = map(shared, 65536, PROT_READ, 0);

			if (buffer != MAP_FAILED)
				munmap(buffer, 65536);
			break;
		}
		case 5: {
			struct ptah_ioc_resize r = {.size = sizeof(r),
						    .buffer = rand_r(&random) % 2 ? 65536 : 131072};

			call(shared, PTAH_IOC_RESIZE, &r);
			break;
		}
		case 6: {
			int c = new_capture(NULL);

			if (c >= 0) {
				call(c, PTAH_IOC_START, NULL);
				work(100);
				close(c);
			}
			break;
		}
		default:
			call(shared, PTAH_IOC_STATUS, &s);
			break;
		}
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];

	shared = new_capture(draining);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, caller, (void *)(i + 1)) == 0);
	work(1000000);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	close(shared);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
    {"info", test_info},	   {"self", test_self},	      {"wrap", test_wrap},
    {"stop", test_stop},	   {"drain", test_drain},     {"move", test_move},
    {"pause", test_pause},	   {"armed", test_armed},     {"reconfigure", test_reconfigure},
    {"processor", test_processor}, {"cr3", test_cr3},	      {"set", test_set},
    {"hotplug", test_hotplug},	   {"exec", test_exec},	      {"inherit", test_inherit},
    {"mappings", test_mappings},   {"perf", test_perf},	      {"requests", test_requests},
    {"deaths", test_deaths},	   {"threads", test_threads}, {"suspend", test_suspend},
    {"storm", test_storm},
};

static void run(size_t n)
{
	int before = failures;
	uint64_t used = memory_used();
	struct timespec from, to;

	test = tests[n].name;
	clock_gettime(CLOCK_MONOTONIC, &from);
	tests[n].run();
	CHECK(memory_used() == used);
	clock_gettime(CLOCK_MONOTONIC, &to);
	if (failures == before)
		printf("ok %s %ld ms\n", test,
		       (long)(to.tv_sec - from.tv_sec) * 1000 +
			   (to.tv_nsec - from.tv_nsec) / 1000000);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "child")) {
		work(50000);
		return 0;
	}
	cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	device = open(PTAH_IOC_DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0) {
		perror(PTAH_IOC_DEVICE);
		return 1;
	}
	for (size_t n = 0; n < sizeof(tests) / sizeof(tests[0]); n++) {
		bool wanted = argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], tests[n].name);
		if (wanted)
			run(n);
	}
	printf("%d failures\n", failures);
	return failures != 0;
}
