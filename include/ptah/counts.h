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
 *	ptah_counts_add_stream(counts, session, stream, profile);
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

#include <ptah/calls.h>
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
 * Adds what a stream's profile has counted to the process that ran, or to the processes that share
 * a CPU's stream. Call ptah_counts_locate() when everything is added. PTAH_E_NOMEM, PTAH_E_LIMIT
 * (a sum would not fit in 64 bits): nothing was added. Losses in such a stream are counted for process -1.
 * Programs that one process ran one after the other stay separate. Also
 * PTAH_E_LIMIT: more than 16384 programs of one pid.
 */
PTAH_API int ptah_counts_add_stream(struct ptah_counts *counts, const struct ptah_session *session,
				    size_t stream, struct ptah_profile *profile);

/*
 * Adds the calls of a tree to the process that ran in a space of the session. The functions of the
 * tree are the addresses where they begin (no map has renamed them). Space 0 is the process's;
 * functions in other spaces are counted, but files are found only for those of space 0. PTAH_E_NOMEM, PTAH_E_LIMIT, PTAH_E_INVAL (a call is open): nothing was added.
 */
PTAH_API int ptah_counts_add_session_calls(struct ptah_counts *counts,
					   const struct ptah_session *session, int32_t space,
					   const struct ptah_call_tree *tree);

/* What the times of the calls are: those of the recordings that were added (session.h). */
enum ptah_counts_times {
	PTAH_COUNTS_MEASURED = 1 << 0,
	PTAH_COUNTS_STAMPED = 1 << 1,
	PTAH_COUNTS_SIMULATED = 1 << 2,
	PTAH_COUNTS_ESTIMATED = 1 << 3, /* `estimated` of one of them */
	PTAH_COUNTS_TIMES_MAX = 1 << 4
};

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

/*
 * Of all processes. *times, unless `times` is NULL: what the times of the calls are, enum
 * ptah_counts_times; 0: it is not known, or there are none. Files keep it.
 */
PTAH_API int ptah_counts_totals(const struct ptah_counts *counts,
				struct ptah_profile_totals *totals, unsigned *times);

/* The counts as the bytes of a file. The same counts give the same bytes. The caller frees them. */
PTAH_API int ptah_counts_save(const struct ptah_counts *counts, void **bytes, size_t *n);

/* The same from a file, whose name begins the message. Also PTAH_E_SYSTEM, as when a signal whose
 * handler was installed without SA_RESTART ends the waiting for a pipe. */
PTAH_API int ptah_counts_open(const char *path, struct ptah_counts **counts,
			      struct ptah_message *why);

/* What a file is, by how it begins. */
enum ptah_counts_kind {
	PTAH_COUNTS_NONE,  /* neither of these, or it cannot be read */
	PTAH_COUNTS_SUM,   /* ptah_counts_open() reads it */
	PTAH_COUNTS_SHARD, /* ptah_shard_open() reads it */
	PTAH_COUNTS_KIND_MAX
};

PTAH_API enum ptah_counts_kind ptah_counts_recognise(const char *path);

/*
 * Shards: parts of recordings that are counted separately, on as many machines as
 * there are, and joined to exactly what one process would have counted.
 *
 * A plan divides recordings into parts of equal size. Every machine that makes the
 * plan from the same recordings gets the same parts, so that only the number of its
 * part has to be sent to it:
 *
 *	ptah_shard_plan_new(paths, n, 64, options, &plan, &why);
 *	ptah_shard_count(plan, 3, &source, &shard, &why);	part 3 of 64
 *	ptah_shard_save(shard, &bytes, &size);
 *	...
 *	ptah_shard_load(bytes, size, &more, &why);
 *	ptah_shard_join(shard, more, false, &why);		in any order
 *	...
 *	ptah_shard_finish(shard, &counts, &why);		all are there
 *
 * Counting a part reads its own piece of the trace, and what the recording contains
 * besides its trace. A part begins at a PSB, in the state of a decoder that knows
 * nothing of the trace before it. The previous part finds out whether the trace
 * before the PSB leads to that state. If it does not, the previous part continues
 * until the states are equal, and keeps two counts of that piece: its own, which
 * are right, and those of the next part, which are subtracted when the two are
 * joined. So shards add up without the recordings.
 *
 * Shards belong to one thread at a time.
 */

/* The most parts of a plan. */
#define PTAH_SHARD_PARTS_MAX 1048576

struct ptah_shard_plan;

/*
 * Divides recordings into `parts` of equal size, by the bytes of their files; none is opened. A
 * folder counts with all files in it. `options` is any text that says what else the counts depend
 * on (NULL: nothing); shards of different texts are not joined. Paths count without their folders,
 * which may differ between machines. PTAH_E_INVAL: parts is 0 or above the limit;
 * PTAH_E_SYSTEM: a recording is not there, or is no file or folder; PTAH_E_NOMEM.
 */
PTAH_API int ptah_shard_plan_new(const char *const *paths, size_t n, uint32_t parts,
				 const char *options, struct ptah_shard_plan **plan,
				 struct ptah_message *why);
PTAH_API void ptah_shard_plan_free(struct ptah_shard_plan *plan);

/* The bytes of a part, from 1 on; 0: of all. They are those of the files, not of trace. */
PTAH_API uint64_t ptah_shard_plan_bytes(const struct ptah_shard_plan *plan, uint32_t part);

/* An open recording, and what to count of it. */
struct ptah_shard_recording {
	struct ptah_session *session;
	/* Which streams are counted; NULL: all. Equal for all parts (see `options`). */
	bool (*wants)(void *context, const struct ptah_session *session, size_t stream);
	ptah_counts_finder *find; /* NULL: no files are found */
	void *context;		  /* of both */
};

/* Where recordings come from. */
struct ptah_shard_source {
	size_t size; /* sizeof(struct ptah_shard_source) */
	/* Opens a recording of the plan; at first *recording is zeros. Negative: an error, of which
	 * *why is the message. */
	int (*open)(void *context, const char *path, struct ptah_shard_recording *recording,
		    struct ptah_message *why);
	void (*close)(void *context, struct ptah_shard_recording *recording);
	/* Or NULL. Called now and then with the number of trace bytes done; false ends the count
	 * with PTAH_E_LIMIT. */
	bool (*progress)(void *context, uint64_t bytes);
	void *context;
	/* A recording that cannot be opened is noted in the shard, and left out of what all shards
	 * add up to (ptah_shard_unread()); otherwise it ends the count. */
	bool keep_going;
};

struct ptah_shard;

/* Counts a part of the plan, from 1 on. */
PTAH_API int ptah_shard_count(const struct ptah_shard_plan *plan, uint32_t part,
			      const struct ptah_shard_source *source, struct ptah_shard **shard,
			      struct ptah_message *why);
PTAH_API void ptah_shard_free(struct ptah_shard *shard);

/*
 * Adds all of `from`. PTAH_E_BAD_FILE: they do not belong together, and *why says how: they are of
 * other recordings, of another number of parts, or both contain a part. PTAH_E_LIMIT: a sum would
 * not fit in 64 bits. Nothing was added then; after PTAH_E_NOMEM `into` is only good to be freed.
 * check: only find out whether they can be joined; 1 if they belong together, but both contain a part.
 */
PTAH_API int ptah_shard_join(struct ptah_shard *into, const struct ptah_shard *from, bool check,
			     struct ptah_message *why);

/*
 * Whether the shard has a part, which are numbered from 1 on: 1 or 0. PTAH_E_MISSING: the plan has no
 * such part.
 */
PTAH_API int ptah_shard_has(const struct ptah_shard *shard, uint32_t part);

/* The i-th recording that a part could not read; NULL: there are no more. */
PTAH_API const char *ptah_shard_unread(const struct ptah_shard *shard, size_t i);

/*
 * What all parts have counted together: the same as one process that counts the recordings, and
 * adds them up in their order. PTAH_E_MISSING: parts are missing; PTAH_E_BAD_FILE: parts do not
 * fit together, although they are of one plan. *why says which.
 */
PTAH_API int ptah_shard_finish(const struct ptah_shard *shard, struct ptah_counts **counts,
			       struct ptah_message *why);

/*
 * As those of counts (counts.h), in a format of their own; a shard whose parts are all there is
 * still a shard.
 */
PTAH_API int ptah_shard_save(const struct ptah_shard *shard, void **bytes, size_t *n);
PTAH_API int ptah_shard_load(const void *bytes, size_t n, struct ptah_shard **shard,
			     struct ptah_message *why);
PTAH_API int ptah_shard_open(const char *path, struct ptah_shard **shard, struct ptah_message *why);

PTAH_END_DECLS

#endif
