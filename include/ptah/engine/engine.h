/* SPDX-License-Identifier: MIT */
/*
 * The capture engine: a driver for Intel PT to build into a kernel, a
 * hypervisor or bare-metal code. It needs a port (hal.h) and memcpy and memset,
 * nothing else. Freestanding.
 *
 *	ptah_engine_new(&hal, port, &engine);
 *	ptah_trace_config_default(ptah_engine_caps(engine, cpu), &trace);
 *	config = (struct ptah_capture_config){
 *		.size = sizeof(config), .trace = &trace, .cpu = (int)cpu};
 *	if (ptah_capture_new(engine, &config, &capture, &problem) < 0)
 *		log(problem.field, problem.reason);
 *	ptah_capture_start(capture);
 *	...
 *	ptah_capture_stop(capture);
 *	ptah_capture_status(capture, &status);
 *	n = ptah_capture_pieces(capture, status.oldest, status.position, pieces, 16);
 *	ptah_capture_free(capture);
 *	ptah_engine_free(engine);
 *
 * A capture is one configuration and one buffer. It traces one processor, or
 * follows one thread. One number counts what it has written, its position: bytes
 * since it was created, laps of the buffer included. The position never goes
 * back, whatever happens (stop, start, pause, reconfiguration, loss, a thread
 * that moves). All functions here address bytes of the trace by their position.
 *
 * Captures of several processors that are controlled as one are a set (captures.h).
 * Captures that are made beforehand, for code that may not sleep, are a pool. A
 * process follows a capture without system calls by its page (capture_page.h).
 *
 * Exactness. The ToPA tables name the buffer's regions as many times over as they
 * have entries for: that is one cycle. OUTPUT_BASE, the table index and the
 * offset give the position modulo one cycle. The engine looks at these registers
 * whenever it stops the processor for a moment: at a PMI, at a thread switch, in
 * a function of this header. So the position is exact as long as less than a
 * cycle passes between two looks; PMIs that are merged, late or skid make no
 * difference. The engine asks for at least two PMIs per cycle. Where PMIs cannot
 * be had, a STOP bit ends the cycle and the engine moves it at every look: the
 * trace may then end early, which is reported, but it never wraps unnoticed.
 * Single-range output has neither PMIs nor STOP bits: there a full lap between
 * two looks is noticed, but several laps count as one, and the record says
 * UNSURE.
 *
 * Threads. The functions that control a capture (PASSIVE) are called by one
 * thread at a time for each capture, its owner's. The functions of its consumer
 * (pieces, consume, records, page_sync) are called by one other thread at a time.
 * Functions marked NMI or PINNED may be called by any code in that context. The
 * contexts are those of hal.h. On the processor that a capture traces, its owner may
 * call start, stop, pause, resume, flush, live and reconfigure PINNED as well, since
 * hal->run_on() calls there directly: a DPC on each processor can control that
 * processor's capture. Owners may die, and their mappings be removed, at any
 * time, also several at once: ptah_engine_release_owner().
 *
 * The engine writes a processor's PT registers only while a capture is started
 * there, and leaves TraceEn = 0 when it is done.
 *
 * Source: SDM volume 3, "Intel Processor Trace": "Table of Physical Addresses
 * (ToPA)", "ToPA PMI", "ToPA Errors", "Disabling Packet Generation", "Trace
 * Configuration Procedures".
 */
#ifndef PTAH_ENGINE_H
#define PTAH_ENGINE_H

#include <ptah/engine/caps.h>
#include <ptah/engine/capture_page.h>

PTAH_BEGIN_DECLS

struct ptah_engine;
struct ptah_capture;

/*
 * The engine
 */

/*
 * PASSIVE. Looks at every processor that is online. `hal` and `port` stay the
 * caller's and must outlive the engine. PTAH_E_INVAL: a callback is missing,
 * ptah_hal_missing() says which; PTAH_E_NOMEM; PTAH_E_LIMIT: hal->cpus() says 0 or
 * more than 65536. A processor that cannot be traced is not an error here:
 * ptah_engine_caps() says why.
 */
int ptah_engine_new(const struct ptah_hal *hal, void *port, struct ptah_engine **engine);

/* PASSIVE. PTAH_E_BUSY while a capture, a set of captures or a pool exists. NULL is fine. */
int ptah_engine_free(struct ptah_engine *engine);

/*
 * Any. NULL when there is no such processor, or it has not been online yet. The
 * obstacles VMX and IN_USE may pass: they are as of the last time that the engine
 * looked. It looks when a capture is created if there was one, at each start, and
 * when it is called for VMXOFF or for a processor that is online again. So call
 * this function again then: what a pointer that it returned points to never changes.
 */
const struct ptah_caps *ptah_engine_caps(const struct ptah_engine *engine, unsigned cpu);

/*
 * PASSIVE. Stops every capture of this owner, removes the owner's mappings (of
 * other owners' captures, too) and frees the captures. A port calls it when the
 * owner dies or closes its file. Pointers to these captures are invalid
 * afterwards. Returns how many captures were freed.
 */
int ptah_engine_release_owner(struct ptah_engine *engine, uint64_t owner);

enum ptah_pmi {
	PTAH_PMI_NONE = 0, /* not from PT, or from another tracer: nothing was touched */
	PTAH_PMI_OURS,	   /* dealt with */
	PTAH_PMI_LATE, /* its cause was dealt with before it came: claim it when nobody else does */
};

/*
 * NMI. A PMI has come on this processor; returns an enum ptah_pmi. Lock-free. It
 * may interrupt the engine itself at any instruction on the same processor; then
 * it is only noted, and the interrupted function deals with it. Unmasks the LVT
 * entry as its last action when the result is OURS or LATE.
 */
int ptah_engine_pmi(struct ptah_engine *engine);

/*
 * PINNED, on the processor in question. Called before the processor goes offline
 * or the system sleeps, and after it came back. A capture there stops with its
 * position kept and continues afterwards; its records say PARTIAL.
 */
void ptah_engine_cpu_offline(struct ptah_engine *engine);
void ptah_engine_cpu_online(struct ptah_engine *engine);

/*
 * PINNED, before VMXON and after VMXOFF on this processor. Where
 * IA32_VMX_MISC[14] is 0, PT does not work between the two: the trace stops
 * cleanly and continues afterwards, and the records say PARTIAL. On other
 * processors the calls do nothing.
 */
void ptah_engine_vmxon(struct ptah_engine *engine);
void ptah_engine_vmxoff(struct ptah_engine *engine);

/*
 * NMI, on each processor when the system crashes or a debugger takes it over. Stops whatever is
 * traced on this processor, another tracer's trace included, so that the last bytes stay as they
 * are: the code that caused the crash is the end of the trace. Takes no lock and allocates
 * nothing, and may interrupt the engine at any instruction. The capture keeps the processor; its
 * records say PARTIAL. Its position is exact, unless the call has interrupted the engine: then
 * it is as of the last look, and the output registers have the rest. What was traced before is
 * visible to all processors. Nothing is traced here by this engine until
 * ptah_engine_continue_here(), which is NMI as well.
 *
 * Not PTAH_OK: a register raised #GP, and TraceEn may still be set.
 */
int ptah_engine_stop_here(struct ptah_engine *engine);
void ptah_engine_continue_here(struct ptah_engine *engine);

/*
 * Any. The physical address of the engine's struct ptah_crash_note (crash_note.h), from which a
 * dump of the memory is read after a crash: for vmcoreinfo or the like. 0 for NULL.
 */
uint64_t ptah_engine_crash_note(const struct ptah_engine *engine);

/*
 * Captures
 */

#define PTAH_CAPTURE_THREAD (-1)

/*
 * NMI, with tracing off on this processor. For ports that empty the buffer inside
 * the PMI: the callback copies the bytes [tail, position) away
 * (ptah_capture_pieces() says where they are) and returns the position up to
 * which it has done so. Tracing continues when it returns; waiting for room in
 * here stalls the processor but loses nothing.
 */
typedef uint64_t ptah_capture_drain(void *cookie, struct ptah_capture *capture, uint64_t tail,
				    uint64_t position);

/* Wherever a number may be 0, the engine chooses. */
struct ptah_capture_config {
	size_t size;			       /* sizeof(struct ptah_capture_config) */
	const struct ptah_trace_config *trace; /* what to trace; copied */
	int cpu;	  /* the processor, or PTAH_CAPTURE_THREAD to follow a thread */
	uint64_t owner;	  /* for ptah_engine_release_owner(); any number */
	uint8_t shape;	  /* enum ptah_capture_shape */
	uint8_t policy;	  /* enum ptah_capture_policy */
	bool paused;	  /* start() arms only, resume() begins */
	bool no_pmi;	  /* do without PMIs where the port has them */
	bool no_xsaves;	  /* switch threads by MSR where the port has XSAVES */
	size_t buffer;	  /* bytes; a multiple of 4096. 0: 4 MB */
	size_t region;	  /* bytes of a region, a power of two, 4 KB to 128 MB */
	unsigned pages;	  /* at most so many pages for tables: more pages make the cycle longer */
	unsigned pmis;	  /* per lap, at most one per region. 0: two per cycle, DRAIN 16 per lap */
	unsigned records; /* records that can wait for their reader, a power of two. 0: 64 */
	void *cookie;	  /* for drain and hal->wake */
	ptah_capture_drain *drain; /* for PTAH_POLICY_DRAIN; may be NULL */
	/*
	 * Memory of the caller's that is the buffer: `memories` blocks of address, physical
	 * address and size, one after another; the list is copied. NULL: the engine allocates the
	 * buffer. `buffer` is then 0 or their size together (OVERFLOW: without the last 4096
	 * bytes). Regions are as large as the blocks allow, or `region`; each lies in one block.
	 *
	 * The engine checks sizes and physical addresses (multiples of 4096 and of the region,
	 * within reach of the processors, no overlap) and neither clears nor frees the blocks,
	 * which stay until the capture is freed, or stopped for the last time. They keep the rules
	 * of hal->alloc(). ptah_capture_resize() refuses the capture.
	 */
	const struct ptah_hal_memory *memory;
	size_t memories;
	/*
	 * The captures are a pool's: they have no buffers, and ptah_pool_take_memory() brings one,
	 * of `buffer` bytes. `region` 0: 4096.
	 */
	bool no_memory;
};

/*
 * PASSIVE. Allocates the buffer and its tables; touches no register.
 * After every failure *problem (may be NULL) names the field and the reason, and for
 * PTAH_E_INVAL what would be valid; the request is never changed silently.
 * PTAH_E_PORT: alloc() broke a rule of hal.h. PTAH_E_UNSUPPORTED: the
 * processor cannot be traced. Another tracer, or VMX operation without
 * IA32_VMX_MISC[14], does not prevent this call: both may pass, and
 * ptah_capture_start() reports them. PTAH_E_OFFLINE: no such processor, or it has
 * not been online yet. PTAH_E_NOMEM: nothing remains allocated. A capture that
 * follows a thread has to be valid on every processor that has been online.
 */
int ptah_capture_new(struct ptah_engine *engine, const struct ptah_capture_config *config,
		     struct ptah_capture **capture, struct ptah_trace_problem *problem);

/*
 * PASSIVE. Stops the capture if it is started. PTAH_E_BUSY while it is mapped:
 * unmap first, or ptah_engine_release_owner(); and when it belongs to a set
 * (captures.h). NULL is fine.
 */
int ptah_capture_free(struct ptah_capture *capture);

/*
 * Pools
 *
 * Captures that are allocated ahead, for code that may neither sleep nor allocate
 * when it needs one, such as a hook that is called when a thread is created:
 *
 *	ptah_pool_new(engine, &config, 64, &pool, &problem);	beforehand
 *	if (ptah_pool_take(pool, owner, thread, NULL, &capture, NULL) == PTAH_OK)
 *		ptah_capture_start(capture);			in the hook
 *	ptah_capture_switch_in(capture);			in the scheduler
 *	...
 *	ptah_capture_free(capture);				returns it to the pool
 */

struct ptah_pool;

/*
 * PASSIVE. Makes n captures, 1 to 65536, each as ptah_capture_new() would with this
 * configuration, and with its errors; PTAH_E_LIMIT: n. On failure nothing remains
 * allocated.
 */
int ptah_pool_new(struct ptah_engine *engine, const struct ptah_capture_config *config, unsigned n,
		  struct ptah_pool **pool, struct ptah_trace_problem *problem);

/* PASSIVE. PTAH_E_BUSY while one of its captures is in use, and nothing has changed. NULL is fine.
 */
int ptah_pool_free(struct ptah_pool *pool);

/*
 * NMI, also on several processors at a time. Takes a capture that is as new: the
 * pool's configuration with this owner, cookie and, if it is not NULL, what to trace.
 * PTAH_E_NOMEM: all are in use. PTAH_E_INVAL as in ptah_capture_new(), for what to
 * trace. Everything in this header applies to the capture, but that
 * ptah_capture_free() and ptah_engine_release_owner() return it to the pool, with
 * its buffer cleared for the next owner, and that ptah_capture_resize() refuses it.
 */
int ptah_pool_take(struct ptah_pool *pool, uint64_t owner, void *cookie,
		   const struct ptah_trace_config *trace, struct ptah_capture **capture,
		   struct ptah_trace_problem *problem);

/*
 * NMI. The same for a pool with no_memory: the n blocks are the capture's buffer, as `memory` in
 * struct ptah_capture_config, until it is freed. It may be freed when the blocks are gone already,
 * if it was stopped before. PTAH_E_INVAL: also for blocks that are no such buffer; the time is that
 * of sorting n blocks.
 */
int ptah_pool_take_memory(struct ptah_pool *pool, uint64_t owner, void *cookie,
			  const struct ptah_trace_config *trace,
			  const struct ptah_hal_memory *memory, size_t n,
			  struct ptah_capture **capture, struct ptah_trace_problem *problem);

/* Any. How many captures can be taken. */
unsigned ptah_pool_left(const struct ptah_pool *pool);

/*
 * PASSIVE. Starts tracing at the current position: nothing that the policy keeps
 * is overwritten. Clears sticky STATUS bits and, before it sets TraceEn, walks
 * the tables as the processor will. A capture that follows a thread begins with
 * the next ptah_capture_switch_in(): while it is on no processor, start, pause and
 * resume may be called PINNED. PTAH_OK when it is started already.
 *
 *	PTAH_E_BUSY	   TraceEn was 1 already, by another tracer; or another
 *			   capture is started on this processor. Nothing was touched.
 *	PTAH_E_NOSPACE	   STOP: full. Consume something. (DRAIN: it waits for that.)
 *	PTAH_E_UNSUPPORTED in VMX operation without IA32_VMX_MISC[14]: starts at
 *			   ptah_engine_vmxoff(), if ptah_engine_vmxon() was called; or #GP
 *			   from a register (which: status.msr)
 *	PTAH_E_OFFLINE	   the processor is offline: starts when it comes online
 *	PTAH_E_INVAL	   the tables in memory are not what they were: overwritten
 */
int ptah_capture_start(struct ptah_capture *capture);

/* PASSIVE. Afterwards all bytes are visible and the position is exact. PTAH_OK when it is stopped
 * already. */
int ptah_capture_stop(struct ptah_capture *capture);

/*
 * PASSIVE. Like stop and start, but the capture keeps its processor: no other
 * capture can start there meanwhile. PTAH_E_INVAL when it is not started.
 * Resuming also clears a stop by range, and errors. When it fails, for a reason
 * of ptah_capture_start(), the capture stays paused.
 */
int ptah_capture_pause(struct ptah_capture *capture);
int ptah_capture_resume(struct ptah_capture *capture);

/* NMI. The same for the capture on this processor; PTAH_E_INVAL when it is not here. */
int ptah_capture_pause_here(struct ptah_capture *capture);
int ptah_capture_resume_here(struct ptah_capture *capture);

/*
 * PASSIVE. Makes everything traced so far visible and the position exact. Tracing
 * is off for a moment. *position may be NULL.
 */
int ptah_capture_flush(struct ptah_capture *capture, uint64_t *position);

/*
 * PASSIVE; PINNED for a capture that follows a thread while it is on no processor, as in
 * the hook that is about to switch it in. Applies other options, filters or ranges from
 * now on. The position and the bytes stay, and a paused capture stays paused. PTAH_E_INVAL as in
 * ptah_capture_new(), and nothing has changed.
 */
int ptah_capture_reconfigure(struct ptah_capture *capture, const struct ptah_trace_config *trace,
			     struct ptah_trace_problem *problem);

/*
 * PASSIVE. Gives the capture a buffer of another size; `buffer` and `region` as in
 * struct ptah_capture_config. Shape, policy and everything else stay, the position
 * continues, and so does the trace: it stops for a moment at the end, while the
 * last bytes are copied. A larger buffer keeps all bytes that can be read. A smaller
 * one with WRAP keeps the newest, and the next record reports how many were not
 * kept (RESIZED and LOST). STOP and DRAIN keep what has not been consumed, and
 * nothing else; a capture with STOP that was full continues with
 * ptah_capture_resume(), one with DRAIN by itself.
 *
 * Old and new buffer exist together for that time, and the pieces of the old one
 * are gone afterwards: until this call returns, nobody else may call a function of
 * this capture, neither its consumer nor ptah_capture_status(). PMIs, thread
 * switches, VM entries and drain() continue.
 *
 * On failure nothing has changed, and the capture continues with its buffer:
 *
 *	PTAH_E_INVAL	as in ptah_capture_new(): *problem (may be NULL) says why; or the
 *			capture is a pool's
 *	PTAH_E_NOMEM	no memory for a second buffer
 *	PTAH_E_NOSPACE	STOP, DRAIN: more bytes wait to be consumed than fit
 *	PTAH_E_BUSY	it is mapped; or a guest runs between ptah_capture_vmentry() and
 *			ptah_capture_vmexit()
 *	PTAH_E_OFFLINE	its processor went offline meanwhile: try again
 */
int ptah_capture_resize(struct ptah_capture *capture, size_t buffer, size_t region,
			struct ptah_trace_problem *problem);

/* NMI. The position at the last look: exact while the capture does not trace, else a lower bound
 * (ptah_capture_live() has a closer one). */
uint64_t ptah_capture_position(const struct ptah_capture *capture);

struct ptah_capture_live {
	size_t size;	   /* sizeof(struct ptah_capture_live), set by the caller */
	uint64_t position; /* at least so much has been written */
	uint64_t limit;	   /* at most so much; UINT64_MAX: not known */
	bool exact;	   /* both are the position: nothing is traced at the moment */
};

/*
 * PASSIVE. How much has been written, without disturbing the trace: registers are
 * read on the processor that traces, and none is written.
 *
 * While TraceEn is 1 no read can be exact. The processor buffers packets and writes
 * them later, and it updates the output registers asynchronously: a read may return
 * an older value (SDM "Flushing Trace Output", "IA32_RTIT_OUTPUT_MASK_PTRS MSR"),
 * how old is not said. So `position` is a lower bound of what had been written to
 * memory when the call was made, never less than ptah_capture_position(); what the
 * packets generated by then will add is not in it, and other processors may not
 * see all of these bytes yet. `limit` is where output stops by itself (policies STOP
 * and DRAIN, and WRAP without PMIs), else less than a cycle after the last look; of
 * single-range output nothing is known. Use ptah_capture_flush() for an exact
 * position of visible bytes: it stops the trace for a moment. PTAH_E_INVAL:
 * live->size. PTAH_E_OFFLINE: the processor went offline during the call.
 */
int ptah_capture_live(struct ptah_capture *capture, struct ptah_capture_live *live);

/*
 * Threads
 *
 * The scheduler calls switch_out for the thread that leaves this processor, then
 * switch_in for the one that comes. Between the two the thread may move to
 * another processor.
 */

/*
 * PINNED. PTAH_OK also when the capture is not started, is paused or waits for
 * room. PTAH_E_BUSY when another capture has this processor; the gap is reported
 * as PARTIAL. Other failures are those of ptah_capture_start().
 */
int ptah_capture_switch_in(struct ptah_capture *capture);

/* PINNED. Afterwards the bytes are visible and the position is exact. Does nothing when the capture
 * is not on this processor. */
void ptah_capture_switch_out(struct ptah_capture *capture);

/*
 * Virtual machines
 *
 * For a hypervisor that uses the VM-entry control "load IA32_RTIT_CTL" and the
 * VM-exit control "clear IA32_RTIT_CTL": the capture is the guest's; it must be
 * one that follows a thread, and started. A capture of the host on this processor
 * pauses between the two calls. A hypervisor without these controls uses
 * switch_in and switch_out.
 */

/*
 * PINNED, before VM entry. Sets all registers but IA32_RTIT_CTL, with TraceEn =
 * 0; *ctl is the value for the VMCS. PTAH_OK with *ctl = 0 when there is nothing
 * to trace. On failure nothing has changed, the host's trace included: enter the
 * guest without the control that loads IA32_RTIT_CTL. PTAH_E_INVAL: the capture
 * is switched in on this processor.
 */
int ptah_capture_vmentry(struct ptah_capture *capture, uint64_t *ctl);

/* PINNED, after VM exit, whether or not the exit cleared TraceEn. Does nothing when the capture was
 * not entered here. */
void ptah_capture_vmexit(struct ptah_capture *capture);

/*
 * Status
 */

struct ptah_capture_status {
	size_t size;   /* sizeof(struct ptah_capture_status), set by the caller */
	uint8_t state; /* enum ptah_capture_state */
	uint8_t shape; /* what was chosen */
	uint8_t policy;
	bool xsaves, pmi; /* in use */
	int cpu;	  /* where it is loaded; -1: nowhere */
	int error;	  /* of the last start or look that failed, enum ptah_error */
	uint32_t msr;	  /* that raised #GP; 0: none */

	uint64_t position; /* at the last look */
	uint64_t oldest;   /* [oldest, position) can be read, unless it runs and wraps */
	uint64_t tail;	   /* the consumer's */
	uint64_t lost;	   /* bytes overwritten before they were consumed, by consume() */

	/* The buffer and its tables. */
	size_t buffer, region;
	uint32_t regions; /* of a lap, an overflow page included */
	uint32_t tables;  /* pages */
	uint32_t laps;	  /* of a cycle */
	uint64_t cycle;	  /* bytes */

	/* The registers at the last look, and the entry and offset that they name. */
	uint64_t rtit_ctl, rtit_status, output_base, mask_ptrs;
	uint32_t table, index, offset;

	/* How often. */
	uint64_t looks, starts, pmis, full, errors, partial, dropped_records;
};

/*
 * Any. Copies everything that is known. The numbers fit together while the
 * capture does not run; else each is right only by itself. PTAH_E_INVAL:
 * status->size.
 */
int ptah_capture_status(const struct ptah_capture *capture, struct ptah_capture_status *status);

/*
 * The consumer
 */

/*
 * Any but NMI; the consumer alone. Copies at most n of the waiting records, the
 * oldest first, and returns how many. Records that found no room are merged into
 * one with the flag DROPPED: the next record that found room, or the last one
 * that is returned here. So no flag is ever forgotten. PTAH_E_BUSY as
 * ptah_capture_consume().
 */
int ptah_capture_records(struct ptah_capture *capture, struct ptah_capture_record *records,
			 size_t n);

struct ptah_piece {
	const void *address;
	size_t offset; /* in the buffer, as user_map() lays it out */
	size_t size;
};

/*
 * NMI. Says where the bytes [from, to) are in memory, in order; `to` is at most
 * the position. Returns how many pieces; what does not fit in n pieces is left
 * out, and the caller asks again from `from` plus their sizes. Regions that are
 * adjacent in memory are one piece: two are enough where the system allocated one
 * block. PTAH_E_INVAL: from > to, or to beyond the position. PTAH_E_LOST: `from`
 * is older than the oldest byte. While the capture runs and wraps, bytes may be
 * overwritten as they are read: ptah_capture_consume() reports that. While a
 * capture with single-range output traces, a pattern by which the engine notices
 * a lap covers the newest 64 bytes: pause it to read them.
 */
int ptah_capture_pieces(const struct ptah_capture *capture, uint64_t from, uint64_t to,
			struct ptah_piece *pieces, size_t n);

/*
 * NMI. The capture's memory, for dumps and for whoever shares it with another processor or
 * device: the blocks of the buffer in the order of the trace, then the tables, each with its
 * physical address; `purpose` says which it is. Copies at most n entries from number `from`
 * on, and returns how many; 0: there are no more. Not while ptah_capture_resize() runs.
 */
int ptah_capture_memory(const struct ptah_capture *capture, size_t from,
			struct ptah_hal_memory *memory, size_t n);

/*
 * PASSIVE, the consumer. The bytes up to `upto` have been read and may be
 * overwritten. *lost (may be NULL): how many of [tail, upto) had been overwritten
 * by now; they are always the first ones. For that, a capture that runs and wraps
 * is looked at (tracing is off for a moment). A capture that waits for room
 * continues. PTAH_E_INVAL: `upto` is beyond the position. PTAH_E_BUSY: a process is the
 * consumer (ptah_capture_map_page()). Does nothing when it is less than the tail.
 */
int ptah_capture_consume(struct ptah_capture *capture, uint64_t upto, uint64_t *lost);

/*
 * PASSIVE. Maps the buffer into an address space. At most 8 per capture:
 * PTAH_E_LIMIT. PTAH_E_UNSUPPORTED: the port cannot, or gave larger memory than was asked for.
 * While it is mapped the capture cannot be freed, but by ptah_engine_release_owner().
 * An owner that has it mapped already, with the same `writable`, gets the address of that mapping:
 * there is one, and one call of ptah_capture_unmap() ends it.
 */
int ptah_capture_map(struct ptah_capture *capture, uint64_t owner, bool writable,
		     uint64_t *address);

/*
 * PASSIVE. Maps the page of capture_page.h into an address space: what a process
 * needs, besides the buffer, to follow the trace without system calls. It is one
 * of the mappings of ptah_capture_map(), with the same errors and the same end.
 *
 * `consumer`: the page is writable, and the process is the capture's consumer from
 * now on: ptah_capture_consume() and ptah_capture_records() return PTAH_E_BUSY until
 * it is unmapped. The consumers take turns: each begins where the one before has
 * ended. PTAH_E_BUSY: another process has it mapped as consumer, or there is a drain
 * callback. Otherwise the page is read-only: an observer sees how far the trace is,
 * and releases nothing.
 */
int ptah_capture_map_page(struct ptah_capture *capture, uint64_t owner, bool consumer,
			  uint64_t *address);

/*
 * PASSIVE, for the consumer of the page, by a call of the driver's. Takes over what it
 * has read, makes everything traced so far visible, and continues a capture that
 * waits for room: ptah_capture_consume() and ptah_capture_flush() in one.
 * PTAH_E_INVAL: no page is mapped for a consumer.
 */
int ptah_capture_page_sync(struct ptah_capture *capture);

/*
 * NMI. How many records there have been, modulo 2^32: the page's `records_written`.
 * A driver's call that waits for hal->wake() gets from the process the number that
 * it has seen last, and returns at once when it is another.
 */
uint32_t ptah_capture_recorded(const struct ptah_capture *capture);

/* PASSIVE. When it returns the memory cannot be reached there any more. PTAH_E_INVAL: not mapped.
 */
int ptah_capture_unmap(struct ptah_capture *capture, uint64_t owner, uint64_t address);

PTAH_END_DECLS

#endif
