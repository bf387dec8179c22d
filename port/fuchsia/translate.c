/* SPDX-License-Identifier: MIT */
/* A request of the protocol as the engine's configuration, and the engine's answer to it. */
#include "translate.h"

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

zx_status_t request_translate(struct insntrace_problem *problem, const struct ptah_caps *caps,
			      const struct insntrace_buffer_config *from,
			      struct ptah_trace_config *to)
{
	struct ptah_trace_registers r = {.ctl = from->ctl, .cr3 = from->address_space_match};
	struct ptah_trace_problem why;
	unsigned n;

	*problem = (struct insntrace_problem){0};
	if (!from->num_chunks || from->num_chunks > INSNTRACE_MAX_NUM_CHUNKS)
		return request_refuse(problem, "num_chunks", "1 to 4096");
	if (from->chunk_order > INSNTRACE_MAX_CHUNK_ORDER)
		return request_refuse(problem, "chunk_order", "0 to 8");
	if ((uint64_t)from->num_chunks * 4096 << from->chunk_order > INSNTRACE_MAX_BUFFER_BYTES)
		return request_refuse(problem, "num_chunks", "the buffer is larger than 256 MB");
	if (from->ctl & PTAH_RTIT_CTL_CR3_FILTER && !from->address_space_match)
		return request_refuse(problem, "address_space_match",
				      "ctl has CR3Filter, and there is no CR3");
	if (from->address_space_match)
		r.ctl |= PTAH_RTIT_CTL_CR3_FILTER;
	for (n = 0; n < 2; n++) {
		const struct insntrace_address_range *range = &from->address_range[n];

		r.ranges[n].first = range->start;
		r.ranges[n].last = range->end;
		if (range->start || range->end)
			r.given |= (uint8_t)(1 << n);
	}
	return request_judge(problem, ptah_trace_config_from_registers(caps, &r, false, to, &why),
			     &why);
}
