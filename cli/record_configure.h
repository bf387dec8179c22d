/* SPDX-License-Identifier: MIT */
/* Turns the options of `ptah record` into a recorder's configuration. */
#ifndef PTAH_CLI_RECORD_CONFIGURE_H
#define PTAH_CLI_RECORD_CONFIGURE_H

#include "record_filter.h"
#include "record_triggers.h"

/*
 * Sets *config and *delay (milliseconds; negative: until --control enables). argv: the command,
 * or nothing. Returns an exit code, and has printed a message if it is not 0. In any case the
 * caller calls filters_free(), triggers_free() and target_free().
 */
int record_configure(const struct record_options *o, char **argv, struct ptah_record_config *config,
		     struct filters *filters, struct triggers *triggers, int64_t *delay);

#endif
