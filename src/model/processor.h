/* SPDX-License-Identifier: MIT */
/*
 * One logical processor: its whole state in one struct without pointers into
 * itself, so that it can be in shared memory and can be copied.
 *
 * Output. The generator writes into a staging area that the owner provides; it
 * stands for the processor's internal buffer:
 *
 *	staging          g.out          limit         staging + staging_size
 *	   | not settled   |              |  GENERATOR_BURST     |
 *
 * While g.out < limit, a burst may be written. Otherwise the writer calls
 * model_output_settle(), which copies the bytes to memory, deals with full
 * regions, and sets g.out and limit again. limit is where something happens next:
 * the region is full, a PSB is due, or the staging area is full. Any code may
 * lower it to be called sooner. The generator does not write to memory directly
 * because it stores whole words, and the bytes after the last one of a ring are
 * its oldest data.
 *
 * model_boundary() is called at the end of every instruction: PMIs are delivered
 * only there, and their handler may do anything to the processor.
 */
#ifndef PTAH_MODEL_PROCESSOR_H
#define PTAH_MODEL_PROCESSOR_H

#include <ptah/engine/trace_config.h>
#include <ptah/model/model.h>

#include "model/clock.h"

/* The smallest staging area: the last bytes of a region and a burst beyond its end. */
#define MODEL_STAGING_MIN (4 * GENERATOR_BURST)
#define MODEL_WITHHOLD	  64
#define MODEL_DEFERRED	  4

enum model_vmx {
	MODEL_VMX_OFF = 0,
	MODEL_VMX_ROOT,
	MODEL_VMX_GUEST, /* non-root */
};

enum model_paging {
	MODEL_PAGING_OFF = 0,
	MODEL_PAGING_32,
	MODEL_PAGING_PAE,
	MODEL_PAGING_4_LEVEL,
	MODEL_PAGING_5_LEVEL,
};

/* What the program is doing. The functions of model.h set it; the rules of the MSRs depend on it.
 */
struct model_program {
	uint64_t ip; /* of the next instruction */
	uint64_t cr3;
	uint64_t vmcs; /* physical address of the current one; UINT64_MAX: none */
	uint8_t cpl;
	uint8_t paging; /* enum model_paging */
	bool cs_l;	/* CS.L and IA32_EFER.LMA */
	bool cs_d;
	bool interrupts; /* RFLAGS.IF */
	uint8_t vmx;	 /* enum model_vmx */
	bool smm;
	bool enclave; /* in a production enclave, which is not traced */
	bool tsx;     /* inside a transaction */
	bool conceal; /* VM controls that conceal VMX from PT: no PIP, no NR */
};

/* An entry of the table of regions, as it was when it was read. */
struct model_region {
	uint64_t base;	/* physical */
	uint64_t size;	/* 0: nothing can be written; see `dead` */
	uint8_t *host;	/* the byte at `base` + `mapped`; NULL: stores are dropped */
	uint64_t first; /* `host` points to [first, end) of the region */
	uint64_t end;
	bool stop, interrupt;
};

struct ptah_model {
	struct ptah_generator g;
	uint8_t *limit;
	uint8_t *staging; /* the owner's */
	uint32_t staging_size;
	uint32_t cpu; /* its number, for `pmi` */

	const struct ptah_model_processor *is;
	/*
	 * Physical memory: returns the host's pointer to it, and how many bytes follow
	 * there. NULL: there is no memory; stores are dropped and loads give ones.
	 */
	uint8_t *(*memory)(void *port, uint64_t physical, uint64_t *bytes);
	/* Runs the PMI handler, at an instruction boundary. May be NULL. */
	void (*pmi)(void *port, unsigned cpu);
	void *port;

	struct ptah_clock clock;
	struct model_program program;
	struct ptah_model_faults faults;

	/* MSRs. Output's position is `base`, `index` (low half of MASK_PTRS) and `offset`. */
	uint64_t ctl, status, base, cr3_match;
	uint64_t addr[2 * PTAH_RANGES]; /* ADDR0_A, ADDR0_B, ... */
	uint32_t index;			/* MASK_PTRS[31:0] */
	uint32_t offset;		/* MASK_PTRS[63:32] */
	uint64_t global_status, xss, debugctl;

	/* Output */
	struct model_region region;
	uint64_t next_entry; /* faults.cache_next: the entry after */
	bool next_cached;
	bool region_known;   /* `region` is that of base and index */
	bool dead;	     /* an operational error was met: nothing is output any more */
	bool psb_due;	     /* a PSB+ is due; cleared by the code that sends it */
	bool early_pmi;	     /* single-entry ToPA: the PMI of this lap was raised */
	uint64_t psb_count;  /* bytes since the last PSB was due */
	uint64_t bytes;	     /* bytes written to memory since the beginning */
	uint64_t dropped;    /* bytes that were dropped */
	uint64_t started_at; /* `bytes` when TraceEn became 1 */
	uint64_t dead_at;    /* `dropped` when the error was met */
	uint64_t
	    seen_at; /* faults.stale_bytes: the values that RDMSR shows, and when they were right */
	uint64_t seen_status, seen_base, seen_ptrs;
	uint64_t held_at; /* faults.withhold: physical */
	uint32_t held;	  /* bytes */
	uint8_t held_bytes[MODEL_WITHHOLD];

	/* PMI */
	bool attention;	  /* model_boundary() has something to do */
	bool pmi_pending; /* raised, not delivered */
	bool lvt_masked;  /* bit 16 of the APIC's LVT entry for performance monitoring */
	bool lvt_nmi;	  /* delivered as NMI: program.interrupts does not delay it */
	bool in_nmi;	  /* inside a handler: no NMI nests */
	uint32_t pmi_boundaries;
	uint64_t pmi_bytes; /* the PMI does not come before so many `bytes` */
	bool irqs_off;	    /* a PMI that is no NMI waits (RFLAGS.IF of the tracing code) */

	/* SMM and VMX */
	bool smram_trace_en;
	bool shut_down;

	/* Packet generation (trace.c) */
	struct ptah_model_choices choices;
	bool context_en, filter_en, packet_en;
	bool ranged;	  /* an ADDRn_CFG is not 0 */
	bool waiting;	  /* for a SIPI, after INIT: nothing may come between FUP and TIP */
	bool trace_stop;  /* a TraceStop range was entered: Stopped is set when everything is output
			   */
	bool overflowing; /* internal buffer overflow: generated packets are lost */
	bool state_lost;  /* and with them a change of state that a PSB+ reports */
	bool psb_owed;	  /* so a PSB+ is due when ContextEn is 1 */
	uint8_t told_mode;	/* byte of the last MODE.Exec | 0x80; 0: none since PSB */
	uint8_t deferred_count; /* TIPs that wait for the outcomes before them */
	uint64_t deferred[MODEL_DEFERRED];
	/* choices.mark_loops: the last branch backwards, if no packet shows yet that it was taken
	 */
	bool unmarked;
	uint64_t unmarked_ip, unmarked_to;
	uint8_t *kept;	    /* while overflowing: g.out, which does not move */
	uint64_t kept_told; /* and clock.told */
	uint8_t kept_mode;  /* and told_mode */
	uint64_t
	    overflow_from; /* faults.overflow_after: bytes generated when the last overflow ended */
	uint32_t overflow_count; /* faults.overflow_events: events so far */
	uint64_t tip_end;	 /* erratum BDM64: bytes generated up to the end of the last TIP */
	uint8_t tip_size;
	uint8_t
	    cause; /* enum ptah_cfe_type of the event that changes TraceEn: SMI, RSM; 0: software */
	bool vm_targeted;
	struct ptah_model_transfer vm_target;
};

_Static_assert(sizeof(struct ptah_model) <= 3072, "recorders keep two in a few pages");

/*
 * Resets the processor (cold reset) and connects its owner. `staging` has
 * staging_size bytes, at least MODEL_STAGING_MIN; the owner sets memory, pmi,
 * port and cpu afterwards.
 */
void model_init(struct ptah_model *m, const struct ptah_model_processor *is, uint8_t *staging,
		uint32_t staging_size);
/*
 * For a struct that has been copied, or that another process sees at another
 * address. `staging` has the same size and contents as the old one (after
 * model_output_settle(): no contents). Then the owner sets memory, pmi and port
 * as above.
 */
void model_rebind(struct ptah_model *m, const struct ptah_model_processor *is, uint8_t *staging);

/* msr.c */
/* Whether WRMSR would raise #GP. */
bool model_msr_faults(const struct ptah_model *m, uint32_t msr, uint64_t value);
/* Changes IA32_RTIT_CTL, with everything that a change of TraceEn causes. */
void model_set_ctl(struct ptah_model *m, uint64_t value);
/* IA32_RTIT_STATUS and IA32_RTIT_OUTPUT_MASK_PTRS as they are now. */
uint64_t model_status(const struct ptah_model *m);
uint64_t model_mask_ptrs(const struct ptah_model *m);

/* output.c */
void model_output_settle(struct ptah_model *m);
/* TraceEn becomes 1: reads the entry that the registers point to, before the first byte at the
 * latest. */
void model_output_start(struct ptah_model *m);
/* TraceEn becomes 0: outputs all bytes and makes the registers exact. */
void model_output_stop(struct ptah_model *m);
/* TraceEn becomes 0 and internal bytes are lost (SENTER, reset). */
void model_output_discard(struct ptah_model *m);
/* Bytes that were output before are in memory from now on. */
void model_output_fence(struct ptah_model *m);
/* Bytes from one PSB to the next: 2 KB << PSBFreq. */
uint64_t model_psb_period(const struct ptah_model *m);

/* pmi.c */
/* A region with INT is full. */
void model_pmi_raise(struct ptah_model *m);
void model_pmi_deliver(struct ptah_model *m);
/* Bit 16 of the LVT entry. */
void model_pmi_mask(struct ptah_model *m, bool masked);

static inline void model_room(struct ptah_model *m)
{
	if (UNLIKELY(m->g.out >= m->limit))
		model_output_settle(m);
}

static inline void model_boundary(struct ptah_model *m)
{
	if (UNLIKELY(m->attention))
		model_pmi_deliver(m);
}

static inline bool model_trace_en(const struct ptah_model *m)
{
	return m->ctl & PTAH_RTIT_CTL_TRACE_EN;
}

/* SDM "Trigger Enable (TriggerEn)" */
static inline bool model_trigger_en(const struct ptah_model *m)
{
	return model_trace_en(m) &&
	       !(m->status & (PTAH_RTIT_STATUS_ERROR | PTAH_RTIT_STATUS_STOPPED));
}

/*
 * The functions of packet generation (trace.c) that the output and the registers
 * call. The registers have their new values when started() and lost() are called,
 * and the old ones when stopping() is.
 */
/* TraceEn 0 -> 1, and the output is ready. With PacketByteCnt 0 (psb_count) a PSB+ comes first. */
void model_trace_started(struct ptah_model *m);
/* TraceEn 1 -> 0 is about to happen: FUP, TIP.PGD. The output is emptied afterwards. */
void model_trace_stopping(struct ptah_model *m);
/* A STOP or an error inside model_output_settle() has cleared TriggerEn: no packets any more. */
void model_trace_lost(struct ptah_model *m);
/*
 * VM entry (`entry`) or VM exit, after the registers of the old context and
 * before those of the new one. `stops`: the MSR list will clear TraceEn.
 */
void model_trace_vm(struct ptah_model *m, bool entry, bool stops);

#endif
