/* SPDX-License-Identifier: MIT */
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
#ifndef PTAH_COVERAGE_H
#define PTAH_COVERAGE_H

#include <ptah/profile.h>

PTAH_BEGIN_DECLS

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

/*
 * The same in pieces: begin, feed until `last`, end. The bitmap is complete after
 * the end, and is cleared by the next begin.
 */
PTAH_API int ptah_coverage_begin(struct ptah_coverage *coverage);
PTAH_API int ptah_coverage_feed(struct ptah_coverage *coverage, const void *bytes, size_t n,
				bool last);
PTAH_API int ptah_coverage_end(struct ptah_coverage *coverage, struct ptah_coverage_result *result);

/* The bitmap of the last execution; it stays where it is. `size` may be NULL. */
PTAH_API uint8_t *ptah_coverage_bitmap(struct ptah_coverage *coverage, size_t *size);

/* The entry of an edge in a bitmap of `size` bytes, a power of two. */
PTAH_API size_t ptah_coverage_index(uint64_t from, uint64_t to, size_t size);

/*
 * All blocks and edges of all executions, with how often they ran, in the order
 * of ptah_profile_blocks() and ptah_profile_edges(). Unlike a profile's, the
 * edges include conditional branches. The caller frees the array.
 */
PTAH_API int ptah_coverage_blocks(struct ptah_coverage *coverage,
				  struct ptah_profile_block **blocks, size_t *n);
PTAH_API int ptah_coverage_edges(struct ptah_coverage *coverage, struct ptah_profile_edge **edges,
				 size_t *n);

/* Empties the sets; what is known of the code stays. Not between begin and end. */
PTAH_API int ptah_coverage_reset(struct ptah_coverage *coverage);

/* The address space that a `space` stands for. As ptah_flow_space(). */
PTAH_API int ptah_coverage_space(const struct ptah_coverage *coverage, unsigned number,
				 struct ptah_space *space);

PTAH_END_DECLS

#endif
