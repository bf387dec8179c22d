/* SPDX-License-Identifier: MIT */
/* Terminals: when there are colours, how wide they are, and the pager that shows long output. */
#ifndef PTAH_OUTPUT_PAGER_H
#define PTAH_OUTPUT_PAGER_H

#include "output/out.h"

/* The words of --color, in this order. */
enum color_when {
	COLOR_AUTO,
	COLOR_ALWAYS,
	COLOR_NEVER
};

/*
 * How text on the file descriptor `fd` looks. COLOR_AUTO: colours on a terminal, but not if TERM is
 * unset or "dumb", or NO_COLOR is set to something. The columns are those of COLUMNS, else those
 * that the terminal has, else 80.
 */
void terminal_look(int fd, enum color_when when, struct out_look *look);

/*
 * The pager for standard output: PTAH_PAGER, else PAGER, else less. NULL: none, because standard
 * output is no terminal or a dumb one, or the pager is "" or cat.
 */
const char *pager_command(void);

/*
 * Starts the pager. *fd: what is written there it shows; if standard error is a terminal, it shows
 * that too. less gets its options from LESS, and FRX if LESS is not set: it ends at once if all
 * fits on the screen, passes colours on, and leaves the text there. Returns NULL, and leaves *fd,
 * if the pager cannot be started.
 */
struct pager;
struct pager *pager_start(const char *command, int *fd);

/* Asks the pager to end (SIGTERM). */
void pager_end(const struct pager *pager);

/*
 * Waits until the user has left the pager. The caller has closed the pager's fd. When a signal ends
 * the waiting, and `given_up` (NULL: never) returns true, the pager is asked to end. `pager` may be
 * NULL: nothing.
 */
void pager_wait(struct pager *pager, bool (*given_up)(bool pager));

#endif
