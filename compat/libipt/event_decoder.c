/* SPDX-License-Identifier: MIT */
/*
 * pt_evt_*: all events of a trace, branches among them, in one sequence and in the order of libipt
 * 2.3.
 */
#include "pt_error.h"
#include "item_stream.h"

#include <stdlib.h>

struct pt_event_decoder {
	struct stream stream;
	struct event_state state;
	struct position position;
	/*
	 * The entry of a C-state. libipt reports it right before the exit, after the events in
	 * between, but with its own time.
	 */
	struct pt_event entry;
	bool has_entry;
	bool off;	 /* tracing is off */
	bool failed;	 /* stopped at the next item, which is an error, or at the end */
	bool lost;	 /* the last call of a sync function has failed */
	uint64_t header; /* the PSB of the PSB+ that is being reported */
};

struct pt_event_decoder *pt_evt_alloc_decoder(const struct pt_config *config)
{
	struct pt_event_decoder *d = calloc(1, sizeof(*d));

	if (d && stream_init(&d->stream, config) < 0) {
		free(d);
		return NULL;
	}
	return d;
}

void pt_evt_free_decoder(struct pt_event_decoder *d)
{
	if (!d)
		return;
	stream_fini(&d->stream);
	free(d);
}

const struct pt_config *pt_evt_get_config(const struct pt_event_decoder *d)
{
	return d ? &d->stream.config.user : NULL;
}

static void follow(struct pt_event_decoder *d, const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_ENABLED:
		d->off = false;
		break;
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
		d->off = true;
		break;
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_PSB:
		d->off = item->flags & PTAH_ITEM_IP_SUPPRESSED;
		break;
	default:
		break;
	}
}

/* Is the next item an error for libipt 2.3, too? In libipt no event may span a PSB. */
static bool is_error(struct pt_event_decoder *d)
{
	const struct ptah_item *item = stream_peek(&d->stream, 0);

	return !stream_believes(&d->stream) || (stream_peek(&d->stream, 1)->type == PTAH_ITEM_PSB &&
						!d->off && item->offset != d->stream.sync);
}

/* Begins at a PSB. An error when its PSB+ cannot be read. */
static int start(struct pt_event_decoder *d, uint64_t offset)
{
	const struct ptah_item *item;

	d->state = (struct event_state){.current = true};
	d->has_entry = d->off = d->lost = false;
	d->header = UINT64_MAX;
	d->position = (struct position){offset, POSITION_PSBEND, true};
	stream_begin(&d->stream, offset);
	item = stream_peek(&d->stream, 0);
	d->failed = !item || (item->type == PTAH_ITEM_ERROR &&
			      position_of_error(&d->stream.config, item->offset) == offset);
	if (!d->failed)
		return 0;
	return item ? stream_error(&d->stream, item) : -pte_eos;
}

/* The decoder's offset. *behind: the offset of the byte after the packet there. */
static uint64_t current_offset(struct pt_event_decoder *d, uint64_t *behind)
{
	const struct ptah_item *item = d->failed ? stream_peek(&d->stream, 0) : NULL;
	struct position at = {0, POSITION_PACKET, false};
	struct ptah_packet packet;
	const uint8_t *p;
	int size;

	if (item)
		at.offset = item->offset;
	else if (d->failed)
		at.offset = config_size(&d->stream.config);
	else
		at.offset = position_next(&d->stream.config, d->position);
	p = d->stream.config.user.begin + at.offset;
	size = ptah_packet_decode(&packet, p, (size_t)(d->stream.config.user.end - p), 0);
	*behind = at.offset + (size > 0 ? (unsigned)size : 0);
	return at.offset;
}

int pt_evt_get_sync_offset(const struct pt_event_decoder *d, uint64_t *offset)
{
	uint64_t at, behind;

	if (!d || !offset)
		return -pte_invalid;
	if (!d->stream.synced)
		return -pte_nosync;
	*offset = d->stream.sync;
	if (d->lost)
		return 0;
	/* The last PSB that has been read or that is read next. */
	at = current_offset((struct pt_event_decoder *)d, &behind);
	if (stream_find_last(&d->stream, behind, offset) < 0 || *offset > at)
		*offset = d->stream.sync;
	return 0;
}

/*
 * There is no other PSB: the position stays, and events can be read again only after a successful
 * sync.
 */
static int stay(struct pt_event_decoder *d, int status)
{
	(void)pt_evt_get_sync_offset(d, &d->stream.sync);
	d->lost = true;
	return status;
}

int pt_evt_sync_forward(struct pt_event_decoder *d)
{
	uint64_t from = 0;
	int status;

	if (!d)
		return -pte_invalid;
	if (d->stream.synced) {
		(void)current_offset(d, &from);
		if (from == d->stream.sync)
			from += PSB_SIZE;
	}
	/* The first bytes of a PSB may have been read as part of another packet. */
	from -= from < PSB_SIZE ? from : PSB_SIZE - 1;
	status = stream_find(&d->stream, from, &from);
	return status < 0 ? stay(d, status) : start(d, from);
}

int pt_evt_sync_backward(struct pt_event_decoder *d)
{
	uint64_t psb, from, behind;
	int status;

	if (!d)
		return -pte_invalid;
	from = config_size(&d->stream.config);
	if (d->stream.synced)
		(void)current_offset(d, &from);
	psb = from;
	do {
		status = stream_find_last(&d->stream, psb, &psb);
		if (status < 0)
			return stay(d, status);
		status = start(d, psb);
		(void)current_offset(d, &behind);
	} while (behind >= from);
	return status;
}

/* Like libipt 2.3: skips PADs before a PSB, and reports what is wrong with what follows. */
static int find_set(struct config *config, uint64_t *offset)
{
	struct pt_packet_unknown unknown;
	struct ptah_packet packet;
	int size = 1;

	if (*offset > config_size(config))
		return -pte_eos;
	for (; size > 0; *offset += (unsigned)size) {
		const uint8_t *p = config->user.begin + *offset;

		size = ptah_packet_decode(&packet, p, (size_t)(config->user.end - p), 0);
		if (size <= 0 || packet.type != PTAH_PACKET_PAD)
			break;
	}
	/* Too few bytes are left for a PSB; what there is of it is right. */
	if (size == PTAH_E_BAD_PACKET && config->user.begin[*offset] == 0x02 &&
	    config_check_psb(config, *offset) == -pte_eos)
		return -pte_eos;
	if (size == PTAH_E_BAD_OPCODE) {
		size = config_unknown(config, config->user.begin + *offset, &unknown);
		return size < 0 ? size : -pte_nosync;
	}
	if (size <= 0)
		return error_from_ptah(size);
	return packet.type == PTAH_PACKET_PSB ? 0 : -pte_nosync;
}

int pt_evt_sync_set(struct pt_event_decoder *d, uint64_t offset)
{
	uint64_t at = offset;
	int status;

	if (!d)
		return -pte_invalid;
	status = find_set(&d->stream.config, &at);
	d->lost = status < 0;
	if (!d->lost)
		return start(d, at);
	/* The next search begins here. */
	if (offset <= config_size(&d->stream.config)) {
		d->stream.sync = offset;
		d->stream.synced = true;
		d->position = (struct position){offset, POSITION_BEFORE, false};
		d->failed = false;
	}
	return status;
}

int pt_evt_get_offset(const struct pt_event_decoder *d, uint64_t *offset)
{
	uint64_t behind;

	if (!d || !offset)
		return -pte_invalid;
	if (!d->stream.synced)
		return -pte_nosync;
	/* Looking ahead changes nothing that the caller can see. */
	*offset = current_offset((struct pt_event_decoder *)d, &behind);
	return 0;
}

/* Where libipt's decoder is after reporting an item: often still at its packet. */
static struct position stand(const struct ptah_item *item)
{
	struct position position = position_of(item);

	switch (item->type) {
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ENABLED:
		position.end = POSITION_BEFORE;
		break;
	case PTAH_ITEM_MWAIT:
		if (item->flags & PTAH_ITEM_IP_SUPPRESSED)
			position.end = POSITION_EXSTOP;
		break;
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_IFLAGS:
		if (position.end == POSITION_TIP)
			position.end = POSITION_IP;
		break;
	default:
		break;
	}
	position.at_last =
	    position.end != POSITION_PACKET && item->type != PTAH_ITEM_DISABLED &&
	    /* The FUP, TIP or TIP.PGD of an erratum is skipped. */
	    (item->type != PTAH_ITEM_OVERFLOW || !(item->flags & PTAH_ITEM_IP_SUPPRESSED));
	return position;
}

/* Whether the trigger should have had a FUP for its address, which did not come. */
static bool lacks_fup(const struct pt_event_decoder *d, const struct ptah_item *item)
{
	return item->flags & PTAH_ITEM_IP_SUPPRESSED &&
	       d->stream.config.user.begin[item->offset + 1] & 0x80;
}

/* Makes an event of an item. False: the item is none to libipt. */
static bool make(struct pt_event_decoder *d, struct pt_event *event, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_ERROR)
		return false;
	d->position = stand(item);
	follow(d, item);
	if (!event_make(event, &d->state, item))
		return false;
	if (item->type == PTAH_ITEM_TRIGGER && lacks_fup(d, item))
		event->ip_suppressed = 1;
	if (item->type == PTAH_ITEM_PWRE) {
		d->entry = *event;
		d->has_entry = true;
		return false;
	}
	return true;
}

/*
 * A PSB+ that an OVF cuts after its FUP has said that tracing is on. Ptah has no item for it,
 * because the PSB+ is incomplete.
 */
static bool make_cut_header(struct pt_event_decoder *d, struct pt_event *event,
			    const struct ptah_item *item)
{
	uint64_t psb, ip;

	if (!(item->flags & PTAH_ITEM_STATUS) && item->type != PTAH_ITEM_OVERFLOW)
		return false;
	if (stream_find_last(&d->stream, item->offset, &psb) < 0 || psb < d->stream.sync ||
	    psb == d->header)
		return false;
	d->header = psb;
	if (!position_cut_header_ip(&d->stream.config, psb, &ip))
		return false;
	memset(event, 0, sizeof(*event));
	event->type = ptev_enabled;
	event->status_update = 1;
	event->variant.enabled.ip = ip;
	event->tsc = item->tsc;
	event->has_tsc = item->tsc != 0;
	d->position = (struct position){psb, POSITION_PSBEND, true};
	d->off = false;
	return true;
}

/*
 * Is the packet of the next item an error for libipt 2.3? RSM and SIPI have no address; a trigger
 * has that of its FUP, or a number of instructions since one.
 */
static bool is_bad_packet(const struct pt_event_decoder *d, const struct ptah_item *item)
{
	const uint8_t *p = d->stream.config.user.begin + item->offset;
	struct ptah_packet packet;

	if (item->type != PTAH_ITEM_TRIGGER && item->type != PTAH_ITEM_RSM &&
	    item->type != PTAH_ITEM_SIPI)
		return false;
	if (ptah_packet_decode(&packet, p, (size_t)(d->stream.config.user.end - p), 0) <= 0)
		return false;
	if (packet.type == PTAH_PACKET_CFE)
		return packet.u.cfe.ip;
	if (packet.type != PTAH_PACKET_TRIG)
		return false;
	return packet.u.trig.ip ? !packet.u.trig.has_icnt || packet.u.trig.icnt
				: packet.u.trig.has_icnt && packet.u.trig.icnt && d->off;
}

/*
 * Whether this item ends the wait for a C-state's exit, because it is the exit or because none can
 * come any more.
 */
static bool ends_wait(const struct ptah_item *item)
{
	return !item || item->type == PTAH_ITEM_PWRX || item->type == PTAH_ITEM_PWRE ||
	       item->type == PTAH_ITEM_OVERFLOW || item->type == PTAH_ITEM_PSB ||
	       item->type == PTAH_ITEM_ERROR;
}

int pt_evt_next(struct pt_event_decoder *d, struct pt_event *event, size_t size)
{
	const struct ptah_item *item;
	struct ptah_item error;
	struct pt_event made;

	if (!d || !event)
		return -pte_invalid;
	if (!d->stream.synced || d->lost)
		return -pte_nosync;
	for (;;) {
		item = stream_next(&d->stream);
		if (d->has_entry && ends_wait(item)) {
			d->has_entry = false;
			if (item)
				d->position =
				    (struct position){item->offset, POSITION_BEFORE, true};
			event_copy_out(event, size, &d->entry);
			return 0;
		}
		if (item && stream_is_bad_overflow(&d->stream, &error)) {
			d->failed = true;
			return stream_error(&d->stream, &error);
		}
		if (item && make_cut_header(d, &made, item)) {
			event_copy_out(event, size, &made);
			return 0;
		}
		d->failed = !item || (item->type == PTAH_ITEM_ERROR && is_error(d));
		item = stream_peek(&d->stream, 0);
		if (d->failed)
			return item ? stream_error(&d->stream, item) : -pte_eos;
		if (is_bad_packet(d, item)) {
			d->failed = true;
			return -pte_bad_packet;
		}
		if (make(d, &made, item)) {
			stream_drop(&d->stream);
			event_copy_out(event, size, &made);
			return 0;
		}
		stream_drop(&d->stream);
	}
}
