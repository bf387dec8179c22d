/* SPDX-License-Identifier: MIT */
/*
 * Looks along the direct branches ahead of the flow, without moving it: for an address, or for an
 * instruction of some kind.
 */
#include "flow/search.h"

#include "flow/flow_errata.h"
#include "flow/move.h"
#include "flow/walk.h"

bool flow_can_reach(struct ptah_flow *f, uint64_t ip)
{
	struct code_node *node;
	unsigned before, last_size;
	int status = 0;

	node = flow_here(f, &status);
	if (!node)
		return f->ip == ip;
	for (unsigned i = 0; i < MAX_CHAIN; i++) {
		struct code_node *next;

		if (ip >= node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size))
			return true;
		if (!flow_is_direct(node))
			return false;
		next = flow_chain_next(f, node);
		if (!next) /* nothing is mapped there, but execution gets there */
			return ip ==
			       (node->insn_class == PTAH_INSN_OTHER ? node->end : node->target);
		node = next;
	}
	return false;
}

bool flow_branches_to(struct ptah_flow *f, uint64_t ip)
{
	int status = 0;
	struct code_node *node = flow_here(f, &status);

	for (unsigned i = 0; node && i < MAX_CHAIN; i++) {
		const bool direct = flow_is_direct(node);

		if ((direct || node->insn_class == PTAH_INSN_COND) &&
		    node->insn_class != PTAH_INSN_OTHER && node->target == ip)
			return true;
		node = direct ? flow_chain_next(f, node) : NULL;
	}
	return false;
}

/* The node after the direct branches from here; NULL: no code can be read there. */
static const struct code_node *find_chain_end(struct ptah_flow *f)
{
	int status = 0;
	struct code_node *node = flow_here(f, &status);

	for (unsigned i = 0; node && i < MAX_CHAIN && flow_is_direct(node); i++)
		node = flow_chain_next(f, node);
	return node;
}

bool flow_leads_to_unseen(struct ptah_flow *f)
{
	const struct code_node *node = find_chain_end(f);

	return !node || flow_is_unseen(f, node);
}

bool flow_leads_to_hole(struct ptah_flow *f)
{
	return !find_chain_end(f);
}

bool flow_find_insn(struct ptah_flow *f, bool (*is_it)(const struct ptah_insn *), uint64_t *ip,
		    uint64_t *end)
{
	int status = 0;
	struct code_node *node = flow_here(f, &status);

	for (unsigned i = 0; node && i < MAX_CHAIN; i++) {
		const struct ptah_insn *insns =
		    code_insns(&f->code, node->ip, code_mode(node), node->space, code_ninsn(node));

		for (unsigned k = 0; insns && k < code_ninsn(node); k++) {
			if (!is_it(&insns[k]))
				continue;
			*ip = insns[k].ip;
			*end = insns[k].ip + insns[k].size;
			return true;
		}
		if (!flow_is_direct(node) || flow_is_skl014(f, node))
			break;
		node = flow_chain_next(f, node);
	}
	return false;
}

bool flow_comes_first(struct ptah_flow *f, uint64_t first, uint64_t second)
{
	unsigned before, last_size;
	int status = 0;
	struct code_node *node = flow_here(f, &status);

	for (;;) {
		bool has_second = second >= node->ip && second < node->end &&
				  code_locate(&f->code, node, second, &before, &last_size);

		if (first >= node->ip && first < (has_second ? second : node->end) &&
		    code_locate(&f->code, node, first, &before, &last_size))
			return true;
		if (has_second)
			return false;
		node = code_next(node, node->insn_class == PTAH_INSN_OTHER ? 0 : 1);
	}
}

unsigned flow_calls_before(struct ptah_flow *f, uint64_t ip)
{
	unsigned calls = 0, before, last_size;
	int status = 0;
	struct code_node *node = flow_here(f, &status);

	for (; node; node = code_next(node, node->insn_class == PTAH_INSN_OTHER ? 0 : 1)) {
		if (ip >= node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size))
			break;
		calls += flow_pushes(node);
	}
	return calls;
}

static bool is_prefix(unsigned byte, unsigned mode)
{
	static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
					   0x66, 0x67, 0xf0, 0xf2, 0xf3};

	return memchr(prefixes, (int)byte, sizeof(prefixes)) ||
	       (mode == PTAH_EXEC_64 && byte >> 4 == 4); /* REX */
}

/* The opcode after any prefixes: 0F, this byte, and its ModRM; else NULL. */
static const uint8_t *find_opcode_0f(const struct ptah_insn *insn, uint8_t opcode)
{
	unsigned i = 0;

	while (i < insn->size && is_prefix(insn->bytes[i], insn->mode))
		i++;
	if (i + 2 >= insn->size || insn->bytes[i] != 0x0f || insn->bytes[i + 1] != opcode)
		return NULL;
	return insn->bytes + i;
}

bool flow_is_mov_cr3(const struct ptah_insn *insn)
{
	const uint8_t *op = find_opcode_0f(insn, 0x22);

	return op && (op[2] >> 3 & 7) == 3;
}

bool flow_is_vmptrld(const struct ptah_insn *insn)
{
	const uint8_t *op = find_opcode_0f(insn, 0xc7);

	return op && (op[2] >> 3 & 7) == 6 && op[2] >> 6 != 3 && insn->bytes[0] != 0x66 &&
	       insn->bytes[0] != 0xf3;
}

bool flow_is_ptwrite(const struct ptah_insn *insn)
{
	return insn->insn_class == PTAH_INSN_PTWRITE;
}
