/* SPDX-License-Identifier: MIT */
/*
 * Makes marks (<ptah/calls.h>) of what one thread ran.
 *
 * A call machine is fed what one thread ran, in order (blocks, and the events between them), and
 * returns the beginnings and ends of its calls, as batches. Nothing is invented: a call whose
 * beginning or end the trace does not show says so.
 *
 *	calls_marks_new(&config, &calls);
 *	while ((n = ptah_flow_read(flow, items, 256)) > 0)
 *		for (k = 0; k < n; k += used) {
 *			used = calls_marks_take(calls, items + k, n - k, marks, 512, &count);
 *			use(marks, count);
 *		}
 *	while ((count = calls_marks_finish(calls, marks, 512)) > 0) // ends what is still open
 *		use(marks, count);
 *	calls_marks_free(calls);
 *
 * The marks do not depend on where the items are cut into batches, nor on the capacity. A machine
 * belongs to one thread at a time. Its memory is bounded by its configuration, not by the trace.
 */
#ifndef PTAH_CALLS_CALLS_H
#define PTAH_CALLS_CALLS_H

#include <ptah/calls.h>

/*
 * Finds the bounds of the function that holds the byte at `address` at time `tsc` (0: not known).
 * `space` is that of the block that runs there. The answer is kept until
 * calls_marks_code_changed(). False: not known.
 */
typedef bool calls_function_finder(void *context, unsigned space, uint64_t address, uint64_t tsc,
				   struct ptah_function *function);

/*
 * How many instructions are in [from, to), the end of a block that ran from one function into the
 * next, which begins at `from`. 0: not known; then they count for the first.
 */
typedef unsigned calls_insn_counter(void *context, unsigned space, uint64_t from, uint64_t to,
				    uint64_t tsc);

struct calls_config {
	size_t size; /* sizeof(struct calls_config) */
	/*
	 * NULL: nothing is known of functions. Then they begin where calls go to, and a jump leaves
	 * a function when it goes to where a call went before.
	 */
	calls_function_finder *find;
	void *find_context;
	calls_insn_counter *count; /* with find_context; NULL: it is never known */
	uint32_t max_depth; /* calls below this depth are left out; 0: PTAH_CALLS_MAX_DEPTH */
};

struct calls_marks;

/* `config` may be NULL for the defaults. */
int calls_marks_new(const struct calls_config *config, struct calls_marks **calls);
void calls_marks_free(struct calls_marks *calls);

/*
 * Takes items, as ptah_flow_read() returns them, and writes marks. Returns how many items were
 * used, which are fewer than n when the marks are full (*count == capacity), or a negative
 * enum ptah_error. Cycles are counted where there are TICK items (ptah_event_config.ticks).
 */
int calls_marks_take(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		     struct ptah_call_mark *marks, size_t capacity, size_t *count);

/*
 * The same of spans, as ptah_flow_read_spans() returns them: much faster. The bounds that the flow
 * was given must be those of calls_marks_bounds().
 */
int calls_marks_take_spans(struct calls_marks *calls, const struct ptah_span *spans, size_t n,
			   struct ptah_call_mark *marks, size_t capacity, size_t *count);

/* A ptah_flow_bounds, whose context is a struct calls_marks. */
bool calls_marks_bounds(void *calls, unsigned space, uint64_t ip, uint64_t *low, uint64_t *high);

/* The present time; and until when it went on without anything that ran. */
uint64_t calls_marks_time(const struct calls_marks *calls);
void calls_marks_wait(struct calls_marks *calls, uint64_t until);

/*
 * The trace ends: ends the calls that are open, the innermost first. Returns how many marks were
 * written; 0 when all have been. After that the machine is as new.
 */
int calls_marks_finish(struct calls_marks *calls, struct ptah_call_mark *marks, size_t capacity);

/*
 * What the items do not say, at the place between the items taken and those to come:
 * the process has executed another program (at time `tsc`; 0: not known); something was lost;
 * the core cycles so far (struct ptah_time). The marks come from the next call of take() or
 * finish().
 */
int calls_marks_exec(struct calls_marks *calls, uint64_t tsc);
int calls_marks_lost(struct calls_marks *calls);

/* What the thread did, from the beginning to the end of the last item or span that was taken. */
void calls_marks_counts(const struct calls_marks *calls, struct ptah_call_counts *counts);

/* Code was mapped, unmapped or generated: answers of `find` may differ from now on. */
void calls_marks_code_changed(struct calls_marks *calls);

#endif
