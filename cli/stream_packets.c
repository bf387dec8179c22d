/* SPDX-License-Identifier: MIT */
/* Decodes the packets of a stream, and skips bad bytes up to the next PSB. */
#include "stream_packets.h"

#include <string.h>

/* A piece of the stream, with room to join its end and the next piece, as a packet may be cut. */
struct window {
	const struct ptah_session *session;
	size_t stream;
	uint64_t offset; /* of p */
	const uint8_t *p;
	size_t n;
	uint8_t joined[2 * PTAH_PACKET_MAX_SIZE];
};

static bool look(struct window *w)
{
	w->n = ptah_session_stream_bytes(w->session, w->stream, w->offset, &w->p);
	return w->n > 0;
}

/* Copies up to 32 bytes from this piece and the following ones into w->joined. Returns how many. */
static size_t join_pieces(struct window *w)
{
	size_t have = w->n < sizeof(w->joined) ? w->n : sizeof(w->joined);

	memcpy(w->joined, w->p, have);
	while (have < sizeof(w->joined)) {
		const uint8_t *more;
		size_t n =
		    ptah_session_stream_bytes(w->session, w->stream, w->offset + have, &more);

		if (!n)
			break;
		if (n > sizeof(w->joined) - have)
			n = sizeof(w->joined) - have;
		memcpy(w->joined + have, more, n);
		have += n;
	}
	return have;
}

/* Decodes the packet at w->p. *bytes is w->p or, if the packet continues in the next piece,
 * w->joined. */
static int decode(struct window *w, struct ptah_packet *packet, unsigned block,
		  const uint8_t **bytes)
{
	int size = ptah_packet_decode(packet, w->p, w->n, block);

	*bytes = w->p;
	if (size != PTAH_E_MORE || w->n >= PTAH_PACKET_MAX_SIZE)
		return size;
	*bytes = w->joined;
	return ptah_packet_decode(packet, w->joined, join_pieces(w), block);
}

/*
 * The number of bytes before the next PSB, or up to the end of this piece; a PSB
 * may begin in this piece and end in the next. 0: a PSB begins here.
 */
static size_t bytes_to_psb(struct window *w)
{
	const uint8_t *psb = ptah_packet_find_psb(w->p, w->p + w->n), *more;
	size_t tail = PTAH_PACKET_MAX_SIZE - 1;

	if (psb)
		return (size_t)(psb - w->p);
	if (!ptah_session_stream_bytes(w->session, w->stream, w->offset + w->n, &more))
		return w->n;
	if (w->n > tail)
		return w->n - tail;
	psb = ptah_packet_find_psb(w->joined, w->joined + join_pieces(w));
	return psb && (size_t)(psb - w->joined) < w->n ? (size_t)(psb - w->joined) : w->n;
}

static void expand(struct packet_place *place, uint64_t *last_ip)
{
	switch (place->packet.type) {
	case PTAH_PACKET_PSB:
		*last_ip = 0;
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		place->has_ip = ptah_packet_ip(last_ip, place->packet.u.ip.ipc,
					       place->packet.u.ip.ip, &place->ip);
		break;
	default:
		break;
	}
}

static void skip(struct window *w, size_t n)
{
	w->offset += n;
	w->p = n < w->n ? w->p + n : w->p;
	w->n = n < w->n ? w->n - n : 0;
}

/* A walk over packets. */
struct walk {
	struct window w;
	unsigned block;
	uint64_t last_ip;
	int lost;
	bool goes_on;
	uint64_t end; /* no batch goes beyond */
};

/* Returns the next packet, or bytes that are none, in *place. The caller skips them. */
static void step_packet_walk(struct walk *k, struct packet_place *place)
{
	struct window *w = &k->w;

	*place = (struct packet_place){.offset = w->offset, .bytes = w->p};
	if (k->lost) {
		place->size = bytes_to_psb(w);
		if (!place->size)
			k->lost = 0;
	}
	if (!k->lost) {
		int size = decode(w, &place->packet, k->block, &place->bytes);

		if (size < 0) {
			k->lost = size;
			place->size = bytes_to_psb(w);
		} else {
			place->size = (size_t)size;
			k->block = ptah_packet_block_state(&place->packet, k->block);
			expand(place, &k->last_ip);
		}
		k->goes_on = false;
	}
	if (k->lost) {
		place->bytes = w->p;
		place->status = k->lost;
		place->goes_on = k->goes_on;
		k->goes_on = true;
		k->block = PTAH_BLOCK_NONE;
	}
}

#define BATCH 512

#define PSB_SIZE 16

static bool has_pebs(const struct ptah_packet_record *records, int n)
{
	for (int i = 0; i < n; i++)
		if (records[i].type == PTAH_PACKET_BBP)
			return true;
	return false;
}

/* Passes on a batch of packets. *size: how many bytes they have. False: the walk is to end. */
static bool pass_batch(struct walk *k,
		       bool (*many)(void *context, const struct packet_batch *batch), void *context,
		       size_t *size)
{
	const uint64_t left = k->end - k->w.offset;
	struct ptah_packet_cursor cursor = {k->w.p, k->w.p + (left < k->w.n ? left : k->w.n),
					    k->block};
	struct ptah_packet_record records[BATCH];
	struct packet_batch batch = {
	    .offset = k->w.offset, .bytes = k->w.p, .records = records, .last_ip = &k->last_ip};
	int n;

	*size = 0;
	if (k->lost || k->block != PTAH_BLOCK_NONE)
		return true;
	n = ptah_packet_decode_batch(&cursor, records, BATCH);
	if (n <= 0 || has_pebs(records, n))
		return true;
	*size = (size_t)(cursor.next - k->w.p);
	batch.count = (size_t)n;
	k->goes_on = false;
	return many(context, &batch);
}

bool packets_walk(const struct ptah_session *session, size_t stream, struct packet_walk *walk,
		  uint64_t end, bool (*each)(void *context, const struct packet_place *place),
		  bool (*many)(void *context, const struct packet_batch *batch), void *context)
{
	struct walk k = {.w = {.session = session, .stream = stream, .offset = walk->offset},
			 .block = walk->block,
			 .last_ip = walk->last_ip,
			 .lost = walk->lost,
			 .goes_on = walk->goes_on,
			 .end = end};
	struct packet_place place;
	bool more = true;

	while (more && k.w.offset < end && (k.w.n || look(&k.w))) {
		place.size = 0;
		if (many)
			more = pass_batch(&k, many, context, &place.size);
		if (more && !place.size) { /* it is cut by the end of the piece, or bad bytes */
			step_packet_walk(&k, &place);
			more = each(context, &place);
		}
		skip(&k.w, place.size);
	}
	*walk = (struct packet_walk){.offset = k.w.offset,
				     .last_ip = k.last_ip,
				     .block = k.block,
				     .lost = k.lost,
				     .goes_on = k.goes_on};
	return more;
}

uint64_t packets_find_psb(const struct ptah_session *session, size_t stream, uint64_t from,
			  uint64_t end)
{
	const uint8_t *p, *psb;
	size_t n;

	while (from < end && (n = ptah_session_stream_bytes(session, stream, from, &p))) {
		const uint64_t left = end - from;
		const size_t whole =
		    left < n - (PSB_SIZE - 1) && n >= PSB_SIZE ? (size_t)left + PSB_SIZE - 1 : n;

		psb = ptah_packet_find_psb(p, p + whole);
		if (psb)
			return from + (uint64_t)(psb - p);
		from += n;
	}
	return UINT64_MAX;
}

/* Counts the packets that are complete in this piece, in batches. Returns how many bytes they have.
 */
static size_t count_batch(struct walk *k, uint64_t *counts)
{
	struct ptah_packet_cursor cursor = {k->w.p, k->w.p + k->w.n, k->block};
	struct ptah_packet_record records[512];
	int n;

	while ((n = ptah_packet_decode_batch(&cursor, records, 512)) > 0)
		for (int i = 0; i < n; i++)
			counts[records[i].type]++;
	k->block = cursor.block;
	return (size_t)(cursor.next - k->w.p);
}

uint64_t packets_count(const struct ptah_session *session, size_t stream, uint64_t *counts)
{
	struct walk k = {.w = {.session = session, .stream = stream}, .block = PTAH_BLOCK_NONE};
	struct packet_place place;
	uint64_t bad_bytes = 0;

	while (!interrupted() && (k.w.n || look(&k.w))) {
		place.size = k.lost ? 0 : count_batch(&k, counts);
		if (!place.size) { /* a packet that is cut by the end of the piece, or bad bytes */
			step_packet_walk(&k, &place);
			if (place.status < 0)
				bad_bytes += place.size;
			else
				counts[place.packet.type]++;
		}
		skip(&k.w, place.size);
	}
	return bad_bytes;
}
