/* SPDX-License-Identifier: MIT */
/*
 * struct ptah_shard and what its files share. shard_plan.c: which part of which recording a part
 * is. shard_count.c: counts a part. shard.c: adds up parts, and makes counts of them all.
 * save_shard.c, load_shard.c: writing and reading the file format.
 */
#ifndef PTAH_COUNTS_SHARD_INTERNAL_H
#define PTAH_COUNTS_SHARD_INTERNAL_H

#include "counts/counts_internal.h"

#include <ptah/counts.h>

/* shard_plan.c */

struct planned_recording {
	char *path;
	uint64_t bytes; /* of its files; at least 1 */
	uint64_t first; /* bytes of the recordings before it */
};

struct ptah_shard_plan {
	struct planned_recording *recordings;
	size_t count;
	uint64_t bytes; /* of all recordings */
	uint64_t digest;
	uint32_t parts;
};

/* A path without its folders. */
const char *shard_name(const char *path);

/*
 * The trace of a recording that is in a part: [from, to) of its `trace` bytes, with the streams one
 * after the other. `from` 0: the recording begins in this part; `to` UINT64_MAX: it ends there.
 */
void shard_plan_range(const struct ptah_shard_plan *plan, uint32_t part, size_t recording,
		      uint64_t *from, uint64_t *to, uint64_t trace);

/* Whether something of the recording is in this part. */
bool shard_plan_touches(const struct ptah_shard_plan *plan, uint32_t part, size_t recording);

/* shard_count.c */

enum shard_range_flags {
	RANGE_HAS_ERROR = 1 << 0, /* first_error is the first one from `from` on */
	/*
	 * There is no error from `from` on to the end of the stream but first_error and those after
	 * it: what ranges after this one have as their first errors is not valid.
	 */
	RANGE_SETTLED = 1 << 1,
};

/* A range of a stream that was counted. */
struct shard_range {
	uint64_t stream;
	uint64_t from, to;	      /* offsets; 0, UINT64_MAX: beginning and end of the stream */
	uint64_t begin, end;	      /* digests of the states there; of beginning and end 0 */
	int32_t space;		      /* of the process to which errors of the stream belong */
	uint32_t flags;		      /* enum shard_range_flags */
	struct ptah_item first_error; /* zeros if there is none */
};

struct shard_recording {
	uint32_t index; /* in the plan */
	bool unread;	/* a part could not open it: nothing of it is kept */
	char *name;
	uint64_t digest;		  /* of its streams */
	struct ptah_counts *plus, *minus; /* to be added, to be subtracted; without first errors */
	struct shard_range *ranges;	  /* sorted by stream and offset */
	size_t range_count, range_capacity;
};

struct ptah_shard {
	uint64_t plan; /* digest of the plan */
	uint32_t parts, present;
	uint32_t planned;		    /* number of recordings of the plan */
	uint8_t *bits;			    /* bit i: part i + 1 is there */
	struct shard_recording *recordings; /* sorted by their index */
	size_t count, capacity;
};

/* shard.c */

int shard_new(struct ptah_shard **shard, uint32_t parts, uint32_t planned, uint64_t plan);

/* Adds a recording without counts, whose index is greater than those there. NULL: no memory. */
struct shard_recording *shard_add_recording(struct ptah_shard *shard, uint32_t index,
					    const char *name, size_t length);

/* Forgets what was counted of a recording. */
void shard_forget_counts(struct shard_recording *r);

/* Adds a range of zeros. NULL: out of memory. */
struct shard_range *shard_add_range(struct shard_recording *r);

/* The order of ranges. */
int shard_compare_ranges(const void *a, const void *b);

/*
 * Takes away what is both in the counts to be added and in those to be subtracted, finds the files
 * of the rest, and forgets processes without counts.
 */
int shard_cancel(struct shard_recording *r);

/* The bytes of the bitmap of parts in memory and in the file. */
static inline size_t shard_bitmap_size(uint32_t parts)
{
	return ((size_t)parts + 63) / 64 * 8;
}

/* The file format; see docs/profile-file.md. */
#define SHARD_VERSION 1

enum shard_layout {
	SHARD_RANGE = 96,
	SHARD_PROCESS = 32,
	SHARD_WHOLE = 16,
};

/* Flags of a recording, and of a process. */
enum shard_file_flags {
	SHARD_UNREAD = 1 << 0,
	SHARD_PERMANENT = 1 << 0,
	SHARD_WHOLES = 1 << 1, /* its mappings follow */
};

uint32_t shard_present(const struct ptah_shard *shard);

#endif
