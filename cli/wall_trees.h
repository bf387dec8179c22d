/* SPDX-License-Identifier: MIT */
/* The calls of each thread by wall time, with waits as if they were calls of the function that waited. */
#ifndef PTAH_CLI_WALL_TREES_H
#define PTAH_CLI_WALL_TREES_H

#include "input.h"

#include "output/call_graph.h"

/*
 * As input_call_trees(), but the time of a thread's tree is the whole time from the thread's
 * beginning to its end in the recording, and each nanosecond of it belongs to one path: what was
 * waited for is a label of `labels` below the function that waited, and so are losses of trace and
 * what ran before any function was known. The labels live as long as the trees are shown; the
 * caller frees them.
 */
int input_wall_trees(const struct input *input, const struct ptah_session *session,
		     struct names *names, struct graph_labels *labels,
		     int (*take)(void *context, const struct ptah_call_thread *thread,
				 const struct ptah_call_tree *tree),
		     void *context, uint64_t *errors);

#endif
