/* SPDX-License-Identifier: MIT */
/* Reads what precedes the records of a perf.data file, and its features. */
#include "perfdata/file.h"

#include <inttypes.h>
#include <stdlib.h>

static int check_magic(const struct perfdata_file *f, struct ptah_message *why)
{
	const struct perfdata_part *part = f->parts;

	if (part->size < 16)
		return perfdata_message(why, part->size ? PTAH_E_BAD_MAGIC : PTAH_E_EMPTY,
					part->size ? "%s: too short to be a perf.data file"
						   : "%s: the file is empty",
					f->path);
	if (!memcmp(part->bytes, PERFDATA_MAGIC_SWAPPED, 8))
		return perfdata_message(why, PTAH_E_FOREIGN,
					"%s: recorded on a big-endian machine; Intel PT is not",
					f->path);
	if (!memcmp(part->bytes, PERFDATA_MAGIC_OLD, 8))
		return perfdata_message(
		    why, PTAH_E_UNSUPPORTED,
		    "%s: a perf.data file of before Linux 3.1, which cannot hold "
		    "Intel PT",
		    f->path);
	if (memcmp(part->bytes, PERFDATA_MAGIC, 8))
		return perfdata_message(why, PTAH_E_BAD_MAGIC,
					"%s: not a perf.data file (for raw packets use --pt)",
					f->path);
	return 0;
}

static void append_argument(struct perfdata_file *f, const char *text, size_t n)
{
	if (f->command.size)
		perfdata_put(&f->command, " ", 1);
	perfdata_put(&f->command, text, n);
}

static void read_header_command(struct perfdata_file *f, struct reader r)
{
	uint32_t n = reader_u32(&r);

	f->command.size = 0;
	for (uint32_t i = 0; i < n && !r.failed && f->command.size < 65536; i++) {
		uint32_t size = reader_u32(&r);
		const uint8_t *text = reader_bytes(&r, size);

		if (text)
			append_argument(f, (const char *)text, strnlen((const char *)text, size));
	}
	perfdata_put(&f->command, "", 1);
}

/* EVENT_DESC: the names of the events, each with its attribute and its ids. */
static void read_event_names(struct perfdata_file *f, struct reader r)
{
	uint32_t n = reader_u32(&r), attr_size = reader_u32(&r);

	while (n-- && !r.failed) {
		const uint8_t *name;
		uint32_t ids, size;

		reader_bytes(&r, attr_size);
		ids = reader_u32(&r);
		size = reader_u32(&r);
		name = reader_bytes(&r, size);
		while (name && ids-- && !r.failed)
			perfdata_name_event(f, reader_u64(&r), name, size);
	}
}

/* Reads a string of at most size - 1 bytes; a longer one is not used. */
static void read_header_string(struct reader r, char *into, size_t size)
{
	uint32_t n = reader_u32(&r);
	const char *text = (const char *)reader_bytes(&r, n);
	size_t length = text ? strnlen(text, n) : size;

	if (length >= size)
		return;
	memcpy(into, text, length);
	into[length] = '\0';
}

static int read_architecture(const struct perfdata_file *f, struct reader r,
			     struct ptah_message *why)
{
	uint32_t n = reader_u32(&r);
	const char *text = (const char *)reader_bytes(&r, n);

	if (!text || !strncmp(text, "x86_64", n))
		return 0;
	return perfdata_message(why, PTAH_E_FOREIGN,
				"%s: recorded on %.*s; Ptah decodes recordings of x86_64", f->path,
				(int)strnlen(text, n < 64 ? n : 64), text);
}

/* u32 version, kind, level, ratio, and the largest size of an unpacked record. */
static void read_compression(struct perfdata_file *f, struct reader r)
{
	reader_u32(&r);
	f->compress_kind = reader_u32(&r);
	reader_u32(&r);
	reader_u32(&r);
	f->unpacked_most = reader_u32(&r);
	f->compressed = !r.failed;
}

/* Few features are used, and a malformed one is no reason to refuse the trace. */
int perfdata_read_feature(struct perfdata_file *f, unsigned feature, struct reader r,
			  struct ptah_message *why)
{
	switch (feature) {
	case PERFDATA_FEATURE_BUILD_ID:
		f->build_ids = r;
		break;
	case PERFDATA_FEATURE_CMDLINE:
		read_header_command(f, r);
		break;
	case PERFDATA_FEATURE_CPUID:
		read_header_string(r, f->cpuid, sizeof(f->cpuid));
		break;
	case PERFDATA_FEATURE_OSRELEASE:
		read_header_string(r, f->osrelease, sizeof(f->osrelease));
		break;
	case PERFDATA_FEATURE_HOSTNAME:
		read_header_string(r, f->hostname, sizeof(f->hostname));
		break;
	case PERFDATA_FEATURE_EVENT_DESC:
		read_event_names(f, r);
		break;
	case PERFDATA_FEATURE_TRACING_DATA:
		f->tracing = r;
		break;
	case PERFDATA_FEATURE_BPF_PROG_INFO:
		f->programs = r;
		break;
	case PERFDATA_FEATURE_COMPRESSED:
		read_compression(f, r);
		break;
	case PERFDATA_FEATURE_ARCH:
		return read_architecture(f, r, why);
	default:
		break;
	}
	return 0;
}

static int read_features(struct perfdata_file *f, struct ptah_message *why)
{
	const struct perfdata_part *part = f->parts;
	const uint8_t *bits = part->bytes + PERFDATA_AT_FEATURES;
	uint64_t table = part->end;

	for (unsigned i = 0; i < PERFDATA_FEATURE_MAX; i++) {
		uint64_t offset, size;
		int status;

		if (!(bits[i / 8] >> i % 8 & 1))
			continue;
		if (!perfdata_in(part, table, PERFDATA_SECTION_SIZE))
			break;
		offset = load_le64(part->bytes + table);
		size = load_le64(part->bytes + table + 8);
		table += PERFDATA_SECTION_SIZE;
		if (!perfdata_in(part, offset, size))
			continue;
		status = perfdata_read_feature(
		    f, i, (struct reader){part->bytes + offset, part->bytes + offset + size, false},
		    why);
		if (status < 0)
			return status;
	}
	return 0;
}

/*
 * Whether there are features. Ptah and perf write them last: if there are none, the recorder was
 * killed.
 */
static bool has_features(const struct perfdata_part *part)
{
	static const uint8_t none[8 * PERFDATA_FEATURE_WORDS];

	return memcmp(part->bytes + PERFDATA_AT_FEATURES, none, sizeof(none)) != 0;
}

static int read_file_header(struct perfdata_file *f, struct ptah_message *why)
{
	struct perfdata_part *part = f->parts;
	uint64_t size;
	int status;

	if (part->size < PERFDATA_HEADER_SIZE)
		return perfdata_bad(f, why, part->size, "the file ends inside its header,");
	status = perfdata_read_attrs(f, why);
	if (status < 0)
		return status;
	part->at = part->start = load_le64(part->bytes + PERFDATA_AT_DATA);
	size = load_le64(part->bytes + PERFDATA_AT_DATA_SIZE);
	if (part->at < PERFDATA_HEADER_SIZE || part->at > part->size)
		return perfdata_bad(f, why, PERFDATA_AT_DATA,
				    "the header's data section lies outside the file,");
	f->truncated = !perfdata_in(part, part->at, size);
	/* In a folder the first file may have no records, because the others have them all. */
	f->unfinished = f->truncated || (!size && f->part_count == 1) || !has_features(part);
	/* perf writes the size of the data at the end, Ptah repeatedly. */
	part->end = f->truncated || (!size && f->unfinished) ? part->size : part->at + size;
	return f->unfinished ? 0 : read_features(f, why);
}

int perfdata_read_header(struct perfdata_file *f, struct ptah_message *why)
{
	struct perfdata_part *part = f->parts;
	int status = check_magic(f, why);

	if (status < 0)
		return status;
	/* The other files have records and nothing else. */
	for (size_t i = 1; i < f->part_count; i++)
		f->parts[i].end = f->parts[i].size;
	f->pipe = load_le64(part->bytes + PERFDATA_AT_SIZE) == PERFDATA_PIPE_SIZE;
	if (!f->pipe)
		return read_file_header(f, why);
	part->at = part->start = PERFDATA_PIPE_SIZE;
	part->end = part->size;
	return 0;
}
