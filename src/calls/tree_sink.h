/* SPDX-License-Identifier: MIT */
/*
 * Beginnings and ends of calls as they are added to a call tree, inline for the machine's loop.
 * Mostly a function's calls come in the same order as when it was last called, which its nodes
 * remember; all else is in functions of its own, so that the loop stays small.
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

static ALWAYS_INLINE void tree_prefetch(const struct ptah_call_tree *t, uint32_t node)
{
	__builtin_prefetch(&t->nodes[node], 1);
}

/* The child of the innermost call that is called; 0 as tree_find_child(). */
static ALWAYS_INLINE uint32_t tree_step(struct ptah_call_tree *t, uint64_t address, uint16_t space,
					unsigned flags)
{
	struct tree_frame *const frame = t->top;
	uint32_t next = frame->next;

	if (UNLIKELY(!next || !tree_is(&t->nodes[next], address, space))) {
		next = frame->last;
		if (!next || !tree_is(&t->nodes[next], address, space))
			next = tree_find_child(t, frame->node, address, space, flags);
		if (!next)
			return 0;
		*(frame->last ? &t->nodes[frame->last].after : &t->nodes[frame->node].first) = next;
	}
	frame->last = next;
	frame->next = t->nodes[next].after;
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
	next = tree_step(t, function, space, flags);
	if (UNLIKELY(!next)) {
		tree_begin_folded(t, function, space, how, flags, counts);
		return;
	}
	node = &t->nodes[next];
	node->count += how < PTAH_CALL_RESUMED;
	node->flags |= (uint16_t)(1U << how);
	t->open[node->function]++;
	frame = ++t->top;
	frame->instructions = counts->instructions;
	frame->cycles = counts->cycles;
	frame->time = time;
	frame->node = next;
	frame->last = 0;
	frame->next = node->first;
	tree_prefetch(t, frame->next);
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
	tree_prefetch(t, frame[-1].next);
	node = &t->nodes[frame->node];
	node->inclusive.instructions += instructions;
	node->inclusive.cycles += cycles;
	node->inclusive.time += time;
	t->open[node->function]--;
	if (LIKELY(!(cycles | time | instructions >> 32)))
		t->values[t->value_count++] =
		    (struct tree_value){node->function, (uint32_t)instructions};
	else
		tree_add_values(t, node->function, 0,
				&(struct ptah_call_figures){instructions, cycles, time});
	if (UNLIKELY(t->top == t->frames || t->value_count == TREE_VALUES))
		tree_spill(t);
}

/*
 * The child of the innermost call that is called now, if it is one that was to be expected; or 0,
 * and nothing has changed. tree_expect() expects the same next time.
 */
static ALWAYS_INLINE uint32_t tree_expected(const struct ptah_call_tree *t, uint64_t function,
					    uint16_t space)
{
	const struct tree_frame *const frame = t->top;

	if (UNLIKELY(frame >= t->last || frame == t->frames))
		return 0;
	if (LIKELY(frame->next && tree_is(&t->nodes[frame->next], function, space)))
		return frame->next;
	return frame->last && tree_is(&t->nodes[frame->last], function, space) ? frame->last : 0;
}

static ALWAYS_INLINE void tree_expect(struct ptah_call_tree *t, uint32_t child)
{
	struct tree_frame *const frame = t->top;

	if (UNLIKELY(frame->next != child))
		t->nodes[frame->last].after = child;
	frame->last = child;
	frame->next = t->nodes[child].after;
	tree_prefetch(t, frame->next);
}

/* A call that began and ended while no time passed. */
static ALWAYS_INLINE void tree_add_call(struct ptah_call_tree *t, uint32_t at, unsigned how,
					uint64_t instructions)
{
	struct tree_node *const node = &t->nodes[at];

	node->count++;
	node->flags |= (uint16_t)(1U << how);
	node->inclusive.instructions += instructions;
	t->values[t->value_count++] = (struct tree_value){node->function, (uint32_t)instructions};
	if (UNLIKELY(t->value_count == TREE_VALUES))
		tree_spill(t);
}

/*
 * Adds a call that calls nothing, and takes no time, as tree_begin() and tree_end() would. False:
 * they have to.
 */
static ALWAYS_INLINE bool tree_leaf(struct ptah_call_tree *t, uint64_t function, uint16_t space,
				    uint64_t instructions)
{
	const uint32_t at = tree_expected(t, function, space);

	if (UNLIKELY(!at || instructions >> 32))
		return false;
	tree_expect(t, at);
	tree_add_call(t, at, PTAH_CALL_CALLED, instructions);
	return true;
}

/* The same of a call that runs `before` and then `instructions` in a tail call of `tail`. */
static ALWAYS_INLINE bool tree_tail_leaf(struct ptah_call_tree *t, uint64_t function, uint64_t tail,
					 uint16_t space, uint64_t before, uint64_t instructions)
{
	const uint32_t at = tree_expected(t, function, space);
	uint32_t child;

	if (UNLIKELY(!at || before >> 31 || instructions >> 31))
		return false;
	child = t->nodes[at].first;
	if (UNLIKELY(!child || !tree_is(&t->nodes[child], tail, space) || t->top + 1 >= t->last))
		return false;
	tree_expect(t, at);
	tree_add_call(t, child, PTAH_CALL_TAIL, instructions);
	tree_add_call(t, at, PTAH_CALL_CALLED, before + instructions);
	return true;
}

#endif
