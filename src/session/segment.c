/* SPDX-License-Identifier: MIT */
/* Finds places in a stream from which segments can be decoded independently. */
#include "session/stream.h"

#include "base/compiler.h"
#include "flow/state.h"

/* How many bytes after its PSB a segment may begin at most. */
#define REACH 4096

/* Reads one packet without counting. */
static int read_packet(struct stream_decoder *s, struct ptah_item *items, size_t capacity,
		       bool *starved)
{
	if (s->profile)
		return profile_pass_packet(s->profile, items, capacity, starved);
	flow_follow_image(s->flow);
	return flow_read_packet(s->flow, items, capacity, starved);
}

static int feed(struct stream_decoder *s, const struct stream_bytes *b)
{
	return s->profile ? profile_feed_only(s->profile, b->bytes, b->n, b->last)
			  : ptah_flow_feed(s->flow, b->bytes, b->n, b->last);
}

/* Decodes one packet and adds up its blocks. 1, 0 at the end of a piece, or an error. */
static int step(struct stream_decoder *s, uint64_t *blocks)
{
	struct ptah_item items[64];
	struct stream_bytes b;
	bool starved;
	int n;

	if (flow_is_paused(stream_flow(s)))
		return stream_apply_changes(s) < 0 ? PTAH_E_NOMEM : 1;
	n = read_packet(s, items, ARRAY_SIZE(items), &starved);
	for (int i = 0; i < n; i++) {
		if (items[i].type == PTAH_ITEM_ERROR)
			return 0;
		*blocks += items[i].type == PTAH_ITEM_BLOCK;
	}
	if (!starved || n)
		return 1;
	if (!stream_next_bytes(s, &b))
		return 0;
	return feed(s, &b) < 0 ? PTAH_E_NOMEM : 1;
}

/* Finds where a flow that begins at a PSB is first at rest after at least one block. */
static bool begin_at(struct stream_decoder *s, uint64_t psb, struct segment *segment)
{
	uint64_t blocks = 0;

	stream_go_to(s, psb);
	while (step(s, &blocks) > 0) {
		flow_save_state(stream_flow(s), &segment->state);
		if (blocks && segment->state.plain) {
			segment->psb = psb;
			segment->start = segment->state.offset;
			segment->changes = stream_applied(s);
			return true;
		}
		if (segment->state.offset > psb + REACH)
			return false;
	}
	return false;
}

/*
 * The first PSB in [offset, before) that is not the end of a gap. UINT64_MAX: none. All of a piece
 * that begins before `before` is searched.
 */
static uint64_t find_psb(const struct stream_decoder *s, uint64_t offset, uint64_t before)
{
	for (size_t i = session_piece_at(s->stream, offset); i < s->stream->count; i++) {
		const struct piece *p = &s->stream->pieces[i];
		const uint8_t *from = p->bytes, *psb;

		if (p->offset >= before)
			break;
		if (p->offset < offset)
			from += offset - p->offset;
		else
			from += p->gap;
		psb = ptah_packet_find_psb(from, p->bytes + piece_size(s->stream, i));
		if (psb)
			return p->offset + (uint64_t)(psb - p->bytes);
	}
	return UINT64_MAX;
}

int segment_begin(struct segment_finder *finder, size_t stream, uint64_t size)
{
	finder->size = size;
	finder->next = (struct segment){.stream = stream, .whole_start = true, .stop = UINT64_MAX};
	finder->has_next = true;
	return stream_renew(finder->session, stream, &finder->probe);
}

void segment_end(struct segment_finder *finder)
{
	stream_free(finder->probe);
	finder->probe = NULL;
	finder->has_next = false;
}

bool segment_find(struct stream_decoder *s, uint64_t from, uint64_t before, struct segment *segment)
{
	uint64_t psb = from;

	*segment = (struct segment){.stream = (size_t)(s->stream - s->session->streams)};
	s->ended = false;
	for (;; psb++) {
		psb = find_psb(s, psb, before);
		if (psb == UINT64_MAX)
			return false;
		/* What was fed is counted later, whatever is set then. */
		s->stop = before - psb < REACH ? before : psb + REACH;
		segment->stop = s->stop;
		if (begin_at(s, psb, segment))
			return segment->start < before;
	}
}

bool segment_next(struct segment_finder *finder, struct segment *segment)
{
	uint64_t psb;

	if (!finder->has_next)
		return false;
	*segment = finder->next;
	psb = segment->whole_start ? 0 : segment->psb;
	do
		psb = find_psb(finder->probe, psb + finder->size, UINT64_MAX);
	while (psb != UINT64_MAX && !begin_at(finder->probe, psb, &finder->next));
	finder->has_next = psb != UINT64_MAX;
	finder->next.whole_start = false;
	segment->stop = finder->has_next ? finder->next.start : UINT64_MAX;
	finder->next.stop = UINT64_MAX;
	return true;
}

bool segment_follows(const struct segment *segment, const struct flow_state *end, size_t changes,
		     bool timed)
{
	return segment->whole_start ||
	       (flow_same_state(end, &segment->state, timed) && changes == segment->changes);
}

int segment_enter(struct stream_decoder *s, const struct segment *segment)
{
	struct flow_state state;
	uint64_t blocks = 0;
	int status = 1;

	s->stop = segment->stop;
	if (segment->whole_start) {
		stream_go_to(s, 0);
		s->fed = 0;
		s->next_piece = 0;
	} else {
		stream_go_to(s, segment->psb);
		do {
			status = step(s, &blocks);
			flow_save_state(stream_flow(s), &state);
		} while (status > 0 && !(blocks && state.plain) && state.offset <= segment->start);
	}
	return status < 0 ? status : 0;
}
