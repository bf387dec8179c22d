/* SPDX-License-Identifier: MIT */
/*
 * Writes what precedes the records of a perf.data file (the header with the events) and what
 * follows them (the features with names, build ids and versions).
 */
#include "perfdata/writer_inside.h"

#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/base.h>
#include <ptah/engine/rtit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define EVENT_ID   1
#define EVENT_NAME "intel_pt//u"
#define ATTR_ENTRY (PERFDATA_ATTR_SIZE + PERFDATA_SECTION_SIZE)

/* The header */

static void build_simulated_attr(uint8_t *attr, const struct perfdata_writer_config *c)
{
	uint64_t config = PERFDATA_PT_PT | PERFDATA_PT_BRANCH | (c->tsc ? PERFDATA_PT_TSC : 0) |
			  (c->retcomp ? 0 : PERFDATA_PT_NORETCOMP) |
			  (c->mtc ? PERFDATA_PT_MTC : 0) | (c->cyc ? PERFDATA_PT_CYC : 0) |
			  (uint64_t)c->mtc_period << PTAH_RTIT_CTL_MTC_FREQ |
			  (uint64_t)c->cyc_threshold << PTAH_RTIT_CTL_CYC_THRESH |
			  (uint64_t)c->psb_period << PTAH_RTIT_CTL_PSB_FREQ;

	perfdata_build_attr(attr, config,
			    PERFDATA_ATTR_INHERIT | PERFDATA_ATTR_EXCLUDE_KERNEL |
				PERFDATA_ATTR_EXCLUDE_HV);
}

void perfdata_build_attr(uint8_t *attr, uint64_t config, uint64_t flags)
{
	flags |= PERFDATA_ATTR_MMAP | PERFDATA_ATTR_COMM | PERFDATA_ATTR_TASK |
		 PERFDATA_ATTR_SAMPLE_ID_ALL | PERFDATA_ATTR_MMAP2 | PERFDATA_ATTR_COMM_EXEC |
		 PERFDATA_ATTR_BUILD_ID;
	store_le32(attr + PERFDATA_ATTR_AT_TYPE, PERFDATA_PMU_TYPE);
	store_le32(attr + PERFDATA_ATTR_AT_SIZE, PERFDATA_ATTR_SIZE);
	store_le64(attr + PERFDATA_ATTR_AT_CONFIG, config);
	store_le64(attr + PERFDATA_ATTR_AT_PERIOD, 1);
	/* Without this flag perf refuses to print addresses. */
	store_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE,
		   PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |
		       PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER);
	store_le64(attr + PERFDATA_ATTR_AT_READ_FORMAT, PERFDATA_READ_FORMAT_ID);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS, flags);
}

static bool copy_event(struct written_event *to, const struct perfdata_event *from)
{
	memcpy(to->attr, from->attr, sizeof(to->attr));
	to->name = strdup(from->name);
	to->id_count = from->id_count;
	to->id_room = from->id_count + from->id_room;
	to->ids = calloc(to->id_room ? to->id_room : 1, sizeof(*to->ids));
	if (to->ids && from->id_count)
		memcpy(to->ids, from->ids, from->id_count * sizeof(*to->ids));
	return to->name && to->ids;
}

/* As perf record --clockid=CLOCK_MONOTONIC marks its events. */
static void name_clock(struct written_event *e)
{
	store_le64(e->attr + PERFDATA_ATTR_AT_FLAGS,
		   load_le64(e->attr + PERFDATA_ATTR_AT_FLAGS) | PERFDATA_ATTR_USE_CLOCKID);
	store_le32(e->attr + PERFDATA_ATTR_AT_CLOCKID, CLOCK_MONOTONIC);
}

/* The i-th event of system calls, whose id follows all others. */
static bool make_call_event(struct perfdata_writer *w, unsigned i)
{
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	uint64_t id = 0;
	const struct perfdata_event event = {perfdata_build_call_attr(attr, i), attr, &id, 1, 0};

	for (size_t e = 0; e + 1 < w->event_count; e++)
		for (size_t k = 0; k < w->events[e].id_count; k++)
			id = w->events[e].ids[k] > id ? w->events[e].ids[k] : id;
	id++;
	if (!i)
		w->call_ids = id;
	return copy_event(&w->events[w->event_count - 1], &event);
}

bool perfdata_copy_events(struct perfdata_writer *w, const struct perfdata_writer_config *config)
{
	static const uint64_t id = EVENT_ID;
	const struct perfdata_driver *driver = config->driver;
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	const struct perfdata_event emulated = {EVENT_NAME, attr, &id, 1, 0};
	const size_t others = driver ? driver->event_count : 1;
	const size_t n = others + (config->calls ? CALL_EVENTS : 0);
	size_t ids = 0;

	build_simulated_attr(attr, config);
	w->pmu_type = driver ? driver->pmu_type : PERFDATA_PMU_TYPE;
	w->branch_stacks = driver && driver->branch_stacks;
	w->indexed = driver && driver->pmu_type && !driver->no_index;
	w->events = calloc(n, sizeof(*w->events));
	for (size_t i = 0; w->events && i < n; i++) {
		w->event_count++;
		if (i >= others
			? !make_call_event(w, (unsigned)(i - others))
			: !copy_event(&w->events[i], driver ? &driver->events[i] : &emulated))
			return false;
		if (config->clock.monotonic)
			name_clock(&w->events[i]);
		ids += w->events[i].id_room;
	}
	w->data_offset = PERFDATA_HEADER_SIZE + 8 * ids + ATTR_ENTRY * n;
	w->event_id = w->events && w->events[0].id_count ? w->events[0].ids[0] : 0;
	if (config->calls)
		perfdata_put_tracing_data(&w->tracing);
	else if (config->tracing)
		perfdata_put(&w->tracing, config->tracing, config->tracing_size);
	if (driver && driver->pmus)
		w->pmus = strdup(driver->pmus);
	if (driver && driver->cpuid)
		w->cpuid = strdup(driver->cpuid);
	if (config->osrelease)
		w->osrelease = strdup(config->osrelease);
	return !w->tracing.failed && w->events && (!driver || !driver->pmus || w->pmus) &&
	       (!driver || !driver->cpuid || w->cpuid) && (!config->osrelease || w->osrelease);
}

/* Passes an event on as a HEADER_ATTR, with its ids from the first-th on. */
static int hand_over_event(struct perfdata_writer *w, const struct written_event *e, size_t first)
{
	const size_t size = 8 + sizeof(e->attr) + 8 * (e->id_count - first);

	if (size > MAX_RECORD)
		return perfdata_writer_fail(
		    w, perfdata_message(&w->why, PTAH_E_LIMIT, "too many events for one record"));
	perfdata_begin(w, PERFDATA_HEADER_ATTR, 0, size);
	perfdata_put(&w->pending, e->attr, sizeof(e->attr));
	for (size_t k = first; k < e->id_count; k++)
		perfdata_put64(&w->pending, e->ids[k]);
	return perfdata_end(w);
}

/* The name of an event, which HEADER_ATTR does not have (EVENT_UPDATE). */
static int hand_over_name(struct perfdata_writer *w, const struct written_event *e)
{
	const size_t name = (strlen(e->name) + 8) & ~(size_t)7;

	perfdata_begin(w, PERFDATA_EVENT_UPDATE, 0, 8 + 16 + name);
	perfdata_put64(&w->pending, PERFDATA_EVENT_UPDATE_NAME);
	perfdata_put64(&w->pending, e->ids[0]);
	perfdata_put_string(&w->pending, e->name, 8);
	return perfdata_end(w);
}

/* HEADER_TRACING_DATA: its size is that of its header, and what it describes follows. */
static int hand_over_tracing_data(struct perfdata_writer *w)
{
	const size_t size = (w->tracing.size + 7) & ~(size_t)7;

	perfdata_begin(w, PERFDATA_HEADER_TRACING_DATA, 0, 16);
	perfdata_put32(&w->pending, (uint32_t)size);
	perfdata_put32(&w->pending, 0);
	perfdata_put_padded(w, w->tracing.bytes, w->tracing.size);
	w->size += size;
	return perfdata_end(w);
}

/*
 * Passes the events on as records, as a file made through a pipe begins: HEADER_ATTR with the ids,
 * and what samples of tracepoints need.
 */
static int hand_over_events(struct perfdata_writer *w)
{
	for (size_t i = 0; i < w->event_count; i++) {
		if (hand_over_event(w, &w->events[i], 0) < 0)
			return w->status;
		if (w->tracing.size && hand_over_name(w, &w->events[i]) < 0)
			return w->status;
	}
	return w->tracing.size ? hand_over_tracing_data(w) : w->status;
}

static int begin_pipe(struct perfdata_writer *w)
{
	uint8_t head[PERFDATA_PIPE_SIZE];

	memcpy(head, PERFDATA_MAGIC, 8);
	store_le64(head + PERFDATA_AT_SIZE, PERFDATA_PIPE_SIZE);
	w->data_offset = sizeof(head);
	if (!perfdata_write_at(w, head, sizeof(head), 0))
		return perfdata_writer_fail_system(w, "write");
	return hand_over_events(w);
}

/*
 * perf refuses a file that has tracepoints and not their formats, which come at the end. So that it
 * reads one whose recorder was killed, the events of system calls are dummies until then, with
 * samples like theirs.
 */
static void put_first_attr(const struct perfdata_writer *w, struct perfdata_buffer *b, size_t i)
{
	uint8_t attr[PERFDATA_ATTR_SIZE];

	memcpy(attr, w->events[i].attr, sizeof(attr));
	if (w->call_ids && i >= w->event_count - CALL_EVENTS) {
		store_le32(attr + PERFDATA_ATTR_AT_TYPE, PERFDATA_TYPE_SOFTWARE);
		store_le64(attr + PERFDATA_ATTR_AT_CONFIG, PERFDATA_SOFTWARE_DUMMY);
	}
	perfdata_put(b, attr, sizeof(attr));
}

int perfdata_write_header(struct perfdata_writer *w)
{
	uint64_t attrs = w->data_offset - ATTR_ENTRY * w->event_count;
	uint64_t ids = PERFDATA_HEADER_SIZE;
	uint8_t head[PERFDATA_HEADER_SIZE] = {0};
	struct perfdata_buffer b = {0};
	bool ok;

	if (w->take)
		return hand_over_events(w);
	if (w->piped)
		return begin_pipe(w);
	memcpy(head, PERFDATA_MAGIC, 8);
	store_le64(head + PERFDATA_AT_SIZE, PERFDATA_HEADER_SIZE);
	store_le64(head + PERFDATA_AT_ATTR_SIZE, ATTR_ENTRY);
	store_le64(head + PERFDATA_AT_ATTRS, attrs);
	store_le64(head + PERFDATA_AT_ATTRS + 8, ATTR_ENTRY * w->event_count);
	store_le64(head + PERFDATA_AT_DATA, w->data_offset);
	perfdata_put(&b, head, sizeof(head));
	for (size_t i = 0; i < w->event_count; i++)
		for (size_t k = 0; k < w->events[i].id_room; k++)
			perfdata_put64(&b, w->events[i].ids[k]);
	for (size_t i = 0; i < w->event_count; i++) {
		put_first_attr(w, &b, i);
		perfdata_put64(&b, ids);
		perfdata_put64(&b, 8 * w->events[i].id_count);
		ids += 8 * w->events[i].id_room;
	}
	if (b.failed) {
		perfdata_buffer_free(&b);
		return perfdata_writer_no_memory(w);
	}
	ok = perfdata_write_at(w, b.bytes, b.size, 0);
	perfdata_buffer_free(&b);
	return ok ? 0 : perfdata_writer_fail_system(w, "write");
}

/*
 * The id goes into the room after the event's other ids, and then the section that the attribute
 * names becomes longer: the file can be read at each moment.
 */
static bool put_late_id(const struct perfdata_writer *w, size_t event)
{
	const struct written_event *e = &w->events[event];
	const uint64_t attrs = w->data_offset - ATTR_ENTRY * w->event_count;
	uint64_t place = PERFDATA_HEADER_SIZE + 8 * (e->id_count - 1);
	uint8_t id[8], size[8];

	for (size_t i = 0; i < event; i++)
		place += 8 * w->events[i].id_room;
	store_le64(id, e->ids[e->id_count - 1]);
	store_le64(size, 8 * e->id_count);
	return perfdata_write_at(w, id, sizeof(id), place) &&
	       perfdata_write_at(w, size, sizeof(size), attrs + ATTR_ENTRY * (event + 1) - 8);
}

int perfdata_add_id(struct perfdata_writer *w, size_t event, uint64_t id)
{
	struct written_event *e = &w->events[event];

	if (w->status < 0)
		return w->status;
	if (e->id_count == e->id_room)
		return PTAH_E_LIMIT;
	e->ids[e->id_count++] = id;
	if (w->take || w->piped)
		return hand_over_event(w, e, e->id_count - 1);
	return put_late_id(w, event) ? 0 : perfdata_writer_fail_system(w, "write");
}

static void fill_writer_header_driver(uint64_t *info, const struct perfdata_driver *driver)
{
	info[PERFDATA_INFO_PMU_TYPE] = driver->pmu_type;
	info[PERFDATA_INFO_CAP_TIME_ZERO] = driver->time_zero;
	info[PERFDATA_INFO_TSC_BIT] = driver->tsc_bit;
	info[PERFDATA_INFO_NORETCOMP_BIT] = driver->noretcomp_bit;
	info[PERFDATA_INFO_MTC_BIT] = driver->mtc_bit;
	info[PERFDATA_INFO_MTC_FREQ_BITS] = driver->mtc_freq_bits;
	info[PERFDATA_INFO_CYC_BIT] = driver->cyc_bit;
	info[PERFDATA_INFO_SCHED_SWITCH] = driver->sched_switch;
	info[PERFDATA_INFO_SNAPSHOT] = driver->snapshot;
	info[PERFDATA_INFO_PER_CPU] = driver->per_cpu;
}

int perfdata_write_info(struct perfdata_writer *w, const struct perfdata_writer_config *config)
{
	size_t n = config->filter ? strlen(config->filter) : 0;
	size_t padded = n ? (n + 8) & ~(size_t)7 : 0; /* with at least one NUL */
	uint64_t info[PERFDATA_INFO_MAX] = {
	    [PERFDATA_INFO_PMU_TYPE] = PERFDATA_PMU_TYPE,
	    [PERFDATA_INFO_TIME_SHIFT] = w->clock.shift,
	    [PERFDATA_INFO_TIME_MULT] = w->clock.mult,
	    [PERFDATA_INFO_TIME_ZERO] = w->clock.zero,
	    [PERFDATA_INFO_CAP_TIME_ZERO] = config->tsc,
	    [PERFDATA_INFO_TSC_BIT] = PERFDATA_PT_TSC,
	    [PERFDATA_INFO_NORETCOMP_BIT] = PERFDATA_PT_NORETCOMP,
	    [PERFDATA_INFO_SNAPSHOT] = config->snapshot,
	    [PERFDATA_INFO_MTC_BIT] = PERFDATA_PT_MTC,
	    [PERFDATA_INFO_MTC_FREQ_BITS] = PERFDATA_PT_MTC_PERIOD,
	    [PERFDATA_INFO_TSC_CTC_N] = config->tsc_n,
	    [PERFDATA_INFO_TSC_CTC_D] = config->tsc_d,
	    [PERFDATA_INFO_CYC_BIT] = PERFDATA_PT_CYC,
	    [PERFDATA_INFO_MAX_NONTURBO] = config->nominal_ratio,
	    [PERFDATA_INFO_FILTER_LENGTH] = n,
	};

	if (padded > MAX_RECORD - 16 - sizeof(info))
		return perfdata_writer_fail(
		    w, perfdata_message(&w->why, PTAH_E_LIMIT, "the address filters are too long"));
	if (config->driver)
		fill_writer_header_driver(info, config->driver);
	perfdata_begin(w, PERFDATA_AUXTRACE_INFO, 0, 8 + 8 + sizeof(info) + padded);
	perfdata_put32(&w->pending, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&w->pending,
		       config->time_source ? PERFDATA_TIME_MARK | config->time_source : 0);
	perfdata_put(&w->pending, info, sizeof(info));
	if (n)
		perfdata_put_padded(w, config->filter, n + 1);
	return perfdata_end(w);
}

/* Features */

size_t perfdata_put_build_id(struct perfdata_buffer *b, const struct written_file *f)
{
	const size_t size = PERFDATA_BUILD_ID_FIXED + ((strlen(f->path) + 64) & ~(size_t)63);

	perfdata_put32(b, PERFDATA_HEADER_BUILD_ID);
	perfdata_put16(b, (uint16_t)((f->kernel ? PERFDATA_MISC_KERNEL : PERFDATA_MISC_USER) |
				     PERFDATA_MISC_BUILD_ID_SIZE));
	perfdata_put16(b, (uint16_t)size);
	perfdata_put32(b, UINT32_MAX); /* the host; otherwise the pid of a guest */
	perfdata_put(b, f->id.bytes, sizeof(f->id.bytes));
	perfdata_put32(b, f->id.size);
	perfdata_put_string(b, f->path, 64);
	return size;
}

static void put_build_ids(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	for (const struct written_file *f = w->files; f; f = f->next)
		if (f->id.size)
			perfdata_put_build_id(b, f);
}

static void put_command_line(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	uint32_t n = 0;

	while (w->command && w->command[n])
		n++;
	perfdata_put32(b, w->bare_command ? n : n + 3);
	if (!w->bare_command) {
		perfdata_put_header_string(b, "ptah");
		perfdata_put_header_string(b, "record");
		perfdata_put_header_string(b, "--");
	}
	for (uint32_t i = 0; i < n; i++)
		perfdata_put_header_string(b, w->command[i]);
}

static void put_event_desc(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	perfdata_put32(b, (uint32_t)w->event_count);
	perfdata_put32(b, PERFDATA_ATTR_SIZE);
	for (size_t i = 0; i < w->event_count; i++) {
		const struct written_event *e = &w->events[i];

		perfdata_put(b, e->attr, sizeof(e->attr));
		perfdata_put32(b, (uint32_t)e->id_count);
		perfdata_put_header_string(b, e->name);
		for (size_t k = 0; k < e->id_count; k++)
			perfdata_put64(b, e->ids[k]);
	}
}

static void put_pmus(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	uint32_t n = 0;

	for (const char *p = w->pmus; p && *p; p++)
		n += *p == '\n';
	if (!n) {
		perfdata_put32(b, 1);
		perfdata_put32(b, w->pmu_type);
		perfdata_put_header_string(b, "intel_pt");
		return;
	}
	perfdata_put32(b, n);
	for (const char *p = w->pmus; n--; p++) {
		char name[64], *end;
		uint32_t type = (uint32_t)strtoul(p, &end, 10);
		size_t length = strcspn(end, "\n");

		snprintf(name, sizeof(name), "%.*s", length ? (int)length - 1 : 0, end + 1);
		perfdata_put32(b, type);
		perfdata_put_header_string(b, name);
		p = end + length;
	}
}

/*
 * The places of the AUXTRACE records: a count, then offset and size of each. A processor's trace is
 * written later than the records of switches and maps that belong to it, by as much as its buffer
 * holds. With this list perf reads all trace before the first of those records.
 */
static void put_writer_header_index(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	perfdata_put64(b, w->index.size / 16);
	perfdata_put(b, w->index.bytes, w->index.size);
	b->failed = b->failed || w->index.failed;
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* The time of day of a moment of the file's clock. */
static void put_clock_data(struct perfdata_buffer *b)
{
	perfdata_put32(b, 1); /* the layout's version */
	perfdata_put32(b, CLOCK_MONOTONIC);
	perfdata_put64(b, read_clock(CLOCK_REALTIME));
	perfdata_put64(b, read_clock(CLOCK_MONOTONIC));
}

static bool has_feature(const struct perfdata_writer *w, unsigned feature)
{
	switch (feature) {
	case PERFDATA_FEATURE_TRACING_DATA:
		return w->tracing.size;
	case PERFDATA_FEATURE_CPUID:
		return w->cpuid;
	case PERFDATA_FEATURE_AUXTRACE:
		return w->indexed;
	case PERFDATA_FEATURE_BRANCH_STACK:
		return w->branch_stacks;
	case PERFDATA_FEATURE_CMDLINE:
		return !w->bare_command || *w->command;
	case PERFDATA_FEATURE_OSRELEASE:
		return !w->osrelease || *w->osrelease;
	case PERFDATA_FEATURE_CLOCK_DATA:
		return w->clock.monotonic;
	default:
		return true;
	}
}

static void put_feature(const struct perfdata_writer *w, struct perfdata_buffer *b,
			unsigned feature, const struct utsname *system)
{

	switch (feature) {
	case PERFDATA_FEATURE_TRACING_DATA:
		perfdata_put(b, w->tracing.bytes, w->tracing.size);
		break;
	case PERFDATA_FEATURE_BUILD_ID:
		put_build_ids(w, b);
		break;
	case PERFDATA_FEATURE_HOSTNAME:
		perfdata_put_header_string(b, system->nodename);
		break;
	case PERFDATA_FEATURE_OSRELEASE:
		perfdata_put_header_string(b, w->osrelease ? w->osrelease : system->release);
		break;
	case PERFDATA_FEATURE_VERSION:
		perfdata_put_header_string(b, "ptah " PTAH_VERSION_STRING);
		break;
	case PERFDATA_FEATURE_ARCH:
		perfdata_put_header_string(b, "x86_64");
		break;
	case PERFDATA_FEATURE_NRCPUS:
		perfdata_put32(b, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
		perfdata_put32(b, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
		break;
	case PERFDATA_FEATURE_CMDLINE:
		put_command_line(w, b);
		break;
	case PERFDATA_FEATURE_EVENT_DESC:
		put_event_desc(w, b);
		break;
	case PERFDATA_FEATURE_PMU_MAPPINGS:
		put_pmus(w, b);
		break;
	case PERFDATA_FEATURE_AUXTRACE:
		put_writer_header_index(w, b);
		break;
	case PERFDATA_FEATURE_CPUID:
		perfdata_put_header_string(b, w->cpuid);
		break;
	case PERFDATA_FEATURE_CLOCK_DATA:
		put_clock_data(b);
		break;
	default:
		break;
	}
}

int perfdata_write_piped_features(struct perfdata_writer *w)
{
	static const uint8_t features[] = {
	    PERFDATA_FEATURE_HOSTNAME, PERFDATA_FEATURE_OSRELEASE,  PERFDATA_FEATURE_VERSION,
	    PERFDATA_FEATURE_ARCH,     PERFDATA_FEATURE_NRCPUS,	    PERFDATA_FEATURE_CPUID,
	    PERFDATA_FEATURE_CMDLINE,  PERFDATA_FEATURE_CLOCK_DATA,
	};
	struct utsname system = {0};

	uname(&system);
	for (size_t i = 0; i < ARRAY_SIZE(features) && w->status >= 0; i++) {
		struct perfdata_buffer b = {0};
		const size_t header = PERFDATA_RECORD_HEADER + 8;
		size_t size;

		if (!has_feature(w, features[i]))
			continue;
		put_feature(w, &b, features[i], &system);
		size = (b.size + 7) & ~(size_t)7;
		if (b.failed) {
			perfdata_writer_no_memory(w);
		} else if (size <= MAX_RECORD - header) { /* a longer command line is left out */
			perfdata_begin(w, PERFDATA_HEADER_FEATURE, 0, header + size);
			perfdata_put64(&w->pending, features[i]);
			perfdata_put_padded(w, b.bytes, b.size);
			perfdata_end(w);
		}
		perfdata_buffer_free(&b);
	}
	return w->status;
}

/* The events of system calls become what they are: see put_first_attr(). */
static bool put_call_events(const struct perfdata_writer *w)
{
	uint64_t at = w->data_offset - ATTR_ENTRY * CALL_EVENTS;

	for (size_t i = w->event_count - CALL_EVENTS; w->call_ids && i < w->event_count; i++) {
		if (!perfdata_write_at(w, w->events[i].attr, PERFDATA_ATTR_SIZE, at))
			return false;
		at += ATTR_ENTRY;
	}
	return true;
}

int perfdata_write_features(struct perfdata_writer *w)
{
	static const uint8_t features[] = {
	    PERFDATA_FEATURE_TRACING_DATA, PERFDATA_FEATURE_BUILD_ID,
	    PERFDATA_FEATURE_HOSTNAME,	   PERFDATA_FEATURE_OSRELEASE,
	    PERFDATA_FEATURE_VERSION,	   PERFDATA_FEATURE_ARCH,
	    PERFDATA_FEATURE_NRCPUS,	   PERFDATA_FEATURE_CPUID,
	    PERFDATA_FEATURE_CMDLINE,	   PERFDATA_FEATURE_EVENT_DESC,
	    PERFDATA_FEATURE_BRANCH_STACK, PERFDATA_FEATURE_PMU_MAPPINGS,
	    PERFDATA_FEATURE_AUXTRACE,	   PERFDATA_FEATURE_CLOCK_DATA,
	};
	struct perfdata_buffer table = {0}, sections = {0};
	uint64_t at = w->data_offset + w->size;
	uint8_t bits[8 * PERFDATA_FEATURE_WORDS] = {0};
	struct utsname system = {0};
	size_t count = 0;
	bool ok;

	uname(&system);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		count += has_feature(w, features[i]);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		size_t start = sections.size;

		if (!has_feature(w, features[i]))
			continue;
		put_feature(w, &sections, features[i], &system);
		perfdata_put64(&table, at + count * PERFDATA_SECTION_SIZE + start);
		perfdata_put64(&table, sections.size - start);
		bits[features[i] / 8] |= (uint8_t)(1 << features[i] % 8);
	}
	ok = !table.failed && !sections.failed;
	if (!ok)
		perfdata_writer_no_memory(w);
	else if (!perfdata_write_at(w, table.bytes, table.size, at) ||
		 !perfdata_write_at(w, sections.bytes, sections.size, at + table.size) ||
		 !perfdata_write_at(w, bits, sizeof(bits), PERFDATA_AT_FEATURES) ||
		 !put_call_events(w))
		perfdata_writer_fail_system(w, "write");
	perfdata_buffer_free(&table);
	perfdata_buffer_free(&sections);
	return w->status;
}
