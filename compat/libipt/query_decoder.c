/* SPDX-License-Identifier: MIT */
/*
 * pt_qry_*: the trace, queried branch by branch. At the end of each call libipt 2.0's decoder looks
 * ahead to the next packet of a branch or an event. What it finds there is in the status of this
 * call, and an error there is an error of this call. While outcomes of the last TNT are left, the
 * status says nothing about what follows.
 */
#include "item_stream.h"

#include <stddef.h>
#include <stdlib.h>

/* What comes next in the trace. */
enum ahead {
	AHEAD_OUTCOMES,
	AHEAD_ADDRESS,
	AHEAD_EVENT,
	AHEAD_EOS,
	AHEAD_ERROR,	    /* found when looking ahead */
	AHEAD_BAD_OUTCOMES, /* the packet in place of the outcomes is an error */
	AHEAD_BAD_ADDRESS,
	AHEAD_BAD_EVENT,
};

/* An event to be reported, and the decoder's position afterwards. */
struct waiting {
	struct pt_event event;
	struct position position;
	uint64_t tsc;
};

struct pt_query_decoder {
	struct stream stream;
	struct event_state state;

	uint64_t outcomes; /* of the current TNT; the oldest is bit `count` - 1 */
	unsigned count;
	uint8_t ahead; /* enum ahead */
	int error;     /* for AHEAD_ERROR and AHEAD_BAD_* */
	uint64_t error_offset;
	/*
	 * libipt announces an event here, for a packet that would begin one if more followed. An
	 * error or the end of the trace follows instead: `behind` is which, `behind_offset` where.
	 */
	bool promised;
	uint8_t behind;
	uint64_t behind_offset;

	unsigned first, waiting;
	struct waiting queue[EVENT_MAX];

	/* After the last answer. */
	struct position position;
	uint64_t tsc;
	uint32_t ratio, last_ratio; /* as read so far, and at the last answer */

	bool has_ip; /* `ip` is the address in a PSB+ that was passed */
	uint64_t ip;
};

struct pt_query_decoder *pt_qry_alloc_decoder(const struct pt_config *config)
{
	struct pt_query_decoder *q = calloc(1, sizeof(*q));

	if (q && stream_init(&q->stream, config) < 0) {
		free(q);
		return NULL;
	}
	return q;
}

void pt_qry_free_decoder(struct pt_query_decoder *q)
{
	if (!q)
		return;
	stream_fini(&q->stream);
	free(q);
}

const struct pt_config *pt_qry_get_config(const struct pt_query_decoder *q)
{
	return q ? &q->stream.config.user : NULL;
}

/* Appends the event that libipt makes of an item to the queue. */
static void wait_for(struct pt_query_decoder *q, const struct ptah_item *item)
{
	struct waiting *waiting = &q->queue[q->waiting];

	if (item->type == PTAH_ITEM_CBR)
		q->ratio = (uint32_t)item->ratio;
	if (q->waiting == EVENT_MAX || !event_make(&waiting->event, &q->state, item))
		return;
	waiting->position = position_of(item);
	waiting->tsc = item->tsc;
	/* libipt has read nothing after the OVF for this event. */
	if (item->type == PTAH_ITEM_OVERFLOW && item->flags & PTAH_ITEM_IP_SUPPRESSED)
		waiting->tsc = item->packet_tsc;
	q->waiting++;
}

/* More events come from the same packet: the position stays at its end until all are reported. */
static void tie(struct pt_query_decoder *q)
{
	for (unsigned i = q->first; i + 1 < q->waiting; i++)
		q->queue[i].position.at_last = true;
}

static void meet_error(struct pt_query_decoder *q, const struct ptah_item *item)
{
	static const uint8_t ahead[] = {
	    [POSITION_READ_OVER] = AHEAD_ERROR,
	    [POSITION_OUTCOMES] = AHEAD_BAD_OUTCOMES,
	    [POSITION_ADDRESS] = AHEAD_BAD_ADDRESS,
	    [POSITION_EVENT] = AHEAD_BAD_EVENT,
	};
	const uint64_t offset = position_of_error(&q->stream.config, item->offset);

	q->error = stream_error(&q->stream, item);
	q->error_offset = offset;
	q->ahead = ahead[position_kind(&q->stream.config, offset)];
	if (q->error == -pte_noip && q->ahead == AHEAD_BAD_EVENT)
		q->error = -pte_bad_packet; /* TIP.PGE */
	else if (q->error == -pte_noip && q->ahead == AHEAD_ERROR)
		q->error = -pte_ip_suppressed; /* FUP */
	if (q->error == -pte_eos && q->ahead == AHEAD_ERROR) {
		q->ahead = AHEAD_EOS;
		q->error_offset = position_ahead(
		    &q->stream.config, (struct position){item->offset, POSITION_BEFORE, false});
	}
}

/* MODE.Exec, or PIP and VMCS after a FUP: reported with their branch, which does not come here. */
static void promise(struct pt_query_decoder *q)
{
	const uint64_t offset = position_ahead(&q->stream.config, q->position);

	if (offset >= q->error_offset || position_kind(&q->stream.config, offset) != POSITION_EVENT)
		return;
	q->promised = true;
	q->behind = q->ahead;
	q->behind_offset = q->error_offset;
	q->ahead = AHEAD_BAD_EVENT;
	q->error_offset = offset;
}

/* The announced event does not come. */
static int disappoint(struct pt_query_decoder *q)
{
	q->promised = false;
	q->ahead = q->behind;
	q->error_offset = q->behind_offset;
	return q->ahead == AHEAD_BAD_OUTCOMES ? -pte_bad_query : q->error;
}

/* The events of a PSB+ are reported together, after its address. */
static void meet_header(struct pt_query_decoder *q)
{
	const struct ptah_item *item = stream_peek(&q->stream, 0);

	if (item->type == PTAH_ITEM_PSB && !(item->flags & PTAH_ITEM_IP_SUPPRESSED)) {
		q->has_ip = true;
		q->ip = item->ip;
	}
	do {
		wait_for(q, item);
		stream_drop(&q->stream);
		item = stream_peek(&q->stream, 0);
	} while (item && item->flags & PTAH_ITEM_STATUS && item->type != PTAH_ITEM_PSB);
	tie(q);
}

/* Whether these two events belong to one branch. */
static bool is_of_branch(struct pt_query_decoder *q, const struct ptah_item *branch,
			 const struct ptah_item *item)
{
	struct position tip = position_of(branch);

	switch (item->type) {
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_IFLAGS:
		/* MODE.Exec precedes its branch. SDM "MODE.Exec Packet". */
		tip.at_last = true;
		if (branch->type == PTAH_ITEM_ASYNC_BRANCH ||
		    branch->type == PTAH_ITEM_ASYNC_DISABLED)
			return item->offset < position_next(&q->stream.config, tip);
		return item->offset < branch->offset;
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		return true;
	default:
		return false;
	}
}

/* A MODE.Exec before the FUP is reported before the branch. */
static void meet_early_mode(struct pt_query_decoder *q, const struct ptah_item *branch)
{
	const struct ptah_item *item;

	if (branch->type != PTAH_ITEM_ASYNC_BRANCH)
		return;
	while ((item = stream_peek(&q->stream, 1)) && item->type == PTAH_ITEM_EXEC_MODE &&
	       item->offset < branch->offset && q->waiting < EVENT_MAX) {
		wait_for(q, item);
		q->stream.items[q->stream.first + 1] = *branch;
		stream_drop(&q->stream);
	}
}

/* A branch and the events that belong to it; those of an indirect branch are reported before it. */
static void meet_branch(struct pt_query_decoder *q)
{
	const struct ptah_item branch = *stream_peek(&q->stream, 0);
	const bool is_tip = branch.type == PTAH_ITEM_TIP;
	const unsigned at = is_tip ? 1 : 0;
	const struct ptah_item *item;

	if (!is_tip) {
		meet_early_mode(q, &branch);
		wait_for(q, &branch);
		stream_drop(&q->stream);
	}
	while ((item = stream_peek(&q->stream, at)) && is_of_branch(q, &branch, item) &&
	       q->waiting < EVENT_MAX) {
		wait_for(q, item);
		q->stream.items[q->stream.first + at] = branch;
		stream_drop(&q->stream);
	}
	tie(q);
	if (is_tip && q->waiting)
		q->queue[q->waiting - 1].position.at_last = true;
}

/* Whether the FUP with the address of one event is also after the other. */
static bool share_fup(struct pt_query_decoder *q, const struct ptah_item *a,
		      const struct ptah_item *b)
{
	struct position position = position_of(a);

	if (position.end != POSITION_FUP || position_of(b).end != POSITION_FUP || a->ip != b->ip)
		return false;
	position.at_last = true;
	return b->offset < position_next(&q->stream.config, position);
}

/* An event without a branch, and the events that have their address from the same FUP. */
static void meet_event(struct pt_query_decoder *q)
{
	const struct ptah_item *item;
	struct ptah_item first = *stream_peek(&q->stream, 0);

	do {
		wait_for(q, stream_peek(&q->stream, 0));
		stream_drop(&q->stream);
		item = stream_peek(&q->stream, 0);
	} while (item && q->waiting < EVENT_MAX && share_fup(q, &first, item));
	tie(q);
}

/* An overflow without an address at which it ended. */
static bool meet_bad_overflow(struct pt_query_decoder *q)
{
	struct ptah_item error;

	if (!stream_is_bad_overflow(&q->stream, &error))
		return false;
	q->error = stream_error(&q->stream, &error);
	q->error_offset = stream_peek(&q->stream, 0)->offset;
	q->ahead = AHEAD_BAD_EVENT;
	return true;
}

/* Finds out what comes next. */
static void look_ahead(struct pt_query_decoder *q)
{
	const struct ptah_item *item;

	q->first = q->waiting = 0;
	q->promised = false;
	for (;;) {
		q->ahead = AHEAD_EVENT;
		if (q->waiting)
			return;
		item = stream_next(&q->stream);
		if (!item) {
			q->ahead = AHEAD_EOS;
			q->error = -pte_eos;
			q->error_offset = config_size(&q->stream.config);
			promise(q);
			return;
		}
		switch (item->type) {
		case PTAH_ITEM_TNT:
			q->ahead = AHEAD_OUTCOMES;
			return;
		case PTAH_ITEM_TIP:
			meet_branch(q);
			q->ahead = q->waiting ? AHEAD_EVENT : AHEAD_ADDRESS;
			return;
		case PTAH_ITEM_ENABLED:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_ASYNC_BRANCH:
		case PTAH_ITEM_ASYNC_DISABLED:
			meet_branch(q);
			break;
		case PTAH_ITEM_ERROR:
			if (!stream_believes(&q->stream)) {
				meet_error(q, stream_peek(&q->stream, 0));
				promise(q);
				return;
			}
			stream_drop(&q->stream);
			break;
		case PTAH_ITEM_OVERFLOW:
			if (meet_bad_overflow(q))
				return;
			meet_event(q);
			break;
		default:
			if (item->flags & PTAH_ITEM_STATUS) {
				meet_header(q);
				break;
			}
			meet_event(q);
			break;
		}
	}
}

static int status_flags(const struct pt_query_decoder *q)
{
	if (q->count)
		return 0;
	switch (q->ahead) {
	case AHEAD_EVENT:
	case AHEAD_BAD_EVENT:
		return pts_event_pending;
	case AHEAD_EOS:
		return pts_eos;
	default:
		return 0;
	}
}

/* The result of a call: the status, or the error that was found when looking ahead. */
static int answer(struct pt_query_decoder *q, struct position position, uint64_t tsc)
{
	q->position = position;
	q->tsc = tsc;
	q->last_ratio = q->ratio;
	look_ahead(q);
	/*
	 * An event is reported while the next one waits for the same last packet, which is not
	 * passed yet.
	 */
	if (q->ahead == AHEAD_EVENT && position.end == POSITION_PACKET &&
	    q->queue[q->first].position.end == POSITION_FUP &&
	    q->queue[q->first].position.offset < position.offset) {
		q->position = q->queue[q->first].position;
		q->position.at_last = true;
	}
	return q->ahead == AHEAD_ERROR ? q->error : status_flags(q);
}

/* Synchronising */

static int start(struct pt_query_decoder *q, uint64_t offset, uint64_t *ip)
{
	bool empty;
	int status;

	q->count = 0;
	q->first = q->waiting = 0;
	q->state = (struct event_state){0};
	q->tsc = 0;
	q->ratio = q->last_ratio = 0;
	q->has_ip = false;
	q->position = (struct position){offset, POSITION_BEFORE, false};
	stream_begin(&q->stream, offset);
	empty = !stream_peek(&q->stream, 0); /* the PSB+ is incomplete */
	look_ahead(q);
	if (empty)
		q->error_offset = offset;
	if (q->ahead == AHEAD_ERROR || q->ahead == AHEAD_EOS)
		return q->error;
	status = status_flags(q);
	if (ip) {
		q->has_ip = q->has_ip || position_cut_header_ip(&q->stream.config, offset, &q->ip);
		*ip = q->has_ip ? q->ip : 0;
		status |= q->has_ip ? 0 : pts_ip_suppressed;
	}
	return status;
}

static uint64_t current_offset(struct pt_query_decoder *q)
{
	switch (q->ahead) {
	case AHEAD_EOS:
	case AHEAD_ERROR:
	case AHEAD_BAD_OUTCOMES:
	case AHEAD_BAD_ADDRESS:
	case AHEAD_BAD_EVENT:
		return q->error_offset;
	default:
		return position_ahead(&q->stream.config, q->position);
	}
}

int pt_qry_sync_forward(struct pt_query_decoder *q, uint64_t *ip)
{
	uint64_t from = 0;
	int status;

	if (!q)
		return -pte_invalid;
	if (q->stream.synced) {
		from = current_offset(q);
		if (from == q->stream.sync)
			from += PSB_SIZE;
	}
	/* The first bytes of a PSB may have been read as part of another packet. */
	from -= from < PSB_SIZE ? from : PSB_SIZE - 1;
	status = stream_find(&q->stream, from, &from);
	return status < 0 ? status : start(q, from, ip);
}

int pt_qry_sync_backward(struct pt_query_decoder *q, uint64_t *ip)
{
	uint64_t before, from;
	int status;

	if (!q)
		return -pte_invalid;
	before = from = q->stream.synced ? current_offset(q) : config_size(&q->stream.config);
	for (;;) {
		status = stream_find_last(&q->stream, before, &before);
		if (status < 0)
			return status;
		status = start(q, before, ip);
		if (status == -pte_eos) /* a PSB+ with nothing after it */
			continue;
		if (status < 0)
			return status;
		if (current_offset(q) != from)
			return 0;
	}
}

int pt_qry_sync_set(struct pt_query_decoder *q, uint64_t *ip, uint64_t offset)
{
	int status;

	if (!q)
		return -pte_invalid;
	status = config_check_psb(&q->stream.config, offset);
	return status < 0 ? status : start(q, offset, ip);
}

int pt_qry_get_offset(const struct pt_query_decoder *q, uint64_t *offset)
{
	if (!q || !offset)
		return -pte_invalid;
	if (!q->stream.synced)
		return -pte_nosync;
	/* Going over packets may call the callback, which gets the decoder's configuration. */
	*offset = current_offset((struct pt_query_decoder *)q);
	return 0;
}

int pt_qry_get_sync_offset(const struct pt_query_decoder *q, uint64_t *offset)
{
	if (!q || !offset)
		return -pte_invalid;
	if (!q->stream.synced)
		return -pte_nosync;
	*offset = q->stream.sync;
	return 0;
}

/* Queries */

/* Makes the next outcomes available. 0, or the error that was found when looking further ahead. */
static int take_outcomes(struct pt_query_decoder *q)
{
	const struct ptah_item *item = stream_peek(&q->stream, 0);
	const struct position position = position_of(item);
	int status;

	q->outcomes = item->bits;
	q->count = item->count;
	stream_drop(&q->stream);
	status = answer(q, position, item->tsc);
	return status < 0 ? status : 0;
}

int pt_qry_cond_branch(struct pt_query_decoder *q, int *taken)
{
	int status = 0;

	if (!q || !taken)
		return -pte_invalid;
	if (!q->stream.synced)
		return -pte_nosync;
	if (!q->count) {
		switch (q->ahead) {
		case AHEAD_OUTCOMES:
			status = take_outcomes(q);
			break;
		case AHEAD_ERROR:
		case AHEAD_EOS:
		case AHEAD_BAD_OUTCOMES:
			return q->error;
		default:
			return -pte_bad_query;
		}
	}
	if (status < 0)
		return status;
	*taken = q->outcomes >> --q->count & 1;
	return status_flags(q);
}

int pt_qry_indirect_branch(struct pt_query_decoder *q, uint64_t *ip)
{
	struct position position;
	const struct ptah_item *item;
	int status;

	if (!q || !ip)
		return -pte_invalid;
	if (!q->stream.synced)
		return -pte_nosync;
	/* SDM "Deferred TIPs": outcomes of later branches may precede the TIP. */
	if (q->ahead == AHEAD_OUTCOMES && !q->count) {
		const uint64_t tsc = q->tsc;

		status = take_outcomes(q);
		q->tsc = tsc; /* these outcomes have not been reported yet */
		if (status < 0)
			return status;
	}
	switch (q->ahead) {
	case AHEAD_ADDRESS:
		item = stream_peek(&q->stream, 0);
		position = position_of(item);
		*ip = item->to;
		stream_drop(&q->stream);
		return answer(q, position, item->tsc);
	case AHEAD_ERROR:
	case AHEAD_EOS:
	case AHEAD_BAD_ADDRESS:
		return q->error;
	case AHEAD_BAD_OUTCOMES:
		return q->count ? -pte_bad_query : q->error;
	default:
		return -pte_bad_query;
	}
}

int pt_qry_event(struct pt_query_decoder *q, struct pt_event *event, size_t size)
{
	const struct waiting *waiting;
	const struct ptah_item *item;

	if (!q || !event || size < offsetof(struct pt_event, variant))
		return -pte_invalid;
	if (!q->stream.synced)
		return -pte_nosync;
	if (q->count)
		return -pte_bad_query;
	switch (q->ahead) {
	case AHEAD_EVENT:
		break;
	case AHEAD_BAD_EVENT:
		if (q->promised)
			return disappoint(q);
		/* The OVF itself is used up. */
		item = stream_peek(&q->stream, 0);
		if (item && item->type == PTAH_ITEM_OVERFLOW)
			q->error_offset = item->offset + 2;
		return q->error;
	case AHEAD_ERROR:
	case AHEAD_EOS:
		return q->error;
	default:
		return -pte_bad_query;
	}
	waiting = &q->queue[q->first];
	event_copy_out(event, size, &waiting->event);
	q->position = waiting->position;
	q->tsc = waiting->tsc;
	q->last_ratio = q->ratio;
	if (++q->first < q->waiting)
		return pts_event_pending;
	return answer(q, q->position, q->tsc);
}

/* Time */

int pt_qry_time(struct pt_query_decoder *q, uint64_t *time, uint32_t *lost_mtc, uint32_t *lost_cyc)
{
	if (!q || !time)
		return -pte_invalid;
	*time = q->tsc;
	if (lost_mtc)
		*lost_mtc = 0;
	if (lost_cyc)
		*lost_cyc = 0;
	return q->tsc ? 0 : -pte_no_time;
}

int pt_qry_core_bus_ratio(struct pt_query_decoder *q, uint32_t *ratio)
{
	if (!q || !ratio)
		return -pte_invalid;
	if (!q->last_ratio)
		return -pte_no_cbr;
	*ratio = q->last_ratio;
	return 0;
}
