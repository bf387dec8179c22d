/* SPDX-License-Identifier: MIT */
/*
 * Unpacks the compressed records of a file (perf record -z) into a file without a name, so that
 * they take no memory. For each compressed record that file has a u64, the size of the records that
 * this one completes, and then these records.
 */
#include "perfdata/file.h"
#include "perfdata/unpacker.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

struct spool {
	struct perfdata_file *f;
	struct ptah_message *why;
	const struct perfdata_part *part;
	uint64_t offset; /* of the current compressed record, with the part's base */
	struct perfdata_unpacker *unpacker;
	int fd;
	uint64_t written; /* bytes written to the spool */
};

static int write_spool(struct spool *s, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t k = pwrite(s->fd, p, n, (off_t)s->written);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return perfdata_system_message(s->why, errno, s->f->path,
						       "unpack its records to /var/tmp");
		p += k;
		n -= (size_t)k;
		s->written += (uint64_t)k;
	}
	return 0;
}

static int unpacker_fault(const struct spool *s)
{
	static const char *const faults[] = {
	    [PERFDATA_UNPACK_SHORT] = "a record that ends too early",
	    [PERFDATA_UNPACK_DAMAGED] = "damaged compressed data in a record",
	    [PERFDATA_UNPACK_TOO_BIG] = "a compressed record that is too big unpacked,",
	    [PERFDATA_UNPACK_NO_RECORDS] = "a compressed record that holds no records,",
	};

	return perfdata_bad(s->f, s->why, s->offset, faults[perfdata_unpacker_fault(s->unpacker)]);
}

/* Writes the records that the compressed one completes. */
static int put_spool_records(struct spool *s)
{
	const uint8_t *records;
	size_t n;
	int status;

	while ((status = perfdata_unpacker_next(s->unpacker, &records, &n)) > 0) {
		status = write_spool(s, records, n);
		if (status < 0)
			return status;
	}
	return status < 0 ? unpacker_fault(s) : 0;
}

/* Unpacks the piece in a compressed record, and writes the size before its records. */
static int unpack_record(struct spool *s, const uint8_t *record, size_t size)
{
	const uint64_t at = s->written;
	uint8_t head[8] = {0};
	int status;

	if (perfdata_unpacker_begin(s->unpacker, record, size) < 0)
		return unpacker_fault(s);
	status = write_spool(s, head, sizeof(head));
	if (status >= 0)
		status = put_spool_records(s);
	if (status < 0)
		return status;
	store_le64(head, s->written - at - sizeof(head));
	if (pwrite(s->fd, head, sizeof(head), (off_t)at) != sizeof(head))
		return perfdata_system_message(s->why, errno, s->f->path,
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
static int unpack_part(struct spool *s, uint64_t at)
{
	const struct perfdata_part *part = s->part;
	int status = 0;

	while (status >= 0 && at < part->end && part->end - at >= PERFDATA_RECORD_HEADER) {
		const uint8_t *record = part->bytes + at;
		size_t size = load_le16(record + 6);
		uint32_t type = load_le32(record);
		uint64_t more;

		if (size < PERFDATA_RECORD_HEADER || size > part->end - at)
			break;
		s->offset = part->base + at;
		at += size;
		more = behind(record, size);
		if (type == PERFDATA_COMPRESSED || type == PERFDATA_COMPRESSED2)
			status = unpack_record(s, record, size);
		else if (more > part->end - at)
			break;
		at += more;
	}
	if (status >= 0 && perfdata_unpacker_is_cut(s->unpacker) && !s->f->unfinished &&
	    !s->f->pipe)
		status = perfdata_bad(s->f, s->why, s->offset,
				      "the last compressed record ends inside a record,");
	return status;
}

static int map_spool(struct spool *s)
{
	void *bytes = s->written ? mmap(NULL, s->written, PROT_READ, MAP_PRIVATE, s->fd, 0) : NULL;

	if (bytes == MAP_FAILED)
		return perfdata_system_message(s->why, errno, s->f->path, "map its records");
	s->f->spool = bytes;
	s->f->spool_size = s->written;
	return 0;
}

int perfdata_unpack(struct perfdata_file *f, struct ptah_message *why)
{
	struct spool s = {.f = f, .why = why, .fd = -1};
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
	s.unpacker = perfdata_unpacker_new(f->unpacked_most);
	if (s.unpacker) {
		s.fd = perfdata_temporary();
		status = s.fd >= 0 ? 0
				   : perfdata_system_message(why, errno, f->path,
							     "unpack its records to /var/tmp");
	}
	for (; status >= 0 && part < f->parts + f->part_count; part++) {
		s.part = part;
		perfdata_unpacker_restart(s.unpacker);
		status = unpack_part(&s, first);
		first = part + 1 < f->parts + f->part_count ? part[1].start : 0;
	}
	if (status >= 0)
		status = map_spool(&s);
	if (s.fd >= 0)
		close(s.fd);
	perfdata_unpacker_free(s.unpacker);
	return status;
}
