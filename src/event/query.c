/* SPDX-License-Identifier: MIT */
/* Queries (event.h): a caller that follows the code itself requests the next outcome or target. */
#include <ptah/event.h>

#include "event/event.h"

#include <stdlib.h>

struct ptah_query {
	struct ptah_event_decoder *events;

	/* Outcomes of the current TNT that are left: the oldest is bit tnt_count - 1. */
	uint64_t tnt;
	unsigned tnt_count;
	struct ptah_time tnt_time;
	uint64_t tnt_offset;

	/* The item after the TNT, and the time of the item. */
	bool has_item;
	struct ptah_item item;
	struct ptah_time item_time;

	/* Time and offset of the last answer. */
	struct ptah_time time;
	uint64_t offset;
};

int ptah_query_new(const struct ptah_event_config *config, struct ptah_query **query)
{
	struct ptah_query *q;
	int status;

	if (!query)
		return PTAH_E_INVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return PTAH_E_NOMEM;
	status = ptah_event_decoder_new(config, &q->events);
	if (status < 0) {
		free(q);
		return status;
	}
	*query = q;
	return 0;
}

void ptah_query_free(struct ptah_query *q)
{
	if (!q)
		return;
	ptah_event_decoder_free(q->events);
	free(q);
}

int ptah_query_feed(struct ptah_query *q, const void *bytes, size_t n, bool last)
{
	return q ? ptah_event_feed(q->events, bytes, n, last) : PTAH_E_INVAL;
}

/* Reads the item after the current outcomes. Returns 0, PTAH_E_MORE or PTAH_E_END. */
static int look(struct ptah_query *q)
{
	if (q->has_item)
		return 0;
	if (!event_next(q->events, &q->item))
		return q->events->phase == EVENT_DONE ? PTAH_E_END : PTAH_E_MORE;
	q->has_item = true;
	/* The decoder's position is right after the packet that completed the item. */
	ptah_event_time(q->events, &q->item_time);
	return 0;
}

/* Makes sure that there are outcomes, or else an item that is no TNT. */
static int fill(struct ptah_query *q)
{
	int status;

	if (q->tnt_count)
		return 0;
	status = look(q);
	if (status < 0 || q->item.type != PTAH_ITEM_TNT)
		return status;
	q->tnt = q->item.bits;
	q->tnt_count = q->item.count;
	q->tnt_time = q->item_time;
	q->tnt_offset = q->item.offset;
	q->has_item = false;
	return 0;
}

static void use_item(struct ptah_query *q)
{
	q->has_item = false;
	q->time = q->item_time;
	q->offset = q->item.offset;
}

int ptah_query_next(struct ptah_query *q)
{
	int status = q ? fill(q) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	if (q->tnt_count)
		return PTAH_QUERY_COND;
	return q->item.type == PTAH_ITEM_TIP ? PTAH_QUERY_INDIRECT : PTAH_QUERY_EVENT;
}

int ptah_query_cond(struct ptah_query *q, bool *taken)
{
	int kind = taken ? ptah_query_next(q) : PTAH_E_INVAL;

	if (kind < 0)
		return kind;
	if (kind != PTAH_QUERY_COND)
		return kind == PTAH_QUERY_EVENT ? PTAH_E_EVENT : PTAH_E_QUERY;
	*taken = q->tnt >> --q->tnt_count & 1;
	q->time = q->tnt_time;
	q->offset = q->tnt_offset;
	return 0;
}

int ptah_query_indirect(struct ptah_query *q, uint64_t *ip)
{
	int status = q && ip ? fill(q) : PTAH_E_INVAL;

	if (status >= 0) /* a deferred TIP follows the outcomes: the item after them is looked at */
		status = look(q);
	if (status < 0)
		return status;
	if (q->item.type != PTAH_ITEM_TIP)
		return q->tnt_count || q->item.type == PTAH_ITEM_TNT ? PTAH_E_QUERY : PTAH_E_EVENT;
	*ip = q->item.to;
	use_item(q);
	return 0;
}

int ptah_query_return(struct ptah_query *q, uint64_t *ip)
{
	int status = ip ? ptah_query_next(q) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	if (status != PTAH_QUERY_COND)
		return ptah_query_indirect(q, ip);
	if (!(q->tnt >> (q->tnt_count - 1) & 1)) /* SDM: a compressed return is a taken branch */
		return PTAH_E_QUERY;
	q->tnt_count--;
	q->time = q->tnt_time;
	q->offset = q->tnt_offset;
	return 1;
}

int ptah_query_event(struct ptah_query *q, struct ptah_item *event)
{
	int kind = event ? ptah_query_next(q) : PTAH_E_INVAL;

	if (kind < 0)
		return kind;
	if (kind != PTAH_QUERY_EVENT)
		return 0;
	*event = q->item;
	use_item(q);
	return 1;
}

int ptah_query_time(const struct ptah_query *q, struct ptah_time *time)
{
	if (!q || !time)
		return PTAH_E_INVAL;
	*time = q->time;
	return q->time.tsc ? 0 : PTAH_E_NO_SYNC;
}

int ptah_query_core_bus_ratio(const struct ptah_query *q, uint32_t *ratio)
{
	if (!q || !ratio)
		return PTAH_E_INVAL;
	*ratio = q->time.ratio;
	return q->time.ratio ? 0 : PTAH_E_NO_SYNC;
}

uint64_t ptah_query_offset(const struct ptah_query *q)
{
	return q ? q->offset : 0;
}

void ptah_query_seek(struct ptah_query *q, uint64_t offset)
{
	struct ptah_event_decoder *events = q ? q->events : NULL;

	if (!q)
		return;
	ptah_event_seek(events, offset);
	memset(q, 0, sizeof(*q));
	q->events = events;
}

int ptah_query_sync_offset(const struct ptah_query *q, uint64_t *offset)
{
	return q ? ptah_event_sync_offset(q->events, offset) : PTAH_E_INVAL;
}
