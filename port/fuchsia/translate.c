/* SPDX-License-Identifier: MIT */
/* A request of the protocol as the engine's configuration, and the engine's answer to it. */
#include "translate.h"

#include <ptah/engine/caps.h>

zx_status_t request_refuse(struct insntrace_problem *problem, const char *field, const char *reason)
{
	*problem = (struct insntrace_problem){field, reason};
	return ZX_ERR_INVALID_ARGS;
}

static bool is_field(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* The field of the protocol that one of the engine's was made from. */
static const char *protocol_field(const char *field)
{
	static const char *const names[][2] = {
	    {"cr3", "address_space_match"},
	    {"buffer", "num_chunks"},
	    {"region", "chunk_order"},
	    {"ranges[0].first", "address_range_0.start"},
	    {"ranges[0].last", "address_range_0.end"},
	    {"ranges[0].mode", "address_range_0"},
	    {"ranges[1].first", "address_range_1.start"},
	    {"ranges[1].last", "address_range_1.end"},
	    {"ranges[1].mode", "address_range_1"},
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_field(field, names[i][0]))
			return names[i][1];
	return "ctl";
}

zx_status_t request_judge(struct insntrace_problem *problem, int status,
			  const struct ptah_trace_problem *why)
{
	if (status == PTAH_OK)
		return ZX_OK;
	*problem = (struct insntrace_problem){protocol_field(why->field), why->reason};
	return status == PTAH_E_NOMEM	? ZX_ERR_NO_MEMORY
	       : status == PTAH_E_INVAL ? ZX_ERR_INVALID_ARGS
					: ZX_ERR_NOT_SUPPORTED;
}

/* An option of IA32_RTIT_CTL that is not among these would be lost: the value is made again. */
static zx_status_t translate_ctl(struct insntrace_problem *problem, uint64_t ctl,
				 struct ptah_trace_config *to)
{
	const uint64_t ours = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA;

	to->size = sizeof(*to);
	to->os = ctl & PTAH_RTIT_CTL_OS;
	to->user = ctl & PTAH_RTIT_CTL_USER;
	to->branch = ctl & PTAH_RTIT_CTL_BRANCH_EN;
	to->tsc = ctl & PTAH_RTIT_CTL_TSC_EN;
	to->mtc = ctl & PTAH_RTIT_CTL_MTC_EN;
	to->cyc = ctl & PTAH_RTIT_CTL_CYC_EN;
	to->mtc_period = ctl >> PTAH_RTIT_CTL_MTC_FREQ & 15;
	to->cyc_threshold = ctl >> PTAH_RTIT_CTL_CYC_THRESH & 15;
	to->psb_period = ctl >> PTAH_RTIT_CTL_PSB_FREQ & 15;
	to->no_retcomp = ctl & PTAH_RTIT_CTL_DIS_RETC;
	to->ptwrite = ctl & PTAH_RTIT_CTL_PTW_EN;
	to->fup_on_ptwrite = ctl & PTAH_RTIT_CTL_FUP_ON_PTW;
	to->power_events = ctl & PTAH_RTIT_CTL_PWR_EVT_EN;
	to->event_trace = ctl & PTAH_RTIT_CTL_EVENT_EN;
	to->no_tnt = ctl & PTAH_RTIT_CTL_DIS_TNT;
	to->psb_pmi_on_enable = ctl & PTAH_RTIT_CTL_INJECT_PSBPMI;
	to->cr3_filter = ctl & PTAH_RTIT_CTL_CR3_FILTER;
	to->ranges[0].mode = ctl >> PTAH_RTIT_CTL_ADDR_CFG(0) & 15;
	to->ranges[1].mode = ctl >> PTAH_RTIT_CTL_ADDR_CFG(1) & 15;
	if (ptah_trace_config_ctl(to) != (ctl & ~ours))
		return request_refuse(problem, "ctl",
				      "has bits that are no option of this interface");
	return ZX_OK;
}

zx_status_t request_translate(struct insntrace_problem *problem,
			      const struct insntrace_buffer_config *from,
			      struct ptah_trace_config *to)
{
	zx_status_t status;
	unsigned n;

	*to = (struct ptah_trace_config){0};
	*problem = (struct insntrace_problem){0};
	if (!from->num_chunks || from->num_chunks > INSNTRACE_MAX_NUM_CHUNKS)
		return request_refuse(problem, "num_chunks", "1 to 4096");
	if (from->chunk_order > INSNTRACE_MAX_CHUNK_ORDER)
		return request_refuse(problem, "chunk_order", "0 to 8");
	if ((uint64_t)from->num_chunks * 4096 << from->chunk_order > INSNTRACE_MAX_BUFFER_BYTES)
		return request_refuse(problem, "num_chunks", "the buffer is larger than 256 MB");
	status = translate_ctl(problem, from->ctl, to);
	if (status != ZX_OK)
		return status;
	if (to->cr3_filter && !from->address_space_match)
		return request_refuse(problem, "address_space_match",
				      "ctl has CR3Filter, and there is no CR3");
	to->cr3 = from->address_space_match;
	to->cr3_filter = to->cr3 != 0;
	for (n = 0; n < 2; n++) {
		const struct insntrace_address_range *range = &from->address_range[n];

		to->ranges[n].first = range->start;
		to->ranges[n].last = range->end;
		if ((range->start || range->end) && !to->ranges[n].mode)
			to->ranges[n].mode = PTAH_RANGE_FILTER;
		else if (to->ranges[n].mode && !range->end)
			return request_refuse(problem, n ? "address_range_1" : "address_range_0",
					      "ctl has the range, and it is empty");
	}
	return ZX_OK;
}
