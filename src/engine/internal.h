/* SPDX-License-Identifier: MIT */
/*
 * The objects behind engine.h, and what its files share.
 *
 * Who may touch what. The registers of a processor, and the `loaded` capture's
 * fields marked "look", belong to whoever has set that processor's `busy` flag,
 * and only code that runs on it does (PINNED or NMI). An NMI that finds the flag
 * set leaves a note and goes; who clears the flag looks for a note afterwards.
 * So nothing of a look is ever interrupted by another look, in whatever gap
 * between two instructions the NMI comes, and nobody waits.
 *
 * What anyone wants of a processor is written into `target`, and into the
 * capture's `started` and `paused`; engine_serve() makes it so. It is the only
 * place that starts and stops.
 *
 * A capture is held by one processor at a time (`holder`), which keeps a thread
 * that moves from being loaded twice.
 */
#ifndef PTAH_ENGINE_INTERNAL_H
#define PTAH_ENGINE_INTERNAL_H

#include "base/bits.h"
#include "base/compiler.h"
#include "engine/record.h"
#include "engine/topa.h"

#define MAX_CPUS     65536u
#define MAX_MAPPINGS 8u
#define CANARY	     64u /* bytes */

/* holder */
#define NOBODY	(-1)
#define CLAIMED (-2) /* a PASSIVE caller changes it, for some instructions */

/* What an NMI may use: no lock behind it. */
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 &&
		   ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2,
	       "atomics without locks");

/* engine_cpu.blocked */
#define BLOCKED_OFFLINE 1u
#define BLOCKED_VMX	2u
#define BLOCKED_GUEST	4u

/* capture.halt: why it does not run although it is wanted */
enum halt {
	HALT_NONE,
	HALT_FULL,
	HALT_RANGE,
	HALT_ERROR
};

struct engine_cpu {
	_Alignas(64) atomic_uint busy;
	atomic_uint noted;
	atomic_uint unmask; /* a PMI was delivered: its mask bit is to be cleared */
	atomic_uint late;   /* bit 55 was cleared before the PMI came */
	atomic_uint blocked;
	bool pinned; /* who is busy is no NMI: may use XSAVES and XRSTORS. Busy */
	_Atomic(struct ptah_capture *) target;
	struct ptah_capture *loaded; /* its values are in the registers. Busy */
	struct ptah_capture *guest;  /* between VM entry and exit. PINNED */
	atomic_bool known;
	struct ptah_caps caps;
};

struct ptah_engine {
	const struct ptah_hal *hal;
	void *port;
	struct ptah_hal_memory memory;
	unsigned cpus;
	bool pmi;		       /* PMIs come to ptah_engine_pmi() */
	struct ptah_capture *captures; /* under hal->lock */
	struct engine_cpu cpu[];
};

/* The registers at a look. */
struct registers {
	uint64_t ctl, status, base, ptrs;
	bool pmi; /* bit 55 of IA32_PERF_GLOBAL_STATUS */
};

/* A mapping; under hal->lock. In between it is neither, and the capture stays. */
enum mapping_state {
	MAPPING_FREE,
	MAPPING_CHANGING,
	MAPPING_USED
};

struct mapping {
	uint64_t owner, address;
	unsigned state;
};

struct ptah_capture {
	/* XSAVES area: 512 bytes legacy, 64 of header, the component. */
	_Alignas(64) uint8_t xsave[512 + 64 + 128];

	struct ptah_engine *engine;
	struct ptah_capture *next;
	struct ptah_hal_memory memory;
	uint64_t owner;
	void *cookie;
	ptah_capture_drain *drain;
	int cpu;
	uint8_t shape, policy;
	bool pmi, xsaves, start_paused;
	bool swap;		/* single-entry ToPA: regions are changed by software */
	bool caged;		/* WRAP without PMI: a STOP mark ends the cycle */
	struct topa topa;	/* SINGLE: lap, blocks alone */
	unsigned physical_bits; /* least of the processors it may run on */

	/* What is wanted. */
	atomic_bool started, paused;
	atomic_int holder;
	atomic_uint halt;  /* enum halt */
	atomic_bool rearm; /* resume_here(): sticky conditions end at the next look */
	atomic_bool gap;   /* ran untraced: the next record says PARTIAL */
	atomic_int error;  /* enum ptah_error */
	struct ptah_trace_config trace;
	uint64_t ctl; /* without TraceEn */

	/* look: */
	atomic_bool running; /* TraceEn is 1, by us */
	bool external;	     /* TraceEn is the VMCS's business */
	bool program;	     /* the registers have to be written anew */
	bool fresh;	     /* a slice begins: force_psb is meant for this */
	bool verify;	     /* and STATUS.Error is looked at once */
	bool owed;	     /* an INT region was filled and bit 55 not yet seen */
	bool wrapped;
	bool swap_due;	       /* single-entry ToPA: the PMI has come */
	uint32_t flags;	       /* for the next record */
	uint64_t kept;	       /* STATUS */
	uint64_t fill;	       /* swap: number of the region in use */
	_Atomic uint64_t mark; /* region with the STOP mark, where there is one */
	bool marked;
	uint64_t told; /* positions below are known to be lost */
	_Atomic uint32_t msr;
	struct {
		_Atomic uint64_t ctl, status, base, ptrs;
	} seen; /* for status(), from anywhere */
	struct topa_place place;
	uint8_t under[CANARY]; /* what the canary covers */
	bool canary;
	_Atomic uint64_t looks, starts, pmis, full, errors, partial;

	/* Producer to consumer, and back. */
	_Atomic uint64_t position, tail, lost;
	_Atomic uint64_t *starts_of; /* swap: where each region's bytes begin */
	_Atomic uint64_t fills;	     /* swap: `fill`, published */
	_Atomic uint64_t oldest;     /* swap: where the oldest region begins */
	struct record_ring records;

	struct mapping mappings[MAX_MAPPINGS]; /* PASSIVE */
};

static inline void count_up(_Atomic uint64_t *counter)
{
	/* One writer: no locked instruction is needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Without it their addresses come from a global offset table, which kernels do not have. */
#ifdef __ELF__
#pragma GCC visibility push(hidden)
#endif

/* pmi.c: on this processor. */
/* NULL: the port is mistaken about which one it is. */
struct engine_cpu *engine_here(struct ptah_engine *engine, unsigned *number);
/* PINNED. NMIs only leave notes until engine_release(), which also does what they say. */
void engine_hold(struct engine_cpu *cpu);
void engine_note(struct engine_cpu *cpu);
void engine_release(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number);
/* NMI. Does what was noted, or leaves it to the one that was interrupted. */
void engine_serve(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number);

/* What starting it here has come to: an error, or why this processor cannot trace it now. */
int engine_outcome(struct ptah_capture *c, struct engine_cpu *cpu);

/* Busy. What belonged to the guest that is in belongs to the host again. */
void engine_forget_guest(struct engine_cpu *cpu);

/* hardware.c: busy, on this processor. */
void hardware_look(struct ptah_capture *c, struct engine_cpu *cpu, bool leave);
int hardware_run(struct ptah_capture *c, struct engine_cpu *cpu);
void hardware_record(struct ptah_capture *c, unsigned number);

/* room.c: what may be written to, and what may be read. */
bool room_find(struct ptah_capture *c);
uint64_t room_oldest(const struct ptah_capture *c, uint64_t position);
bool room_near(const struct ptah_capture *c);
struct topa_place room_place(const struct ptah_capture *c, uint64_t position);
/* Sets c->place, and the position it stands for. False: the registers name no place of ours. */
bool room_position(struct ptah_capture *c, const struct registers *r, uint64_t *position);
/* Behind room_position(): did it stop at the end of a region with STOP? */
bool room_at_stop(const struct ptah_capture *c);
void room_canary_set(struct ptah_capture *c);
bool room_canary_lift(struct ptah_capture *c, uint64_t written);

/* buffer.c: PASSIVE */
int buffer_new(struct ptah_engine *engine, const struct ptah_capture_config *config,
	       struct ptah_capture **capture, struct ptah_trace_problem *problem);
int buffer_check_trace(const struct ptah_engine *engine, int cpu, bool xsaves,
		       const struct ptah_trace_config *trace, struct ptah_trace_problem *problem);
void buffer_free(struct ptah_capture *c);
/* What it says is not believed: hal.h. */
int buffer_alloc(const struct ptah_hal *hal, void *port, unsigned physical_bits, uint64_t size,
		 uint64_t align, struct ptah_hal_memory *memory);
int buffer_refuse(struct ptah_trace_problem *problem, const char *field, const char *reason,
		  unsigned kind, uint64_t value, uint64_t valid);

/* capture.c: PASSIVE. Runs `work` PINNED where the capture is, NMIs held off; `cpu` is
 * NULL when it is nowhere. */
typedef int capture_work(struct ptah_capture *c, struct engine_cpu *cpu, void *argument);
int capture_at_holder(struct ptah_capture *c, capture_work *work, void *argument);
/* A look, and what is wanted now. */
int capture_look(struct ptah_capture *c, struct engine_cpu *cpu, void *argument);
/* Makes it startable from where it is: the sticky conditions end. */
int capture_arm(struct ptah_capture *c);
/* PINNED. Waits for a claim to end. False: another processor has it. */
bool capture_take(struct ptah_capture *c, int number);

/* engine.c: PASSIVE. Its list of captures. */
void engine_link(struct ptah_capture *c);
bool engine_unlink(struct ptah_capture *c);

/* map.c: PASSIVE. Takes away one mapping of `owner` (NULL: of anyone). False: there is none. */
bool map_remove(struct ptah_capture *c, const uint64_t *owner);
bool map_remove_anywhere(struct ptah_engine *engine, uint64_t owner);
bool map_any(struct ptah_capture *c);

#ifdef __ELF__
#pragma GCC visibility pop
#endif

#endif
