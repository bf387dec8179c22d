/* SPDX-License-Identifier: MIT */
/* Finds branches in items: a block ends with one, and the next item is where it went. */
#include "export/branches.h"

#define MOST_INSNS 255

void branches_cut(struct branches *b)
{
	b->next.from = 0;
}

/* The branch that waits for its target went to `to`. */
static int settle(struct branches *b, uint16_t flags, uint64_t to, uint64_t tsc)
{
	struct branch branch = b->next;

	branches_cut(b);
	branch.flags |= flags;
	branch.to = to;
	branch.tsc = tsc;
	return branch.from ? b->take(b->context, &branch) : 0;
}

static int report_branch_row(struct branches *b, const struct ptah_item *item, uint16_t flags,
			     uint64_t from, uint64_t to)
{
	const struct branch branch = {
	    .from = from, .to = to, .tsc = item->tsc, .flags = (uint16_t)(BRANCH_ANY | flags)};

	branches_cut(b);
	return b->take(b->context, &branch);
}

/* Far branches of one class are several things: their opcodes say which (SDM volume 2). */
static uint16_t far_flags(const struct branches *b, const struct ptah_item *block)
{
	const bool call = block->insn_class == PTAH_INSN_FAR_CALL;
	const uint16_t flags = call ? BRANCH_CALL : BRANCH_RETURN;
	struct ptah_insn insns[MOST_INSNS];
	const int n = ptah_reader_insns(b->reader, block, insns, MOST_INSNS);
	const uint8_t *p = insns[n > 0 ? n - 1 : 0].bytes;
	size_t i = 0;

	if (n <= 0)
		return flags;
	while (i < 4 && ((p[i] & 0xf0) == 0x40 || p[i] == 0xf2 || p[i] == 0xf3 || p[i] == 0x66))
		i++; /* prefixes */
	if (p[i] == 0x0f &&
	    (p[i + 1] == 0x05 || p[i + 1] == 0x34 || p[i + 1] == 0x07 || p[i + 1] == 0x35))
		return flags | BRANCH_SYSTEM; /* SYSCALL, SYSENTER, SYSRET, SYSEXIT */
	if (p[i] == 0xcf || p[i] == 0xcd || p[i] == 0xcc || p[i] == 0xce || p[i] == 0xf1)
		return flags | BRANCH_INTERRUPT; /* IRET, INT n, INT3, INTO, INT1 */
	return flags;
}

/* 0: the block does not end with a branch that was taken. */
static uint16_t flags_of(const struct branches *b, const struct ptah_item *block)
{
	if (block->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN) || !block->last_size)
		return 0;
	switch (block->insn_class) {
	case PTAH_INSN_COND:
		return block->flags & PTAH_ITEM_TAKEN ? BRANCH_ANY | BRANCH_CONDITIONAL : 0;
	case PTAH_INSN_JUMP:
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_FAR_JUMP:
		return BRANCH_ANY;
	case PTAH_INSN_CALL:
	case PTAH_INSN_CALL_IND:
		return BRANCH_ANY | BRANCH_CALL;
	case PTAH_INSN_RETURN:
		return BRANCH_ANY | BRANCH_RETURN;
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_RETURN:
		return BRANCH_ANY | far_flags(b, block);
	default:
		return 0;
	}
}

static int take_block(struct branches *b, const struct ptah_item *block)
{
	const int status = settle(b, 0, block->ip, block->tsc);
	const uint16_t flags = flags_of(b, block);

	if (flags)
		b->next = (struct branch){.from = block->end - block->last_size,
					  .flags = flags,
					  .size = block->last_size};
	return status;
}

int branches_take(struct branches *b, const struct ptah_item *item)
{
	int status;

	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		return take_block(b, item);
	case PTAH_ITEM_ENABLED:
		return report_branch_row(b, item, BRANCH_BEGIN, 0, item->ip);
	case PTAH_ITEM_DISABLED:
		return settle(b, BRANCH_END, item->to, item->tsc);
	case PTAH_ITEM_ASYNC_DISABLED:
		status = settle(b, 0, item->ip, item->tsc);
		return status < 0
			   ? status
			   : report_branch_row(b, item, BRANCH_ASYNC | BRANCH_END, item->ip, 0);
	case PTAH_ITEM_ASYNC_BRANCH:
		status = settle(b, 0, item->ip, item->tsc);
		return status < 0 ? status
				  : report_branch_row(b, item,
						      BRANCH_CALL | BRANCH_ASYNC | BRANCH_INTERRUPT,
						      item->ip, item->to);
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_GAP:
		branches_cut(b);
		return 0;
	default:
		return 0;
	}
}
