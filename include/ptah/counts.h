/* SPDX-License-Identifier: MIT */
/*
 * Counts: what profiles have counted, without the profiles.
 *
 * A profile needs an image; its counts do not. Here they are kept by process,
 * with the address spaces, and the files that the addresses belong to, so that
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
 * Pointers that these functions return are valid until the counts are changed or
 * freed. Counts belong to one thread at a time.
 */
#ifndef PTAH_COUNTS_H
#define PTAH_COUNTS_H

#include <ptah/call_tree.h>
#include <ptah/profile.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_counts;

PTAH_API int ptah_counts_new(struct ptah_counts **counts);
PTAH_API void ptah_counts_free(struct ptah_counts *counts);

/* Where a piece of a file was mapped, and which file it was. */
struct ptah_counts_file {
	uint64_t address, size;
	uint64_t file_offset; /* of `address` */
	const char *path;     /* as recorded; "[vdso]", "//anon", ... for what is no file */
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: not known */
	uint64_t version; /* 0; or it is there for addresses of this version alone (profile.h) */
};

/* A name as the kernel keeps it (TASK_COMM_LEN), with its NUL. */
#define PTAH_COMM_SIZE 16

/* One process. All lists are in ascending order, without duplicates. */
struct ptah_counts_process {
	int32_t pid; /* -1: unknown. A process that was several programs is several of one pid */
	const char *comm; /* of its first thread, the last one; "" if not known */
	/* The `space` of blocks and edges is an index into `spaces`; the blocks' `section` is 0. */
	const struct ptah_profile_block *blocks;
	const struct ptah_profile_edge *edges;
	const struct ptah_space *spaces;
	const struct ptah_counts_file *files; /* those of one version do not overlap */
	size_t block_count, edge_count, space_count, file_count;
	struct ptah_profile_totals totals;
	const struct ptah_call_tree *calls; /* NULL: calls were not counted */
	bool folded; /* ptah_counts_fold() made it; not known of counts that were loaded */
};

/*
 * Adds what a profile has counted to the process `pid`. Call ptah_counts_locate()
 * when everything is added. PTAH_E_NOMEM, PTAH_E_LIMIT (a sum would not fit in 64
 * bits): nothing was added.
 */
PTAH_API int ptah_counts_add(struct ptah_counts *counts, int32_t pid, struct ptah_profile *profile);

/*
 * The same for a stream's profile, which may belong to several processes that
 * share a CPU's stream. Losses in such a stream are counted for process -1.
 * Programs that one process ran one after the other stay separate. Also
 * PTAH_E_LIMIT: more than 16384 programs of one pid.
 */
PTAH_API int ptah_counts_add_stream(struct ptah_counts *counts, const struct ptah_session *session,
				    size_t stream, struct ptah_profile *profile);

/*
 * Adds the calls of a tree, in which functions are the addresses where they begin (no map has
 * renamed them). Space 0 is the process's; functions in other spaces are counted, but files are
 * found only for those of space 0. The second function adds to the process that ran in a space of
 * the session. PTAH_E_NOMEM, PTAH_E_LIMIT, PTAH_E_INVAL (a call is open): nothing was added.
 */
PTAH_API int ptah_counts_add_calls(struct ptah_counts *counts, int32_t pid,
				   const struct ptah_call_tree *tree);
PTAH_API int ptah_counts_add_session_calls(struct ptah_counts *counts,
					   const struct ptah_session *session, int32_t space,
					   const struct ptah_call_tree *tree);

/* What the times of the calls are: those of the recordings that were added (session.h). */
enum ptah_counts_times {
	PTAH_COUNTS_MEASURED = 1 << 0,
	PTAH_COUNTS_STAMPED = 1 << 1,
	PTAH_COUNTS_SIMULATED = 1 << 2,
	PTAH_COUNTS_ESTIMATED = 1 << 3, /* ptah_session_time_estimated() of one of them */
	PTAH_COUNTS_TIMES_MAX = 1 << 4
};

/* 0: it is not known, or there are none. Files keep it. */
PTAH_API unsigned ptah_counts_times(const struct ptah_counts *counts);

/*
 * Calls of functions that were at an address before others (struct ptah_function) have addresses
 * of their own in counts: with the version in bits that are 0 in the addresses of programs.
 */
static inline uint64_t ptah_counts_version_address(unsigned version, uint64_t address)
{
	return address >> 48 ? address : (uint64_t)version << 48 | address;
}

/*
 * Finds out which files the counted addresses belong to, and forgets earlier
 * results. `find` is called for every address in the counts, in ascending order
 * of versions and addresses, with the time of its version as
 * ptah_session_find_map() takes it. It fills in the whole mapping that held the
 * address then, or returns false; the path is copied. Where mappings overlap, later results win.
 * `space` is a session's space for counts that came from one (see ptah_session_find_map()), else
 * the pid.
 */
typedef bool ptah_counts_finder(void *context, int32_t space, uint64_t address, uint64_t tsc,
				struct ptah_counts_file *file);
PTAH_API int ptah_counts_locate(struct ptah_counts *counts, ptah_counts_finder *find,
				void *context);

/*
 * Adds all of `from` to `into`. Processes with the same pid and name become one,
 * unless they had different files at one address: then they stay two with one
 * pid. PTAH_E_LIMIT, with nothing added: a sum would not fit in 64 bits, or there
 * would be more than 16384 processes of one pid. PTAH_E_NOMEM: some processes may
 * have been added, each of them whole.
 */
PTAH_API int ptah_counts_merge(struct ptah_counts *into, const struct ptah_counts *from);

/*
 * Adds all of `from`, whose processes are other runs than those before: of other pids, at other
 * addresses, on other machines. `into` is empty or was made by this function. The processes of one
 * program become one, whose pid is -1: those with the same name whose lowest file has the same
 * build id. Files are the same if their build ids are, and get common addresses, so that the
 * process has each of them once. What cannot be added up stays a process of its own, as it was:
 * blocks in code without a build id, in the kernel or across two files, edges to them, and
 * processes with several address spaces. Edges from such code to other code come from one place,
 * in a file "[no build id]", and so do its direct calls and jumps, which are edges then. In calls,
 * such code is one function there; but where paths of calls were folded, the calls of a process
 * with several such functions stay with it. Whatever the order of the calls, equal counts are saved
 * as equal bytes, unless paths of calls are folded because there are too many. PTAH_E_LIMIT,
 * PTAH_E_NOMEM: `into` is then only good to be freed.
 */
PTAH_API int ptah_counts_fold(struct ptah_counts *into, const struct ptah_counts *from);

/* Process i, in the order of their pids. False when there are no more. */
PTAH_API bool ptah_counts_process(const struct ptah_counts *counts, size_t i,
				  struct ptah_counts_process *process);

/* The file that an address of process i belonged to in this version. NULL: not known. */
PTAH_API const struct ptah_counts_file *ptah_counts_find(const struct ptah_counts *counts, size_t i,
							 uint64_t address, uint64_t version);

/* Of all processes. */
PTAH_API int ptah_counts_totals(const struct ptah_counts *counts,
				struct ptah_profile_totals *totals);

/* The counts as the bytes of a file. The same counts give the same bytes. The caller frees them. */
PTAH_API int ptah_counts_save(const struct ptah_counts *counts, void **bytes, size_t *n);

/*
 * Reads counts from such bytes, which need not be trustworthy. PTAH_E_BAD_MAGIC,
 * PTAH_E_UNSUPPORTED (another version), PTAH_E_BAD_FILE, PTAH_E_NOMEM; `why` (may
 * be NULL) has the offset and the reason. Memory is a small multiple of n.
 */
PTAH_API int ptah_counts_load(const void *bytes, size_t n, struct ptah_counts **counts,
			      struct ptah_message *why);

/* The same from a file, whose name begins the message. Also PTAH_E_SYSTEM, as when a signal whose
 * handler was installed without SA_RESTART ends the waiting for a pipe. */
PTAH_API int ptah_counts_open(const char *path, struct ptah_counts **counts,
			      struct ptah_message *why);

/* Does a file begin as saved counts do? False also for what cannot be read. */
PTAH_API bool ptah_counts_recognise(const char *path);

PTAH_END_DECLS

#endif
