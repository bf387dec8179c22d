/* SPDX-License-Identifier: MIT */
/*
 * Calls: which function called which, when, and for how long.
 *
 * A call machine is fed what one thread ran, in order (blocks, and the events between them), and
 * returns the beginnings and ends of its calls, as batches. Nothing is invented: a call whose
 * beginning or end the trace does not show says so.
 *
 *	ptah_calls_new(&config, &calls);
 *	while ((n = ptah_flow_read(flow, items, 256)) > 0)
 *		for (k = 0; k < n; k += used) {
 *			used = ptah_calls_take(calls, items + k, n - k, marks, 512, &count);
 *			use(marks, count);
 *		}
 *	while ((count = ptah_calls_finish(calls, marks, 512)) > 0) // ends what is still open
 *		use(marks, count);
 *	ptah_calls_free(calls);
 *
 * The marks do not depend on where the items are cut into batches, nor on the capacity. A machine
 * belongs to one thread at a time. Its memory is bounded by its configuration, not by the trace.
 *
 * Nesting. Calls nest: ends come in the opposite order of the beginnings, and every beginning has
 * exactly one end, at the latest from ptah_calls_finish().
 *
 * Tail calls. A function that is left by a jump to another function stays open, as the caller of
 * that function, and ends together with it (PTAH_CALL_END_TAIL): calls nest as they stand in the
 * source. Where a function is tail-called that is in the present chain of tail calls already, the
 * calls from there on end first, and in a long chain (PTAH_CALLS_MAX_CHAIN) its last call does: so
 * loops of tail calls do not get deeper and deeper.
 *
 * Stacks. A coroutine that runs for the first time is nested in the function that switched to it.
 * Where that function returns while the coroutine has not, the coroutine's calls end as
 * PTAH_CALL_END_SUSPENDED. When execution continues at the return address of one of them,
 * they begin again as PTAH_CALL_RESUMED, with the same `id`, nested in the function that
 * switched to them.
 *
 * Sums. Every instruction belongs to the call that is innermost when it runs: the `self`
 * instructions of all ends add up to the instructions of the blocks.
 */
#ifndef PTAH_CALLS_H
#define PTAH_CALLS_H

#include <ptah/flow.h>
#include <ptah/function.h>

PTAH_BEGIN_DECLS

/* How a call began. */
enum ptah_call_begin {
	/* By a call instruction; or, `site` 0, by what the trace does not show: its first
	 * instruction is the first that runs after code outside of a filter, or after a loss, or at
	 * all. */
	PTAH_CALL_CALLED,
	PTAH_CALL_TAIL, /* by a jump, or by a return that serves as one (a tail call, a PLT stub) */
	PTAH_CALL_SIGNAL, /* the kernel entered a signal handler; `site` is what was interrupted */
	PTAH_CALL_INTERRUPT, /* interrupt or exception, where the kernel is traced */
	PTAH_CALL_SYSCALL,   /* system call, where the kernel is traced */
	PTAH_CALL_RESUMED,   /* a suspended call continues: no new call */
	/*
	 * It runs, but not from its first instruction on, and no new call is seen: it ran when the
	 * trace began or when decoding continued after a loss; a caller that is known only since a
	 * call returned to it. `site` is 0.
	 */
	PTAH_CALL_RUNNING,
	PTAH_CALL_BEGIN_MAX
};

/* How a call ended. */
enum ptah_call_end {
	PTAH_CALL_END_RETURN,  /* it returned */
	PTAH_CALL_END_TAIL,    /* it had left by a jump, and what it jumped to has ended */
	PTAH_CALL_END_UNWOUND, /* longjmp, an exception, sigreturn: one of its callers continues */
	PTAH_CALL_END_SUSPENDED, /* another stack runs: it may be resumed */
	PTAH_CALL_END_LOST,	 /* it ended in a loss: how and when is not known */
	PTAH_CALL_END_EXEC,	 /* the process executed another program */
	PTAH_CALL_END_TRACE,	 /* the trace ends: the call continues, or the thread ended in it */
	PTAH_CALL_END_MAX
};

enum ptah_call_flags {
	/* The beginning is not in the trace: figures count from where it was first seen. */
	PTAH_CALL_NO_BEGIN = 1 << 0,
	/* End: where it ended is not in the trace (END_LOST, END_TRACE, END_EXEC). */
	PTAH_CALL_NO_END = 1 << 1,
	/*
	 * End: a loss (gap, overflow, error) lies within it. Its figures leave the loss out, and
	 * that it is still the same call after the loss is only not contradicted.
	 */
	PTAH_CALL_HAS_LOSS = 1 << 2,
	/* The function's bounds are not known: `function` is the first address of it that ran. */
	PTAH_CALL_NO_BOUNDS = 1 << 3,
	PTAH_CALL_STUB = 1 << 4, /* PTAH_FUNCTION_STUB or PTAH_FUNCTION_RESOLVER */
	/* Calls below were too deep (max_depth) and were left out: their figures are in its `self`.
	 */
	PTAH_CALL_FOLDED = 1 << 5,
	/* RESUMED: several suspended stacks continue at this address, and this may be another one.
	 * END: execution continued, by an exception or longjmp(), in this call or as well in one
	 * below it. */
	PTAH_CALL_UNSURE = 1 << 6,
	PTAH_CALL_KERNEL = 1 << 7, /* the function is in the upper half of the address space */
	/* What a signal handler returned to: it ends by rt_sigreturn. */
	PTAH_CALL_RESTORER = 1 << 8,
};

/* What a thread did: between two places, or from its beginning to a place. */
struct ptah_call_counts {
	uint64_t instructions;
	uint64_t cycles; /* of the core; 0 where there are no CYC packets */
	/*
	 * TSC ticks that passed, losses left out; and those of them in which tracing was off: in
	 * untraced system calls and interrupts, in code outside of a filter, and while other
	 * threads ran. Both are 0 while `tsc` is not known.
	 */
	uint64_t ticks, off_ticks;
};

/* A beginning or an end of a call. */
struct ptah_call_mark {
	uint8_t end;	   /* 0: a beginning, 1: an end */
	uint8_t how;	   /* enum ptah_call_begin, or enum ptah_call_end */
	uint16_t flags;	   /* enum ptah_call_flags */
	uint8_t tsc_error; /* as in struct ptah_item */
	uint8_t reserved;
	/*
	 * Of the function: as in a block, see ptah_flow_space(). PTAH_CALLS_VERSION plus a version
	 * where other functions were at its address at other times (struct ptah_function);
	 * ptah_call_thread_space() knows what it stands for.
	 */
	uint16_t space;
	uint32_t depth; /* how many calls are open below it: 0 is the outermost one known */
	/*
	 * `depth`, relative to the function that ran first in the trace: a caller that is known
	 * only because that function returned to it has -1.
	 */
	int32_t level;
	uint64_t id; /* of this call in this thread, from 1 on; the end has that of its beginning */
	uint64_t function; /* the address where the function begins */
	uint64_t
	    site; /* begin: the call instruction; end: the instruction it left by; 0: not known */
	uint64_t tsc;			/* 0: not known */
	uint64_t offset;		/* in the stream, of the item before the mark */
	struct ptah_call_counts thread; /* from the beginning of the trace to this mark */
	/* The rest is 0 in a beginning. */
	uint64_t begin_tsc;	       /* `tsc` of its beginning */
	struct ptah_call_counts total; /* of the call, from its beginning to its end */
	struct ptah_call_counts self;  /* the same, without the calls that it made */
};

/*
 * A mark in short: without what a reader of all of them can compute itself. Calls nest as with
 * marks.
 */
struct ptah_call_step {
	uint64_t function; /* begin: the address where the function begins; end: 0 */
	uint64_t site, tsc;
	struct ptah_call_counts thread;
	uint16_t flags;
	uint16_t space; /* of the function */
	uint8_t end, how;
	uint16_t reserved;
};

/*
 * Finds the bounds of the function that holds the byte at `address` at time `tsc` (0: not known).
 * `space` is that of the block that runs there. The answer is kept until
 * ptah_calls_code_changed(). False: not known.
 */
typedef bool ptah_find_function(void *context, unsigned space, uint64_t address, uint64_t tsc,
				struct ptah_function *function);

/*
 * How many instructions are in [from, to), the end of a block that ran from one function into the
 * next, which begins at `from`. 0: not known; then they count for the first.
 */
typedef unsigned ptah_count_insns(void *context, unsigned space, uint64_t from, uint64_t to,
				  uint64_t tsc);

struct ptah_calls_config {
	size_t size; /* sizeof(struct ptah_calls_config) */
	/*
	 * NULL: nothing is known of functions. Then they begin where calls go to, and a jump leaves
	 * a function when it goes to where a call went before.
	 */
	ptah_find_function *find;
	void *find_context;
	ptah_count_insns *count; /* with find_context; NULL: it is never known */
	uint32_t max_depth;	 /* calls below this depth are left out; 0: PTAH_CALLS_MAX_DEPTH */
};

#define PTAH_CALLS_MAX_DEPTH (1 << 17)
#define PTAH_CALLS_MAX_CHAIN 16

/* From this number on the space of a mark is a version. */
#define PTAH_CALLS_VERSION 0x8000

struct ptah_calls;

/* `config` may be NULL for the defaults. */
PTAH_API int ptah_calls_new(const struct ptah_calls_config *config, struct ptah_calls **calls);
PTAH_API void ptah_calls_free(struct ptah_calls *calls);

/*
 * Takes items, as ptah_flow_read() returns them, and writes marks. Returns how many items were
 * used, which are fewer than n when the marks are full (*count == capacity), or a negative
 * enum ptah_error. Cycles are counted where there are TICK items (ptah_event_config.ticks), or
 * where ptah_calls_set_cycles() is called.
 */
PTAH_API int ptah_calls_take(struct ptah_calls *calls, const struct ptah_item *items, size_t n,
			     struct ptah_call_mark *marks, size_t capacity, size_t *count);

/*
 * The same of spans, as ptah_flow_read_spans() returns them: much faster. The bounds that the flow
 * was given must be those of ptah_calls_bounds().
 */
PTAH_API int ptah_calls_take_spans(struct ptah_calls *calls, const struct ptah_span *spans,
				   size_t n, struct ptah_call_mark *marks, size_t capacity,
				   size_t *count);

/* A ptah_flow_bounds, whose context is a struct ptah_calls. */
PTAH_API bool ptah_calls_bounds(void *calls, unsigned space, uint64_t ip, uint64_t *low,
				uint64_t *high);

/*
 * The trace ends: ends the calls that are open, the innermost first. Returns how many marks were
 * written; 0 when all have been. After that the machine is as new.
 */
PTAH_API int ptah_calls_finish(struct ptah_calls *calls, struct ptah_call_mark *marks,
			       size_t capacity);

/*
 * What the items do not say, at the place between the items taken and those to come:
 * the process has executed another program (at time `tsc`; 0: not known); something was lost;
 * the core cycles so far (struct ptah_time). The marks come from the next call of take() or
 * finish().
 */
PTAH_API int ptah_calls_exec(struct ptah_calls *calls, uint64_t tsc);
PTAH_API int ptah_calls_lost(struct ptah_calls *calls);
PTAH_API void ptah_calls_set_cycles(struct ptah_calls *calls, uint64_t cycles);

/* What the thread did, from the beginning to the end of the last item or span that was taken. */
PTAH_API void ptah_calls_counts(const struct ptah_calls *calls, struct ptah_call_counts *counts);

/* Code was mapped, unmapped or generated: answers of `find` may differ from now on. */
PTAH_API void ptah_calls_code_changed(struct ptah_calls *calls);

/* "call", "tail", ...; "return", "unwound", ... NULL when out of range. */
PTAH_API const char *ptah_call_begin_name(unsigned how);
PTAH_API const char *ptah_call_end_name(unsigned how);

PTAH_END_DECLS

#endif
