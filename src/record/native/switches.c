/* SPDX-License-Identifier: MIT */
/* Reads context switches from the kernel's buffers (switches.h). */
#include "record/native/switches.h"

#include "base/order.h"
#include "record/proc_stat.h"
#include "record/tsc_clock.h"
#include "support/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
/* Of each processor: 8,192 switches; where so much may not be locked in memory, 2,048. */
#define RING	   (128 * PAGE)
#define RING_SMALL (32 * PAGE)
#define EVENTS_MAX 1024 /* descriptors: a process may have that many by default */
#define HELD_MORE  1024 /* switches that are held, and may be more than the threads */
#define PASSES_MAX 8	/* over the threads of a process, of which more may come meanwhile */

/* Kernel and TSC read at the same moment; both are linear between two of these. */
#define KERNEL_CLOCK CLOCK_MONOTONIC_RAW

struct switch_ring {
	int fd; /* of the event whose buffer it is; -1: none yet */
	struct perf_event_mmap_page *page;
	size_t size;
};

struct switch_list {
	struct thread_switch *list;
	size_t count, capacity;
};

struct switches {
	unsigned cpus;
	struct switch_ring *rings; /* by processor */
	int *fds;		   /* of the other events, which use the rings of the first ones */
	size_t fd_count, events, events_max;
	struct tsc_moment since; /* when switches were taken last */
	struct switch_list taken, held;
	size_t held_threads; /* that `held` had when it was made shorter last */
	bool lost;
};

/* The sample id of a record, with sample_type TID | TIME | CPU. */
struct sample_id {
	int32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
};

/* The recorder needs descriptors for other things, too. */
static size_t most_events(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 >= EVENTS_MAX)
		return EVENTS_MAX;
	return (size_t)(limit.rlim_cur / 2);
}

struct switches *switches_new(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct switches *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->events_max = most_events();
	s->cpus = cpus > 0 ? (unsigned)cpus : 1;
	s->rings = calloc(s->cpus, sizeof(*s->rings));
	s->fds = calloc(EVENTS_MAX, sizeof(*s->fds));
	if (!s->rings || !s->fds) {
		free(s->rings);
		free(s->fds);
		free(s);
		return NULL;
	}
	for (unsigned i = 0; i < s->cpus; i++)
		s->rings[i].fd = -1;
	s->since = tsc_clock_now(KERNEL_CLOCK);
	return s;
}

void switches_free(struct switches *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->cpus; i++) {
		if (s->rings[i].fd < 0)
			continue;
		munmap(s->rings[i].page, PAGE + s->rings[i].size);
		close(s->rings[i].fd);
	}
	for (size_t i = 0; i < s->fd_count; i++)
		close(s->fds[i]);
	free(s->rings);
	free(s->fds);
	free(s->taken.list);
	free(s->held.list);
	free(s);
}

/* Nobody waits for records: they are looked for. */
static int open_event(int32_t tid, unsigned cpu, bool alone)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .sample_type =
					   PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
				       .inherit = 1,
				       .inherit_thread = alone,
				       .exclude_kernel = 1,
				       .exclude_hv = 1,
				       .sample_id_all = 1,
				       .context_switch = 1,
				       .use_clockid = 1,
				       .clockid = KERNEL_CLOCK,
				       .watermark = 1,
				       .wakeup_watermark = UINT32_MAX};

	return (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The event's buffer is the processor's, or becomes it. False: there is none. */
static bool put_into_ring(struct switches *s, unsigned cpu, int fd)
{
	struct switch_ring *ring = &s->rings[cpu];

	if (ring->fd >= 0) {
		if (s->fd_count == EVENTS_MAX || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd))
			return false;
		s->fds[s->fd_count++] = fd;
		return true;
	}
	ring->size = RING;
	ring->page = mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring->page == MAP_FAILED) {
		ring->size = RING_SMALL;
		ring->page =
		    mmap(NULL, PAGE + RING_SMALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	if (ring->page == MAP_FAILED)
		return false;
	ring->fd = fd;
	return true;
}

static bool follow_thread(struct switches *s, int32_t tid, bool alone)
{
	bool any = false;

	for (unsigned i = 0; i < s->cpus; i++) {
		const int fd = s->events < s->events_max ? open_event(tid, i, alone) : -1;

		if (fd < 0 && s->events < s->events_max && errno == ENODEV)
			continue; /* the processor is off */
		if (fd < 0)
			return false;
		if (!put_into_ring(s, i, fd)) {
			close(fd);
			return false;
		}
		s->events++;
		any = true;
	}
	return any;
}

/* One pass over the threads: those that are not known yet are followed. -1: not allowed. */
static int follow_more(struct switches *s, int32_t pid, bool alone, int32_t **known, size_t *count)
{
	int32_t *tids;
	const size_t n = proc_threads("", pid, &tids);
	int more = n ? 0 : -1;

	for (size_t k = 0; k < n && more >= 0; k++) {
		size_t i = 0;

		while (i < *count && (*known)[i] != tids[k])
			i++;
		if (i < *count)
			continue;
		if (LIST_ADD(*known, *count)) {
			(*known)[*count - 1] = tids[k];
			more = follow_thread(s, tids[k], alone) ? more + 1 : -1;
		} else {
			more = -1;
		}
	}
	free(tids);
	return more;
}

bool switches_follow_all(struct switches *s, int32_t pid, bool alone)
{
	int32_t *known = NULL;
	size_t count = 0;
	int more = 1;

	for (unsigned i = 0; i < PASSES_MAX && more > 0; i++)
		more = follow_more(s, pid, alone, &known, &count);
	free(known);
	return more >= 0 && count;
}

static void copy_from_ring(const struct switch_ring *ring, uint64_t at, void *to, size_t n)
{
	const uint8_t *data = (const uint8_t *)ring->page + PAGE;
	const size_t begin = at % ring->size, rest = ring->size - begin;
	const size_t part = n < rest ? n : rest;

	memcpy(to, data + begin, part);
	memcpy((uint8_t *)to + part, data, n - part);
}

static uint64_t tsc_at(const struct switches *s, const struct tsc_moment *now, uint64_t ns)
{
	const double ticks = (double)(now->tsc - s->since.tsc);
	const double all = (double)(now->ns - s->since.ns);

	if (!(all > 0))
		return now->tsc;
	return s->since.tsc +
	       (uint64_t)(int64_t)((double)(int64_t)(ns - s->since.ns) / all * ticks);
}

static bool add_switch(struct switch_list *l, const struct thread_switch *new)
{
	if (!LIST_ROOM(l->list, l->count, l->capacity))
		return false;
	l->list[l->count++] = *new;
	return true;
}

static bool take_record(struct switches *s, const struct sample_id *id, uint64_t tsc, uint16_t misc)
{
	const struct thread_switch new = {.turn = {(int32_t)id->cpu, id->pid, id->tid},
					  .tsc = tsc,
					  .out = misc & PERF_RECORD_MISC_SWITCH_OUT,
					  .preempted = misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT};

	return add_switch(&s->taken, &new);
}

static void take_ring(struct switches *s, struct switch_ring *ring, const struct tsc_moment *now)
{
	const uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	struct perf_event_header header;
	struct sample_id id;

	while (head - tail >= sizeof(header)) {
		copy_from_ring(ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header) || head - tail < header.size)
			break;
		if (header.type == PERF_RECORD_SWITCH &&
		    header.size == sizeof(header) + sizeof(id)) {
			copy_from_ring(ring, tail + sizeof(header), &id, sizeof(id));
			s->lost |= !take_record(s, &id, tsc_at(s, now, id.time), header.misc);
		}
		s->lost |= header.type == PERF_RECORD_LOST;
		tail += header.size;
	}
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static int compare_switches(const void *a, const void *b)
{
	const struct thread_switch *x = a, *y = b;

	return COMPARE(x->tsc, y->tsc);
}

static bool is_empty(const struct switch_ring *ring)
{
	return ring->fd < 0 ||
	       __atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED) == ring->page->data_tail;
}

size_t switches_take(struct switches *s, struct thread_switch **list)
{
	struct tsc_moment now;
	unsigned i = 0;

	s->taken.count = 0;
	while (i < s->cpus && is_empty(&s->rings[i]))
		i++;
	if (i == s->cpus)
		return 0;
	now = tsc_clock_now(KERNEL_CLOCK);
	for (i = 0; i < s->cpus; i++)
		if (!is_empty(&s->rings[i]))
			take_ring(s, &s->rings[i], &now);
	s->since = now;
	if (s->taken.count)
		qsort(s->taken.list, s->taken.count, sizeof(*s->taken.list), compare_switches);
	*list = s->taken.list;
	return s->taken.count;
}

/* By thread, and then as they came. */
static int compare_threads(const void *a, const void *b)
{
	const struct thread_switch *x = a, *y = b;

	return x->turn.tid != y->turn.tid ? (x->turn.tid > y->turn.tid ? 1 : -1)
					  : compare_switches(a, b);
}

/* Leaves of each thread the last one. */
static void shorten(struct switches *s)
{
	struct switch_list *held = &s->held;
	size_t n = 0;

	if (held->count)
		qsort(held->list, held->count, sizeof(*held->list), compare_threads);
	for (size_t i = 0; i < held->count; i++)
		if (i + 1 == held->count || held->list[i + 1].turn.tid != held->list[i].turn.tid)
			held->list[n++] = held->list[i];
	held->count = s->held_threads = n;
}

void switches_hold(struct switches *s)
{
	for (size_t i = 0; i < s->taken.count; i++)
		s->lost |= !add_switch(&s->held, &s->taken.list[i]);
	if (s->held.count >= 2 * s->held_threads + HELD_MORE)
		shorten(s);
}

size_t switches_take_held(struct switches *s, struct thread_switch **list)
{
	size_t n;

	shorten(s);
	n = s->held.count;
	if (n)
		qsort(s->held.list, n, sizeof(*s->held.list), compare_switches);
	s->held.count = s->held_threads = 0;
	*list = s->held.list;
	return n;
}

bool switches_lost(const struct switches *s)
{
	return s->lost;
}
