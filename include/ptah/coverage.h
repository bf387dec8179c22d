/* SPDX-License-Identifier: MIT */
/*
 * Coverage: what one execution after another ran, for fuzzers.
 *
 * Each execution is a trace of its own, decoded from nothing; what is known of
 * the code stays. It fills a bitmap of hit counts, as AFL's, and adds to exact
 * sets of blocks and edges. Counted as in profile.h: equal to what a flow over
 * the same bytes tells, errors and overflows with it.
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
 * An execution costs what its trace has, and each entry of the bitmap that it
 * touched; never the size of the bitmap or of the tables. The bytes need no
 * sentinel and no padding, and any bytes will do: what cannot be decoded is
 * counted as an error, and decoding goes on at the next PSB or TIP.PGE.
 *
 * An edge is an outcome that the trace has decided: `from` is the address of
 * the branch instruction, `to` where execution went on.
 *
 * - A conditional branch, taken: its target. Not taken: the address behind it.
 *   Both count, also when tracing stopped at the branch (TIP.PGD), if the trace, or
 *   the filter's ranges (flow.ranges), say where it went.
 * - An indirect jump or call, a return, compressed or not, a far branch: the
 *   target that the trace gives. When tracing stopped at the branch, none.
 * - Direct jumps and calls are no edges: they add nothing to what led there.
 *   Interrupts and other events are none, nor is where tracing begins. A
 *   conditional branch whose outcome is in no packet (PTAH_ITEM_UNKNOWN) is none.
 *
 * The entry of the bitmap is ptah_coverage_index(): the low bits of
 *
 *	h = from * 0x9e3779b97f4a7c15 + to	(modulo 2^64)
 *	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9
 *	h = (h ^ h >> 27) * 0x94d049bb133111eb
 *	h = h ^ h >> 31
 *
 * of the addresses as they are: with another base address it is another bitmap.
 * An entry counts how often its edges ran, up to 255, where it stays: unlike
 * AFL's own it does not wrap to 0.
 *
 * Memory as in profile.h, plus 4 bytes for each entry of the bitmap. The image
 * must live as long as the coverage, and may change between two executions, or
 * by flow.on_missing, which is asked for pages that are not known yet. A
 * coverage belongs to one thread at a time; several may share an image that
 * nobody changes.
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
	/* Takes every packet the flow's way: slow, and the same result. For comparison. */
	bool no_rows;
	/*
	 * The bitmap: where (NULL: memory of its own), and its bytes, a power of two
	 * from 8 to PTAH_COVERAGE_MAX_BITMAP; 0: 65536. Memory of the caller's is
	 * made 0 first; from then on what an execution has touched is made 0 before
	 * the next. The caller may change it in between.
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

/* What an execution was. */
struct ptah_coverage_result {
	uint64_t errors, overflows, gaps;
	struct ptah_item first_error; /* if errors > 0 */
	size_t entries;		      /* of the bitmap that are not 0 */
	size_t new_blocks, new_edges; /* that no execution before had */
};

/*
 * One execution: n bytes, a whole trace. They need not outlive the call. `result`
 * may be NULL. Damage in the trace is told in the result; PTAH_E_NOMEM is left.
 */
PTAH_API int ptah_coverage_run(struct ptah_coverage *coverage, const void *bytes, size_t n,
			       struct ptah_coverage_result *result);

/*
 * The same in pieces: begin, feed until `last`, end. The bitmap is complete after
 * the end, and 0 from the next begin on.
 */
PTAH_API int ptah_coverage_begin(struct ptah_coverage *coverage);
PTAH_API int ptah_coverage_feed(struct ptah_coverage *coverage, const void *bytes, size_t n,
				bool last);
PTAH_API int ptah_coverage_end(struct ptah_coverage *coverage, struct ptah_coverage_result *result);

/* The bitmap of the last execution; it stays where it is. `size` may be NULL. */
PTAH_API uint8_t *ptah_coverage_bitmap(struct ptah_coverage *coverage, size_t *size);

/* Where in a bitmap of `size` bytes, a power of two, an edge counts. */
PTAH_API size_t ptah_coverage_index(uint64_t from, uint64_t to, size_t size);

/*
 * All that the executions ran, with how often; in the order of struct
 * ptah_profile's lists. Edges have conditional branches among them. The caller
 * frees the array.
 */
PTAH_API int ptah_coverage_blocks(struct ptah_coverage *coverage,
				  struct ptah_profile_block **blocks, size_t *n);
PTAH_API int ptah_coverage_edges(struct ptah_coverage *coverage, struct ptah_profile_edge **edges,
				 size_t *n);

/* The sets become empty; what is known of the code stays. Not within an execution. */
PTAH_API int ptah_coverage_reset(struct ptah_coverage *coverage);

/* The address space that a `space` stands for. As ptah_flow_space(). */
PTAH_API int ptah_coverage_space(const struct ptah_coverage *coverage, unsigned number,
				 struct ptah_space *space);

PTAH_END_DECLS

#endif
