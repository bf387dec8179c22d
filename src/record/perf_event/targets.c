/* SPDX-License-Identifier: MIT */
/*
 * Finds the threads and processors that are to be recorded, and writes records for what existed of
 * them before the recording began.
 */
#include "record/perf_event/hardware.h"

#include "record/perf_event/proc.h"
#include "record/proc_stat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Targets */

/* Whether the id is a repetition: the driver refuses two events for one thread. */
static bool is_repeated(const struct ptah_record_config *config, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (config->target.ids[k] == config->target.ids[i])
			return true;
	return false;
}

static bool copy_ids(const struct ptah_record_config *config, int32_t **ids, size_t *n)
{
	*n = 0;
	*ids = calloc(config->target.id_count ? config->target.id_count : 1, sizeof(**ids));
	for (size_t i = 0; *ids && i < config->target.id_count; i++)
		if (!is_repeated(config, i))
			(*ids)[(*n)++] = config->target.ids[i];
	return *ids != NULL;
}

/* Finds the threads of all processes that the configuration names. */
static int find_threads(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;

	for (size_t i = 0; i < config->target.id_count; i++) {
		int32_t *some, *all;
		size_t n;

		if (is_repeated(config, i))
			continue;
		n = proc_threads("", config->target.ids[i], &some);
		if (!n) {
			free(some);
			return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
					     "there is no process %d", config->target.ids[i]);
		}
		all = realloc(h->tids, (h->tid_count + n) * sizeof(*all));
		if (all) {
			memcpy(all + h->tid_count, some, n * sizeof(*all));
			h->tids = all;
			h->tid_count += n;
		}
		free(some);
		if (!all)
			return PTAH_E_NOMEM;
	}
	return 0;
}

static bool one_thread(struct hardware *h, int32_t tid)
{
	h->tids = calloc(1, sizeof(*h->tids));
	if (!h->tids)
		return false;
	h->tids[h->tid_count++] = tid;
	return true;
}

/* Finds the processors that are named, or, if none is, all that are online. */
static int find_processors(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	size_t named = config->target.kind == PTAH_RECORD_CPUS ? config->target.id_count : 0;

	h->cpu_count = proc_cpus("", &h->cpus);
	if (!h->cpu_count)
		return recorder_fail(h->r, PTAH_RECORD_BROKEN, PTAH_E_SYSTEM,
				     "/sys/devices/system/cpu/online does not tell the processors");
	for (size_t i = 0; i < named; i++) {
		bool online = false;

		for (size_t k = 0; k < h->cpu_count; k++)
			online = online || h->cpus[k] == config->target.ids[i];
		if (!online)
			return recorder_fail(h->r, PTAH_RECORD_NO_TARGET, PTAH_E_MISSING,
					     "processor %d is not there, or not online",
					     config->target.ids[i]);
	}
	if (!named)
		return 0;
	free(h->cpus);
	return copy_ids(config, &h->cpus, &h->cpu_count) ? 0 : PTAH_E_NOMEM;
}

int hardware_find_targets(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	bool ok = true;
	int status = config->target.argv && config->target.argv[0] ? hardware_fork_command(h) : 0;

	if (status < 0)
		return status;
	switch (config->target.kind) {
	case PTAH_RECORD_COMMAND:
		ok = one_thread(h, h->command.pid);
		break;
	case PTAH_RECORD_PROCESSES:
		status = find_threads(h);
		break;
	case PTAH_RECORD_THREADS:
		ok = copy_ids(config, &h->tids, &h->tid_count);
		break;
	case PTAH_RECORD_SELF:
		ok = one_thread(h, gettid());
		break;
	default:
		break;
	}
	if (!ok)
		return PTAH_E_NOMEM;
	return status < 0 ? status : find_processors(h);
}

/* Records of what existed before */

/*
 * Writing these records takes a while on a busy machine. The rings fill meanwhile, and are read in
 * between.
 */
static int take_reported(void *context, const uint8_t *record, size_t size)
{
	struct hardware *h = context;

	h->r->status.sideband_bytes += size;
	recorder_wrote(h->r, perfdata_write_raw(h->r->writer, record, size));
	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++)
		if (ring_is_filling(&h->events.rings[i].ring))
			hardware_read_records(h, i);
	return h->r->error;
}

static bool was_reported(const struct hardware *h, size_t i, int32_t pid)
{
	for (size_t k = 0; k < i; k++)
		if (proc_process_of("", h->tids[k]) == pid)
			return true;
	return false;
}

static void report_targets(struct hardware *h, const struct proc_reporter *reporter)
{
	const struct ptah_record_config *config = &h->r->config;
	const bool whole = config->target.kind == PTAH_RECORD_PROCESSES;
	const size_t n = whole ? config->target.id_count : h->tid_count;

	for (size_t i = 0; i < n && h->r->error >= 0; i++) {
		int32_t tid = whole ? config->target.ids[i] : h->tids[i];
		int32_t pid = whole ? tid : proc_process_of("", tid);
		int status;

		if (whole && is_repeated(config, i))
			continue;
		status = pid ? proc_report(reporter, pid, whole ? 0 : tid) : PTAH_E_MISSING;
		h->r->status.processes += whole || !was_reported(h, i, pid);
		if (status == PTAH_E_SYSTEM)
			recorder_note(h->r,
				      "the mappings of process %d may not be read: what was mapped "
				      "before the recording is missing",
				      pid);
	}
}

void hardware_report_existing(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct proc_reporter reporter = {
	    .root = "",
	    .id = h->events.sidebands[0].id,
	    .build_ids = true,
	    .take = take_reported,
	    .context = h,
	};

	if (config->target.no_existing)
		return;
	if (config->trace.os && proc_report_kernel(&reporter) == PTAH_E_MISSING)
		recorder_note(h->r, "the kernel's addresses are hidden (kernel.kptr_restrict): its "
				    "code is not in the recording");
	if (config->target.kind == PTAH_RECORD_CPUS)
		proc_report_all(&reporter);
	else if (config->target.kind == PTAH_RECORD_COMMAND)
		h->r->status
		    .processes++; /* the command has nothing to report before its execve() */
	else
		report_targets(h, &reporter);
}
