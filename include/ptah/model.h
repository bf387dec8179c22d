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
	uint8_t core_type;     /* CPUID.1AH:EAX[31:24] of a hybrid part; else 0 */
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
	/* No packets are made: what ptah_model_put() brings is all that is output. */
	bool silent;
	/* Bit 55 of IA32_PERF_GLOBAL_STATUS_RESET is reserved while CTL.ToPA is 0. */
	bool ack_needs_topa;
	/* TRACE: the internal buffer overflows after so many bytes, for so many events. */
	uint32_t overflow_after, overflow_events;
	/* TRACE: 1 << enum ptah_erratum (cpu.h). */
	uint32_t errata;
};

struct ptah_model_config {
	size_t size; /* sizeof(struct ptah_model_config) */
	const struct ptah_model_processor *processor;
	unsigned cpu; /* its number, for pmi() */
	/*
	 * Physical memory: the host's pointer to `physical`, and how many bytes
	 * follow it there. NULL: stores are dropped, loads give ones (SMRAM).
	 */
	uint8_t *(*memory)(void *port, uint64_t physical, uint64_t *bytes);
	/* The handler of PMIs runs, at an instruction boundary. It may do anything to the
	 * processor. May be NULL. */
	void (*pmi)(void *port, unsigned cpu);
	void *port;
};

/* The named processors: by name, NULL if there is none; and the i-th, NULL behind the last. */
PTAH_API const struct ptah_model_processor *ptah_model_find(const char *name);
PTAH_API const struct ptah_model_processor *ptah_model_named(size_t i);

/* Bytes that a processor takes, of any alignment that malloc() gives. */
PTAH_API size_t ptah_model_size(void);
/* As after a cold reset. It lies in the memory at m until that is freed, and is not moved. */
PTAH_API int ptah_model_init(struct ptah_model *m, const struct ptah_model_config *config);
PTAH_API const struct ptah_model_processor *ptah_model_processor(const struct ptah_model *m);
PTAH_API void ptah_model_set_faults(struct ptah_model *m, const struct ptah_model_faults *faults);

/* Instructions */
PTAH_API void ptah_model_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf,
			       uint32_t registers[4]);
PTAH_API int ptah_model_rdmsr(struct ptah_model *m, uint32_t msr, uint64_t *value);
PTAH_API int ptah_model_wrmsr(struct ptah_model *m, uint32_t msr, uint64_t value);
PTAH_API int ptah_model_xsaves(struct ptah_model *m, void *area, uint64_t components);
PTAH_API int ptah_model_xrstors(struct ptah_model *m, const void *area, uint64_t components);
PTAH_API void ptah_model_fence(struct ptah_model *m);

/*
 * Interrupts. A PMI that is due comes at ptah_model_boundary(), which stands for
 * the end of an instruction, unless the LVT entry (MSR 834H, masked after reset
 * and after each delivery) is masked, an NMI handler runs, or, where it is not
 * an NMI (834H[10:8] = 100b), interrupts are off. ptah_model_nmi(): one from
 * elsewhere arrives; false when it is blocked.
 */
PTAH_API void ptah_model_boundary(struct ptah_model *m);
PTAH_API bool ptah_model_nmi(struct ptah_model *m);
PTAH_API bool ptah_model_in_nmi(const struct ptah_model *m);
PTAH_API void ptah_model_set_irqs(struct ptah_model *m, bool on);
PTAH_API bool ptah_model_irqs(const struct ptah_model *m);

/* SMM. PTAH_E_BUSY: SMIs are blocked. RSM with TraceEn set shuts the processor down. */
PTAH_API int ptah_model_smi(struct ptah_model *m);
PTAH_API int ptah_model_rsm(struct ptah_model *m);
PTAH_API bool ptah_model_is_shut_down(const struct ptah_model *m);

struct ptah_model_msr {
	uint32_t msr;
	uint64_t value;
};

/* The part of a VMCS that Intel PT knows. */
struct ptah_model_vmcs {
	bool load_rtit_ctl;  /* VM-entry control 18 */
	bool clear_rtit_ctl; /* VM-exit control 25 */
	bool conceal;	     /* the three controls that conceal VMX from PT */
	uint64_t guest_rtit_ctl;
	const struct ptah_model_msr *entry_load, *exit_load;
	struct ptah_model_msr *exit_store;
	size_t entry_loads, exit_loads, exit_stores;
};

/*
 * VMX. PTAH_E_UNSUPPORTED: the instruction failed, nothing has changed. A VM
 * entry whose MSR list faults is undone by a VM exit: PTAH_E_INVAL. A list that
 * faults in a VM exit shuts the processor down: PTAH_E_LIMIT.
 */
PTAH_API int ptah_model_vmxon(struct ptah_model *m);
PTAH_API int ptah_model_vmxoff(struct ptah_model *m);
PTAH_API int ptah_model_vm_entry(struct ptah_model *m, const struct ptah_model_vmcs *vmcs);
PTAH_API int ptah_model_vm_exit(struct ptah_model *m, struct ptah_model_vmcs *vmcs);
PTAH_API bool ptah_model_in_vmx(const struct ptah_model *m);

/* SENTER or ENTERACCS: TraceEn is cleared and internal bytes are lost. */
PTAH_API void ptah_model_senter(struct ptah_model *m);
/* A warm reset keeps PT's registers but TraceEn where CPUID.14H.0:EBX[2] says so. */
PTAH_API void ptah_model_reset(struct ptah_model *m, bool cold);

/* Bytes that have gone to memory since the beginning, and those that have gone nowhere. */
PTAH_API uint64_t ptah_model_output_bytes(struct ptah_model *m, uint64_t *dropped);
/* Bytes that are no packets, put out as if they were: for tests of whatever reads them. */
PTAH_API void ptah_model_put(struct ptah_model *m, const uint8_t *bytes, size_t n);

#endif
