/* SPDX-License-Identifier: MIT */
/* The options that describe a raw trace: --pt, and those that belong to it. */
#ifndef PTAH_CLI_SET_OPTIONS_H
#define PTAH_CLI_SET_OPTIONS_H

#include "input.h"

/*
 * Makes a trace set of the options, which the caller frees; without --pt it has no stream. `cpu` is
 * that of --processor. Fills in *processor, whose clocks also count for a recording. Some options
 * set members of *input. Returns an exit code; if it is not 0, a message has been printed.
 */
int set_options_build(const struct command *command, struct input *input,
		      const struct ptah_cpu *cpu, struct ptah_trace_set **set,
		      struct ptah_trace_processor *processor);

#endif
