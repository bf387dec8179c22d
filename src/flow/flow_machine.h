/* SPDX-License-Identifier: MIT */
/*
 * The flow machine's inside, for flow.c and for profile/, which carries the
 * common packets out in its own way and leaves everything else to it.
 */
#ifndef PTAH_FLOW_FLOW_MACHINE_H
#define PTAH_FLOW_FLOW_MACHINE_H

#include "event/event.h"
#include "flow/code_cache.h"

#include <string.h>

#define STACK_SIZE 64 /* SDM "Indirect Transfer Compression for Returns" */

/* Direct branches in a row without a deciding one before we call it a loop. */
#define MAX_CHAIN 4096

/* packet_loop.h: the longest packet that the loop takes, and what it loads at once. */
#define LOOP_LOOK 16

/* The caller's array. */
struct flow_output {
	struct ptah_item *items;
	size_t count, capacity;
};

struct flow_blocks {
	struct ptah_block *blocks;
	size_t count, capacity;
};

struct flow_steps {
	struct ptah_step *steps;
	size_t count, capacity;
};

struct return_site {
	uint64_t ip;
	struct code_node *call; /* NULL after a flush */
	uint32_t place;		/* paths.c: of the site, or 0 */
};

/* Where a flow stood: see ptah_flow_mark(). What the event decoder has beyond it is its own. */
struct flow_mark;

struct ptah_flow {
	struct ptah_event_decoder *events;
	struct code_cache code;
	uint64_t generation; /* of the image the code cache was made from */

	/* A trace without outcomes: see struct ptah_flow_config. */
	bool no_tnt, no_retcomp;
	bool stop_at_events;
	bool space_fixed; /* the space is from who knows better: flow_set_space() */
	struct ptah_range ranges[PTAH_RANGES];
	uint64_t time_limit;

	/* What packets do at places they often begin at; NULL: nothing yet. */
	struct flow_paths *paths;
	bool no_paths, no_huge_pages;

	/* Told of every indirect branch and its target, or NULL. */
	void (*on_indirect)(void *context, const struct code_node *branch, uint64_t to);
	void *indirect_context;

	struct flow_mark *mark; /* NULL: never asked for */

	/* The last block of ptah_flow_read_blocks(), where it came one by one. */
	bool knows_last;
	struct ptah_item last;

	/* From here to the end: what the trace has led to, all of which a mark keeps. */

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

	/* Behind an error of the code: resync.c. */
	bool at_error;	  /* it is what was returned last */
	bool tip_lost;	  /* it came on the way to the branch of the TIP in `event` */
	bool seeks_place; /* the next address is where we go on */

	/* The address space that the trace has told, and whether the next branch leads there. */
	struct ptah_space space;
	bool space_waits;

	bool gap_begun; /* the branch that leads into the gap is reported */
	bool gap_told;	/* the gap on the way to the event, too */

	bool paused;

	/* Read on the way to blocks or steps, and none: the next item. */
	bool has_held;
	struct ptah_item held;

	unsigned stack_top, stack_depth;
	unsigned old_calls; /* on the way to where a PSB was: not pushed */
	struct return_site stack[STACK_SIZE];
};

/* A direct call pushes, unless it calls the next instruction (SDM: zero-length calls). */
static inline bool flow_pushes(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_CALL && node->target != node->end;
}

/* Needs no trace: a direct branch, or none. */
static inline bool flow_is_direct(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_JUMP || node->insn_class == PTAH_INSN_CALL ||
	       node->insn_class == PTAH_INSN_OTHER;
}

/* A jump, call or return whose target a TIP tells. */
static inline bool flow_is_near_indirect(const struct code_node *node)
{
	return node->insn_class >= PTAH_INSN_JUMP_IND && node->insn_class <= PTAH_INSN_RETURN;
}

/* Where PTAH_ITEM_TAKEN is in a block's head. */
#define FLOW_TAKEN_SHIFT (8 * offsetof(struct ptah_item, flags) + 3)
_Static_assert(PTAH_ITEM_TAKEN == 1 << 3, "FLOW_TAKEN_SHIFT");

/* Where code_node.chain_checked is in the word from `section` on. */
#define CHAIN_SHIFT                                                                                \
	(8 * (offsetof(struct code_node, chain_checked) - offsetof(struct code_node, section)))

_Static_assert(offsetof(struct code_node, ip) == offsetof(struct ptah_item, ip) &&
		   offsetof(struct code_node, end) == offsetof(struct ptah_item, end) &&
		   offsetof(struct code_node, section) ==
		       offsetof(struct ptah_item, code.section) &&
		   offsetof(struct code_node, space) == offsetof(struct ptah_item, code.space),
	       "a node begins as its item");

/* A node as an item; `head` is what its head has of now, `now` its tsc and offset. */
static ALWAYS_INLINE void flow_put_block(struct ptah_item *item, const struct code_node *node,
					 uint64_t head, word_pair now)
{
	const word_pair head_pair = {head, 0}, no_chain = {~0ull, ~(0xffffull << CHAIN_SHIFT)};
	word_pair first, second;

	memcpy(&first, &node->head, sizeof(first));
	memcpy(&second, &node->end, sizeof(second));
	first |= head_pair;
	second &= no_chain;
	memcpy(&item->type, &first, sizeof(first));
	memcpy(&item->end, &second, sizeof(second));
	memcpy(&item->tsc, &now, sizeof(now));
}

/* A block's n > 0 instructions as steps; returns where the next one goes. */
struct ptah_step *flow_put_steps(struct ptah_step *step, const struct ptah_insn *insns, unsigned n,
				 uint32_t space, uint8_t flags);

/* As ptah_flow_insns(), for a block that another flow over the same image has told. */
int flow_learn_insns(struct ptah_flow *f, const struct ptah_item *block, struct ptah_insn *insns,
		     size_t capacity);

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

/*
 * Looks code up in this space from now on, whatever the trace tells of CR3 and
 * VMCS. Only where the flow is at rest.
 */
int flow_set_space(struct ptah_flow *f, const struct ptah_space *space);

/* The place in the code may be read anew: in another space, or over other bytes. */
void flow_forget_nodes(struct ptah_flow *f);

/* resync.c: stands where the event to be carried out says that we are. False: it does not. */
bool flow_find_place(struct ptah_flow *f);

/* Is this an error that ptah_flow_resync() goes on behind? */
bool flow_can_resync(const struct ptah_item *item);

/* mark.c: there is nothing to go back to any more. */
void flow_drop_mark(struct ptah_flow *f);

/* The code cache follows the image. True when code was forgotten. */
bool flow_follow_image(struct ptah_flow *f);

#endif
