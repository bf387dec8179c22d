/* SPDX-License-Identifier: MIT */
/* Makes flame graphs (flame.h). */
#include "view/flame.h"

#include "view/bars.h"

#include "base/compiler.h"
#include "support/index.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* So many callers above a function an inverted graph distinguishes. */
#define MOST_CALLERS 127

int flame_init(struct flame *f)
{
	*f = (struct flame){0};
	if (!LIST_ROOM(f->nodes, f->count, f->capacity) || !index_reserve(&f->index))
		return PTAH_E_NOMEM;
	f->nodes[f->count++] = (struct flame_node){.special = FLAME_ROOT};
	return 0;
}

void flame_fini(struct flame *f)
{
	free(f->nodes);
	index_free(&f->index);
}

static ALWAYS_INLINE uint32_t hash_node(const struct flame *f, uint32_t parent, unsigned special,
					uint32_t function)
{
	return index_hash(&f->index, parent, (uint64_t)special << 32 | function);
}

static ALWAYS_INLINE bool is_node(const struct flame_node *n, uint32_t parent, unsigned special,
				  uint32_t function)
{
	return n->parent == parent && n->function == function && n->special == special;
}

static uint32_t add_flame_node(struct flame *f, uint32_t parent, unsigned special,
			       uint32_t function)
{
	if (!LIST_ROOM(f->nodes, f->count, f->capacity) || !index_reserve(&f->index))
		return 0;
	index_add(&f->index, hash_node(f, parent, special, function), f->count);
	f->nodes[f->count] = (struct flame_node){
	    .function = function, .parent = parent, .special = (uint8_t)special};
	return f->count++;
}

uint32_t flame_child(struct flame *f, uint32_t parent, enum flame_special special,
		     uint32_t function)
{
	uint32_t hash, n;

	if (f->nodes[parent].special == FLAME_FOLDED)
		return parent;
	hash = hash_node(f, parent, special, function);
	INDEX_FIND(n, &f->index, hash, is_node(&f->nodes[n], parent, special, function));
	if (n)
		return n;
	/* Each node may get one for what is folded. */
	if (f->count >= FLAME_NODES && special != FLAME_FOLDED)
		return flame_child(f, parent, FLAME_FOLDED, 0);
	return add_flame_node(f, parent, special, function);
}

/* From the trees */

static uint64_t figure(const struct ptah_call_figures *figures, enum ptah_call_value value)
{
	switch (value) {
	case PTAH_CALL_VALUE_CYCLES:
		return figures->cycles;
	case PTAH_CALL_VALUE_TIME:
		return figures->time;
	default:
		return figures->instructions;
	}
}

int flame_from_trees(const struct view_trees *t, enum ptah_call_value value, struct flame *f)
{
	uint32_t *numbers = calloc(t->node_count + 1, sizeof(*numbers));
	int status = numbers ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < t->node_count && !status; i++) {
		const struct ptah_call_node *n = &t->nodes[i];
		const uint64_t self = figure(&n->self, value);
		uint32_t to = 0;

		if (!i && self)
			to = flame_child(f, 0, FLAME_OUTSIDE, 0);
		else if (i)
			to = flame_child(f, numbers[n->parent],
					 n->flags & PTAH_CALL_NODE_FOLDED ? FLAME_FOLDED
									  : FLAME_FUNCTION,
					 n->function ? (uint32_t)n->function - 1 : 0);
		if (!to && (i || self))
			status = PTAH_E_NOMEM;
		numbers[i] = i ? to : 0;
		if (to) {
			f->nodes[to].self += self;
			f->nodes[to].count += n->count;
		}
	}
	free(numbers);
	return status;
}

/* From logs */

/* A log that is read. */
struct burning {
	struct flame *flame;
	const struct view_functions *functions;
	const struct flame_window *window;
	struct log_cursor cursor;
	uint32_t *path; /* nodes of the open calls */
	size_t path_capacity;
	struct log_counts before; /* at the last mark */
};

static uint64_t value_of(const struct log_counts *at, enum ptah_call_value value)
{
	switch (value) {
	case PTAH_CALL_VALUE_CYCLES:
		return at->cycles;
	case PTAH_CALL_VALUE_TIME:
		return at->active;
	default:
		return at->instructions;
	}
}

/* How much of what ran between two marks is in the window, of which an edge lies between them. */
static NOINLINE uint64_t part_of(struct burning *b, const struct log_counts *to, uint64_t value)
{
	const struct flame_window *w = b->window;
	const uint64_t first = log_on(&b->before, w->axis), last = log_on(to, w->axis);
	const uint64_t begin = first > w->from ? first : w->from;
	const uint64_t end = last < w->to ? last : w->to;

	if (begin >= end || !value)
		return 0;
	if (value != last - first)
		b->flame->inexact = true;
	return (uint64_t)((unsigned __int128)value * (end - begin) / (last - first));
}

/* What ran up to `to` belongs to the innermost of `depth` open calls. */
static ALWAYS_INLINE int add_flame_run(struct burning *b, const struct log_counts *to, size_t depth)
{
	const struct flame_window *w = b->window;
	uint64_t value = value_of(to, w->value) - value_of(&b->before, w->value);
	uint32_t node;

	if (UNLIKELY(log_on(&b->before, w->axis) < w->from || log_on(to, w->axis) > w->to))
		value = part_of(b, to, value);
	b->before = *to;
	if (!value)
		return 0;
	node = depth ? b->path[depth - 1] : flame_child(b->flame, 0, FLAME_OUTSIDE, 0);
	if (!node)
		return PTAH_E_NOMEM;
	b->flame->nodes[node].self += value;
	return 0;
}

/* An open call gets a node. */
static int enter_open_call(struct burning *b, size_t depth, const struct log_frame *frame,
			   bool counts)
{
	const struct view_entry *e = view_functions_get_entry(b->functions, frame->entry);
	uint32_t node;

	if (!LIST_ROOM(b->path, depth, b->path_capacity))
		return PTAH_E_NOMEM;
	if (!e)
		return PTAH_E_BAD_FILE;
	node = flame_child(b->flame, depth ? b->path[depth - 1] : 0, FLAME_FUNCTION, e->id);
	if (!node)
		return PTAH_E_NOMEM;
	b->path[depth] = node;
	b->flame->nodes[node].count += counts && e->how < PTAH_CALL_RESUMED;
	return 0;
}

static int burn_block(struct burning *b, const struct log_block *block, bool first)
{
	const struct flame_window *w = b->window;
	struct log_cursor *c = &b->cursor;
	struct log_mark mark;
	int status = log_cursor_enter(c, block);

	b->before = first && !status ? c->at : b->before;
	for (size_t i = 0; first && i < c->depth && !status; i++)
		status = enter_open_call(b, i, &c->frames[i], false);
	while (!status && log_on(&b->before, w->axis) < w->to && log_cursor_next(c, &mark)) {
		/* The mark has changed the depth already. */
		status = add_flame_run(b, &c->at, mark.end ? mark.depth + 1 : mark.depth);
		if (!status && !mark.end)
			status = enter_open_call(b, mark.depth, mark.frame,
						 log_on(&c->at, w->axis) >= w->from &&
						     log_on(&c->at, w->axis) < w->to);
	}
	return status ? status : c->status;
}

int flame_add_thread(struct flame *f, struct view_model *m, struct view_thread *t,
		     const struct flame_window *window)
{
	struct burning b = {.flame = f, .functions = m->functions, .window = window};
	struct log_block *blocks;
	size_t count;
	int status;

	view_lock_read(&t->lock);
	status = view_copy_blocks(t, window->axis, window->from, window->to, &blocks, &count);
	view_unlock_read(&t->lock);
	for (size_t i = 0; i < count && !status && !m->stop; i++)
		status = burn_block(&b, &blocks[i], !i);
	free(blocks);
	free(b.path);
	log_cursor_fini(&b.cursor);
	return status;
}

/* Both */

void flame_sum(struct flame *f)
{
	for (uint32_t i = 0; i < f->count; i++)
		f->nodes[i].inclusive = f->nodes[i].self;
	for (uint32_t i = f->count; i-- > 1;)
		f->nodes[f->nodes[i].parent].inclusive += f->nodes[i].inclusive;
}

/* Adds the path from a node to the root. */
static int invert_node(const struct flame *f, uint32_t i, struct flame *to)
{
	uint32_t node = 0;

	for (unsigned n = 0; i && n <= MOST_CALLERS; i = f->nodes[i].parent, n++) {
		node = flame_child(to, node, (enum flame_special)f->nodes[i].special,
				   f->nodes[i].function);
		if (!node)
			return PTAH_E_NOMEM;
	}
	return (int)node;
}

int flame_invert(const struct flame *f, struct flame *to)
{
	int status = flame_init(to);

	for (uint32_t i = 1; i < f->count && status >= 0; i++) {
		if (!f->nodes[i].self && !f->nodes[i].count)
			continue;
		status = invert_node(f, i, to);
		if (status <= 0)
			continue;
		to->nodes[status].self += f->nodes[i].self;
		to->nodes[status].count += f->nodes[i].count;
	}
	return status < 0 ? status : 0;
}
