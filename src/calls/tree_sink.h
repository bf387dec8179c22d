/* SPDX-License-Identifier: MIT */
/*
 * Beginnings and ends of calls as they are added to a call tree, inline for the machine's loop.
 * Most calls go to the function that was called from the same place before, which a node remembers;
 * all else is in functions of its own, so that the loop stays small.
 */
#ifndef PTAH_CALLS_TREE_SINK_H
#define PTAH_CALLS_TREE_SINK_H

#include "calls/tree_internal.h"

/* Returns the thread's time, after it has noted what is known for the first time. */
static ALWAYS_INLINE uint64_t tree_time(struct ptah_call_tree *t,
					const struct ptah_call_counts *counts, uint64_t tsc)
{
	if (t->unknown &&
	    ((counts->cycles && t->unknown & TREE_CYCLES) || (tsc && t->unknown & TREE_TIME)))
		tree_learn(t, counts, tsc);
	if (counts->ticks != t->ticks) {
		t->ticks = counts->ticks;
		t->time = tree_nanoseconds(t, t->origin + t->ticks);
	}
	return t->time;
}

static ALWAYS_INLINE bool tree_is(const struct tree_node *n, uint64_t address, uint16_t space)
{
	return n->address == address && n->space == space;
}

/* The child of `parent` that is called; 0 as tree_find_child(). */
static ALWAYS_INLINE uint32_t tree_step(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
					uint16_t space, unsigned flags)
{
	const uint32_t last = t->nodes[parent].last;
	uint32_t next = last;

	if (LIKELY(next) && tree_is(&t->nodes[next], address, space))
		return next;
	next = t->nodes[last].after;
	if (!next || !tree_is(&t->nodes[next], address, space)) {
		next = tree_find_child(t, parent, address, space, flags);
		if (!next)
			return 0;
		/* Folding may have changed the numbers: the parent's is that of its frame. */
		parent = t->nodes[next].parent;
	}
	if (t->nodes[parent].last)
		t->nodes[t->nodes[parent].last].after = next;
	t->nodes[parent].last = next;
	return next;
}

/* A call begins. `counts` and `tsc` are the thread's; see struct ptah_call_mark. */
static ALWAYS_INLINE void tree_begin(struct ptah_call_tree *t, uint64_t function, uint16_t space,
				     unsigned how, unsigned flags,
				     const struct ptah_call_counts *counts, uint64_t tsc)
{
	const uint64_t time = tree_time(t, counts, tsc);
	struct tree_frame *frame;
	struct tree_node *node;
	uint32_t next;

	if (UNLIKELY(t->top >= t->last) && !tree_grow_frames(t))
		return;
	if (UNLIKELY(t->top == t->frames)) {
		t->outside.instructions += counts->instructions - t->left_instructions;
		t->outside.cycles += counts->cycles - t->left_cycles;
	}
	next = tree_step(t, t->top->node, function, space, flags);
	if (UNLIKELY(!next)) {
		tree_begin_folded(t, function, space, how, flags, counts);
		return;
	}
	node = &t->nodes[next];
	node->count += how < PTAH_CALL_RESUMED;
	node->flags |= (uint16_t)(1U << how);
	t->functions[node->function].open++;
	frame = ++t->top;
	frame->instructions = counts->instructions;
	frame->cycles = counts->cycles;
	frame->time = time;
	frame->node = next;
	frame->flags = how == PTAH_CALL_RESUMED ? TREE_FRAME_RESUMED : 0;
}

/* The innermost call ends. There must be one, unless the tree has failed. */
static ALWAYS_INLINE void tree_end(struct ptah_call_tree *t, unsigned how, unsigned flags,
				   uint64_t id, const struct ptah_call_counts *counts, uint64_t tsc)
{
	const uint64_t now = tree_time(t, counts, tsc);
	const struct tree_frame *frame = t->top;
	const uint64_t instructions = counts->instructions - frame->instructions;
	const uint64_t cycles = counts->cycles - frame->cycles, time = now - frame->time;
	struct tree_function *function;
	struct tree_node *node;

	if (UNLIKELY(frame <= t->frames + 1)) {
		if (frame == t->frames)
			return;
		t->left_instructions = counts->instructions;
		t->left_cycles = counts->cycles;
	}
	if (UNLIKELY((flags & TREE_SPECIAL) | frame->flags) || how == PTAH_CALL_END_SUSPENDED) {
		tree_end_special(t, how, flags, id,
				 (struct ptah_call_figures){instructions, cycles, time});
		return;
	}
	t->top--;
	node = &t->nodes[frame->node];
	node->inclusive.instructions += instructions;
	node->inclusive.cycles += cycles;
	node->inclusive.time += time;
	function = &t->functions[node->function];
	function->open--;
	if (UNLIKELY(
		!histogram_add(&function->histograms[PTAH_CALL_VALUE_INSTRUCTIONS], instructions)))
		tree_fail(t);
	if ((t->known & TREE_CYCLES) &&
	    UNLIKELY(!histogram_add(&function->histograms[PTAH_CALL_VALUE_CYCLES], cycles)))
		tree_fail(t);
	if ((t->known & TREE_TIME) &&
	    UNLIKELY(!histogram_add(&function->histograms[PTAH_CALL_VALUE_TIME], time)))
		tree_fail(t);
}

#endif
