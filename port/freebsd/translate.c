/* SPDX-License-Identifier: MIT */
/* hwt's configuration as the engine's, and the engine's results as errno values. */
#include "port.h"

int pt_errno(int status, const struct ptah_trace_problem *problem)
{
	switch (status) {
	case PTAH_OK:
		return 0;
	case PTAH_E_NOMEM:
		return ENOMEM;
	case PTAH_E_BUSY:
		return EBUSY;
	case PTAH_E_INVAL:
		/* ENXIO: what this processor does not have. */
		return problem && problem->kind == PTAH_PROBLEM_FLAG ? ENXIO : EINVAL;
	default:
		return ENXIO;
	}
}

static int refuse(struct ptah_trace_problem *problem, const char *field, const char *reason)
{
	*problem = (struct ptah_trace_problem){.field = field, .reason = reason};
	return PTAH_E_INVAL;
}

/* A number that may stand in its field of the register, or beside it. */
static int merge(uint64_t *ctl, unsigned at, uint32_t value, const char *field,
		 struct ptah_trace_problem *problem)
{
	uint64_t has = *ctl >> at & 15;

	if (value > 15)
		return refuse(problem, field, "the register's field has 4 bits");
	if (value && has && value != has)
		return refuse(problem, field, "rtit_ctl has another value");
	*ctl |= (uint64_t)value << at;
	return PTAH_OK;
}

int pt_translate(const struct hwt_context *ctx, int cpu_id, struct ptah_trace_config *trace,
		 struct ptah_trace_problem *problem)
{
	const struct ptah_caps *caps = ptah_engine_caps(pt_engine, (unsigned)cpu_id);
	const struct pt_cpu_config *config = ctx->config;
	struct ptah_trace_registers r = {0};
	int i, status;

	if (!config || ctx->config_size < sizeof(*config))
		return refuse(problem, "config_size", "no struct pt_cpu_config");
	if (config->nranges < 0 || config->nranges > PT_IP_FILTER_MAX_RANGES)
		return refuse(problem, "nranges", "there are two");
	if (config->cr3_filter && !(config->rtit_ctl & PTAH_RTIT_CTL_CR3_FILTER))
		return refuse(problem, "cr3_filter", "rtit_ctl does not have the bit for it");
	r.ctl = config->rtit_ctl;
	r.cr3 = (uint64_t)config->cr3_filter;
	for (i = 0; i < config->nranges; i++) {
		r.ranges[i].first = config->ip_ranges[i].start;
		r.ranges[i].last = config->ip_ranges[i].end;
		r.given |= (uint8_t)(1 << i);
	}
	status = merge(&r.ctl, PTAH_RTIT_CTL_MTC_FREQ, config->mtc_freq, "mtc_freq", problem);
	if (status == PTAH_OK)
		status = merge(&r.ctl, PTAH_RTIT_CTL_CYC_THRESH, config->cyc_thresh, "cyc_thresh",
			       problem);
	if (status == PTAH_OK)
		status =
		    merge(&r.ctl, PTAH_RTIT_CTL_PSB_FREQ, config->psb_freq, "psb_freq", problem);
	return status < 0 ? status
			  : ptah_trace_config_from_registers(caps, &r, false, trace, problem);
}
