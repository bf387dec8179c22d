/* SPDX-License-Identifier: MIT */
/* Finds the kernel's numbers of the events that pause and resume the trace (triggers.h). */
#include "record/perf_event/triggers.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "record/perf_event/pmu.h"
#include "record/perf_event/tracefs.h"
#include "record/recorder.h"

#include <linux/hw_breakpoint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UPROBE "/sys/bus/event_source/devices/uprobe"

void triggers_set_action(struct perf_event_attr *attr, uint32_t action)
{
	store_le32((char *)attr + PERFDATA_ATTR_AT_AUX_ACTION, action);
}

uint32_t triggers_action(const struct perf_event_attr *attr)
{
	return load_le32((const char *)attr + PERFDATA_ATTR_AT_AUX_ACTION);
}

static bool read_number(const char *root, const char *path, uint64_t *number)
{
	char text[64], *end;

	if (!pmu_read_file(root, path, text, sizeof(text)))
		return false;
	*number = strtoull(text, &end, 10);
	return end != text && !*end;
}

/* The kernel's parts are not traced by exclude_kernel, so that a breakpoint there would be missed. */
static enum ptah_record_problem make_breakpoint(const struct ptah_record_config *config,
						uint64_t address, struct perf_event_attr *attr,
						struct ptah_message *why)
{
	const bool kernel = address >> 63;

	if (kernel && !config->trace.os)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "the trigger at %#" PRIx64
				       " is an address of the kernel, which is not traced",
				       address);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_type = HW_BREAKPOINT_X;
	attr->bp_addr = address;
	attr->bp_len = sizeof(long);
	attr->exclude_kernel = !kernel;
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem make_uprobe(const char *root,
					    const struct ptah_record_trigger *trigger,
					    struct perf_event_attr *attr, struct ptah_message *why)
{
	const bool at_return = trigger->kind == PTAH_TRIGGER_RETURN;
	char format[64] = "";
	uint64_t type;

	if (!trigger->name)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "a trigger at a function names no file");
	if (!read_number(root, UPROBE "/type", &type) ||
	    !pmu_read_file(root, UPROBE "/format/retprobe", format, sizeof(format)) ||
	    strcmp(format, "config:0") != 0)
		return recorder_refuse(
		    why, PTAH_RECORD_NO_DRIVER,
		    "this kernel has no uprobes as events (CONFIG_UPROBE_EVENTS)");
	attr->type = (uint32_t)type;
	attr->config = at_return;
	attr->uprobe_path = (uintptr_t)trigger->name;
	attr->probe_offset = trigger->address;
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem read_trigger(const char *root,
					     const struct ptah_record_config *config,
					     const struct ptah_record_trigger *trigger,
					     struct perf_event_attr *attr, struct ptah_message *why)
{
	enum ptah_record_problem problem;
	uint64_t id = 0;

	switch (trigger->kind) {
	case PTAH_TRIGGER_TRACEPOINT:
		attr->type = PERF_TYPE_TRACEPOINT;
		problem = tracefs_find(root, trigger->name, &id, why);
		attr->config = id;
		return problem;
	case PTAH_TRIGGER_ADDRESS:
		return make_breakpoint(config, trigger->address, attr, why);
	case PTAH_TRIGGER_ENTRY:
	case PTAH_TRIGGER_RETURN:
		return make_uprobe(root, trigger, attr, why);
	default:
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION, "a trigger makes no sense");
	}
}

enum ptah_record_problem triggers_read(const char *root, const struct ptah_record_config *config,
				       bool inherit, struct perf_event_attr *attrs,
				       struct ptah_message *why)
{
	bool resumes = !config->triggers.start_paused;
	enum ptah_record_problem problem = PTAH_RECORD_FINE;

	if (config->triggers.count > PTAH_RECORD_TRIGGERS)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION, "more than %d triggers",
				       PTAH_RECORD_TRIGGERS);
	for (size_t i = 0; i < config->triggers.count && !problem; i++) {
		const struct ptah_record_trigger *trigger = &config->triggers.items[i];

		memset(&attrs[i], 0, sizeof(attrs[i]));
		attrs[i].size = PERFDATA_ATTR_SIZE;
		attrs[i].sample_period = 1;
		attrs[i].inherit = inherit;
		attrs[i].exclude_hv = 1;
		problem = read_trigger(root, config, trigger, &attrs[i], why);
		triggers_set_action(&attrs[i],
				    trigger->resume ? PERFDATA_AUX_RESUME : PERFDATA_AUX_PAUSE);
		resumes = resumes || trigger->resume;
	}
	if (!problem && !resumes)
		problem = recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					  "the trace starts paused, and no event resumes it "
					  "(aux-action=resume)");
	return problem;
}
