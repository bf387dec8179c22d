/* SPDX-License-Identifier: MIT */
/*
 * A simulated logical processor with Intel PT, as strict as the SDM: CPUID, the
 * MSRs with every #GP, ToPA and single-range output, PMIs, XSAVES, SMM, VMX,
 * reset; and faults that can be switched on. Freestanding, in memory that the
 * caller provides, without other state: each processor belongs to the thread that
 * uses it.
 *
 *	struct ptah_model *m = malloc(ptah_model_size());
 *	struct ptah_model_config config = {
 *		.size = sizeof(config), .processor = ptah_model_find("skylake"), .memory = memory};
 *
 *	ptah_model_init(m, &config);
 *	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, table);
 *	...
 *
 * Functions for instructions that may fault return PTAH_OK, or PTAH_E_UNSUPPORTED
 * for a #GP; then nothing has changed.
 *
 * Source: SDM volume 3, "Intel Processor Trace".
 */
#ifndef PTAH_MODEL_H
#define PTAH_MODEL_H

#include <ptah/base.h>
#include <ptah/engine/rtit.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

struct ptah_model;

/*
 * What a processor is: what CPUID and the read-only MSRs say. The library has a
 * table of named processors; a caller may define others.
 */
struct ptah_model_processor {
	const char *name; /* "skylake" */
	const char *product;
	struct ptah_cpu cpu;
	uint8_t core_type;     /* CPUID.1AH:EAX[31:24] of a hybrid part; else 0 */
	uint8_t physical_bits; /* MAXPHYADDR */
	uint8_t linear_bits;   /* 48, or 57 with 5-level paging */
	uint8_t max_leaf;      /* CPUID.0:EAX */
	uint8_t perfmon;       /* version, CPUID.0AH:EAX[7:0]; from 4 on MSR 391H exists */
	uint8_t nominal_ratio; /* MSR_PLATFORM_INFO[15:8] */
	bool pt;	       /* CPUID.07H.0:EBX[25] */
	bool xsaves;	       /* and CPUID.0DH.1:ECX[8] where PT is there */
	bool vmx, vmx_pt;      /* CPUID.01H:ECX[5], IA32_VMX_MISC[14] */
	bool hypervisor;       /* CPUID.01H:ECX[31] */
	bool branch_required;  /* erratum BDM106: TraceEn without BranchEn raises #GP */
	uint8_t pmi_margin;    /* single-entry ToPA: the PMI comes so many bytes early */
	uint32_t leaf_14_0[4]; /* CPUID.14H.0: EAX to EDX */
	uint32_t leaf_14_1[4];
	uint32_t tsc_n, tsc_d, crystal_hz; /* CPUID.15H: EBX, EAX, ECX */
	uint32_t errata;		   /* 1 << enum ptah_erratum (base.h): those that it has */
};

/* Faults and delays that can be switched on, at any time. All 0: none. */
struct ptah_model_faults {
	/* While TraceEn is 1, RDMSR of STATUS, OUTPUT_BASE and OUTPUT_MASK_PTRS lags by so many
	 * bytes. SDM: their values are stable only when it is 0. */
	uint32_t stale_bytes;
	/* An operational error becomes visible after so many more bytes, all of which are lost. */
	uint32_t error_delay;
	/* A PMI comes so many bytes, and so many instruction boundaries, after its region is full.
	 */
	uint32_t pmi_skid_bytes, pmi_skid_boundaries;
	/* A PMI that finds the LVT entry masked is lost; else it comes when the mask is cleared. */
	bool pmi_lost_when_masked;
	/* The ToPA entry after the current one is read together with it, so that later changes have
	 * no effect. */
	bool cache_next;
	/* The last bytes before a stop (so many, at most 64) are not in memory until a fence. */
	uint32_t withhold;
	/* Single-range output above 4 KB has wrong data there (errata TGL052, ADL037, RPL017). */
	bool single_range_4k_only;
	/* No packets are generated: only the bytes of ptah_model_put() are output. */
	bool silent;
	/* Bit 55 of IA32_PERF_GLOBAL_STATUS_RESET is reserved while CTL.ToPA is 0. */
	bool ack_needs_topa;
	/* The internal buffer overflows each time so many bytes have been generated, until so many
	 * branches or events later. 0: only ptah_model_overflow() makes it overflow. */
	uint32_t overflow_after, overflow_events;
	/* 1 << enum ptah_erratum (base.h). */
	uint32_t errata;
};

struct ptah_model_config {
	size_t size; /* sizeof(struct ptah_model_config) */
	const struct ptah_model_processor *processor;
	unsigned cpu; /* its number, for pmi() */
	/*
	 * Physical memory: returns the host's pointer to the address `physical`, and in
	 * *bytes how many bytes follow there. NULL: stores are dropped, loads give ones
	 * (SMRAM).
	 */
	uint8_t *(*memory)(void *port, uint64_t physical, uint64_t *bytes);
	/* Called for a PMI, at an instruction boundary. It may do anything to the processor. May be
	 * NULL. */
	void (*pmi)(void *port, unsigned cpu);
	void *port;
};

/* The named processors: by name, NULL if there is none; and by number, NULL after the last. */
const struct ptah_model_processor *ptah_model_find(const char *name);
const struct ptah_model_processor *ptah_model_named(size_t i);

/* Bytes that a processor takes, with the alignment that malloc() gives. */
size_t ptah_model_size(void);
/* Makes a processor in the memory at m, as after a cold reset. It must not be moved; there is
 * nothing to free but its memory. */
int ptah_model_init(struct ptah_model *m, const struct ptah_model_config *config);
const struct ptah_model_processor *ptah_model_processor(const struct ptah_model *m);
void ptah_model_set_faults(struct ptah_model *m, const struct ptah_model_faults *faults);

/* Instructions */
void ptah_model_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf,
		      uint32_t registers[4]);
int ptah_model_rdmsr(struct ptah_model *m, uint32_t msr, uint64_t *value);
int ptah_model_wrmsr(struct ptah_model *m, uint32_t msr, uint64_t value);
int ptah_model_xsaves(struct ptah_model *m, void *area, uint64_t components);
int ptah_model_xrstors(struct ptah_model *m, const void *area, uint64_t components);
void ptah_model_fence(struct ptah_model *m);

/*
 * Interrupts. A pending PMI is delivered at ptah_model_boundary(), which is the
 * end of an instruction, unless the LVT entry (MSR 834H, masked after reset and
 * after each delivery) is masked, an NMI handler runs, or, where the PMI is
 * delivered as an interrupt (834H[10:8] is not 100b), interrupts are off.
 * ptah_model_nmi(): an NMI from another source arrives; false when it is blocked.
 */
void ptah_model_boundary(struct ptah_model *m);
bool ptah_model_nmi(struct ptah_model *m);
bool ptah_model_in_nmi(const struct ptah_model *m);
void ptah_model_set_irqs(struct ptah_model *m, bool on);
bool ptah_model_irqs(const struct ptah_model *m);

/* SMM. PTAH_E_BUSY: SMIs are blocked. RSM with TraceEn set shuts the processor down. */
int ptah_model_smi(struct ptah_model *m);
int ptah_model_rsm(struct ptah_model *m);
bool ptah_model_is_shut_down(const struct ptah_model *m);

struct ptah_model_msr {
	uint32_t msr;
	uint64_t value;
};

/* The part of a VMCS that matters to Intel PT. */
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
int ptah_model_vmxon(struct ptah_model *m);
int ptah_model_vmxoff(struct ptah_model *m);
int ptah_model_vm_entry(struct ptah_model *m, const struct ptah_model_vmcs *vmcs);
int ptah_model_vm_exit(struct ptah_model *m, struct ptah_model_vmcs *vmcs);
bool ptah_model_in_vmx(const struct ptah_model *m);

/* SENTER or ENTERACCS: TraceEn is cleared and internal bytes are lost. */
void ptah_model_senter(struct ptah_model *m);
/* A warm reset keeps PT's registers but TraceEn where CPUID.14H.0:EBX[2] says so. */
void ptah_model_reset(struct ptah_model *m, bool cold);

/* Bytes that were written to memory since the beginning, and bytes that were dropped. */
uint64_t ptah_model_output_bytes(struct ptah_model *m, uint64_t *dropped);
/* Outputs bytes as if they were packets: for tests of what reads them. */
void ptah_model_put(struct ptah_model *m, const uint8_t *bytes, size_t n);

/* What the SDM leaves to the processor. All 0: the simplest choices. To be set while TraceEn is 0.
 */
struct ptah_model_choices {
	bool long_tnt;	       /* TNT-64, as soon as there are 47 outcomes */
	uint8_t deferred_tips; /* so many TIPs, at most 4, wait until the TNT is full */
	/*
	 * The TIP.PGD of a conditional branch that leaves the filter's range has no
	 * target, as the Table "TIP.PGD Packet Definition" says; else it has one, which
	 * libipt relies on.
	 */
	bool conditional_bare;
	/*
	 * The first IP after a PSB is sent whole, although the last IP is 0 there (SDM
	 * "IP Compression") and a compressed one would do. Traces of real processors are
	 * like that, also for addresses like 0x421ddd, and perf 6.1, which does not reset
	 * the last IP, relies on it.
	 */
	bool whole_ip;
	/*
	 * User code, without Event Trace: makes silent loops countable, whose branches
	 * are all jumps and calls to fixed addresses and have no packet. Whenever such
	 * a branch went backwards and no packet shows that before the next one, or
	 * before an interrupt, the packets of two interrupts are sent, one before the
	 * branch and one after it: FUP, TIP.PGD, TIP.PGE each. A branch to itself has
	 * one address only, so its passes cannot be told apart.
	 */
	bool mark_loops;
};

void ptah_model_choose(struct ptah_model *m, const struct ptah_model_choices *choices);

/*
 * The program. The caller reports what the program does, in order; the processor
 * generates the packets that its registers ask for and delivers PMIs between two
 * such calls. Instructions that leave no packet need not be reported; only the
 * time they take (ptah_model_pass) and the program's position (ptah_model_stand)
 * may matter. None of these functions can fail.
 */
struct ptah_model_context {
	uint64_t cr3;
	uint8_t cpl;
	uint8_t mode;	 /* enum ptah_exec_mode */
	bool interrupts; /* RFLAGS.IF */
	bool enclave;	 /* a production enclave */
};

void ptah_model_context(const struct ptah_model *m, struct ptah_model_context *context);

/*
 * The program's position: the address of the next instruction. The packets for
 * TraceEn, PSB+ and overflows contain it. Branches and transfers set it.
 */
void ptah_model_stand(struct ptah_model *m, uint64_t ip);

/* Sets the program's position and context: at the beginning, and while TraceEn is 0. */
void ptah_model_begin(struct ptah_model *m, uint64_t ip, const struct ptah_model_context *context);

/* The time stamp counter is written. */
void ptah_model_set_tsc(struct ptah_model *m, uint64_t tsc);
uint64_t ptah_model_tsc(const struct ptah_model *m);

/* Core cycles go by. */
void ptah_model_pass(struct ptah_model *m, uint64_t cycles);

/* A near branch has retired. `kind`: PTAH_INSN_COND to PTAH_INSN_RETURN (event.h). */
struct ptah_model_branch {
	uint64_t ip, end; /* the instruction is [ip, end) */
	uint64_t to;	  /* where it went; not used when it was not taken */
	uint8_t kind;
	bool taken; /* of a conditional branch */
};

void ptah_model_branch(struct ptah_model *m, const struct ptah_model_branch *branch);

/* How control was transferred other than by a near branch. */
enum ptah_model_transfer_kind {
	PTAH_MODEL_FAR = 0, /* far jump, call, return; SYSCALL, SYSENTER, SYSRET, SYSEXIT */
	PTAH_MODEL_INT,	    /* INT n, INT3, INTO */
	PTAH_MODEL_IRET,
	PTAH_MODEL_INTERRUPT, /* external interrupt, NMI, trap: before the instruction at ip */
	PTAH_MODEL_EXCEPTION, /* fault of the instruction at ip */
	PTAH_MODEL_UINTR,     /* user interrupt */
	PTAH_MODEL_UIRET,
	PTAH_MODEL_INIT,      /* of the bootstrap processor */
	PTAH_MODEL_INIT_WAIT, /* of another processor: it waits for PTAH_MODEL_SIPI */
	PTAH_MODEL_SIPI,
	PTAH_MODEL_TSX_ABORT,
	PTAH_MODEL_ENCLAVE, /* EENTER, ERESUME, EEXIT, AEX */
	PTAH_MODEL_VMENTRY, /* the last three: for ptah_model_vm_target() */
	PTAH_MODEL_VMEXIT,
	PTAH_MODEL_VMEXIT_INTR, /* by an interrupt, with its vector */
	PTAH_MODEL_TRANSFER_MAX
};

struct ptah_model_transfer {
	uint64_t ip, to; /* ip: Table "FUP Cases and IP Payload" */
	struct ptah_model_context after;
	uint8_t kind;
	uint8_t vector;
	bool page_fault; /* exception: `address` is the new CR2 */
	uint64_t address;
	uint64_t qualification, reason; /* VM exit */
};

void ptah_model_transfer(struct ptah_model *m, const struct ptah_model_transfer *transfer);

/*
 * Where the next ptah_model_vm_entry() or ptah_model_vm_exit() leads. Without
 * this call the program stays where it is.
 */
void ptah_model_vm_target(struct ptah_model *m, const struct ptah_model_transfer *target);

/* MOV CR3, VMPTRLD, and CLI, STI or POPF; `next`: the address of the instruction after it. */
void ptah_model_mov_cr3(struct ptah_model *m, uint64_t next, uint64_t cr3);
void ptah_model_vmptrld(struct ptah_model *m, uint64_t next, uint64_t vmcs);
void ptah_model_interrupt_flag(struct ptah_model *m, uint64_t next, bool on);

/* XBEGIN, XACQUIRE, XEND, XRELEASE, at [ip, next), that change whether a transaction runs. */
void ptah_model_tsx(struct ptah_model *m, uint64_t ip, uint64_t next, bool in_tx);

/* PTWRITE, at [ip, next), of `size` (4 or 8) bytes. */
void ptah_model_ptwrite(struct ptah_model *m, uint64_t ip, uint64_t next, uint64_t value,
			unsigned size);

/* The thread enters a state deeper than C0.0, before the instruction at `ip` or by it. */
struct ptah_model_sleep {
	uint64_t ip;
	bool mwait; /* by MWAIT with these: */
	uint8_t hints, ext;
	bool hardware; /* by the hardware itself */
	bool shutdown; /* shutdown: triple fault */
	uint8_t state, sub_state;
};

struct ptah_model_wake {
	uint64_t ticks; /* TSC ticks that have passed; the core's clock was stopped */
	uint8_t last, deepest;
	bool interrupt, store, autonomous;
};

void ptah_model_sleep(struct ptah_model *m, const struct ptah_model_sleep *sleep);
void ptah_model_wake(struct ptah_model *m, const struct ptah_model_wake *wake);

/* The core continues at `ratio` times the bus clock, after a stop before the instruction at `ip`.
 */
void ptah_model_frequency(struct ptah_model *m, uint64_t ip, uint8_t ratio);

/* Model-specific: MNT. */
void ptah_model_mnt(struct ptah_model *m, uint64_t value);

/* A block of PEBS output: BBP, its items, BEP. */
#define PTAH_MODEL_PEBS_ITEMS 32

struct ptah_model_pebs {
	uint8_t type, item_size; /* of 4 or 8 bytes */
	bool has_ip;		 /* BEP has a FUP with `ip` */
	uint64_t ip;
	size_t n; /* at most PTAH_MODEL_PEBS_ITEMS */
	const uint8_t *ids;
	const uint64_t *values;
};

void ptah_model_pebs(struct ptah_model *m, const struct ptah_model_pebs *pebs);

/* Trigger tracing: TRIG for the instruction at `ip`; `icnt` -1: without a count. */
void ptah_model_trigger(struct ptah_model *m, uint64_t ip, uint8_t bits, bool multiple, int icnt);

/* The internal buffer overflows from now on, or (lost false) is empty again, and OVF is sent. */
void ptah_model_overflow(struct ptah_model *m, bool lost);

PTAH_END_DECLS

#endif
