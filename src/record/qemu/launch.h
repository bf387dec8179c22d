/* SPDX-License-Identifier: MIT */
/*
 * Starts QEMU so that the program in it sees the arguments and the environment that it was given,
 * and so that these do not change QEMU itself. Used by the recorder, and by the plugin when the
 * program calls execve.
 */
#ifndef PTAH_RECORD_QEMU_LAUNCH_H
#define PTAH_RECORD_QEMU_LAUNCH_H

#include "record/command.h"

/*
 * The value of an option of -plugin, with each comma doubled. The caller frees it. NULL: out of
 * memory.
 */
char *launch_quote(const char *text);

/*
 * The arguments and the environment of QEMU. The caller frees the arrays but not the strings in
 * them, which belong to the arguments of these functions. plugin: the value of -plugin. repeatable:
 * the bytes that QEMU gives a program for its random numbers (AT_RANDOM) are the same each time.
 * NULL: out of memory.
 */
char **launch_arguments(const char *qemu, const char *plugin, const struct command *command,
			char *const *environment, bool repeatable);
char **launch_environment(char *const *environment);

#endif
