/* SPDX-License-Identifier: MIT */
/*
 * Finds the end of the last whole packet in a stream that arrives in pieces. perf does not join a
 * packet whose bytes lie in two AUXTRACE records, and each record is padded.
 */
#include "record/packet_cut.h"

#include "packet/skip.h"

#include <string.h>

#define PSB_BYTES 16
/*
 * A part is looked at from the last PSB in so many of its last bytes on, if there is one. Mostly
 * they come every 4 KB, and finding them is faster than decoding.
 */
#define WINDOW 16384

static void lose(struct packet_cut *cut)
{
	cut->synced = false;
	cut->block = PTAH_BLOCK_NONE;
}

/*
 * The first PSB in [p, end), or NULL. Payload before it may look like its beginning: it ends where
 * its pattern does.
 */
static const uint8_t *find_cut_psb(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *psb = ptah_packet_find_psb(p, end);

	while (psb && end - psb >= PSB_BYTES + 2 && psb[PSB_BYTES] == 0x02 &&
	       psb[PSB_BYTES + 1] == 0x82)
		psb += 2;
	return psb;
}

/* Moves the cursor to its end, or to what is no whole packet: what ptah_packet_decode() returns. */
static int step_over(struct ptah_packet_cursor *cursor)
{
	struct ptah_packet_record record;
	const uint8_t *last;
	int n = 0;

	while (n >= 0) {
		if (cursor->block == PTAH_BLOCK_NONE) /* most are packets of branches */
			cursor->next = packet_skip_branches(cursor->next, cursor->end, &last);
		if (cursor->next == cursor->end)
			break;
		n = ptah_packet_decode_batch(cursor, &record, 1);
	}
	return n;
}

/*
 * Goes from packet to packet in [p, end), from a PSB on if it is not known where packets begin.
 * Returns where the bytes begin that belong to what follows.
 */
static const uint8_t *walk(struct packet_cut *cut, const uint8_t *p, const uint8_t *end)
{
	while (p < end) {
		struct ptah_packet_cursor cursor;
		int status;

		if (!cut->synced) {
			const uint8_t *psb = find_cut_psb(p, end);

			if (!psb)
				return end - p < PSB_BYTES ? p : end - (PSB_BYTES - 1);
			cut->synced = true;
			p = psb;
		}
		cursor = (struct ptah_packet_cursor){p, end, cut->block};
		status = step_over(&cursor);
		cut->block = cursor.block;
		p = cursor.next;
		if (status == PTAH_E_MORE)
			return p;
		if (p < end) {
			lose(cut);
			p++;
		}
	}
	return p;
}

/* The last PSB in the last bytes of [p, end), or NULL. */
static const uint8_t *last_psb(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *last = NULL;

	if (end - p > WINDOW)
		p = end - WINDOW;

	while ((p = find_cut_psb(p, end))) {
		last = p;
		p += PSB_BYTES;
	}
	return last;
}

/*
 * Decodes the packet, or finds the PSB, that begins in the bytes of `rest` and may end in
 * [p, end). Returns where to continue; `rest` is empty then, unless p is `end`.
 */
static const uint8_t *join_cut_packet(struct packet_cut *cut, const uint8_t *p, const uint8_t *end)
{
	uint8_t joined[2 * PTAH_PACKET_MAX_SIZE];
	const size_t before = cut->rest_size;
	size_t n = sizeof(joined) - before;
	const uint8_t *next;

	n = n < (size_t)(end - p) ? n : (size_t)(end - p);
	memcpy(joined, cut->rest, before);
	memcpy(joined + before, p, n);
	next = walk(cut, joined, joined + before + n);
	if (n == (size_t)(end - p)) { /* that was all of the part */
		cut->rest_size = (size_t)(joined + before + n - next);
		memcpy(cut->rest, next, cut->rest_size);
		return end;
	}
	/* What walk() left over is looked at again, in its place. */
	cut->rest_size = 0;
	return p + (size_t)(next - joined) - before;
}

static void take_cut_part(struct packet_cut *cut, const uint8_t *p, const uint8_t *end)
{
	const uint8_t *psb = last_psb(p, end);

	if (psb) {
		lose(cut);
		cut->rest_size = 0;
		p = psb;
	}
	if (cut->rest_size)
		p = join_cut_packet(cut, p, end);
	if (p == end)
		return;
	p = walk(cut, p, end);
	cut->rest_size = (size_t)(end - p);
	memcpy(cut->rest, p, cut->rest_size);
}

size_t packet_cut(struct packet_cut *cut, const struct iovec *parts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *p = parts[i].iov_base;

		if (parts[i].iov_len)
			take_cut_part(cut, p, p + parts[i].iov_len);
	}
	return cut->rest_size;
}
