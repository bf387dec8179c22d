/* SPDX-License-Identifier: MIT */
/*
 * A simulated logical processor with Intel PT, as strict as the SDM: CPUID, the
 * MSRs with every #GP, ToPA and single-range output, PMIs, XSAVES, SMM, VMX,
 * reset; and faults that one can ask for. Freestanding, in memory that the
 * caller gives, no state beside it: each processor is its caller's thread's own.
 *
 *	struct ptah_model *m = malloc(ptah_model_size());
 *
 *	ptah_model_init(m, ptah_model_find("skylake"), &ports);
 *	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, table);
 *	...
 *
 * Instructions that may fault return PTAH_OK, or PTAH_E_UNSUPPORTED for a #GP;
 * a faulting one has changed nothing.
 *
 * Source: SDM volume 3, "Intel Processor Trace".
 */
#ifndef PTAH_MODEL_H
#define PTAH_MODEL_H

#include <ptah/error.h>
#include <ptah/rtit.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptah_model;

/*
 * What a processor is: what CPUID and the read-only MSRs say. A table of named
 * ones comes with the library; a caller may make others.
 */
struct ptah_model_processor {
	const char *name; /* "skylake" */
	const char *product;
	uint16_t family;
	uint8_t model, stepping;
	uint8_t physical_bits; /* MAXPHYADDR */
	uint8_t linear_bits;   /* 48, or 57 with 5-level paging */
	uint8_t max_leaf;      /* CPUID.0:EAX */
	uint8_t perfmon;       /* version, CPUID.0AH:EAX[7:0]; from 4 on MSR 391H exists */
	uint8_t nominal;       /* MSR_PLATFORM_INFO[15:8] */
	bool pt;	       /* CPUID.07H.0:EBX[25] */
	bool xsaves;	       /* and CPUID.0DH.1:ECX[8] where PT is there */
	bool vmx, vmx_pt;      /* CPUID.01H:ECX[5], IA32_VMX_MISC[14] */
	bool hypervisor;       /* CPUID.01H:ECX[31] */
	bool branch_required;  /* erratum BDM106: TraceEn without BranchEn raises #GP */
	uint8_t pmi_margin;    /* single-entry ToPA: so many bytes early comes the PMI */
	uint32_t leaf_14_0[4]; /* CPUID.14H.0: EAX to EDX */
	uint32_t leaf_14_1[4];
	uint32_t tsc_n, tsc_d, crystal_hz; /* CPUID.15H: EBX, EAX, ECX */
	uint32_t errata; /* 1 << enum ptah_erratum (cpu.h): what it suffers from */
};

/* What can be made to go wrong, or to come late. All 0: nothing. Any time. */
struct ptah_model_faults {
	/* While TraceEn is 1, RDMSR of STATUS, OUTPUT_BASE and OUTPUT_MASK_PTRS lags by so many
	 * bytes. SDM: their values are stable only when it is 0. */
	uint32_t stale_bytes;
	/* An operational error shows after so many more bytes, all of which are lost. */
	uint32_t error_delay;
	/* A PMI comes so many bytes, and so many instruction boundaries, after its region is full.
	 */
	uint32_t pmi_skid_bytes, pmi_skid_boundaries;
	/* A PMI that finds the LVT entry masked is lost; else it comes when the mask goes. */
	bool pmi_lost_when_masked;
	/* The entry after the current one is read with it, and later changes are not seen. */
	bool cache_next;
	/* So many bytes (at most 64) before a stop are not in memory until a fence. */
	uint32_t withhold;
	/* Single-range output above 4 KB has wrong data there (errata TGL052, ADL037, RPL017). */
	bool single_range_4k_only;
	/* Bit 55 of IA32_PERF_GLOBAL_STATUS_RESET is reserved while CTL.ToPA is 0. */
	bool ack_needs_topa;
	/* TRACE: the internal buffer overflows after so many bytes, for so many events. */
	uint32_t overflow_after, overflow_events;
	/* TRACE: 1 << enum ptah_erratum (cpu.h). */
	uint32_t errata;
};

#endif
