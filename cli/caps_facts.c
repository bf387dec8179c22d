/* SPDX-License-Identifier: MIT */
/* The facts that `ptah caps` shows: features, limits and encodings, by their names. */
#include "caps_view.h"

#define FACT(name, meaning)                                                                        \
	{                                                                                          \
#name, offsetof(struct ptah_caps, name), meaning                                   \
	}

const struct caps_fact caps_features[] = {
    FACT(cr3_filter, "trace one address space, by its CR3"),
    FACT(ip_filter, "filter by address ranges, and stop in them"),
    FACT(mtc, "MTC packets: the crystal's ticks between two TSC packets"),
    FACT(psb_cyc, "CYC packets: core cycles; and a choice of PSB periods"),
    FACT(ptwrite, "PTWRITE packets: values that a program writes into its trace"),
    FACT(power_events, "power packets: C-states entered and left"),
    FACT(event_trace, "Event Trace packets: interrupts and exceptions by name"),
    FACT(tnt_disable, "leave TNT packets out: calls and returns without their branches"),
    FACT(trigger_tracing, "trigger tracing: counters and debug registers act on the trace"),
    FACT(trigger_attribution, "trigger action attribution"),
    FACT(trigger_pause_resume, "triggers pause and resume the trace"),
    FACT(trigger_dr_match, "a trigger may be a match of a debug register"),
    FACT(psb_pmi_preserve, "a PSB or PMI that is due is kept over a pause"),
    FACT(topa, "output to regions of memory that a table names (ToPA)"),
    FACT(topa_multi, "ToPA tables of more than one region"),
    FACT(single_range, "output to one contiguous range of memory"),
    FACT(fabric, "output to a trace port"),
    FACT(lip, "addresses in packets include the base of CS"),
    FACT(xsaves, "XSAVES keeps a thread's trace state"),
    FACT(vmx_pt, "tracing goes on in VMX operation"),
    {0},
};

const struct caps_fact caps_limits[] = {
    FACT(branch_required, "branch packets cannot be left out (erratum BDM106)"),
    FACT(lbr_exclusive, "tracing resets the last branch records (LBR)"),
    FACT(single_range_4k_only,
	 "a single range of more than 4 KB gets wrong data (errata TGL052, ADL037, RPL017)"),
    {0},
};

static uint64_t mtc_ticks(unsigned n)
{
	return UINT64_C(1) << n;
}

static uint64_t cyc_cycles(unsigned n)
{
	return n ? UINT64_C(1) << (n - 1) : 0;
}

static uint64_t psb_bytes(unsigned n)
{
	return UINT64_C(2048) << n;
}

const struct caps_encoding caps_encodings[CAPS_ENCODINGS] = {
    {"mtc_period", "mtc_periods", "crystal_ticks", "an MTC packet each so many crystal ticks",
     offsetof(struct ptah_caps, mtc_periods), mtc_ticks, true},
    {"cyc_threshold", "cyc_thresholds", "cycles",
     "a CYC packet after no less than so many core cycles (perf: cyc_thresh)",
     offsetof(struct ptah_caps, cyc_thresholds), cyc_cycles, false},
    {"psb_period", "psb_periods", "bytes", "a PSB each so many bytes of trace",
     offsetof(struct ptah_caps, psb_periods), psb_bytes, false},
};

bool caps_has(const struct ptah_caps *caps, size_t at)
{
	return *(const bool *)((const char *)caps + at);
}

/* Only an MSR (IA32_VMX_MISC) has this fact, and a program in user mode cannot read it. */
bool caps_unknown(const struct caps_subject *s, size_t at)
{
	return s->host && at == offsetof(struct ptah_caps, vmx_pt) && s->caps->vmx;
}

unsigned caps_bitmap(const struct ptah_caps *caps, const struct caps_encoding *e)
{
	return *(const uint16_t *)(const void *)((const char *)caps + e->at);
}

double caps_nanoseconds(const struct ptah_caps *caps, uint64_t ticks)
{
	return (double)ticks * 1e9 / caps->crystal_hz;
}

uint32_t caps_errata(const struct ptah_caps *caps)
{
	return caps->obstacle == PTAH_CAPS_NOT_INTEL ? 0 : ptah_cpu_errata(&caps->cpu);
}
