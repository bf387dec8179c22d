/* SPDX-License-Identifier: MIT */
/*
 * What the files that read a recording share: source.c maps its bytes, file_header.c reads what
 * precedes the records, bare_records.c opens files that have records and nothing else, attrs.c says
 * which event a record belongs to, spool.c unpacks compressed records (unpacker.c, one of them),
 * reader.c goes from record to record, record_fields.c reads the fields of each, and sample.c those
 * of samples.
 */
#ifndef PTAH_PERFDATA_FILE_H
#define PTAH_PERFDATA_FILE_H

#include "base/reader.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"
#include "perfdata/message.h"
#include "perfdata/reader.h"

/* One file of the recording. perf record --threads writes several. */
struct perfdata_part {
	char *path;
	const uint8_t *bytes; /* the mapped file */
	uint64_t size;
	uint64_t base; /* added to its offsets, so that offsets of different parts differ */
	uint64_t start, at, end; /* the records are [start, end); the next one is `at` */
	uint64_t forgotten;	 /* up to here pages may have been released (perfdata_forget) */
	bool shared;		 /* the mapping is an earlier part's */
	/* Of bare records: how they end, and what they lack themselves. */
	size_t attr;
	int32_t cpu, pid, tid;
	int64_t earlier; /* nanoseconds that are subtracted from their times */
	bool primary;
};

/* Offsets of unpacked records begin here. */
#define PERFDATA_SPOOL_BASE (UINT64_C(1) << 62)

struct perfdata_attr {
	uint32_t type;
	uint64_t config, sample_type, read_format, flags;
	uint64_t branch_type, regs_user, regs_intr; /* what samples have of branches, registers */
	bool sched_switch;			    /* the tracepoint sched:sched_switch */
	const uint8_t *bytes, *name; /* as in the file; NULL: of bare records; no name is known */
	size_t size, name_size;
	size_t id_count; /* of the file's ids that are of this event */
};

struct perfdata_id {
	uint64_t id;
	uint32_t attr;
};

/* The buffer that an event writes to, from ID_INDEX. */
struct perfdata_place {
	uint64_t id;
	uint32_t index;
	int32_t cpu, tid; /* -1: any */
	bool guest;	  /* the event was recorded in a virtual machine */
};

struct perfdata_file {
	const char *path; /* a copy, for messages */
	struct perfdata_part *parts;
	size_t part_count, part; /* part: the one that is being read */
	bool pipe;		 /* written through a pipe: no header but the magic */
	bool bare;		 /* records without a header: perfdata_open_records() */
	bool all;		 /* perfdata_next() returns every record */
	bool wants_samples;	 /* and samples of all events */
	bool unfinished, truncated;
	size_t cut; /* truncated: the part that was cut */

	struct perfdata_attr *attrs;
	size_t attr_count, attr_capacity;
	size_t first_attr;	 /* records whose id is unknown end as those of this event */
	struct perfdata_id *ids; /* sorted before the first search */
	size_t id_count, id_capacity;
	bool ids_sorted;
	struct perfdata_place *places; /* sorted before the first search */
	size_t place_count, place_capacity;
	bool places_sorted, has_guests; /* has_guests: some place is a guest's */
	bool same_sample_ids;		/* the records of all events end in the same way */

	/* Unpacked records: for each compressed one their size, a u64, and the records. */
	bool unpacked;
	uint64_t first_compressed; /* in the current part */
	const uint8_t *spool;
	uint64_t spool_size, spool_at; /* spool_at: the next record's */
	uint64_t chunk_at, chunk_end;  /* those of the current compressed record, in the spool */
	/* The header: whether records are compressed, how, and the largest size of one unpacked. */
	bool compressed;
	uint32_t compress_kind, unpacked_most;

	uint32_t auxtrace; /* kind in AUXTRACE_INFO; 0: none was read yet */
	bool has_clock, snapshot, per_cpu, aux_samples;
	struct perfdata_clock clock;
	uint32_t time_source; /* enum perfdata_time_source */
	bool has_timing;
	struct perfdata_timing timing;
	struct reader build_ids;       /* the list in the header */
	struct reader *more_build_ids; /* for a pipe: one for each HEADER_BUILD_ID record */
	size_t build_id_count, build_id_capacity;
	char cpuid[64];	       /* the processor according to the header; "": not in there */
	const uint8_t *filter; /* in AUXTRACE_INFO */
	size_t filter_size;
	struct perfdata_buffer command;
	/* Paths of the copies of the kernel's memory and symbols beside the recording, or NULL. */
	char *kcore, *kallsyms;
	struct reader programs; /* of BPF, in the header */
	struct reader tracing;	/* the formats of tracepoints; p NULL: there are none */
	bool kernel;		/* an event of Intel PT does not exclude the kernel */
	char osrelease[65];	/* the kernel's release according to the header; "": not in there */
	char hostname[65];	/* the same of the machine's name */
};

/* Returns PTAH_E_BAD_FILE with the sentence "FILE: `what` at offset N". */
int perfdata_bad(const struct perfdata_file *f, struct ptah_message *why, uint64_t offset,
		 const char *what);

static inline bool perfdata_in(const struct perfdata_part *part, uint64_t offset, uint64_t size)
{
	return offset <= part->size && size <= part->size - offset;
}

/* source.c: maps what `path` names: a file, a folder of perf's, a pipe, "-" for standard input. */
int perfdata_map(struct perfdata_file *f, const char *path, struct ptah_message *why);
/* Adds a part: the file `path`, which must be a regular one. */
int perfdata_map_bare(struct perfdata_file *f, const char *path, struct ptah_message *why);

/*
 * Creates a file without a name, which vanishes when it is closed. Returns its descriptor, or -1
 * with errno.
 */
int perfdata_temporary(void);

/* file_header.c */
int perfdata_read_header(struct perfdata_file *f, struct ptah_message *why);
int perfdata_read_feature(struct perfdata_file *f, unsigned feature, struct reader r,
			  struct ptah_message *why);

/* attrs.c */
int perfdata_read_attrs(struct perfdata_file *f, struct ptah_message *why);
/*
 * Adds an event of bare records, whose ends have the fields in `sample_type`. `id` NULL: it is
 * recognised by the part alone.
 */
int perfdata_add_bare_attr(struct perfdata_file *f, uint64_t sample_type, const uint64_t *id);
/* Takes the body of a HEADER_ATTR record. */
int perfdata_add_attr(struct perfdata_file *f, struct reader r);
/* Takes an event's name, from EVENT_DESC or EVENT_UPDATE. */
void perfdata_name_event(struct perfdata_file *f, uint64_t id, const uint8_t *name, size_t n);

/* Which sample id fields end the event's records; 0: none. */
uint64_t perfdata_sample_bits(const struct perfdata_attr *attr);

/* The event that a record (a sample) belongs to, by the id in it. NULL: unknown. */
const struct perfdata_attr *perfdata_attr_of(struct perfdata_file *f, const struct reader *body);
const struct perfdata_attr *perfdata_attr_of_sample(struct perfdata_file *f,
						    const struct reader *body);

/* record_fields.c */
/* Fills in *record from its body. False: the record is not used. */
bool perfdata_read_record(struct perfdata_file *f, struct reader *r, uint16_t misc,
			  struct perfdata_record *record);
/*
 * Takes a record that a pipe has instead of a header. The record begins at `begin`. 0, or an error.
 */
int perfdata_read_piped(struct perfdata_file *f, struct reader *r, const uint8_t *begin,
			uint32_t type, struct ptah_message *why);

/* sample.c */
/* Reads a sample. False: it is not used. */
bool perfdata_read_sample(struct perfdata_file *f, struct reader *r,
			  struct perfdata_record *record);
void perfdata_read_id_index(struct perfdata_file *f, struct reader *r);
/* The place of an event's buffer. NULL: ID_INDEX has none. */
const struct perfdata_place *perfdata_find_place(struct perfdata_file *f, uint64_t id);

/* spool.c: unpacks all compressed records from the current one to the end. */
int perfdata_unpack(struct perfdata_file *f, struct ptah_message *why);

#endif
