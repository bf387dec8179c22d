/* SPDX-License-Identifier: MIT */
/*
 * Unpacks compressed records (perf record -z). Each holds a piece of one zstd stream; the records
 * in that stream may begin in one piece and end in a later one. They are unpacked into a file
 * without a name, so that they take no memory. For each piece the file has a u64, the size of the
 * records that this piece completes, and then these records.
 */
#include "perfdata/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

/* A recording that unpacks to more than this many times its size is refused. */
#define MOST_RATIO 1024
#define MOST_FIRST (UINT64_C(64) << 20)

#define OUT_BYTES 65536u

struct unpack {
	struct perfdata_file *f;
	struct ptah_message *why;
	const struct perfdata_part *part;
	uint64_t offset; /* of the current compressed record, with the part's base */
	ZSTD_DStream *stream;
	int fd;
	uint64_t written; /* bytes written to the spool */
	uint64_t in, out; /* bytes so far: compressed, unpacked */
	/* The beginning of a record that is not complete, and room for OUT_BYTES more. */
	uint8_t *bytes;
	size_t have;
};

static int put(struct unpack *u, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t k = pwrite(u->fd, p, n, (off_t)u->written);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return perfdata_system_message(u->why, errno, u->f->path,
						       "unpack its records to /var/tmp");
		p += k;
		n -= (size_t)k;
		u->written += (uint64_t)k;
	}
	return 0;
}

/* Writes out the records that are complete. */
static int put_records(struct unpack *u)
{
	size_t n = 0;
	int status;

	while (u->have - n >= PERFDATA_RECORD_HEADER) {
		size_t size = load_le16(u->bytes + n + 6);

		if (size < PERFDATA_RECORD_HEADER)
			return perfdata_bad(u->f, u->why, u->offset,
					    "a compressed record that holds no records,");
		if (size > u->have - n)
			break;
		n += size;
	}
	status = put(u, u->bytes, n);
	memmove(u->bytes, u->bytes + n, u->have - n);
	u->have -= n;
	return status;
}

static bool is_too_much(const struct unpack *u, uint64_t piece)
{
	return (u->f->unpacked_most && piece > u->f->unpacked_most) ||
	       u->out > MOST_FIRST + MOST_RATIO * u->in;
}

static int unpack_piece(struct unpack *u, const uint8_t *bytes, size_t n)
{
	ZSTD_inBuffer in = {bytes, n, 0};
	ZSTD_outBuffer out;
	uint64_t before = u->out;
	int status = 0;

	u->in += n;
	do {
		size_t result;

		out = (ZSTD_outBuffer){u->bytes + u->have, OUT_BYTES, 0};
		result = ZSTD_decompressStream(u->stream, &out, &in);
		if (ZSTD_isError(result))
			return perfdata_bad(u->f, u->why, u->offset,
					    "damaged compressed data in a record");
		u->have += out.pos;
		u->out += out.pos;
		if (is_too_much(u, u->out - before))
			return perfdata_bad(u->f, u->why, u->offset,
					    "a compressed record that is too big unpacked,");
		status = put_records(u);
	} while (status >= 0 && (in.pos < in.size || out.pos == out.size));
	return status;
}

/* Unpacks the piece in a compressed record, and writes the size before its records. */
static int unpack_record(struct unpack *u, const uint8_t *record, size_t size)
{
	const uint8_t *bytes = record + PERFDATA_RECORD_HEADER;
	const uint64_t at = u->written;
	uint8_t head[8] = {0};
	uint64_t n = size - PERFDATA_RECORD_HEADER;
	int status;

	/* The newer form of the record contains the size without padding. */
	if (load_le32(record) == PERFDATA_COMPRESSED2) {
		n = n >= 8 ? load_le64(bytes) : UINT64_MAX;
		bytes += 8;
		if (n > size - PERFDATA_RECORD_HEADER - 8)
			return perfdata_bad(u->f, u->why, u->offset,
					    "a record that ends too early");
	}
	status = put(u, head, sizeof(head));
	if (status >= 0)
		status = unpack_piece(u, bytes, (size_t)n);
	if (status < 0)
		return status;
	store_le64(head, u->written - at - sizeof(head));
	if (pwrite(u->fd, head, sizeof(head), (off_t)at) != sizeof(head))
		return perfdata_system_message(u->why, errno, u->f->path,
					       "unpack its records to /var/tmp");
	return 0;
}

/* The number of bytes that follow a record and belong to it. */
static uint64_t behind(const uint8_t *record, size_t size)
{
	switch (load_le32(record)) {
	case PERFDATA_AUXTRACE:
		return size >= 16 ? load_le64(record + 8) : 0;
	case PERFDATA_HEADER_TRACING_DATA:
		return size >= 12 ? (load_le32(record + 8) + UINT64_C(7)) & ~UINT64_C(7) : 0;
	default:
		return 0;
	}
}

/*
 * Unpacks the compressed records of a part. Ends at a record that does not fit; reader.c will
 * report it.
 */
static int unpack_part(struct unpack *u, uint64_t at)
{
	const struct perfdata_part *part = u->part;
	int status = 0;

	while (status >= 0 && at < part->end && part->end - at >= PERFDATA_RECORD_HEADER) {
		const uint8_t *record = part->bytes + at;
		size_t size = load_le16(record + 6);
		uint32_t type = load_le32(record);
		uint64_t more;

		if (size < PERFDATA_RECORD_HEADER || size > part->end - at)
			break;
		u->offset = part->base + at;
		at += size;
		more = behind(record, size);
		if (type == PERFDATA_COMPRESSED || type == PERFDATA_COMPRESSED2)
			status = unpack_record(u, record, size);
		else if (more > part->end - at)
			break;
		at += more;
	}
	if (status >= 0 && u->have && !u->f->unfinished && !u->f->pipe)
		status = perfdata_bad(u->f, u->why, u->offset,
				      "the last compressed record ends inside a record,");
	u->have = 0;
	return status;
}

static int map_spool(struct unpack *u)
{
	void *bytes = u->written ? mmap(NULL, u->written, PROT_READ, MAP_PRIVATE, u->fd, 0) : NULL;

	if (bytes == MAP_FAILED)
		return perfdata_system_message(u->why, errno, u->f->path, "map its records");
	u->f->spool = bytes;
	u->f->spool_size = u->written;
	return 0;
}

int perfdata_unpack(struct perfdata_file *f, struct ptah_message *why)
{
	struct unpack u = {.f = f, .why = why, .fd = -1};
	struct perfdata_part *part = &f->parts[f->part];
	/* Reading is already after the first compressed record, which must be unpacked too. */
	uint64_t first = f->first_compressed;
	int status = PTAH_E_NOMEM;

	f->unpacked = true;
	if (f->compressed && f->compress_kind != PERFDATA_COMPRESS_ZSTD)
		return perfdata_message(why, PTAH_E_UNSUPPORTED,
					"%s: compressed in another way than by zstd; record "
					"without -z",
					f->path);
	u.stream = ZSTD_createDStream();
	/* Room for an incomplete record of any size, and for the output of one step of zstd. */
	u.bytes = malloc(65536 + OUT_BYTES);
	if (u.stream && u.bytes) {
		u.fd = perfdata_temporary();
		status = u.fd >= 0 ? 0
				   : perfdata_system_message(why, errno, f->path,
							     "unpack its records to /var/tmp");
	}
	for (; status >= 0 && part < f->parts + f->part_count; part++) {
		u.part = part;
		ZSTD_initDStream(u.stream);
		status = unpack_part(&u, first);
		first = part + 1 < f->parts + f->part_count ? part[1].start : 0;
	}
	if (status >= 0)
		status = map_spool(&u);
	if (u.fd >= 0)
		close(u.fd);
	ZSTD_freeDStream(u.stream);
	free(u.bytes);
	return status;
}
