/* SPDX-License-Identifier: MIT */
/* Signals that end a command: Ctrl-C, SIGTERM, SIGHUP. */
#ifndef PTAH_CLI_INTERRUPT_H
#define PTAH_CLI_INTERRUPT_H

#include <stdbool.h>

/*
 * From now on the first Ctrl-C, SIGTERM or SIGHUP only sets interrupted(). input_open() does it;
 * commands that open no session do before they create a file.
 */
void input_watch_signals(void);

/*
 * Whether the command is in work that does not look at interrupted(), and has written nothing that
 * would be left behind: half a second after the first signal the process ends.
 */
void interrupt_opening(bool opening);

/* Whether Ctrl-C has been pressed. The command then completes what it has begun, and ends. */
bool interrupted(void);

/* The exit code of a command that a signal ended, as shells report it; 0: none has come. */
int interrupted_status(void);

/*
 * A command that records calls this in its handlers: after the signal `number` it waits for nobody,
 * and what waits is woken. watch_timer() is called before such a handler is installed.
 */
void watch_timer(void);
void begin_ending(int number);

/*
 * Whether a command that is ending is to wait no longer for a consumer of its output that takes
 * nothing: it has had a second. output_given_up() is a callback of out_set_given_up(): a pager is
 * ended by SIGTERM and SIGHUP, and not by Ctrl-C, which is meant for it.
 */
bool consumer_given_up(void);
bool output_given_up(bool pager);

#endif
