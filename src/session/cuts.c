/* SPDX-License-Identifier: MIT */
/*
 * Where the kernel ended a part of the trace, such as when the thread whose event it is left the
 * CPU. The time of such a cut divides the trace between threads where time stamps are rare.
 *
 * Where it stopped the trace because its buffer was full, more follows from it. There the processor
 * was cut off in the middle of a packet, perhaps: the output region ended (SDM "Table of Physical
 * Addresses", STOP). What follows was written after the recorder had made room and the kernel had
 * set TraceEn again, so that it begins with a packet. Read as one trace, the rest of the packet
 * would be taken from what follows.
 */
#include "base/order.h"
#include "session/records.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* Which stream the cuts of a CPU or thread belong to. */
struct owners {
	struct table by_cpu, by_tid;
};

static int find_owners(const struct ptah_session *s, struct owners *owners)
{
	int status = 0;

	for (size_t i = 0; i < s->stream_count && status >= 0; i++) {
		const struct ptah_stream_info *info = &s->streams[i].info;

		if (info->cpu >= 0)
			status = table_set(&owners->by_cpu, (uint32_t)info->cpu, i);
		else if (info->tid >= 0)
			status = table_set(&owners->by_tid, (uint32_t)info->tid, i);
	}
	return status;
}

static size_t owner_of(const struct owners *owners, const struct cut *cut)
{
	const size_t i =
	    cut->cpu >= 0 ? table_get(&owners->by_cpu, (uint32_t)cut->cpu) : SESSION_NONE;

	if (i != SESSION_NONE || cut->tid < 0)
		return i;
	return table_get(&owners->by_tid, (uint32_t)cut->tid);
}

/* The offset of a cut in the stream. False: the stream does not have the trace before it. */
static bool find_offset(const struct stream *stream, uint64_t offset, uint64_t *at)
{
	size_t low;

	/* Finds the record whose trace ends at or after the cut. */
	BISECT(low, 0, stream->placement_count, stream->placements[low].end < offset);
	if (low == stream->placement_count ||
	    stream->placements[low].end - offset >= stream->placements[low].size)
		return false;
	*at = stream->placements[low].at + stream->placements[low].size -
	      (stream->placements[low].end - offset);
	return true;
}

/* A cut in the pieces of a stream. */
struct place {
	size_t stream;
	uint64_t at;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return COMPARE_THEN(x->stream, y->stream, COMPARE(x->at, y->at));
}

/* Divides the pieces of one stream at n places, which are sorted. */
static int divide(struct stream *stream, const struct place *places, size_t n)
{
	struct piece *pieces = malloc((stream->count + n) * sizeof(*pieces));
	size_t next = 0, count = 0;

	if (!pieces)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < stream->count; i++) {
		const uint64_t end = piece_end(stream, i);
		struct piece piece = stream->pieces[i];

		for (; next < n && places[next].at < end; next++) {
			const uint64_t before = places[next].at - piece.offset;

			/* Where bytes are missing, no packet begins. */
			if (piece.gap && !before)
				continue;
			if (before)
				pieces[count++] = piece;
			piece = (struct piece){.bytes = piece.bytes + before,
					       .offset = places[next].at,
					       .gap = true,
					       .restart = true};
		}
		pieces[count++] = piece;
	}
	free(stream->pieces);
	stream->pieces = pieces;
	stream->capacity = stream->count + n;
	stream->count = count;
	return 0;
}

static int divide_all(struct ptah_session *s, struct place *places, size_t count)
{
	int status = 0;

	if (count)
		qsort(places, count, sizeof(*places), compare_places);
	for (size_t i = 0, n; i < count && status >= 0; i += n) {
		for (n = 1; i + n < count && places[i + n].stream == places[i].stream;)
			n++;
		status = divide(&s->streams[places[i].stream], places + i, n);
	}
	return status;
}

static int add_limit(struct stream *stream, uint64_t at, uint64_t time)
{
	if (!LIST_ROOM(stream->limits, stream->limit_count, stream->limit_capacity))
		return PTAH_E_NOMEM;
	stream->limits[stream->limit_count++] = (struct limit){at, time};
	return 0;
}

static int cut(struct ptah_session *s, const struct cut *cuts, size_t count)
{
	struct place *places = malloc(count * sizeof(*places));
	struct owners owners = {0};
	size_t found = 0;
	int status = places ? find_owners(s, &owners) : PTAH_E_NOMEM;

	for (size_t i = 0; i < count && status >= 0; i++) {
		const size_t stream = owner_of(&owners, &cuts[i]);
		uint64_t at;

		if (stream == SESSION_NONE ||
		    !find_offset(&s->streams[stream], cuts[i].offset, &at))
			continue;
		if (cuts[i].full)
			places[found++] = (struct place){stream, at};
		if (s->has_clock && cuts[i].time && s->streams[stream].info.cpu >= 0)
			status = add_limit(&s->streams[stream], at, cuts[i].time);
	}
	if (status >= 0)
		status = divide_all(s, places, found);
	table_free(&owners.by_cpu);
	table_free(&owners.by_tid);
	free(places);
	return status;
}

int session_cut_streams(struct ptah_session *s, const struct cut *cuts, size_t count)
{
	const int status = count ? cut(s, cuts, count) : 0;

	for (size_t i = 0; i < s->stream_count; i++) {
		free(s->streams[i].placements);
		s->streams[i].placements = NULL;
	}
	return status;
}
