/* SPDX-License-Identifier: MIT */
/*
 * Runs a program under the runtime's signals without a translator: the "cache" is the program's own
 * code, so cache addresses are the program's. A program is a function of the test; it makes system
 * calls by program_call() alone. Each program runs in a process of its own, natively or under the
 * runtime, and writes what it has seen into `seen`, which both have in common with the test.
 */
#ifndef PTAH_TESTS_RECORD_NATIVE_SIGNAL_PROGRAM_H
#define PTAH_TESTS_RECORD_NATIVE_SIGNAL_PROGRAM_H

#include "record/native/runtime/signals.h"

#define PROGRAM_STACK_BYTES (256u << 10)
#define SEEN_NUMBERS	    512

/* Where a signal came, in terms of packets. */
enum packet_kind {
	PACKETS_ROOM = 1,
	PACKETS_CUT,
	PACKETS_ASYNC,
	PACKETS_DISABLE,
	PACKETS_ENABLE
};

struct packet {
	uint64_t kind, ip;
};

struct seen {
	/* For assembly: registers in the order of struct registers (RFLAGS last, RIP not). */
	uint64_t entry[17]; /* of a handler */
	uint64_t after[17]; /* when it has returned */
	_Alignas(64) uint8_t entry_fp[512], after_fp[512];

	uint64_t count;
	int64_t numbers[SEEN_NUMBERS]; /* program_note() */
	struct packet packets[SEEN_NUMBERS];
	uint64_t packet_count;
	uint64_t frame_at, frame_bytes;
	uint8_t frame[16384];
	uint64_t message[3]; /* type, value, address */
};

#define SEEN_AFTER    136
#define SEEN_ENTRY_FP 320
#define SEEN_AFTER_FP 832

_Static_assert(offsetof(struct seen, after) == SEEN_AFTER, "");
_Static_assert(offsetof(struct seen, entry_fp) == SEEN_ENTRY_FP, "");
_Static_assert(offsetof(struct seen, after_fp) == SEEN_AFTER_FP, "");

/* Whether a program can run under the runtime here: GS has to be set by WRGSBASE. */
bool program_can_run(void);

/*
 * Runs the program from these registers on; RSP 0: at the end of a stack of its own. What it has
 * written there before is overwritten. Returns the status of waitpid().
 */
int program_run(const struct registers *r, bool native, struct seen *seen);
/* The same from a function without arguments on, whose return ends the program. */
int program_run_function(void (*function)(void), bool native, struct seen *seen);

/*
 * Runs it natively and here, each in a process of its own. Returns the status, or -1 if the two
 * differ. What they have seen is kept.
 */
int program_run_both(void (*function)(void));
struct seen *program_natively(void);
struct seen *program_here(void);
/* For cmocka: before the first of them. */
int program_setup(void **state);

/* For programs */
extern struct seen *program_seen;
extern const uint64_t program_stack_end;
int64_t program_call(uint64_t number, ...);
void program_note(int64_t number);
_Noreturn void program_end(void);
void program_restorer(void);

#endif
