/* SPDX-License-Identifier: MIT */
/* --since, --until and --around: which part of a recording is decoded. */
#ifndef PTAH_CLI_WINDOW_H
#define PTAH_CLI_WINDOW_H

#include "input.h"

/* Whether any of the options is given. */
bool window_is_wanted(const struct input *input);

/* Whether they give times, and not instructions. */
bool window_has_times(const struct input *input);

/*
 * Sets the session's window. Returns an exit code; if it is not 0, a message has been printed: the
 * recording has no times, or nothing of the trace is inside.
 */
int window_set(const struct command *command, const struct input *input,
	       struct ptah_session *session);

#endif
