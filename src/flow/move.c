/* SPDX-License-Identifier: MIT */
/*
 * The parts of moving along the code that are too rare to be inlined: forgetting the nodes when
 * the code changes, and chains of direct branches.
 */
#include "flow/move.h"

void flow_forget_nodes(struct ptah_flow *f)
{
	if (f->node)
		f->ip = f->node->ip;
	f->node = NULL;
	for (unsigned i = 0; i < STACK_SIZE; i++) {
		f->stack[i].call = NULL;
		f->stack[i].place = 0;
	}
}

struct code_node *flow_chain_next(struct ptah_flow *f, struct code_node *node)
{
	unsigned which = node->insn_class == PTAH_INSN_OTHER ? 0 : 1;
	int status;

	if (!code_next(node, which))
		node->next[which] =
		    code_find(&f->code, which ? node->target : node->end, code_mode(node), &status);
	return node->next[which];
}

bool flow_chain_ends(struct ptah_flow *f, struct code_node *node)
{
	struct code_node *n = node;

	for (unsigned i = 0; i < MAX_CHAIN; i++) {
		if (!flow_is_direct(n) || n->chain_checked == f->code.chain)
			break;
		n = flow_chain_next(f, n);
		if (!n) /* not marked as checked: code may be added there */
			return true;
		if (i == MAX_CHAIN - 1)
			return false;
	}
	node->chain_checked = f->code.chain;
	return true;
}
