/* SPDX-License-Identifier: MIT */
/*
 * Reports the flow's place in the code, and the blocks that are certain to follow it
 * (ptah_flow_place(), ptah_flow_ahead()).
 */
#include "flow/flow_machine.h"

int ptah_flow_place(const struct ptah_flow *f, struct ptah_place *place)
{
	if (!f || !place)
		return PTAH_E_INVAL;
	if (!f->positioned)
		return PTAH_E_NO_IP;
	*place = (struct ptah_place){
	    .ip = f->node ? f->node->ip : f->ip, .mode = f->mode, .space = f->code.space};
	return 0;
}

/*
 * Fills `blocks` from `place` on, in the current address space. Returns how many; *status says why
 * there are no more.
 */
static size_t run_ahead(struct ptah_flow *f, struct ptah_place *place, struct ptah_item *blocks,
			size_t capacity, int *status)
{
	size_t n = 0;

	*status = 0;
	while (n < capacity && place->mode) {
		struct code_node *node = code_find(&f->code, place->ip, place->mode, status);

		if (!node)
			break;
		/*
		 * One check is enough: if the chain ends from the first node on, it ends from all
		 * later ones.
		 */
		if (!n && !flow_chain_ends(f, node)) {
			*status = PTAH_E_NO_PROGRESS;
			break;
		}
		flow_put_block(&blocks[n++], node, f->head, (word_pair){f->tsc, f->offset});
		if (!flow_is_direct(node))
			place->mode = 0;
		else
			place->ip = node->insn_class == PTAH_INSN_OTHER ? node->end : node->target;
	}
	return n;
}

int ptah_flow_ahead(struct ptah_flow *f, struct ptah_place *place, struct ptah_item *blocks,
		    size_t capacity)
{
	uint16_t space;
	int status;
	size_t n;

	if (!f || !place || (!blocks && capacity))
		return PTAH_E_INVAL;
	if (place->mode > PTAH_EXEC_64 || place->space >= f->code.space_count)
		return PTAH_E_INVAL;
	if (capacity > INT32_MAX)
		capacity = INT32_MAX;
	flow_follow_image(f);
	space = f->code.space;
	f->code.space = place->space;
	n = run_ahead(f, place, blocks, capacity, &status);
	f->code.space = space;
	return n ? (int)n : status;
}
