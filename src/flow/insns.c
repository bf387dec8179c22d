/* SPDX-License-Identifier: MIT */
/* Lists the instructions of a block, and turns them into steps. */
#include "flow/flow_machine.h"

struct ptah_step *flow_put_steps(struct ptah_step *step, const struct ptah_insn *insns, unsigned n,
				 uint32_t space, uint8_t flags)
{
	for (unsigned i = 0; i < n; i++)
		*step++ = (struct ptah_step){.ip = insns[i].ip,
					     .size = insns[i].size,
					     .insn_class = insns[i].insn_class,
					     .mode = insns[i].mode,
					     .flags = flags & PTAH_ITEM_SPECULATIVE,
					     .space = (uint16_t)space};
	step[-1].flags = flags & (PTAH_ITEM_SPECULATIVE | PTAH_ITEM_TAKEN);
	return step;
}

int ptah_flow_insns(const struct ptah_flow *f, const struct ptah_item *block,
		    struct ptah_insn *insns, size_t capacity)
{
	const struct ptah_insn *known;
	size_t n;

	if (!f || !block || block->type != PTAH_ITEM_BLOCK || (!insns && capacity))
		return PTAH_E_INVAL;
	n = block->ninsn < capacity ? block->ninsn : capacity;
	known = code_insns(&f->code, block->ip, block->mode, block->code.space, block->ninsn);
	if (!known) /* the block is no longer a node: the image may have changed since */
		return code_decode(&f->code, block->ip, block->mode, block->code.space, insns, n);
	memcpy(insns, known, n * sizeof(*insns));
	return (int)n;
}

/* Leaves `n` instructions of a block, without its first `skip`. */
static void cut_block(const struct ptah_flow *f, struct ptah_item *block, unsigned skip, unsigned n)
{
	struct ptah_insn insns[CODE_MAX_INSNS];
	const int known = ptah_flow_insns(f, block, insns, ARRAY_SIZE(insns));

	if (known < 0 || skip + n > (unsigned)known)
		return; /* the code is gone: the block stays whole */
	if (skip + n < block->ninsn) {
		const struct ptah_insn *last = &insns[skip + n - 1];

		block->flags = (uint8_t)((block->flags & ~PTAH_ITEM_TAKEN) | PTAH_ITEM_TRUNCATED);
		block->insn_class = PTAH_INSN_OTHER;
		block->last_size = last->size;
		block->end = last->ip + last->size;
	}
	block->ip = insns[skip].ip;
	block->ninsn = (uint16_t)n;
}

bool flow_take_inside(const struct ptah_flow *f, struct time_window *w, struct ptah_item *item)
{
	const uint64_t number = w->next;
	unsigned skip, cut;

	if (!time_window_takes(w, item))
		return false;
	if (item->type != PTAH_ITEM_BLOCK || !time_window_counts(w))
		return true;
	skip = number < w->first ? (unsigned)(w->first - number) : 0;
	cut = w->next - 1 > w->last ? (unsigned)(w->next - 1 - w->last) : 0;
	if (skip || cut)
		cut_block(f, item, skip, item->ninsn - skip - cut);
	return true;
}

int flow_learn_insns(struct ptah_flow *f, const struct ptah_item *block, struct ptah_insn *insns,
		     size_t capacity)
{
	const uint16_t space = f->code.space;
	int status;

	if (!block || block->type != PTAH_ITEM_BLOCK)
		return PTAH_E_INVAL;
	f->code.space = block->code.space < f->code.space_count ? (uint16_t)block->code.space : 0;
	code_find(&f->code, block->ip, block->mode, &status);
	f->code.space = space;
	return ptah_flow_insns(f, block, insns, capacity);
}
