/* SPDX-License-Identifier: MIT */
/*
 * Opens files of bare records: those of perf's ring buffers, as other tracers keep them beside raw
 * trace, without the header of a perf.data that would say how they end.
 */
#include "perfdata/file.h"

#include <inttypes.h>
#include <stdlib.h>

/* The fields that end the records of a part which no id identifies. */
static uint64_t default_type(const struct perfdata_records *config, size_t part)
{
	uint64_t type = config->parts[part].sample_type;

	if (type || !config->event_count)
		return type;
	for (size_t i = 0; i < config->event_count; i++)
		if (!config->events[i].id)
			return config->events[i].sample_type;
	return config->events[0].sample_type;
}

/* TSC ticks in nanoseconds. */
static int64_t duration(const struct perfdata_clock *clock, int64_t ticks)
{
	const uint64_t n = ticks < 0 ? -(uint64_t)ticks : (uint64_t)ticks;
	const uint64_t low = n & ((UINT64_C(1) << clock->shift) - 1);
	const uint64_t ns =
	    ((n >> clock->shift) * clock->mult + (low * clock->mult >> clock->shift)) & INT64_MAX;

	return ticks < 0 ? -(int64_t)ns : (int64_t)ns;
}

static int place_part(struct perfdata_file *f, const struct perfdata_records_part *part,
		      struct ptah_message *why)
{
	struct perfdata_part *p = &f->parts[f->part_count - 1];

	if (p->size > PERFDATA_SPOOL_BASE || p->base > PERFDATA_SPOOL_BASE - p->size)
		return perfdata_message(why, PTAH_E_LIMIT,
					"%s: too many parts of files with records", p->path);
	if (part->from > p->size)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: its records are to begin at offset %" PRIu64
					", and the file has %" PRIu64 " bytes",
					p->path, part->from, p->size);
	if (part->to && part->to < part->from)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: its records are to end at offset %" PRIu64
					", before they begin (%" PRIu64 ")",
					p->path, part->to, part->from);
	p->at = p->start = p->forgotten = part->from;
	p->end = part->to && part->to < p->size ? part->to : p->size;
	if (part->to > p->size && !f->truncated) {
		f->truncated = true;
		f->cut = f->part_count - 1;
	}
	return 0;
}

static int add_bare_record_part(struct perfdata_file *f, const struct perfdata_records *config,
				size_t i, struct ptah_message *why)
{
	const struct perfdata_records_part *part = &config->parts[i];
	const uint64_t type = default_type(config, i);
	int status = perfdata_map_bare(f, part->path, why);
	struct perfdata_part *p;

	if (status >= 0)
		status = place_part(f, part, why);
	/* Most parts end like the one before. */
	if (status >= 0 && (!i || f->attrs[f->attr_count - 1].sample_type != type))
		status = perfdata_add_bare_attr(f, type, NULL);
	if (status < 0)
		return status;
	p = &f->parts[i];
	p->attr = f->attr_count - 1;
	p->cpu = part->cpu;
	p->pid = part->pid;
	p->tid = part->tid;
	p->primary = part->primary;
	p->earlier = f->has_clock ? duration(&f->clock, part->tsc_offset) : 0;
	return 0;
}

int perfdata_open_records(const struct perfdata_records *config, struct perfdata_file **file,
			  struct ptah_message *why)
{
	struct perfdata_file *f;
	int status = 0;

	f = calloc(1, sizeof(*f));
	if (!f)
		return PTAH_E_NOMEM;
	f->bare = true;
	f->auxtrace = PERFDATA_AUXTRACE_INTEL_PT;
	f->kernel = config->kernel;
	f->clock = config->clock;
	f->has_clock = f->clock.mult && f->clock.shift < 64;
	f->path = strdup(config->count ? config->parts[0].path : "");
	if (!f->path)
		status = PTAH_E_NOMEM;
	for (size_t i = 0; i < config->count && status >= 0; i++)
		status = add_bare_record_part(f, config, i, why);
	for (size_t i = 0; i < config->event_count && status >= 0; i++)
		status =
		    perfdata_add_bare_attr(f, config->events[i].sample_type, &config->events[i].id);
	if (status < 0) {
		perfdata_close(f);
		return status;
	}
	*file = f;
	return 0;
}
