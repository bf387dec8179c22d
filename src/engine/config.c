/* SPDX-License-Identifier: MIT */
/*
 * Checks a requested trace configuration against what the processor can do: each rule of SDM volume
 * 3, "IA32_RTIT_CTL MSR" to "IA32_RTIT_ADDRn MSRs", whose breach raises #GP, and requests that are
 * legal but trace nothing. The value of IA32_RTIT_CTL is made from the same tables, so that what is
 * written is what was checked.
 */
#include <ptah/engine/caps.h>

#include "base/compiler.h"

#include <string.h>

#define THREAD_RANGES 2 /* ADDR0 and ADDR1: SDM volume 1, "PT State" */

#define AT(member)  offsetof(struct ptah_trace_config, member)
#define CAP(member) offsetof(struct ptah_caps, member)
#define ALWAYS	    0 /* no capability has this offset: `size` has */

static const struct {
	const char *field;
	size_t at, cap; /* cap: the capability without which the option may not be set */
	uint64_t ctl;
	const char *reason;
} options[] = {
    {"os", AT(os), ALWAYS, PTAH_RTIT_CTL_OS, NULL},
    {"user", AT(user), ALWAYS, PTAH_RTIT_CTL_USER, NULL},
    {"branch", AT(branch), ALWAYS, PTAH_RTIT_CTL_BRANCH_EN, NULL},
    {"tsc", AT(tsc), ALWAYS, PTAH_RTIT_CTL_TSC_EN, NULL},
    {"no_retcomp", AT(no_retcomp), ALWAYS, PTAH_RTIT_CTL_DIS_RETC, NULL},
    {"mtc", AT(mtc), CAP(mtc), PTAH_RTIT_CTL_MTC_EN,
     "this processor has no MTC packets (CPUID.14H.0:EBX[3])"},
    {"cyc", AT(cyc), CAP(psb_cyc), PTAH_RTIT_CTL_CYC_EN,
     "this processor has no CYC packets (CPUID.14H.0:EBX[1])"},
    {"ptwrite", AT(ptwrite), CAP(ptwrite), PTAH_RTIT_CTL_PTW_EN,
     "this processor has no PTWRITE (CPUID.14H.0:EBX[4])"},
    {"fup_on_ptwrite", AT(fup_on_ptwrite), CAP(ptwrite), PTAH_RTIT_CTL_FUP_ON_PTW,
     "this processor has no PTWRITE (CPUID.14H.0:EBX[4])"},
    {"power_events", AT(power_events), CAP(power_events), PTAH_RTIT_CTL_PWR_EVT_EN,
     "this processor has no Power Event Trace (CPUID.14H.0:EBX[5])"},
    {"event_trace", AT(event_trace), CAP(event_trace), PTAH_RTIT_CTL_EVENT_EN,
     "this processor has no Event Trace (CPUID.14H.0:EBX[7])"},
    {"no_tnt", AT(no_tnt), CAP(tnt_disable), PTAH_RTIT_CTL_DIS_TNT,
     "this processor cannot leave TNT packets out (CPUID.14H.0:EBX[8])"},
    {"psb_pmi_on_enable", AT(psb_pmi_on_enable), CAP(psb_pmi_preserve), PTAH_RTIT_CTL_INJECT_PSBPMI,
     "this processor does not keep a pending PSB and PMI (CPUID.14H.0:EBX[6])"},
    {"cr3_filter", AT(cr3_filter), CAP(cr3_filter), PTAH_RTIT_CTL_CR3_FILTER,
     "this processor cannot filter by CR3 (CPUID.14H.0:EBX[0])"},
};

static const struct {
	const char *field;
	size_t at, cap; /* cap: the bitmap of valid values */
	unsigned ctl;	/* the field's lowest bit */
	const char *reason, *missing;
} encodings[] = {
    {"mtc_period", AT(mtc_period), CAP(mtc_periods), PTAH_RTIT_CTL_MTC_FREQ,
     "not an MTC period of this processor (CPUID.14H.1:EAX[31:16])",
     "without MTC packets (CPUID.14H.0:EBX[3]) the period must be 0"},
    {"cyc_threshold", AT(cyc_threshold), CAP(cyc_thresholds), PTAH_RTIT_CTL_CYC_THRESH,
     "not a CYC threshold of this processor (CPUID.14H.1:EBX[15:0])",
     "without CYC packets (CPUID.14H.0:EBX[1]) the threshold must be 0"},
    {"psb_period", AT(psb_period), CAP(psb_periods), PTAH_RTIT_CTL_PSB_FREQ,
     "not a PSB period of this processor (CPUID.14H.1:EBX[31:16])",
     "without configurable PSB (CPUID.14H.0:EBX[1]) the period must be 0"},
};

static const struct range_fields {
	const char *mode, *first, *last;
} range_fields[PTAH_RANGES] = {
    {"ranges[0].mode", "ranges[0].first", "ranges[0].last"},
    {"ranges[1].mode", "ranges[1].first", "ranges[1].last"},
    {"ranges[2].mode", "ranges[2].first", "ranges[2].last"},
    {"ranges[3].mode", "ranges[3].first", "ranges[3].last"},
};

static bool flag_at(const void *object, size_t at)
{
	return *(const bool *)((const char *)object + at);
}

static unsigned byte_at(const void *object, size_t at)
{
	return *((const uint8_t *)object + at);
}

static unsigned bitmap_at(const void *object, size_t at)
{
	return *(const uint16_t *)(const void *)((const char *)object + at);
}

/* Fills in *problem. Always false, so that a check can return the call. */
static bool refuse(struct ptah_trace_problem *problem, const char *field, const char *reason,
		   enum ptah_trace_problem_kind kind, uint64_t value, uint64_t valid)
{
	problem->field = field;
	problem->reason = reason;
	problem->kind = (uint8_t)kind;
	problem->value = value;
	problem->valid = valid;
	return false;
}

static bool check_options(const struct ptah_caps *caps, const struct ptah_trace_config *c,
			  struct ptah_trace_problem *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (flag_at(c, options[i].at) && options[i].cap != ALWAYS &&
		    !flag_at(caps, options[i].cap))
			return refuse(problem, options[i].field, options[i].reason,
				      PTAH_PROBLEM_FLAG, 1, 0);
	if (c->fup_on_ptwrite && !c->ptwrite)
		return refuse(problem, "fup_on_ptwrite",
			      "there is nothing to put an FUP on: it needs ptwrite",
			      PTAH_PROBLEM_NEEDS, 1, 0);
	if (caps->branch_required && !c->branch)
		return refuse(problem, "branch",
			      "this processor raises #GP when BranchEn is 0 (erratum BDM106)",
			      PTAH_PROBLEM_REQUIRED, 0, 1);
	return true;
}

/* Encodings are checked also where the packets are off, because the processor does so. */
static bool check_encodings(const struct ptah_caps *caps, const struct ptah_trace_config *c,
			    struct ptah_trace_problem *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		unsigned value = byte_at(c, encodings[i].at);
		unsigned valid = bitmap_at(caps, encodings[i].cap);

		if (!valid && value)
			return refuse(problem, encodings[i].field, encodings[i].missing,
				      PTAH_PROBLEM_FLAG, value, 0);
		if (valid && (value > 15 || !(valid >> value & 1)))
			return refuse(problem, encodings[i].field, encodings[i].reason,
				      PTAH_PROBLEM_BITMAP, value, valid);
	}
	return true;
}

/*
 * Whether any code is traced, and any packet written. SDM "Filtering by CPL"; "Packet Generation
 * Enable Controls".
 */
static bool check_sources(const struct ptah_trace_config *c, struct ptah_trace_problem *problem)
{
	if (!c->os && !c->user)
		return refuse(problem, "os", "neither os nor user is set: no code would be traced",
			      PTAH_PROBLEM_NOTHING, 0, 1);
	if (!c->branch && !c->tsc && !c->mtc && !c->cyc && !c->ptwrite && !c->power_events &&
	    !c->event_trace)
		return refuse(problem, "branch",
			      "no packets are asked for: set branch, ptwrite, power_events, "
			      "event_trace, tsc, mtc or cyc",
			      PTAH_PROBLEM_NOTHING, 0, 1);
	return true;
}

/*
 * SDM "IA32_RTIT_CR3_MATCH MSR": bits 4:0 are reserved. A CR3 has no bits from
 * MAXPHYADDR on, so that a value with such bits matches none.
 */
static bool check_cr3(const struct ptah_caps *caps, const struct ptah_trace_config *c,
		      struct ptah_trace_problem *problem)
{
	uint64_t valid = (UINT64_C(1) << caps->physical_bits) - 32;

	if (!c->cr3_filter || !(c->cr3 & ~valid))
		return true;
	return refuse(problem, "cr3",
		      c->cr3 & 31 ? "its bits 4:0 are reserved: mask the PCID off"
				  : "no CR3 has these bits: nothing would be traced",
		      PTAH_PROBLEM_MASK, c->cr3, valid);
}

static bool is_canonical(uint64_t address, unsigned bits)
{
	unsigned unused = 64 - bits;

	return (uint64_t)((int64_t)(address << unused) >> unused) == address;
}

static bool check_range(const struct ptah_caps *caps, const struct ptah_range *r,
			const struct range_fields *f, struct ptah_trace_problem *problem)
{
	static const char noncanonical[] = "the address is not canonical";

	if (r->mode > PTAH_RANGE_STOP)
		return refuse(problem, f->mode, "a range is off, a filter or a stop",
			      PTAH_PROBLEM_MAX, r->mode, PTAH_RANGE_STOP);
	if (!is_canonical(r->first, caps->linear_bits))
		return refuse(problem, f->first, noncanonical, PTAH_PROBLEM_CANONICAL, r->first,
			      caps->linear_bits);
	if (!is_canonical(r->last, caps->linear_bits))
		return refuse(problem, f->last, noncanonical, PTAH_PROBLEM_CANONICAL, r->last,
			      caps->linear_bits);
	if (r->last < r->first)
		return refuse(problem, f->last,
			      "the range ends before it begins: no address lies in it",
			      PTAH_PROBLEM_MIN, r->last, r->first);
	return true;
}

/* Whether a stop range contains the whole filter range. */
static bool is_stopped(const struct ptah_trace_config *c, const struct ptah_range *filter)
{
	for (unsigned n = 0; n < PTAH_RANGES; n++)
		if (c->ranges[n].mode == PTAH_RANGE_STOP && c->ranges[n].first <= filter->first &&
		    c->ranges[n].last >= filter->last)
			return true;
	return false;
}

/* SDM "TraceStop": where a filter range and a stop range overlap, the stop wins. */
static bool check_overlaps(const struct ptah_trace_config *c, struct ptah_trace_problem *problem)
{
	unsigned stopped = PTAH_RANGES;

	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		if (c->ranges[n].mode != PTAH_RANGE_FILTER)
			continue;
		if (!is_stopped(c, &c->ranges[n]))
			return true;
		stopped = n;
	}
	if (stopped == PTAH_RANGES)
		return true;
	return refuse(problem, range_fields[stopped].mode,
		      "all filters lie in ranges that stop the trace: nothing would be traced",
		      PTAH_PROBLEM_NOTHING, PTAH_RANGE_FILTER, 0);
}

static bool check_ranges(const struct ptah_caps *caps, const struct ptah_trace_config *c,
			 bool threaded, struct ptah_trace_problem *problem)
{
	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		const struct ptah_range *r = &c->ranges[n];

		if (r->mode == PTAH_RANGE_OFF)
			continue;
		if (n >= caps->ranges)
			return refuse(
			    problem, range_fields[n].mode,
			    "this processor has fewer address ranges (CPUID.14H.1:EAX[2:0])",
			    PTAH_PROBLEM_FLAG, r->mode, 0);
		if (threaded && n >= THREAD_RANGES)
			return refuse(problem, range_fields[n].mode,
				      "XSAVES keeps two address ranges of a thread",
				      PTAH_PROBLEM_FLAG, r->mode, 0);
		if (!check_range(caps, r, &range_fields[n], problem))
			return false;
	}
	return check_overlaps(c, problem);
}

/*
 * Finds out whether the structs are those of this engine, and whether the processor can be traced
 * at all. *problem is cleared.
 */
static int check_caps(const struct ptah_caps *caps, size_t size, struct ptah_trace_problem *problem)
{
	memset(problem, 0, sizeof(*problem));
	if (!caps || caps->size < sizeof(*caps) || size < sizeof(struct ptah_trace_config)) {
		refuse(problem, "size", "not the structs that this engine was built for",
		       PTAH_PROBLEM_MIN, size, sizeof(struct ptah_trace_config));
		return PTAH_E_INVAL;
	}
	if (caps->obstacle != PTAH_CAPS_NONE) {
		refuse(problem, "caps", ptah_caps_advice(caps->obstacle), PTAH_PROBLEM_CAPS,
		       caps->obstacle, PTAH_CAPS_NONE);
		return PTAH_E_UNSUPPORTED;
	}
	return PTAH_OK;
}

int ptah_trace_config_check(const struct ptah_caps *caps, const struct ptah_trace_config *config,
			    bool threaded, struct ptah_trace_problem *problem)
{
	struct ptah_trace_problem ignored;
	int status;

	if (!problem)
		problem = &ignored;
	status = check_caps(caps, config ? config->size : 0, problem);
	if (status < 0)
		return status;
	return check_options(caps, config, problem) && check_encodings(caps, config, problem) &&
		       check_sources(config, problem) && check_cr3(caps, config, problem) &&
		       check_ranges(caps, config, threaded, problem)
		   ? PTAH_OK
		   : PTAH_E_INVAL;
}

void ptah_trace_config_default(const struct ptah_caps *caps, struct ptah_trace_config *config)
{
	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
	config->os = config->user = config->branch = config->tsc = true;
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		unsigned valid = bitmap_at(caps, encodings[i].cap);

		if (valid)
			((uint8_t *)config)[encodings[i].at] = (uint8_t)__builtin_ctz(valid);
	}
}

uint64_t ptah_trace_config_ctl(const struct ptah_trace_config *config)
{
	uint64_t ctl = 0;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (flag_at(config, options[i].at))
			ctl |= options[i].ctl;
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
		ctl |= (uint64_t)(byte_at(config, encodings[i].at) & 15) << encodings[i].ctl;
	for (unsigned n = 0; n < PTAH_RANGES; n++)
		ctl |= (uint64_t)(config->ranges[n].mode & 15) << PTAH_RTIT_CTL_ADDR_CFG(n);
	return ctl;
}

/* Fills in *config. What remains of the value has no place there. */
static uint64_t take_fields(uint64_t ctl, struct ptah_trace_config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		*(bool *)((char *)config + options[i].at) = ctl & options[i].ctl;
		ctl &= ~options[i].ctl;
	}
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		((uint8_t *)config)[encodings[i].at] = (uint8_t)(ctl >> encodings[i].ctl & 15);
		ctl &= ~(UINT64_C(15) << encodings[i].ctl);
	}
	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		config->ranges[n].mode = (uint8_t)(ctl >> PTAH_RTIT_CTL_ADDR_CFG(n) & 15);
		ctl &= ~(UINT64_C(15) << PTAH_RTIT_CTL_ADDR_CFG(n));
	}
	return ctl & ~(PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA);
}

static bool check_modes(const struct ptah_caps *caps, const struct ptah_trace_config *c,
			struct ptah_trace_problem *problem)
{
	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		unsigned most = n < caps->ranges ? PTAH_RANGE_STOP : PTAH_RANGE_OFF;

		if (c->ranges[n].mode > most)
			return refuse(problem, range_fields[n].mode,
				      most ? "a range is off, a filter or a stop"
					   : "this processor has fewer address ranges "
					     "(CPUID.14H.1:EAX[2:0])",
				      PTAH_PROBLEM_MAX, c->ranges[n].mode, most);
	}
	return true;
}

int ptah_trace_config_from_ctl(const struct ptah_caps *caps, uint64_t ctl,
			       struct ptah_trace_config *config, struct ptah_trace_problem *problem)
{
	struct ptah_trace_config c = {.size = sizeof(c)};
	struct ptah_trace_problem ignored;
	uint64_t rest = take_fields(ctl, &c);
	int status;

	if (!problem)
		problem = &ignored;
	status = check_caps(caps, config ? sizeof(c) : 0, problem);
	if (status < 0)
		return status;
	if (rest & PTAH_RTIT_CTL_FABRIC_EN) {
		refuse(problem, "FabricEn", "trace to the fabric has no buffer", PTAH_PROBLEM_FLAG,
		       1, 0);
		return PTAH_E_INVAL;
	}
	if (rest) {
		refuse(problem, "reserved", "a bit that means nothing to this engine",
		       PTAH_PROBLEM_MASK, rest & -rest, ~rest);
		return PTAH_E_INVAL;
	}
	if (!check_options(caps, &c, problem) || !check_encodings(caps, &c, problem) ||
	    !check_modes(caps, &c, problem))
		return PTAH_E_INVAL;
	*config = c;
	return PTAH_OK;
}

int ptah_trace_config_from_registers(const struct ptah_caps *caps,
				     const struct ptah_trace_registers *registers, bool threaded,
				     struct ptah_trace_config *config,
				     struct ptah_trace_problem *problem)
{
	struct ptah_trace_problem ignored;
	struct ptah_trace_config c;
	int status;

	if (!problem)
		problem = &ignored;
	status = check_caps(caps, config && registers ? sizeof(c) : 0, problem);
	if (status >= 0)
		status = ptah_trace_config_from_ctl(caps, registers->ctl, &c, problem);
	if (status < 0)
		return status;
	c.cr3 = c.cr3_filter ? registers->cr3 : 0;
	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		if (registers->given >> n & 1) {
			c.ranges[n].first = registers->ranges[n].first;
			c.ranges[n].last = registers->ranges[n].last;
			if (!c.ranges[n].mode)
				c.ranges[n].mode = PTAH_RANGE_FILTER;
		} else if (c.ranges[n].mode) {
			refuse(problem, range_fields[n].mode, "the range has no addresses",
			       PTAH_PROBLEM_MAX, c.ranges[n].mode, PTAH_RANGE_OFF);
			return PTAH_E_INVAL;
		}
	}
	status = ptah_trace_config_check(caps, &c, threaded, problem);
	if (status == PTAH_OK)
		*config = c;
	return status;
}
