/* SPDX-License-Identifier: MIT */
/* -e as perf record has it: the options of the PT processor. */
#ifndef PTAH_CLI_EVENT_H
#define PTAH_CLI_EVENT_H

#include "cli.h"

/*
 * "intel_pt/TERM=VALUE,.../MODIFIERS", see ptah-record(1), into *config. Returns an
 * exit code, the message printed.
 */
int event_parse(const struct command *command, const char *text, struct ptah_record_config *config);

#endif
