/* SPDX-License-Identifier: MIT */
/* All packets of a stream, bad bytes included. */
#include "cli.h"

#include <string.h>

/* Reads on where pieces of the file meet: a packet may lie across. */
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

/* The packet at w->p, in w->p or, across a border, in w->joined. */
static int decode(struct window *w, struct ptah_packet *packet, unsigned block,
		  const uint8_t **bytes)
{
	int size = ptah_packet_decode(packet, w->p, w->n, block);
	size_t have = w->n;

	*bytes = w->p;
	if (size != PTAH_E_MORE || w->n >= PTAH_PACKET_MAX_SIZE)
		return size;
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
	*bytes = w->joined;
	return ptah_packet_decode(packet, w->joined, have, block);
}

/* Bad bytes reach to the next PSB, or to the end of this piece. */
static size_t bad_length(const struct window *w)
{
	const uint8_t *psb = ptah_packet_find_psb(w->p + 1, w->p + w->n);

	return psb ? (size_t)(psb - w->p) : w->n;
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

void packets_each(const struct ptah_session *session, size_t stream,
		  bool (*each)(void *context, const struct packet_place *place), void *context)
{
	struct window w = {.session = session, .stream = stream};
	unsigned block = PTAH_BLOCK_NONE;
	uint64_t last_ip = 0;

	while (w.n || look(&w)) {
		struct packet_place place = {.offset = w.offset};
		int size = decode(&w, &place.packet, block, &place.bytes);

		if (size < 0) {
			place.status = size;
			place.size = bad_length(&w);
			block = PTAH_BLOCK_NONE;
		} else {
			place.size = (size_t)size;
			block = ptah_packet_block_state(&place.packet, block);
			expand(&place, &last_ip);
		}
		if (!each(context, &place))
			return;
		w.offset += place.size;
		if (place.size >= w.n) {
			w.n = 0;
		} else {
			w.p += place.size;
			w.n -= place.size;
		}
	}
}
