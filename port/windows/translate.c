/* SPDX-License-Identifier: MIT */
/* HyperDbg's structs (hypertrace_pt.h) and the engine's: what one says in the words of the other. */
#include "port.h"

#include <ptah/engine/caps.h>

#define TOPA_REGION_BITS 15

/* Fields of Ptah's configuration, and the fields that they were made from. */
static const struct {
	const char *ptah, *windows;
} fields[] = {
    {"os", "TraceKernel"},	 {"user", "TraceUser"},		 {"branch", "EnableBranch"},
    {"tsc", "EnableTsc"},	 {"mtc", "EnableMtc"},		 {"cyc", "EnableCyc"},
    {"mtc_period", "MtcFreq"},	 {"cyc_threshold", "CycThresh"}, {"psb_period", "PsbFreq"},
    {"cr3_filter", "TargetCr3"}, {"cr3", "TargetCr3"},		 {"buffer", "BufferSize"},
};

/* "ranges[1].last": the number is at RANGE_NUMBER, and the member's first letter at RANGE_MEMBER. */
#define RANGE_NUMBER 7
#define RANGE_MEMBER 10
static const char *const range_fields[PT_MAX_ADDR_RANGES][2] = {
    {"AddrRanges[0].Start", "AddrRanges[0].End"},
    {"AddrRanges[1].Start", "AddrRanges[1].End"},
    {"AddrRanges[2].Start", "AddrRanges[2].End"},
    {"AddrRanges[3].Start", "AddrRanges[3].End"},
};

static bool is_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static const char *windows_field(const char *ptah)
{
	size_t i;

	if (ptah[0] == 'r' && ptah[1] == 'a') /* mode: the processor has fewer ranges */
		return ptah[RANGE_MEMBER] == 'm'
			   ? "NumAddrRanges"
			   : range_fields[ptah[RANGE_NUMBER] - '0'][ptah[RANGE_MEMBER] == 'l'];
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (is_same(ptah, fields[i].ptah))
			return fields[i].windows;
	return ptah;
}

INT32 windows_refuse(PT_PER_CPU *cpu, const char *field, const char *reason)
{
	cpu->Problem.Field = windows_field(field);
	cpu->Problem.Reason = reason;
	return PT_BAD_CONFIG;
}

/* The result of an engine's function that had a configuration to check. */
INT32 windows_judge(PT_PER_CPU *cpu, int status, const struct ptah_trace_problem *problem)
{
	cpu->Status = status;
	if (status == PTAH_OK)
		return 0;
	windows_refuse(cpu, problem->field, problem->reason);
	return status == PTAH_E_INVAL ? PT_BAD_CONFIG : PT_FAILED;
}

INT32 windows_translate(PT_PER_CPU *cpu, const PT_TRACE_CONFIG *from, struct ptah_trace_config *to)
{
	UINT32 i;

	cpu->Problem.Field = cpu->Problem.Reason = NULL;
	if (from->NumAddrRanges > PT_MAX_ADDR_RANGES)
		return windows_refuse(cpu, "NumAddrRanges", "there are at most 4 ranges");
	*to = (struct ptah_trace_config){
	    .size = sizeof(*to),
	    .os = from->TraceKernel != 0,
	    .user = from->TraceUser != 0,
	    .branch = from->EnableBranch != 0,
	    .tsc = from->EnableTsc != 0,
	    .mtc = from->EnableMtc != 0,
	    .cyc = from->EnableCyc != 0,
	    .mtc_period = from->MtcFreq,
	    .cyc_threshold = from->CycThresh,
	    .psb_period = from->PsbFreq,
	    .no_retcomp = !from->EnableRetCompression,
	    .cr3_filter = from->TargetCr3 != 0,
	    .cr3 = from->TargetCr3,
	};
	for (i = 0; i < from->NumAddrRanges; i++) {
		to->ranges[i].first = from->AddrRanges[i].Start;
		to->ranges[i].last = from->AddrRanges[i].End;
		to->ranges[i].mode =
		    from->AddrRanges[i].IsStopRange ? PTAH_RANGE_STOP : PTAH_RANGE_FILTER;
	}
	return 0;
}

INT32 PtEngineQueryCapabilities(PT_CAPABILITIES *OutCaps)
{
	struct ptah_caps caps;

	ptah_caps_discover(&windows_hal, NULL, &caps);
	if (caps.obstacle && caps.obstacle != PTAH_CAPS_VMX && caps.obstacle != PTAH_CAPS_IN_USE)
		return PT_FAILED;
	if (OutCaps)
		*OutCaps = (PT_CAPABILITIES){.Cr3Filtering = caps.cr3_filter,
					     .PsbCycConfigurable = caps.psb_cyc,
					     .IpFiltering = caps.ip_filter,
					     .MtcSupport = caps.mtc,
					     .PtwriteSupport = caps.ptwrite,
					     .PowerEventTrace = caps.power_events,
					     .VmxSupport = caps.vmx_pt,
					     .TopaOutput = caps.topa,
					     .TopaMultiEntry = caps.topa_multi,
					     .SingleRangeOutput = caps.single_range,
					     .TransportOutput = caps.fabric,
					     .IpPayloadsAreLip = caps.lip,
					     .NumAddrRanges = caps.ranges,
					     .MtcPeriodBitmap = caps.mtc_periods,
					     .CycThresholdBitmap = caps.cyc_thresholds,
					     .PsbFreqBitmap = caps.psb_periods};
	return 0;
}

VOID PtEngineInitDefaultConfig(PT_TRACE_CONFIG *Config)
{
	RtlZeroMemory(Config, sizeof(*Config));
	Config->TraceUser = Config->TraceKernel = TRUE;
	Config->EnableBranch = Config->EnableTsc = TRUE;
	Config->BufferSize = PT_DEFAULT_BUFFER_SIZE;
}

INT32 PtEngineSizeToTopaEncoding(UINT64 SizeInBytes)
{
	INT32 n;

	for (n = 0; n <= TOPA_REGION_BITS; n++)
		if (SizeInBytes == PT_PAGE_SIZE << n)
			return n;
	return PT_FAILED;
}
