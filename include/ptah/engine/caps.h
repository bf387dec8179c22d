/* SPDX-License-Identifier: MIT */
/*
 * What a processor's Intel PT can do, what one may ask of it, and whether a
 * request can be granted: found out before a register is written, because the
 * processor's own answer to a wrong request is a #GP in ring 0. Freestanding.
 *
 *	if (ptah_caps_discover(hal, port, &caps) < 0)
 *		log(ptah_caps_advice(caps.obstacle));
 *	ptah_trace_config_default(&caps, &config);
 *	config.mtc = true;
 *	config.mtc_period = 3;
 *	if (ptah_trace_config_check(&caps, &config, false, &problem) < 0)
 *		log(problem.field, problem.reason);
 *
 * A request is never changed silently: it is granted as it is or refused with
 * the field, the reason and the values that would be valid. Nothing here keeps
 * state: both structs are the caller's, and may be copied.
 *
 * Source: SDM volume 3, "Detection of Intel PT and Capability Enumeration",
 * "IA32_RTIT_CTL MSR"; volume 2, CPUID leaves 07H, 14H, 15H.
 */
#ifndef PTAH_CAPS_H
#define PTAH_CAPS_H

#include <ptah/base.h>
#include <ptah/engine/hal.h>
#include <ptah/engine/rtit.h>
#include <ptah/engine/trace_config.h>

PTAH_BEGIN_DECLS

/* Why a processor cannot be traced. */
enum ptah_caps_obstacle {
	PTAH_CAPS_NONE = 0,
	PTAH_CAPS_NOT_INTEL, /* another vendor: leaf 14H means nothing */
	PTAH_CAPS_NO_PT,     /* CPUID.07H.0:EBX[25] is 0 */
	PTAH_CAPS_NO_LEAF,   /* CPUID.07H announces PT, but leaf 14H is beyond the highest */
	PTAH_CAPS_BAD_LEAF,  /* leaf 14H announces a feature and no valid value for it */
	PTAH_CAPS_NO_OUTPUT, /* neither ToPA nor a single range */
	PTAH_CAPS_NO_MSR,    /* CPUID announces PT, but reading IA32_RTIT_CTL raises #GP */
	PTAH_CAPS_VMX,	     /* in VMX operation and IA32_VMX_MISC[14] is 0 */
	PTAH_CAPS_IN_USE,    /* IA32_RTIT_CTL.TraceEn is 1: another tracer is active */
	PTAH_CAPS_OBSTACLE_MAX
};

struct ptah_caps {
	size_t size;	  /* sizeof(struct ptah_caps) */
	uint8_t obstacle; /* enum ptah_caps_obstacle */
	bool hypervisor;  /* CPUID.01H:ECX[31]: the hypervisor decides what the fields below show */
	struct ptah_cpu cpu;
	uint8_t physical_bits; /* MAXPHYADDR */
	/*
	 * 57 where the processor has 5-level paging, in use or not, else 48. WRMSR and
	 * XRSTORS decide by this width whether an address is canonical.
	 */
	uint8_t linear_bits;

	/* CPUID.14H.0:EBX, bits 0 to 9 */
	bool cr3_filter, psb_cyc, ip_filter, mtc, ptwrite, power_events, psb_pmi_preserve;
	bool event_trace, tnt_disable, trigger_tracing;
	/* CPUID.14H.0:ECX, bits 0 to 3, and 31 */
	bool topa, topa_multi, single_range, fabric, lip;
	/*
	 * CPUID.14H.1; bitmaps: bit n says that the encoding n is valid. A bitmap is
	 * 0 exactly where its feature (mtc, psb_cyc) is missing.
	 */
	uint8_t ranges; /* at most PTAH_RANGES; 0 without ip_filter */
	uint16_t mtc_periods, cyc_thresholds, psb_periods;
	/*
	 * CPUID.15H: TSC ticks per crystal tick are tsc_n / tsc_d; 0: CPUID does not say.
	 * Where it leaves crystal_hz 0, the value is the one that the SDM gives for the
	 * model, if it gives one ("Determining the Processor Base Frequency").
	 */
	uint32_t tsc_n, tsc_d, crystal_hz;
	uint8_t nominal_ratio; /* MSR_PLATFORM_INFO[15:8]; 0: could not be read */

	bool xsaves;		   /* XSAVES is there and knows component 8 */
	bool vmx;		   /* CPUID.01H:ECX[5] */
	bool vmx_pt;		   /* IA32_VMX_MISC[14]: PT may stay on in VMX operation */
	bool branch_required;	   /* erratum BDM106: BranchEn 0 raises #GP */
	bool lbr_exclusive;	   /* TraceEn resets the LBRs (family 6, 3D 47 4E 4F 56 5E) */
	bool single_range_4k_only; /* errata TGL052, ADL037, RPL017: no larger single range */

	/*
	 * Trigger tracing, CPUID.14H.1: how many triggers there are (four for each MSR
	 * IA32_RTIT_TRIGGERn_CFG, EAX[10:8]), and what they can do: attribute their actions (ECX[0]),
	 * pause and resume the trace (ECX[1]), and match with debug registers (ECX[15]). 0 without
	 * trigger_tracing. The engine programs none of them: the documents that it was written from
	 * do not have these MSRs' addresses, nor which of their bits pauses and which resumes.
	 */
	uint8_t triggers;
	bool trigger_attribution, trigger_pause_resume, trigger_dr_match;

	/* The raw words, for the metadata of a recording: EAX, EBX, ECX, EDX. */
	uint32_t leaf_14_0[4], leaf_14_1[4], leaf_15[4];
};

/*
 * Asks the processor that it runs on. Reads only: CPUID, and where that announces
 * Intel PT, MSRs that it announces and MSR_PLATFORM_INFO; an MSR that raises #GP
 * nevertheless does no harm. Uses cpuid, rdmsr and in_vmx of the HAL. rdmsr may
 * be NULL here, for a look from user mode: then the obstacles NO_MSR, VMX and
 * IN_USE are not found, vmx_pt stays false and nominal_ratio is 0.
 *
 * Context NMI (hal.h); the caller stays on one processor throughout. PTAH_OK, or
 * PTAH_E_UNSUPPORTED when the processor cannot be traced: `obstacle` says why.
 * Both fill in *caps with what could be found out, its size included.
 * PTAH_E_INVAL, and *caps untouched: no HAL.
 */
int ptah_caps_discover(const struct ptah_hal *hal, void *port, struct ptah_caps *caps);

/* "NO_PT": the enumerator's last part. Never NULL. */
const char *ptah_caps_obstacle_name(unsigned obstacle);

/* A sentence or two on the obstacle and what to do about it. Never NULL. */
const char *ptah_caps_advice(unsigned obstacle);

enum ptah_trace_problem_kind {
	PTAH_PROBLEM_NONE = 0,
	PTAH_PROBLEM_FLAG,	/* not supported: must be 0 */
	PTAH_PROBLEM_BITMAP,	/* valid: a bit for each value that may be had */
	PTAH_PROBLEM_MAX,	/* valid: the highest value */
	PTAH_PROBLEM_MASK,	/* valid: the bits that may be set */
	PTAH_PROBLEM_NEEDS,	/* needs another field, which the reason names */
	PTAH_PROBLEM_MIN,	/* valid: the lowest value */
	PTAH_PROBLEM_CANONICAL, /* an address; valid: its width in bits, the rest is its sign */
	PTAH_PROBLEM_REQUIRED,	/* must be 1 on this processor */
	PTAH_PROBLEM_NOTHING,	/* legal, but nothing would be traced */
	PTAH_PROBLEM_CAPS,	/* field "caps": this processor cannot be traced at all */
	PTAH_PROBLEM_KIND_MAX
};

struct ptah_trace_problem {
	/*
	 * As in struct ptah_trace_config or struct ptah_capture_config ("ranges[1].first" too), or
	 * what else is in the way: an argument, a callback of the port. After every failure
	 * neither field nor reason is NULL.
	 */
	const char *field;
	const char *reason; /* a sentence, without its full stop */
	uint8_t kind;	    /* enum ptah_trace_problem_kind; NONE: nothing is known to be valid */
	uint64_t value, valid;
};

/*
 * Fills in *config: user and kernel, branches, TSC; everything else is off, with
 * encodings that are valid on this processor. Any context.
 */
void ptah_trace_config_default(const struct ptah_caps *caps, struct ptah_trace_config *config);

/*
 * PTAH_OK when a processor of these capabilities accepts it (no #GP) and it
 * traces something. Else *problem (may be NULL) says why: PTAH_E_INVAL for the
 * configuration, PTAH_E_UNSUPPORTED for a processor with an obstacle. `threaded`:
 * for a capture that follows a thread by XSAVES, which saves only two ranges. Any
 * context.
 */
int ptah_trace_config_check(const struct ptah_caps *caps, const struct ptah_trace_config *config,
			    bool threaded, struct ptah_trace_problem *problem);

/*
 * IA32_RTIT_CTL of a configuration that was accepted: without TraceEn, ToPA and
 * FabricEn. IA32_RTIT_CR3_MATCH is config->cr3 where cr3_filter is set, and the
 * ADDRn pairs are first and last where the mode is not off; else 0. Any context.
 */
uint64_t ptah_trace_config_ctl(const struct ptah_trace_config *config);

/*
 * The other way round: what a value of IA32_RTIT_CTL asks for, as a user brings it who
 * fills in the register himself. TraceEn and ToPA are the engine's and mean nothing here.
 * PTAH_OK: *config asks for exactly that, with `mode` of each range; cr3 and the addresses
 * of ranges are 0, for the caller to fill in before ptah_trace_config_check().
 *
 * PTAH_E_INVAL: a bit or a field cannot be had on this processor: problem->field names it
 * as in struct ptah_trace_config, or is "FabricEn", or "reserved" with the bit as
 * problem->value. PTAH_E_UNSUPPORTED: the processor has an obstacle. *problem may be NULL,
 * and *config is untouched after a failure. Any context.
 */
int ptah_trace_config_from_ctl(const struct ptah_caps *caps, uint64_t ctl,
			       struct ptah_trace_config *config,
			       struct ptah_trace_problem *problem);

/* What is traced, as the registers that say it. */
struct ptah_trace_registers {
	uint64_t ctl; /* IA32_RTIT_CTL */
	uint64_t cr3; /* IA32_RTIT_CR3_MATCH; not read without CR3Filter */
	struct {
		uint64_t first, last; /* IA32_RTIT_ADDRn_A, _B */
	} ranges[PTAH_RANGES];
	uint8_t
	    given; /* bit n: ranges[n] has addresses; it is a filter if `ctl` has no mode for it */
};

/*
 * The same with CR3 and the ranges: the configuration has passed ptah_trace_config_check() when
 * this returns PTAH_OK. PTAH_E_INVAL also for a range that has a mode and no addresses
 * ("ranges[1].mode").
 */
int ptah_trace_config_from_registers(const struct ptah_caps *caps,
				     const struct ptah_trace_registers *registers, bool threaded,
				     struct ptah_trace_config *config,
				     struct ptah_trace_problem *problem);

PTAH_END_DECLS

#endif
