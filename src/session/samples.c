/* SPDX-License-Identifier: MIT */
/*
 * Samples of other events than Intel PT: where they are in the file, by time and by thread. A sample
 * takes less memory here than in the file.
 */
#include "session/samples.h"

#include "base/bits.h"
#include "base/order.h"
#include "perfdata/format.h"
#include "session/records.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_sample(struct ptah_session *s, const struct sample *sample)
{
	struct samples *all = &s->samples;

	/* `next` has 32 bits. A file with so many samples is larger than 200 gigabytes. */
	if (all->count >= UINT32_MAX - 1)
		return 0;
	if (!LIST_ROOM(all->samples, all->count, all->capacity))
		return PTAH_E_NOMEM;
	all->samples[all->count++] = *sample;
	return 0;
}

int samples_take(struct ptah_session *s, const struct perfdata_record *r)
{
	struct sample sample = {.time = r->time,
				.record = r->raw,
				.pid = r->sample_pid,
				.tid = r->sample_tid,
				.event = r->sampled - 1,
				.kind = PTAH_SAMPLE_EVENT};

	if (!r->sampled) {
		sample.pid = r->pid;
		sample.tid = r->tid;
		sample.event = UINT32_MAX;
		sample.kind = r->preempted ? PTAH_SAMPLE_SWITCH_PREEMPTED
			      : r->out	   ? PTAH_SAMPLE_SWITCH_OUT
					   : PTAH_SAMPLE_SWITCH_IN;
	}
	return add_sample(s, &sample);
}

static void name_event(struct sample_event *event, const struct perfdata_event_info *info)
{
	const struct tracing_format *format = event->format;

	if (info->name[0])
		snprintf(event->name, sizeof(event->name), "%s", info->name);
	else if (format)
		snprintf(event->name, sizeof(event->name), "%.60s:%.60s", format->system,
			 format->name);
	else
		snprintf(event->name, sizeof(event->name), "type %" PRIu32 ", config 0x%" PRIx64,
			 info->type, info->config);
}

static int list_events(struct ptah_session *s)
{
	struct samples *all = &s->samples;
	struct perfdata_event_info info;
	size_t n = 0, size;
	const uint8_t *bytes = perfdata_tracing_data(s->file, &size);
	int status = tracing_formats_read(bytes, size, &all->formats);

	if (status < 0)
		return status;
	while (perfdata_event(s->file, n, &info))
		n++;
	all->events = calloc(n + 1, sizeof(*all->events));
	if (!all->events)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		struct sample_event *event = &all->events[i];

		perfdata_event(s->file, i, &info);
		event->type = info.type;
		event->config = info.config;
		event->aux_action = load_le32(info.attr + PERFDATA_ATTR_AT_AUX_ACTION);
		if (info.type == PERFDATA_TYPE_TRACEPOINT)
			event->format = tracing_format_find(&all->formats, info.config);
		name_event(event, &info);
	}
	all->event_count = n;
	return 0;
}

/* Those of the same time stay in the order of the file. */
static int compare_samples(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return COMPARE_THEN(x->time, y->time, COMPARE(x->next, y->next));
}

static void sort_samples(struct samples *all)
{
	bool sorted = true;

	for (size_t i = 0; i < all->count; i++) {
		all->samples[i].next = (uint32_t)i;
		sorted = sorted && (!i || all->samples[i - 1].time <= all->samples[i].time);
	}
	if (!sorted)
		qsort(all->samples, all->count, sizeof(*all->samples), compare_samples);
}

/* Connects the samples of each thread, the last ones first. */
static int connect_threads(struct samples *all)
{
	int status = 0;

	for (size_t i = all->count; i-- > 0 && status >= 0;) {
		struct sample *sample = &all->samples[i];
		const size_t next = table_get(&all->first_of_thread, (uint32_t)sample->tid);

		sample->next = next == SIZE_MAX ? UINT32_MAX : (uint32_t)next;
		status = table_set(&all->first_of_thread, (uint32_t)sample->tid, i);
		if (sample->kind == PTAH_SAMPLE_EVENT)
			all->events[sample->event].count++;
	}
	return status;
}

int samples_finish(struct ptah_session *s)
{
	int status = list_events(s);

	if (status < 0)
		return status;
	sort_samples(&s->samples);
	return connect_threads(&s->samples);
}

void samples_free(struct samples *all)
{
	free(all->samples);
	free(all->events);
	tracing_formats_free(&all->formats);
	table_free(&all->first_of_thread);
}

/* Questions */

size_t session_events(const struct ptah_session *s)
{
	return s->samples.event_count;
}

int ptah_session_event(const struct ptah_session *s, size_t i, struct ptah_sample_event *event)
{
	const struct sample_event *e;

	if (!s || !event || event->size < sizeof(*event) || i >= s->samples.event_count)
		return PTAH_E_INVAL;
	e = &s->samples.events[i];
	*event = (struct ptah_sample_event){
	    .size = sizeof(*event),
	    .name = e->name,
	    .type = e->type,
	    .config = e->config,
	    .fields = e->format ? e->format->count - e->format->common : 0,
	    .samples = e->count,
	    .aux_action = e->aux_action};
	return 0;
}

size_t ptah_session_samples(const struct ptah_session *s)
{
	return s->samples.count;
}

/* The first TSC value with this time: items of the same moment have that, or a greater one. */
static uint64_t tsc_of(const struct ptah_session *s, uint64_t time)
{
	uint64_t tsc = session_tsc(s, time);

	if (!tsc || tsc < s->tsc_high)
		return 0;
	tsc -= s->tsc_high;
	return ptah_session_time(s, tsc) < time ? tsc + 1 : tsc;
}

int ptah_session_sample(const struct ptah_session *s, size_t i, struct ptah_sample *sample)
{
	const struct sample *from;
	struct perfdata_sample fields = {.cpu = -1};

	if (!s || !sample || sample->size < sizeof(*sample) || i >= s->samples.count)
		return PTAH_E_INVAL;
	from = &s->samples.samples[i];
	if (from->kind == PTAH_SAMPLE_EVENT)
		perfdata_sample_at(s->file, from->event, from->record, &fields);
	*sample = (struct ptah_sample){.size = sizeof(*sample),
				       .kind = from->kind,
				       .event = from->event,
				       .time = from->time,
				       .tsc = tsc_of(s, from->time),
				       .pid = from->pid,
				       .tid = from->tid,
				       .cpu = fields.cpu,
				       .ip = fields.ip,
				       .address = fields.address,
				       .period = fields.period,
				       .raw = fields.raw,
				       .raw_size = fields.raw_size};
	return 0;
}

size_t ptah_session_next_sample(const struct ptah_session *s, int32_t tid, size_t i)
{
	if (i == SIZE_MAX)
		return table_get(&s->samples.first_of_thread, (uint32_t)tid);
	if (i >= s->samples.count || s->samples.samples[i].next == UINT32_MAX)
		return SIZE_MAX;
	return s->samples.samples[i].next;
}

static uint64_t number_of(const uint8_t *p, size_t n, bool is_signed)
{
	switch (n) {
	case 1:
		return is_signed ? (uint64_t)(int64_t)(int8_t)*p : *p;
	case 2:
		return is_signed ? (uint64_t)(int64_t)(int16_t)load_le16(p) : load_le16(p);
	case 4:
		return is_signed ? (uint64_t)(int64_t)(int32_t)load_le32(p) : load_le32(p);
	default:
		return load_le64(p);
	}
}

static int read_field(const struct tracing_field *from, const struct ptah_sample *sample,
		      struct ptah_sample_field *field)
{
	size_t n;
	const uint8_t *bytes = tracing_field_bytes(from, sample->raw, sample->raw_size, &n);

	*field = (struct ptah_sample_field){
	    .size = sizeof(*field), .name = from->name, .element = from->element};
	if (!bytes) /* the sample is shorter than its format */
		n = 0;
	if (from->kind == TRACING_NUMBER) {
		field->kind = from->is_signed ? PTAH_FIELD_SIGNED : PTAH_FIELD_UNSIGNED;
		field->number = n ? number_of(bytes, n, from->is_signed) : 0;
		return 0;
	}
	field->kind = from->kind == TRACING_TEXT ? PTAH_FIELD_TEXT : PTAH_FIELD_ARRAY;
	field->bytes = bytes;
	field->count = from->kind == TRACING_TEXT && n ? strnlen((const char *)bytes, n) : n;
	return 0;
}

static const struct tracing_format *format_of(const struct ptah_session *s,
					      const struct ptah_sample *sample)
{
	return sample->event < s->samples.event_count && sample->raw
		   ? s->samples.events[sample->event].format
		   : NULL;
}

int ptah_sample_field(const struct ptah_session *s, const struct ptah_sample *sample, size_t i,
		      struct ptah_sample_field *field)
{
	const struct tracing_format *format;

	if (!s || !sample || !field || field->size < sizeof(*field))
		return PTAH_E_INVAL;
	format = format_of(s, sample);
	if (!format || i >= format->count - format->common)
		return PTAH_E_MISSING;
	return read_field(&format->fields[format->common + i], sample, field);
}

int sample_find_field(const struct ptah_session *s, const struct ptah_sample *sample,
		      const char *name, struct ptah_sample_field *field)
{
	const struct tracing_format *format;

	if (!s || !sample || !name || !field || field->size < sizeof(*field))
		return PTAH_E_INVAL;
	format = format_of(s, sample);
	for (size_t i = 0; format && i < format->count; i++)
		if (!strcmp(format->fields[i].name, name))
			return read_field(&format->fields[i], sample, field);
	return PTAH_E_MISSING;
}
