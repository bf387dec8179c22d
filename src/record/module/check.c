/* SPDX-License-Identifier: MIT */
/*
 * Checks whether the recorder module can do what is requested, and turns the configuration into the
 * driver's: options, and address ranges of the filters.
 */
#include "record/module/module.h"

#include "base/bits.h"
#include "perfdata/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The terms of perf's driver: bits of attr.config, which are those of IA32_RTIT_CTL. */
static const struct pmu_term terms[] = {
    {"pt", PERFDATA_PT_PT},
    {"cyc", PERFDATA_PT_CYC},
    {"pwr_evt", PERFDATA_PT_PWR_EVT},
    {"fup_on_ptw", PERFDATA_PT_FUP_ON_PTW},
    {"mtc", PERFDATA_PT_MTC},
    {"tsc", PERFDATA_PT_TSC},
    {"noretcomp", PERFDATA_PT_NORETCOMP},
    {"ptw", PERFDATA_PT_PTW},
    {"branch", PERFDATA_PT_BRANCH},
    {"mtc_period", PERFDATA_PT_MTC_PERIOD},
    {"cyc_thresh", PERFDATA_PT_CYC_THRESH},
    {"psb_period", UINT64_C(15) << 24},
    {"event", PERFDATA_PT_EVENT},
    {"notnt", PERFDATA_PT_NOTNT},
};

void module_describe(const struct ptah_caps *caps, struct pmu *pmu)
{
	/* On a machine that has perf's driver, perf wants the number of that. */
	if (pmu_read("", pmu) < 0)
		pmu->type = PERFDATA_PMU_TYPE;
	memcpy(pmu->terms, terms, sizeof(terms));
	pmu->term_count = ARRAY_SIZE(terms);
	pmu->psb_cyc = caps->psb_cyc;
	pmu->mtc = caps->mtc;
	pmu->ip_filtering = caps->ip_filter;
	pmu->ptwrite = caps->ptwrite;
	pmu->power_event_trace = caps->power_events;
	pmu->event_trace = caps->event_trace;
	pmu->tnt_disable = caps->tnt_disable;
	pmu->topa_output = caps->topa;
	pmu->psb_periods = caps->psb_periods;
	pmu->cycle_thresholds = caps->cyc_thresholds;
	pmu->mtc_periods = caps->mtc_periods;
	pmu->num_address_ranges = caps->ranges;
	pmu->nominal_ratio = caps->nominal_ratio;
	pmu->tsc_art_n = caps->tsc_n;
	pmu->tsc_art_d = caps->tsc_d;
}

static uint8_t field(uint64_t word, uint64_t bits)
{
	return (uint8_t)((word & bits) >> __builtin_ctzll(bits));
}

void module_trace_config(const struct ptah_record_config *config, uint64_t word,
			 struct ptah_trace_config *trace)
{
	*trace = (struct ptah_trace_config){
	    .size = sizeof(*trace),
	    .os = config->trace.os,
	    .user = config->trace.user,
	    .branch = word & PERFDATA_PT_BRANCH,
	    .tsc = word & PERFDATA_PT_TSC,
	    .mtc = word & PERFDATA_PT_MTC,
	    .cyc = word & PERFDATA_PT_CYC,
	    .mtc_period = field(word, PERFDATA_PT_MTC_PERIOD),
	    .cyc_threshold = field(word, PERFDATA_PT_CYC_THRESH),
	    .psb_period = field(word, UINT64_C(15) << 24),
	    .no_retcomp = word & PERFDATA_PT_NORETCOMP,
	    .ptwrite = word & PERFDATA_PT_PTW,
	    .fup_on_ptwrite = word & PERFDATA_PT_FUP_ON_PTW,
	    .power_events = word & PERFDATA_PT_PWR_EVT,
	    .event_trace = word & PERFDATA_PT_EVENT,
	    .no_tnt = word & PERFDATA_PT_NOTNT,
	};
}

/* Checking */

static enum ptah_record_problem check_module_caps(const struct ptah_caps *caps,
						  struct ptah_message *why)
{
	switch (caps->obstacle) {
	case PTAH_CAPS_NONE:
		return PTAH_RECORD_FINE;
	case PTAH_CAPS_NOT_INTEL:
	case PTAH_CAPS_NO_PT:
		return recorder_refuse(why, PTAH_RECORD_NO_PROCESSOR,
				       "this processor has no Intel PT");
	case PTAH_CAPS_VMX:
	case PTAH_CAPS_IN_USE:
		/* Both may pass: the start reports them. */
		return PTAH_RECORD_FINE;
	default:
		return recorder_refuse(why, PTAH_RECORD_NO_PROCESSOR, "%s",
				       ptah_caps_advice(caps->obstacle));
	}
}

static enum ptah_record_problem check_module_filters(const struct pmu *pmu,
						     const struct ptah_record_config *config,
						     struct ptah_message *why)
{
	char *text;
	enum ptah_record_problem problem = pmu_filters(pmu, config, &text, why);

	if (!problem)
		free(text);
	for (size_t i = 0; i < config->filter_count && !problem; i++)
		if (config->filters[i].path && config->target.kind != PTAH_RECORD_COMMAND &&
		    config->target.id_count > 1)
			problem = recorder_refuse(
			    why, PTAH_RECORD_NOT_POSSIBLE,
			    "filter %zu is of a file's code, which has other addresses in each "
			    "process: the driver has one set of addresses for all",
			    i);
	return problem;
}

static enum ptah_record_problem check_module_options(const struct ptah_caps *caps,
						     const struct ptah_record_config *config,
						     struct ptah_message *why)
{
	enum ptah_record_problem problem = check_module_caps(caps, why);
	struct pmu pmu = {0};
	uint64_t word;

	if (problem)
		return problem;
	module_describe(caps, &pmu);
	problem = pmu_config(&pmu, config, &word, why);
	if (!problem)
		problem = check_module_filters(&pmu, config, why);
	return problem ? problem : hardware_check_wishes("", config, why);
}

enum ptah_record_problem module_check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	struct device device;
	enum ptah_record_problem problem = device_open(&device, why);

	if (!problem)
		problem = check_module_options(&device.caps, config, why);
	if (!problem)
		problem = hardware_check_records(config, why);
	device_close(&device);
	return problem;
}

/* Address ranges */

/* Where the bytes from `offset` on of the file are mapped with their code. */
static bool find_mapped(int32_t pid, const char *path, uint64_t offset, uint64_t *address)
{
	char name[64], *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	f = fopen(name, "re");
	while (f && !found && getline(&line, &room, f) > 0) {
		struct proc_mapping m;

		found = proc_parse_mapping(line, &m) && m.prot & 4 && !strcmp(m.path, path) &&
			offset >= m.offset && offset - m.offset < m.end - m.start;
		if (found)
			*address = m.start + (offset - m.offset);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

int module_place_filters(struct ptah_recorder *r, int32_t pid, struct ptah_trace_config *trace)
{
	for (size_t i = 0; i < r->config.filter_count; i++) {
		const struct ptah_record_filter *f = &r->config.filters[i];
		struct ptah_range *range = &trace->ranges[i];

		range->mode = f->mode;
		range->first = f->start;
		if (f->path && !find_mapped(pid, f->path, f->start, &range->first))
			return recorder_fail(r, PTAH_RECORD_NOT_POSSIBLE, PTAH_E_UNSUPPORTED,
					     "filter %zu: the code at 0x%" PRIx64
					     " of %s is not mapped when the trace begins, and the "
					     "driver needs its address then",
					     i, f->start, f->path);
		range->last = f->size - 1 > UINT64_MAX - range->first ? UINT64_MAX
								      : range->first + f->size - 1;
	}
	return 0;
}
