/* SPDX-License-Identifier: MIT */
/* Shows an address in the user's browser. */
#ifndef PTAH_CLI_BROWSER_H
#define PTAH_CLI_BROWSER_H

#include <stdbool.h>

/*
 * Whether there is a browser to be opened: $BROWSER names one, or there is a screen. Without a
 * screen xdg-open would start a browser for terminals, or fail.
 */
bool browser_expected(void);

/*
 * Starts $BROWSER, a command with %s for the address or before it (of several with colons between
 * them the first one), or else xdg-open, and does not wait. It gets no Ctrl-C of this terminal and
 * writes nothing on it. 0, or an errno value.
 */
int browser_open(const char *address);

#endif
