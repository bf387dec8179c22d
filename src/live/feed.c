/* SPDX-License-Identifier: MIT */
/*
 * Takes a perf.data apart that comes through a pipe, cut anywhere: a header of 16 bytes, records,
 * and trace after records of AUXTRACE.
 */
#include "live/live.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "perfdata/unpacker.h"
#include "support/list.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ (1u << 20)

/* Trace is padded to a multiple of this. */
#define PADDED 8

/* What TRACING_DATA describes is taken up to this size: perf's have some 100 KB. */
#define FORMATS_MAX (UINT64_C(16) << 20)

struct live_feed {
	uint8_t record[UINT16_MAX + 1]; /* the beginning of a record, or of the header */
	size_t n;
	uint64_t at;   /* how much of the input has been used */
	bool begun;    /* the header was read */
	uint64_t skip; /* bytes that are not used */
	/* A record of TRACING_DATA with what follows it, of which so much is there. NULL: none. */
	uint8_t *formats;
	size_t formats_size, formats_end;
	/* The trace that comes: `left` bytes of it. */
	uint64_t left, offset;
	uint32_t stream;
	int32_t tid, cpu;
	uint8_t *bytes;			    /* for ptah_live_feed_fd() */
	struct perfdata_unpacker *unpacker; /* NULL: no record was compressed */
	/*
	 * Zeros at the end of a stream's trace: padding, if its next trace begins before their end.
	 */
	struct live_tail {
		uint32_t stream;
		int32_t tid, cpu;
		uint64_t offset; /* of the first of them */
		unsigned n;
		/* How much later in the stream its trace is than the recorder says, because zeros
		 * were taken for trace that were padding. */
		uint64_t shift;
	} * tails;
	size_t tail_count, tail_capacity;
};

void live_feed_free(struct live_feed *f)
{
	if (!f)
		return;
	perfdata_unpacker_free(f->unpacker);
	free(f->tails);
	free(f->formats);
	free(f->bytes);
	free(f);
}

static struct live_tail *tail_of(struct live_feed *f)
{
	for (size_t i = 0; i < f->tail_count; i++)
		if (f->tails[i].stream == f->stream)
			return &f->tails[i];
	if (!LIST_ROOM(f->tails, f->tail_count, f->tail_capacity))
		return NULL;
	f->tails[f->tail_count] =
	    (struct live_tail){.stream = f->stream, .tid = f->tid, .cpu = f->cpu};
	return &f->tails[f->tail_count++];
}

static int tell(struct ptah_live *live, const struct ptah_record_piece *piece)
{
	const struct ptah_record_sink *tee = live->config.tee;
	const int status = tee && tee->take ? tee->take(tee->context, piece) : 0;

	if (status == PTAH_E_LIMIT)
		return live_fail(live, status,
				 "the records that are kept beside it take too much memory");
	return status < 0 ? live_fail(live, status, "the sink beside it failed") : 0;
}

static int give_record(struct ptah_live *live, const uint8_t *bytes, size_t size)
{
	const struct ptah_record_piece piece = {
	    .kind = PTAH_RECORD_PIECE_RECORD, .bytes = bytes, .size = size};
	const int status = tell(live, &piece);

	return status < 0 ? status : live_put_record(live, bytes, size);
}

static int give_trace(struct ptah_live *live, uint32_t stream, int32_t tid, int32_t cpu,
		      uint64_t offset, const uint8_t *bytes, size_t size)
{
	const struct ptah_record_piece piece = {.kind = PTAH_RECORD_PIECE_TRACE,
						.stream = stream,
						.tid = tid,
						.cpu = cpu,
						.offset = offset,
						.bytes = bytes,
						.size = size};
	const int status = size ? tell(live, &piece) : 0;

	return status < 0 ? status : live_put_trace(live, stream, tid, cpu, offset, bytes, size);
}

/* Puts the zeros that were held back, up to the offset `before`. */
static int put_tail(struct ptah_live *live, struct live_tail *t, uint64_t before)
{
	static const uint8_t zeros[PADDED];
	unsigned n = t->n;

	if (!n)
		return 0;
	if (before < t->offset + n)
		n = before > t->offset ? (unsigned)(before - t->offset) : 0;
	t->n = 0;
	t->offset += n;
	return n ? give_trace(live, t->stream, t->tid, t->cpu, t->offset - n, zeros, n) : 0;
}

/* A thread begins or ends: all trace before that has come. */
static int put_thread(struct ptah_live *live, struct live_feed *f, int32_t tid)
{
	int status = 0;

	for (size_t i = 0; i < f->tail_count && status >= 0; i++)
		if (f->tails[i].cpu < 0 && f->tails[i].tid == tid)
			status = put_tail(live, &f->tails[i], UINT64_MAX);
	return status;
}

/* How many zeros these n bytes of trace end with, among the last ones of their record. */
static unsigned zeros_at_end(const struct live_feed *f, const uint8_t *bytes, size_t n)
{
	const uint64_t after = f->left - n;
	unsigned zeros = 0;

	while (zeros < n && after + zeros < PADDED - 1 && !bytes[n - 1 - zeros])
		zeros++;
	return zeros;
}

/* Where the trace is in the stream, with the padding that was taken for trace. */
static uint64_t place(const struct live_feed *f, struct live_tail *t)
{
	const uint64_t at = f->offset + t->shift;

	if (!t->n && t->offset > at && t->offset - at < PADDED)
		t->shift += t->offset - at;
	return f->offset + t->shift;
}

/* Puts trace. Zeros at its end wait until it is known whether they belong to it. */
static int feed_bytes(struct ptah_live *live, struct live_feed *f, const uint8_t *bytes, size_t n)
{
	const unsigned zeros = zeros_at_end(f, bytes, n);
	struct live_tail *t = tail_of(f);
	uint64_t at;
	int status = 0;

	if (!t)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	at = place(f, t);
	if (!t->n || t->offset + t->n != at || zeros < n) {
		status = put_tail(live, t, at);
		if (status >= 0)
			status = give_trace(live, f->stream, f->tid, f->cpu, at, bytes, n - zeros);
		t->offset = at + (n - zeros);
	}
	t->n += zeros;
	f->offset += n;
	f->left -= n;
	return status;
}

/* What begins with f->record makes no sense. */
static int bad_record(struct ptah_live *live, const struct live_feed *f, const char *what)
{
	return live_fail(live, PTAH_E_BAD_FILE, "%s at offset %llu", what,
			 (unsigned long long)(f->at - f->n));
}

/* A record of AUXTRACE: its trace follows. */
static int begin_trace(struct ptah_live *live, struct live_feed *f)
{
	if (f->n < PERFDATA_AUXTRACE_HEADER)
		return bad_record(live, f, "a record of trace that ends too early");
	f->left = load_le64(f->record + 8);
	f->offset = load_le64(f->record + 16);
	f->stream = load_le32(f->record + 32);
	f->tid = (int32_t)load_le32(f->record + 36);
	f->cpu = (int32_t)load_le32(f->record + 40);
	if (f->left > UINT64_MAX - f->offset)
		return bad_record(live, f, "trace that is longer than can be");
	return 0;
}

/* A record that no trace follows. */
static int take_record(struct ptah_live *live, const uint8_t *record, size_t n)
{
	const uint32_t type = load_le32(record);
	int status = 0;

	if (type == PERFDATA_EXIT && n >= PERFDATA_RECORD_HEADER + 12)
		status = put_thread(live, live->feed, (int32_t)load_le32(record + 16));
	else if (type == PERFDATA_ITRACE_START && n >= PERFDATA_RECORD_HEADER + 8)
		status = put_thread(live, live->feed, (int32_t)load_le32(record + 12));
	return status < 0 ? status : give_record(live, record, n);
}

/* perf packs what the kernel writes, and nothing of its own. */
static int take_unpacked(struct ptah_live *live, const uint8_t *record, size_t n)
{
	if (load_le32(record) >= PERFDATA_USER)
		return live_fail(live, PTAH_E_BAD_FILE,
				 "a record of type %u in a compressed one, which perf does not "
				 "compress",
				 load_le32(record));
	return take_record(live, record, n);
}

/* Takes whole records, one after the other: n bytes. */
static int take_all_unpacked(struct ptah_live *live, const uint8_t *records, size_t n)
{
	int status = 0;

	for (size_t at = 0; at < n && status >= 0; at += load_le16(records + at + 6))
		status = take_unpacked(live, records + at, load_le16(records + at + 6));
	return status;
}

static int unpacker_fault(struct ptah_live *live, const struct live_feed *f)
{
	static const char damaged[] = "damaged compressed data in a record, or compressed in "
				      "another way than by zstd: record without -z";
	static const char *const faults[] = {
	    [PERFDATA_UNPACK_SHORT] = "a record that ends too early",
	    [PERFDATA_UNPACK_DAMAGED] = damaged,
	    [PERFDATA_UNPACK_TOO_BIG] = "a compressed record that is too big unpacked",
	    [PERFDATA_UNPACK_NO_RECORDS] = "a compressed record that holds no records",
	};

	return live_fail(live, PTAH_E_BAD_FILE, "%s", faults[perfdata_unpacker_fault(f->unpacker)]);
}

/* Takes the records that a compressed one completes. */
static int unpack(struct ptah_live *live, struct live_feed *f)
{
	const uint8_t *records;
	size_t n;
	int status;

	if (!f->unpacker)
		f->unpacker = perfdata_unpacker_new(0);
	if (!f->unpacker)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	status = perfdata_unpacker_begin(f->unpacker, f->record, f->n);
	while (status >= 0 && (status = perfdata_unpacker_next(f->unpacker, &records, &n)) > 0) {
		status = take_all_unpacked(live, records, n);
		if (status < 0)
			return status;
	}
	return status < 0 ? unpacker_fault(live, f) : 0;
}

/* Without what follows it the record would be damage in what is saved of the recording. */
static int begin_formats(struct ptah_live *live, struct live_feed *f)
{
	const uint64_t size =
	    f->n < 12 ? 0 : (load_le32(f->record + 8) + UINT64_C(7)) & ~UINT64_C(7);

	if (f->n < 12)
		return bad_record(live, f, "a record of formats that ends too early");
	if (!size || size > FORMATS_MAX) {
		f->skip = size;
		return 0;
	}
	f->formats = malloc(f->n + size);
	if (!f->formats)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	memcpy(f->formats, f->record, f->n);
	f->formats_size = f->n;
	f->formats_end = f->n + size;
	return 0;
}

static int take_formats(struct ptah_live *live, struct live_feed *f, const uint8_t *p, size_t n)
{
	int status;

	memcpy(f->formats + f->formats_size, p, n);
	f->formats_size += n;
	if (f->formats_size < f->formats_end)
		return 0;
	status = give_record(live, f->formats, f->formats_size);
	free(f->formats);
	f->formats = NULL;
	return status;
}

static int end_record(struct ptah_live *live, struct live_feed *f)
{
	int status;

	switch (load_le32(f->record)) {
	case PERFDATA_AUXTRACE:
		status = begin_trace(live, f);
		break;
	case PERFDATA_COMPRESSED:
	case PERFDATA_COMPRESSED2:
		status = unpack(live, f);
		break;
	case PERFDATA_HEADER_TRACING_DATA:
		status = begin_formats(live, f);
		break;
	default:
		status = take_record(live, f->record, f->n);
	}
	f->n = 0;
	return status;
}

static int take_header(struct ptah_live *live, struct live_feed *f)
{
	if (memcmp(f->record, PERFDATA_MAGIC, 8) != 0)
		return live_fail(live, PTAH_E_FOREIGN,
				 "not a recording: it does not begin with %.8s", PERFDATA_MAGIC);
	if (load_le64(f->record + 8) != PERFDATA_PIPE_SIZE)
		return live_fail(live, PTAH_E_FOREIGN,
				 "a recording that is complete, not one that comes through a pipe "
				 "(-o -)");
	f->begun = true;
	f->n = 0;
	return 0;
}

/* How many bytes what is being read has, as far as known. */
static size_t wanted(const struct live_feed *f)
{
	if (!f->begun)
		return PERFDATA_PIPE_SIZE;
	return f->n < PERFDATA_RECORD_HEADER ? PERFDATA_RECORD_HEADER : load_le16(f->record + 6);
}

static int take_bytes(struct ptah_live *live, struct live_feed *f, const uint8_t *p, size_t n,
		      size_t *used)
{
	size_t need;

	if (f->formats) {
		need = f->formats_end - f->formats_size;
		*used = need < n ? need : n;
		f->at += *used;
		return take_formats(live, f, p, *used);
	}
	if (f->skip || f->left) {
		uint64_t *left = f->skip ? &f->skip : &f->left;

		*used = *left < n ? (size_t)*left : n;
		f->at += *used;
		if (left == &f->left)
			return feed_bytes(live, f, p, *used);
		*left -= *used;
		return 0;
	}
	need = wanted(f);
	*used = need - f->n < n ? need - f->n : n;
	memcpy(f->record + f->n, p, *used);
	f->n += *used;
	f->at += *used;
	if (f->n < need)
		return 0;
	if (!f->begun)
		return take_header(live, f);
	need = wanted(f);
	if (need < PERFDATA_RECORD_HEADER)
		return bad_record(live, f, "a record smaller than its header,");
	return f->n == need ? end_record(live, f) : 0;
}

int ptah_live_feed(struct ptah_live *live, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	int status;

	if (!live || (n && !bytes) || live->finished)
		return PTAH_E_INVAL;
	pthread_mutex_lock(&live->lock);
	status = live->status;
	pthread_mutex_unlock(&live->lock);
	if (status < 0)
		return status;
	if (!live->feed)
		live->feed = calloc(1, sizeof(*live->feed));
	if (!live->feed)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	while (n && status >= 0) {
		size_t used = 0;

		status = take_bytes(live, live->feed, p, n, &used);
		p += used;
		n -= used;
	}
	return status < 0 ? status : 0;
}

int ptah_live_feed_fd(struct ptah_live *live, int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;
	int status = ptah_live_feed(live, NULL, 0);

	if (status < 0)
		return status;
	if (!live->feed->bytes)
		live->feed->bytes = malloc(READ);
	if (!live->feed->bytes)
		return live_fail(live, PTAH_E_NOMEM, "out of memory");
	if (poll(&p, 1, timeout_ms) <= 0)
		return 1;
	n = read(fd, live->feed->bytes, READ);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n < 0)
		return live_fail(live, PTAH_E_SYSTEM, "cannot read: %s", strerror(errno));
	if (!n)
		return 0;
	status = ptah_live_feed(live, live->feed->bytes, (size_t)n);
	return status < 0 ? status : 1;
}

int live_feed_end(struct ptah_live *live)
{
	struct live_feed *f = live->feed;
	int status = 0;

	for (size_t i = 0; i < f->tail_count && status >= 0; i++)
		status = put_tail(live, &f->tails[i], UINT64_MAX);
	live->cut =
	    f->n || f->left || f->skip || f->formats || perfdata_unpacker_is_cut(f->unpacker);
	return status;
}
