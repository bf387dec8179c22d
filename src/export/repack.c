/* SPDX-License-Identifier: MIT */
/*
 * The file around the packets: all records and the header are copied byte by byte, AUXTRACE records
 * get their new packets, and the header its new offsets. The packets of one stream after the other
 * are put into a file without a name first, because the recording has those of all streams mixed.
 */
#include "export/repack.h"

#include "base/bits.h"
#include "export/repack_trace.h"
#include "output/temporary.h"
#include "perfdata/format.h"
#include "perfdata/reader.h"
#include "support/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY (64u << 10)

/* Streams have small numbers in recordings. */
#define MOST_STREAMS (1u << 20)

/* An AUXTRACE record, in the order of the file. */
struct part {
	uint32_t stream; /* the session's number of it */
	size_t next;	 /* part of its stream */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t at, length; /* of the new bytes, in the spool */
	bool raw_end;	     /* struct repack_piece */
};

struct stream {
	uint32_t index;		   /* as the recording numbers it */
	size_t first, last, count; /* of its parts */
	uint64_t size;		   /* in the input */
	uint64_t written;	   /* to the output so far, with padding */
};

struct spool {
	int fd;
	uint64_t base, size; /* where the current stream begins, and its bytes so far */
	struct ptah_message *why;
	const char *path;
};

struct repack_file {
	struct repack_job *job;
	struct ptah_message *why;
	struct perfdata_file *file;
	struct part *parts;
	size_t count, capacity;
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *numbers; /* by index: the stream's number and 1 */
	uint32_t number_count;
	struct spool spool;
	FILE *in, *out;
	char *target, *temporary;
	uint8_t header[PERFDATA_HEADER_SIZE];
	uint64_t data, data_size; /* of the input */
};

static int refuse_repack(const struct repack_file *f, const char *text)
{
	snprintf(f->why->text, sizeof(f->why->text), "%s: %s", f->job->input, text);
	return PTAH_E_UNSUPPORTED;
}

static int failed(const struct repack_file *f, const char *path, const char *what)
{
	return ptah_system_message(f->why, errno ? errno : EIO, path, what);
}

/* The spool */

static int spool_put(void *context, const uint8_t *bytes, size_t n)
{
	struct spool *s = context;

	while (n) {
		const ssize_t k = pwrite(s->fd, bytes, n, (off_t)(s->base + s->size));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return ptah_system_message(s->why, k ? errno : ENOSPC, s->path,
						   "keep its new packets in /var/tmp");
		bytes += k;
		n -= (size_t)k;
		s->size += (uint64_t)k;
	}
	return 0;
}

static int spool_rewind(void *context, uint64_t to)
{
	struct spool *s = context;

	s->size = to;
	return 0;
}

static int open_spool(struct repack_file *f)
{
	char name[] = "/var/tmp/ptah-repack-XXXXXX";

	f->spool =
	    (struct spool){.fd = mkostemp(name, O_CLOEXEC), .why = f->why, .path = f->job->input};
	if (f->spool.fd < 0)
		return failed(f, "/var/tmp", "create a file in it");
	unlink(name);
	return 0;
}

/* What there is to do */

/* Makes room for the number of this index. */
static int grow_numbers(struct repack_file *f, uint32_t index)
{
	uint32_t count = f->number_count ? f->number_count : 64;
	struct stream *streams;
	uint32_t *numbers;

	if (index >= MOST_STREAMS)
		return refuse_repack(
		    f, "an AUXTRACE record is of a stream of a number that is too large");
	while (count <= index)
		count *= 2;
	numbers = realloc(f->numbers, count * sizeof(*numbers));
	if (numbers)
		f->numbers = numbers;
	streams = realloc(f->streams, count * sizeof(*streams));
	if (streams)
		f->streams = streams;
	if (!numbers || !streams)
		return PTAH_E_NOMEM;
	memset(numbers + f->number_count, 0, (count - f->number_count) * sizeof(*numbers));
	f->number_count = count;
	return 0;
}

/* The session numbers streams as their first AUXTRACE records come. */
static int stream_of(struct repack_file *f, uint32_t index, struct stream **stream)
{
	int status = index < f->number_count ? 0 : grow_numbers(f, index);

	if (status < 0)
		return status;
	if (!f->numbers[index]) {
		f->streams[f->stream_count] = (struct stream){.index = index};
		f->numbers[index] = ++f->stream_count;
	}
	*stream = &f->streams[f->numbers[index] - 1];
	return 0;
}

static int add_part(struct repack_file *f, const struct perfdata_record *record)
{
	struct stream *s = NULL;
	int status = stream_of(f, record->index, &s);

	if (status < 0)
		return status;
	if (!LIST_ROOM(f->parts, f->count, f->capacity))
		return PTAH_E_NOMEM;
	if (s->count++)
		f->parts[s->last].next = f->count;
	else
		s->first = f->count;
	s->last = f->count;
	s->size += record->trace_size;
	f->parts[f->count++] = (struct part){.stream = (uint32_t)(s - f->streams),
					     .bytes = record->bytes,
					     .size = record->trace_size};
	f->job->before += record->trace_size;
	return 0;
}

static int check_psb_period(const struct repack_file *f)
{
	struct perfdata_timing timing;

	if (f->job->psb_period && perfdata_timing(f->file, &timing) && (timing.mtc || timing.cyc))
		return refuse_repack(
		    f, "its trace has MTC or CYC packets, among which no PSB can be put: "
		       "record with --psb-period, or repack without it");
	return 0;
}

/* Whether the session's streams are those of the records. */
static int check_streams(const struct repack_file *f)
{
	struct ptah_stream_info info = {0};

	if (ptah_session_streams(f->job->session) != f->stream_count)
		return refuse_repack(f, "its AUXTRACE records are not those of its streams");
	for (uint32_t i = 0; i < f->stream_count; i++) {
		ptah_session_stream_info(f->job->session, i, &info);
		if (info.bytes != f->streams[i].size || info.lost)
			return refuse_repack(
			    f, "it lost bytes, or its streams overlap: only a complete "
			       "recording can be repacked");
	}
	return 0;
}

static int read_records(struct repack_file *f)
{
	struct perfdata_record record;
	int status = perfdata_open(f->job->input, &f->file, f->why);

	if (status < 0)
		return status;
	perfdata_keep_all(f->file);
	while ((status = perfdata_next(f->file, &record, f->why)) > 0) {
		if (record.type == PERFDATA_AUX)
			return refuse_repack(
			    f, "a driver recorded it: its packets are as short as they "
			       "can be");
		if (record.type == PERFDATA_COMPRESSED || record.type == PERFDATA_COMPRESSED2)
			return refuse_repack(f, "its records are compressed");
		if (record.type == PERFDATA_AUXTRACE && (status = add_part(f, &record)) < 0)
			return status;
	}
	if (status >= 0 && perfdata_auxtrace(f->file) != PERFDATA_AUXTRACE_INTEL_PT)
		return refuse_repack(f, "it has no trace of Intel PT");
	if (status >= 0 && perfdata_truncated(f->file))
		return refuse_repack(f, "it is cut short: its end is lost");
	if (status >= 0)
		status = check_psb_period(f);
	return status < 0 ? status : check_streams(f);
}

/* A section of the header that stays where it is. */
static bool is_before_data(const struct repack_file *f, const uint8_t *section)
{
	const uint64_t offset = load_le64(section), size = load_le64(section + 8);

	return !size ||
	       (offset >= PERFDATA_HEADER_SIZE && offset <= f->data && size <= f->data - offset);
}

/* The attributes of the events, and the ids of each, lie before the records, as perf writes them.
 */
static int check_attributes(struct repack_file *f)
{
	const uint64_t attrs = load_le64(f->header + PERFDATA_AT_ATTRS);
	const uint64_t size = load_le64(f->header + PERFDATA_AT_ATTRS + 8);
	const uint64_t each = load_le64(f->header + PERFDATA_AT_ATTR_SIZE);
	uint8_t ids[PERFDATA_SECTION_SIZE];

	if (!is_before_data(f, f->header + PERFDATA_AT_ATTRS) ||
	    each < PERFDATA_ATTR_SIZE_MIN + PERFDATA_SECTION_SIZE)
		return refuse_repack(f, "its header is damaged, or not as perf writes it");
	for (uint64_t at = each; at <= size; at += each)
		if (fseeko(f->in, (off_t)(attrs + at - sizeof(ids)), SEEK_SET) ||
		    fread(ids, 1, sizeof(ids), f->in) != sizeof(ids) || !is_before_data(f, ids))
			return refuse_repack(f, "its header is damaged, or not as perf writes it");
	return 0;
}

static int read_header(struct repack_file *f)
{
	f->in = fopen(f->job->input, "rbe");
	if (!f->in)
		return failed(f, f->job->input, "open");
	if (fread(f->header, 1, sizeof(f->header), f->in) != sizeof(f->header) ||
	    memcmp(f->header, PERFDATA_MAGIC, 8) != 0 ||
	    load_le64(f->header + PERFDATA_AT_SIZE) != PERFDATA_HEADER_SIZE)
		return refuse_repack(
		    f, "it was written through a pipe, or is no file of perf.data: save "
		       "it with ptah record -o FILE");
	f->data = load_le64(f->header + PERFDATA_AT_DATA);
	f->data_size = load_le64(f->header + PERFDATA_AT_DATA_SIZE);
	if (f->data < PERFDATA_HEADER_SIZE || f->data_size > (uint64_t)INT64_MAX - f->data)
		return refuse_repack(f, "its header is damaged");
	if (!f->data_size)
		return refuse_repack(f, "the recording was not finished");
	return check_attributes(f);
}

/* The packets */

static bool compresses_returns(const struct repack_file *f)
{
	struct perfdata_timing timing;

	return f->job->retcomp || !perfdata_timing(f->file, &timing) || !timing.no_retcomp;
}

/* Where the new bytes of the stream's parts are. */
static void place_parts(struct repack_file *f, const struct stream *s,
			const struct repack_piece *pieces)
{
	uint64_t begin = 0;

	for (size_t n = 0, i = s->first; n < s->count; i = f->parts[i].next, n++) {
		f->parts[i].at = f->spool.base + begin;
		f->parts[i].length = pieces[n].end - begin;
		f->parts[i].raw_end = pieces[n].raw_end;
		begin = pieces[n].end;
	}
}

static int repack_stream(struct repack_file *f, uint32_t number)
{
	const struct repack_config config = {.session = f->job->session,
					     .stream = number,
					     .retcomp = compresses_returns(f),
					     .psb_period = f->job->psb_period,
					     .sink = {spool_put, spool_rewind, &f->spool},
					     .step = f->job->step,
					     .step_context = f->job->context};
	const struct stream *s = &f->streams[number];
	struct repack_piece *pieces = calloc(s->count, sizeof(*pieces));
	uint64_t copied = 0;
	int status;

	if (!pieces)
		return PTAH_E_NOMEM;
	for (size_t n = 0, i = s->first; n < s->count; i = f->parts[i].next, n++)
		pieces[n] =
		    (struct repack_piece){.bytes = f->parts[i].bytes, .size = f->parts[i].size};
	f->spool.base += f->spool.size;
	f->spool.size = 0;
	status = repack_trace(&config, pieces, s->count, &copied);
	if (status == PTAH_E_BAD_FILE)
		refuse_repack(f, "a packet of its trace lies in two records");
	f->job->stopped = status > 0;
	f->job->copied += copied;
	if (!status)
		place_parts(f, s, pieces);
	free(pieces);
	return status;
}

/* Writing */

static int write_repacked(struct repack_file *f, const void *bytes, uint64_t n)
{
	return fwrite(bytes, 1, n, f->out) == n ? 0 : failed(f, f->temporary, "write");
}

/* Copies [from, from + n) of the input; n UINT64_MAX: to its end. */
static int copy_input_bytes(struct repack_file *f, uint64_t from, uint64_t n)
{
	uint8_t buffer[COPY];
	size_t k = 0;
	int status = fseeko(f->in, (off_t)from, SEEK_SET) ? -1 : 0;

	while (!status && n && (k = fread(buffer, 1, n < COPY ? n : COPY, f->in)) > 0) {
		n -= n == UINT64_MAX ? 0 : k;
		status = write_repacked(f, buffer, k);
	}
	if (status < 0 || ferror(f->in) || (n && n != UINT64_MAX && !k))
		return *f->why->text ? PTAH_E_SYSTEM : failed(f, f->job->input, "read");
	return 0;
}

/* New packets of a record, padded as perfdata_write_aux() does. A record without any is left out.
 */
static int put_trace(struct repack_file *f, const struct part *p, const uint8_t *raw,
		     uint64_t *size)
{
	static const uint8_t padding[8];
	const uint64_t padded = (p->length + 7) & ~UINT64_C(7);
	struct stream *s = &f->streams[p->stream];
	uint8_t header[PERFDATA_AUXTRACE_HEADER], buffer[COPY];
	uint64_t left = p->length;
	int status;

	if (!left)
		return 0;
	memcpy(header, raw, sizeof(header));
	store_le64(header + 8, padded);
	store_le64(header + 16, s->written);
	s->written += padded;
	*size += sizeof(header) + padded;
	f->job->after += padded;
	status = write_repacked(f, header, sizeof(header));
	if (status >= 0 && p->raw_end)
		status = write_repacked(f, padding, padded - p->length);
	while (status >= 0 && left) {
		const ssize_t k = pread(f->spool.fd, buffer, left < COPY ? left : COPY,
					(off_t)(p->at + p->length - left));

		if (k <= 0)
			return failed(f, "/var/tmp", "read the new packets from it");
		status = write_repacked(f, buffer, (uint64_t)k);
		left -= (uint64_t)k;
	}
	return status < 0 || p->raw_end ? status : write_repacked(f, padding, padded - p->length);
}

static int put_records(struct repack_file *f, uint64_t *size)
{
	struct perfdata_record record;
	struct perfdata_file *file;
	size_t part = 0;
	int status = perfdata_open(f->job->input, &file, f->why);

	if (status < 0)
		return status;
	perfdata_keep_all(file);
	while ((status = perfdata_next(file, &record, f->why)) > 0) {
		if (record.type != PERFDATA_AUXTRACE) {
			status = write_repacked(f, record.raw, record.raw_size);
			*size += record.raw_size;
		} else {
			status = put_trace(f, &f->parts[part++], record.raw, size);
		}
		if (status < 0)
			break;
	}
	perfdata_close(file);
	return status;
}

/*
 * The table of features and what it leads to, at their new places. Without the list of AUXTRACE
 * records, which says where in the file each was.
 */
static int put_features(struct repack_file *f, uint64_t moved_by)
{
	const uint64_t table = f->data + f->data_size;
	uint8_t section[PERFDATA_SECTION_SIZE];
	size_t bits = 0, dropped = 0;
	int status = 0;

	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		const bool has = f->header[PERFDATA_AT_FEATURES + i / 8] >> i % 8 & 1;

		bits += has;
		dropped += has && i == PERFDATA_FEATURE_AUXTRACE;
	}
	moved_by -= dropped * PERFDATA_SECTION_SIZE;
	for (unsigned i = 0, n = 0; i < PERFDATA_FEATURE_MAX && status >= 0; i++) {
		if (!(f->header[PERFDATA_AT_FEATURES + i / 8] >> i % 8 & 1))
			continue;
		if (fseeko(f->in, (off_t)(table + (uint64_t)n++ * PERFDATA_SECTION_SIZE),
			   SEEK_SET) ||
		    fread(section, 1, sizeof(section), f->in) != sizeof(section))
			return refuse_repack(f, "its header is cut off");
		if (load_le64(section) < table + bits * PERFDATA_SECTION_SIZE)
			return refuse_repack(f, "its header is damaged, or not as perf writes it");
		store_le64(section, load_le64(section) + moved_by);
		if (i != PERFDATA_FEATURE_AUXTRACE)
			status = write_repacked(f, section, sizeof(section));
	}
	return status < 0 ? status
			  : copy_input_bytes(f, table + bits * PERFDATA_SECTION_SIZE, UINT64_MAX);
}

/* The attributes of the events, whose returns may be compressed now. */
static int put_attributes(struct repack_file *f)
{
	const uint64_t attrs = load_le64(f->header + PERFDATA_AT_ATTRS);
	const uint64_t size = load_le64(f->header + PERFDATA_AT_ATTRS + 8);
	const uint64_t each = load_le64(f->header + PERFDATA_AT_ATTR_SIZE);
	uint8_t config[8];

	for (uint64_t at = 0; f->job->retcomp && at + each <= size; at += each) {
		const uint64_t place = attrs + at + PERFDATA_ATTR_AT_CONFIG;

		if (fseeko(f->out, (off_t)place, SEEK_SET) ||
		    fseeko(f->in, (off_t)place, SEEK_SET) || fread(config, 1, 8, f->in) != 8)
			return failed(f, f->job->input, "read");
		store_le64(config, load_le64(config) & ~PERFDATA_PT_NORETCOMP);
		if (write_repacked(f, config, 8) < 0)
			return PTAH_E_SYSTEM;
	}
	return 0;
}

static int put_all(struct repack_file *f)
{
	uint64_t size = 0;
	int status = copy_input_bytes(f, 0, f->data);

	if (status >= 0)
		status = put_records(f, &size);
	if (status >= 0)
		status = put_features(f, size - f->data_size);
	if (status < 0)
		return status;
	store_le64(f->header + PERFDATA_AT_DATA_SIZE, size);
	f->header[PERFDATA_AT_FEATURES + PERFDATA_FEATURE_AUXTRACE / 8] &=
	    (uint8_t) ~(1u << PERFDATA_FEATURE_AUXTRACE % 8);
	if (fseeko(f->out, 0, SEEK_SET))
		return failed(f, f->temporary, "write");
	status = write_repacked(f, f->header, sizeof(f->header));
	return status < 0 ? status : put_attributes(f);
}

static int open_output(struct repack_file *f)
{
	int fd;

	f->target = temporary_target(f->job->output);
	fd = f->target ? temporary_open(f->target, &f->temporary) : -1;
	f->out = fd < 0 ? NULL : fdopen(fd, "wb");
	if (f->out)
		return 0;
	if (fd >= 0)
		close(fd);
	else
		f->temporary = NULL; /* it was freed */
	return failed(f, f->job->output, "create a file beside it");
}

/* The file that is there becomes FILE.old, as perf does it. */
static int take_place(struct repack_file *f)
{
	char *old = NULL;
	int status = 0;

	if (asprintf(&old, "%s.old", f->target) < 0)
		return PTAH_E_NOMEM;
	if (fclose(f->out))
		status = failed(f, f->temporary, "write");
	f->out = NULL;
	if (status >= 0 && rename(f->target, old) && errno != ENOENT)
		status = failed(f, f->target, "rename to FILE.old");
	else if (status >= 0 && rename(f->temporary, f->target))
		status = failed(f, f->target, "rename the new file to");
	if (status >= 0) {
		free(f->temporary);
		f->temporary = NULL;
	}
	free(old);
	return status;
}

static void free_file(struct repack_file *f)
{
	if (f->in)
		fclose(f->in);
	if (f->out)
		fclose(f->out);
	if (f->temporary)
		unlink(f->temporary);
	if (f->spool.fd >= 0)
		close(f->spool.fd);
	perfdata_close(f->file);
	free(f->temporary);
	free(f->target);
	free(f->parts);
	free(f->streams);
	free(f->numbers);
}

int repack_run(struct repack_job *job, struct ptah_message *why)
{
	struct repack_file f = {.job = job, .why = why, .spool.fd = -1};
	int status = read_header(&f);

	if (status >= 0)
		status = read_records(&f);
	if (status >= 0)
		status = open_spool(&f);
	for (uint32_t i = 0; !status && i < ptah_session_streams(job->session); i++)
		status = repack_stream(&f, i);
	if (!status)
		status = open_output(&f);
	if (!status)
		status = put_all(&f);
	if (!status)
		status = take_place(&f);
	free_file(&f);
	return status < 0 ? status : 0;
}
