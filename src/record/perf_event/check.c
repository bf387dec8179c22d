/* SPDX-License-Identifier: MIT */
/* Checks whether the recorder hardware can do what is requested, on this machine, for this user. */
#include "record/perf_event/hardware.h"

#include "record/command.h"
#include "record/perf_event/kcore.h"

#include <ptah/record.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_power_of_pages(uint64_t size)
{
	return !(size & (size - 1)) && size >= 4096;
}

static enum ptah_record_problem check_sizes(const struct ptah_record_config *config,
					    struct ptah_message *why)
{
	/*
	 * Output stops only at the end of a ToPA region, which is a page at least. So the buffer
	 * has two: one is written while the other is taken.
	 */
	const unsigned least = config->buffer.policy == PTAH_RECORD_SNAPSHOT ? 4096 : 8192;

	if (config->buffer.size &&
	    (!is_power_of_pages(config->buffer.size) || config->buffer.size < least ||
	     config->buffer.size > UINT64_C(1) << 31))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "trace buffer of %" PRIu64
				       " bytes: it must be a power of two "
				       "from %u to 2147483648",
				       config->buffer.size, least);
	if (config->buffer.sideband && (!is_power_of_pages(config->buffer.sideband) ||
					config->buffer.sideband > UINT64_C(1) << 31))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "ring of records of %" PRIu64
				       " bytes: it must be a power of "
				       "two from 4096 to 2147483648",
				       config->buffer.sideband);
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_command(const struct ptah_record_config *config,
					      struct ptah_message *why)
{
	char *program;
	bool found;

	if (!config->target.argv || !config->target.argv[0])
		return PTAH_RECORD_FINE;
	program = command_find(config->target.argv[0]);
	found = program && access(program, X_OK) == 0;
	free(program);
	return found ? PTAH_RECORD_FINE
		     : recorder_refuse(why, PTAH_RECORD_NO_TARGET, "%s: no such command",
				       config->target.argv[0]);
}

static enum ptah_record_problem check_permission(const struct ptah_host *host,
						 const struct ptah_record_config *config,
						 struct ptah_message *why)
{
	const char *what = !host->may_user ? "anything"
			   : config->target.kind == PTAH_RECORD_CPUS && !host->may_cpu
			       ? "whole processors"
			   : config->trace.os && !host->may_kernel ? "the kernel"
								   : NULL;

	return what
		   ? recorder_refuse(why, PTAH_RECORD_PERMISSION,
				     "kernel.perf_event_paranoid is %d: this user may not trace %s",
				     host->paranoid, what)
		   : PTAH_RECORD_FINE;
}

static enum ptah_record_problem check_host(const struct ptah_host *host,
					   const struct ptah_record_config *config,
					   struct ptah_message *why)
{
	if (host->obstacle == PTAH_HOST_PROCESSOR)
		return recorder_refuse(why, PTAH_RECORD_NO_PROCESSOR, "%s",
				       host->caps.obstacle == PTAH_CAPS_NOT_INTEL ||
					       host->caps.obstacle == PTAH_CAPS_NO_PT
					   ? "this processor has no Intel PT"
					   : ptah_caps_advice(host->caps.obstacle));
	if (host->obstacle == PTAH_HOST_DRIVER)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER, "the kernel offers no intel_pt");
	return check_permission(host, config, why);
}

enum ptah_record_problem hardware_check_records(const struct ptah_record_config *config,
						struct ptah_message *why)
{
	struct ptah_host host = {.size = sizeof(host)};
	struct ptah_caps caps;

	/* It is enough to know this processor, so that the thread stays where it is. */
	hardware_caps(&caps);
	ptah_host_look(&caps, NULL, &host);
	return check_permission(&host, config, why);
}

enum ptah_record_problem hardware_check_wishes(const char *root,
					       const struct ptah_record_config *config,
					       struct ptah_message *why)
{
	enum ptah_record_problem problem = check_sizes(config, why);
	int status = 0;

	if (!problem && config->backend.long_tnt)
		problem = recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
					  "a processor chooses between TNT-8 and TNT-64 by itself");
	if (!problem && config->backend.mark_loops)
		problem = recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
					  "only a simulated processor can mark silent loops");
	if (!problem && config->output.kcore)
		status = kcore_check(root, why);
	if (status < 0)
		return status == PTAH_E_MISSING ? PTAH_RECORD_NOT_POSSIBLE : PTAH_RECORD_PERMISSION;
	return problem ? problem : check_command(config, why);
}

enum ptah_record_problem perf_event_check(const struct ptah_caps *caps, const char *root,
					  const struct ptah_record_config *config,
					  struct ptah_message *why)
{
	struct ptah_host host = {.size = sizeof(host)};
	struct perf_event_attr triggers[PTAH_RECORD_TRIGGERS];
	enum ptah_record_problem problem;
	struct pmu pmu;
	uint64_t word;
	char *filters;

	ptah_host_look(caps, root, &host);
	problem = check_host(&host, config, why);
	if (problem)
		return problem;
	if (pmu_read(root ? root : "", &pmu) < 0)
		return recorder_refuse(why, PTAH_RECORD_NO_DRIVER, "the kernel offers no intel_pt");
	problem = pmu_config(&pmu, config, &word, why);
	if (!problem)
		problem = pmu_filters(&pmu, config, &filters, why);
	if (problem)
		return problem;
	free(filters);
	problem = triggers_read(root ? root : "", config, false, triggers, why);
	if (!problem)
		problem = beside_check(root ? root : "", config, why);
	if (problem)
		return problem;
	return hardware_check_wishes(root ? root : "", config, why);
}

/*
 * A thread that records itself may do so thousands of times a second, and the place where it runs
 * may matter to it: it is not moved to each processor for a look.
 */
enum ptah_record_problem hardware_check(const struct ptah_record_config *config,
					struct ptah_message *why)
{
	const bool here = config->target.kind == PTAH_RECORD_SELF;
	struct ptah_caps caps;

	if (here)
		hardware_caps(&caps);
	return perf_event_check(here ? &caps : NULL, NULL, config, why);
}

enum ptah_record_problem hardware_check_sideband(const struct ptah_record_config *config,
						 struct ptah_message *why)
{
	return hardware_check_wishes("", config, why);
}
