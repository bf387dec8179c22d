/* SPDX-License-Identifier: MIT */
/*
 * Profile: how often everything ran.
 *
 * A profile is fed trace bytes as a flow is, and counts instead of returning the
 * path: every block, every branch's outcomes, every indirect edge. The counts are
 * exact, the same as those that a flow over the same bytes adds up to, and many
 * times faster: what a packet does at one place in the code is found out once, by
 * a flow inside, and only counted from then on. The flow also decodes every packet
 * for which nothing is remembered, such as errors and overflows.
 *
 *	ptah_profile_new(image, NULL, &profile);
 *	ptah_profile_feed(profile, bytes, n, true);
 *	ptah_profile_totals(profile, &totals);
 *	ptah_profile_blocks(profile, &blocks, &n);
 *	...
 *	free(blocks);
 *	ptah_profile_free(profile);
 *
 * Memory grows with the distinct code that ran; beyond a few hundred KB it is
 * taken in large pages of 2 MB where the system has them. The image must live as
 * long as the profile. A profile belongs to one thread at a time.
 */
#ifndef PTAH_PROFILE_H
#define PTAH_PROFILE_H

#include <ptah/flow.h>

PTAH_BEGIN_DECLS

struct ptah_profile_config {
	size_t size;		      /* sizeof(struct ptah_profile_config) */
	struct ptah_flow_config flow; /* its size 0: the defaults */
	/*
	 * So many places in the code are remembered at a time, up to 1 KB each; when there are
	 * more, their counts are added up and they are forgotten. 0: 524288; at least
	 * 256.
	 */
	uint32_t max_places;
	bool no_huge_pages; /* do not ask the system for large pages */
	/* Gives every packet to the flow: slow, and the same counts. For comparison. */
	bool no_rows;
	/*
	 * Also runs a plain flow over the same bytes, and returns PTAH_E_INTERNAL once
	 * the two differ: slow, for tests. Libraries built with PTAH_COMPARE always do.
	 * Not done where flow.on_missing is set.
	 */
	bool compare;
	/* Called with every item that is no block (errors, overflows, ...), or NULL. */
	void (*on_event)(void *context, const struct ptah_item *item);
	void *context;
};

struct ptah_profile;

PTAH_API int ptah_profile_new(const struct ptah_image *image,
			      const struct ptah_profile_config *config,
			      struct ptah_profile **profile);
PTAH_API void ptah_profile_free(struct ptah_profile *profile);

/*
 * Counts what n bytes of trace contain, which need not outlive the call. 0, PTAH_E_NOMEM,
 * PTAH_E_INTERNAL.
 */
PTAH_API int ptah_profile_feed(struct ptah_profile *profile, const void *bytes, size_t n,
			       bool last);

/* The next bytes fed are those at `offset` of this trace or of another one. The counts stay. */
PTAH_API void ptah_profile_seek(struct ptah_profile *profile, uint64_t offset);

/* Sets all counts to 0; what the profile knows of the code stays. */
PTAH_API int ptah_profile_reset(struct ptah_profile *profile);

struct ptah_profile_totals {
	uint64_t instructions, blocks;	       /* executed */
	uint64_t classes[PTAH_INSN_CLASS_MAX]; /* blocks by the class of their last instruction */
	uint64_t taken;			       /* conditional branches that were */
	uint64_t errors, overflows, gaps;
	struct ptah_item first_error; /* if errors > 0 */
};

PTAH_API int ptah_profile_totals(struct ptah_profile *profile, struct ptah_profile_totals *totals);

/*
 * Code may change while it runs. Its *version* is the time (TSC) since when the instructions at an
 * address were what they were when they were counted; 0: since the beginning, as nearly always.
 * Counts of different versions are separate, and so are those of different versions of a target:
 * what an address was, is to be asked as of its version (ptah_session_find_map()).
 *
 * A block and how often it ran. The same instructions belong to several blocks
 * when execution entered them at several addresses, or when events cut them: an
 * instruction ran as often as all blocks together that contain it.
 */
struct ptah_profile_block {
	uint64_t ip, end;
	uint64_t target; /* of its direct branch; 0: it has none */
	uint64_t count;
	uint64_t taken;		 /* times the conditional branch was taken */
	uint64_t unknown;	 /* times no packet had its outcome: see PTAH_ITEM_UNKNOWN */
	uint64_t version;	 /* of its code */
	uint64_t target_version; /* of the code at the target */
	uint32_t space;		 /* see ptah_profile_space() */
	uint32_t section;	 /* of the image */
	uint16_t ninsn;
	uint8_t mode;	    /* enum ptah_exec_mode */
	uint8_t insn_class; /* enum ptah_insn_class of the last instruction */
	uint8_t last_size;  /* its bytes */
	bool truncated;	    /* an event cut it */
};

/*
 * An indirect branch and where it went: jumps, calls, returns, far branches. (In counts that were
 * added up from several runs, also direct jumps and calls: see ptah_counts_fold().)
 */
struct ptah_profile_edge {
	uint64_t from, to; /* the branch instruction, its target */
	uint64_t count;
	uint64_t version, target_version; /* of the code at `from` and `to` */
	uint32_t space;
	uint8_t mode;	    /* of the branch */
	uint8_t insn_class; /* enum ptah_insn_class */
};

/* In the order of space, address, mode, end, ..., version. The caller frees the array. */
PTAH_API int ptah_profile_blocks(struct ptah_profile *profile, struct ptah_profile_block **blocks,
				 size_t *n);
PTAH_API int ptah_profile_edges(struct ptah_profile *profile, struct ptah_profile_edge **edges,
				size_t *n);

/* The address space that a `space` stands for. As ptah_flow_space(). */
PTAH_API int ptah_profile_space(const struct ptah_profile *profile, unsigned number,
				struct ptah_space *space);

/*
 * Coverage: what one execution after another ran, for fuzzers.
 *
 * Each execution is a trace of its own, decoded from its beginning; what is known
 * of the code is kept from one to the next. It fills a bitmap of hit counts like
 * AFL's, and adds to exact sets of blocks and edges. The counts equal what a flow
 * over the same bytes gives, errors and overflows included.
 *
 *	ptah_coverage_new(image, NULL, &coverage);
 *	bitmap = ptah_coverage_bitmap(coverage, &size);
 *	while (execute(&bytes, &n)) {
 *		ptah_coverage_run(coverage, bytes, n, &result);
 *		if (result.new_edges || has_new_bits(bitmap, size))
 *			keep_input();
 *	}
 *	ptah_coverage_free(coverage);
 *
 * The time of an execution depends on the length of its trace and on the entries
 * of the bitmap that it touches, not on the size of the bitmap or of the tables.
 * The bytes need no sentinel and no padding, and they may be arbitrary: what
 * cannot be decoded is counted as an error, and decoding continues at the next
 * PSB or TIP.PGE.
 *
 * An edge is a branch that the trace has decided: `from` is the address of the
 * branch instruction, `to` where execution continued.
 *
 * - A conditional branch, taken: its target. Not taken: the address after it.
 *   Both count, also when tracing stopped at the branch (TIP.PGD), if the trace or
 *   the address filter (flow.events.trace.ranges) says where it went.
 * - An indirect jump or call, a return, compressed or not, a far branch: the
 *   target that the trace gives. No edge when tracing stopped at the branch.
 * - Direct jumps and calls are no edges: they follow from what led to them. Nor
 *   are interrupts and other events, the beginning of tracing, and conditional
 *   branches whose outcome is in no packet (PTAH_ITEM_UNKNOWN).
 *
 * The entry of the bitmap is ptah_coverage_index(): the low bits of
 *
 *	h = from * 0x9e3779b97f4a7c15 + to	(modulo 2^64)
 *	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9
 *	h = (h ^ h >> 27) * 0x94d049bb133111eb
 *	h = h ^ h >> 31
 *
 * of the addresses as they are: a program at another base address fills other
 * entries. An entry counts how often its edges ran, up to 255, where it stays;
 * AFL's own counters wrap to 0.
 *
 * Memory as in profile.h, plus 4 bytes for each entry of the bitmap. The image
 * must live as long as the coverage, and may change between two executions, or in
 * flow.on_missing, which is called for code that is not in it yet. A coverage
 * object belongs to one thread at a time; several may share an image that nobody
 * changes.
 */

#define PTAH_COVERAGE_RANGES 8

#define PTAH_COVERAGE_MAX_BITMAP ((size_t)1 << 28)

struct ptah_coverage_config {
	size_t size;		      /* sizeof(struct ptah_coverage_config) */
	struct ptah_flow_config flow; /* its size 0: the defaults */
	uint32_t max_places;	      /* as in struct ptah_profile_config */
	/* Gives every packet to the flow: slow, and the same result. For comparison. */
	bool no_rows;
	/*
	 * The bitmap's memory (NULL: allocated here) and its size in bytes, a power of
	 * two from 8 to PTAH_COVERAGE_MAX_BITMAP; 0: 65536. The caller's memory is
	 * cleared at first; later, the entries that an execution has touched are cleared
	 * before the next. The caller may change it in between.
	 */
	void *bitmap;
	size_t bitmap_size;
	/*
	 * Only edges with both ends in a range, and blocks that begin in one; their mode
	 * is not read. No ranges: everything.
	 */
	struct ptah_range ranges[PTAH_COVERAGE_RANGES];
	unsigned range_count;
	/* Called with every item that is no block (errors, overflows, ...), or NULL. */
	void (*on_event)(void *context, const struct ptah_item *item);
	void *context;
};

struct ptah_coverage;

PTAH_API int ptah_coverage_new(const struct ptah_image *image,
			       const struct ptah_coverage_config *config,
			       struct ptah_coverage **coverage);
PTAH_API void ptah_coverage_free(struct ptah_coverage *coverage);

/* What an execution did. */
struct ptah_coverage_result {
	uint64_t errors, overflows, gaps;
	struct ptah_item first_error; /* if errors > 0 */
	size_t entries;		      /* of the bitmap, that are not 0 */
	size_t new_blocks, new_edges; /* that no earlier execution had */
};

/*
 * One execution: n bytes, a whole trace. They need not outlive the call. `result`
 * may be NULL. Damage in the trace is reported in the result; the call itself can
 * only fail with PTAH_E_NOMEM.
 */
PTAH_API int ptah_coverage_run(struct ptah_coverage *coverage, const void *bytes, size_t n,
			       struct ptah_coverage_result *result);

/* The bitmap of the last execution; it stays where it is. `size` may be NULL. */
PTAH_API uint8_t *ptah_coverage_bitmap(struct ptah_coverage *coverage, size_t *size);

/* The entry of an edge in a bitmap of `size` bytes, a power of two. */
static inline size_t ptah_coverage_index(uint64_t from, uint64_t to, size_t size)
{
	uint64_t h = from * UINT64_C(0x9e3779b97f4a7c15) + to;

	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	return (size_t)(h ^ h >> 31) & (size - 1);
}

/*
 * All blocks and edges of all executions, with how often they ran, for ptah_profile_blocks(),
 * ptah_profile_edges() and ptah_profile_space() alone. Unlike those of other profiles, the edges
 * include conditional branches. The profile belongs to the coverage.
 */
PTAH_API struct ptah_profile *ptah_coverage_profile(struct ptah_coverage *coverage);

PTAH_END_DECLS

#endif
