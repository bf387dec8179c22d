/* SPDX-License-Identifier: MIT */
/* pt_insn_*: the instructions of Ptah's blocks, one by one. */
#include "walk.h"

#include <stdlib.h>

struct pt_insn_decoder {
	struct walk walk;
};

struct pt_insn_decoder *pt_insn_alloc_decoder(const struct pt_config *config)
{
	struct pt_insn_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return NULL;
	if (walk_init(&decoder->walk, config, true) < 0) {
		pt_insn_free_decoder(decoder);
		return NULL;
	}
	return decoder;
}

void pt_insn_free_decoder(struct pt_insn_decoder *decoder)
{
	if (!decoder)
		return;
	walk_fini(&decoder->walk);
	free(decoder);
}

int pt_insn_sync_forward(struct pt_insn_decoder *decoder)
{
	return decoder ? walk_sync_forward(&decoder->walk) : -pte_invalid;
}

int pt_insn_sync_backward(struct pt_insn_decoder *decoder)
{
	return decoder ? walk_sync_backward(&decoder->walk) : -pte_invalid;
}

int pt_insn_sync_set(struct pt_insn_decoder *decoder, uint64_t offset)
{
	return decoder ? walk_sync_set(&decoder->walk, offset) : -pte_invalid;
}

int pt_insn_resync(struct pt_insn_decoder *decoder)
{
	return decoder ? walk_resync(&decoder->walk) : -pte_invalid;
}

int pt_insn_get_offset(const struct pt_insn_decoder *decoder, uint64_t *offset)
{
	if (!decoder || !offset)
		return -pte_invalid;
	/* It may have to read ahead, which changes nothing that the caller can see. */
	return walk_offset(&((struct pt_insn_decoder *)decoder)->walk, offset);
}

int pt_insn_get_sync_offset(const struct pt_insn_decoder *decoder, uint64_t *offset)
{
	return decoder && offset ? walk_sync_offset(&decoder->walk, offset) : -pte_invalid;
}

struct pt_image *pt_insn_get_image(struct pt_insn_decoder *decoder)
{
	return decoder ? decoder->walk.image : NULL;
}

int pt_insn_set_image(struct pt_insn_decoder *decoder, struct pt_image *image)
{
	return decoder ? walk_set_image(&decoder->walk, image) : -pte_invalid;
}

const struct pt_config *pt_insn_get_config(const struct pt_insn_decoder *decoder)
{
	return decoder ? &decoder->walk.config.user : NULL;
}

int pt_insn_time(struct pt_insn_decoder *decoder, uint64_t *time, uint32_t *lost_mtc,
		 uint32_t *lost_cyc)
{
	return decoder && time ? walk_time(&decoder->walk, time, lost_mtc, lost_cyc) : -pte_invalid;
}

int pt_insn_core_bus_ratio(struct pt_insn_decoder *decoder, uint32_t *cbr)
{
	return decoder && cbr ? walk_ratio(&decoder->walk, cbr) : -pte_invalid;
}

int pt_insn_asid(const struct pt_insn_decoder *decoder, struct pt_asid *asid, size_t size)
{
	return decoder && asid ? walk_asid(&decoder->walk, asid, size) : -pte_invalid;
}

int pt_insn_event(struct pt_insn_decoder *decoder, struct pt_event *event, size_t size)
{
	return decoder ? walk_event(&decoder->walk, event, size) : -pte_invalid;
}

/* Writes the next instruction of the loaded block, which lies in the current section. */
static inline void put_insn(const struct walk *w, struct pt_insn *to)
{
	static const enum pt_exec_mode modes[] = {ptem_unknown, ptem_16bit, ptem_32bit, ptem_64bit};
	const struct ptah_insn *insn = &w->insn_room[w->insns.pos];

	to->ip = insn->ip;
	to->isid = w->sections.at.isid;
	to->mode = modes[insn->mode & 3];
	/* Bytes after the instruction are 0 here; libipt leaves them undefined. */
	memcpy(to->raw, insn->bytes, sizeof(to->raw));
	memset(&to->size, 0, sizeof(*to) - offsetof(struct pt_insn, size));
	to->size = insn->size;
	/*
	 * Not right after the mode: gcc 12 would join the two stores in a vector register (1 % of a
	 * call).
	 */
	to->iclass = (enum pt_insn_class)walk_classes[insn->insn_class];
	to->speculative = !!(w->items.next->flags & PTAH_ITEM_SPECULATIVE);
}

/* Writes the bytes at an address where no instruction could be decoded. */
static void put_bytes(struct walk *w, struct pt_insn *insn)
{
	struct ptah_space space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};

	ptah_flow_space(w->flow, w->stop.place.space, &space);
	walk_find_section(w, insn->ip, w->stop.place.space);
	insn->isid = w->sections.at.isid;
	insn->size = (uint8_t)ptah_image_read(image_ptah(w->image), insn->ip, insn->raw,
					      sizeof(insn->raw), &space);
}

static NOINLINE int next_slowly(struct pt_insn_decoder *decoder, struct pt_insn *insn)
{
	struct walk *w = &decoder->walk;
	const struct ptah_insn *at;
	unsigned insn_class;

	*insn = (struct pt_insn){.ip = walk_ip(w),
				 .mode = (enum pt_exec_mode)w->state.mode,
				 .speculative = w->state.speculative};
	switch (walk_load(w)) {
	case WALK_EVENT:
		return -pte_event_ignored;
	case WALK_END:
		if (w->stop.error == -pte_bad_insn)
			put_bytes(w, insn);
		return walk_fail(w);
	default:
		break;
	}
	at = &w->insn_room[w->insns.pos];
	walk_find_section(w, at->ip, w->items.next->code.space);
	put_insn(w, insn);
	if (w->stop.ahead)
		insn->speculative = w->state.speculative;
	insn->truncated = w->sections.at.section && at->ip + at->size - 1 > w->sections.at.last;
	insn_class = at->insn_class;
	walk_pass_insn(w);
	if (walk_needs_trace(insn_class)) {
		if (w->stop.ahead)
			return walk_refuse(w, insn_class);
		if (w->ticks)
			walk_tick(w, insn->ip + insn->size);
	}
	return walk_status(w);
}

/* The last instruction of a block, while the walk is quick. */
static inline int end_block(struct walk *w, struct pt_insn *insn)
{
	const struct ptah_item *item = w->items.next;

	put_insn(w, insn);
	w->insns.loaded = false;
	w->items.next = item + 1;
	w->pending.after_cut = item->flags & PTAH_ITEM_TRUNCATED;
	if (walk_needs_trace(item->insn_class))
		w->position.now = item;
	if (LIKELY(w->items.next != w->items.end && w->items.next->type == PTAH_ITEM_BLOCK))
		return 0;
	return walk_status(w);
}

/* The first instruction of the next block, while the walk is quick. */
static NOINLINE int next_block(struct pt_insn_decoder *decoder, struct pt_insn *insn)
{
	struct walk *w = &decoder->walk;
	const struct ptah_item *item = w->items.next;
	int n;

	if (UNLIKELY(!walk_in_section(w, item))) {
		walk_find_section(w, item->ip, item->code.space);
		if (!walk_in_section(w, item) || !item->code.section)
			return next_slowly(decoder, insn);
	}
	n = ptah_flow_insns(w->flow, item, w->insn_room, WALK_INSNS);
	if (UNLIKELY(n < 1))
		return next_slowly(decoder, insn);
	w->insns.loaded = true;
	w->insns.count = (uint16_t)n;
	w->insns.pos = 0;
	if (n == 1)
		return end_block(w, insn);
	put_insn(w, insn);
	w->insns.pos = 1;
	return 0;
}

int pt_insn_next(struct pt_insn_decoder *decoder, struct pt_insn *insn, size_t size)
{
	struct pt_insn own;
	int status;

	if (UNLIKELY(!decoder || !insn))
		return -pte_invalid;
	if (UNLIKELY(!decoder->walk.state.enabled))
		return walk_look(&decoder->walk) == WALK_END ? walk_fail(&decoder->walk)
							     : -pte_no_enable;
	if (LIKELY(size == sizeof(*insn))) {
		struct walk *w = &decoder->walk;

		if (UNLIKELY(!w->quick))
			return next_slowly(decoder, insn);
		if (!w->insns.loaded)
			return next_block(decoder, insn);
		if (w->insns.pos == w->insns.count - 1)
			return end_block(w, insn);
		put_insn(w, insn);
		w->insns.pos++;
		return 0;
	}
	status = next_slowly(decoder, &own);
	if (size > sizeof(own)) {
		memset((char *)insn + sizeof(own), 0, size - sizeof(own));
		size = sizeof(own);
	}
	memcpy(insn, &own, size);
	return status;
}
