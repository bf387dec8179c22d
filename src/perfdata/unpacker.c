/* SPDX-License-Identifier: MIT */
/*
 * Unpacks compressed records piece by piece, and finds the records in what they hold. It takes as
 * much memory as the largest record and one step of zstd need, however much there is to unpack.
 */
#include "perfdata/unpacker.h"

#include "base/bits.h"
#include "perfdata/format.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* What unpacks to more than this many times its size is refused. */
#define MOST_RATIO 1024
#define MOST_FIRST (UINT64_C(64) << 20)

#define OUT_BYTES 65536u

struct perfdata_unpacker {
	ZSTD_DStream *stream;
	uint32_t most;
	enum perfdata_unpack_fault fault;
	uint64_t in, out; /* bytes of all records so far: compressed, unpacked */

	/* The compressed record: its data, and how much it has become. */
	ZSTD_inBuffer data;
	uint64_t became;
	bool more; /* zstd may still give something */

	/* Whole records, and the beginning of one that is not; and room for OUT_BYTES more. */
	uint8_t bytes[UINT16_MAX + OUT_BYTES];
	size_t have;
	size_t whole; /* bytes of the whole records */
	bool is_bad;  /* behind them is what cannot be a record */
};

struct perfdata_unpacker *perfdata_unpacker_new(uint32_t most)
{
	struct perfdata_unpacker *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->most = most;
	u->stream = ZSTD_createDStream();
	if (!u->stream) {
		free(u);
		return NULL;
	}
	return u;
}

void perfdata_unpacker_free(struct perfdata_unpacker *u)
{
	if (!u)
		return;
	ZSTD_freeDStream(u->stream);
	free(u);
}

void perfdata_unpacker_restart(struct perfdata_unpacker *u)
{
	ZSTD_initDStream(u->stream);
	u->have = u->whole = 0;
	u->is_bad = u->more = false;
}

enum perfdata_unpack_fault perfdata_unpacker_fault(const struct perfdata_unpacker *u)
{
	return u->fault;
}

bool perfdata_unpacker_is_cut(const struct perfdata_unpacker *u)
{
	return u && u->have > u->whole;
}

static int fail(struct perfdata_unpacker *u, enum perfdata_unpack_fault fault)
{
	u->fault = fault;
	u->more = false;
	return PTAH_E_BAD_FILE;
}

int perfdata_unpacker_begin(struct perfdata_unpacker *u, const uint8_t *record, size_t size)
{
	const uint8_t *bytes = record + PERFDATA_RECORD_HEADER;
	uint64_t n = size - PERFDATA_RECORD_HEADER;

	/* The newer form of the record is padded to 8 bytes, and has a u64, the size without. */
	if (load_le32(record) == PERFDATA_COMPRESSED2) {
		if (n < 8 || load_le64(bytes) > n - 8)
			return fail(u, PERFDATA_UNPACK_SHORT);
		n = load_le64(bytes);
		bytes += 8;
	}
	u->data = (ZSTD_inBuffer){bytes, (size_t)n, 0};
	u->in += n;
	u->became = 0;
	u->more = true;
	return 0;
}

/* The caller has had the whole records. */
static void forget_whole(struct perfdata_unpacker *u)
{
	memmove(u->bytes, u->bytes + u->whole, u->have - u->whole);
	u->have -= u->whole;
	u->whole = 0;
}

static void find_whole(struct perfdata_unpacker *u)
{
	while (u->have - u->whole >= PERFDATA_RECORD_HEADER) {
		const size_t size = load_le16(u->bytes + u->whole + 6);

		u->is_bad = size < PERFDATA_RECORD_HEADER;
		if (u->is_bad || size > u->have - u->whole)
			return;
		u->whole += size;
	}
}

static bool is_too_much(const struct perfdata_unpacker *u)
{
	return (u->most && u->became > u->most) || u->out > MOST_FIRST + MOST_RATIO * u->in;
}

/* One step of zstd, for which there is room: what is not a whole record is smaller than one. */
static int unpack_some(struct perfdata_unpacker *u)
{
	ZSTD_outBuffer out = {u->bytes + u->have, OUT_BYTES, 0};

	if (ZSTD_isError(ZSTD_decompressStream(u->stream, &out, &u->data)))
		return fail(u, PERFDATA_UNPACK_DAMAGED);
	u->have += out.pos;
	u->out += out.pos;
	u->became += out.pos;
	u->more = u->data.pos < u->data.size || out.pos == out.size;
	return is_too_much(u) ? fail(u, PERFDATA_UNPACK_TOO_BIG) : 0;
}

int perfdata_unpacker_next(struct perfdata_unpacker *u, const uint8_t **records, size_t *n)
{
	int status = 0;

	forget_whole(u);
	while (status >= 0 && u->more && !u->whole && !u->is_bad) {
		status = unpack_some(u);
		if (status >= 0)
			find_whole(u);
	}
	if (status >= 0 && !u->whole && u->is_bad)
		status = fail(u, PERFDATA_UNPACK_NO_RECORDS);
	*records = u->bytes;
	*n = u->whole;
	return status < 0 ? status : u->whole > 0;
}
