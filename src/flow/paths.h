/* SPDX-License-Identifier: MIT */
/*
 * Paths: what TNT and TIP packets do at one place of the code, remembered.
 *
 * A place is a node that packets were often seen to begin at. It knows for
 * every TNT-8 payload, and for a TIP, the list of blocks that it leads past,
 * what it does to the call stack, and the place behind it. Reading then copies
 * lists instead of following branches one by one.
 */
#ifndef PTAH_FLOW_PATHS_H
#define PTAH_FLOW_PATHS_H

#include "flow/flow_machine.h"

/* With fewer bytes at hand there is nothing to gain. */
#define PATHS_MIN_BYTES LOOP_LOOK

struct flow_paths;

/* NULL when out of memory: reading goes on without. `huge`: in large pages, if it may. */
struct flow_paths *flow_paths_new(bool huge);
void flow_paths_free(struct flow_paths *paths);

/* Code was forgotten, and with it all that is known. */
void flow_paths_forget(struct ptah_flow *f);

/*
 * Carries out the TNT, TIP and timing packets at hand as long as their paths
 * are known and there is room; learns those that come often. At the end the
 * flow stands where it would have stood, maybe with outcomes left.
 */
void flow_run_paths(struct ptah_flow *f, struct flow_output *out);

/* The same into blocks, and into steps, from where outcomes are left, too. */
void flow_run_block_paths(struct ptah_flow *f, struct flow_blocks *out);
void flow_run_step_paths(struct ptah_flow *f, struct flow_steps *out);

#endif
