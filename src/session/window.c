/* SPDX-License-Identifier: MIT */
/*
 * Finds the part of a stream that has to be decoded for a window. A PSB+ has a time stamp (SDM "PSB
 * Packet": the TSC packet in it, if they are enabled), so that a PSB before a time is found by
 * bisection.
 */
#include "session/window.h"
#include "event/event.h"
#include "profile/profile_internal.h"

#include <ptah/packet.h>

#include <stdlib.h>

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

/* Where the decode for a window begins and ends in a stream. */
struct window_place {
	bool nothing; /* no part of the stream is inside */
	bool middle;  /* it begins at `begin`, not at the beginning of the stream */
	struct stamp begin;
	uint64_t stop; /* nothing from this offset on is needed */
	/* With a number of instructions: it begins with this segment and this number. */
	bool counted;
	struct segment segment;
	uint64_t number;
};

/* Finds the PSB to begin with. */
static void find_begin(const struct stream *stream, const struct ptah_window *w,
		       struct window_place *place)
{
	struct stamp stamp;

	place->middle = w->since && find_before(stream, w->since, &place->begin);
	/* Without a time stamp nothing is known to be inside. */
	place->nothing =
	    w->since && !place->middle && !find_stamp(stream, 0, stream->info.bytes, &stamp);
	for (unsigned i = 0; i < LEAD && place->middle; i++) {
		place->middle = find_last_stamp(stream, place->begin.psb, &stamp);
		if (place->middle)
			place->begin = stamp;
	}
	if (w->offset && find_last_stamp(stream, w->offset + 1, &stamp) &&
	    (!place->middle || stamp.psb > place->begin.psb)) {
		place->middle = true;
		place->begin = stamp;
	}
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

/* Counts a segment, after those before it. */
static int count_segment(struct stream_decoder *s, const struct segment *segment,
			 uint64_t *instructions)
{
	struct ptah_profile_totals totals = {0};
	int status = profile_resume(s->profile);

	s->stop = segment->stop;
	s->paused = status == PROFILE_PAUSED;
	while (status >= 0 && (status = stream_count(s)) > 0)
		;
	if (status >= 0)
		status = ptah_profile_totals(s->profile, &totals);
	if (status >= 0)
		*instructions = totals.instructions;
	return status;
}

/* At which distance places are looked for from which the instructions are counted one by one. */
#define SEGMENT (UINT64_C(128) << 10)

/*
 * Counts instructions up to the segment in which `first` runs. It is used if its state is that of
 * the count; otherwise an earlier one, at worst the stream's beginning.
 */
static int find_number(struct segment_finder *finder, struct stream_decoder *s, uint64_t first,
		       struct window_place *place)
{
	struct segment segment;
	struct flow_state state;
	uint64_t before = 0;
	int status = 0;

	place->counted = true;
	while (status >= 0 && before <= first && segment_next(finder, &segment)) {
		flow_save_state(stream_flow(s), &state);
		if (segment.whole_start || (flow_same_state(&state, &segment.state, true) &&
					    stream_applied(s) == segment.changes)) {
			place->segment = segment;
			place->number = before;
		}
		status = count_segment(s, &segment, &before);
	}
	place->segment.stop = UINT64_MAX;
	return status;
}

static int count_to(const struct ptah_session *session, size_t index, uint64_t first,
		    struct window_place *place)
{
	struct ptah_session whole = *session;
	struct segment_finder finder = {.session = &whole};
	struct stream_decoder *s = NULL;
	int status;

	ptah_session_set_window(&whole, NULL);
	status = stream_renew_counted(&whole, index, &s);
	if (status >= 0)
		status = segment_begin(&finder, index, SEGMENT);
	if (status >= 0)
		status = find_number(&finder, s, first, place);
	segment_end(&finder);
	stream_free(s);
	return status;
}

static int find_place(const struct stream_decoder *s, struct window_place *place)
{
	const struct ptah_window *w = &s->session->window;
	const bool scattered = is_scattered(s->stream);

	*place = (struct window_place){.stop = UINT64_MAX};
	if (s->stream->cpu != SESSION_NONE && (w->first || w->last != UINT64_MAX))
		return PTAH_E_UNSUPPORTED;
	if (w->first)
		return count_to(s->session, (size_t)(s->stream - s->session->streams), w->first,
				place);
	if (scattered)
		return 0;
	find_begin(s->stream, w, place);
	if (w->until != UINT64_MAX)
		place->stop = find_stop(s->stream, w->until);
	return 0;
}

/* Begins to decode in the middle, with memory and thread as of the time there. */
static int begin_at(struct stream_decoder *s, const struct stamp *begin)
{
	int status;

	stream_go_to(s, begin->psb);
	status = s->follow ? follow_begin_at(s, begin->psb, begin->tsc) : 0;
	return status < 0 ? status : stream_catch_up(s, begin->tsc);
}

int window_enter(struct stream_decoder *s)
{
	const struct ptah_window *w = &s->session->window;
	struct time_window window = {
	    .since = w->since, .until = w->until, .first = w->first, .last = w->last};
	const struct window_place *place;
	int status = 0;

	if (!session_has_window(s->session))
		return 0;
	if (!s->place) {
		s->place = malloc(sizeof(*s->place));
		if (!s->place)
			return PTAH_E_NOMEM;
		status = find_place(s, s->place);
	}
	place = s->place;
	if (status >= 0 && place->counted) {
		status = segment_enter(s, &place->segment);
		s->half_read = s->profile && !place->segment.whole_start;
		window.next = place->number;
	} else if (status >= 0 && place->middle) {
		status = begin_at(s, &place->begin);
	}
	window.scattered = is_scattered(s->stream);
	time_window_begin(&window);
	if (place->nothing)
		window.state = TIME_WINDOW_AFTER;
	s->stop = place->nothing ? 0 : place->stop;
	stream_set_window(s, &window);
	return status;
}

int ptah_session_set_window(struct ptah_session *session, const struct ptah_window *window)
{
	static const struct ptah_window whole = {
	    .size = sizeof(whole), .until = UINT64_MAX, .last = UINT64_MAX};

	if (!session || (window && window->size < sizeof(*window)))
		return PTAH_E_INVAL;
	session->window = window ? *window : whole;
	return 0;
}

bool ptah_session_get_window(const struct ptah_session *session, struct ptah_window *window)
{
	*window = session->window;
	return session_has_window(session);
}

int ptah_session_window_packets(const struct ptah_session *session, size_t index, uint64_t *from,
				uint64_t *to)
{
	const struct ptah_window *w;
	const struct stream *stream;
	struct stamp stamp;

	if (!session || !from || !to || index >= session->stream_count)
		return PTAH_E_INVAL;
	w = &session->window;
	stream = &session->streams[index];
	*from = 0;
	*to = UINT64_MAX;
	if (w->first || w->last != UINT64_MAX)
		return PTAH_E_UNSUPPORTED;
	if (is_scattered(stream))
		return 0;
	if (w->offset && find_last_stamp(stream, w->offset + 1, &stamp))
		*from = stamp.psb;
	if (w->since && find_before(stream, w->since, &stamp))
		*from = stamp.psb > *from ? stamp.psb : *from;
	else if (w->since && !find_stamp(stream, 0, stream->info.bytes, &stamp))
		*to = 0;
	if (w->until != UINT64_MAX && *to) {
		*to = find_before(stream, w->until + 1, &stamp) ? stamp.psb + 1 : 0;
		*to = find_stamp(stream, *to, stream->info.bytes, &stamp) ? stamp.psb : UINT64_MAX;
	}
	*to = *to > *from ? *to : *from;
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
	event_get_time(d, &time);
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
