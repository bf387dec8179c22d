/* SPDX-License-Identifier: MIT */
/*
 * Segments: a stream whose items are worked on by several threads, with results in order.
 *
 * ptah_reader_read() returns all items to one thread. Where more is to be done with an item than to
 * decode it, such as to print it, that thread is what everything waits for. Here the stream is cut
 * at PSBs, and each thread decodes a segment and does the work for it:
 *
 *	int run(void *context, struct ptah_segment *segment)
 *	{
 *		struct ptah_reader *reader = ptah_segment_reader(segment);
 *		int n;
 *
 *		while ((n = ptah_reader_read(reader, items, 128)) > 0)
 *			if (ptah_segment_put(segment, make_text(items, n)) != 0)
 *				break;
 *		return n < 0 ? n : 0;
 *	}
 *
 * The results are passed to the caller's thread, in the order of the stream: those of all items,
 * each once, as if one thread had read them.
 */
#ifndef PTAH_SEGMENTS_H
#define PTAH_SEGMENTS_H

#include <ptah/session.h>

PTAH_BEGIN_DECLS

struct ptah_segment;

struct ptah_segment_functions {
	size_t size; /* sizeof(struct ptah_segment_functions) */
	/*
	 * Works on the items of one segment. Runs in the threads of the jobs, several times at
	 * once, or in the caller's thread. 0, or a negative status that ends everything.
	 */
	int (*run)(void *context, struct ptah_segment *segment);
	/*
	 * Takes over the next result, in the caller's thread. `offset` says how far the stream has
	 * been read. A negative result ends everything. 1: the result is of no use, because the
	 * work depends on what was before the segment; the caller's thread then runs the rest of
	 * the segment, from the first item of this result on.
	 */
	int (*take)(void *context, void *result, uint64_t offset);
	/* Frees a result that is not taken. In any thread. */
	void (*drop)(void *context, void *result);
	/* So many results may wait for the caller's thread, for each job. 0: 1 */
	size_t results;
};

/*
 * Reads a stream. `jobs` as for a reader; jobs->progress is not called. Where nothing can be read
 * ahead (one job, a short stream, a window, a CPU's stream whose threads are followed), run() is
 * called once, in the caller's thread, and reads the stream from its beginning to its end.
 * Otherwise it is called for a segment in the caller's thread where the segment did not begin in
 * the state in which the one before it ended. Memory: as a reader, and the results that wait.
 * Returns 0, an error, or the negative result of a function.
 */
PTAH_API int ptah_session_read_segments(const struct ptah_session *session, size_t index,
					const struct ptah_jobs *jobs,
					const struct ptah_segment_functions *functions,
					void *context);

/*
 * Reads the items of the segment. It lives as long as run(), and belongs to its thread;
 * ptah_reader_insns() and the others work as for the items of the whole stream.
 */
PTAH_API struct ptah_reader *ptah_segment_reader(struct ptah_segment *segment);

/* Is it a job's thread? Then nothing is known of what was before the segment. */
PTAH_API bool ptah_segment_is_ahead(const struct ptah_segment *segment);

/*
 * Passes a result of the items that the reader has returned so far and that are in no result yet.
 * Waits while too many others wait. 0; 1: no more results are wanted, and run() should return; or
 * an error. The result is taken or dropped in any case.
 */
PTAH_API int ptah_segment_put(struct ptah_segment *segment, void *result);

PTAH_END_DECLS

#endif
