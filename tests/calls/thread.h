/* SPDX-License-Identifier: MIT */
/*
 * What a thread ran, as a line of text, and the calls that a machine finds in it, as another.
 * Tracing starts before a block that is the first word.
 *
 * An instruction has 2 bytes. The text is words, each a block or an event:
 *
 *	A3+2c		the 2 instructions of function A from number 3 on, of which the last is a
 *			call: . other, c call, C indirect call, r return, j jump, J indirect jump,
 *			b conditional branch, s system call, S return from one
 *	off, off>A3	tracing stops at the last branch; it went to A3
 *	on		tracing starts
 *	async@A3	an interrupt before A3, and tracing stops
 *	irq@A3>U0	an interrupt before A3, and the kernel at U0 is traced
 *	abort@A3>A9	a transaction is aborted before A3 and falls back to A9
 *	ovf@A3		overflow; execution continues at A3
 *	err, err@N3	an error; code is missing at N3
 *	gap		branches that are in no packet
 *	exec, lost	calls_marks_exec(), calls_marks_lost()
 *
 * Functions: A to K plain, with a cold part (a to k) elsewhere, K right behind J; L is a piece
 * without a parent; M, N and O have no bounds; P and Q are stubs; R exchanges stacks, S is
 * _Unwind_Resume, T setjmp; U to Z are the kernel's.
 *
 * The calls: "A+call" begins a call of A, "A-return" ends it; after the word stand flags: ~ its
 * beginning was not seen, ! a loss lies within it, ? unsure, f folded, r restorer.
 */
#ifndef PTAH_TESTS_CALLS_THREAD_H
#define PTAH_TESTS_CALLS_THREAD_H

#include <stdint.h>

#include "calls/calls.h"

#include <ptah/calls.h>

/* A calls_function_finder for these functions. */
bool thread_find(void *context, unsigned space, uint64_t ip, uint64_t tsc,
		 struct ptah_function *function);

/*
 * Runs the machine over `text`, with several cuts, and compares what it finds with `expected`. Also
 * checks what is true of all marks: nesting, depth, sums.
 */
void thread_expect(const struct calls_config *config, const char *text, const char *expected);

/* The same for items, without an expectation. Returns the number of marks. */
size_t thread_check(const struct calls_config *config, const struct ptah_item *items, size_t count);

#endif
