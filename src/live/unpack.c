/* SPDX-License-Identifier: MIT */
/*
 * Unpacks compressed records (perf record -z) that come through a pipe. Each holds a piece of one
 * zstd stream; the records in that stream may begin in one piece and end in a later one.
 */
#include "live/unpack.h"

#include "base/bits.h"
#include "perfdata/format.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* What unpacks to more than this many times its size is refused. */
#define MOST_RATIO 1024
#define MOST_FIRST (UINT64_C(64) << 20)

#define OUT_BYTES 65536u

struct live_unpack {
	ZSTD_DStream *stream;
	uint64_t in, out; /* bytes so far: compressed, unpacked */
	/* The beginning of a record that is not complete, and room for OUT_BYTES more. */
	uint8_t bytes[UINT16_MAX + OUT_BYTES];
	size_t have;
};

void live_unpack_free(struct live_unpack *u)
{
	if (!u)
		return;
	ZSTD_freeDStream(u->stream);
	free(u);
}

bool live_unpack_is_cut(const struct live_unpack *u)
{
	return u && u->have;
}

static struct live_unpack *new_unpack(void)
{
	struct live_unpack *u = calloc(1, sizeof(*u));

	if (u)
		u->stream = ZSTD_createDStream();
	if (u && !u->stream) {
		free(u);
		return NULL;
	}
	return u;
}

/* Passes on the records that are complete. */
static int take_records(struct ptah_live *live, struct live_unpack *u, live_unpacked *take)
{
	size_t n = 0;
	int status = 0;

	while (status >= 0 && u->have - n >= PERFDATA_RECORD_HEADER) {
		const size_t size = load_le16(u->bytes + n + 6);

		if (size < PERFDATA_RECORD_HEADER)
			return live_fail(live, PTAH_E_BAD_FILE,
					 "a compressed record that holds no records");
		if (size > u->have - n)
			break;
		status = take(live, u->bytes + n, size);
		n += size;
	}
	memmove(u->bytes, u->bytes + n, u->have - n);
	u->have -= n;
	return status;
}

static int unpack_piece(struct ptah_live *live, struct live_unpack *u, const uint8_t *bytes,
			size_t n, live_unpacked *take)
{
	ZSTD_inBuffer in = {bytes, n, 0};
	ZSTD_outBuffer out;
	int status;

	u->in += n;
	do {
		out = (ZSTD_outBuffer){u->bytes + u->have, OUT_BYTES, 0};
		if (ZSTD_isError(ZSTD_decompressStream(u->stream, &out, &in)))
			return live_fail(live, PTAH_E_BAD_FILE,
					 "damaged compressed data in a record, or compressed in "
					 "another way than by zstd: record without -z");
		u->have += out.pos;
		u->out += out.pos;
		if (u->out > MOST_FIRST + MOST_RATIO * u->in)
			return live_fail(live, PTAH_E_BAD_FILE,
					 "a compressed record that is too big unpacked");
		status = take_records(live, u, take);
	} while (status >= 0 && (in.pos < in.size || out.pos == out.size));
	return status;
}

int live_unpack(struct ptah_live *live, struct live_unpack **unpack, const uint8_t *record,
		size_t size, live_unpacked *take)
{
	const uint8_t *bytes = record + PERFDATA_RECORD_HEADER;
	uint64_t n = size - PERFDATA_RECORD_HEADER;

	/* The newer form of the record has the size without padding. */
	if (load_le32(record) == PERFDATA_COMPRESSED2) {
		if (n < 8 || load_le64(bytes) > n - 8)
			return live_fail(live, PTAH_E_BAD_FILE, "a record that ends too early");
		n = load_le64(bytes);
		bytes += 8;
	}
	if (!*unpack)
		*unpack = new_unpack();
	if (!*unpack)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	return unpack_piece(live, *unpack, bytes, (size_t)n, take);
}
