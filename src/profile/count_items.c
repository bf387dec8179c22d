/* SPDX-License-Identifier: MIT */
/* Counts the items that the flow reports for the packets that rows do not carry out. */
#include "profile/profile_internal.h"

static void count_event(struct ptah_profile *p, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_ERROR && !p->totals.errors++)
		p->totals.first_error = *item;
	p->totals.overflows += item->type == PTAH_ITEM_OVERFLOW;
	p->totals.gaps += item->type == PTAH_ITEM_GAP;
	if (p->config.on_event)
		p->config.on_event(p->config.context, item);
}

uint64_t profile_target_of(struct ptah_profile *p, const struct ptah_item *item)
{
	struct code_cache *code = &p->flow->code;
	const uint16_t space = code->space;
	const struct code_node *node;
	int status;

	code->space = (uint16_t)item->code.space;
	node = code_find(code, item->ip, item->mode, &status);
	code->space = space;
	return node && node->end == item->end ? node->target : 0;
}

struct tally_block *profile_count_block(struct ptah_profile *p, const struct ptah_item *item,
					uint64_t times)
{
	struct ptah_item head = {.type = PTAH_ITEM_BLOCK,
				 .flags = item->flags & PTAH_ITEM_TRUNCATED,
				 .mode = item->mode,
				 .insn_class = item->insn_class,
				 .ninsn = item->ninsn,
				 .last_size = item->last_size};
	struct tally_block key = {.ip = item->ip,
				  .end = item->end,
				  .space = item->code.space,
				  .section = item->code.section};
	struct tally_block *b;

	memcpy(&key.head, &head, sizeof(key.head));
	if (image_has_times(p->flow->code.image)) {
		key.target = profile_target_of(p, item);
		key.version = profile_version(p, item->ip, item->mode, item->code.space);
		key.target_version =
		    key.target ? profile_version(p, key.target, item->mode, item->code.space) : 0;
	}
	b = tally_block(&p->blocks, &key);
	if (!b) {
		p->status = PTAH_E_NOMEM;
		return NULL;
	}
	if (!b->count)
		b->target = profile_target_of(p, item);
	b->count += times;
	b->taken += item->flags & PTAH_ITEM_TAKEN ? times : 0;
	b->unknown += item->flags & PTAH_ITEM_UNKNOWN ? times : 0;
	return b;
}

void profile_count_item(struct ptah_profile *p, const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_BLOCK)
		count_event(p, item);
	else if (p->coverage)
		coverage_count_block(p, item);
	else
		profile_count_block(p, item, 1);
}
