/* SPDX-License-Identifier: MIT */
/*
 * Events that pause and resume the trace (aux-action; Linux 6.13). The kernel does so when the event
 * happens, and needs it in the group of the event that traces. They deliver no records.
 */
#ifndef PTAH_RECORD_PERF_EVENT_TRIGGERS_H
#define PTAH_RECORD_PERF_EVENT_TRIGGERS_H

#include <ptah/record.h>

#include <linux/perf_event.h>

/* PERFDATA_AUX_* of an event: the member is newer than the headers that Ptah is compiled with. */
void triggers_set_action(struct perf_event_attr *attr, uint32_t action);
uint32_t triggers_action(const struct perf_event_attr *attr);

/*
 * The attributes of all triggers of the configuration; `attrs` has PTAH_RECORD_TRIGGERS, and leads to
 * the names in the configuration. `root`: a prefix for /sys.
 */
enum ptah_record_problem triggers_read(const char *root, const struct ptah_record_config *config,
				       bool inherit, struct perf_event_attr *attrs,
				       struct ptah_message *why);

#endif
