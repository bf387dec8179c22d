/* SPDX-License-Identifier: MIT */
/*
 * The objects behind engine.h, and the functions that the engine's files share.
 *
 * Which code may touch what. The registers of a processor, and those fields of its `loaded`
 * capture that are marked "look", belong to the code that has set the processor's `busy` flag
 * ("busy" in the comments below). Only code that runs on this processor sets it, PINNED or in an
 * NMI. An NMI that finds the flag set writes a note and returns; the code that clears the flag
 * checks for a note afterwards and does what it asks for. So no look is interrupted by another
 * look, at whichever instruction an NMI arrives, and nothing waits.
 *
 * What a processor is to trace is written into its `target` and into the capture's `started` and
 * `paused`. engine_serve() and engine_release() then start and stop tracing accordingly; no other
 * code does, except at VM entry and exit (thread.c).
 *
 * A capture is held by one processor at a time (`holder`). Otherwise the capture of a thread that
 * moves between processors could be in the registers of two.
 */
#ifndef PTAH_ENGINE_INTERNAL_H
#define PTAH_ENGINE_INTERNAL_H

#include "base/bits.h"
#include "base/compiler.h"
#include "engine/page.h"
#include "engine/record.h"
#include "engine/topa.h"

#include <ptah/engine/crash_note.h>

#define MAX_CPUS     65536u
#define MAX_MAPPINGS 8u
#define CANARY	     64u /* bytes */

/* The lines that the engine writes to the system's log (log.c), at most 31. */
enum log_line {
	LOG_OBSTACLE,
	LOG_NO_PMI,
	LOG_BAD_MEMORY,
	LOG_IN_USE,
	LOG_TAKEN,
	LOG_VMX,
	LOG_OFFLINE,
	LOG_FAULT,
	LOG_TABLES,
	LOG_ERROR,
	LOG_REGISTERS,
	LOG_CLEARED,
	LOG_FULL,
	LOG_LOST,
	LOG_LINES
};

#define LOG_LENGTH 120u /* hal.h: the most characters of a line */

/* holder */
#define NOBODY	(-1)
#define CLAIMED (-2) /* a PASSIVE caller is changing the capture, for some instructions */

/* An NMI may use atomics only if the compiler does not implement them with locks. */
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 &&
		   ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2,
	       "atomics without locks");

/* engine_cpu.blocked */
#define BLOCKED_OFFLINE 1u
#define BLOCKED_VMX	2u
#define BLOCKED_GUEST	4u
#define BLOCKED_CRASH	8u

/* capture.halt: why the capture does not run although it was started and is not paused */
enum halt {
	HALT_NONE,
	HALT_FULL,
	HALT_RANGE,
	HALT_ERROR
};

struct engine_cpu {
	_Alignas(64) atomic_uint busy;
	atomic_uint noted;
	atomic_uint unmask; /* a PMI was delivered: clear the mask bit of its APIC entry */
	atomic_uint late;   /* bit 55 was cleared before its PMI was delivered */
	atomic_uint blocked;
	bool pinned; /* the busy code is not an NMI and may use XSAVES and XRSTORS. Busy */
	_Atomic(struct ptah_capture *) target;
	struct ptah_capture *loaded; /* its values are in the registers. Busy */
	struct ptah_capture *guest;  /* between VM entry and exit. PINNED */
	/*
	 * What ptah_engine_caps() returns: one of the three below, which are never written again
	 * once this is set, so that readers need no lock. NULL: it has not been online yet.
	 */
	_Atomic(const struct ptah_caps *) shown;
	/* `caps.obstacle` is one that stays, or NONE. The others are the same with one that may
	 * pass: see engine_look(). */
	struct ptah_caps caps, caps_in_vmx, caps_in_use;
};

struct ptah_engine {
	struct ptah_crash_note crash; /* first: at the beginning of a page */
	const struct ptah_hal *hal;
	void *port;
	struct ptah_hal_memory memory;
	unsigned cpus;
	bool pmi;		       /* the port delivers PMIs to ptah_engine_pmi() */
	struct ptah_capture *captures; /* under hal->lock */
	struct ptah_captures *sets;    /* the same */
	struct engine_cpu cpu[];
};

/* The registers as a look found them. */
struct registers {
	uint64_t ctl, status, base, ptrs;
	bool pmi; /* bit 55 of IA32_PERF_GLOBAL_STATUS */
};

/*
 * State of a user mapping; under hal->lock. CHANGING: the port is mapping or unmapping it. The
 * capture is not freed while a mapping is in any state but FREE.
 */
enum mapping_state {
	MAPPING_FREE,
	MAPPING_CHANGING,
	MAPPING_USED
};

/*
 * The state of a capture that belongs to a pool is CHANGING while it is taken, returned or freed.
 * It is LOOKED while somebody who holds hal->lock() sees whose it is: then it is not returned, and
 * its owner does not change.
 */
enum pooled {
	POOLED_NONE,
	POOLED_IDLE,
	POOLED_CHANGING,
	POOLED_USED,
	POOLED_LOOKED
};

struct mapping {
	uint64_t owner, address;
	unsigned state;
	bool page; /* of the page, not of the buffer */
	bool writable;
	bool consumer; /* of the page, writable */
};

/* A buffer with its tables, and what was decided about them before they were allocated. A capture
 * has a copy of these fields. */
struct buffer {
	uint8_t shape;
	bool swap, pmi, caged;
	bool lent; /* its regions are the caller's, who frees them */
	int cpu;   /* -1: a thread's */
	unsigned physical_bits;
	struct topa topa;
	_Atomic uint64_t *starts_of;
	struct ptah_hal_memory lists; /* holds starts_of, topa.blocks and topa.tables */
};

struct ptah_capture {
	/* XSAVES area: 512 bytes of legacy region, 64 of header, 128 of the PT component. */
	_Alignas(64) uint8_t xsave[512 + 64 + 128];

	struct ptah_crash_capture crash;
	struct ptah_engine *engine;
	struct ptah_capture *next;
	struct ptah_hal_memory memory;
	struct ptah_pool *pool; /* that it belongs to, or NULL */
	atomic_uint pooled;	/* enum pooled */
	uint8_t shape;
	bool pmi, xsaves;
	bool swap;		/* single-entry ToPA: software switches from region to region */
	bool caged;		/* WRAP without PMI: a STOP mark ends the cycle */
	bool lent;		/* the regions are the caller's */
	struct topa topa;	/* SINGLE: only the lap and the blocks are used */
	unsigned physical_bits; /* the smallest of the processors it may run on */
	struct ptah_hal_memory lists;
	_Atomic uint64_t *starts_of;	   /* swap: where each region's bytes begin */
	struct ptah_capture_config config; /* what was requested; `trace` and `memory` are NULL */

	/* What follows up to `mappings` is 0 in a new capture, and again after buffer_reset(). */
	uint64_t owner;
	void *cookie;
	ptah_capture_drain *drain;
	struct ptah_captures *set; /* that it belongs to, or NULL */
	int cpu;
	uint8_t policy;
	bool start_paused;

	/* What the owner has requested, and what prevents it. */
	atomic_bool started, paused;
	atomic_int holder;
	atomic_uint halt;   /* enum halt */
	atomic_bool rearm;  /* resume_here(): the next look clears `halt` and `error` */
	atomic_bool gap;    /* code ran untraced: the next record has PARTIAL */
	atomic_int error;   /* enum ptah_error */
	atomic_uint logged; /* 1 << enum log_line: what has been logged since the last start */
	struct ptah_trace_config trace;
	uint64_t ctl; /* without TraceEn */

	/* look: */
	atomic_bool running;   /* the engine has set TraceEn */
	bool external;	       /* VM entry and exit set and clear TraceEn, not the engine */
	bool program;	       /* all registers have to be written before the next start */
	bool fresh;	       /* the next start begins a slice; force_psb applies to it */
	bool verify;	       /* check STATUS.Error once, directly after the next start */
	bool owed;	       /* an INT region was filled and bit 55 was not yet set */
	bool wrapped;	       /* WRAPPED has been reported */
	bool swap_due;	       /* single-entry ToPA: the PMI has been delivered */
	uint32_t flags;	       /* for the next record */
	uint64_t kept;	       /* IA32_RTIT_STATUS as of the last look */
	uint64_t fill;	       /* swap: number of the region in use */
	_Atomic uint64_t mark; /* number of the region with the STOP mark, if `marked` */
	bool marked;
	uint64_t unkept; /* bytes that a smaller buffer had no room for: for the next record */
	uint64_t told;	 /* bytes before this position were consumed, or their loss is reported */
	_Atomic uint32_t msr; /* the register whose access raised #GP; 0: none did */
	struct {
		_Atomic uint64_t ctl, status, base, ptrs;
	} seen; /* the registers at the last look, for ptah_capture_status() in any context */
	struct topa_place place;
	uint8_t under[CANARY]; /* the trace that the canary covers */
	bool canary;
	_Atomic uint64_t
	    turned; /* in a set: TSC when TraceEn was last set or cleared; 0: unknown */
	_Atomic uint64_t looks, starts, pmis, full, errors, partial;

	/* Between the producer (the looks) and the consumer. */
	_Atomic uint64_t position, tail, lost;
	_Atomic uint64_t floor;	 /* bytes before this position were not kept when it was resized */
	_Atomic uint64_t fills;	 /* swap: `fill`, published */
	_Atomic uint64_t oldest; /* swap: where the oldest region begins */
	struct record_ring records;
	struct capture_page page;
	uint64_t overwritten; /* the sum of all records' `lost`. Look */

	bool orphan;			       /* freed with its last mapping; under hal->lock */
	struct mapping mappings[MAX_MAPPINGS]; /* PASSIVE */
};

static inline uint64_t position_of(const struct ptah_capture *c)
{
	return atomic_load_explicit(&c->position, memory_order_relaxed);
}

static inline void count_up(_Atomic uint64_t *counter)
{
	/* There is one writer, so that no locked instruction is needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/*
 * Hidden visibility: otherwise the compiler takes the functions' addresses from a global offset
 * table, which kernels do not have.
 */
#ifdef __ELF__
#pragma GCC visibility push(hidden)
#endif

/* pmi.c: on this processor. */
/* NULL: the port returned a number that is out of range. */
struct engine_cpu *engine_here(struct ptah_engine *engine, unsigned *number);
/* PINNED. Sets `busy`: until engine_release(), which does what notes ask for, NMIs only write
 * notes. */
void engine_hold(struct engine_cpu *cpu);
void engine_note(struct engine_cpu *cpu);
/* PINNED. Publishes the state of a capture that this processor holds, where no look does that. */
void engine_show(struct ptah_engine *engine, struct ptah_capture *c);
void engine_release(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number);
/* NMI. Does what the note asks for, or, if it has interrupted busy code, leaves it to that. */
void engine_serve(struct ptah_engine *engine, struct engine_cpu *cpu, unsigned number);

/* The result of a start on this processor: the error, or why it cannot trace the capture now. */
int engine_outcome(struct ptah_capture *c, struct engine_cpu *cpu);

/* Busy. Ends the guest's claim to the processor's registers: the host may be traced again. */
void engine_forget_guest(struct engine_cpu *cpu);

/* hardware.c: busy, on this processor. */
/* Why nothing can be loaded here now, as an enum ptah_caps_obstacle; afterwards ptah_engine_caps()
 * shows it. Not for a processor that traces a capture: it would be taken for another tracer. */
unsigned hardware_obstacle(const struct ptah_engine *engine, struct engine_cpu *cpu);
void hardware_look(struct ptah_capture *c, struct engine_cpu *cpu, bool leave);
int hardware_run(struct ptah_capture *c, struct engine_cpu *cpu);
/*
 * Finds out whether the capture can be loaded here. PTAH_E_BUSY: another tracer is tracing.
 * PTAH_E_UNSUPPORTED: the processor does not allow tracing now.
 */
int hardware_may_load(struct ptah_capture *c, struct engine_cpu *cpu);
/* The line for a start that hardware_may_load() or a register has refused. */
void hardware_log_refusal(struct ptah_capture *c, int status);
void hardware_record(struct ptah_capture *c, unsigned number);
/* The capture traces here: how much it has written at least, without a look. */
uint64_t hardware_live(const struct ptah_capture *c);

/* room.c: which part of the buffer may be written to, and which part can be read. */
bool room_find(struct ptah_capture *c);
uint64_t room_oldest(const struct ptah_capture *c, uint64_t position);
bool room_near(const struct ptah_capture *c);
struct topa_place room_place(const struct ptah_capture *c, uint64_t position);
/* Sets c->place from the output registers, and *position from the place. False: the registers name
 * no place in this capture's tables. */
bool room_position(struct ptah_capture *c, const struct registers *r, uint64_t *position);
/*
 * Reports of a capture that traces what has been written at least, from registers that may be stale
 * and without the effects of room_position(); and what can be written at most until the next look.
 */
uint64_t room_live(const struct ptah_capture *c, uint64_t base, uint64_t ptrs);
uint64_t room_limit(const struct ptah_capture *c);
/* After room_position(): did tracing stop at the end of a region with STOP? */
bool room_at_stop(const struct ptah_capture *c);
void room_canary_set(struct ptah_capture *c);
bool room_canary_lift(struct ptah_capture *c, uint64_t written);

/* buffer.c: PASSIVE */
int buffer_new(struct ptah_engine *engine, const struct ptah_capture_config *config,
	       struct ptah_capture **capture, struct ptah_trace_problem *problem);
int buffer_check_trace(const struct ptah_engine *engine, int cpu, bool xsaves,
		       const struct ptah_trace_config *trace, struct ptah_trace_problem *problem);
void buffer_free(struct ptah_capture *c);
/* Makes the capture as it was when it was new, but for what buffer_configure() sets. */
void buffer_reset(struct ptah_capture *c);
/* NMI. Takes over what can be configured without allocating anything. */
void buffer_configure(struct ptah_capture *c, const struct ptah_capture_config *config);
/* Plans and allocates a buffer with its tables: errors as of ptah_capture_new(). */
int buffer_make(const struct ptah_engine *engine, const struct ptah_capture_config *config,
		struct buffer *buffer, struct ptah_trace_problem *problem);
void buffer_unmake(const struct ptah_engine *engine, const struct buffer *buffer);
/* The capture's buffer, and the other way round. Busy, or while the capture is not in use. */
struct buffer buffer_of(const struct ptah_capture *c);
void buffer_set(struct ptah_capture *c, const struct buffer *buffer);
/* A block of the engine's own memory, of `size` bytes, for a processor (-1: no particular one). */
int buffer_alloc(const struct ptah_hal *hal, void *port, int cpu, unsigned purpose, uint64_t size,
		 struct ptah_hal_memory *memory);
int buffer_refuse(struct ptah_trace_problem *problem, const char *field, const char *reason,
		  unsigned kind, uint64_t value, uint64_t valid);
/* PTAH_E_INVAL, for a caller whose arguments are NULL or of an older size. */
int buffer_refuse_call(struct ptah_trace_problem *problem);
/* Returns `status`. A failure that has no reason in *problem yet gets one. */
int buffer_explain(int status, struct ptah_trace_problem *problem);

/* lent.c: memory of the caller's. */
/* PTAH_E_INVAL, or all blocks by themselves are good, and *size is what they have together. */
int lent_check(const struct ptah_hal_memory *memory, size_t n, unsigned physical_bits,
	       uint64_t *size, struct ptah_trace_problem *problem);
/* The largest size of a region, at most `region`, of which all blocks consist. */
uint64_t lent_region(const struct ptah_hal_memory *memory, size_t n, uint64_t region);
/* NMI. Makes blocks that were checked, and are as large as the buffer, its regions. PTAH_E_INVAL: a
 * region does not lie in one block, or two blocks overlap. */
int lent_place(struct topa *t, int cpu, const struct ptah_hal_memory *memory, size_t n,
	       struct ptah_trace_problem *problem);

/* resize.c: PASSIVE. ptah_capture_resize() in two steps: what can fail for lack of memory, and the
 * exchange, which frees *b or the old buffer. */
int resize_prepare(struct ptah_capture *c, size_t buffer, size_t region, struct buffer *b,
		   struct ptah_trace_problem *problem);
int resize_finish(struct ptah_capture *c, const struct buffer *b,
		  struct ptah_trace_problem *problem);

/* capture.c: PASSIVE. Runs `work` PINNED and busy on the processor that holds the capture. If
 * none does, it runs where the caller is, with `cpu` NULL. */
typedef int capture_work(struct ptah_capture *c, struct engine_cpu *cpu, void *argument);
int capture_at_holder(struct ptah_capture *c, capture_work *work, void *argument);
/* A capture_work: requests a look. After it the capture runs or not, as is wanted by then. */
int capture_look(struct ptah_capture *c, struct engine_cpu *cpu, void *argument);
/* Prepares a start at the current position: clears `halt` and `error`, and checks the tables. */
int capture_arm(struct ptah_capture *c);
/* The state as the code sees it that holds the capture: RUNNING exactly while TraceEn may be 1. */
unsigned capture_state(const struct ptah_capture *c);
/* Started, and neither paused nor stopped by a condition; its processor may be offline. */
bool capture_is_running(struct ptah_capture *c);
/* PINNED. Makes this processor the holder; waits while the capture is CLAIMED. False: another
 * processor holds it. */
bool capture_take(struct ptah_capture *c, int number);

/* log.c: any context. Lines of this processor, with `value` if the line has a place for it. */
void log_port(const struct ptah_hal *hal, void *port, unsigned what, uint64_t value);
void log_capture(struct ptah_capture *c, unsigned what, uint64_t value);
/* Of each obstacle that the engine has found, the first processor that has it. */
void log_obstacles(const struct ptah_engine *engine);

/* sets.c: PASSIVE. Stops and dissolves the sets of this owner; their captures remain. */
void sets_release_owner(struct ptah_engine *engine, uint64_t owner);

/* engine.c */
/* Any. What the processor can do, whatever prevents it at the moment. NULL as in
 * ptah_engine_caps(). */
const struct ptah_caps *engine_caps_of(const struct ptah_engine *engine, unsigned cpu);
/* PASSIVE. Has the processor look again, if it could not be traced for a reason that may pass. */
void engine_look(struct ptah_engine *engine, unsigned cpu);
/* PASSIVE. The engine's list of captures. */
void engine_link(struct ptah_capture *c);
bool engine_unlink(struct ptah_capture *c);

/* crash.c: under hal->lock. `after` (NULL: nothing) now follows `before` (NULL: is the first). */
void crash_begin(struct ptah_engine *engine);
void crash_link(struct ptah_engine *engine, struct ptah_capture *before,
		const struct ptah_capture *after);
/* The capture gets another buffer; it has it. `cpu`: one that it may run on. */
void crash_change(struct ptah_capture *c);
void crash_describe(struct ptah_capture *c, int cpu);

/* pool.c: PASSIVE. The capture is not in use any more. */
void pool_return(struct ptah_capture *c);

/* map.c: PASSIVE. ptah_capture_map(); *made: it was not mapped there before. */
int map_buffer(struct ptah_capture *c, uint64_t owner, bool writable, uint64_t *address,
	       bool *made);
/* Removes one mapping of `owner` (NULL: of any owner). False: there is none. */
bool map_remove(struct ptah_capture *c, const uint64_t *owner);
bool map_remove_anywhere(struct ptah_engine *engine, uint64_t owner);
bool map_any(struct ptah_capture *c);
/* Frees a capture that is stopped and not in the engine's list any more, or returns it to its pool.
 * If another thread is just unmapping it, that thread does so when it is done. */
void map_remove_and_free(struct ptah_capture *c);

#ifdef __ELF__
#pragma GCC visibility pop
#endif

#endif
