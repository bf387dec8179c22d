/* SPDX-License-Identifier: MIT */
/* The event decoder: takes one packet after another from its input and returns items. */
#include "event/event.h"
#include "event/errata.h"
#include "event/input.h"

#include <stdlib.h>

/* Moves to the next PSB. False when more bytes are needed or there is none. */
static bool search(struct ptah_event_decoder *d)
{
	for (;;) {
		const uint8_t *psb = ptah_packet_find_psb(d->pos, d->end);
		bool at_last = event_input_at_last(d);

		/* The bytes that decide where the PSB begins (see packet/find.c) must be in the
		 * window, so that the answer does not depend on how the trace is cut into chunks.
		 */
		if (psb && (at_last || (size_t)(d->end - psb) >= 2 * 16)) {
			d->pos = psb;
			return true;
		}
		if (at_last) {
			d->pos = d->end;
			return false;
		}
		if (psb)
			d->pos = (size_t)(psb - d->pos) > 16 ? psb - 16 : d->pos;
		else if ((size_t)(d->end - d->pos) > 15)
			d->pos = d->end - 15;
		if (!event_input_more(d) && !event_input_at_last(d))
			return false;
	}
}

/* The trace has ended: reports what was pending, and an error when the last packet is cut. */
static void finish_events(struct ptah_event_decoder *d)
{
	uint64_t offset = event_offset(d, d->pos);

	event_conclude(d);
	if (d->pos != d->end)
		event_push_error(d, PTAH_E_TRUNCATED, offset);
	else if (d->phase == EVENT_UNSYNCED && !d->synced && offset != d->start)
		event_push_error(d, PTAH_E_NO_SYNC, d->start);
	d->pos = d->end;
	d->phase = EVENT_DONE;
}

/* No packet waits for others. */
static bool is_settled(const struct ptah_event_decoder *d)
{
	return d->phase == EVENT_RUN && !d->queue_count && !d->block && !event_is_pending(d) &&
	       !d->has_mode && !d->has_paging && !d->has_vmcs && !d->skip;
}

static bool is_plain(const struct ptah_event_decoder *d)
{
	return d->enabled && is_settled(d);
}

uint64_t event_settled(const struct ptah_event_decoder *d)
{
	return is_settled(d) ? event_offset(d, d->pos) : 0;
}

/* Skips the bytes that the callback wants skipped. False when more bytes must be fed. */
static bool skip(struct ptah_event_decoder *d)
{
	while (d->skip) {
		size_t left = (size_t)(d->end - d->pos);

		if ((uint64_t)d->skip <= left) {
			d->pos += d->skip;
			d->skip = 0;
			break;
		}
		d->skip -= (int64_t)left;
		d->pos = d->end;
		if (event_input_more(d))
			continue;
		if (!event_input_at_last(d))
			return false;
		d->skip = 0;
	}
	return true;
}

/* Bytes that are no packet: skips what the callback asks for, or reports an error. False when more
 * bytes must be fed. */
static bool take_unknown(struct ptah_event_decoder *d, int status)
{
	uint64_t offset;
	int64_t n = 0;

	if (d->config.unknown && !event_input_have(d, PTAH_PACKET_MAX_SIZE))
		return false;
	offset = event_offset(d, d->pos);
	if (d->config.unknown) {
		size_t left = (size_t)(d->end - d->pos);

		/* Never more, so that the callback sees the same however the trace is cut. */
		left = left < PTAH_PACKET_MAX_SIZE ? left : PTAH_PACKET_MAX_SIZE;
		n = d->config.unknown(d->config.unknown_context, d->pos, left, offset, status);
	}
	if (n > 0) {
		d->skip = n;
		return true;
	}
	event_fail(d, status, offset);
	d->pos++;
	return true;
}

/* Moves to the next packet. False when there is none yet; then *more says whether the trace has
 * ended, so that items may follow. */
static bool find_packet(struct ptah_event_decoder *d, bool *more)
{
	*more = false;
	if (!skip(d))
		return false;
	if (d->phase == EVENT_UNSYNCED) {
		if (!search(d)) {
			if (!event_input_at_last(d))
				return false;
			finish_events(d);
			*more = true;
			return false;
		}
		d->synced = true;
	}
	return true;
}

/* Takes one packet. False when more bytes are needed. */
static bool step_events(struct ptah_event_decoder *d)
{
	struct ptah_packet packet;
	uint64_t offset;
	bool more;
	int size;

	if (!find_packet(d, &more))
		return more;
	size = ptah_packet_decode(&packet, d->pos, (size_t)(d->end - d->pos), d->block);
	if (size == PTAH_E_MORE) {
		if (event_input_more(d))
			return true;
		if (!event_input_at_last(d))
			return false;
		finish_events(d);
		return true;
	}
	if (size > 0 && UNLIKELY(d->config.errata))
		size = errata_packet(d, &packet, size);
	if (size == PTAH_E_MORE)
		return false;
	offset = event_offset(d, d->pos);
	if (size < 0) {
		if (!take_unknown(d, size))
			return false;
	} else {
		d->pos += size;
		event_take(d, &packet, offset);
	}
	d->plain = is_plain(d);
	return true;
}

int event_next(struct ptah_event_decoder *d, struct ptah_item *item)
{
	while (!d->queue_count) {
		d->queue_first = 0;
		if (d->phase == EVENT_DONE || !step_events(d))
			return 0;
	}
	*item = d->queue[d->queue_first];
	d->queue_first = (d->queue_first + 1) % EVENT_QUEUE;
	d->queue_count--;
	d->plain = is_plain(d);
	return 1;
}

/* Takes the packet at the position if it is a TSC, TMA, MTC or CYC. */
static bool take_clock(struct ptah_event_decoder *d)
{
	struct ptah_packet packet;
	int size;

	if (d->config.ticks || d->config.errata)
		return false;
	size = ptah_packet_decode(&packet, d->pos, (size_t)(d->end - d->pos), d->block);
	if (size <= 0 || (packet.type != PTAH_PACKET_CYC && packet.type != PTAH_PACKET_MTC &&
			  packet.type != PTAH_PACKET_TSC && packet.type != PTAH_PACKET_TMA))
		return false;
	event_take(d, &packet, event_offset(d, d->pos));
	d->pos += size;
	return true;
}

uint64_t event_tell_cycles(struct ptah_event_decoder *d, uint64_t cycles, bool any, uint64_t limit)
{
	if (any) {
		event_time_cyc(&d->time, cycles);
		event_set_time(d);
	}
	/* With `ticks` each packet is an item of its own; with errata each must be looked at. */
	return d->config.ticks || d->config.errata ? 0 : event_time_room(&d->time, limit);
}

bool event_take_clock_at(struct ptah_event_decoder *d, const uint8_t *pos, struct event_cycles c,
			 uint64_t limit)
{
	event_settle_cycles(d, &c, limit);
	d->pos = pos;
	return take_clock(d) && d->tsc < limit;
}

static void begin_packet_event(struct ptah_event_decoder *d, uint64_t offset)
{
	struct ptah_event_config config = d->config;

	memset(d, 0, sizeof(*d));
	d->config = config;
	d->pos = d->end = d->carry;
	d->start = d->end_offset = offset;
	d->iflag = EVENT_IF_UNKNOWN;
	d->tsc_error = PTAH_TSC_UNBOUNDED;
	event_time_configure(&d->time, &d->config);
}

int ptah_event_decoder_new(const struct ptah_event_config *config,
			   struct ptah_event_decoder **decoder)
{
	struct ptah_event_decoder *d;

	if (!decoder || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return PTAH_E_NOMEM;
	if (config)
		d->config = *config;
	begin_packet_event(d, 0);
	*decoder = d;
	return 0;
}

void ptah_event_seek(struct ptah_event_decoder *d, uint64_t offset)
{
	if (d)
		begin_packet_event(d, offset);
}

void event_restart(struct ptah_event_decoder *d, uint64_t offset)
{
	begin_packet_event(d, offset);
	d->phase = EVENT_RESTART;
}

void event_get_time(const struct ptah_event_decoder *d, struct ptah_time *time)
{
	*time = (struct ptah_time){
	    .tsc = d->tsc,
	    .error = event_time_bound(&d->time),
	    .cycles = d->time.total_cycles,
	    .ratio = d->ratio,
	};
}

void ptah_event_decoder_free(struct ptah_event_decoder *d)
{
	free(d);
}

int ptah_event_read(struct ptah_event_decoder *d, struct ptah_item *items, size_t capacity)
{
	size_t n = 0;

	if (!d || (!items && capacity))
		return PTAH_E_INVAL;
	if (capacity > INT32_MAX)
		capacity = INT32_MAX;
	while (n < capacity && event_next(d, &items[n]))
		n++;
	return (int)n;
}
