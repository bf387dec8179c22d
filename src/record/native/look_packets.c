/* SPDX-License-Identifier: MIT */
/* See look_packets.h. */
#include "record/native/look_packets.h"

#include "packet/opcode.h"
#include "packet/skip.h"

#include <ptah/packet.h>

#include <string.h>

#define TSC_BITS 56

#define STRETCH 4096 /* bytes that are passed over between two looks whether it is enough */

/* A TSC packet that is put in at an offset of the chunk. */
struct inserted {
	uint32_t at;
	uint64_t tsc;
};

struct walk {
	struct look_state *state;
	const uint8_t *chunk;
	size_t at, to;	     /* the next packet, and where the packets end */
	bool in_psb, bound;  /* bound: behind FUP or MODE, which belong to what follows */
	bool after_tsc;	     /* the packet before is a TSC packet of the thread */
	uint64_t before;     /* the last time that was in the trace without those put in */
	size_t count, since; /* those put in; and when the thread wrote a time last */
	struct inserted list[WATCH_LOOKS];
};

static bool is_ip_packet(uint8_t byte, unsigned opcode)
{
	return (byte & OPCODE_IP_MASK) == opcode;
}

/*
 * A FUP without a time before it: code has changed, and the thread's next time is that from which
 * on decoders have the new code. A time before it might be later than that.
 */
static void forget_since(struct walk *w)
{
	w->count = w->since;
	w->state->last = w->before;
}

/*
 * The thread's own time. It may have read it and stored it later: a look in between, which has seen
 * the same as one before, says nothing new.
 */
static void take_tsc(struct walk *w, uint64_t tsc)
{
	while (w->count > w->since && w->list[w->count - 1].tsc > tsc)
		w->count--;
	w->since = w->count;
	w->before = w->state->last = tsc;
}

/* Takes a packet of another kind than those of branches. False: it is none. */
static bool take_packet(struct walk *w)
{
	struct ptah_packet packet;
	const int size =
	    ptah_packet_decode(&packet, w->chunk + w->at, w->to - w->at, PTAH_BLOCK_NONE);

	if (size <= 0)
		return false;
	w->bound = packet.type == PTAH_PACKET_MODE_EXEC && !w->in_psb;
	w->after_tsc = packet.type == PTAH_PACKET_TSC;
	if (packet.type == PTAH_PACKET_PSB)
		w->in_psb = true;
	else if (packet.type == PTAH_PACKET_PSBEND)
		w->in_psb = false;
	else if (packet.type == PTAH_PACKET_TSC)
		take_tsc(w, packet.u.tsc.tsc);
	w->at += (size_t)size;
	return true;
}

/* What the last packet of branches before w->at, which is at `last`, says of the place. */
static void note_branch(struct walk *w, const uint8_t *last, bool first)
{
	const bool fup = is_ip_packet(*last, OPCODE_FUP);

	if (w->in_psb) {
		w->state->off &= !fup; /* it has a FUP if tracing is on */
		return;
	}
	if (fup && !(first && w->after_tsc))
		forget_since(w);
	w->bound = fup;
	if (!fup)
		w->state->off = is_ip_packet(*last, OPCODE_TIP_PGD);
	w->after_tsc = false;
}

/*
 * Passes over packets up to `limit`, one FUP at a time: they are seldom, and what stands before
 * them counts. Goes beyond the limit only with the packet that lies across it.
 */
static bool pass_to(struct walk *w, size_t limit)
{
	while (w->at < limit) {
		const uint8_t *p = w->chunk + w->at, *last = NULL, *next;
		unsigned size = packet_branch_size(*p);

		if (size && (is_ip_packet(*p, OPCODE_FUP) || w->at + size > limit)) {
			if (w->at + size > w->to)
				return false;
			next = p + size;
			last = *p == OPCODE_PAD ? NULL : p;
		} else if (size) {
			next = packet_skip_until_fup(p, w->chunk + limit, &last);
		} else {
			if (!take_packet(w))
				return false;
			continue;
		}
		w->at = (size_t)(next - w->chunk);
		if (last)
			note_branch(w, last, last == p);
	}
	return true;
}

/* Whether a time, or an event, comes directly behind. Then a time before it says nothing more. */
static bool is_before_event(const struct walk *w)
{
	const uint8_t next = w->at < w->to ? w->chunk[w->at] : OPCODE_TSC;

	return next == OPCODE_TSC || is_ip_packet(next, OPCODE_FUP) ||
	       is_ip_packet(next, OPCODE_TIP_PGD);
}

static void put_look(struct walk *w, const struct look *look)
{
	const uint64_t mask = (UINT64_C(1) << TSC_BITS) - 1;
	const uint64_t after = look->after & mask;
	uint64_t tsc = look->before & mask;

	if (tsc < w->state->last) /* what stands before came while the watcher was looking */
		tsc = after;
	if (tsc < w->state->last || w->in_psb || w->bound || w->state->off || w->after_tsc ||
	    is_before_event(w))
		return;
	w->list[w->count++] = (struct inserted){(uint32_t)w->at, tsc};
	w->state->last = tsc;
}

static size_t copy_packets(const struct walk *w, size_t from, uint8_t *out)
{
	size_t size = 0;

	for (size_t i = 0; i < w->count; i++) {
		memcpy(out + size, w->chunk + from, w->list[i].at - from);
		size += w->list[i].at - from;
		from = w->list[i].at;
		out[size++] = OPCODE_TSC;
		for (unsigned b = 0; b < SIZE_TSC - 1; b++)
			out[size++] = (uint8_t)(w->list[i].tsc >> 8 * b);
	}
	memcpy(out + size, w->chunk + from, w->to - from);
	return size + (w->to - from);
}

/* What may follow that says that a look is no good has been seen. */
static bool is_settled(const struct walk *w)
{
	return w->since == w->count;
}

size_t look_packets_put(struct look_state *state, const uint8_t *chunk, size_t from, size_t to,
			bool last, const struct look *looks, size_t n, uint8_t *out, size_t *walked)
{
	struct walk w = {.state = state, .chunk = chunk, .at = from, .to = to};

	*walked = from;
	if (last && !n)
		return 0;
	if (!from)
		*state = (struct look_state){.off = true};
	w.before = state->last;
	for (size_t i = 0; i < n; i++) {
		if (!pass_to(&w, looks[i].at))
			break;
		put_look(&w, &looks[i]);
	}
	while (w.at < to && !(last && is_settled(&w)))
		if (!pass_to(&w, to - w.at < STRETCH ? to : w.at + STRETCH))
			break;
	*walked = w.at;
	return w.count ? copy_packets(&w, from, out) : 0;
}
