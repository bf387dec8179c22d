/* SPDX-License-Identifier: MIT */
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
 *	ptah_shard_join(shard, more, &why);			in any order
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
#ifndef PTAH_SHARD_H
#define PTAH_SHARD_H

#include <ptah/counts.h>

PTAH_BEGIN_DECLS

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

PTAH_API uint32_t ptah_shard_plan_parts(const struct ptah_shard_plan *plan);

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
 */
PTAH_API int ptah_shard_join(struct ptah_shard *into, const struct ptah_shard *from,
			     struct ptah_message *why);

/*
 * Whether the two can be joined: 0; 1 if they belong together, but both contain a part; or
 * PTAH_E_BAD_FILE or PTAH_E_LIMIT as above.
 */
PTAH_API int ptah_shard_belongs(const struct ptah_shard *into, const struct ptah_shard *from,
				struct ptah_message *why);

/* The number of parts of the plan, and how many of them the shard has. */
PTAH_API uint32_t ptah_shard_parts(const struct ptah_shard *shard);
PTAH_API uint32_t ptah_shard_present(const struct ptah_shard *shard);
PTAH_API bool ptah_shard_has(const struct ptah_shard *shard, uint32_t part);

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
PTAH_API bool ptah_shard_recognise(const char *path);

PTAH_END_DECLS

#endif
