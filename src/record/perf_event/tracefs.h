/* SPDX-License-Identifier: MIT */
/* What the kernel says about its tracepoints in /sys/kernel/tracing. `root`: a prefix for it. */
#ifndef PTAH_RECORD_PERF_EVENT_TRACEFS_H
#define PTAH_RECORD_PERF_EVENT_TRACEFS_H

#include "perfdata/byte_buffer.h"

#include <ptah/record.h>

/* The number of the tracepoint `name`, "GROUP:NAME", for perf_event_attr.config. */
enum ptah_record_problem tracefs_find(const char *root, const char *name, uint64_t *id,
				      struct ptah_message *why);

/*
 * Appends the formats of these tracepoints, as perf record stores them. Those that cannot be read are
 * left out: their samples are shown without fields. A failure is in the buffer.
 */
void tracefs_put_formats(const char *root, const char *const *names, size_t count,
			 struct perfdata_buffer *b);

#endif
