/* SPDX-License-Identifier: MIT */
/*
 * A program's own list of its calls: what the tests of calls compare with.
 *
 * With -finstrument-functions gcc calls the log at the beginning and the end of every function. The
 * list is kept in memory, one for each thread, and written to $CALL_LOG.PID at exit. What gcc
 * cannot log (longjmp leaves functions without their ends) the program states by the functions
 * below; they cost nothing in the list: functions without a log are left out of the comparison.
 * Signal handlers have names that begin with "on_".
 */
#ifndef CALL_LOG_H
#define CALL_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

#define QUIET	 __attribute__((no_instrument_function))
#define NOINLINE __attribute__((noinline, noclone))

/* For functions without instrumentation: assembly, and those that end by a tail call. */
QUIET void calls_enter(const void *function);
QUIET void calls_exit(const void *function);

/* The same, for languages in which a function has no address: that of the code that calls. */
QUIET void calls_enter_here(void);
QUIET void calls_exit_here(void);

/* The function leaves by a jump: it ends together with the function that it jumps to. */
QUIET void calls_tail(const void *function);

/* The position in the list; and: what was entered after that position and is open has ended. */
QUIET unsigned long calls_mark(void);
QUIET void calls_unwind(unsigned long mark);

/* The thread continues on stack `number`; it began on 0. */
QUIET void calls_switch(unsigned long number);

/* In the child of fork(): the functions that are open were called before its trace began. `logged`:
 * the function that called fork() is one of the log. */
QUIET void calls_forked(int logged);

/* The process executes another program next: writes the lists. */
QUIET void calls_execute(void);

/* Writes the lists, before an object is unloaded. */
QUIET void calls_write(void);

#ifdef __cplusplus
}
#endif
#endif
