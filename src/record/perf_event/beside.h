/* SPDX-License-Identifier: MIT */
/*
 * The events that are recorded beside the trace: tracepoints, what the kernel counts, and counters
 * of the processor (-e). Each has rings of its own. So one that happens often cannot push out the
 * records of maps and switches, without which the trace cannot be decoded, nor another event's.
 */
#ifndef PTAH_RECORD_PERF_EVENT_BESIDE_H
#define PTAH_RECORD_PERF_EVENT_BESIDE_H

#include "perfdata/byte_buffer.h"
#include "record/perf_event/events.h"

struct beside_event {
	const char *name;	     /* as in the configuration */
	struct perf_event_attr attr; /* without what depends on the layout */
	char tracepoint[416];	     /* "GROUP:NAME"; "": it is none */
	bool chosen;		     /* a modifier says whose code */
	bool narrowed;		     /* to user code, because this user may not have the kernel's */
	struct events events;
};

/* Reads the text of one event. root: prefix of /sys. */
enum ptah_record_problem beside_parse(const char *root, const char *text,
				      struct beside_event *event, struct ptah_message *why);
/* Only whether all of the configuration can be read. */
enum ptah_record_problem beside_check(const char *root, const struct ptah_record_config *config,
				      struct ptah_message *why);
/*
 * Opens an event that was parsed, on the targets of the trace. data_size: of each ring; 0: what this
 * user may lock. The caller calls events_close() in any case.
 */
enum ptah_record_problem beside_open(struct beside_event *event, const struct pmu_layout *layout,
				     const struct event_targets *targets, uint64_t data_size,
				     struct ptah_message *why);

/* Samples that were lost because a ring was full. */
uint64_t beside_lost(const struct beside_event *event);

/* Appends the formats of the tracepoints among them, as the feature TRACING_DATA has them. */
void beside_put_formats(const struct beside_event *events, size_t count, struct perfdata_buffer *b);

#endif
