/* SPDX-License-Identifier: MIT */
/*
 * Counts: what profiles have counted, on its own.
 *
 * A profile needs an image; its counts do not. Here they are kept by process,
 * with the address spaces and the files that their addresses lie in, so that
 * they can be saved, and shown, compared or added to others later, without the
 * recording. Saved counts are a file of their own (docs/profile-file.md).
 *
 *	ptah_counts_new(&counts);
 *	ptah_counts_add(counts, pid, profile);
 *	ptah_counts_locate(counts, find, context);
 *	ptah_counts_save(counts, &bytes, &n);
 *	...
 *	ptah_counts_open("saved", &more, &why);
 *	ptah_counts_merge(counts, more);
 *	for (size_t i = 0; ptah_counts_process(counts, i, &process); i++)
 *		use(process.blocks, process.block_count);
 *
 * What is handed out lives until the counts are changed or freed. Counts belong
 * to one thread at a time.
 */
#ifndef PTAH_COUNTS_H
#define PTAH_COUNTS_H

#include <ptah/profile.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_counts;

PTAH_API int ptah_counts_new(struct ptah_counts **counts);
PTAH_API void ptah_counts_free(struct ptah_counts *counts);

/* Where a piece of a file lay, and which file it was. */
struct ptah_counts_file {
	uint64_t address, size;
	uint64_t file_offset; /* of `address` */
	const char *path;     /* as recorded; "[vdso]", "//anon", ... for what is no file */
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: not known */
};

/* A name as the kernel keeps it (TASK_COMM_LEN), with its NUL. */
#define PTAH_COMM_SIZE 16

/* One process. All lists are in ascending order and nothing in them stands twice. */
struct ptah_counts_process {
	int32_t pid; /* -1: unknown. A process that was several programs is several of one pid */
	const char *comm; /* of its first thread, the last one; "" if not known */
	/* Their `space` is an index into `spaces`, the blocks' `section` is 0. */
	const struct ptah_profile_block *blocks;
	const struct ptah_profile_edge *edges;
	const struct ptah_space *spaces;
	const struct ptah_counts_file *files; /* they do not overlap */
	size_t block_count, edge_count, space_count, file_count;
	struct ptah_profile_totals totals;
};

/*
 * Adds what a profile has counted to the process `pid`. Locate when all is added.
 * PTAH_E_NOMEM, PTAH_E_LIMIT (a sum would not fit in 64 bits): nothing was added.
 */
PTAH_API int ptah_counts_add(struct ptah_counts *counts, int32_t pid, struct ptah_profile *profile);

/*
 * The same for the processes that a stream's profile is of: several, where they
 * share a CPU's stream. What was lost there is counted for process -1. Programs
 * that one process ran after each other stay apart. Also PTAH_E_LIMIT: more than
 * 1024 programs of one pid.
 */
PTAH_API int ptah_counts_add_stream(struct ptah_counts *counts, const struct ptah_session *session,
				    size_t stream, struct ptah_profile *profile);

/*
 * Tells the counts which files their addresses lie in; what they knew is
 * forgotten. `find` is asked in ascending order for every address that stands
 * in a count and fills in the whole mapping that holds it, or returns false; the
 * path is copied. A mapping is kept as far as other answers leave it. `space` is
 * the session's for what came from one (ptah_session_find_map()), else the pid.
 */
typedef bool ptah_counts_finder(void *context, int32_t space, uint64_t address,
				struct ptah_counts_file *file);
PTAH_API int ptah_counts_locate(struct ptah_counts *counts, ptah_counts_finder *find,
				void *context);

/*
 * Adds all of `from` to `into`. Processes are one when their pid and name are,
 * unless they had different files at one address: then they are two of one pid.
 * PTAH_E_LIMIT, with nothing added: a sum would not fit in 64 bits, or there
 * would be more than 1024 processes of one pid. PTAH_E_NOMEM: some processes
 * may have been added, each of them whole.
 */
PTAH_API int ptah_counts_merge(struct ptah_counts *into, const struct ptah_counts *from);

/* Process i, in the order of their pids. False when there are no more. */
PTAH_API bool ptah_counts_process(const struct ptah_counts *counts, size_t i,
				  struct ptah_counts_process *process);

/* What held an address of process i. NULL: not known. */
PTAH_API const struct ptah_counts_file *ptah_counts_find(const struct ptah_counts *counts, size_t i,
							 uint64_t address);

/* Of all processes. */
PTAH_API int ptah_counts_totals(const struct ptah_counts *counts,
				struct ptah_profile_totals *totals);

/* The counts as the bytes of a file. The same counts give the same bytes. The caller frees them. */
PTAH_API int ptah_counts_save(const struct ptah_counts *counts, void **bytes, size_t *n);

/*
 * Counts from such bytes, which may come from anyone. PTAH_E_BAD_MAGIC,
 * PTAH_E_UNSUPPORTED (another version), PTAH_E_BAD_FILE, PTAH_E_NOMEM; `why`
 * (may be NULL) then tells the offset and the reason. Memory is a small multiple
 * of n.
 */
PTAH_API int ptah_counts_load(const void *bytes, size_t n, struct ptah_counts **counts,
			      struct ptah_message *why);

/* The same from a file, whose name begins the message. Also PTAH_E_SYSTEM. */
PTAH_API int ptah_counts_open(const char *path, struct ptah_counts **counts,
			      struct ptah_message *why);

/* Does a file begin as saved counts do? False also for what cannot be read. */
PTAH_API bool ptah_counts_recognise(const char *path);

PTAH_END_DECLS

#endif
