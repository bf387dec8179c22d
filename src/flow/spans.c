/* SPDX-License-Identifier: MIT */
/* Decides where spans end, and writes those that no path remembers. */
#include "flow/spans.h"

#include "flow/paths.h"

void flow_set_bounds(struct ptah_flow *f, ptah_flow_bounds *bounds, void *context)
{
	f->bounds = bounds;
	f->bounds_context = context;
	f->low = f->high = 0;
	flow_paths_forget(f);
}

/* Finds the bounds of the function at `ip`. False: they are not known. */
static bool find_bounds(struct ptah_flow *f, unsigned space, uint64_t ip)
{
	if (ip - f->low < f->high - f->low && space == f->bounds_space)
		return true;
	f->bounds_space = (uint16_t)space;
	if (f->bounds(f->bounds_context, space, ip, &f->low, &f->high) &&
	    ip - f->low < f->high - f->low)
		return true;
	f->low = f->high = 0;
	return false;
}

/* Whether a block that ends with a direct branch, or with none, is the last one of its function. */
static bool leaves(struct ptah_flow *f, const struct ptah_span *block)
{
	const uint64_t ip = block->end - block->last_size, to = block->to;
	const bool jumps = block->insn_class == PTAH_INSN_JUMP || block->flags & PTAH_ITEM_TAKEN;

	if (!to)
		return true;
	if (!f->bounds)
		return false;
	if (!find_bounds(f, block->space, ip))
		return true;
	/* A block that ran into the function ends with it, so that the next begins there. */
	return to - f->low >= f->high - f->low || (jumps && to == f->low) ||
	       block->ip - f->low >= f->high - f->low;
}

static bool ends_span(struct ptah_flow *f, const struct ptah_span *block)
{
	switch (block->insn_class) {
	case PTAH_INSN_COND:
	case PTAH_INSN_JUMP:
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
		return leaves(f, block);
	default:
		return true;
	}
}

void flow_add_span(struct ptah_flow *f, struct flow_spans *out, const struct ptah_span *block)
{
	struct ptah_span *open = &out->open;
	const uint64_t ip = open->ninsn ? open->ip : block->ip, ninsn = open->ninsn;

	*open = *block;
	open->ip = ip;
	open->ninsn += ninsn;
	if (!ends_span(f, block))
		return;
	out->spans[out->count++] = *open;
	open->ninsn = 0;
}

void flow_add_block(struct ptah_flow *f, struct flow_spans *out, const struct ptah_item *block)
{
	struct ptah_span span = {.ip = block->ip,
				 .end = block->end,
				 .to = block->end,
				 .tsc = block->tsc,
				 .offset = block->offset,
				 .cycles = f->events->time.total_cycles,
				 .ninsn = block->ninsn,
				 .insn_class = block->insn_class,
				 .last_size = block->last_size,
				 .mode = block->mode,
				 .flags = block->flags,
				 .space = (uint16_t)block->code.space,
				 .tsc_error = block->tsc_error};

	if (block->flags & PTAH_ITEM_UNKNOWN)
		span.to = 0;
	else if (block->insn_class != PTAH_INSN_OTHER && block->insn_class != PTAH_INSN_PTWRITE)
		span.to = !f->positioned ? 0 : f->node ? f->node->ip : f->ip;
	flow_add_span(f, out, &span);
}

void flow_close_span(struct flow_spans *out)
{
	struct ptah_span *span = &out->spans[out->count];

	if (!out->open.ninsn)
		return;
	*span = out->open;
	span->end = span->to;
	span->insn_class = PTAH_INSN_OTHER;
	span->last_size = 0;
	span->flags &= PTAH_ITEM_SPECULATIVE;
	out->count++;
	out->open.ninsn = 0;
}
