/* SPDX-License-Identifier: MIT */
/* What waits are called in the output: their causes, and the functions on their stacks. */
#ifndef PTAH_OUTPUT_WAIT_NAMES_H
#define PTAH_OUTPUT_WAIT_NAMES_H

#include "output/names.h"

#include <ptah/calls.h>
#include <ptah/waits.h>

#define WAIT_TEXT 512

/* The variable at an address of a process. */
struct wait_variable {
	int32_t pid;
	uint64_t address;
	char text[128]; /* "": none is known */
};

#define WAIT_VARIABLES 64

struct wait_names {
	struct ptah_waits *waits;
	struct names *names;
	const struct ptah_session *session;
	/* Those that were looked up last. */
	struct wait_variable variables[WAIT_VARIABLES];
	size_t variable_count;
};

/*
 * What a wait was for: "mutex", "condition variable", "pipe", "read": a futex is called after the
 * function of the C library that waits at it. The text is constant.
 */
const char *wait_cause(const struct wait_names *w, size_t i, const struct ptah_wait *wait);

/*
 * Writes the functions of the program itself, the innermost first: "critical < work". `most`: so
 * many of them. Returns `text`, which is "" if none is known.
 */
const char *wait_functions(const struct wait_names *w, size_t i, enum ptah_wait_stack which,
			   unsigned most, char text[WAIT_TEXT]);

/*
 * Writes what is waited for, so that waits for the same have the same text: "0x4040c0" for a
 * futex, "[3]" for the third pipe or socket. "": nothing in particular.
 */
const char *wait_object(const struct ptah_wait *wait, char text[WAIT_TEXT]);

/*
 * The same with the name of a variable of the program at a futex's address, if its file has one:
 * "stock (0x4040c0)", "table+0x40 (0x404100)".
 */
const char *wait_object_name(struct wait_names *w, size_t i, const struct ptah_wait *wait,
			     char text[WAIT_TEXT]);

#define WAIT_NAME 128

/* Writes the cause with the object: "mutex stock (0x4040c0)". Returns `text`. */
const char *wait_name(struct wait_names *w, size_t i, const struct ptah_wait *wait,
		      char text[WAIT_NAME]);

#define WAIT_END (WAIT_TEXT + 64)

/*
 * How a wait ended, with names of functions as they are: "until 30464 gave it back in critical <
 * work". Returns `text`, or a constant.
 */
const char *wait_end(const struct wait_names *w, size_t i, const struct ptah_wait *wait,
		     char text[WAIT_END]);

/* " (or others)" where several threads may have ended the wait: it belongs behind each waker. */
#define WAIT_OR_OTHERS " (or others)"
const char *wait_or_others(const struct ptah_wait *wait);

/* Whether a function of this name is on the waiting thread's stack. */
bool wait_is_in(const struct wait_names *w, size_t i, const char *function);

/* Whether the wait is for the mutex of a condition variable, after the wait `before` for that. */
bool wait_continues(const struct wait_names *w, size_t i, size_t before);

/*
 * When a thread ended whose last time in the trace is `tsc`, for `ended` of struct
 * ptah_call_reader_config: if it waits then, with its wait, or with the session's window. 0: at `tsc`.
 */
uint64_t wait_end_of_thread(const struct ptah_waits *waits, const struct ptah_session *session,
			    const struct ptah_call_thread *thread, uint64_t tsc);

#endif
