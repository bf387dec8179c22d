/* SPDX-License-Identifier: MIT */
/* The options that describe a raw trace: --pt, and those that belong to it. */
#ifndef PTAH_CLI_SET_OPTIONS_H
#define PTAH_CLI_SET_OPTIONS_H

#include "input.h"

/* Whether the option says where code lay. */
bool set_option_is_code(const struct set_option *option);

/* The first option that adds code to a set that is named by its path, a ptah.trace or a folder; or
 * NULL. */
const struct set_option *set_options_add_code(const struct input *input);

/*
 * Makes a trace set of the options, which the caller frees; without --pt it has no stream, or those
 * of the set to which the options add code. `cpu` is
 * that of --processor. Fills in *processor, whose clocks also count for a recording. Some options
 * set members of *input. Returns an exit code; if it is not 0, a message has been printed.
 */
int set_options_build(const struct command *command, struct input *input,
		      const struct ptah_cpu *cpu, struct ptah_trace_set **set,
		      struct ptah_trace_processor *processor);

#endif
