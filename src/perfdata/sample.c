/* SPDX-License-Identifier: MIT */
/*
 * Reads samples: those of the tracepoint sched:sched_switch, which recordings without context
 * switch records have, those that contain a piece of trace (perf record --aux-sample), and, if the
 * caller wants them, those of any other event.
 */
#include "base/order.h"
#include "perfdata/file.h"
#include "support/list.h"

#include <stdlib.h>

#define FIXED_LAST                                                                                 \
	(PERFDATA_SAMPLE_PHYS_ADDR | PERFDATA_SAMPLE_CGROUP | PERFDATA_SAMPLE_DATA_PAGE |          \
	 PERFDATA_SAMPLE_CODE_PAGE)

/* Steps over those of these fields of eight bytes that the samples of an event have. */
static void skip_fixed(struct reader *r, uint64_t type, uint64_t fields)
{
	reader_bytes(r, 8u * (unsigned)__builtin_popcountll(type & fields));
}

/* Steps over a count of elements, and the elements. */
static void skip_list(struct reader *r, uint64_t extra, size_t size)
{
	const uint64_t n = reader_u64(r);

	/* More elements than bytes: the product could overflow. */
	reader_bytes(r, extra);
	reader_bytes(r, n <= (size_t)(r->end - r->p) ? n * size : UINT64_MAX);
}

/* PERF_SAMPLE_READ: a counter's value, or those of a group. */
static void skip_read(struct reader *r, uint64_t format)
{
	const unsigned times = (unsigned)__builtin_popcountll(
	    format & (PERFDATA_READ_ENABLED | PERFDATA_READ_RUNNING));
	const unsigned each = 1 + (unsigned)__builtin_popcountll(
				      format & (PERFDATA_READ_FORMAT_ID | PERFDATA_READ_LOST));

	if (format & PERFDATA_READ_GROUP)
		skip_list(r, 8u * times, 8u * each);
	else
		reader_bytes(r, 8u * (times + each));
}

static void skip_registers(struct reader *r, uint64_t mask)
{
	/* The ABI; 0: there are no registers. */
	if (reader_u64(r))
		reader_bytes(r, 8u * (unsigned)__builtin_popcountll(mask));
}

static void skip_stack(struct reader *r)
{
	const uint64_t size = reader_u64(r);

	reader_bytes(r, size);
	if (size)
		reader_u64(r);
}

/* The fields between the raw data and the trace, in the order of perf_output_sample(). */
static void skip_to_aux(struct reader *r, const struct perfdata_attr *attr)
{
	const uint64_t type = attr->sample_type;

	if (type & PERFDATA_SAMPLE_BRANCH_STACK)
		skip_list(r, attr->branch_type & PERFDATA_BRANCH_HW_INDEX ? 8 : 0, 24);
	if (type & PERFDATA_SAMPLE_REGS_USER)
		skip_registers(r, attr->regs_user);
	if (type & PERFDATA_SAMPLE_STACK_USER)
		skip_stack(r);
	if (type & (PERFDATA_SAMPLE_WEIGHT | PERFDATA_SAMPLE_WEIGHT_STRUCT))
		reader_u64(r);
	skip_fixed(r, type, PERFDATA_SAMPLE_DATA_SRC | PERFDATA_SAMPLE_TRANSACTION);
	if (type & PERFDATA_SAMPLE_REGS_INTR)
		skip_registers(r, attr->regs_intr);
	skip_fixed(r, type, FIXED_LAST);
}

/*
 * The raw data of sched:sched_switch are the tracepoint's fields (8 bytes of common ones, char
 * prev_comm[16], s32 prev_pid, prio, s64 state, next_comm[16], s32 next_pid), and these "pids" are
 * thread ids. False: some of them are missing.
 */
static bool take_sample_switch(struct perfdata_record *record, const struct perfdata_sample *sample)
{
	if (!sample->raw || sample->raw_size < 60)
		return false;
	record->type = PERFDATA_SWITCH_CPU_WIDE;
	record->out = true;
	record->pid = -1;
	record->tid = (int32_t)load_le32(sample->raw + 24);
	record->ptid = (int32_t)load_le32(sample->raw + 56);
	return true;
}

static int compare_sample_places(const void *a, const void *b)
{
	const struct perfdata_place *x = a, *y = b;

	return COMPARE(x->id, y->id);
}

const struct perfdata_place *perfdata_find_place(struct perfdata_file *f, uint64_t id)
{
	const struct perfdata_place key = {.id = id};

	if (!f->place_count)
		return NULL;
	if (!f->places_sorted)
		qsort(f->places, f->place_count, sizeof(*f->places), compare_sample_places);
	f->places_sorted = true;
	return bsearch(&key, f->places, f->place_count, sizeof(*f->places), compare_sample_places);
}

/* Sets the buffer that the trace is from: that of the sample's event, by ID_INDEX. */
static void place_trace(struct perfdata_file *f, struct perfdata_record *record)
{
	const struct perfdata_place *place = perfdata_find_place(f, record->event);

	if (place) {
		record->index = place->index;
		record->cpu = place->cpu;
		record->tid = place->tid;
	} else {
		record->index = (uint32_t)(record->cpu >= 0 ? record->cpu : record->tid);
	}
}

static bool take_aux(struct perfdata_file *f, struct perfdata_record *record,
		     const struct perfdata_sample *sample)
{
	if (!sample->trace || !sample->trace_size)
		return false;
	record->bytes = sample->trace;
	record->trace_size = sample->trace_size;
	f->aux_samples = true;
	place_trace(f, record);
	return true;
}

/* The fields of a sample, in the order of perf_output_sample(). False: it ends too early. */
static bool read_fields_of(const struct perfdata_attr *attr, struct reader *r,
			   struct perfdata_sample *sample)
{
	const uint64_t type = attr->sample_type;

	*sample = (struct perfdata_sample){.pid = -1, .tid = -1, .cpu = -1};
	if (type & PERFDATA_SAMPLE_IDENTIFIER)
		sample->id = reader_u64(r);
	if (type & PERFDATA_SAMPLE_IP)
		sample->ip = reader_u64(r);
	if (type & PERFDATA_SAMPLE_TID) {
		sample->pid = (int32_t)reader_u32(r);
		sample->tid = (int32_t)reader_u32(r);
	}
	if (type & PERFDATA_SAMPLE_TIME)
		sample->time = reader_u64(r);
	if (type & PERFDATA_SAMPLE_ADDR)
		sample->address = reader_u64(r);
	if (type & PERFDATA_SAMPLE_ID)
		sample->id = reader_u64(r);
	skip_fixed(r, type, PERFDATA_SAMPLE_STREAM_ID);
	if (type & PERFDATA_SAMPLE_CPU)
		sample->cpu = (int32_t)reader_u64(r);
	if (type & PERFDATA_SAMPLE_PERIOD)
		sample->period = reader_u64(r);
	if (type & PERFDATA_SAMPLE_READ)
		skip_read(r, attr->read_format);
	if (type & PERFDATA_SAMPLE_CALLCHAIN)
		skip_list(r, 0, 8);
	if (type & PERFDATA_SAMPLE_RAW) {
		sample->raw_size = reader_u32(r);
		sample->raw = reader_bytes(r, sample->raw_size);
	}
	if (type & PERFDATA_SAMPLE_AUX) {
		skip_to_aux(r, attr);
		sample->trace_size = reader_u64(r);
		sample->trace = reader_bytes(r, sample->trace_size);
	}
	return !r->failed;
}

bool perfdata_sample_at(const struct perfdata_file *f, size_t event, const uint8_t *record,
			struct perfdata_sample *sample)
{
	struct reader r = {record + PERFDATA_RECORD_HEADER, record + load_le16(record + 6), false};

	return read_fields_of(&f->attrs[event], &r, sample);
}

bool perfdata_read_sample(struct perfdata_file *f, struct reader *r, struct perfdata_record *record)
{
	const struct perfdata_attr *attr = perfdata_attr_of_sample(f, r);
	const uint64_t type = attr ? attr->sample_type : 0;
	const bool is_switch = attr && attr->sched_switch && type & PERFDATA_SAMPLE_RAW;
	const bool is_used = is_switch || type & PERFDATA_SAMPLE_AUX;
	struct reader fields = *r;
	struct perfdata_sample sample;
	bool has_trace;

	if (!attr || (!is_used && !f->wants_samples))
		return false;
	if (!read_fields_of(attr, &fields, &sample)) {
		/* One that says nothing of the trace is no reason to refuse the recording. */
		r->failed = is_used;
		return false;
	}
	record->event = sample.id;
	record->time = sample.time;
	record->pid = sample.pid;
	record->tid = sample.tid;
	record->cpu = sample.cpu;
	record->sample_tid = sample.tid;
	record->sample_pid = sample.pid;
	if (f->wants_samples)
		record->sampled = (uint32_t)(attr - f->attrs) + 1;
	if (is_switch)
		return take_sample_switch(record, &sample) || record->sampled;
	has_trace = take_aux(f, record, &sample);
	return has_trace || record->sampled;
}

void perfdata_want_samples(struct perfdata_file *f)
{
	f->wants_samples = true;
}

/*
 * A u64 number of entries, the entries (u64 id, index of the buffer, CPU, thread) and, since Linux
 * 6.0, as many with the virtual machine's process, 0 for the host, and its processor.
 */
void perfdata_read_id_index(struct perfdata_file *f, struct reader *r)
{
	const uint64_t n = reader_u64(r), room = (size_t)(r->end - r->p) / 32;
	struct reader machines = *r;

	reader_bytes(&machines, n < room ? 32 * n : UINT64_MAX);
	for (uint64_t i = 0; i < n && i < room; i++) {
		struct perfdata_place *place;

		if (!LIST_ROOM(f->places, f->place_count, f->place_capacity))
			return;
		place = &f->places[f->place_count++];
		*place = (struct perfdata_place){.id = reader_u64(r)};
		place->index = (uint32_t)reader_u64(r);
		place->cpu = (int32_t)reader_u64(r);
		place->tid = (int32_t)reader_u64(r);
		place->guest = reader_u64(&machines);
		reader_u64(&machines);
		f->has_guests = f->has_guests || place->guest;
		f->places_sorted = false;
	}
}
