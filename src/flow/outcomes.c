/* SPDX-License-Identifier: MIT */
/* Uses up the outcomes of TNT packets: a node for each, with the direct branches in between. */
#include "flow/outcomes.h"

#include "flow/emit_items.h"
#include "flow/move.h"

/*
 * Conditional branches, direct jumps and calls in a row, of which most traces consist. All state is
 * in local variables: for all the compiler knows, the item that is written could be part of *f, and
 * every member would be read again.
 */
static void run_simple(struct ptah_flow *f, struct flow_output *out)
{
	struct ptah_item *item = out->items + out->count, *const end = out->items + out->capacity;
	const uint64_t head = f->head, tnt = f->tnt;
	const word_pair now = {f->tsc, f->offset};
	struct code_node *node = f->node, *next;
	unsigned count = f->tnt_count;

	while (count && item != end) {
		uint64_t word = head;

		if (node->insn_class == PTAH_INSN_COND) {
			const uint64_t taken = tnt >> (count - 1) & 1;

			next = code_next(node, taken);
			if (UNLIKELY(!next))
				break;
			word |= taken << FLOW_TAKEN_SHIFT;
			count--;
		} else if (node->insn_class == PTAH_INSN_JUMP &&
			   node->chain_checked == f->code.chain) {
			next = code_next(node, 1);
			if (UNLIKELY(!next))
				break;
		} else if (node->insn_class == PTAH_INSN_CALL &&
			   node->chain_checked == f->code.chain && !f->old_calls) {
			next = code_next(node, 1);
			if (UNLIKELY(!next))
				break;
			if (flow_pushes(node))
				flow_push_return(f, node);
		} else {
			break;
		}
		flow_put_block(item++, node, word, now);
		node = next;
	}
	f->node = node;
	f->tnt_count = count;
	out->count = (size_t)(item - out->items);
}

/*
 * A compressed return to a call that is not on the stack. After a loss the call may have been
 * there: then the return has run, and where it led is not known; after missing code, the code there
 * is missing, too. False: the return was reported, and the error is to follow.
 */
static bool fail_return(struct ptah_flow *f, struct flow_output *out, const struct code_node *node)
{
	if (!f->lost_return || f->no_retcomp) {
		flow_emit_error(f, out, PTAH_E_BAD_RETCOMP);
		out->items[out->count - 1].flags |= PTAH_ITEM_TAKEN;
		return true;
	}
	if (!f->return_reported) {
		flow_emit_block(f, out, node);
		f->return_reported = true;
		return false;
	}
	flow_lose_position(f); /* no packet says where the call was */
	flow_emit_error(f, out, f->lost_return);
	return true;
}

void flow_run_tnt(struct ptah_flow *f, struct flow_output *out, bool *wants_tip)
{
	*wants_tip = false;
	while (f->tnt_count && !flow_is_full(out)) {
		int status = 0;
		struct code_node *node = flow_here(f, &status);
		struct ptah_item *item;
		unsigned taken;

		if (UNLIKELY(!node)) {
			flow_emit_error(f, out, status);
			return;
		}
		switch (node->insn_class) {
		case PTAH_INSN_COND:
			taken = f->tnt >> (f->tnt_count - 1) & 1;
			if (LIKELY(code_next(node, taken) != NULL)) {
				run_simple(f, out);
				break;
			}
			f->tnt_count--;
			item = flow_emit_block(f, out, node);
			item->flags |= taken ? PTAH_ITEM_TAKEN : 0;
			flow_follow(f, node, taken);
			break;
		case PTAH_INSN_JUMP:
		case PTAH_INSN_CALL:
		case PTAH_INSN_OTHER:
			if (UNLIKELY(!flow_chain_ok(f, node))) {
				flow_emit_error(f, out, PTAH_E_NO_PROGRESS);
				return;
			}
			flow_emit_block(f, out, node);
			flow_pass_direct(f, node);
			break;
		case PTAH_INSN_RETURN:
			if (UNLIKELY(!(f->tnt >> (f->tnt_count - 1) & 1))) {
				flow_emit_error(f, out, PTAH_E_BAD_RETCOMP);
				return;
			}
			if (UNLIKELY(!f->stack_depth || f->no_retcomp)) {
				if (fail_return(f, out, node))
					return;
				break;
			}
			f->tnt_count--;
			flow_emit_block(f, out, node);
			flow_go_compressed_return(f);
			break;
		default:
			*wants_tip = true;
			return;
		}
	}
}
