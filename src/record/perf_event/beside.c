/* SPDX-License-Identifier: MIT */
/* Parses and opens the events that are recorded beside the trace (beside.h). */
#include "record/perf_event/beside.h"

#include "base/compiler.h"
#include "perfdata/format.h"
#include "record/perf_event/tracefs.h"
#include "record/recorder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BESIDE_DATA (UINT64_C(256) << 10)
/* Fits, once or twice, beside the small rings of the trace into what a user may lock by default. */
#define BESIDE_SMALL_DATA (UINT64_C(32) << 10)

/* perf's names of them (perf-list(1)). */
static const struct named_event {
	const char *name;
	uint8_t type, config;
	bool often; /* a sample of each would be too many: perf's rate, 4000 a second */
} named_events[] = {
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, false},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, false},
    {"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, false},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, false},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, false},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, false},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, false},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, true},
    {"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, true},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, true},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, true},
    {"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, true},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, true},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, true},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, true},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, true},
};

#define RATE 4000

static const struct named_event *find_named_event(const char *text, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(named_events); i++)
		if (strlen(named_events[i].name) == n && !strncmp(named_events[i].name, text, n))
			return &named_events[i];
	return NULL;
}

/* As perf has it: with modifiers, what they do not name is left out. */
static enum ptah_record_problem apply_modifiers(const char *text, const char *modifiers,
						struct beside_event *event,
						struct ptah_message *why)
{
	if (!*modifiers || strspn(modifiers, "uk") != strlen(modifiers))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "-e %s: its modifiers are u (user code) and k (the kernel)",
				       text);
	event->chosen = true;
	event->attr.exclude_user = !strchr(modifiers, 'u');
	event->attr.exclude_kernel = !strchr(modifiers, 'k');
	event->attr.exclude_hv = 1;
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem find_tracepoint(const char *root, const char *text, size_t n,
						struct beside_event *event,
						struct ptah_message *why)
{
	struct ptah_message reason = {""};
	enum ptah_record_problem problem = PTAH_RECORD_BAD_OPTION;
	uint64_t id = 0;

	event->attr.type = PERF_TYPE_TRACEPOINT;
	event->attr.sample_type |= PERF_SAMPLE_RAW;
	if (n < sizeof(event->tracepoint)) {
		memcpy(event->tracepoint, text, n);
		event->tracepoint[n] = '\0';
		problem = tracefs_find(root, event->tracepoint, &id, &reason);
	}
	event->attr.config = id;
	return problem ? recorder_refuse(why, problem, "-e %s: %s", text, reason.text) : problem;
}

enum ptah_record_problem beside_parse(const char *root, const char *text,
				      struct beside_event *event, struct ptah_message *why)
{
	size_t n = strcspn(text, ":");
	const struct named_event *named = find_named_event(text, n);
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	*event = (struct beside_event){.name = text};
	event->attr.size = PERFDATA_ATTR_SIZE;
	event->attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				  PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
	event->attr.read_format = PERF_FORMAT_ID | PERFDATA_READ_LOST;
	event->attr.sample_period = 1;
	event->attr.sample_id_all = event->attr.disabled = event->attr.exclude_guest = 1;
	event->attr.watermark = 1;
	if (named) {
		event->attr.type = named->type;
		event->attr.config = named->config;
		event->attr.freq = named->often;
		event->attr.sample_period = named->often ? RATE : 1;
	} else if (text[n] && !strpbrk(text, "/*?{}")) {
		n += 1 + strcspn(text + n + 1, ":");
		problem = find_tracepoint(root, text, n, event, why);
	} else {
		return recorder_refuse(
		    why, PTAH_RECORD_BAD_OPTION,
		    "-e %s: it is no event that can be recorded beside Intel PT. There are "
		    "tracepoints GROUP:NAME (without * and ?; those of perf probe, too), "
		    "page-faults, "
		    "context-switches, cpu-migrations, cpu-clock and others of the kernel's, "
		    "and cycles, instructions, branch-misses, cache-misses and the like (see "
		    "ptah-record(1))",
		    text);
	}
	return problem || !text[n] ? problem : apply_modifiers(text, text + n + 1, event, why);
}

enum ptah_record_problem beside_check(const char *root, const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct beside_event event;

	if (config->events.count > PTAH_RECORD_EVENTS)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "more than %d events beside Intel PT", PTAH_RECORD_EVENTS);
	for (size_t i = 0; i < config->events.count && !problem; i++)
		problem = beside_parse(root, config->events.items[i], &event, why);
	return problem;
}

static enum ptah_record_problem try_beside(struct beside_event *event,
					   const struct event_targets *targets, uint64_t data_size,
					   struct ptah_message *why)
{
	const struct event_sizes sizes = {.data = data_size};
	struct events *e = &event->events;

	events_close(e);
	e->sideband_attr = event->attr;
	e->sideband_attr.inherit = e->layout.inherit;
	/* Like the trace, it waits while recording is paused. */
	e->sideband_attr.enable_on_exec = e->layout.on_exec && !e->layout.paused;
	e->sideband_attr.wakeup_watermark = (uint32_t)(data_size / 4);
	return events_open(e, targets, &sizes, NULL, why);
}

/* What the user can do about it, where that is not what the trace needs. */
static const char *advise_beside(const struct beside_event *event, enum ptah_record_problem problem)
{
	if (problem == PTAH_RECORD_PERMISSION)
		return *event->tracepoint
			   ? ". Tracepoints are for root, CAP_PERFMON, or everyone with "
			     "kernel.perf_event_paranoid=-1"
			   : "";
	if (problem == PTAH_RECORD_NO_DRIVER && event->attr.type == PERF_TYPE_HARDWARE)
		return ". This machine has no such counter, as most virtual machines";
	if (problem == PTAH_RECORD_MLOCK)
		return ". Each event beside Intel PT has rings of its own: -m SIZE makes them "
		       "smaller";
	return "";
}

enum ptah_record_problem beside_open(struct beside_event *event, const struct pmu_layout *layout,
				     const struct event_targets *targets, uint64_t data_size,
				     struct ptah_message *why)
{
	uint64_t size = data_size ? data_size : BESIDE_DATA;
	enum ptah_record_problem problem;
	struct ptah_message reason = {""};

	event->events.layout = *layout;
	event->events.layout.snapshot = false;
	problem = try_beside(event, targets, size, &reason);
	/* As perf does, for users who may not have the kernel's part. */
	event->narrowed =
	    problem == PTAH_RECORD_PERMISSION && !*event->tracepoint && !event->chosen;
	if (event->narrowed) {
		event->attr.exclude_kernel = event->attr.exclude_hv = 1;
		problem = try_beside(event, targets, size, &reason);
	}
	if (problem == PTAH_RECORD_BAD_OPTION) { /* before Linux 6.0 */
		event->attr.read_format = PERF_FORMAT_ID;
		problem = try_beside(event, targets, size, &reason);
	}
	if (problem == PTAH_RECORD_MLOCK && !data_size)
		problem = try_beside(event, targets, BESIDE_SMALL_DATA, &reason);
	/* In the file, that of the trace: perf wants it to be the same in all events. */
	event->events.sideband_attr.read_format = PERF_FORMAT_ID;
	return problem ? recorder_refuse(why, problem, "-e %s: %.700s%s", event->name, reason.text,
					 advise_beside(event, problem))
		       : problem;
}

/*
 * The kernel reports a loss in a record before the next sample for which there is room, so that the
 * last loss may have none. Linux 6.0 and later count all of an event, with those of its children.
 */
static uint64_t read_lost(const struct event *event)
{
	uint64_t values[3]; /* the counter, the id, lost samples */

	return read(event->fd, values, sizeof(values)) == sizeof(values) ? values[2] : 0;
}

uint64_t beside_lost(const struct beside_event *event)
{
	const struct events *e = &event->events;
	uint64_t reported = 0, counted = 0;

	for (size_t i = 0; i < e->ring_count; i++)
		reported += e->rings[i].ring.losses.lost_records;
	if (event->attr.read_format & PERFDATA_READ_LOST)
		for (size_t i = 0; i < e->sideband_count; i++)
			counted += read_lost(&e->sidebands[i]);
	return counted > reported ? counted : reported;
}

void beside_put_formats(const struct beside_event *events, size_t count, struct perfdata_buffer *b)
{
	const char **names = calloc(count ? count : 1, sizeof(*names));
	size_t n = 0;

	b->failed |= !names;
	for (size_t i = 0; names && i < count; i++)
		if (*events[i].tracepoint)
			names[n++] = events[i].tracepoint;
	if (n)
		tracefs_put_formats("", names, n, b);
	free(names);
}
