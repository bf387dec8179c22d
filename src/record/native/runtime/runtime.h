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
 * (PSB+, FUP, PGD, PGE, MODE, TSC) is only ever put in there.
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct context;
struct runtime;
struct unit;

/* The program's registers at a boundary of two instructions. */
struct registers {
	uint64_t general[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t rip, rflags;
};

/*
 * Offsets from GS, for generated code and assembly. INDIRECT is a table of 65,536 cache addresses,
 * by the low 16 bits of the target.
 */
#define CONTEXT_SELF	      0x00
#define CONTEXT_RCX	      0x08 /* the program's, in exits */
#define CONTEXT_RAX	      0x10 /* the program's, in exits */
#define CONTEXT_LOG	      0x18 /* the log's pointer, in units that use R11 */
#define CONTEXT_R11	      0x20 /* the program's, in all others */
#define CONTEXT_GATE_EXIT     0x28 /* addresses of gates.S */
#define CONTEXT_GATE_INDIRECT 0x30
#define CONTEXT_GATE_SYSCALL  0x38
#define CONTEXT_CONTINUE      0x40 /* where a gate jumps to when it is done */
#define CONTEXT_RSP	      0x48 /* the program's, in gates */
#define CONTEXT_STACK	      0x50 /* end of the runtime's stack */
#define CONTEXT_EXITS_LOG     0x58 /* pointer of the second log (NATIVE_TRUTH) */
#define CONTEXT_INDIRECT      0x1000
#define CONTEXT_INDIRECT_BITS 16
#define CONTEXT_BYTES	      (CONTEXT_INDIRECT + (8u << CONTEXT_INDIRECT_BITS))

struct log_position {
	uint8_t *chunk;	 /* the chunk that is being written, in this process */
	uint64_t number; /* its number */
};

struct context {
	struct context *self;
	uint64_t rcx, rax, log, r11;
	uint64_t gate_exit, gate_indirect, gate_syscall;
	uint64_t continue_at, rsp, stack, exits_log;

	struct runtime *runtime;
	struct native_thread *slot;
	struct log_position logs[NATIVE_LOGS];
	int32_t pid, tid;
	/*
	 * True while the thread is in the runtime's own code: a signal that comes then is kept
	 * until the next head.
	 */
	bool inside;
	/* The next exit is to call interrupt(); set by unit_interrupt(). */
	bool poisoned;
	uint64_t real_log;	   /* the log's pointer while it is poisoned */
	struct signals *signals;   /* signals.c */
	struct syscalls *syscalls; /* syscalls.c */
	void *program_gs_unused;
	uint64_t reserved[16];
};

/* What all threads of the process share. */
struct runtime {
	struct native_header *shared;
	uint64_t blob, blob_bytes;
	struct arena *arena;	   /* memory.c */
	struct cache *cache;	   /* cache.c */
	struct handlers *handlers; /* signals.c */
	bool committed;		   /* NATIVE_MESSAGE_COMMITTED was sent */
	uint32_t flags;		   /* native_header.flags, our copy */
	uint8_t no_retcomp, tsc;   /* likewise */
};

/* memory.c: the runtime's own memory. NULL, 0: there is none. */
/* n bytes, zeroed, never given back. Small amounts come from pages that are shared. */
void *memory_take(struct runtime *rt, size_t n);
/* Whole pages, with a page without access before and behind. */
void *memory_map(struct runtime *rt, size_t n);
void memory_unmap(struct runtime *rt, void *address, size_t n);
/*
 * Writable and executable memory, all of it within 2 GB of `near`, so that displacements of the
 * program's code can be kept as 32 bits.
 */
uint8_t *memory_code(struct runtime *rt, uint64_t near, size_t n);
/* Whether [address, address + n) overlaps memory of the runtime. */
bool memory_is_ours(const struct runtime *rt, uint64_t address, uint64_t n);

/* messages.c: sends a message to the recorder; waits while the ring is full. False: nobody reads.
 */
bool message_send(struct context *c, const struct native_message *m, const void *payload);
/* Sends it, and waits until the recorder has answered. */
bool message_ask(struct context *c, const struct native_message *m, const void *payload);
/* The same, with a text as the payload. */
void message_text(struct context *c, uint32_t type, uint64_t address, const char *text);

/* ring.c: the logs. */
/* Begins both logs of a thread in its slot; c->log and c->exits_log are their pointers then. */
void ring_begin(struct context *c);
/*
 * Publishes what is before `end` in the current chunk of a log, waits for the next one to be free,
 * and returns where it begins.
 */
uint8_t *ring_next(struct context *c, unsigned log, const uint8_t *end);
/* Whether the address is in the guard page behind the log's current chunk. */
bool ring_is_guard(const struct context *c, unsigned log, uint64_t address);
/* Publishes everything: the thread ends, or continues untraced. */
void ring_end(struct context *c);

/* packets.c: packets that are put in between units. Each returns the new end. */
uint8_t *packets_psb(struct context *c, uint8_t *at, uint64_t ip); /* PSB+, with TSC, MODE, FUP */
uint8_t *packets_enable(struct context *c, uint8_t *at, uint64_t ip); /* TIP.PGE */
uint8_t *packets_disable(struct context *c, uint8_t *at);	      /* TIP.PGD without an IP */
/* An asynchronous event at `ip`: FUP, TIP.PGD. */
uint8_t *packets_async_disable(struct context *c, uint8_t *at, uint64_t ip);
#define PACKETS_MAX 64 /* the most bytes that one of them writes */
/* Makes room for PACKETS_MAX bytes at c->log: changes chunks if need be. Only between units. */
uint8_t *packets_room(struct context *c, uint64_t ip);

/* cache.c, block.c, trace.c: units. */
/* The cache address at which the unit of this head begins; makes it if there is none. 0: `leave`.
 */
uint64_t unit_enter(struct context *c, uint64_t head);
/* Forgets all units with code in [start, end): it changed or was unmapped. */
void unit_forget(struct context *c, uint64_t start, uint64_t end);
/* Whether the address is in the cache. */
bool unit_is_code(const struct runtime *rt, uint64_t address);
/*
 * For a thread whose RIP is in the cache, with the kernel's registers: lets its next exit fault, so
 * that it comes to unit_boundary(). *r11: its register R11, which may be replaced.
 */
void unit_interrupt(struct context *c, uint64_t rip, uint64_t *r11);
/*
 * A store to the log faulted at `registers`, which are those of the kernel's signal frame: a guard
 * page, or a poisoned pointer. If it is an exit's store, changes chunks and sets *r so that the
 * exit is taken again, and returns true. *head: when the pointer was poisoned, the program is now
 * exactly before the instruction at *head, and *r are the program's registers there; else 0.
 */
bool unit_log_fault(struct context *c, struct registers *r, uint64_t address, uint64_t *head);
/*
 * pcmap.c. The program's registers at the instruction that was running at cache address r->rip.
 * False: the address is not one at which an instruction of the program begins or faults (within an
 * exit's own code: then the exit has not been taken yet, and *r is the state before its branch if
 * `exact` is false on return).
 */
bool unit_state(struct context *c, struct registers *r);

/* gates.S: enters the cache with the program's registers; does not return. */
_Noreturn void gate_resume(struct context *c, const struct registers *r, uint64_t cache_address);
/* gates.S: continues natively with these registers; GS becomes 0. */
_Noreturn void gate_native(struct context *c, const struct registers *r);

/* syscalls.c: called by the gate with the program's registers before a SYSCALL; carries it out. */
void syscall_gate(struct context *c, struct registers *r);
/* Whether a call of this number has an effect outside of the process. */

/* signals.c */
void signals_begin(struct context *c);
/* At a head: delivers what is pending, which changes *r. */
void signals_deliver(struct context *c, struct registers *r);

/* leave.c */
/*
 * Ends the trace before the instruction at r->rip and lets the program run on untraced. Before
 * anything outside has seen it run, asks the recorder to start it again with another recorder.
 * why: a sentence without a full stop.
 */
_Noreturn void leave(struct context *c, struct registers *r, const char *why);
/* Something is wrong with the runtime itself. */
_Noreturn void leave_broken(struct context *c, const char *what);

/* start.c */
_Noreturn void start(struct native_handover *h);

#endif
