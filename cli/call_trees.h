/* SPDX-License-Identifier: MIT */
/* The calls of the chosen streams, added up for each thread. */
#ifndef PTAH_CLI_CALL_TREES_H
#define PTAH_CLI_CALL_TREES_H

#include "input.h"

/*
 * Reads all calls, shows the progress, and passes the tree of each thread to `take`, which ends the
 * reading by returning an error. Ctrl-C ends it early. *errors: decoding errors. Returns 0 or an
 * error.
 */
int input_call_trees(const struct input *input, const struct ptah_session *session,
		     int (*take)(void *context, const struct ptah_call_thread *thread,
				 const struct ptah_call_tree *tree),
		     void *context, uint64_t *errors);

#endif
