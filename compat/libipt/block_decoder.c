/* SPDX-License-Identifier: MIT */
/*
 * pt_blk_*: Ptah's blocks, joined over direct jumps and calls. libipt's blocks end where trace is
 * needed, at events, where the section changes, and where the caller's flags ask for it.
 */
#include "walk.h"

#include <stdlib.h>

struct pt_block_decoder {
	struct walk walk;
	unsigned ends; /* instruction classes that end blocks, as bits */
};

struct pt_block_decoder *pt_blk_alloc_decoder(const struct pt_config *config)
{
	struct pt_block_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return NULL;
	if (walk_init(&decoder->walk, config, false) < 0) {
		pt_blk_free_decoder(decoder);
		return NULL;
	}
	for (unsigned insn_class = 0; insn_class < PTAH_INSN_CLASS_MAX; insn_class++)
		if (walk_needs_trace(insn_class))
			decoder->ends |= 1u << insn_class;
	if (decoder->walk.config.user.flags.variant.block.end_on_call)
		decoder->ends |= 1u << PTAH_INSN_CALL;
	if (decoder->walk.config.user.flags.variant.block.end_on_jump)
		decoder->ends |= 1u << PTAH_INSN_JUMP;
	return decoder;
}

void pt_blk_free_decoder(struct pt_block_decoder *decoder)
{
	if (!decoder)
		return;
	walk_fini(&decoder->walk);
	free(decoder);
}

int pt_blk_sync_forward(struct pt_block_decoder *decoder)
{
	return decoder ? walk_sync_forward(&decoder->walk) : -pte_invalid;
}

int pt_blk_sync_backward(struct pt_block_decoder *decoder)
{
	return decoder ? walk_sync_backward(&decoder->walk) : -pte_invalid;
}

int pt_blk_sync_set(struct pt_block_decoder *decoder, uint64_t offset)
{
	return decoder ? walk_sync_set(&decoder->walk, offset) : -pte_invalid;
}

int pt_blk_resync(struct pt_block_decoder *decoder)
{
	return decoder ? walk_resync(&decoder->walk) : -pte_invalid;
}

int pt_blk_get_offset(const struct pt_block_decoder *decoder, uint64_t *offset)
{
	if (!decoder || !offset)
		return -pte_invalid;
	/* It may have to read ahead, which changes nothing that the caller can see. */
	return walk_offset(&((struct pt_block_decoder *)decoder)->walk, offset);
}

int pt_blk_get_sync_offset(const struct pt_block_decoder *decoder, uint64_t *offset)
{
	return decoder && offset ? walk_sync_offset(&decoder->walk, offset) : -pte_invalid;
}

struct pt_image *pt_blk_get_image(struct pt_block_decoder *decoder)
{
	return decoder ? decoder->walk.image : NULL;
}

int pt_blk_set_image(struct pt_block_decoder *decoder, struct pt_image *image)
{
	return decoder ? walk_set_image(&decoder->walk, image) : -pte_invalid;
}

const struct pt_config *pt_blk_get_config(const struct pt_block_decoder *decoder)
{
	return decoder ? &decoder->walk.config.user : NULL;
}

int pt_blk_time(struct pt_block_decoder *decoder, uint64_t *time, uint32_t *lost_mtc,
		uint32_t *lost_cyc)
{
	return decoder && time ? walk_time(&decoder->walk, time, lost_mtc, lost_cyc) : -pte_invalid;
}

int pt_blk_core_bus_ratio(struct pt_block_decoder *decoder, uint32_t *cbr)
{
	return decoder && cbr ? walk_ratio(&decoder->walk, cbr) : -pte_invalid;
}

int pt_blk_asid(const struct pt_block_decoder *decoder, struct pt_asid *asid, size_t size)
{
	return decoder && asid ? walk_asid(&decoder->walk, asid, size) : -pte_invalid;
}

int pt_blk_event(struct pt_block_decoder *decoder, struct pt_event *event, size_t size)
{
	return decoder ? walk_event(&decoder->walk, event, size) : -pte_invalid;
}

/*
 * Adds the next instruction to the block. False: it lies in another section, or the block is full.
 */
static bool add_insn(struct walk *w, struct pt_block *block)
{
	const struct ptah_insn *insn = &w->insn_room[w->insns.pos];
	const uint32_t space = w->items.next->code.space;

	if (!(insn->ip >= w->sections.at.first && insn->ip <= w->sections.at.last &&
	      w->sections.at.space == space))
		walk_find_section(w, insn->ip, space);
	if (block->ninsn && (w->sections.at.isid != block->isid || block->ninsn == UINT16_MAX))
		return false;
	block->isid = w->sections.at.isid;
	block->end_ip = insn->ip;
	block->iclass = (enum pt_insn_class)walk_classes[insn->insn_class];
	block->ninsn++;
	if (w->sections.at.section && insn->ip + insn->size - 1 > w->sections.at.last) {
		block->truncated = 1;
		block->size = insn->size;
		memcpy(block->raw, insn->bytes, insn->size);
	}
	return true;
}

/* Adds instructions one by one up to the end of the block, which may have begun. */
static NOINLINE int add_insns(struct pt_block_decoder *decoder, struct pt_block *block)
{
	struct walk *w = &decoder->walk;

	for (;;) {
		const enum walk_next next = walk_load(w);
		unsigned insn_class;

		if (next == WALK_END)
			return walk_fail(w);
		if (next == WALK_EVENT || !add_insn(w, block))
			break;
		insn_class = w->insn_room[w->insns.pos].insn_class;
		walk_pass_insn(w);
		if (w->stop.ahead && walk_needs_trace(insn_class))
			return walk_refuse(w, insn_class);
		if (decoder->ends >> insn_class & 1) {
			if (w->ticks && walk_needs_trace(insn_class))
				walk_tick(w, block->end_ip);
			break;
		}
		if (block->truncated)
			break;
	}
	return walk_status(w);
}

static NOINLINE int next_slowly(struct pt_block_decoder *decoder, struct pt_block *block)
{
	struct walk *w = &decoder->walk;
	const enum walk_next next = walk_look(w);

	*block = (struct pt_block){.ip = walk_ip(w),
				   .mode = (enum pt_exec_mode)w->state.mode,
				   .speculative = w->state.speculative};
	if (next == WALK_EVENT)
		return walk_status(w);
	if (!w->state.enabled)
		return next == WALK_END ? walk_fail(w) : -pte_no_enable;
	if (next == WALK_BLOCK && !w->stop.ahead)
		block->speculative = !!(w->items.next->flags & PTAH_ITEM_SPECULATIVE);
	return add_insns(decoder, block);
}

static inline void put_word(struct pt_block *block, size_t at, uint64_t word)
{
	memcpy((char *)block + at, &word, sizeof(word));
}

/*
 * Writes the whole struct in six stores. Field by field, with bit fields read and written back, it
 * takes as long as finding out what is in it.
 */
static inline void put_block(struct pt_block *block, uint64_t ip, unsigned mode, unsigned flags,
			     uint64_t end_ip, int isid, unsigned insn_class, unsigned ninsn)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	_Static_assert(
	    offsetof(struct pt_block, isid) == 16 && offsetof(struct pt_block, mode) == 20 &&
		offsetof(struct pt_block, iclass) == 24 && offsetof(struct pt_block, ninsn) == 28 &&
		offsetof(struct pt_block, size) == 45 && sizeof(*block) == 48,
	    "words of a block");
	put_word(block, 0, ip);
	put_word(block, 8, end_ip);
	put_word(block, 16, (uint32_t)isid | (uint64_t)mode << 32);
	put_word(block, 24, walk_classes[insn_class] | (uint64_t)ninsn << 32);
	put_word(block, 32, 0);
	put_word(block, 40, (uint64_t)(flags / PTAH_ITEM_SPECULATIVE & 1) << 48);
#else
	*block = (struct pt_block){.ip = ip,
				   .end_ip = end_ip,
				   .isid = isid,
				   .mode = (enum pt_exec_mode)mode,
				   .iclass = (enum pt_insn_class)walk_classes[insn_class],
				   .ninsn = (uint16_t)ninsn,
				   .speculative = !!(flags & PTAH_ITEM_SPECULATIVE)};
#endif
}

_Static_assert((int)PTAH_EXEC_16 == (int)ptem_16bit && (int)PTAH_EXEC_32 == (int)ptem_32bit &&
		   (int)PTAH_EXEC_64 == (int)ptem_64bit,
	       "modes have the same numbers");

/* Continues a block after the item `last`, when the rest of it is not made of whole items. */
static NOINLINE int finish_slowly(struct pt_block_decoder *decoder, struct pt_block *block,
				  const struct ptah_item *last)
{
	struct walk *w = &decoder->walk;
	int n;

	w->quick = false;
	w->items.next = last + 1;
	w->pending.after_cut = last->flags & PTAH_ITEM_TRUNCATED;
	if (last->insn_class == PTAH_INSN_OTHER) { /* or a PTWRITE, which ends no block in Ptah */
		n = ptah_flow_insns(w->flow, last, w->insn_room, WALK_INSNS);
		if (n > 0)
			block->iclass =
			    (enum pt_insn_class)walk_classes[w->insn_room[n - 1].insn_class];
	}
	return add_insns(decoder, block);
}

static int next_elsewhere(struct pt_block_decoder *decoder, struct pt_block *block);

/*
 * The next block while the walk is quick: whole items of one section. Rare cases are tail calls of
 * other functions, so that this function saves no registers.
 */
static inline int next_quickly(struct pt_block_decoder *decoder, struct pt_block *block)
{
	struct walk *w = &decoder->walk;
	const struct ptah_item *const first = w->items.next, *const end = w->items.end;
	const struct ptah_item *item = first;
	const unsigned ends = decoder->ends;
	unsigned ninsn = item->ninsn;

	if (UNLIKELY(!walk_in_section(w, item)))
		return next_elsewhere(decoder, block);
	while (!(ends >> item->insn_class & 1)) {
		const struct ptah_item *behind = item + 1;

		if (UNLIKELY(behind == end || behind->type != PTAH_ITEM_BLOCK ||
			     !walk_in_section(w, behind) || ninsn + behind->ninsn > UINT16_MAX)) {
			put_block(block, first->ip, first->mode, first->flags,
				  item->end - item->last_size, w->sections.at.isid,
				  item->insn_class, ninsn);
			return finish_slowly(decoder, block, item);
		}
		item = behind;
		ninsn += item->ninsn;
	}
	put_block(block, first->ip, first->mode, first->flags, item->end - item->last_size,
		  w->sections.at.isid, item->insn_class, ninsn);
	w->items.next = item + 1;
	w->pending.after_cut = false;
	if (LIKELY(walk_needs_trace(item->insn_class)))
		w->position.now = item;
	if (LIKELY(item + 1 != end && item[1].type == PTAH_ITEM_BLOCK))
		return 0;
	return item + 1 == end && walk_enter_blocks(w) ? 0 : walk_status(w);
}

/* The item lies in another section than the one before. */
static NOINLINE int next_elsewhere(struct pt_block_decoder *decoder, struct pt_block *block)
{
	struct walk *w = &decoder->walk;

	walk_find_section(w, w->items.next->ip, w->items.next->code.space);
	if (!walk_in_section(w, w->items.next) || !w->items.next->code.section)
		return next_slowly(decoder, block);
	return next_quickly(decoder, block);
}

/* Whether the block lies in the current section. */
static inline bool is_at_hand(const struct walk *w, const struct ptah_block *b)
{
	return b->ip >= w->sections.at.first && b->ip + b->size - 1 <= w->sections.at.last &&
	       b->space == w->sections.at.space;
}

static int next_of_others(struct pt_block_decoder *decoder, struct pt_block *block, bool is_short);

/* The same as next_quickly() for an array of struct ptah_block. */
static inline int next_of_blocks(struct pt_block_decoder *decoder, struct pt_block *block)
{
	struct walk *w = &decoder->walk;
	const struct ptah_block *const first = w->blocks.next, *const end = w->blocks.end;
	const struct ptah_block *b = first;
	const unsigned ends = decoder->ends;
	unsigned ninsn = b->ninsn;

	if (UNLIKELY(!is_at_hand(w, b)))
		return next_of_others(decoder, block, false);
	while (!(ends >> b->insn_class & 1)) {
		if (UNLIKELY(++b == end))
			return next_of_others(decoder, block, true);
		ninsn += b->ninsn;
		if (UNLIKELY(!is_at_hand(w, b) || ninsn > UINT16_MAX))
			return next_of_others(decoder, block, false);
	}
	put_block(block, first->ip, first->mode, first->flags, b->ip + b->size - b->last_size,
		  w->sections.at.isid, b->insn_class, ninsn);
	w->blocks.next = b + 1;
	if (LIKELY(b + 1 != end) || walk_more_blocks(w))
		return 0;
	walk_leave_blocks(w);
	return walk_status(w);
}

/* The array ended before the block did, or the block lies in another section. */
static NOINLINE int next_of_others(struct pt_block_decoder *decoder, struct pt_block *block,
				   bool is_short)
{
	struct walk *w = &decoder->walk;

	if (is_short && walk_more_blocks(w))
		return next_of_blocks(decoder, block);
	if (!is_short && !is_at_hand(w, w->blocks.next)) {
		walk_find_section(w, w->blocks.next->ip, w->blocks.next->space);
		if (w->sections.at.section && is_at_hand(w, w->blocks.next))
			return next_of_blocks(decoder, block);
	}
	return next_slowly(decoder, block);
}

/* The caller's struct has another size than this library's. */
static NOINLINE int next_resized(struct pt_block_decoder *decoder, struct pt_block *block,
				 size_t size)
{
	struct pt_block own;
	int status = next_slowly(decoder, &own);

	if (size > sizeof(own)) {
		memset((char *)block + sizeof(own), 0, size - sizeof(own));
		size = sizeof(own);
	}
	memcpy(block, &own, size);
	return status;
}

int pt_blk_next(struct pt_block_decoder *decoder, struct pt_block *block, size_t size)
{
	if (UNLIKELY(!decoder || !block))
		return -pte_invalid;
	if (UNLIKELY(size != sizeof(*block)))
		return next_resized(decoder, block, size);
	if (LIKELY(walk_has_blocks(&decoder->walk)))
		return next_of_blocks(decoder, block);
	if (UNLIKELY(!decoder->walk.quick))
		return next_slowly(decoder, block);
	return next_quickly(decoder, block);
}
