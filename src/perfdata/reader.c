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
	uint64_t data_start, at, data_end; /* the records, and where to go on */
	uint64_t forgotten;		   /* up to here pages may be gone (perfdata_forget) */
	bool unfinished, truncated;
	uint32_t auxtrace; /* AUXTRACE_INFO's kind; 0: none was read */
	bool has_clock, snapshot;
	struct perfdata_clock clock;
	bool has_timing;
	struct perfdata_timing timing;
	/* Where the attributes lie, and whether all end their records alike. */
	const uint8_t *attrs;
	size_t attr_size, attr_count;
	bool same_sample_ids;
	struct reader build_ids; /* the header's list */
	char cpuid[64];		 /* the processor, as the header tells it; "": it does not */
	const uint8_t *filter;	 /* AUXTRACE_INFO's */
	size_t filter_size;
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

/* What an attribute says about the sample ids that end its records: 0 when they do not. */
static uint64_t sample_bits(const uint8_t *attr)
{
	if (!(load_le64(attr + PERFDATA_ATTR_AT_FLAGS) & PERFDATA_ATTR_SAMPLE_ID_ALL))
		return 0;
	return load_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE) &
	       (PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID |
		PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_STREAM_ID | PERFDATA_SAMPLE_IDENTIFIER);
}

static int read_attrs(struct perfdata_file *f, struct ptah_message *why)
{
	uint64_t offset = load_le64(f->bytes + PERFDATA_AT_ATTRS);
	uint64_t size = load_le64(f->bytes + PERFDATA_AT_ATTRS + 8);
	uint64_t entry = load_le64(f->bytes + PERFDATA_AT_ATTR_SIZE);

	if (!in_file(f, offset, size))
		return bad(f, why, PERFDATA_AT_ATTRS,
			   "the header's attributes lie outside the file,");
	if (entry < PERFDATA_ATTR_SIZE_MIN + PERFDATA_SECTION_SIZE || entry > 4096 || size < entry)
		return bad(f, why, PERFDATA_AT_ATTR_SIZE, "the header has no usable attributes,");
	f->attrs = f->bytes + offset;
	f->attr_size = (size_t)entry;
	f->attr_count = (size_t)(size / entry);
	f->same_sample_ids = true;
	for (size_t i = 1; i < f->attr_count; i++)
		if (sample_bits(f->attrs + i * entry) != sample_bits(f->attrs))
			f->same_sample_ids = false;
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

/* Little of it is of interest; a broken list is no reason to refuse the trace. */
static int read_feature(struct perfdata_file *f, unsigned feature, struct reader r,
			struct ptah_message *why)
{
	const uint8_t *text;
	uint32_t n;

	switch (feature) {
	case PERFDATA_FEATURE_BUILD_ID:
		f->build_ids = r;
		break;
	case PERFDATA_FEATURE_CMDLINE:
		read_command(f, r);
		break;
	case PERFDATA_FEATURE_CPUID:
		n = reader_u32(&r);
		text = reader_bytes(&r, n);
		if (text && strnlen((const char *)text, n) < sizeof(f->cpuid))
			memcpy(f->cpuid, text, strnlen((const char *)text, n));
		break;
	case PERFDATA_FEATURE_ARCH:
		n = reader_u32(&r);
		text = reader_bytes(&r, n);
		if (text && strncmp((const char *)text, "x86_64", n))
			return perfdata_message(
			    why, PTAH_E_FOREIGN,
			    "%s: recorded on %.*s; Ptah decodes recordings of x86_64", f->path,
			    (int)strnlen((const char *)text, n < 64 ? n : 64), (const char *)text);
		break;
	default:
		break;
	}
	return 0;
}

static int read_features(struct perfdata_file *f, struct ptah_message *why)
{
	const uint8_t *bits = f->bytes + PERFDATA_AT_FEATURES;
	uint64_t table = f->data_end;

	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		uint64_t offset, size;
		int status;

		if (!(bits[i / 8] >> i % 8 & 1))
			continue;
		if (!in_file(f, table, PERFDATA_SECTION_SIZE))
			break;
		offset = load_le64(f->bytes + table);
		size = load_le64(f->bytes + table + 8);
		table += PERFDATA_SECTION_SIZE;
		if (!in_file(f, offset, size))
			continue;
		status = read_feature(
		    f, i, (struct reader){f->bytes + offset, f->bytes + offset + size, false}, why);
		if (status < 0)
			return status;
	}
	return 0;
}

/* Ptah and perf set the features last: none at all means that the recorder was killed. */
static bool has_features(const struct perfdata_file *f)
{
	static const uint8_t none[8 * PERFDATA_FEATURE_WORDS];

	return memcmp(f->bytes + PERFDATA_AT_FEATURES, none, sizeof(none)) != 0;
}

static int read_header(struct perfdata_file *f, struct ptah_message *why)
{
	uint64_t size;
	int status = check_magic(f, why);

	if (status >= 0)
		status = read_attrs(f, why);
	if (status < 0)
		return status;
	f->at = f->data_start = load_le64(f->bytes + PERFDATA_AT_DATA);
	size = load_le64(f->bytes + PERFDATA_AT_DATA_SIZE);
	if (f->at < PERFDATA_HEADER_SIZE || f->at > f->size)
		return bad(f, why, PERFDATA_AT_DATA,
			   "the header's data section lies outside the file,");
	f->truncated = !in_file(f, f->at, size);
	f->unfinished = f->truncated || !size || !has_features(f);
	/* perf fills in the size at the end, Ptah from time to time. */
	f->data_end = f->truncated || !size ? f->size : f->at + size;
	return f->unfinished ? 0 : read_features(f, why);
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

/* More ids than this are not searched: a file is not to make us slow. */
#define SEARCHED_IDS 4096

static bool has_id(const struct perfdata_file *f, const uint8_t *attr, uint64_t id)
{
	const uint8_t *section = attr + f->attr_size - PERFDATA_SECTION_SIZE;
	uint64_t offset = load_le64(section), size = load_le64(section + 8);

	if (!in_file(f, offset, size))
		return false;
	for (uint64_t i = 0; i < size / 8 && i < SEARCHED_IDS; i++)
		if (load_le64(f->bytes + offset + 8 * i) == id)
			return true;
	return false;
}

/* The attribute that a record belongs to: where they differ, its last word is the id. */
static uint64_t sample_bits_of(const struct perfdata_file *f, const struct reader *body)
{
	uint64_t bits = sample_bits(f->attrs), id;

	if (f->same_sample_ids || !(bits & PERFDATA_SAMPLE_IDENTIFIER) ||
	    (size_t)(body->end - body->p) < 8)
		return bits;
	id = load_le64(body->end - 8);
	for (size_t i = 0; i < f->attr_count && i < 64; i++)
		if (has_id(f, f->attrs + i * f->attr_size, id))
			return sample_bits(f->attrs + i * f->attr_size);
	return bits;
}

/* The sample id at a record's end: fields of eight bytes, in this order. */
static void read_sample_id(const struct perfdata_file *f, struct reader body,
			   struct perfdata_record *record)
{
	uint64_t bits = sample_bits_of(f, &body);
	size_t size = 8u * (size_t)__builtin_popcountll(bits);

	if ((size_t)(body.end - body.p) < size)
		return;
	body.p = body.end - size;
	if (bits & PERFDATA_SAMPLE_TID) {
		int32_t pid = (int32_t)reader_u32(&body), tid = (int32_t)reader_u32(&body);

		if (record->pid < 0) {
			record->pid = pid;
			record->tid = tid;
		}
	}
	if (bits & PERFDATA_SAMPLE_TIME)
		record->time = reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_ID)
		reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_STREAM_ID)
		reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_CPU)
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
	record->ptid = (int32_t)reader_u32(r);
	record->time = reader_u64(r);
}

/* attr.config of the Intel PT event; 0: there is none. */
static uint64_t pt_config(const struct perfdata_file *f, uint64_t pmu_type)
{
	for (size_t i = 0; i < f->attr_count; i++) {
		const uint8_t *attr = f->attrs + i * f->attr_size;

		if (load_le32(attr + PERFDATA_ATTR_AT_TYPE) == pmu_type)
			return load_le64(attr + PERFDATA_ATTR_AT_CONFIG);
	}
	return 0;
}

/* The value of a field that is given by its bits. */
static uint8_t field(uint64_t config, uint64_t bits)
{
	return bits ? (uint8_t)((config & bits) / (bits & -bits)) : 0;
}

static void read_timing(struct perfdata_file *f, const uint64_t *info)
{
	uint64_t config = pt_config(f, info[PERFDATA_INFO_PMU_TYPE]);
	uint64_t n = info[PERFDATA_INFO_TSC_CTC_N], d = info[PERFDATA_INFO_TSC_CTC_D];

	f->has_timing = f->auxtrace == PERFDATA_AUXTRACE_INTEL_PT;
	if (!f->has_timing)
		return;
	if (info[PERFDATA_INFO_MAX_NONTURBO] <= UINT8_MAX)
		f->timing.nominal_ratio = (uint8_t)info[PERFDATA_INFO_MAX_NONTURBO];
	if (config & info[PERFDATA_INFO_CYC_BIT])
		f->timing.cyc_thresh = field(config, PERFDATA_PT_CYC_THRESH);
	f->timing.event_trace = config & PERFDATA_PT_EVENT;
	f->timing.no_tnt = config & PERFDATA_PT_NOTNT;
	f->timing.no_retcomp = config & PERFDATA_PT_NORETCOMP;
	if (!(config & info[PERFDATA_INFO_MTC_BIT]) || n > UINT32_MAX || d > UINT32_MAX)
		return;
	f->timing.mtc_freq = field(config, info[PERFDATA_INFO_MTC_FREQ_BITS]) & 15;
	f->timing.tsc_ctc_n = (uint32_t)n;
	f->timing.tsc_ctc_d = (uint32_t)d;
}

static void read_info(struct perfdata_file *f, struct reader *r)
{
	uint64_t info[PERFDATA_INFO_MAX] = {0};

	f->auxtrace = reader_u32(r);
	reader_u32(r);
	for (unsigned i = 0; i < PERFDATA_INFO_MAX && (size_t)(r->end - r->p) >= 8; i++)
		info[i] = reader_u64(r);
	f->snapshot = info[PERFDATA_INFO_SNAPSHOT];
	read_timing(f, info);
	f->filter = r->p;
	f->filter_size = info[PERFDATA_INFO_FILTER_LENGTH] <= (size_t)(r->end - r->p)
			     ? (size_t)info[PERFDATA_INFO_FILTER_LENGTH]
			     : 0;
	f->has_clock =
	    f->auxtrace == PERFDATA_AUXTRACE_INTEL_PT && info[PERFDATA_INFO_CAP_TIME_ZERO] &&
	    (uint32_t)info[PERFDATA_INFO_TIME_MULT] && info[PERFDATA_INFO_TIME_SHIFT] < 64;
	if (!f->has_clock)
		return;
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

	if (reader_u32(r) != PERFDATA_PTAH_MAGIC || reader_u32(r) != PERFDATA_PTAH_VERSION) {
		r->failed = false; /* not ours: tag 0 */
		return;
	}
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

void perfdata_forget(const uint8_t *begin, const uint8_t *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)begin + page - 1) & ~(page - 1);
	uintptr_t to = (uintptr_t)end & ~(page - 1);

	/* A failure only means that the memory stays in use. */
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/*
 * Reading the records one by one touches pages all over the file. With each the
 * kernel maps some around it, behind what was forgotten, too: these go the next
 * time.
 */
#define FORGET_EVERY ((uint64_t)1 << 20)
#define FORGET_AGAIN ((uint64_t)1 << 16)

static void forget_behind(struct perfdata_file *f)
{
	if (f->at < f->forgotten || f->at - f->forgotten < FORGET_EVERY)
		return;
	perfdata_forget(f->bytes + f->forgotten -
			    (f->forgotten < FORGET_AGAIN ? f->forgotten : FORGET_AGAIN),
			f->bytes + f->at);
	f->forgotten = f->at;
}

int perfdata_next(struct perfdata_file *f, struct perfdata_record *record, struct ptah_message *why)
{
	while (f->at < f->data_end) {
		uint64_t left = f->data_end - f->at, size;
		const uint8_t *p = f->bytes + f->at;
		struct reader r;
		bool useful;

		forget_behind(f);
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
		record->pid = record->tid = record->ppid = record->ptid = record->cpu = -1;
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

bool perfdata_timing(const struct perfdata_file *f, struct perfdata_timing *timing)
{
	*timing = f->timing;
	return f->has_timing;
}

const char *perfdata_cpuid(const struct perfdata_file *f)
{
	return f->cpuid;
}

const char *perfdata_filter(const struct perfdata_file *f, size_t *n)
{
	*n = f->filter_size ? strnlen((const char *)f->filter, f->filter_size) : 0;
	return (const char *)f->filter;
}

bool perfdata_clock(const struct perfdata_file *f, struct perfdata_clock *clock)
{
	*clock = f->clock;
	return f->has_clock;
}

int perfdata_read_at(struct perfdata_file *f, uint64_t offset, struct perfdata_record *record)
{
	uint64_t at = f->at;
	int status;

	if (offset < f->data_start || offset >= f->data_end)
		return PTAH_E_INVAL;
	f->at = offset;
	status = perfdata_next(f, record, NULL);
	f->at = at;
	return status == 1 ? 0 : PTAH_E_BAD_FILE;
}

bool perfdata_find_build_id(const struct perfdata_file *f, const char *path,
			    struct perfdata_build_id *id)
{
	struct reader r = f->build_ids;
	size_t length = strlen(path);

	while (r.p && (size_t)(r.end - r.p) >= PERFDATA_BUILD_ID_FIXED) {
		const uint8_t *entry = r.p;
		uint16_t misc = load_le16(entry + 4), size = load_le16(entry + 6);

		if (size <= PERFDATA_BUILD_ID_FIXED || !reader_bytes(&r, size))
			break;
		if (length >= (size_t)(size - PERFDATA_BUILD_ID_FIXED) ||
		    memcmp(entry + PERFDATA_BUILD_ID_FIXED, path, length + 1) != 0)
			continue;
		memcpy(id->bytes, entry + 12, PERFDATA_BUILD_ID_MAX);
		id->size = misc & PERFDATA_MISC_BUILD_ID_SIZE && entry[32] <= PERFDATA_BUILD_ID_MAX
			       ? entry[32]
			       : PERFDATA_BUILD_ID_MAX;
		return true;
	}
	return false;
}

uint32_t perfdata_auxtrace(const struct perfdata_file *f)
{
	return f->auxtrace;
}

bool perfdata_snapshot(const struct perfdata_file *f)
{
	return f->snapshot;
}

bool perfdata_unfinished(const struct perfdata_file *f)
{
	return f->unfinished;
}

bool perfdata_truncated(const struct perfdata_file *f)
{
	return f->truncated;
}

uint64_t perfdata_size(const struct perfdata_file *f)
{
	return f->size;
}

const char *perfdata_command(const struct perfdata_file *f)
{
	return f->command.size && !f->command.failed ? (const char *)f->command.bytes : NULL;
}
