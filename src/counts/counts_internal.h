/* SPDX-License-Identifier: MIT */
/*
 * struct ptah_counts and what the files of this layer share. counts.c: processes, added up and
 * merged. add_calls.c: their calls. cancel.c: subtracted. locate.c: the files that addresses lie
 * in. fold.c: processes of different runs, as one. save_counts.c, load_counts.c, save_calls.c,
 * load_calls.c: writing and reading the file format. shard*.c (shard_internal.h): counts of parts
 * of recordings.
 */
#ifndef PTAH_COUNTS_COUNTS_INTERNAL_H
#define PTAH_COUNTS_COUNTS_INTERNAL_H

#include "support/table.h"

#include <ptah/counts.h>

#include <string.h>

/*
 * Most processes with one pid. There is a limit because each is compared with each. On thousands of
 * machines the processes of containers have the same few pids.
 */
#define COUNTS_SAME_PID 16384

/* Where a session's processes with one pid come in their order. */
struct counts_order {
	uint64_t stream; /* the first one with counts of the process */
	struct ptah_space space;
};

struct counts_process {
	int32_t pid;
	int32_t space; /* the session's number: a pid that was several programs has several */
	char comm[PTAH_COMM_SIZE];
	struct ptah_space *spaces;
	struct ptah_profile_block *blocks;
	struct ptah_profile_edge *edges;
	struct ptah_counts_file *files; /* the paths belong to the counts */
	/* Of each file the whole mapping, which others may lie in the middle of. NULL: not known.
	 */
	struct ptah_counts_file *wholes;
	size_t space_count, block_count, edge_count, file_count;
	struct ptah_profile_totals events; /* only errors, overflows, gaps, first_error */
	struct ptah_call_tree *calls;	   /* NULL: not counted */
	struct counts_order order;	   /* while a session is counted */
	bool permanent;			   /* it is listed even if it has no counts */
	bool folded;			   /* its addresses are those of fold.c */
	uint64_t digest;		   /* of what fold.c keeps apart */
	size_t place;			   /* used while they are sorted */
};

/* Sums over all processes. They fit in 64 bits, and so does every smaller sum. */
struct counts_sums {
	uint64_t instructions, edges, errors, overflows, gaps;
	/* Of call trees: figures of the roots; calls, and what histograms and `partial` count. */
	struct ptah_call_figures figures;
	uint64_t calls;
};

struct ptah_counts {
	struct counts_process *processes; /* sorted by pid */
	size_t count, capacity;
	struct counts_sums sums;
	unsigned times;	      /* enum ptah_counts_times */
	struct strings paths; /* equal paths are the same pointer */
};

void counts_free_process(struct counts_process *p);

/* Adds *p, of which it takes ownership also on failure, to the process that is the same. */
int counts_add_process(struct ptah_counts *counts, struct counts_process *p);

/*
 * Adds what a profile has counted to the process `pid`. PTAH_E_NOMEM, PTAH_E_LIMIT (a sum would not
 * fit in 64 bits): nothing was added.
 */
int counts_add_profile(struct ptah_counts *counts, int32_t pid, struct ptah_profile *profile);

/* lists.c: *into becomes the sum of both, without `wholes`. On PTAH_E_NOMEM it is unchanged. */
int counts_join(struct counts_process *into, const struct counts_process *from);

/* The file that an address of the process belongs to. NULL: not known. */
const struct ptah_counts_file *counts_find_file(const struct counts_process *p, uint64_t address,
						uint64_t version);

/* The order of files: by version, then by address. */
int counts_compare_files(const void *a, const void *b);

/* Whether the two are the same process of one session. */
static inline bool counts_same_program(const struct counts_process *a,
				       const struct counts_process *b)
{
	return a->space == b->space && !memcmp(a->comm, b->comm, sizeof(a->comm));
}

/* Replaces the paths of the process's files by those that the counts own. PTAH_E_NOMEM. */
int counts_keep_paths(struct ptah_counts *counts, struct counts_process *p);

/* The address spaces of both, each once and in order. The caller frees them. NULL: no memory. */
struct ptah_space *counts_common_spaces(const struct counts_process *a,
					const struct counts_process *b, size_t *count);

/*
 * A copy of the lists of blocks and edges, which have the spaces' numbers in `spaces`. The caller
 * frees it also on PTAH_E_NOMEM.
 */
int counts_copy_renumbered(struct counts_process *copy, const struct counts_process *p,
			   const struct ptah_space *spaces, size_t count);

/* Sorts the lists, which have a profile's order. PTAH_E_NOMEM: they are unchanged. */
int counts_sort(struct counts_process *p);

/* Removes the spaces that nothing was counted in. PTAH_E_NOMEM: nothing was removed. */
int counts_drop_spaces(struct counts_process *p);

/* Sorts the processes by pid, and by their order of a session if `by_order`. */
void counts_put_in_order(struct ptah_counts *counts, bool by_order);

/* Adds the sums of `from`. False when they would overflow: then they are unchanged. */
bool counts_add_sums(struct counts_sums *into, const struct counts_sums *from);

/*
 * cancel.c: takes what both have counted away from both: blocks, edges, errors, overflows and gaps.
 * PTAH_E_NOMEM: both are unchanged.
 */
int counts_cancel(struct counts_process *a, struct counts_process *b);

/*
 * A first error as counts have it: neither the estimate of its time nor the image's numbers mean
 * anything later.
 */
static inline struct ptah_item counts_timeless(const struct ptah_item *error)
{
	struct ptah_item item = *error;

	item.tsc = item.value = 0;
	item.tsc_error = 0;
	return item;
}

/* Whether the process has no counts. */
bool counts_is_empty(const struct counts_process *p);

/* locate.c: as ptah_counts_locate(), for one process, whose space is passed to `find`. */
int counts_locate(struct ptah_counts *counts, struct counts_process *p, ptah_counts_finder *find,
		  void *context);

/*
 * Finds the files of `p` again from those of two processes, of one session, of whose addresses it
 * has some and no others.
 */
int counts_locate_in(struct ptah_counts *counts, struct counts_process *p,
		     const struct counts_process *a, const struct counts_process *b);

/* A process without counts, with the pid and the name that the session has for a space. */
struct counts_process counts_process_of_space(const struct ptah_session *session, int32_t space);

/* Adds a tree to the sums. False when they would overflow. */
bool counts_sum_calls(struct counts_sums *sums, const struct ptah_call_tree *tree);

/* The sum of two processes' calls, NULL if neither has any. PTAH_E_NOMEM. */
int counts_join_calls(const struct ptah_call_tree *a, const struct ptah_call_tree *b,
		      struct ptah_call_tree **sum);

/*
 * Gives the address spaces of `tree`, but for 0, numbers that `other` does not have: they are of
 * another recording. PTAH_E_NOMEM, PTAH_E_LIMIT.
 */
int counts_move_spaces(struct ptah_call_tree **tree, const struct ptah_call_tree *other);

/* Appends a process of zeros. NULL when out of memory. */
struct counts_process *counts_append(struct ptah_counts *counts);

/* The same for the place `at` in the list. */
struct counts_process *counts_insert(struct ptah_counts *counts, size_t at);

/* The index of the first of the first `count` processes whose pid is not smaller. */
size_t counts_first_of_pid(const struct ptah_counts *counts, size_t count, int32_t pid);

/* Adds the process to the sums. False when they would overflow: then they are unchanged. */
bool counts_sum(struct counts_sums *sums, const struct counts_process *p);

/* Adds errors, overflows and gaps, and takes over the first error if there was none. */
void counts_add_events(struct ptah_profile_totals *into, const struct ptah_profile_totals *from);

/* The orders of the lists. 0: the same key, whatever the counts. */
int counts_compare_spaces(const void *a, const void *b);
int counts_compare_blocks(const void *a, const void *b);
int counts_compare_edges(const void *a, const void *b);

/* Whether both map the same bytes of the same file to an address that they share. */
bool counts_same_mapping(const struct ptah_counts_file *a, const struct ptah_counts_file *b);

/* The version of which a finder is asked at this time. */
static inline uint64_t counts_version_at(uint64_t tsc)
{
	return tsc == PTAH_TIME_FIRST ? 0 : tsc;
}

/* The address of its last byte, which may be the last of the address space. */
static inline uint64_t counts_last(const struct ptah_counts_file *f)
{
	return f->address + (f->size - 1);
}

/* The file format. Everything is little-endian; see docs/profile-file.md. */
#define SHARD_MAGIC    "PTAHSHRD"
#define COUNTS_MAGIC   "PTAHCNTS"
#define COUNTS_VERSION 4

enum counts_layout {
	COUNTS_AT_VERSION = 8,
	COUNTS_AT_SIZE = 16,
	COUNTS_AT_CHECKSUM = 24,
	COUNTS_HEADER = 32,	/* the checksum covers everything from here on */
	COUNTS_PROCESS_1 = 112, /* of version 1, which has no name */
	COUNTS_PROCESS_2 = 128, /* of version 2, which has no calls */
	COUNTS_PROCESS = 136,
	COUNTS_SPACE = 16,
	COUNTS_FILE = 56, /* followed by the path, with zeros up to a multiple of 8 */
	COUNTS_BLOCK = 64,
	COUNTS_EDGE = 32,
	COUNTS_CODE = 8, /* a version of code, after a file's fixed part, two after the others */
	COUNTS_CALLS = 56,
	COUNTS_FUNCTION = 24, /* followed by its histograms */
	COUNTS_NODE = 48,
	COUNTS_PAIR = 64,
};

/* The type that the first error has in the file. */
#define COUNTS_IS_ERROR 1

/* The most bytes of a number of variable length (LEB128). */
#define COUNTS_LEB 10

/* Writes such a number, in as few bytes as it takes, and returns how many. */
static inline size_t counts_put_leb(uint8_t bytes[COUNTS_LEB], uint64_t value)
{
	size_t n = 0;

	for (; value > 0x7f; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	return n;
}

/* Completes the header of a file of n bytes: its size and checksum. */
void counts_put_header(uint8_t *bytes, size_t n);

/* Whether the process has counts of versions of code. */
bool counts_have_versions(const struct counts_process *p);

/* Writes a process, with versions of code if the file has them. False: out of memory. */
struct perfdata_buffer;
bool counts_put_process(struct perfdata_buffer *out, const struct counts_process *p, unsigned times,
			bool versions);

/* Writes the calls of a process. False: out of memory. */
bool counts_put_calls(struct perfdata_buffer *out, const struct ptah_call_tree *tree);

/* FNV-1a, 64 bits. */
#define COUNTS_CHECKSUM_BEGIN UINT64_C(0xcbf29ce484222325)

/* Continues a checksum with more bytes. */
static inline uint64_t counts_checksum_on(uint64_t hash, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static inline uint64_t counts_checksum(const uint8_t *bytes, size_t n)
{
	return counts_checksum_on(COUNTS_CHECKSUM_BEGIN, bytes, n);
}

/*
 * Reads counts from such bytes, which need not be trustworthy. PTAH_E_BAD_MAGIC,
 * PTAH_E_UNSUPPORTED (another version), PTAH_E_BAD_FILE, PTAH_E_NOMEM; `why` (may
 * be NULL) has the offset and the reason. Memory is a small multiple of n.
 */
int counts_load(const void *bytes, size_t n, struct ptah_counts **counts, struct ptah_message *why);

/* As ptah_counts_add_session_calls(), for a process of this number. */
int counts_add_calls(struct ptah_counts *counts, int32_t pid, const struct ptah_call_tree *tree);

#endif
