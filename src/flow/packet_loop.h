/* SPDX-License-Identifier: MIT */
/*
 * The loop over the packets of which nearly all of a trace consists: TNT, TIP, PAD, and those about
 * time. Two files include it and say what a packet does: flow/path_run.c copies remembered blocks,
 * profile/row_loop.c counts.
 *
 * The including file defines struct packet_taker, the type place_number and the functions declared
 * below before it includes this header. All of it is inlined, and the including file instantiates
 * the loop once for each of its cases (as zstd does), so that no case pays for what it does not
 * need.
 *
 * struct packet_taker is what the including file keeps in registers, and at least
 *
 *	struct ptah_flow *flow;
 *	const uint8_t *end;	the last position at which a packet may begin: at least
 *				LOOP_LOOK bytes before the end of the window. A function below may
 *				lower it to stop the loop.
 *
 * A place_number is the including file's number of a place in the code. 0 ends the loop: the
 * function that returned it has put the flow at the place where it has to continue.
 */
#ifndef PTAH_FLOW_PACKET_LOOP_H
#define PTAH_FLOW_PACKET_LOOP_H

#include "event/packet_group.h"
#include "flow/flow_machine.h"

/* Takes the TNT-8 at `pos`; `payload` has its outcomes below a stop bit. Returns the next place. */
static ALWAYS_INLINE place_number take_tnt(struct packet_taker *t, place_number place,
					   unsigned payload, const uint8_t *pos);

/* The same for the TNT-64 at `pos`. */
static ALWAYS_INLINE place_number take_tnt_64(struct packet_taker *t, place_number place,
					      const uint8_t *pos);

/*
 * Takes the TIP at `pos`, to `ip`. False: the packet is not taken, and the flow has to do it from
 * *place.
 */
static ALWAYS_INLINE bool take_tip(struct packet_taker *t, place_number *place, const uint8_t *pos,
				   uint64_t ip);

/*
 * Takes the packets at *pos, which are none that the loop takes itself: one packet or several that
 * belong together (event/packet_group.h). True: they are taken, *pos is after them, *last_ip is
 * what the address of the next packet is compressed against, the event decoder is in the state that
 * the packets leave it in, and *place is the next place, or 0. False: nothing has changed. The
 * event decoder has the time, its position is not current.
 */
static ALWAYS_INLINE bool take_group(struct packet_taker *t, place_number *place,
				     const uint8_t **pos, uint64_t *last_ip);

/* The time may have changed; the event decoder has the new one. */
static ALWAYS_INLINE void take_time(struct packet_taker *t);

/* A CYC has been added to `cycles`; the event decoder does not know of it yet. */
static ALWAYS_INLINE void take_cyc(struct packet_taker *t, struct event_cycles *cycles);

/*
 * Takes packets from the event decoder's position on, up to one that it cannot take, and leaves the
 * decoder's position there. Returns the place, or 0.
 *
 * `timed`: the trace has CYC packets, one before most others. Without `timed` the first CYC ends
 * the loop, so that the caller can start it again with it.
 */
static ALWAYS_INLINE place_number loop_over_packets(struct packet_taker *t, place_number place,
						    bool timed)
{
	struct ptah_event_decoder *d = t->flow->events;
	const uint64_t limit = t->flow->time_limit;
	const uint8_t *pos = d->pos;
	struct event_cycles cycles = {.sum = 0};
	uint64_t last_ip = d->last_ip;

	if (timed)
		event_settle_cycles(d, &cycles, limit);
	take_time(t);
	while (pos <= t->end && place) {
		unsigned byte = *pos;

		if (timed && (byte & CYC_MASK) == OPCODE_CYC) {
			pos += event_add_cyc(&cycles, pos);
			take_cyc(t, &cycles);
			byte = *pos;
		}
		if (LIKELY(!(byte & 1) && byte > OPCODE_EXT)) {
			pos++;
			place = take_tnt(t, place, byte >> 1, pos - 1);
		} else if ((byte & OPCODE_IP_MASK) == OPCODE_TIP) {
			uint64_t ip = last_ip;
			const unsigned size = packet_take_ip(pos, &ip);
			place_number there = place; /* a copy, as below */
			const bool taken = size && take_tip(t, &there, pos, ip);

			place = there;
			if (UNLIKELY(!taken))
				break;
			pos += size;
			last_ip = ip;
		} else if (byte == OPCODE_PAD) {
			pos = packet_skip_pads(pos, t->end);
		} else if (byte == OPCODE_EXT && pos[1] == EXT_TNT_64 && load_le64(pos) >> 17) {
			place = take_tnt_64(t, place, pos);
			pos += 8;
		} else {
			/* Copies, so that the loop's own variables stay in registers. */
			place_number there = place;
			const uint8_t *at = pos;
			uint64_t ip = last_ip;
			bool more;

			if (timed)
				event_settle_cycles(d, &cycles, limit);
			more = take_group(t, &there, &at, &ip);
			place = there;
			pos = at;
			last_ip = ip;
			if (!more) {
				more = event_take_clock_at(d, pos, cycles, limit);
				pos = d->pos;
			}
			if (timed)
				event_settle_cycles(d, &cycles, limit);
			take_time(t);
			if (!more || (!timed && d->time.cyc_seen))
				break;
		}
	}
	/*
	 * The event decoder gets the cycles counted so far, so that the next event carries the
	 * current time.
	 */
	if (timed && cycles.any) {
		event_tell_cycles(d, cycles.sum, true, limit);
		flow_set_time(t->flow, t->flow->offset);
	}
	d->pos = pos;
	d->last_ip = last_ip;
	return place;
}

#endif
