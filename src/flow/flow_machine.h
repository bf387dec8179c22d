/* SPDX-License-Identifier: MIT */
/*
 * The state of a flow, struct ptah_flow, and the operations on it that several files of this layer
 * and the profile layer share. The profile carries the common packets out in its own way and leaves
 * all others to the flow.
 */
#ifndef PTAH_FLOW_FLOW_MACHINE_H
#define PTAH_FLOW_FLOW_MACHINE_H

#include "event/event.h"
#include "event/time_window.h"
#include "flow/code_cache.h"

#include <string.h>

#define STACK_SIZE 64 /* SDM "Indirect Transfer Compression for Returns" */

/* After this many direct branches in a row the code counts as an endless loop. */
#define MAX_CHAIN 4096

/* The longest packet that packet_loop.h takes, and how many bytes it reads at once. */
#define LOOP_LOOK 16

/* The caller's array of items; blocks and steps have arrays of their own. */
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

/* Spans, and what has run since the last one ended. */
struct flow_spans {
	struct ptah_span *spans;
	size_t count, capacity;
	struct ptah_span open; /* ninsn 0: nothing; `to` is where that leads */
	bool in_line;	       /* events may be written as spans: flow_read_event_spans() */
};

/*
 * The class of an event among spans. Its type is in `last_size`, and `ip`, `to`, `mode`, `flags`
 * and the time are those of the item; other items have more and are not written so.
 */
#define FLOW_SPAN_EVENT UINT8_MAX

static inline void flow_put_event_span(struct ptah_span *span, const struct ptah_item *item)
{
	*span = (struct ptah_span){.ip = item->ip,
				   .to = item->to,
				   .tsc = item->tsc,
				   .offset = item->offset,
				   .insn_class = FLOW_SPAN_EVENT,
				   .last_size = item->type,
				   .mode = item->mode,
				   .flags = item->flags,
				   .tsc_error = item->tsc_error};
}

/* The event that a span of this class is. */
static inline struct ptah_item flow_span_event(const struct ptah_span *span)
{
	return (struct ptah_item){.type = span->last_size,
				  .flags = span->flags,
				  .mode = span->mode,
				  .tsc_error = span->tsc_error,
				  .ip = span->ip,
				  .to = span->to,
				  .tsc = span->tsc,
				  .offset = span->offset};
}

/*
 * As ptah_flow_read_spans(), but events at which tracing begins and ends may be among the spans, in
 * their place: so the loop over packets need not be left for them.
 */
int flow_read_event_spans(struct ptah_flow *f, struct ptah_span *spans, size_t capacity);

/* Sets config.bounds, and forgets what the one before has answered. */
void flow_set_bounds(struct ptah_flow *flow, ptah_flow_bounds *bounds, void *context);

struct return_site {
	uint64_t ip;
	struct code_node *call; /* NULL after a flush of the code cache */
	uint32_t place;		/* the site's place in the tables of paths, or 0 */
};

/* A saved state of a flow: see ptah_flow_mark(). The event decoder saves its own. */
struct flow_mark;

struct ptah_flow {
	struct ptah_event_decoder *events;
	struct flow_arena arena; /* for the tables of the flow, and of its profile */
	struct code_cache code;
	uint64_t generation; /* the image's generation that the code cache follows */

	/* A trace without outcomes: see struct ptah_flow_config. */
	bool no_tnt, no_retcomp;
	bool stop_at_events;
	bool no_events;	  /* only blocks, gaps, overflows and errors are returned */
	bool hid_event;	  /* one has been left out */
	bool resync;	  /* continues after errors of the code by itself: see resync.c */
	bool space_fixed; /* the caller has set the address space with flow_set_space() */
	struct ptah_range ranges[PTAH_RANGES];
	uint64_t time_limit;

	/* What packets do at places where packets often begin; NULL until it is first used. */
	struct flow_paths *paths;
	bool no_paths;

	/* Called for every indirect branch with its target, or NULL. */
	void (*on_indirect)(void *context, const struct code_node *branch, uint64_t to);
	void *indirect_context;

	/* The bounds of functions, for spans: see struct ptah_flow_config. */
	ptah_flow_bounds *bounds;
	void *bounds_context;
	uint64_t low, high; /* those of the last function that was looked up; equal: none */
	uint16_t bounds_space;

	struct flow_mark *mark; /* NULL until ptah_flow_mark() is called */

	/* The last block of ptah_flow_read_blocks(), if it was read by itself. */
	bool knows_last;
	struct ptah_item last;

	/* A mark saves all members from here to the end: what the trace has led to. */

	/* The place. `node` may be NULL while `positioned`: then it has not been looked up yet. */
	bool positioned;
	uint8_t mode;
	uint8_t speculative; /* PTAH_ITEM_SPECULATIVE or 0 */
	uint64_t ip;
	struct code_node *node;

	/* Branch outcomes not used yet: the oldest is bit tnt_count - 1. */
	uint64_t tnt;
	unsigned tnt_count;
	bool tnt_full; /* their packet has room for no more */
	/*
	 * A TNT at this offset contradicts the path; 0: none does. SDM "Deferred TIPs": outcomes
	 * and the TIPs that waited for them are sent when the TNT is full, or before another
	 * packet. So a TIP between a TNT that is not full and another TNT has waited for nothing.
	 */
	uint64_t no_tnt_at;

	uint64_t tsc, offset; /* of the packet that is being carried out */
	uint64_t head;	      /* the first word of each block's item: flags, tsc_error */
	uint8_t tsc_error;    /* the same error, to notice a change */

	/* An event that is being applied. */
	bool has_event;
	struct ptah_item event;
	bool placed; /* its place has been reached */
	bool around; /* the flow is going round a loop to reach it again */
	bool walks;  /* the flow was not at its place when it came */

	/* After an error about the code: see resync.c. */
	bool at_error;	      /* the last item returned was such an error */
	bool tip_lost;	      /* it came before the branch that the TIP in `event` belongs to */
	bool seeks_place;     /* the next address in the trace is the place to continue at */
	bool return_reported; /* the return to a lost call was reported, and the error comes next */
	/* Calls are not on the return address stack because of a loss: a return to one of them is
	 * this error. 0: they all are. */
	int16_t lost_return;

	/*
	 * The last far transfer or interrupt: where it went, where execution returns to from there,
	 * and the address space there.
	 */
	bool far_known;
	uint16_t far_space;
	uint64_t far_to, far_back;
	bool keeps_stack; /* the code at far_to is missing; so many calls are kept meanwhile: */
	unsigned kept_depth;

	/*
	 * The address space that the trace has named, and whether it holds only after the next
	 * branch.
	 */
	struct ptah_space space;
	bool space_waits;

	/*
	 * The flow has not moved since this PSB+, and has not reached its address yet: what is on
	 * the way there has run. Nearly always the next packet leads beyond it.
	 */
	bool has_proven;
	struct ptah_item proven;

	bool gap_begun;	   /* the branch before the gap has been reported */
	bool gap_reported; /* the gap before the event has been reported, too */

	bool paused;

	/* An item read while reading blocks or steps that is neither: it is returned next. */
	bool has_held;
	struct ptah_item held;

	unsigned stack_top, stack_depth;
	unsigned old_calls; /* calls before the address of the last PSB+ that are not pushed */
	struct return_site stack[STACK_SIZE];
};

/* What a mark saves. */
#define FLOW_KEPT_FROM offsetof(struct ptah_flow, positioned)
#define FLOW_KEPT_SIZE (sizeof(struct ptah_flow) - FLOW_KEPT_FROM)

/* A direct call pushes, unless it calls the next instruction (SDM: zero-length calls). */
static inline bool flow_pushes(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_CALL && node->target != node->end;
}

/* Needs no packet: the node ends with a direct branch or with none. */
static inline bool flow_is_direct(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_JUMP || node->insn_class == PTAH_INSN_CALL ||
	       node->insn_class == PTAH_INSN_OTHER;
}

/* A near jump, call or return whose target a TIP carries. */
static inline bool flow_is_near_indirect(const struct code_node *node)
{
	return node->insn_class >= PTAH_INSN_JUMP_IND && node->insn_class <= PTAH_INSN_RETURN;
}

/* The position of PTAH_ITEM_TAKEN in the first word of a block's item. */
#define FLOW_TAKEN_SHIFT (8 * offsetof(struct ptah_item, flags) + 3)
_Static_assert(PTAH_ITEM_TAKEN == 1 << 3, "FLOW_TAKEN_SHIFT");

/* The position of code_node.chain_checked in the word that begins with `section`. */
#define CHAIN_SHIFT                                                                                \
	(8 * (offsetof(struct code_node, chain_checked) - offsetof(struct code_node, section)))

_Static_assert(offsetof(struct code_node, ip) == offsetof(struct ptah_item, ip) &&
		   offsetof(struct code_node, end) == offsetof(struct ptah_item, end) &&
		   offsetof(struct code_node, section) ==
		       offsetof(struct ptah_item, code.section) &&
		   offsetof(struct code_node, space) == offsetof(struct ptah_item, code.space),
	       "a node begins as its item");

/* Writes a node as an item. `head` is added to its first word, `now` is its time and offset. */
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

/* Writes a block's n > 0 instructions as steps. Returns where the next step goes. */
struct ptah_step *flow_put_steps(struct ptah_step *step, const struct ptah_insn *insns, unsigned n,
				 uint32_t space, uint8_t flags);

/*
 * Whether the next item is inside the window. Of a block across its first or last instruction, what
 * is inside is left, so that windows side by side have every instruction once.
 */
bool flow_take_inside(const struct ptah_flow *f, struct time_window *w, struct ptah_item *item);

/* Like ptah_flow_insns(), for a block that another flow over the same image has reported. */
int flow_learn_insns(struct ptah_flow *f, const struct ptah_item *block, struct ptah_insn *insns,
		     size_t capacity);

/* The node after one that ends with a direct branch or none; NULL: nothing is mapped there. */
struct code_node *flow_chain_next(struct ptah_flow *f, struct code_node *node);

/*
 * Whether the chain of direct branches from here ends. It also ends at unmapped code, which is
 * found when the flow gets there. Checked once per node, so that neither a wrong image nor `jmp .`
 * can loop forever.
 */
bool flow_chain_ends(struct ptah_flow *f, struct code_node *node);

/* The flow takes the packet at `offset`, at the event decoder's time. */
void flow_set_time(struct ptah_flow *f, uint64_t offset);

/* After blocks or spans were read up to an item of another kind: is it there? */
static inline bool flow_has_item(const struct ptah_flow *f)
{
	return f->has_held;
}

/* A TNT with so many outcomes has room for no more: that of one byte, and that of eight. */
static inline bool flow_fills_tnt(unsigned count)
{
	return count == 6 || count == 47;
}

/* Outcomes of the TNT at `pos` are left. */
static inline void flow_leave_outcomes(struct ptah_flow *f, const uint8_t *pos)
{
	const uint64_t payload = *pos == OPCODE_EXT ? load_le64(pos) >> 16 : (uint64_t)*pos >> 1;

	f->tnt_full = flow_fills_tnt(highest_bit(payload));
}

/* No packet is partly carried out: the next one can be taken. */
static inline bool flow_is_at_rest(const struct ptah_flow *f)
{
	return !f->tnt_count && !f->has_event && !f->paused;
}

/*
 * Like ptah_flow_read(), but stops as soon as the flow is at rest again: after at least one packet,
 * unless *starved says that there was none.
 */
int flow_read_packet(struct ptah_flow *f, struct ptah_item *items, size_t capacity, bool *starved);

/*
 * From now on code is looked up in this space, whatever CR3 and VMCS the trace carries. Only while
 * the flow is at rest.
 */
int flow_set_space(struct ptah_flow *f, const struct ptah_space *space);

/* The code will be read again at the same place: in another space, or over other bytes. */
void flow_forget_nodes(struct ptah_flow *f);

/*
 * resync.c: continues at the address that the pending event carries, before it is applied or after
 * it was. False: it carries none, or the flow cannot continue there.
 */
bool flow_find_place(struct ptah_flow *f);
bool flow_find_target(struct ptah_flow *f);

/* Whether the flow can continue at `ip` after an error. */
bool flow_is_place(struct ptah_flow *f, uint64_t ip);

/* Whether this is an error after which ptah_flow_resync() can continue. */
bool flow_can_resync(const struct ptah_item *item);

/* mark.c: the mark is no longer valid. */
void flow_drop_mark(struct ptah_flow *f);

/* Brings the code cache up to date with the image. True when code was forgotten. */
bool flow_follow_image(struct ptah_flow *f);

#endif
