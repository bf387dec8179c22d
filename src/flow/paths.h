/* SPDX-License-Identifier: MIT */
/*
 * Paths: what TNT and TIP packets do at one place of the code, remembered.
 *
 * A place is a node at which packets often begin. For every TNT-8 payload, and for a TIP, it knows
 * the list of blocks that the packet leads through, what the packet does to the return address
 * stack, and the next place. Reading then copies lists instead of following branches one by one.
 */
#ifndef PTAH_FLOW_PATHS_H
#define PTAH_FLOW_PATHS_H

#include "flow/flow_machine.h"

/* With fewer bytes available, paths gain nothing. */
#define PATHS_MIN_BYTES LOOP_LOOK

struct flow_paths;

/* NULL when out of memory: the flow then reads without paths. */
struct flow_paths *flow_paths_new(struct flow_arena *arena);
void flow_paths_free(struct flow_paths *paths);

/* Forgets all paths, because code was forgotten. */
void flow_paths_forget(struct ptah_flow *f);

/*
 * Carries out TNT, TIP and timing packets as long as their paths are known and there is room, and
 * learns those that come often. Afterwards the flow is at the place it would have reached by
 * itself, perhaps with outcomes left.
 */
void flow_run_paths(struct ptah_flow *f, struct flow_output *out);

/* The same for blocks and for steps. These can also start with outcomes left over. */
void flow_run_block_paths(struct ptah_flow *f, struct flow_blocks *out);
void flow_run_step_paths(struct ptah_flow *f, struct flow_steps *out);

/* The same for spans. What has run since the last one is added up in *out. */
void flow_run_span_paths(struct ptah_flow *f, struct flow_spans *out);

#endif
