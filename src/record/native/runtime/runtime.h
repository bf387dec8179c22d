/* SPDX-License-Identifier: MIT */
/*
 * What the files of the runtime share. The runtime is the part of the recorder that runs inside
 * the recorded program: without libc, without relocations, without vector instructions (the
 * program's stay in their registers), and without variables of its own: everything hangs on the
 * context of the thread, whose address is the base of GS.
 *
 * A unit is code of the program, copied into the cache: it begins at one address of the program,
 * its head, and leaves at exits. The packets of what ran in a unit are stored at its exit, all of
 * them. So between two units the packets lead exactly to the next head, and everything else
 * (PSB+, FUP, PGD, PGE, MODE, TSC) is only ever put in there. A hot exit is continued by another
 * unit, which is entered in place of the exit's stores, and whose exits store what they would have.
 *
 * An exit's stores can be repeated: they write at the log's pointer, and move it once, last. Where
 * one faults, because it touches the guard page behind a chunk or because the pointer was
 * poisoned (unit_interrupt()), the exit is taken again from its first store.
 *
 * While a unit runs, R11 is the log's pointer and the program's R11 is in the context; in units
 * that use R11, it is the other way round. All other registers and the flags are the program's,
 * except within exits, where RAX and RCX may be saved in the context: pcmap.c knows where.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_RUNTIME_H
#define PTAH_RECORD_NATIVE_RUNTIME_RUNTIME_H

#include "record/native/layout.h"
#include "record/native/runtime/context_offsets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct context;
struct changes;
struct filters;
struct runtime;
struct sandbox_filter;
struct unit;

/* The program's registers at a boundary of two instructions. */
struct registers {
	uint64_t general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t rip, rflags;
};

struct log_position {
	uint8_t *chunk;	 /* the chunk that is being written, in this process */
	uint64_t number; /* its number */
};

/* step.c: the instruction that is carried out at its own address. */
struct step {
	uint64_t from;
	uint32_t number; /* in the log of exits */
	bool repeats, indirect, jumps, pushes_flags;
	bool unknown; /* has no encoding, so that it should fault */
};

enum context_state {
	CONTEXT_FREE = 0, /* of no thread: the next one that begins may take it */
	CONTEXT_RUNNING,
	CONTEXT_OUT, /* the thread waits until all of them run on untraced */
};

#define RETURNS	     32
#define RETURNS_NONE 1 /* -1 is not an address to which a program can return */

struct context {
	struct context *self;
	uint64_t rcx, rax, log, r11;
	uint64_t gate_exit, gate_indirect, gate_syscall;
	uint64_t continue_at, rsp, stack, exits_log;
	/*
	 * True while the thread is in the runtime's own code: a signal that comes then is kept
	 * until the next head. Where a gate has cleared it and is not yet in the cache,
	 * unit_is_code() is true, and unit_interrupt() knows what to do.
	 */
	bool inside;
	/*
	 * A signal is kept: signals_deliver() has to be called at the next head. A gate looks at
	 * it after the last C code and before it enters the cache.
	 */
	bool pending;
	/*
	 * With address filters, in the runtime's own code: tracing is on (filter.h). Indirect exits
	 * store it for the gate; wherever else C code is entered, the unit says it.
	 */
	bool traced;
	uint32_t exit;			/* CONTEXT_EXIT: for unit_before_branch() */
	const struct registers *resume; /* for gate_resume() */
	uint64_t target;		/* of a return, in its exit */
	/*
	 * Return addresses of calls that a decoder has on its stack, negated, and the code that
	 * leads to their units: a return to the last one is one bit of a TNT packet. returns_at:
	 * the last one, 8 times its index; the next one overwrites the oldest. RETURNS_NONE ends
	 * it: what lies behind that is not used any more. Decoders disagree about what a return
	 * with a TIP does to their stack (model/generator.h), so that it ends ours.
	 */
	uint32_t returns_at;
	uint64_t returns[RETURNS], return_code[RETURNS];

	struct runtime *runtime;
	struct native_thread *slot;
	struct log_position logs[NATIVE_LOGS];
	uint32_t guarded[NATIVE_LOGS]; /* so many chunks have their guard pages: ring.c */
	int32_t pid, tid;
	/* The next exit is to call interrupt(); set by unit_interrupt(). */
	bool poisoned;
	uint64_t real_log;	   /* the log's pointer while it is poisoned */
	struct signals *signals;   /* signals.c */
	struct syscalls *syscalls; /* syscalls.c */
	uint32_t cache_epoch;	   /* cache.epoch when it looked for a unit last */
	uint32_t cache_holds;	   /* how often this thread has the cache's lock: cache_lock() */
	struct context *next;	   /* runtime.contexts */
	uint32_t state;		   /* enum context_state */
	/*
	 * The thread is in a system call of the program that may wait for long: it does not come
	 * back to the cache without having looked whether the process leaves.
	 */
	bool in_call;
	bool listed;		      /* in runtime.contexts */
	bool discards;		      /* nobody reads what this thread writes: there is no slot */
	bool paused;		      /* nobody reads it for now: native_thread.paused */
	struct native_thread *unread; /* its slot then */
	struct native_thread
	    *stopped;	       /* its slot before it came into a stop range; NULL: it has not */
	uint32_t changes_seen; /* the last version of code whose time its log has: changes.c */
	struct step step;
	uint8_t *description;	 /* exits.c: room for a message */
	struct native_rseq rseq; /* that the program had registered when it was attached to */
	/*
	 * NATIVE_RESTART_...: when the recorder attached, it has interrupted the system call at
	 * this address, which is made again. 0: no.
	 */
	uint32_t interrupted;
	uint64_t interrupted_at;
	uint64_t stamp;			/* of the last TSC packet that packets.c has put in */
	uint64_t calls_head;		/* call_log.c: of native_thread, our own copy */
	bool call_logged;		/* the log has the call that is being made */
	struct sandbox_filter *sandbox; /* the newest that the thread has: sandbox.c */
};

/* What all threads of the process share. */
struct runtime {
	struct native_header *shared;
	uint64_t blob, blob_bytes;
	struct arena *arena;	   /* memory.c */
	struct cache *cache;	   /* cache.c */
	uint32_t cache_lock;	   /* cache_lock() */
	struct context *contexts;  /* of all threads; it only grows, with the cache's lock */
	struct context *looked_at; /* the one that context_take() looks at next; NULL: the first */
	uint32_t leaving;	   /* enum native_leaving: all threads have to (leave.c) */
	uint32_t out_event;	   /* futex: counted up by each thread that is out */
	uint32_t left;		   /* futex: all are out, the kernel has the program's handlers */
	bool guards_are_mappings;  /* memory_guard(): of the kernel's */
	uint32_t slots;		   /* that have been guarded then */
	bool lacks_slots;	   /* a note says that a thread is not recorded */
	uint8_t guarded[(NATIVE_THREADS + 7) / 8]; /* bit n: slot n has guard pages here */
	struct changes *changes;		   /* changes.c */
	struct filters *filters;		   /* filter.c; NULL: there are none */
	struct handlers *handlers;		   /* signals.c */
	bool serves_faults;	 /* the program serves faults (userfaultfd): unit_await_code() */
	bool attached;		 /* it has run before the recorder came */
	bool committed;		 /* NATIVE_MESSAGE_COMMITTED was sent */
	uint32_t denied;	 /* by filters of system calls: sandbox.h */
	uint32_t filters_before; /* so many of them the program has begun with */
	uint32_t flags;		 /* of native_handover.constants */
	uint8_t no_retcomp, tsc; /* likewise */
	uint32_t chunks, chunk_bytes; /* likewise */
	uint64_t began;		      /* likewise; 0: paths may lead the recorder to other files */
	struct native_control control;
};

/* What decoders have on their stacks is not known any more. */
static inline void returns_forget(struct context *c)
{
	c->returns_at = (c->returns_at + 8) % (8 * RETURNS);
	c->returns[c->returns_at / 8] = RETURNS_NONE;
}

/* memory.c: the runtime's own memory. NULL, 0: there is none. */
/*
 * n bytes, zeroed, never given back. Small amounts come from pages that are shared, and larger ones
 * begin and end with a page: there is one without access before and behind.
 */
void *memory_take(struct runtime *rt, size_t n);
/* Whole pages of the first thread, never given back, with the small amounts that come next. */
void *memory_take_first(struct runtime *rt, size_t n);
/* Whole pages, with a page without access before and behind. */
void *memory_map(struct runtime *rt, size_t n);
void memory_unmap(struct runtime *rt, void *address, size_t n);
/*
 * Lets the kernel make pages for memory that will soon be written to, in one call instead of a
 * fault for each page.
 */
void memory_ready(const struct runtime *rt, const void *at, size_t n);
/*
 * Writable and executable memory, all of it within 1 GB of `near`, so that displacements of the
 * program's code can be kept as 32 bits.
 */
uint8_t *memory_code(struct runtime *rt, uint64_t near, size_t n);
/*
 * Asks the kernel for large pages for memory that has no pages yet. To get 512 small ones and to
 * give them back takes 600 us, and a large one takes 50 to 300, which depends on what is in the
 * processor's caches (Linux 6.18, a virtual machine): so it is for what is soon filled.
 */
void memory_expect_large(const struct runtime *rt, const void *at, size_t n);
/* The same for memory of memory_code(), whatever it has there now. */
void memory_prefer_large(const struct runtime *rt, const uint8_t *at, size_t size);
/* Fills in native_control.ranges and range_count. */
void memory_control(struct runtime *rt);
/* Whether [address, address + n) overlaps memory of the runtime. */
bool memory_is_ours(const struct runtime *rt, uint64_t address, uint64_t n);

/* messages.c: sends a message to the recorder; waits while the ring is full. False: nobody reads.
 */
bool message_send(struct context *c, const struct native_message *m, const void *payload);
/*
 * Whether there is a recorder that takes what is written. Once it is not, nobody waits for it any
 * more. For those that wait; it makes a system call.
 */
bool recorder_is_alive(const struct context *c);
/* Sends it (NATIVE_MESSAGE_MAP or _EXEC), and waits until the recorder has answered. */
bool message_ask(struct context *c, const struct native_message *m, const void *payload);
/* The same, with a text as the payload. */
void message_text(struct context *c, uint32_t type, uint64_t address, const char *text);

/* The number of the thread's slot, if it has one. */
static inline unsigned slot_number(const struct context *c)
{
	return native_slot_from((uintptr_t)c->slot - (uintptr_t)c->runtime->shared);
}

/* ring.c: the logs. */
/*
 * The first chunks of the thread's slot, or of what it has instead, get their guard pages. False:
 * the process has no more mappings (vm.max_map_count).
 */
bool ring_guard(struct context *c);
/* Begins both logs of a thread in its slot; c->log and c->exits_log are their pointers then. */
void ring_begin(struct context *c);
/* There is something that it may take at once. */
void ring_wake_recorder(const struct context *c);
/*
 * Publishes what is before `end` in the current chunk of a log, waits for the next one to be free,
 * and returns where it begins.
 */
uint8_t *ring_next(struct context *c, unsigned log, const uint8_t *end);
/* The thread may wait for long: the recorder may take all that it has written. */
void ring_settle(struct context *c);
/* Whether the address is in the guard page behind the log's current chunk. */
bool ring_is_guard(const struct context *c, unsigned log, uint64_t address);
/* Publishes everything: the thread ends, or continues untraced. */
void ring_end(struct context *c);
/*
 * Publishes everything; what is written from here on is discarded. After ring_resume() it counts
 * again. Only between units. Both set c->log and c->exits_log.
 */
void ring_pause(struct context *c);
void ring_resume(struct context *c);
/*
 * The thread's logs end at `end`, and with c->exits_log; what it writes from now on is not read.
 * Returns where that goes.
 */
uint8_t *ring_stop(struct context *c, uint8_t *end);

/* call_log.c: see record/call_entry.h. */
struct call;
/*
 * The thread is about to make the call: TIP.PGD stands in the trace. c->stamp: the time of the TSC
 * packet that belongs to it; 0: there is none.
 */
void call_log_call(struct context *c, const struct call *call);
/*
 * It has returned, and TIP.PGE stands in the trace, with a TSC packet of the time c->stamp. Where
 * the log does not have the call, this is left out.
 */
void call_log_return(struct context *c, const struct call *call, int64_t result);
/* A thread or program begins at `ip`, after a call that others have made. */
void call_log_begin(struct context *c, uint64_t number, uint64_t ip);

/* pause.c */
/*
 * Whether the recorder wants the thread to pause, or to go on after a pause. Called at heads,
 * before the cache is entered.
 */
static inline bool pause_is_due(const struct context *c)
{
	const uint32_t *paused = &c->runtime->shared->paused;

	return !c->discards && c->paused != (__atomic_load_n(paused, __ATOMIC_SEQ_CST) != 0);
}
/* Does so. traced: tracing is enabled, before and after it; else TIP.PGD stands in the log. */
void pause_follow(struct context *c, uint64_t ip, bool traced);

/* packets.c: packets that are put in between units. Each returns the new end. */
/*
 * While address filters have tracing off, they leave out what is only there while it is on: MODE
 * and FUP of the PSB+, FUP, TIP.PGD.
 */
uint8_t *packets_psb(struct context *c, uint8_t *at, uint64_t ip); /* PSB+, with TSC, MODE, FUP */
/* Where tracing is not enabled: PSB+ with TSC, and the MODE packet of the TIP.PGE that follows. */
uint8_t *packets_psb_disabled(struct context *c, uint8_t *at);
/* A log begins with a PSB+ at this address. */
uint8_t *packets_begin(struct context *c, uint8_t *at, uint64_t ip);
/* TIP.PGE, if the filters let `ip` be traced. In a stop range, the trace ends there. */
uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip);
/* The time, and TIP.PGD without an IP. */
uint8_t *packets_disable(struct context *c, uint8_t *at);
/* An asynchronous event at `ip`: TSC, FUP, TIP.PGD. */
uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip);
/* FUP, TIP.PGD, TSC and TIP.PGE at a head: a time, at which tracing stays as it is. */
uint8_t *packets_mark(struct context *c, uint8_t *at, uint64_t ip);
/* TraceStop, at the end of the thread's trace. Tracing is off. */
uint8_t *packets_stop(struct context *c, uint8_t *at);
/* What a taken branch stores besides TNTs, if tracing is on before it and after it as given. */
#define PACKETS_BRANCH 9
unsigned packets_branch(uint8_t bytes[PACKETS_BRANCH], bool before, bool after, bool indirect,
			uint64_t target);
/*
 * Stores ready-made packets. The recorder looks at packets that are just being written
 * (streams.c): they appear there in their order. Returns where they end.
 */
uint8_t *packets_put(uint8_t *at, const uint8_t *bytes, unsigned n);
#define PACKETS_MAX	 64 /* the most bytes that one of them writes */
#define PACKETS_OUTCOMES 16 /* and that unit_cut() writes before it */
/* Makes room for both at c->log: changes chunks if need be. Only between units. */
uint8_t *packets_room(struct context *c, uint64_t ip);

/* gates.c: a thread begins: its gates and its table of indirect targets. */
void unit_begin(struct context *c);
/*
 * An indirect branch has met zeros in the thread's table, and is at address 0: the page of the
 * table that has this target is filled. Returns where the thread goes on instead.
 */
uint64_t unit_fill_table(struct context *c, uint64_t target);
/* Fills all of all threads' tables, with the cache's lock: there will be code at address 0. */
void unit_fill_tables(struct context *c);
/* cache.c, path.c, block.c: units. */
/* The cache address at which the unit of this head begins; makes it if there is none. 0: `leave`.
 */
uint64_t unit_enter(struct context *c, uint64_t head);
/*
 * The cache's lock: of its units and their memory, of runtime.contexts, and of every thread's table
 * of indirect targets; of the program's code, which is not changed by the runtime while it is
 * read; and of changes.c. The thread that has it may take it again. In the kernel's handler it is
 * only taken for a fault of a unit or of signals_copy() (changes_give_back()), so that a signal
 * that comes to its holder finds no deadlock; what a handler needs of the cache (unit_is_code(),
 * unit_state() and others) is read without it. Its holder may wait for the recorder, which waits
 * for nobody.
 */
void cache_lock(struct context *c);
void cache_unlock(struct context *c);
/* Forgets all units with code in [start, end): it changed or was unmapped. */
void unit_forget(struct context *c, uint64_t start, uint64_t end);
/* Whether the address is in the cache. */
bool unit_is_code(const struct runtime *rt, uint64_t address);
/* Whether the unit there was forgotten: what it does next may not be what the program's code is. */
bool unit_is_forgotten(const struct runtime *rt, uint64_t address);
/*
 * For a thread whose RIP is in the cache, with the kernel's registers: lets its next exit fault, so
 * that it comes to unit_log_fault(). *r11: its register R11, which may be replaced.
 */
void unit_interrupt(struct context *c, uint64_t rip, uint64_t *r11);
/*
 * A store to the log faulted at `registers`, which are those of the kernel's signal frame: a guard
 * page, or a poisoned pointer. If it is an exit's store, changes chunks and sets *r so that the
 * exit is taken again, and returns true. *head: when the pointer was poisoned, the program is now
 * exactly before the instruction at *head, *r are the program's registers there, and c->log is the
 * log's pointer; else 0.
 */
bool unit_log_fault(struct context *c, struct registers *r, uint64_t address, uint64_t *head);
/*
 * pcmap.c. The program's registers at the instruction that was running at cache address r->rip.
 * False: the address is not one at which an instruction of the program begins or faults (within an
 * exit's own code: then the exit has not been taken yet, and *r is the state before its branch if
 * `exact` is false on return). In both cases c->log is the log's pointer afterwards, not poisoned.
 */
bool unit_state(struct context *c, struct registers *r);
/*
 * A unit ends before its exit, because the program's instruction at this cache address faulted:
 * writes the packets of what ran before it in the unit (and, with NATIVE_TRUTH, an exit that
 * describes it) at c->log, and moves the pointer. Makes room for PACKETS_MAX bytes behind it.
 */
void unit_cut(struct context *c, uint64_t cache_address);
/*
 * *r are the program's registers behind the last indirect branch, whose TIP is not written: takes
 * the branch back, because it faults. False: it is not known which one it was.
 */
bool unit_before_branch(struct context *c, struct registers *r);

/*
 * step.c: around an instruction that is carried out natively at r->rip, with TF; the packets lead
 * there already. After it, the program goes on at the head r->rip; or it leaves, when the
 * instruction has no encoding and ran all the same, because no decoder goes past it.
 */
void step_begin(struct context *c, const struct registers *r);
void step_end(struct context *c, const struct registers *r);
/*
 * The instruction at r->rip is not translated. Without an encoding it should fault, which only the
 * processor knows: it is carried out natively. Another one is named, and the program left before
 * it.
 */
_Noreturn void step_unknown(struct context *c, const struct registers *r);

/*
 * signals.c: carries out the instruction at r->rip natively, as step_begin() has it, so that the
 * processor says what it does.
 */
_Noreturn void signals_step(struct context *c, const struct registers *r);

/* gates.S: enters the cache with the program's registers; does not return. */
_Noreturn void gate_resume(struct context *c, const struct registers *r, uint64_t cache_address);
/* syscalls.c: called by the gate with the program's registers before a SYSCALL; carries it out. */
void syscall_gate(struct context *c, struct registers *r);

/*
 * signals.c. The program's handlers, masks and alternate stacks are virtual where the runtime needs
 * the kernel's for itself; everything else stays the kernel's.
 */
/* The first thread of the process begins: takes over what the process has inherited. */
void signals_begin(struct context *c);
/*
 * The same in a program that runs already, in two parts: the first one asks for the handlers, and
 * changes nothing yet; false: there is no memory. In both all signals are blocked.
 */
bool signals_attach(struct context *c, uint64_t mask);
void signals_attach_all(struct context *c);
/* Of another thread that runs already, before it runs: `from` is the one of the two above. */
void signals_attach_other(struct context *c, const struct context *from, uint64_t mask);
/* In each thread, when all others can begin, too. A signal may come after it. */
void signals_attach_thread(struct context *c);
/*
 * In the thread `parent`, for the one that it is about to start with these flags of clone(), which
 * will run on the context c. False: there is no memory.
 */
bool signals_prepare_thread(struct context *c, const struct context *parent, uint64_t clone_flags);
/*
 * In the new thread, before its first instruction. All signals are blocked until then, as they were
 * in its parent when it was started.
 */
void signals_begin_thread(struct context *c);
/* In the child of fork() or vfork(), on a context of its own: nothing is pending there. */
void signals_forked(struct context *c);
/* If a filter has made SIGSYS of the call of which `next` is the end, the signal comes from there. */
void signals_place_trap(struct context *c, uint64_t next);
/* Blocks all signals of this thread, and sets the program's mask again. Not nested. */
void signals_hold(struct context *c);
void signals_release(struct context *c);
/*
 * Before execve: what the next program inherits (mask, ignored signals) becomes the
 * kernel's; and back again if execve failed.
 */
void signals_exec(struct context *c);
void signals_exec_failed(struct context *c);
/*
 * Carries out r's system call in the kernel; call: its number and the six arguments, which
 * the caller may have changed. False: a signal came before it, or interrupted it in such a
 * way that it has to be made again: the program is still before its SYSCALL instruction, *r
 * stays as it is, and the caller goes on as at any head, which delivers the signal. All
 * system calls of the program that can wait have to be made here, or a signal that comes
 * just before them waits, too.
 */
bool signals_call(struct context *c, const uint64_t call[7], int64_t *result);
/*
 * Carries out the system call r->general[0], if it is one of the following, and changes *r
 * as the call does (RAX, RCX, R11, RIP); false: it is another one. rt_sigaction,
 * rt_sigprocmask, sigaltstack, rt_sigreturn, rt_sigsuspend, rt_sigpending, rt_sigtimedwait,
 * ppoll, pselect6, epoll_pwait, epoll_pwait2. (signalfd and signalfd4 can be passed.) It
 * does not return from rt_sigreturn: that goes on at signals_head().
 */
bool signals_syscall(struct context *c, struct registers *r);
/*
 * Between two instructions of the program, in the runtime: delivers what is kept, as the
 * kernel does when it returns to a program: *r is then the first instruction of the
 * handler. Writes no packets: after a system call, TIP.PGD stands in the log already, and
 * TIP.PGE with r->rip follows. True: *r has changed.
 */
bool signals_deliver(struct context *c, struct registers *r);
/* The same at a head while tracing is enabled: writes FUP, TIP.PGD and TIP.PGE. */
bool signals_interrupt(struct context *c, struct registers *r);
/*
 * The program goes on at r->rip: delivers what is kept, and enters the cache. traced: false
 * after a system call: TIP.PGE is yet to be written.
 */
_Noreturn void signals_head(struct context *c, struct registers *r, bool traced);
/*
 * There is no code that can be read at r->rip: goes there natively, so that the processor
 * and the kernel say what is wrong, and delivers that signal.
 */
_Noreturn void signals_no_code(struct context *c, struct registers *r);
/* Sends a signal that is not the program's, so that the thread comes to a head soon. */
void signals_stop(const struct context *c, const struct context *other);
/* Gives the kernel the program's handlers. No thread of the process is in the cache any more. */
void signals_restore(struct context *c);
/*
 * Gives the kernel the program's handlers (unless runtime.left), mask, alternate stack and pending
 * signals, and goes on natively with these registers; GS becomes 0. For leave().
 */
_Noreturn void signals_leave(struct context *c, const struct registers *r);
/*
 * All signals are blocked from here on. Gives the kernel what it is to have of this thread but for
 * the mask, which *mask becomes, and the registers.
 */
void signals_give_back(struct context *c, uint64_t *mask);

/* leave.c */
/*
 * Ends the trace before the instruction at r->rip and lets the program run on untraced. Before
 * anything outside has seen it run, asks the recorder to start it again with another recorder.
 * why: a sentence without a full stop.
 */
_Noreturn void leave(struct context *c, struct registers *r, const char *why);
/*
 * Where another thread leaves, this one has to, too: the kernel has one set of handlers for all.
 * Called at a head, after the last look at signals and before the cache is entered. Tracing is
 * enabled.
 */
static inline bool leave_is_due(const struct context *c)
{
	return __atomic_load_n(&c->runtime->leaving, __ATOMIC_SEQ_CST);
}
_Noreturn void leave_too(struct context *c, struct registers *r);
/* Maps nothing in the place of the shared memory: the process runs on untraced. */
void leave_memory(struct context *c);
/* Where a thread goes on that the recorder holds in a system call of the program. */
_Noreturn void leave_held(struct context *c);
/* Something is wrong with the runtime itself. */
_Noreturn void leave_broken(struct context *c, const char *what);

/* start.c */
_Noreturn void start(struct native_handover *h);
/* attach.c: what start() does in a program that runs already. */
_Noreturn void attach_run(struct context *c, const struct native_handover *h);
/* Fills in runtime.control. */
void attach_control(struct runtime *rt);

#endif
