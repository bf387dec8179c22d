/* SPDX-License-Identifier: MIT */
/*
 * Rewrites a recording in perf's other layouts: as `perf record -o -`, -z and --threads write it,
 * by the kernel's tools/perf/Documentation/perf.data-file-format.txt and
 * perf.data-directory-format.txt. Nothing here uses the reader or the writer.
 */
#ifndef PTAH_TESTS_PERFDATA_RELAYOUT_H
#define PTAH_TESTS_PERFDATA_RELAYOUT_H

#include "base/bits.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* A file with a header, from which the other layouts are made. */
struct layout {
	const uint8_t *bytes;
	size_t size;
};

static inline uint64_t layout_data(struct layout in)
{
	return load_le64(in.bytes + PERFDATA_AT_DATA);
}

static inline uint64_t layout_end(struct layout in)
{
	return layout_data(in) + load_le64(in.bytes + PERFDATA_AT_DATA_SIZE);
}

/* The n-th feature's section, if the file has that feature. */
static inline bool layout_feature(struct layout in, unsigned feature, struct layout *section)
{
	const uint8_t *bits = in.bytes + PERFDATA_AT_FEATURES;
	uint64_t table = layout_end(in);

	for (unsigned i = 0; i < feature; i++)
		table += bits[i / 8] >> i % 8 & 1 ? 16 : 0;
	if (!(bits[feature / 8] >> feature % 8 & 1))
		return false;
	*section = (struct layout){in.bytes + load_le64(in.bytes + table),
				   (size_t)load_le64(in.bytes + table + 8)};
	return true;
}

static inline void layout_record(struct perfdata_buffer *out, uint32_t type, size_t body)
{
	perfdata_put32(out, type);
	perfdata_put16(out, 0);
	perfdata_put16(out, (uint16_t)(8 + body));
}

/* A record's size, including the trace that follows it. */
static inline uint64_t layout_whole(const uint8_t *record)
{
	return load_le16(record + 6) +
	       (load_le32(record) == PERFDATA_AUXTRACE ? load_le64(record + 8) : 0);
}

/* Appends what precedes the records in a pipe. */
static inline void layout_pipe_head(struct perfdata_buffer *out, struct layout in)
{
	const uint64_t entry = load_le64(in.bytes + PERFDATA_AT_ATTR_SIZE);
	const uint64_t attrs = load_le64(in.bytes + PERFDATA_AT_ATTRS);
	const uint64_t n = load_le64(in.bytes + PERFDATA_AT_ATTRS + 8) / entry;
	struct layout section;

	perfdata_put(out, PERFDATA_MAGIC, 8);
	perfdata_put64(out, PERFDATA_PIPE_SIZE);
	for (uint64_t i = 0; i < n; i++) {
		const uint8_t *attr = in.bytes + attrs + i * entry;
		const uint64_t ids = load_le64(attr + entry - 16);
		const size_t size = (size_t)load_le64(attr + entry - 8);

		layout_record(out, PERFDATA_HEADER_ATTR, entry - 16 + size);
		perfdata_put(out, attr, entry - 16);
		perfdata_put(out, in.bytes + ids, size);
	}
	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		/* Build ids have records of their own, at the end. */
		if (i == PERFDATA_FEATURE_BUILD_ID || !layout_feature(in, i, &section) ||
		    section.size > 60000)
			continue;
		layout_record(out, PERFDATA_HEADER_FEATURE, 8 + section.size + (-section.size & 7));
		perfdata_put64(out, i);
		perfdata_put(out, section.bytes, section.size);
		perfdata_put(out, NULL, -section.size & 7);
	}
}

/* The description of the tracepoints, which follows its record. Not a real one. */
static inline void layout_tracing_data(struct perfdata_buffer *out)
{
	layout_record(out, PERFDATA_HEADER_TRACING_DATA, 4);
	perfdata_put32(out, 13);
	perfdata_put(out, "tracing data.\0\0", 16);
}

static inline void layout_build_ids(struct perfdata_buffer *out, struct layout in)
{
	struct layout section;
	size_t at = 0;

	if (!layout_feature(in, PERFDATA_FEATURE_BUILD_ID, &section))
		return;
	while (section.size - at >= PERFDATA_BUILD_ID_FIXED) {
		const size_t size = load_le16(section.bytes + at + 6);

		perfdata_put32(out, PERFDATA_HEADER_BUILD_ID);
		perfdata_put(out, section.bytes + at + 4, size - 4);
		at += size;
	}
}

static inline void layout_to_pipe(struct perfdata_buffer *out, struct layout in)
{
	layout_pipe_head(out, in);
	perfdata_put(out, in.bytes + layout_data(in), (size_t)(layout_end(in) - layout_data(in)));
	layout_record(out, PERFDATA_FINISHED_ROUND, 0);
	layout_build_ids(out, in);
}

/* A zstd stream whose pieces are records. */
struct layout_packer {
	struct perfdata_buffer *out;
	ZSTD_CStream *stream;
	size_t piece;  /* bytes that are packed into a record */
	uint32_t type; /* COMPRESSED, COMPRESSED2 */
	struct perfdata_buffer waiting;
};

static inline void layout_pack_piece(struct layout_packer *p, size_t n)
{
	static uint8_t packed[60000];
	ZSTD_inBuffer in = {p->waiting.bytes, n, 0};
	ZSTD_outBuffer out = {packed, sizeof(packed), 0};

	ZSTD_compressStream(p->stream, &out, &in);
	if (ZSTD_flushStream(p->stream, &out) || in.pos != n)
		abort();
	if (p->type == PERFDATA_COMPRESSED2) {
		layout_record(p->out, p->type, 8 + out.pos + (-out.pos & 7));
		perfdata_put64(p->out, out.pos);
		perfdata_put(p->out, packed, out.pos);
		perfdata_put(p->out, NULL, -out.pos & 7);
	} else {
		layout_record(p->out, p->type, out.pos);
		perfdata_put(p->out, packed, out.pos);
	}
	memmove(p->waiting.bytes, p->waiting.bytes + n, p->waiting.size - n);
	p->waiting.size -= n;
}

/*
 * Packs the kernel's records, in pieces that end anywhere. Records that perf adds stay as they are,
 * in their place among the others.
 */
static inline void layout_pack(struct perfdata_buffer *out, const uint8_t *at, const uint8_t *end,
			       size_t piece, uint32_t type)
{
	struct layout_packer p = {out, ZSTD_createCStream(), piece, type, {0}};

	ZSTD_initCStream(p.stream, 3);
	for (; at < end; at += layout_whole(at)) {
		if (load_le32(at) < PERFDATA_USER) {
			perfdata_put(&p.waiting, at, load_le16(at + 6));
			while (p.waiting.size >= piece)
				layout_pack_piece(&p, piece);
			continue;
		}
		if (p.waiting.size)
			layout_pack_piece(&p, p.waiting.size);
		perfdata_put(out, at, (size_t)layout_whole(at));
	}
	if (p.waiting.size)
		layout_pack_piece(&p, p.waiting.size);
	perfdata_buffer_free(&p.waiting);
	ZSTD_freeCStream(p.stream);
}

/*
 * Writes the features of `in`, and the feature COMPRESSED unless `most` is 0, around other records.
 * `out` has the header already.
 */
static inline void layout_finish(struct perfdata_buffer *out, struct layout in,
				 const struct perfdata_buffer *records, uint32_t most)
{
	uint8_t compressed[20] = {0};
	uint64_t end, at;
	unsigned count = 0;
	struct layout section;
	uint8_t *bits;

	store_le32(compressed, 1);
	store_le32(compressed + 4, PERFDATA_COMPRESS_ZSTD);
	store_le32(compressed + 8, 3);
	store_le32(compressed + 16, most);
	perfdata_put(out, records->bytes, records->size);
	end = out->size;
	store_le64(out->bytes + PERFDATA_AT_DATA_SIZE, records->size);
	bits = out->bytes + PERFDATA_AT_FEATURES;
	if (most)
		bits[PERFDATA_FEATURE_COMPRESSED / 8] |= 1 << PERFDATA_FEATURE_COMPRESSED % 8;
	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++)
		count += bits[i / 8] >> i % 8 & 1;
	perfdata_put(out, NULL, 16 * count);
	at = end;
	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		if (!(out->bytes[PERFDATA_AT_FEATURES + i / 8] >> i % 8 & 1))
			continue;
		if (!layout_feature(in, i, &section))
			section = (struct layout){compressed, sizeof(compressed)};
		store_le64(out->bytes + at, out->size);
		store_le64(out->bytes + at + 8, section.size);
		at += 16;
		perfdata_put(out, section.bytes, section.size);
	}
}

/* The same, with the header of `in`. */
static inline void layout_around(struct perfdata_buffer *out, struct layout in,
				 const struct perfdata_buffer *records, uint32_t most)
{
	perfdata_put(out, in.bytes, (size_t)layout_data(in));
	layout_finish(out, in, records, most);
}

static inline void layout_to_packed(struct perfdata_buffer *out, struct layout in, size_t piece,
				    uint32_t type)
{
	struct perfdata_buffer records = {0};

	layout_pack(&records, in.bytes + layout_data(in), in.bytes + layout_end(in), piece, type);
	layout_around(out, in, &records, 65536);
	perfdata_buffer_free(&records);
}

/* Through a pipe and packed: the feature comes first. */
static inline void layout_to_packed_pipe(struct perfdata_buffer *out, struct layout in,
					 size_t piece)
{
	layout_pipe_head(out, in);
	layout_record(out, PERFDATA_HEADER_FEATURE, 8 + 24);
	perfdata_put64(out, PERFDATA_FEATURE_COMPRESSED);
	perfdata_put32(out, 1);
	perfdata_put32(out, PERFDATA_COMPRESS_ZSTD);
	perfdata_put32(out, 3);
	perfdata_put32(out, 1);
	perfdata_put32(out, 65536);
	perfdata_put32(out, 0);
	layout_pack(out, in.bytes + layout_data(in), in.bytes + layout_end(in), piece,
		    PERFDATA_COMPRESSED);
	layout_build_ids(out, in);
}

/*
 * The files of a folder: the records that perf adds stay in `data`; those of the kernel go to
 * data.0 (the first half) and data.1 (the second).
 */
static inline void layout_to_folder(struct perfdata_buffer out[3], struct layout in)
{
	const uint8_t *const first = in.bytes + layout_data(in), *const end =
								     in.bytes + layout_end(in);
	struct perfdata_buffer records = {0};

	for (const uint8_t *at = first; at < end; at += layout_whole(at)) {
		const uint32_t type = load_le32(at);
		struct perfdata_buffer *to = &records;

		if (type < PERFDATA_USER || type == PERFDATA_AUXTRACE)
			to = &out[1 + (at - first > (end - first) / 2)];
		perfdata_put(to, at, (size_t)layout_whole(at));
	}
	layout_around(&out[0], in, &records, 0);
	perfdata_buffer_free(&records);
}

#endif
