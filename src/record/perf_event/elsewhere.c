/* SPDX-License-Identifier: MIT */
/*
 * The records of the processors that are not recorded. The kernel reports an execve and a new
 * mapping on the processor where they happen. A program that begins on one processor and goes on to
 * run on a recorded one (-C) cannot be decoded without these records.
 */
#include "record/perf_event/hardware.h"
#include "record/perf_event/proc.h"

#include <stdlib.h>

static bool is_recorded(const struct hardware *h, int32_t cpu)
{
	for (size_t i = 0; i < h->cpu_count; i++)
		if (h->cpus[i] == cpu)
			return true;
	return false;
}

/* The others that are online; the caller frees *cpus. */
static size_t find_others(const struct hardware *h, int32_t **cpus)
{
	const size_t online = proc_cpus("", cpus);
	size_t n = 0;

	for (size_t i = 0; i < online; i++)
		if (!is_recorded(h, (*cpus)[i]))
			(*cpus)[n++] = (*cpus)[i];
	return n;
}

void hardware_open_elsewhere(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct event_sizes sizes = {.data = h->sizes.data};
	enum ptah_record_problem problem;
	struct event_targets targets = {.strict = true};
	struct ptah_message why = {""};
	int32_t *cpus = NULL;

	if (config->target.kind != PTAH_RECORD_CPUS || !config->target.id_count)
		return;
	targets.cpu_count = find_others(h, &cpus);
	targets.cpus = cpus;
	h->elsewhere.layout = h->events.layout;
	h->elsewhere.sideband_attr = h->events.sideband_attr;
	/* Which threads run there does not matter. */
	h->elsewhere.sideband_attr.context_switch = 0;
	problem = targets.cpu_count ? events_open(&h->elsewhere, &targets, &sizes, NULL, &why)
				    : PTAH_RECORD_FINE;
	free(cpus);
	if (!problem)
		return;
	events_close(&h->elsewhere);
	h->elsewhere_missing = true;
}
