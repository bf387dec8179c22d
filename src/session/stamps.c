/* SPDX-License-Identifier: MIT */
/* Finds stamps, and bounds of times (stamps.h). */
#include "session/stamps.h"

#include "packet/opcode.h"
#include "packet/skip.h"

#include "base/bits.h"
#include "support/list.h"

#include <ptah/packet.h>

#include <stdlib.h>
#include <string.h>

/*
 * A recorder in software stores the packets of a path through the program when the path is left, so
 * many bytes at once at most: what ran up to a look may still have been outside of the trace then.
 */
#define REACH 64

/* A look at a thread's trace from outside takes so long at most; longer ones are thrown away. */
#define LOOK_NS 3000

/* A thread that runs for so long should be looked at: the default is 20 times as often. */
#define UNLOOKED_NS 2000000

/* An offset that is so much further than the last one is searched from the PSB before it. */
#define FAR (UINT64_C(1) << 20)

/* The bytes after a TSC packet that say what it belongs to: FUP and TIP.PGD, or MODE and TIP.PGE. */
#define FOLLOWING 18

/* Packets */

/* Copies up to n bytes from `offset` on, as far as trace is there without a gap. Returns how many. */
static size_t copy_bytes(const struct stream *stream, uint64_t offset, uint8_t *bytes, size_t n)
{
	size_t piece = session_piece_at(stream, offset), done = 0;

	for (; piece < stream->count && done < n; piece++) {
		const struct piece *p = &stream->pieces[piece];
		const uint64_t skip = offset + done - p->offset;
		uint64_t part = piece_size(stream, piece) - skip;

		if (done && p->gap)
			break;
		part = part < n - done ? part : n - done;
		memcpy(bytes + done, p->bytes + skip, (size_t)part);
		done += (size_t)part;
	}
	return done;
}

static bool is_ip_packet(uint8_t byte, unsigned opcode)
{
	return (byte & OPCODE_IP_MASK) == opcode;
}

/*
 * What the TSC packet before these bytes belongs to. Returns the offset in them of the TIP.PGD or
 * TIP.PGE at which tracing stops or continues; -1: it is another packet; n: it comes later.
 */
static int find_switch(const uint8_t *bytes, size_t n, bool *stops)
{
	size_t at = 0;

	if (n && is_ip_packet(bytes[0], OPCODE_FUP))
		at = packet_branch_size(bytes[0]);
	else if (n && bytes[0] == OPCODE_MODE)
		at = 2;
	if (at >= n)
		return (int)n;
	*stops = is_ip_packet(bytes[at], OPCODE_TIP_PGD);
	return *stops || is_ip_packet(bytes[at], OPCODE_TIP_PGE) ? (int)at : -1;
}

/* False: what follows the packet is not known yet. */
static bool fill_stamp(struct stamp_walk *w, const struct stream *stream, uint64_t tsc,
		       struct tsc_stamp *stamp)
{
	const uint64_t at = w->at;
	uint8_t bytes[FOLLOWING];
	const size_t n = copy_bytes(stream, at + SIZE_TSC, bytes, sizeof(bytes));
	bool stops = false;
	const int leads = w->in_psb ? -1 : find_switch(bytes, n, &stops);

	if (leads == (int)n && stream->grows && at + SIZE_TSC + n == stream->info.bytes)
		return false;
	*stamp = (struct tsc_stamp){
	    .kind = STAMP_LOOK, .to = at, .from = at, .last = w->last, .tsc = tsc};
	if (w->in_psb) {
		stamp->to = w->psb;
		stamp->from = at;
	} else if (leads >= 0 && leads < (int)n) {
		stamp->kind = STAMP_OWN;
		stamp->stops = stops;
		stamp->from = at + SIZE_TSC + (uint64_t)leads;
		stamp->to = stops ? stamp->from : at;
	} else if (w->off) {
		stamp->kind = STAMP_OWN;
	}
	stamp->blind = w->unstamped;
	w->unstamped = false;
	if (stamp->stops)
		w->stop = stamp->from;
	return true;
}

static void lose_place(struct stamp_walk *w)
{
	w->lost = w->synced;
	w->synced = w->in_psb = w->off = w->unstamped = false;
}

/*
 * Takes the packet at the walk's place, which is no packet of a branch. 1: it is a stamp; 0; or
 * PTAH_E_MORE.
 */
static int take_packet(struct stamp_walk *w, const struct stream *stream, const uint8_t *p,
		       size_t n, struct tsc_stamp *stamp)
{
	struct ptah_packet packet;
	const int size = ptah_packet_decode(&packet, p, n, PTAH_BLOCK_NONE);

	if (size == PTAH_E_MORE)
		return size;
	if (size < 0) {
		lose_place(w);
		w->at++;
		return 0;
	}
	switch (packet.type) {
	case PTAH_PACKET_PSB:
		w->in_psb = true;
		w->psb = w->at;
		break;
	case PTAH_PACKET_PSBEND:
		w->in_psb = false;
		break;
	case PTAH_PACKET_OVF:
		w->lost = true;
		w->in_psb = false;
		break;
	case PTAH_PACKET_TNT_64:
		w->last = w->at;
		break;
	case PTAH_PACKET_TSC:
		if (!fill_stamp(w, stream, packet.u.tsc.tsc, stamp))
			return PTAH_E_MORE;
		w->at += (uint64_t)size;
		return 1;
	default:
		break;
	}
	w->at += (uint64_t)size;
	return 0;
}

/* Takes a TIP.PGD. */
static void take_stop(struct stamp_walk *w, const uint8_t *p)
{
	w->last = w->at;
	w->off = true;
	w->unstamped |= w->at != w->stop;
	w->at += packet_branch_size(*p);
}

/* Passes over packets of branches. */
static void pass_branches(struct stamp_walk *w, const uint8_t *p, const uint8_t *end)
{
	for (;;) {
		const uint8_t *last = NULL, *next = packet_skip_until_stop(p, end, &last);
		const unsigned size = next < end && is_ip_packet(*next, OPCODE_TIP_PGD)
					  ? packet_branch_size(*next)
					  : 0;

		if (last && !w->in_psb) {
			w->last = w->at + (uint64_t)(last - p);
			w->off &= is_ip_packet(*last, OPCODE_FUP);
		}
		w->at += (uint64_t)(next - p);
		if (!size || (size_t)(end - next) < size)
			break;
		take_stop(w, next);
		p = next + size;
	}
}

#define PSB_BYTES 16

/* Finds the next PSB in [p, end), or one that goes on in the next piece. False: it may yet come. */
static bool synchronise(struct stamp_walk *w, const struct stream *stream, const uint8_t *p,
			const uint8_t *end)
{
	const uint8_t *psb = ptah_packet_find_psb(p, end);
	uint8_t bytes[2 * PSB_BYTES];
	size_t n;

	w->synced = psb;
	w->at += (uint64_t)((psb ? psb : end - p < PSB_BYTES ? p : end - (PSB_BYTES - 1)) - p);
	if (psb)
		return true;
	n = copy_bytes(stream, w->at, bytes, sizeof(bytes));
	psb = ptah_packet_find_psb(bytes, bytes + n);
	w->synced = psb;
	if (!psb && stream->grows && w->at + n == stream->info.bytes)
		return false;
	if (psb)
		w->at += (uint64_t)(psb - bytes);
	else
		w->at += (uint64_t)(n < PSB_BYTES ? n : PSB_BYTES - 1);
	return true;
}

/* A packet that continues in the next piece. */
static int take_across(struct stamp_walk *w, const struct stream *stream, struct tsc_stamp *stamp)
{
	uint8_t bytes[PTAH_PACKET_MAX_SIZE];
	const size_t n = copy_bytes(stream, w->at, bytes, sizeof(bytes));
	const uint64_t before = w->at;
	const size_t size = packet_branch_size(bytes[0]);
	int status;

	if (size && size <= n) {
		pass_branches(w, bytes, bytes + size);
		return 0;
	}
	status = take_packet(w, stream, bytes, n, stamp);
	if (status == PTAH_E_MORE && before + n < stream->info.bytes) {
		lose_place(w); /* a gap follows */
		w->at = before + n;
		return 0;
	}
	return status;
}

bool stamps_next(struct stamp_walk *w, const struct stream *stream, struct tsc_stamp *stamp)
{
	size_t i;

	while ((i = session_piece_at(stream, w->at)) < stream->count) {
		const struct piece *piece = &stream->pieces[i];
		const uint8_t *p, *end = piece->bytes + piece_size(stream, i);
		int status;

		if (w->at < piece->offset) { /* what was before is gone */
			lose_place(w);
			w->at = piece->offset;
		}
		if (piece->gap && piece->offset == w->at && w->synced)
			lose_place(w);
		if (w->lost) {
			w->lost = false;
			*stamp = (struct tsc_stamp){.to = w->at, .from = w->at, .last = w->last};
			return true;
		}
		p = piece->bytes + (w->at - piece->offset);
		if (!w->synced) {
			if (!synchronise(w, stream, p, end))
				break;
			continue;
		}
		pass_branches(w, p, end);
		p = piece->bytes + (w->at - piece->offset);
		if (p >= end)
			continue;
		status = take_packet(w, stream, p, (size_t)(end - p), stamp);
		if (status == PTAH_E_MORE)
			status = take_across(w, stream, stamp);
		if (status == PTAH_E_MORE)
			break;
		if (status)
			return true;
	}
	return false;
}

/* The last PSB that begins so much before an offset that its TSC packet does, too; or 0. */
static uint64_t find_psb_before(const struct stream *stream, uint64_t offset)
{
	size_t i = session_piece_at(stream, offset);

	if (i == stream->count && i)
		i--;
	for (; i < stream->count; i--) {
		const struct piece *p = &stream->pieces[i];
		uint64_t n = piece_size(stream, i);
		const uint8_t *psb;

		if (offset < p->offset + SIZE_TSC)
			n = 0;
		else if (offset - p->offset - SIZE_TSC < n)
			n = offset - p->offset - SIZE_TSC;
		psb = ptah_packet_find_last_psb(p->bytes, p->bytes + n);
		if (psb)
			return p->offset + (uint64_t)(psb - p->bytes);
		if (p->gap)
			return p->offset;
	}
	return stream->count ? stream->pieces[0].offset : 0;
}

void stamps_seek(struct stamp_walk *w, const struct stream *stream, uint64_t offset)
{
	*w = (struct stamp_walk){.at = find_psb_before(stream, offset)};
}

bool stamps_are_used(const struct ptah_session *session, const struct stream *stream)
{
	return times_at_stamps(session) && stream->cpu == SESSION_NONE;
}

uint64_t stamps_between(const struct tsc_stamp *a, const struct tsc_stamp *b, uint64_t offset)
{
	if (offset <= a->from || b->to <= a->from)
		return a->tsc;
	if (offset >= b->to)
		return b->tsc;
	return a->tsc + (uint64_t)((unsigned __int128)(b->tsc - a->tsc) * (offset - a->from) /
				   (b->to - a->from));
}

void stamps_free(struct stamp_queue *queue)
{
	free(queue->list);
	*queue = (struct stamp_queue){0};
}

static bool push_stamp(struct stamp_queue *q, const struct tsc_stamp *stamp)
{
	if (q->next && q->next == q->count)
		q->next = q->count = 0;
	if (q->next > q->count / 2) {
		memmove(q->list, q->list + q->next, (q->count - q->next) * sizeof(*q->list));
		q->count -= q->next;
		q->next = 0;
	}
	if (!LIST_ROOM(q->list, q->count, q->capacity))
		return false;
	q->list[q->count++] = *stamp;
	return true;
}

int stamps_follow(struct stamp_walk *walk, const struct stream *stream, struct stamp_queue *queue,
		  struct stamp_queue *other, uint64_t *known)
{
	struct tsc_stamp stamp;

	while (stamps_next(walk, stream, &stamp)) {
		/* Where tracing stops, the packet that says so needs no stamp behind it. */
		*known = stamp.from + (stamp.kind == STAMP_OWN && stamp.stops);
		if (!push_stamp(queue, &stamp) || (other && !push_stamp(other, &stamp)))
			return PTAH_E_NOMEM;
	}
	if (walk->off)
		*known = walk->at;
	return 0;
}

bool stamps_take(struct stamp_queue *queue, struct stamp_walk *walk, const struct stream *stream,
		 struct tsc_stamp *stamp)
{
	if (!queue)
		return stamps_next(walk, stream, stamp);
	if (queue->next == queue->count)
		return false;
	*stamp = queue->list[queue->next++];
	return true;
}

/* Bounds */

/* So many bytes of branches lie between the stamps so far and what comes next. */
static void pass_bytes(struct stamp_bounds *b, uint64_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < b->near_count; i++) {
		if (b->near[i].missing <= n) {
			b->low = b->near[i].tsc > b->low ? b->near[i].tsc : b->low;
			continue;
		}
		b->near[left] = b->near[i];
		b->near[left++].missing -= n;
	}
	b->near_count = left;
}

/* The first stamp ahead is before the item. */
static void take_before(struct stamp_bounds *b, uint64_t look)
{
	const struct tsc_stamp s = b->ahead[0];

	if (s.kind == STAMP_NONE) {
		b->low = b->near_count = 0;
		b->place = UINT64_MAX;
	} else {
		if (b->place != UINT64_MAX && s.to > b->place)
			pass_bytes(b, s.to - b->place);
		b->place = s.kind == STAMP_OWN ? s.from : s.from + SIZE_TSC;
	}
	if (s.kind == STAMP_OWN) {
		b->low = s.tsc > b->low ? s.tsc : b->low;
		b->near_count = 0;
	} else if (s.kind == STAMP_LOOK && b->near_count < STAMPS_NEAR) {
		b->near[b->near_count].tsc = s.tsc > look ? s.tsc - look : 0;
		b->near[b->near_count++].missing = REACH;
	}
	b->ahead_count--;
	memmove(b->ahead, b->ahead + 1, b->ahead_count * sizeof(b->ahead[0]));
}

static bool read_ahead(struct stamp_bounds *b, const struct stream *stream)
{
	if (b->ahead_count == STAMPS_AHEAD ||
	    !stamps_take(b->queue, &b->walk, stream, &b->ahead[b->ahead_count]))
		return false;
	b->ahead_count++;
	return true;
}

/*
 * Whether a stamp is before all that ran from the item on. Where tracing stops, the event is before
 * it.
 */
static bool is_before(const struct tsc_stamp *s, uint64_t offset)
{
	return s->from < offset || (s->from == offset && !(s->kind == STAMP_OWN && s->stops));
}

/* Whether a stamp is behind all that ran up to the item. */
static bool is_behind(const struct tsc_stamp *s, uint64_t offset)
{
	return s->kind == STAMP_OWN ? offset <= s->to : s->last > offset;
}

/* The same bounds hold up to this offset at most. */
static void hold_until(struct stamp_bounds *b, uint64_t until)
{
	until = until > b->offset ? until : b->offset + 1;
	b->until = until < b->until ? until : b->until;
}

static uint64_t find_low(struct stamp_bounds *b, uint64_t offset)
{
	const uint64_t n = b->place != UINT64_MAX && offset > b->place ? offset - b->place : 0;
	uint64_t low = b->low;

	for (size_t i = 0; i < b->near_count; i++) {
		if (b->near[i].missing > n)
			hold_until(b, b->place + b->near[i].missing);
		else if (b->near[i].tsc > low)
			low = b->near[i].tsc;
	}
	return low;
}

static uint64_t find_high(struct stamp_bounds *b, const struct stream *stream, uint64_t offset,
			  uint64_t look)
{
	for (size_t i = 0; i < b->ahead_count || read_ahead(b, stream); i++) {
		const struct tsc_stamp *s = &b->ahead[i];

		if (s->kind == STAMP_NONE)
			break;
		if (is_behind(s, offset)) {
			hold_until(b, s->kind == STAMP_LOOK ? s->last : s->to + 1);
			return s->kind == STAMP_LOOK ? s->tsc + look : s->tsc;
		}
	}
	hold_until(b, 0);
	return UINT64_MAX;
}

static uint64_t ticks_of(const struct ptah_session *s, uint64_t ns)
{
	return s->has_clock && s->clock.mult ? (ns << s->clock.shift) / s->clock.mult + 1 : 0;
}

void stamps_bound(struct stamp_bounds *b, const struct ptah_session *session,
		  const struct stream *stream, uint64_t offset, uint64_t *low, uint64_t *high)
{
	const uint64_t look = ticks_of(session, LOOK_NS);

	if (b->queue && !b->begun) {
		b->begun = true;
		b->place = UINT64_MAX;
	} else if (!b->queue && (!b->begun || offset < b->offset || offset - b->offset > FAR)) {
		*b = (struct stamp_bounds){.begun = true, .place = UINT64_MAX};
		/* From a PSB whose stamp is far enough before, if there is one. */
		stamps_seek(&b->walk, stream, offset > 2 * REACH ? offset - 2 * REACH : 0);
	}
	b->offset = offset;
	b->until = UINT64_MAX;
	while ((b->ahead_count || read_ahead(b, stream)) && is_before(&b->ahead[0], offset))
		take_before(b, look);
	if (b->ahead_count)
		hold_until(b, b->ahead[0].from);
	*low = find_low(b, offset);
	*high = find_high(b, stream, offset, look);
}

/* Whether between two stamps the thread ran, as far as that is known, for so many ticks. */
static bool runs_for(const struct ptah_session *session, const struct stream *stream,
		     const struct tsc_stamp *from, const struct tsc_stamp *to, uint64_t most)
{
	uint64_t off = 0, preempted;

	if (from->kind == STAMP_NONE || to->kind == STAMP_NONE || from->stops ||
	    to->tsc <= from->tsc || to->tsc - from->tsc <= most)
		return false;
	if (ptah_session_time_off(session, stream->info.tid, from->tsc, to->tsc, &off, &preempted) <
	    0)
		off = 0;
	return to->tsc - from->tsc - off > most;
}

enum stamp_looks stamps_find_looks(const struct ptah_session *session, const struct stream *stream)
{
	const uint64_t most = ticks_of(session, UNLOOKED_NS);
	struct tsc_stamp s, before = {.kind = STAMP_NONE};
	enum stamp_looks looks = LOOKS_SPARED;
	struct stamp_walk walk = {0};

	for (; stamps_next(&walk, stream, &s); before = s) {
		if (s.kind == STAMP_LOOK && !walk.in_psb)
			return LOOKS_FOUND;
		if (looks != LOOKS_MISSING && runs_for(session, stream, &before, &s, most))
			looks = LOOKS_MISSING;
	}
	return looks;
}

int ptah_session_time_bounds(const struct ptah_session *s, size_t stream, uint64_t offset,
			     uint64_t *low, uint64_t *high)
{
	struct stamp_bounds b = {0};

	if (!s || stream >= s->stream_count || !low || !high)
		return PTAH_E_INVAL;
	if (!stamps_are_used(s, &s->streams[stream]))
		return PTAH_E_UNSUPPORTED;
	stamps_bound(&b, s, &s->streams[stream], offset, low, high);
	return 0;
}
