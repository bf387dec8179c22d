/* SPDX-License-Identifier: MIT */
/*
 * Compares packet_group.h with the event decoder: wherever one of its functions reads or takes
 * packets, event_next() must report the same of the same bytes, and be in the same state after
 * them.
 */
#ifndef PTAH_TESTS_EVENT_COMPARE_GROUP_H
#define PTAH_TESTS_EVENT_COMPARE_GROUP_H

#include "event/packet_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_LOOK 16

/* What has been compared, so that a test notices when nothing was. */
struct group_counts {
	unsigned psb, group;
};

#define GROUP_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			return false;                                                              \
		}                                                                                  \
	} while (0)

/* The state that a PSB+ sets is the same in both. */
static inline bool same_after_psb(const struct ptah_event_decoder *d,
				  const struct ptah_event_decoder *taken,
				  const struct packet_psb *psb)
{
	GROUP_CHECK(d->plain && d->enabled && d->enabled_known == taken->enabled_known);
	GROUP_CHECK(d->tsc == taken->tsc && d->tsc_error == taken->tsc_error);
	GROUP_CHECK(!memcmp(&d->time, &taken->time, sizeof(d->time)));
	GROUP_CHECK(d->ratio == taken->ratio && d->mode == taken->mode);
	GROUP_CHECK(d->iflag == taken->iflag && d->in_tx == taken->in_tx);
	GROUP_CHECK(d->last_ip == psb->ip);
	return true;
}

/* The decoder is at a PSB+ that was read: lets it report the PSB+, which it has to do without
 * error. */
static inline bool compare_psb(struct ptah_event_decoder *d, const struct packet_psb *psb)
{
	const uint64_t begin = event_offset(d, psb->begin), end = event_offset(d, psb->end);
	struct ptah_event_decoder *taken = malloc(sizeof(*taken));
	struct ptah_item item;
	unsigned found = 0;
	bool takes, same;

	GROUP_CHECK(taken);
	*taken = *d;
	takes = event_take_psb(taken, psb, UINT64_MAX);
	/* With errata, ticks or every packet reported it is left to the decoder, errors included.
	 */
	if (!takes) {
		free(taken);
		return event_next(d, &item);
	}
	while (event_offset(d, d->pos) < end || d->queue_count) {
		GROUP_CHECK(event_next(d, &item));
		if (item.type == PTAH_ITEM_CBR)
			continue;
		GROUP_CHECK(item.flags & PTAH_ITEM_STATUS && item.offset >= begin);
		if (item.type == PTAH_ITEM_PSB) {
			GROUP_CHECK(item.ip == psb->ip && item.offset == begin);
			found++;
		} else if (item.type == PTAH_ITEM_PAGING) {
			GROUP_CHECK(psb->has_cr3 && item.cr3 == psb->cr3);
		} else if (item.type == PTAH_ITEM_VMCS) {
			GROUP_CHECK(psb->has_vmcs && item.vmcs == psb->vmcs);
		}
	}
	GROUP_CHECK(found == 1 && event_offset(d, d->pos) == end);
	same = same_after_psb(d, taken, psb);
	free(taken);
	return same;
}

/* The same for the other groups, which are one item. */
static inline bool compare_one(struct ptah_event_decoder *d, const struct packet_group *g)
{
	const uint64_t end = event_offset(d, g->end);
	struct ptah_item item;
	unsigned type = PTAH_ITEM_DISABLED;

	if (g->kind == PACKET_GROUP_FUP_PGD)
		type = PTAH_ITEM_ASYNC_DISABLED;
	else if (g->kind == PACKET_GROUP_FUP_TIP)
		type = PTAH_ITEM_ASYNC_BRANCH;
	GROUP_CHECK(event_next(d, &item) && item.type == type);
	GROUP_CHECK(item.to == g->to && (type == PTAH_ITEM_DISABLED || item.ip == g->ip));
	GROUP_CHECK(!(item.flags & PTAH_ITEM_IP_SUPPRESSED) == g->has_to);
	GROUP_CHECK(!d->queue_count && event_offset(d, d->pos) == end && d->last_ip == g->last_ip);
	GROUP_CHECK(d->enabled == (type == PTAH_ITEM_ASYNC_BRANCH) && d->enabled == d->plain);
	return true;
}

/* Decodes a trace, and compares wherever a group or a PSB+ begins. */
static inline bool groups_equal_events(const struct ptah_event_config *config, const uint8_t *trace,
				       size_t size, struct group_counts *counts)
{
	struct ptah_event_decoder *d;
	struct ptah_item item;
	bool same = true;

	if (ptah_event_decoder_new(config, &d) < 0 || ptah_event_feed(d, trace, size, true) < 0)
		abort();
	while (same) {
		const uint8_t *last = d->end - d->pos >= GROUP_LOOK ? d->end - GROUP_LOOK : NULL;
		struct packet_group g;
		struct packet_psb psb;

		if (d->plain && last && packet_psb_read(d->pos, last, &psb) && psb.has_ip) {
			same = compare_psb(d, &psb);
			counts->psb++;
		} else if (d->plain && last && packet_group_read(d->pos, last, d->last_ip, &g)) {
			same = compare_one(d, &g);
			counts->group++;
		} else if (!event_next(d, &item)) {
			break;
		}
	}
	ptah_event_decoder_free(d);
	return same;
}

#endif
