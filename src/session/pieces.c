/* SPDX-License-Identifier: MIT */
/*
 * Collects the pieces of the file that each stream consists of, and detects gaps and overlaps
 * between them.
 */
#include "session/records.h"
#include "support/list.h"

#include <ptah/packet.h>

#include <string.h>

struct stream *session_new_stream(struct ptah_session *s, uint32_t index)
{
	if (!LIST_ROOM(s->streams, s->stream_count, s->stream_capacity))
		return NULL;
	if (table_set(&s->streams_by_index, index, s->stream_count) < 0)
		return NULL;
	s->streams[s->stream_count] = (struct stream){.index = index,
						      .process = SESSION_NONE,
						      .last = SESSION_NONE,
						      .cpu = SESSION_NONE,
						      .begin = SESSION_NONE};
	s->streams[s->stream_count].info =
	    (struct ptah_stream_info){.pid = -1, .tid = -1, .cpu = -1, .space = -1};
	return &s->streams[s->stream_count++];
}

static struct stream *stream_of(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu)
{
	const size_t i = table_get(&s->streams_by_index, index);
	struct stream *stream;

	if (i != SESSION_NONE)
		return &s->streams[i];
	stream = session_new_stream(s, index);
	if (!stream)
		return NULL;
	/*
	 * In the record of a CPU's buffer perf names the first thread that it was told to trace,
	 * not one that ran there (auxtrace_mmap_params__set_idx() in tools/perf/util/auxtrace.c).
	 */
	stream->info.tid = cpu < 0 ? tid : -1;
	stream->info.cpu = cpu;
	return stream;
}

#define PSB_BYTES 16

/*
 * For each byte of a snapshot at most this many bytes are compared. If they do not suffice, the
 * snapshot counts as new.
 */
#define MOST_COMPARED 64

static bool is_padding(const uint8_t *bytes, uint64_t n)
{
	static const uint8_t zeros[8];

	return n < sizeof(zeros) && !memcmp(bytes, zeros, (size_t)n);
}

/*
 * How many bytes at the beginning of `b` are the end of `a`. Snapshots of a ring that was not
 * overwritten in between overlap, and the kernel's offsets do not say by how much, because they are
 * offsets in the ring. Both snapshots begin anywhere in a packet. From a PSB on, which is followed
 * by a time stamp, equal bytes are the same trace. perf pads a piece with zeros to a multiple of
 * eight bytes: *padding is how many bytes at the end of `a` are such zeros.
 */
static uint64_t find_overlap(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size,
			     uint64_t *padding)
{
	const uint8_t *const psb = ptah_packet_find_psb(b, b + b_size), *at = a;
	const uint64_t before = psb ? (uint64_t)(psb - b) : 0;
	uint64_t budget = MOST_COMPARED * a_size;

	while (psb && (at = ptah_packet_find_psb(at, a + a_size))) {
		const uint64_t rest = (uint64_t)(a + a_size - at);
		uint64_t same = 0;

		while (same < rest && same < b_size - before && at[same] == psb[same])
			same++;
		/* The oldest bytes of the ring may have been overwritten, and so are not in `b`. */
		*padding = rest - same;
		if (same > PSB_BYTES && is_padding(at + same, rest - same) &&
		    (uint64_t)(at - a) >= before && !memcmp(at - before, b, (size_t)before))
			return before + same;
		if (budget < same + PSB_BYTES)
			return 0;
		budget -= same + PSB_BYTES;
		at += PSB_BYTES;
	}
	return 0;
}

/*
 * Relates a piece to the one before: sets *gap, and *skip to the number of bytes that were there
 * already. perf pads the file's copy of a piece to a multiple of eight bytes, but does not count
 * the padding in the next offset.
 */
static void place_piece(const struct ptah_session *s, struct stream *stream, uint64_t offset,
			uint64_t *skip, bool *gap)
{
	const uint64_t before = piece_size(stream, stream->count - 1);
	const uint64_t again = stream->expected - offset;

	*gap = offset > stream->expected;
	*skip = 0;
	if (*gap) {
		if (!perfdata_snapshot(s->file))
			stream->info.lost += offset - stream->expected;
	} else if (again < 8 && again < before) {
		stream->info.bytes -= again; /* padding at the end of the last piece */
	} else {
		*skip = again;
	}
}

/* The same for snapshots, which follow the last one only if they overlap with it. */
static void place_snapshot(struct stream *stream, const uint8_t *bytes, uint64_t size,
			   uint64_t *skip, bool *gap)
{
	uint64_t padding = 0;

	*skip = find_overlap(stream->snapshot, stream->snapshot_size, bytes, size, &padding);
	*gap = !*skip;
	if (*skip && padding < piece_size(stream, stream->count - 1))
		stream->info.bytes -= padding;
}

static int add_piece(struct stream *stream, const uint8_t *bytes, uint64_t size,
		     enum session_joint joint)
{
	if (!LIST_ROOM(stream->pieces, stream->count, stream->capacity))
		return PTAH_E_NOMEM;
	stream->pieces[stream->count++] = (struct piece){.bytes = bytes,
							 .offset = stream->info.bytes,
							 .gap = joint != JOINT_NONE,
							 .separate = joint == JOINT_SEPARATE};
	stream->info.bytes += size;
	return 0;
}

int session_add_pieces(struct stream *stream, const uint8_t *bytes, uint64_t size,
		       enum session_joint joint)
{
	int status = 0;

	for (uint64_t at = 0; at < size && status >= 0; at += SESSION_PIECE_MAX) {
		const uint64_t n = size - at < SESSION_PIECE_MAX ? size - at : SESSION_PIECE_MAX;

		status = add_piece(stream, bytes + at, n, at ? JOINT_NONE : joint);
	}
	return status;
}

/* Notes where the trace of a record is, for session_cut_streams(). */
static int add_placement(struct stream *stream, uint64_t end, uint64_t size)
{
	if (!LIST_ROOM(stream->placements, stream->placement_count, stream->placement_capacity))
		return PTAH_E_NOMEM;
	stream->placements[stream->placement_count++] =
	    (struct placement){end, size, stream->info.bytes};
	return 0;
}

int session_add_trace(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu,
		      uint64_t offset, const uint8_t *bytes, uint64_t size)
{
	struct stream *stream = stream_of(s, index, tid, cpu);
	uint64_t skip = 0;
	bool gap = false;

	if (!stream)
		return PTAH_E_NOMEM;
	if (!size || size > UINT64_MAX - offset)
		return 0;
	if (stream->count && perfdata_snapshot(s->file))
		place_snapshot(stream, bytes, size, &skip, &gap);
	else if (stream->count)
		place_piece(s, stream, offset, &skip, &gap);
	stream->snapshot = bytes;
	stream->snapshot_size = size;
	if (skip >= size)
		return 0;
	stream->expected = offset + size;
	if (!perfdata_snapshot(s->file) && add_placement(stream, offset + size, size - skip) < 0)
		return PTAH_E_NOMEM;
	return session_add_pieces(stream, bytes + skip, size - skip, gap ? JOINT_GAP : JOINT_NONE);
}

int session_on_truth(struct ptah_session *s, const struct perfdata_record *r)
{
	struct stream *stream = stream_of(s, r->index, r->tid, -1);

	if (!stream)
		return PTAH_E_NOMEM;
	stream->info.pid = r->pid;
	stream->info.has_truth = true;
	stream->info.truth = r->truth;
	return 0;
}
