/* SPDX-License-Identifier: MIT */
/*
 * What a processor's Intel PT can do, what one may ask of it, and whether a
 * request can be granted: found out before a register is written, because the
 * processor's own answer to a wrong request is a #GP in ring 0. Freestanding.
 *
 *	ptah_caps_discover(hal, port, &caps);
 *	ptah_trace_config_default(&caps, &config);
 *	config.mtc = true;
 *	config.mtc_period = 3;
 *	if (ptah_trace_config_check(&caps, &config, &problem) < 0)
 *		log(problem.field, problem.reason, problem.valid);
 *
 * A request is never changed silently: it is granted as it is or refused with
 * the field, the reason and the values that would be valid.
 *
 * Source: SDM volume 3, "Detection of Intel PT and Capability Enumeration",
 * "IA32_RTIT_CTL MSR"; volume 2, CPUID leaves 07H, 14H, 15H.
 */
#ifndef PTAH_CAPS_H
#define PTAH_CAPS_H

#include <ptah/hal.h>
#include <ptah/rtit.h>

/* Why a processor cannot be traced. */
enum ptah_caps_obstacle {
	PTAH_CAPS_NONE = 0,
	PTAH_CAPS_NOT_INTEL, /* another vendor: no leaf 14H to believe in */
	PTAH_CAPS_NO_PT,     /* CPUID.07H.0:EBX[25] is 0 */
	PTAH_CAPS_NO_LEAF,   /* said to be there, but leaf 14H is beyond the highest */
	PTAH_CAPS_NO_OUTPUT, /* neither ToPA nor a single range */
	PTAH_CAPS_VMX,	     /* in VMX operation and IA32_VMX_MISC[14] is 0 */
	PTAH_CAPS_IN_USE,    /* IA32_RTIT_CTL.TraceEn is 1: somebody else traces */
	PTAH_CAPS_OBSTACLE_MAX
};

struct ptah_caps {
	size_t size;	  /* sizeof(struct ptah_caps) */
	uint8_t obstacle; /* enum ptah_caps_obstacle */
	bool hypervisor;  /* CPUID.01H:ECX[31]: what follows is what it lets us see */
	uint16_t family;
	uint8_t model, stepping;
	uint8_t physical_bits; /* MAXPHYADDR */
	uint8_t linear_bits;   /* 48, or 57 where 5-level paging is on */

	/* CPUID.14H.0:EBX, bits 0 to 9 */
	bool cr3_filter, psb_cyc, ip_filter, mtc, ptwrite, power_events, psb_pmi_preserve;
	bool event_trace, tnt_disable, trigger_tracing;
	/* CPUID.14H.0:ECX, bits 0 to 3, and 31 */
	bool topa, topa_multi, single_range, fabric, lip;
	/* CPUID.14H.1; bitmaps: bit n says that the encoding n is valid. */
	uint8_t ranges;
	uint16_t mtc_periods, cyc_thresholds, psb_periods;
	/* CPUID.15H: TSC ticks per crystal tick are tsc_n / tsc_d; 0: not told. */
	uint32_t tsc_n, tsc_d, crystal_hz;
	uint8_t max_nonturbo_ratio; /* MSR_PLATFORM_INFO[15:8]; 0: could not be read */

	bool xsaves;		   /* XSAVES is there and knows component 8 */
	bool vmx;		   /* CPUID.01H:ECX[5] */
	bool vmx_pt;		   /* IA32_VMX_MISC[14] */
	bool branch_required;	   /* erratum BDM106: BranchEn 0 raises #GP */
	bool lbr_exclusive;	   /* TraceEn resets the LBRs (family 6, 3D 47 4E 4F 56 5E) */
	bool single_range_4k_only; /* errata TGL052, ADL037, RPL017 */

	/* The raw words, for the metadata of a recording: EAX, EBX, ECX, EDX. */
	uint32_t leaf_14_0[4], leaf_14_1[4], leaf_15[4];
};

/*
 * PASSIVE (hal.h), on the processor in question. PTAH_E_UNSUPPORTED when it
 * cannot be traced: obstacle says why, and what could be found out is filled in.
 */
PTAH_API int ptah_caps_discover(const struct ptah_hal *hal, void *port, struct ptah_caps *caps);

/* A sentence on the obstacle and what to do about it. Never NULL. */
PTAH_API const char *ptah_caps_advice(unsigned obstacle);

struct ptah_trace_range {
	uint8_t mode;	      /* PTAH_RTIT_ADDR_OFF, _FILTER, _STOP */
	uint64_t first, last; /* both inclusive, linear addresses */
};

/* One option of IA32_RTIT_CTL each, by the name that perf or the SDM has for it. */
struct ptah_trace_config {
	size_t size; /* sizeof(struct ptah_trace_config) */
	bool os, user;
	bool branch; /* BranchEn */
	bool tsc, mtc, cyc;
	uint8_t mtc_period;	/* MTCFreq: an MTC every 2^n crystal ticks */
	uint8_t cyc_threshold;	/* CycThresh: 0, or 2^(n - 1) cycles */
	uint8_t psb_period;	/* PSBFreq: a PSB every 2^(n + 11) bytes */
	bool no_retcomp;	/* DisRETC */
	bool ptwrite;		/* PTWEn */
	bool fup_on_ptwrite;	/* FUPonPTW */
	bool power_events;	/* PwrEvtEn */
	bool event_trace;	/* EventEn */
	bool no_tnt;		/* DisTNT */
	bool psb_pmi_on_enable; /* InjectPsbPmiOnEnable */
	bool cr3_filter;
	uint64_t cr3; /* bits 11:0 are not compared; bits 4:0 must be 0 */
	struct ptah_trace_range ranges[PTAH_RTIT_RANGES];
	/* A PSB at the beginning of every slice: PacketByteCnt is cleared at each start. */
	bool force_psb;
};

enum ptah_trace_problem_kind {
	PTAH_PROBLEM_NONE = 0,
	PTAH_PROBLEM_FLAG,   /* not supported: must be 0 */
	PTAH_PROBLEM_BITMAP, /* valid: a bit for each value that may be had */
	PTAH_PROBLEM_MAX,    /* valid: the highest value */
	PTAH_PROBLEM_MASK,   /* valid: the bits that may be set */
	PTAH_PROBLEM_NEEDS,  /* needs another field, which the reason names */
	PTAH_PROBLEM_KIND_MAX
};

struct ptah_trace_problem {
	const char *field;  /* as in struct ptah_trace_config; "ranges[1].first" too */
	const char *reason; /* a sentence */
	uint8_t kind;	    /* enum ptah_trace_problem_kind */
	uint64_t value, valid;
};

/* User and kernel, branches, TSC where there are timing packets; all else off. */
PTAH_API void ptah_trace_config_default(const struct ptah_caps *caps,
					struct ptah_trace_config *config);

/*
 * PTAH_OK when a processor of these capabilities accepts it (no #GP)
 * and it traces something. Else PTAH_E_INVAL, and *problem (may be NULL) says why.
 * `threaded`: for a capture that follows a thread by XSAVES, which keeps two
 * ranges. Any context.
 */
PTAH_API int ptah_trace_config_check(const struct ptah_caps *caps,
				     const struct ptah_trace_config *config, bool threaded,
				     struct ptah_trace_problem *problem);

/* IA32_RTIT_CTL of a configuration that was accepted: without TraceEn, ToPA and FabricEn. */
PTAH_API uint64_t ptah_trace_config_ctl(const struct ptah_trace_config *config);

#endif
