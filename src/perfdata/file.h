/* SPDX-License-Identifier: MIT */
/*
 * The inside of an open recording, shared by the files that read it: source.c
 * brings its bytes into memory, header.c knows what stands before the records,
 * attrs.c which event a record belongs to, spool.c unpacks compressed records,
 * reader.c goes from record to record, record_fields.c knows what stands in each.
 */
#ifndef PTAH_PERFDATA_FILE_H
#define PTAH_PERFDATA_FILE_H

#include "base/reader.h"
#include "perfdata/buffer.h"
#include "perfdata/format.h"
#include "perfdata/message.h"
#include "perfdata/reader.h"

/* A file of the recording: perf record --threads writes several. */
struct perfdata_part {
	char *path;
	const uint8_t *bytes; /* mapped */
	uint64_t size;
	uint64_t base;		 /* what is added to its offsets, to tell the parts apart */
	uint64_t start, at, end; /* the records, and where to go on */
	uint64_t forgotten;	 /* up to here pages may be gone (perfdata_forget) */
};

/* Unpacked records have offsets from here on. */
#define PERFDATA_SPOOL_BASE (UINT64_C(1) << 62)

struct perfdata_attr {
	uint32_t type;
	uint64_t config, sample_type, read_format, flags;
	bool sched_switch; /* the tracepoint sched:sched_switch */
};

struct perfdata_id {
	uint64_t id;
	uint32_t attr;
};

struct perfdata_file {
	const char *path; /* for messages: a copy */
	struct perfdata_part *parts;
	size_t part_count, part; /* the one that is read */
	bool pipe;		 /* written through a pipe: no header but the magic */
	bool unfinished, truncated;

	struct perfdata_attr *attrs;
	size_t attr_count, attr_capacity;
	struct perfdata_id *ids; /* sorted when they are looked for */
	size_t id_count, id_capacity;
	bool ids_sorted;
	bool same_sample_ids; /* all events end their records alike */

	/* Unpacked records: for each compressed one their size, a u64, and the records. */
	bool unpacked;
	uint64_t first_compressed; /* in the part at hand */
	const uint8_t *spool;
	uint64_t spool_size, spool_at;	       /* the next of them */
	uint64_t chunk_at, chunk_end;	       /* the records of the last one, in the spool */
	bool compressed;		       /* the header tells of it ... */
	uint32_t compress_kind, unpacked_most; /* ... by what, and what a record may become */

	uint32_t auxtrace; /* AUXTRACE_INFO's kind; 0: none was read */
	bool has_clock, snapshot, aux_samples;
	struct perfdata_clock clock;
	bool has_timing;
	struct perfdata_timing timing;
	struct reader build_ids;       /* the header's list */
	struct reader *more_build_ids; /* a record each, of a pipe */
	size_t build_id_count, build_id_capacity;
	char cpuid[64];	       /* the processor, as the header tells it; "": it does not */
	const uint8_t *filter; /* AUXTRACE_INFO's */
	size_t filter_size;
	struct perfdata_buffer command;
	char *kcore; /* the copy of the kernel's memory beside it, or NULL */
};

/* "a record ... at offset N of FILE", for what is wrong at `p`. */
int perfdata_bad(const struct perfdata_file *f, struct ptah_message *why, uint64_t offset,
		 const char *what);

static inline bool perfdata_in(const struct perfdata_part *part, uint64_t offset, uint64_t size)
{
	return offset <= part->size && size <= part->size - offset;
}

/* A bigger array, when it is full. False: memory is out, and the array is as before. */
bool perfdata_room(void **array, size_t count, size_t *capacity, size_t size);

/* source.c: maps what `path` names: a file, a folder of perf's, a pipe, "-" for standard input. */
int perfdata_map(struct perfdata_file *f, const char *path, struct ptah_message *why);

/* A file without a name, which goes when it is closed. Its descriptor, or -1 with errno. */
int perfdata_temporary(void);

/* header.c */
int perfdata_read_header(struct perfdata_file *f, struct ptah_message *why);
int perfdata_read_feature(struct perfdata_file *f, unsigned feature, struct reader r,
			  struct ptah_message *why);

/* attrs.c */
int perfdata_read_attrs(struct perfdata_file *f, struct ptah_message *why);
/* A HEADER_ATTR record's body. */
int perfdata_add_attr(struct perfdata_file *f, struct reader r);
/* The event's name, as EVENT_DESC and EVENT_UPDATE tell it. */
void perfdata_name_event(struct perfdata_file *f, uint64_t id, const uint8_t *name, size_t n);

/* What an attribute says about the sample ids that end its records: 0 when they do not. */
uint64_t perfdata_sample_bits(const struct perfdata_attr *attr);

/* The event of a record, by the id at its place; NULL: none is known. */
const struct perfdata_attr *perfdata_attr_of(struct perfdata_file *f, const struct reader *body);
const struct perfdata_attr *perfdata_attr_of_sample(struct perfdata_file *f,
						    const struct reader *body);

/* record_fields.c */
/* Fills in *record from its body. False when the record is of no use here. */
bool perfdata_read_record(struct perfdata_file *f, struct reader *r, uint16_t misc,
			  struct perfdata_record *record);
/* What a pipe has in place of a header; the record begins at `begin`. 0, or an error. */
int perfdata_read_piped(struct perfdata_file *f, struct reader *r, const uint8_t *begin,
			uint32_t type, struct ptah_message *why);

/* spool.c: unpacks the compressed records from where reading stands to the end. */
int perfdata_unpack(struct perfdata_file *f, struct ptah_message *why);

#endif
