/* SPDX-License-Identifier: MIT */
/*
 * What the recorders with a simulated processor share outside the program: the options they
 * support, and the header of their recordings.
 */
#include "record/simulated/simulated.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "record/simulated/trace_output.h"

#include <ptah/engine/rtit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PSB_PERIOD 1 /* 4 KiB */

struct ptah_trace_config simulated_trace(const struct ptah_record_config *config)
{
	const struct ptah_trace_config *trace = &config->trace;
	const bool mtc = trace->mtc && trace->mtc_period != PTAH_RECORD_CHOOSE;

	return (struct ptah_trace_config){
	    .size = sizeof(struct ptah_trace_config),
	    .user = true,
	    .branch = true,
	    .tsc = true,
	    .mtc = mtc,
	    .cyc = trace->cyc,
	    .mtc_period = mtc ? trace->mtc_period : 0,
	    .cyc_threshold = trace->cyc ? trace->cyc_threshold : 0,
	    .psb_period =
		trace->psb_period == PTAH_RECORD_CHOOSE ? DEFAULT_PSB_PERIOD : trace->psb_period,
	    .no_retcomp = trace->no_retcomp,
	};
}

uint64_t simulated_filter_size(const struct ptah_record_filter *filter)
{
	struct stat st;

	if (filter->path && filter->size == UINT64_MAX && !stat(filter->path, &st) &&
	    (uint64_t)st.st_size > filter->start)
		return (uint64_t)st.st_size - filter->start;
	return filter->size;
}

enum ptah_record_problem simulated_check(const struct ptah_record_config *config,
					 struct ptah_message *why)
{
	static const enum ptah_record_problem no = PTAH_RECORD_NOT_POSSIBLE;
	const struct ptah_trace_config *trace = &config->trace;

	if (!trace->tsc)
		return recorder_refuse(why, no,
				       "TSC packets cannot be left out: they tell when code was "
				       "mapped");
	if (!trace->branch)
		return recorder_refuse(why, no, "without branch packets nothing could be decoded");
	if (trace->ptwrite || trace->fup_on_ptwrite || trace->power_events || trace->event_trace ||
	    trace->no_tnt || config->backend.pmu_config)
		return recorder_refuse(why, no,
				       "a simulated processor has no such packets (ptw, "
				       "fup_on_ptw, pwr_evt, event, notnt)");
	if (config->target.no_existing)
		return recorder_refuse(why, no,
				       "the recording of a simulated processor cannot leave out "
				       "names and mappings");
	if (config->buffer.size && (config->buffer.size < SIMULATED_MIN_BUFFER ||
				    config->buffer.size > SIMULATED_MAX_BUFFER ||
				    config->buffer.size % SIMULATED_MIN_BUFFER))
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "buffer of %" PRIu64 " bytes: it must be a multiple of "
				       "64 KiB, up to 64 MiB",
				       config->buffer.size);
	return PTAH_RECORD_FINE;
}

/*
 * The address filters as text, as perf writes them into its files. The caller frees it. NULL: out
 * of memory.
 */
static char *filter_text(const struct ptah_record_config *config)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	for (size_t i = 0; f && i < config->filter_count; i++) {
		const struct ptah_record_filter *filter = &config->filters[i];

		fprintf(f, "%s%s 0x%" PRIx64 "/0x%" PRIx64 "%s%s", i ? "," : "",
			filter->mode == PTAH_RANGE_STOP ? "stop" : "filter", filter->start,
			simulated_filter_size(filter), filter->path ? "@" : "",
			filter->path ? filter->path : "");
	}
	if (!f || fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

static uint64_t control(const struct ptah_trace_config *trace,
			const struct ptah_record_config *config)
{
	uint64_t ctl = ptah_trace_config_ctl(trace) | PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA;

	for (unsigned i = 0; i < config->filter_count && i < PTAH_RANGES; i++)
		ctl |= (uint64_t)config->filters[i].mode << PTAH_RTIT_CTL_ADDR_CFG(i);
	return ctl;
}

int simulated_open_writer(struct ptah_recorder *r, bool moments, const struct perfdata_clock *clock,
			  bool calls)
{
	const struct ptah_trace_config trace = simulated_trace(&r->config);
	struct ptah_record_metadata *m = &r->metadata;
	char *filter = filter_text(&r->config);
	struct perfdata_writer_config writer = {
	    .clock = clock ? *clock : (struct perfdata_clock){.mult = 1},
	    .retcomp = !trace.no_retcomp,
	    .time_source = clock || r->config.backend.clock == PTAH_CLOCK_HOST
			       ? PERFDATA_TIME_STAMPED
			       : PERFDATA_TIME_SIMULATED,
	    .tsc = true,
	    .tsc_n = SIMULATED_TSC_N,
	    .tsc_d = SIMULATED_TSC_D,
	    .nominal_ratio = SIMULATED_RATIO,
	    .mtc = trace.mtc,
	    .cyc = trace.cyc,
	    .mtc_period = trace.mtc_period,
	    .cyc_threshold = trace.cyc_threshold,
	    .psb_period = trace.psb_period,
	    .snapshot = moments,
	    .calls = calls,
	    .filter = filter,
	};
	int status = PTAH_E_NOMEM;

	if (filter) {
		const struct ptah_model_processor *cpu = trace_output_processor();

		memcpy(m->vendor, "GenuineIntel", sizeof(m->vendor));
		m->cpu = cpu->cpu;
		memcpy(m->cpuid_14[0], cpu->leaf_14_0, sizeof(m->cpuid_14[0]));
		memcpy(m->cpuid_14[1], cpu->leaf_14_1, sizeof(m->cpuid_14[1]));
		m->cpuid_15[0] = cpu->tsc_d;
		m->cpuid_15[1] = cpu->tsc_n;
		m->cpuid_15[2] = cpu->crystal_hz;
		m->time_shift = writer.clock.shift;
		m->time_mult = writer.clock.mult;
		m->time_zero = writer.clock.zero;
		m->nominal_ratio = SIMULATED_RATIO;
		m->rtit_ctl = control(&trace, &r->config);
		status = recorder_open_writer(r, &writer);
	}
	free(filter);
	return status;
}
