/* SPDX-License-Identifier: MIT */
/* What the parts of the walk share with each other alone. */
#ifndef PTAH_LIBIPT_WALK_PARTS_H
#define PTAH_LIBIPT_WALK_PARTS_H

#include "walk.h"

/* Reading */

static inline struct ptah_item *walk_first_item(struct walk *w)
{
	return w->item_room + 1;
}

/* Nothing is read, nothing known of what comes. */
void walk_forget_items(struct walk *walk);

/* Items of the batch that are told. */
unsigned walk_used_up(const struct walk *walk);

/* *now outlives the array that it is in. */
void walk_keep_now(struct walk *walk);

/* The batch is told: the next one, or the end. */
void walk_refill(struct walk *walk);

/*
 * Is there an item here, or more of them to be read? They go behind the batch,
 * and its mark still counts for them. Moves *item with the array.
 */
bool walk_is_item(struct walk *walk, const struct ptah_item **item);

/* Reads this many items again. */
bool walk_lead(struct walk *walk, unsigned items);

/*
 * The image is about to change: what was read of the old one and not told goes.
 * The flow goes back to the mark and is led again to where we are.
 */
void walk_step_back(struct image_user *user);

/* The image goes: an empty one takes its place. */
void walk_image_gone(struct image_user *user);

/* No section is known. */
void walk_forget_sections(struct walk *walk);

/* Events */

static inline struct walk_event *walk_first_pending(struct walk *w)
{
	return &w->pending.events[w->pending.first];
}

/* Does an instruction end at the place that the item is at, with the address of its event? */
static inline bool walk_is_behind(const struct ptah_item *before, uint64_t ip)
{
	return before->type == PTAH_ITEM_BLOCK && before->end - before->last_size == ip;
}

/* Does this event come of the same branch as one of those right before it? */
bool walk_is_of_branch(const struct walk *walk, const struct ptah_item *item);

/*
 * Is there more to tell of the last packet of this event? Of a PSB+ libipt tells
 * one event after another at its end, and so it does at a branch.
 */
bool walk_is_tied(struct walk *walk, const struct ptah_item **item);

/* The item at hand, which is no block and no error, becomes an event or nothing. */
void walk_take_item(struct walk *walk);

/* May the event of this item wait behind one that waits for its place? */
bool walk_can_follow(const struct ptah_item *item);

/* Is the first pending event at its place? */
bool walk_is_due(struct walk *walk);

/* Errors */

/* An error of Ptah's that is none of libipt 2.0's: it believes what comes behind it. */
bool walk_is_believed(struct walk *walk);

/*
 * libipt's word for code that cannot be read, or `partly` where some of an
 * instruction can. Asks for a whole one, as there are callbacks that give all or nothing.
 */
int walk_code_error(struct walk *walk, int partly);

/* The event whose place could not be reached, which is what the error is about. */
bool walk_find_missed(struct walk *walk, const struct ptah_item **item);

/* The item at hand is an error: it becomes why there is nothing more. */
void walk_meet_error(struct walk *walk);

/*
 * What libipt has read last: an event that comes before the next branch is read
 * before its place is reached; so is what comes with an indirect branch, which is
 * sent before it. *at_last: not all has been told of what its last packet brings.
 */
const struct ptah_item *walk_find_now(struct walk *walk, bool *at_last);

/* Beginning */

/* As if nothing had been read. */
void walk_reset(struct walk *walk);

#endif
