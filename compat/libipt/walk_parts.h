/* SPDX-License-Identifier: MIT */
/* Functions that only the files walk*.c share: reading, events, errors, the beginning of a walk. */
#ifndef PTAH_LIBIPT_WALK_PARTS_H
#define PTAH_LIBIPT_WALK_PARTS_H

#include "walk.h"

/* Reading */

static inline struct ptah_item *walk_first_item(struct walk *w)
{
	return w->item_room + 1;
}

/* Discards everything that was read. */
void walk_forget_items(struct walk *walk);

/* How many items of the batch have been used. */
unsigned walk_used_up(const struct walk *walk);

/* Copies *position.now before its array changes. */
void walk_keep_now(struct walk *walk);

/* Reads the next batch, or finds the end. */
void walk_refill(struct walk *walk);

/*
 * Whether there is an item at *item, or one can be read. It is added to the batch, whose mark
 * remains valid. Updates *item when the array moves.
 */
bool walk_is_item(struct walk *walk, const struct ptah_item **item);

/* Reads this many items again, without reporting them. */
bool walk_lead(struct walk *walk, unsigned items);

/*
 * The image is about to change: discards what was read ahead. The flow goes back to the mark and
 * reads up to the same place again.
 */
void walk_step_back(struct image_user *user);

/* The image is being freed: an empty one replaces it. */
void walk_image_gone(struct image_user *user);

/* Forgets all sections. */
void walk_forget_sections(struct walk *walk);

/* Events */

static inline struct walk_event *walk_first_pending(struct walk *w)
{
	return &w->pending.events[w->pending.first];
}

/*
 * Whether the block's last instruction is at `ip`, the address of an event that is reported after
 * it.
 */
static inline bool walk_is_behind(const struct ptah_item *before, uint64_t ip)
{
	return before->type == PTAH_ITEM_BLOCK && before->end - before->last_size == ip;
}

/* Whether this event belongs to the same branch as one of those right before it. */
bool walk_is_of_branch(const struct walk *walk, const struct ptah_item *item);

/*
 * Whether more is to be reported about the last packet of this event. libipt reports the events of
 * a PSB+ one after another at its end, and so those of a branch.
 */
bool walk_is_tied(struct walk *walk, const struct ptah_item **item);

/*
 * Makes a pending event of the next item, which is neither a block nor an error, if libipt has one.
 */
void walk_take_item(struct walk *walk);

/*
 * The number of items from the next one on that follow an OVF in the trace, where libipt reports
 * the OVF first: if tracing is off, so that no FUP belongs to the OVF.
 */
unsigned walk_count_in_loss(struct walk *walk);

/* Takes the OVF's item first, and then those, so that what was taken is a number of items. */
void walk_take_loss(struct walk *walk, unsigned in_loss);

/* Whether this item's event may wait while an earlier event waits for its place. */
bool walk_can_follow(const struct ptah_item *item);

/* Whether the walk has reached the place of the first pending event. */
bool walk_is_due(struct walk *walk);

/* Errors */

/* Is the next item an error that libipt 2.0 does not report, because it accepts what follows? */
bool walk_is_believed(struct walk *walk);

/*
 * libipt's error code for code that cannot be read; `partly` if some bytes of the instruction can.
 * Asks for a whole instruction, because some callbacks return all or nothing.
 */
int walk_code_error(struct walk *walk, int partly);

/* Finds the event whose place could not be reached, if that is what the error is about. */
bool walk_find_missed(struct walk *walk, const struct ptah_item **item);

/* The next item is an error: it becomes the reason why there are no more items. */
void walk_meet_error(struct walk *walk);

/*
 * The item that libipt has read last. libipt reads an event that precedes the next branch before
 * its place is reached, and also what belongs to an indirect branch and precedes it in the trace.
 * *at_last: more is to be reported about its last packet.
 */
const struct ptah_item *walk_find_now(struct walk *walk, bool *at_last);

/* Beginning */

/* Sets everything as before the first packet. */
void walk_reset(struct walk *walk);

#endif
