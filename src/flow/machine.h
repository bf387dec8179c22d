/* SPDX-License-Identifier: MIT */
/*
 * The flow machine's inside, for flow.c and for profile/, which carries the
 * common packets out in its own way and leaves everything else to it.
 */
#ifndef PTAH_FLOW_MACHINE_H
#define PTAH_FLOW_MACHINE_H

#include "event/event.h"
#include "flow/code.h"

#define STACK_SIZE 64 /* SDM "Indirect Transfer Compression for Returns" */

/* Direct branches in a row without a deciding one before we call it a loop. */
#define MAX_CHAIN 4096

struct return_site {
	uint64_t ip;
	struct code_node *call; /* NULL after a flush */
};

struct ptah_flow {
	struct ptah_event_decoder *events;
	struct code_cache code;
	uint64_t generation; /* of the image the code cache was made from */

	/* Where we are. `node` may be NULL while `positioned`: not looked up yet. */
	bool positioned;
	uint8_t mode;
	uint8_t speculative; /* PTAH_ITEM_SPECULATIVE or 0 */
	uint64_t ip;
	struct code_node *node;

	/* Branch outcomes at hand: the oldest is bit tnt_count - 1. */
	uint64_t tnt;
	unsigned tnt_count;

	uint64_t tsc, offset; /* of the packet that moves us now */
	uint64_t head;	      /* what a block's head has of now: flags, tsc_error */
	uint8_t tsc_error;    /* the same, to see it change */

	/* An event that is being carried out. */
	bool has_event;
	struct ptah_item event;
	bool placed; /* we have been where it is */
	bool around; /* on the way round a loop to there */

	/* The address space that the trace has told, and whether the next branch leads there. */
	struct ptah_space space;
	bool space_waits;

	/* A trace without outcomes: see struct ptah_flow_config. */
	bool no_tnt, no_retcomp;
	bool gap_begun; /* the branch that leads into the gap is reported */
	bool gap_told;	/* the gap on the way to the event, too */

	struct ptah_filter_range ranges[PTAH_FILTER_RANGES];

	uint64_t time_limit;
	bool paused;

	/* Told of every indirect branch and its target, or NULL. */
	void (*on_indirect)(void *context, const struct code_node *branch, uint64_t to);
	void *indirect_context;

	unsigned stack_top, stack_depth;
	unsigned old_calls; /* on the way to where a PSB was: not pushed */
	struct return_site stack[STACK_SIZE];
};

/* A direct call pushes, unless it calls the next instruction (SDM: zero-length calls). */
static inline bool flow_pushes(const struct code_node *node)
{
	return node->class == PTAH_INSN_CALL && node->target != node->end;
}

/* Needs no trace: a direct branch, or none. */
static inline bool flow_is_direct(const struct code_node *node)
{
	return node->class == PTAH_INSN_JUMP || node->class == PTAH_INSN_CALL ||
	       node->class == PTAH_INSN_OTHER;
}

/* Where a direct branch, or none, leads; NULL: nothing is mapped there. */
struct code_node *flow_chain_next(struct ptah_flow *f, struct code_node *node);

/*
 * Does the chain of direct branches from here end? Unmapped code ends it too:
 * that is found when we get there. Checked once per node, so that no wrong
 * image or `jmp .` can hold us.
 */
bool flow_chain_ends(struct ptah_flow *f, struct code_node *node);

/* The packet that moves us: its time and place. */
void flow_set_time(struct ptah_flow *f, uint64_t offset);

/* Nothing is under way: the next packet can be taken. */
static inline bool flow_is_at_rest(const struct ptah_flow *f)
{
	return !f->tnt_count && !f->has_event && !f->paused;
}

/*
 * As ptah_flow_read(), but no further than to where the machine is at rest
 * again: at least one packet on, unless *starved says that there was none.
 */
int flow_read_packet(struct ptah_flow *f, struct ptah_item *items, size_t capacity, bool *starved);

/* The code cache follows the image. True when code was forgotten. */
bool flow_follow_image(struct ptah_flow *f);

#endif
