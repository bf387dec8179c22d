/* SPDX-License-Identifier: MIT */
/*
 * What the files of the plugin ptah-system.so share. The plugin gives the virtual machine that
 * loads it a simulated processor (<ptah/model/model.h>) per virtual CPU, and reports to it what the
 * guest executes.
 *
 *	plugin.c       installation, the end
 *	arguments.c    the plugin's arguments
 *	host.c         the functions of QEMU beyond its plugin interface
 *	vcpu.c         the virtual CPUs; QEMU's registers
 *	place.c        where a virtual CPU is: address, segment, privilege, mode
 *	blocks.c       describes translated code
 *	translation.c  which code calls the plugin
 *	flow.c         from blocks that run to the model's branches and transfers
 *	interrupts.c   interrupts and exceptions
 *	vectors.c      the vector of an interrupt
 *	reset.c        resets and INIT
 *	trapped.c      which instructions the plugin carries out in QEMU's place
 *	traps.c        how it does
 *	cpuid.c        what CPUID returns
 *	registers.c    model-specific registers, and their #GP
 *	memory.c       the guest's physical memory
 *	pmi.c          the interrupt that a full region raises
 *	ptwrite.c      PTWRITE
 *	xsave.c        XSAVES, XSAVEC, XRSTORS
 *	clock.c        the guest's time
 *	outside.c      recording from outside: the plugin itself programs the processors
 *	code_pages.c   which code a decoder of such a recording knows
 *	truth.c        counts what the trace should contain, for tests inside the guest
 *	report.c       the file with these counts
 *
 * Threads: QEMU runs each virtual CPU in a thread of its own. A struct system_vcpu belongs to this
 * thread.
 */
#ifndef PTAH_RECORD_SYSTEM_SYSTEM_H
#define PTAH_RECORD_SYSTEM_SYSTEM_H

#include "model/processor.h"
#include "record/qemu/plugin/qemu_api.h"
#include "record/simulated/insn.h"
#include "record/system/arguments.h"
#include "record/system/cpuid.h"
#include "record/system/host.h"
#include "record/system/operand.h"
#include "record/system/outside.h"
#include "record/system/trapped.h"
#include "record/system/registers.h"
#include "record/system/truth.h"

#include <inttypes.h>
#include <stdatomic.h>

/* Where a virtual CPU is. */
struct system_place {
	uint64_t ip;   /* linear address of the next instruction */
	uint64_t base; /* of the code segment: what linear addresses exceed RIP by */
	uint64_t cr3;
	uint8_t cpl;
	uint8_t mode;	 /* enum ptah_exec_mode */
	bool pae;	 /* paging with PAE, and not the 4 or 5 levels of IA-32e mode */
	bool interrupts; /* RFLAGS.IF */
};

/* The guest's table of interrupts. */
struct system_table {
	uint64_t base; /* linear address */
	uint32_t limit;
	bool real_mode, long_mode; /* which kind of entries it has */
};

/*
 * A translated block.
 *
 * QEMU translates the code of a physical page once for all linear addresses at which the page is
 * mapped: a library in several processes, for instance. The addresses here are those at which the
 * block was translated; a copy is moved to where it runs (block_at() in blocks.c).
 */
struct system_block {
	struct system_block *next; /* in system_plugin.blocks */
	uint64_t start;		   /* linear address */
	uint64_t end;		   /* address after its last instruction */
	uint64_t base;		   /* of its code segment: what linear addresses exceed RIP by */
	uint64_t target; /* target of its direct branch; KIND_REP: address of the rep instruction */
	uint16_t ninsn;
	uint16_t trap_at; /* which instruction is the first with a trap */
	uint8_t kind;	  /* of its last instruction: enum ptah_insn_class or KIND_REP */
	uint8_t last_size;
	uint8_t cpl;
	uint8_t mode; /* enum ptah_exec_mode */
	uint8_t trap; /* enum system_trap */
	bool writes_cr3, is_iret, is_rsm;
	uint8_t after_cli; /* index of the instruction after the first CLI; 0: there is none */
	struct code_block *code; /* outside.c: its bytes; NULL: nobody records */
	uint8_t sizes[];	 /* size of each instruction */
};

struct system_vcpu {
	unsigned index;
	void *cpu; /* QEMU's struct CPUState */
	/*
	 * QEMU's RAX, RCX, RDX, RBX, RSP, ..., R15 of this CPU, and after them RIP, which is exact
	 * where a block begins.
	 */
	uint64_t *general;
	struct ptah_model *model;
	struct system_registers registers;
	struct system_truth truth;

	/* translation.c */
	bool traced;	      /* TraceEn is 1; set by system_tracing() */
	uint64_t next_rest;   /* of `blocks`: when system_rest() is called */
	uint64_t starts_seen; /* of system_plugin.starts, then */

	/* flow.c: while it is traced */
	const struct system_block *running; /* has begun, and is not reported yet */
	struct system_block *moved[2];	    /* blocks.c: copies, `running` and the next one */
	bool known;			    /* `at` is known; `running` is NULL */
	uint64_t at;			    /* the address of the next instruction */
	uint64_t cr3, base;		    /* as of the last report */

	/* clock.c */
	uint64_t blocks;	/* that have run */
	bool asleep;		/* the model knows that the CPU waits in HLT */
	uint64_t settled_ticks; /* -icount: TSC at the last place where QEMU could read it */
	uint64_t since_settled; /* and instructions since then */

	uint64_t xcr0;		 /* xsave.c: what the guest has written to it */
	struct outside *outside; /* NULL: the guest is not recorded from outside */

	unsigned resets;    /* reset.c: those that this CPU has noticed */
	bool isolating;	    /* traps.c: waits for a block of one instruction */
	bool pmi_waits;	    /* pmi.c: for the mask of the APIC's entry to be cleared */
	uint8_t pmi_blocks; /* blocks since the last look at it */
};

struct system_plugin {
	struct system_arguments arguments;
	struct ptah_model_processor processor; /* arguments.processor, fit to QEMU's */
	struct system_vcpu **vcpus;
	unsigned max_vcpus;

	/* translation.c */
	bool all_blocks;		     /* the plugin is called for all blocks, always */
	_Atomic bool want_all;		     /* for all blocks that are translated from now on */
	_Atomic bool have_all;		     /* for all blocks of all code that QEMU has */
	struct system_block *_Atomic blocks; /* since QEMU's last flush */
};

/* A global, because QEMU's interface passes no context. */
extern struct system_plugin system_plugin;

/* Ends QEMU. */
void system_no_memory(void) __attribute__((noreturn));

/* One line to standard error; the second only with the argument `verbose`. */
void system_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void system_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* vcpu.c */
/* The virtual CPU `index`, whose CPUX86State is `environment`, at the beginning of b. It is made at
 * its first block. */
struct system_vcpu *system_vcpu(unsigned index, uint64_t *environment,
				const struct system_block *b);
/* NULL: this CPU has not run yet. */
struct system_vcpu *system_vcpu_of(const void *cpu);

/* place.c */
/* Finds out where QEMU keeps the segment registers. `base`: of this CPU's code segment now. */
void system_find_segments(const struct system_vcpu *v, uint64_t base);
/* The base of a segment (enum system_segment), as code of this mode uses it. */
uint64_t system_segment_base(const struct system_vcpu *v, unsigned mode, unsigned which);
void system_find_table(const struct system_vcpu *v, struct system_table *table);
/* Where v is now, if it is outside of translated code or where a block begins. */
void system_find_place(const struct system_vcpu *v, struct system_place *place);

/* The place of RIP in system_vcpu.general. */
#define GENERAL_RIP 16

/* translation.c */
/* A block of n instructions, all 0 but its `sizes`. It is freed when QEMU forgets its code. */
struct system_block *system_new_block(size_t n);
/* Whether the plugin has to be called when b, which is complete, begins to run. */
bool system_wants_block(const struct system_block *b, const void *cpu);
/*
 * TraceEn of v has become 1, or 0. The former throws away code that was translated for running
 * untraced, if there is such code: v has to leave translated code now, by host.leave().
 */
void system_tracing(struct system_vcpu *v, bool on);
/* Called when v has run so many blocks as v->next_rest says. */
void system_rest(struct system_vcpu *v);
/* Called at the installation. */
void system_translation_init(qemu_plugin_id_t id);

/* blocks.c */
void system_on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

/* flow.c */
/* The instruction b, a WRMSR or XRSTORS, is about to write IA32_RTIT_CTL. */
void system_flow_begin(struct system_vcpu *v, const struct system_block *b);
void system_flow_end(struct system_vcpu *v);
/* The block `b` begins. */
void system_flow_block(struct system_vcpu *v, const struct system_block *b);
/*
 * Control is at this place now. `faulted`: the instruction there raised an exception, so that the
 * running block ended before it.
 */
void system_flow_arrive(struct system_vcpu *v, const struct system_place *place, bool faulted);
/* An interrupt or exception has led from `from`, a linear address, to where the CPU is now. */
void system_flow_interrupted(struct system_vcpu *v, unsigned kind, uint64_t from);
/*
 * An INIT has come since the running block began, and has led to a place: the reset vector, or for
 * PTAH_MODEL_INIT_WAIT to the wait for a SIPI.
 */
void system_flow_init(struct system_vcpu *v, unsigned kind, const struct system_place *to);
/* An SMI has led to this place, where the model does not trace, until RSM. */
void system_flow_smi(struct system_vcpu *v, const struct system_place *to);
/* A SIPI has led to where the CPU is now. */
void system_flow_sipi(struct system_vcpu *v);
/* A trapped instruction, the only one of its block, is about to be carried out. */
void system_flow_count_trap(struct system_vcpu *v, const struct system_block *b, unsigned length);
/* It was carried out; the next one is at `ip`. */
void system_flow_step(struct system_vcpu *v, uint64_t ip);
/* The CPU is at `ip`, and nothing has run since the last report. */
void system_flow_stand(struct system_vcpu *v, uint64_t ip);

/* interrupts.c */
void system_hook_interrupts(void *cpu);

/* vectors.c */
/* By which vector v has come to this place. */
uint8_t system_find_vector(const struct system_vcpu *v, bool exception,
			   const struct system_place *to);

/* reset.c */
void system_reset_begin(struct system_vcpu *v);
/* Resets v if the system was reset. */
void system_check_reset(struct system_vcpu *v);
/* Whether this is the first instruction after a reset or an INIT. */
bool system_at_reset_vector(uint64_t ip, uint64_t base);

/* traps.c */
/* The block `b`, which has a trap, begins. Does not return if the trap was carried out. */
void system_trap(struct system_vcpu *v, const struct system_block *b);
void system_end_isolation(struct system_vcpu *v);

/* ptwrite.c, xsave.c: what becomes of these instructions, and their length if they are done */
enum system_access system_ptwrite(struct system_vcpu *v, const struct system_block *b,
				  unsigned *length);
enum system_access system_xsave(struct system_vcpu *v, const struct system_block *b,
				unsigned *length);
/* The first operand of the first instruction of b, and its linear address if it is in memory. */
bool system_fetch_operand(struct system_vcpu *v, const struct system_block *b,
			  struct system_operand *o, uint64_t *address);
/* Called for the first CPU, when system_plugin.processor is known. */
void system_xsave_init(const struct system_vcpu *v);
/* CPUID leaf 0DH: changes QEMU's answer. */
void system_xsave_cpuid(const struct system_vcpu *v, uint32_t subleaf, uint32_t r[4]);
/* XSETBV, which QEMU carries out afterwards. */
void system_xsetbv(struct system_vcpu *v, uint32_t which, uint64_t value);

/* memory.c */
uint8_t *system_memory(void *port, uint64_t physical, uint64_t *bytes);

/* pmi.c */
void system_pmi(void *port, unsigned cpu);
/* Delivers a pending PMI if the local APIC lets it through now. */
void system_poll_pmi(struct system_vcpu *v);

/* report.c */
/* Opens the file to append to; NULL: standard error. */
bool system_report_open(const char *path);
/* Writes the counts of all processors, marked with `tag`, and resets them, before v continues. */
void system_report(struct system_vcpu *v, uint64_t tag);

/* clock.c */
/* Called when a CPU begins to run. */
void system_clock_init(void);
qemu_vcpu_fn system_on_idle, system_on_resume;
uint64_t system_now(const struct system_vcpu *v);
/* Lets the model's clock reach the current time. */
void system_pass_time(struct system_vcpu *v);
/* Called where QEMU may read its clock: outside of translated code. */
void system_clock_settle(struct system_vcpu *v);

/* A helper for files that need one of QEMU's registers. */
uint64_t system_read(void *cpu, enum host_register which);
void system_write(void *cpu, enum host_register which, uint64_t value);
/* Lets the CPU continue at the linear address `ip`, in the code segment of b. */
void system_go(struct system_vcpu *v, const struct system_block *b, uint64_t ip);

#endif
