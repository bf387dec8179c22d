/* SPDX-License-Identifier: MIT */
#include "perfdata/reader.h"

#include "base/reader.h"
#include "perfdata/buffer.h"
#include "perfdata/format.h"
#include "perfdata/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct perfdata_file {
	const char *path; /* for messages: a copy */
	const uint8_t *bytes;
	uint64_t size;
	uint64_t at, data_end; /* the records that are left */
	bool unfinished;
	bool pt, has_clock;
	struct perfdata_clock clock;
	/* How sample ids end records; 0 when they do not. */
	uint64_t sample_type;
	bool sample_id_all;
	struct perfdata_buffer command;
};

static int bad(const struct perfdata_file *f, struct ptah_message *why, uint64_t offset,
	       const char *what)
{
	return perfdata_message(why, PTAH_E_BAD_FILE, "%s: %s at offset %" PRIu64, f->path, what,
				offset);
}

/* Header */

static int check_magic(const struct perfdata_file *f, struct ptah_message *why)
{
	if (f->size < 16)
		return perfdata_message(why, f->size ? PTAH_E_BAD_MAGIC : PTAH_E_EMPTY,
					f->size ? "%s: too short to be a perf.data file"
						: "%s: the file is empty",
					f->path);
	if (!memcmp(f->bytes, PERFDATA_MAGIC_SWAPPED, 8))
		return perfdata_message(why, PTAH_E_FOREIGN,
					"%s: recorded on a big-endian machine; Intel PT is not",
					f->path);
	if (!memcmp(f->bytes, PERFDATA_MAGIC_OLD, 8))
		return perfdata_message(
		    why, PTAH_E_UNSUPPORTED,
		    "%s: a perf.data file of before Linux 3.1, which cannot hold "
		    "Intel PT",
		    f->path);
	if (memcmp(f->bytes, PERFDATA_MAGIC, 8))
		return perfdata_message(why, PTAH_E_BAD_MAGIC,
					"%s: not a perf.data file (for raw packets use --pt)",
					f->path);
	if (load_le64(f->bytes + PERFDATA_AT_SIZE) == PERFDATA_PIPE_SIZE)
		return perfdata_message(
		    why, PTAH_E_UNSUPPORTED,
		    "%s: written through a pipe; convert it with `perf inject -i %s "
		    "-o FILE`",
		    f->path, f->path);
	if (f->size < PERFDATA_HEADER_SIZE)
		return bad(f, why, f->size, "the file ends inside its header,");
	return 0;
}

static bool in_file(const struct perfdata_file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset;
}

/* What sample ids hold is said by the first attribute; perf writes the same to all that matter. */
static int read_attrs(struct perfdata_file *f, struct ptah_message *why)
{
	uint64_t offset = load_le64(f->bytes + PERFDATA_AT_ATTRS);
	uint64_t size = load_le64(f->bytes + PERFDATA_AT_ATTRS + 8);
	uint64_t entry = load_le64(f->bytes + PERFDATA_AT_ATTR_SIZE);
	const uint8_t *attr;

	if (!in_file(f, offset, size))
		return bad(f, why, PERFDATA_AT_ATTRS,
			   "the header's attributes lie outside the file,");
	if (entry < PERFDATA_ATTR_SIZE_MIN + PERFDATA_SECTION_SIZE || entry > 4096 || size < entry)
		return bad(f, why, PERFDATA_AT_ATTR_SIZE, "the header has no usable attributes,");
	attr = f->bytes + offset;
	f->sample_type = load_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE);
	f->sample_id_all = load_le64(attr + PERFDATA_ATTR_AT_FLAGS) & PERFDATA_ATTR_SAMPLE_ID_ALL;
	return 0;
}

static void append_argument(struct perfdata_file *f, const char *text, size_t n)
{
	if (f->command.size)
		perfdata_put(&f->command, " ", 1);
	perfdata_put(&f->command, text, n);
}

static void read_command(struct perfdata_file *f, struct reader r)
{
	uint32_t n = reader_u32(&r);

	for (uint32_t i = 0; i < n && !r.failed && f->command.size < 65536; i++) {
		uint32_t size = reader_u32(&r);
		const uint8_t *text = reader_bytes(&r, size);

		if (text)
			append_argument(f, (const char *)text, strnlen((const char *)text, size));
	}
	perfdata_put(&f->command, "", 1);
}

/* Only the command line is of interest; a broken table is no reason to refuse the trace. */
static void read_features(struct perfdata_file *f)
{
	const uint8_t *bits = f->bytes + PERFDATA_AT_FEATURES;
	uint64_t table = f->data_end;

	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		uint64_t offset, size;

		if (!(bits[i / 8] >> i % 8 & 1))
			continue;
		if (!in_file(f, table, PERFDATA_SECTION_SIZE))
			return;
		offset = load_le64(f->bytes + table);
		size = load_le64(f->bytes + table + 8);
		table += PERFDATA_SECTION_SIZE;
		if (i == PERFDATA_FEATURE_CMDLINE && in_file(f, offset, size))
			read_command(
			    f, (struct reader){f->bytes + offset, f->bytes + offset + size, false});
	}
}

static int read_header(struct perfdata_file *f, struct ptah_message *why)
{
	uint64_t size;
	int status = check_magic(f, why);

	if (status >= 0)
		status = read_attrs(f, why);
	if (status < 0)
		return status;
	f->at = load_le64(f->bytes + PERFDATA_AT_DATA);
	size = load_le64(f->bytes + PERFDATA_AT_DATA_SIZE);
	if (f->at < PERFDATA_HEADER_SIZE || f->at > f->size)
		return bad(f, why, PERFDATA_AT_DATA,
			   "the header's data section lies outside the file,");
	f->unfinished = !size || !in_file(f, f->at, size);
	f->data_end = f->unfinished ? f->size : f->at + size;
	/* Ptah and perf set the features last: none at all means that the recorder was killed. */
	if (!f->unfinished) {
		static const uint8_t none[8 * PERFDATA_FEATURE_WORDS];

		f->unfinished = !memcmp(f->bytes + PERFDATA_AT_FEATURES, none, sizeof(none));
		read_features(f);
	}
	return 0;
}

static int map_file(struct perfdata_file *f, const char *path, struct ptah_message *why)
{
	struct stat st;
	void *bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s: not a regular file", path);
	}
	f->size = (uint64_t)st.st_size;
	bytes = f->size ? mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	close(fd);
	if (bytes == MAP_FAILED)
		return perfdata_system_message(why, errno, path, "map");
	f->bytes = bytes;
	return 0;
}

int perfdata_open(const char *path, struct perfdata_file **file, struct ptah_message *why)
{
	struct perfdata_file *f = calloc(1, sizeof(*f));
	int status;

	if (!f)
		return PTAH_E_NOMEM;
	f->path = strdup(path);
	status = f->path ? map_file(f, path, why) : PTAH_E_NOMEM;
	if (status >= 0)
		status = read_header(f, why);
	if (status < 0) {
		perfdata_close(f);
		return status;
	}
	*file = f;
	return 0;
}

void perfdata_close(struct perfdata_file *f)
{
	if (!f)
		return;
	if (f->bytes)
		munmap((void *)(uintptr_t)f->bytes, f->size);
	perfdata_buffer_free(&f->command);
	free((void *)(uintptr_t)f->path);
	free(f);
}

/* Records. Each reader below gets the record's body. */

/* The sample id at a record's end: fields of eight bytes, in this order. */
static void read_sample_id(const struct perfdata_file *f, struct reader body,
			   struct perfdata_record *record)
{
	uint64_t type = f->sample_type;
	size_t size =
	    8u *
	    ((type & PERFDATA_SAMPLE_TID ? 1 : 0) + (type & PERFDATA_SAMPLE_TIME ? 1 : 0) +
	     (type & PERFDATA_SAMPLE_ID ? 1 : 0) + (type & PERFDATA_SAMPLE_STREAM_ID ? 1 : 0) +
	     (type & PERFDATA_SAMPLE_CPU ? 1 : 0) + (type & PERFDATA_SAMPLE_IDENTIFIER ? 1 : 0));

	if (!f->sample_id_all || (size_t)(body.end - body.p) < size)
		return;
	body.p = body.end - size;
	if (type & PERFDATA_SAMPLE_TID) {
		int32_t pid = (int32_t)reader_u32(&body), tid = (int32_t)reader_u32(&body);

		if (record->pid < 0) {
			record->pid = pid;
			record->tid = tid;
		}
	}
	if (type & PERFDATA_SAMPLE_TIME)
		record->time = reader_u64(&body);
	if (type & PERFDATA_SAMPLE_ID)
		reader_u64(&body);
	if (type & PERFDATA_SAMPLE_STREAM_ID)
		reader_u64(&body);
	if (type & PERFDATA_SAMPLE_CPU)
		record->cpu = (int32_t)reader_u32(&body);
}

static void read_ids(struct reader *r, struct perfdata_record *record)
{
	record->pid = (int32_t)reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
}

static void read_map(struct reader *r, struct perfdata_record *record, uint16_t misc, bool two)
{
	read_ids(r, record);
	record->address = reader_u64(r);
	record->size = reader_u64(r);
	record->file_offset = reader_u64(r);
	record->executable = !(misc & PERFDATA_MISC_MMAP_DATA);
	if (two) {
		const uint8_t *who = reader_bytes(r, 24);

		if (who && misc & PERFDATA_MISC_MMAP_BUILD_ID && who[0] <= PERFDATA_BUILD_ID_MAX) {
			record->id.size = who[0];
			memcpy(record->id.bytes, who + 4, who[0]);
		}
		record->executable = reader_u32(r) & 4;
		reader_u32(r);
	}
	record->text = reader_string(r, &record->text_size);
}

static void read_task(struct reader *r, struct perfdata_record *record)
{
	record->pid = (int32_t)reader_u32(r);
	record->ppid = (int32_t)reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
	reader_u32(r);
	record->time = reader_u64(r);
}

static void read_info(struct perfdata_file *f, struct reader *r)
{
	uint64_t info[PERFDATA_INFO_MAX] = {0};
	uint32_t type = reader_u32(r);

	reader_u32(r);
	for (unsigned i = 0; i < PERFDATA_INFO_MAX && (size_t)(r->end - r->p) >= 8; i++)
		info[i] = reader_u64(r);
	f->pt = type == PERFDATA_AUXTRACE_INTEL_PT;
	f->has_clock = f->pt && info[PERFDATA_INFO_CAP_TIME_ZERO] &&
		       info[PERFDATA_INFO_TIME_MULT] && info[PERFDATA_INFO_TIME_SHIFT] < 64;
	f->clock = (struct perfdata_clock){
	    .shift = (uint16_t)info[PERFDATA_INFO_TIME_SHIFT],
	    .mult = (uint32_t)info[PERFDATA_INFO_TIME_MULT],
	    .zero = info[PERFDATA_INFO_TIME_ZERO],
	};
}

static void read_auxtrace(struct reader *r, struct perfdata_record *record)
{
	record->trace_size = reader_u64(r);
	record->trace_offset = reader_u64(r);
	reader_u64(r);
	record->index = reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
	record->cpu = (int32_t)reader_u32(r);
}

static void read_ptah(struct reader *r, struct perfdata_record *record)
{
	uint32_t n;

	if (reader_u32(r) != PERFDATA_PTAH_MAGIC || reader_u32(r) != PERFDATA_PTAH_VERSION)
		return; /* not ours: tag 0 */
	record->tag = reader_u32(r);
	n = reader_u32(r);
	if (record->tag == PERFDATA_PTAH_TRUTH) {
		record->index = reader_u32(r);
		read_ids(r, record);
		reader_u32(r);
		record->truth.instructions = reader_u64(r);
		record->truth.conditional = reader_u64(r);
		record->truth.indirect = reader_u64(r);
		record->truth.returns = reader_u64(r);
		record->truth.path_hash = reader_u64(r);
		record->lost = reader_u64(r);
	} else if (record->tag == PERFDATA_PTAH_CODE) {
		record->pid = (int32_t)reader_u32(r);
		record->size = reader_u32(r);
		record->tsc = reader_u64(r);
		record->address = reader_u64(r);
		record->bytes = reader_bytes(r, record->size);
	} else if (record->tag == PERFDATA_PTAH_NOTE) {
		record->text = (const char *)reader_bytes(r, n);
		record->text_size = n;
	}
}

/* Fills in *record. False when the record is of no use here. */
static bool read_record(struct perfdata_file *f, struct reader *r, uint16_t misc,
			struct perfdata_record *record)
{
	struct reader body = *r;

	switch (record->type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		read_map(r, record, misc, record->type == PERFDATA_MMAP2);
		break;
	case PERFDATA_COMM:
		read_ids(r, record);
		record->exec = misc & PERFDATA_MISC_COMM_EXEC;
		record->text = reader_string(r, &record->text_size);
		break;
	case PERFDATA_FORK:
	case PERFDATA_EXIT:
		read_task(r, record);
		break;
	case PERFDATA_ITRACE_START:
		read_ids(r, record);
		break;
	case PERFDATA_AUX:
		reader_u64(r);
		record->size = reader_u64(r);
		record->lost = reader_u64(r) & (PERFDATA_AUX_TRUNCATED | PERFDATA_AUX_PARTIAL);
		break;
	case PERFDATA_LOST:
		reader_u64(r);
		record->lost = reader_u64(r);
		break;
	case PERFDATA_AUXTRACE_INFO:
		read_info(f, r);
		return false;
	case PERFDATA_AUXTRACE:
		read_auxtrace(r, record);
		return true;
	case PERFDATA_HEADER_EVENT_TYPE:
		read_ptah(r, record);
		return record->tag != 0;
	default:
		return false;
	}
	read_sample_id(f, body, record);
	return true;
}

int perfdata_next(struct perfdata_file *f, struct perfdata_record *record, struct ptah_message *why)
{
	while (f->at < f->data_end) {
		uint64_t left = f->data_end - f->at, size;
		const uint8_t *p = f->bytes + f->at;
		struct reader r;
		bool useful;

		if (left < PERFDATA_RECORD_HEADER || load_le16(p + 6) > left) {
			if (f->unfinished) /* cut where the recorder died */
				return 0;
			return bad(f, why, f->at, "a record does not fit the data section,");
		}
		size = load_le16(p + 6);
		if (size < PERFDATA_RECORD_HEADER)
			return bad(f, why, f->at, "a record smaller than its header,");
		memset(record, 0, sizeof(*record));
		record->type = load_le32(p);
		record->offset = f->at;
		record->pid = record->tid = record->ppid = record->cpu = -1;
		if (record->type == PERFDATA_COMPRESSED || record->type == PERFDATA_COMPRESSED2)
			return perfdata_message(
			    why, PTAH_E_UNSUPPORTED,
			    "%s: compressed records (perf record -z); record without "
			    "-z",
			    f->path);
		r = (struct reader){p + PERFDATA_RECORD_HEADER, p + size, false};
		useful = read_record(f, &r, load_le16(p + 4), record);
		if (r.failed)
			return bad(f, why, f->at, "a record that ends too early");
		f->at += size;
		if (record->type == PERFDATA_AUXTRACE) {
			left -= size;
			if (record->trace_size > left) {
				if (!f->unfinished)
					return bad(
					    f, why, record->offset,
					    "trace data that does not fit the data section,");
				record->trace_size = left;
			}
			record->bytes = f->bytes + f->at;
			f->at += record->trace_size;
		}
		if (useful)
			return 1;
	}
	return 0;
}

bool perfdata_clock(const struct perfdata_file *f, struct perfdata_clock *clock)
{
	*clock = f->clock;
	return f->has_clock;
}

bool perfdata_is_pt(const struct perfdata_file *f)
{
	return f->pt;
}

bool perfdata_unfinished(const struct perfdata_file *f)
{
	return f->unfinished;
}

const char *perfdata_command(const struct perfdata_file *f)
{
	return f->command.size && !f->command.failed ? (const char *)f->command.bytes : NULL;
}
