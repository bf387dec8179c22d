/* SPDX-License-Identifier: MIT */
/*
 * Finds the part of a stream that has to be decoded for a window. A PSB+ has a time stamp (SDM "PSB
 * Packet": the TSC packet in it, if they are enabled), so that a PSB before a time is found by
 * bisection.
 */
#include "session/window.h"

#include <ptah/packet.h>

/* Below this many bytes PSBs are gone through one by one. */
#define NEAR (UINT64_C(64) << 10)

/* If so many PSBs have no time stamp, none has. */
#define MOST_WITHOUT 256

/*
 * Decoding begins so many time stamps before the window: the rate of the cycles is measured between
 * MTC packets, and an estimate that was ahead of the clock is overtaken by then, so that times are
 * those of a decode from the beginning.
 */
#define LEAD 3

/* A PSB whose PSB+ has a time stamp. */
struct stamp {
	uint64_t psb, tsc;
};

/* Reads the TSC packet of the PSB+ at `bytes`. False: there is none in these n bytes. */
static bool read_stamp(const uint8_t *bytes, uint64_t n, uint64_t *tsc)
{
	struct ptah_packet packet;
	unsigned block = 0;
	uint64_t at = 0;

	while (at < n) {
		const int size = ptah_packet_decode(&packet, bytes + at, (size_t)(n - at), block);

		if (size <= 0 || packet.type == PTAH_PACKET_PSBEND ||
		    packet.type == PTAH_PACKET_OVF)
			return false;
		if (packet.type == PTAH_PACKET_TSC) {
			*tsc = packet.u.tsc.tsc;
			return true;
		}
		at += (uint64_t)size;
	}
	return false;
}

/*
 * The first stamp whose PSB begins in [from, to). A PSB+ that lies in two pieces of the file is
 * passed over.
 */
static bool find_stamp(const struct stream *stream, uint64_t from, uint64_t to, struct stamp *stamp)
{
	unsigned without = 0;

	for (size_t i = session_piece_at(stream, from); i < stream->count; i++) {
		const struct piece *p = &stream->pieces[i];
		const uint8_t *const end = p->bytes + piece_size(stream, i);
		const uint8_t *at = p->bytes + (from > p->offset ? from - p->offset : 0);

		for (; (at = ptah_packet_find_psb(at, end)); at++) {
			stamp->psb = p->offset + (uint64_t)(at - p->bytes);
			if (stamp->psb >= to || without == MOST_WITHOUT)
				return false;
			if (read_stamp(at, (uint64_t)(end - at), &stamp->tsc))
				return true;
			without++;
		}
		if (piece_end(stream, i) >= to)
			return false;
	}
	return false;
}

/* The last stamp whose PSB begins before `to`. */
static bool find_last_stamp(const struct stream *stream, uint64_t to, struct stamp *stamp)
{
	unsigned without = 0;

	for (size_t i = stream->count; i-- > 0;) {
		const struct piece *p = &stream->pieces[i];
		const uint8_t *const end = p->bytes + piece_size(stream, i), *limit = end, *at;

		if (p->offset >= to)
			continue;
		/* The PSB may reach beyond `to`; it begins before. */
		if (to - p->offset < (uint64_t)(end - p->bytes) - 15)
			limit = p->bytes + (to - p->offset) + 15;
		for (; (at = ptah_packet_find_last_psb(p->bytes, limit)); limit = at + 15) {
			stamp->psb = p->offset + (uint64_t)(at - p->bytes);
			if (read_stamp(at, (uint64_t)(end - at), &stamp->tsc))
				return true;
			if (without++ == MOST_WITHOUT)
				return false;
		}
	}
	return false;
}

/* The last stamp before the time `tsc`. False: the first one is not before it, or there is none. */
static bool find_before(const struct stream *stream, uint64_t tsc, struct stamp *found)
{
	uint64_t low = 0, high = stream->info.bytes;
	struct stamp stamp;
	bool any = false;

	while (high - low > NEAR) {
		const uint64_t middle = low + (high - low) / 2;

		if (find_stamp(stream, middle, high, &stamp) && stamp.tsc < tsc) {
			*found = stamp;
			any = true;
			low = stamp.psb + 1;
		} else {
			high = middle;
		}
	}
	while (find_stamp(stream, low, stream->info.bytes, &stamp) && stamp.tsc < tsc) {
		*found = stamp;
		any = true;
		low = stamp.psb + 1;
	}
	return any;
}

/* Whether the stream consists of traces that were recorded one apart from the other. */
static bool is_scattered(const struct stream *stream)
{
	for (size_t i = 0; i < stream->count; i++)
		if (stream->pieces[i].separate)
			return true;
	return false;
}

/* The PSB to begin with. False: the beginning of the stream. */
static bool find_begin(const struct ptah_stream *s, const struct ptah_window *w,
		       struct stamp *begin)
{
	const struct stream *stream = s->stream;
	struct stamp before;
	bool any = w->since && find_before(stream, w->since, begin);

	for (unsigned i = 0; i < LEAD && any; i++) {
		if (!find_last_stamp(stream, begin->psb, &before))
			return false;
		*begin = before;
	}
	if (w->offset && find_last_stamp(stream, w->offset + 1, &before) &&
	    (!any || before.psb > begin->psb)) {
		*begin = before;
		any = true;
	}
	return any;
}

/* Where feeding may stop: at the second stamp after the window, for its first may be incomplete. */
static uint64_t find_stop(const struct stream *stream, uint64_t until)
{
	struct stamp stamp = {0};
	uint64_t from;

	from = find_before(stream, until + 1, &stamp) ? stamp.psb + 1 : 0;
	for (unsigned i = 0; i < 2; i++) {
		if (!find_stamp(stream, from, stream->info.bytes, &stamp))
			return UINT64_MAX;
		from = stamp.psb + 1;
	}
	return stamp.psb;
}

/* Begins to decode in the middle, with memory and thread as of the time there. */
static int begin_at(struct ptah_stream *s, const struct stamp *begin)
{
	int status;

	stream_go_to(s, begin->psb);
	status = s->follow ? follow_begin_at(s, begin->psb, begin->tsc) : 0;
	return status < 0 ? status : stream_catch_up(s, begin->tsc);
}

int window_enter(struct ptah_stream *s)
{
	const struct ptah_window *w = &s->session->window;
	struct time_window window;
	struct stamp begin;
	int status = 0;

	if (!session_has_window(s->session))
		return 0;
	time_window_begin(&window, w->since, w->until, is_scattered(s->stream));
	if (!window.scattered && find_begin(s, w, &begin))
		status = begin_at(s, &begin);
	if (!window.scattered && w->until != UINT64_MAX)
		s->stop = find_stop(s->stream, w->until);
	stream_set_window(s, &window);
	return status;
}

int ptah_session_set_window(struct ptah_session *session, const struct ptah_window *window)
{
	static const struct ptah_window whole = {.size = sizeof(whole), .until = UINT64_MAX};

	if (!session || (window && window->size < sizeof(*window)))
		return PTAH_E_INVAL;
	session->window = window ? *window : whole;
	return 0;
}

/* The time at the end of a stream, whose last stamp is given. */
static int find_end(const struct ptah_session *session, const struct stream *stream,
		    const struct stamp *stamp, uint64_t *tsc)
{
	struct ptah_event_decoder *d;
	struct ptah_item items[64];
	struct ptah_time time;
	size_t i = session_piece_at(stream, stamp->psb);
	uint64_t from = stamp->psb;
	int n, status = ptah_event_decoder_new(&session->flow.events, &d);

	if (status < 0)
		return status;
	*tsc = stamp->tsc;
	ptah_event_seek(d, from);
	for (; i < stream->count && status >= 0; from = piece_end(stream, i++)) {
		const struct piece *p = &stream->pieces[i];
		const uint64_t skip = from - p->offset;

		status = ptah_event_feed(d, p->bytes + skip, (size_t)(piece_size(stream, i) - skip),
					 i + 1 == stream->count);
		while (status >= 0 && (n = ptah_event_read(d, items, 64)) != 0)
			status = n;
	}
	ptah_event_time(d, &time);
	if (time.tsc > *tsc)
		*tsc = time.tsc;
	ptah_event_decoder_free(d);
	return status < 0 ? status : 0;
}

int ptah_session_stream_times(const struct ptah_session *session, size_t index, uint64_t *first,
			      uint64_t *last)
{
	const struct stream *stream;
	struct stamp a, b;

	if (!session || !first || !last || index >= session->stream_count)
		return PTAH_E_INVAL;
	stream = &session->streams[index];
	if (!find_stamp(stream, 0, stream->info.bytes, &a) ||
	    !find_last_stamp(stream, stream->info.bytes, &b))
		return PTAH_E_MISSING;
	*first = a.tsc;
	return find_end(session, stream, &b, last);
}

/* TSC packets have so many bits. */
#define TSC_BITS 56

uint64_t ptah_session_tsc(const struct ptah_session *session, uint64_t ns, bool up)
{
	uint64_t low = 0, high = UINT64_C(1) << TSC_BITS;

	if (!session || !session->has_clock)
		return 0;
	/*
	 * Finds the first value whose time is not less, or is more. In a guest the TSC began before
	 * perf's clock did, so that times are negative at first.
	 */
	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		const int64_t time = (int64_t)ptah_session_time(session, middle);

		if (up ? time < (int64_t)ns : time <= (int64_t)ns)
			low = middle + 1;
		else
			high = middle;
	}
	return up || !low ? low : low - 1;
}
