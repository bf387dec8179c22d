/* SPDX-License-Identifier: MIT */
/*
 * How QEMU is started so that the program in it sees the arguments and the
 * environment that it was given, and QEMU itself is not changed by them. For
 * the recorder, and for the plugin when the program calls execve.
 */
#ifndef PTAH_RECORD_QEMU_LAUNCH_H
#define PTAH_RECORD_QEMU_LAUNCH_H

#include "record/command.h"

/* The value of an option of -plugin, with its commas doubled. Free it. NULL: out of memory. */
char *launch_quote(const char *text);

/*
 * QEMU's arguments and environment. The arrays are to be freed, not what they
 * lead to: that is the caller's. `plugin`: the value of -plugin. `repeatable`:
 * what QEMU gives a program to begin its randomness with (AT_RANDOM) is the same
 * each time. NULL: out of memory.
 */
char **launch_arguments(const char *qemu, const char *plugin, const struct command *command,
			char *const *environment, bool repeatable);
char **launch_environment(char *const *environment);

#endif
