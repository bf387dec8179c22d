/* SPDX-License-Identifier: MIT */
/*
 * Calls: which function called which, when, and for how long.
 *
 * What one thread ran is returned as marks, the beginnings and ends of its calls: by a call reader
 * (below), or live (live.h). Nothing is invented: a call whose beginning or end the trace does not
 * show says so.
 *
 * Nesting. Calls nest: ends come in the opposite order of the beginnings, and every beginning has
 * exactly one end, at the latest where the trace ends.
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
#include <ptah/symbol.h>

PTAH_BEGIN_DECLS

struct ptah_session;
struct ptah_functions;
struct ptah_workers;

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

#define PTAH_CALLS_MAX_DEPTH (1 << 17)
#define PTAH_CALLS_MAX_CHAIN 16

/* From this number on the space of a mark is a version. */
#define PTAH_CALLS_VERSION 0x8000

/* How a call began: "call", "jump", ...; or ended: "return", "unwound", ... NULL: out of range. */
PTAH_API const char *ptah_call_how_name(bool end, unsigned how);

/*
 * Call trees: calls added up by their path (which function called which called
 * which), by function, and by caller and callee.
 *
 *	struct ptah_call_tree_config config = {.size = sizeof(config)};
 *	ptah_call_tree_new(&config, &tree);
 *	... for each batch of marks of one thread:
 *	ptah_call_tree_add(tree, marks, n);
 *	... for each further thread, with a tree of its own:
 *	ptah_call_tree_merge(tree, other, NULL, NULL);
 *	ptah_call_tree_nodes(tree, &nodes, &count);
 *
 * Figures are instructions, core cycles and nanoseconds. *Inclusive* is from the
 * beginning of a call to its end; *self* is inclusive without what the function
 * called. A node's inclusive figures contain those of the nodes below it, so in a
 * recursion they contain the deeper calls of the same function. The sums of a
 * function count nested calls of it once: only calls during which the function
 * was not running already add to its inclusive figures. Those of a pair of caller
 * and callee are of the same calls, so that the inclusive figures of all callers
 * of a function add up to the function's. Self figures add up everywhere.
 *
 * Calls whose beginning or end is not in the trace, or that contain a loss, add
 * what is known of them to the sums; they are not in histograms, and `partial`
 * counts them (flags NO_BEGIN, NO_END, HAS_LOSS and UNSURE of the end). A suspended
 * call (a coroutine) counts once, where it first began; its parts count where they
 * ran, and its histogram has their sum. Time passes also while a thread does not run.
 *
 * Memory is in proportion to distinct paths, of which there are `max_paths` at
 * most. When there would be more, those in which the fewest instructions ran are
 * folded: below each caller one node keeps the sum of the paths that were folded
 * there. Functions and pairs stay exact (up to limits: see below). Endless recursion is
 * folded, too.
 *
 * A tree belongs to one thread at a time.
 */

struct ptah_call_tree;

struct ptah_call_tree_config {
	size_t size; /* sizeof(struct ptah_call_tree_config) */
	/*
	 * How TSC ticks become nanoseconds: ticks * time_mult >> time_shift. 0: they do not;
	 * then times are not counted.
	 */
	uint32_t time_mult, time_shift;
	uint32_t max_paths; /* 0: a million */
};

/* `config` may be NULL. */
PTAH_API int ptah_call_tree_new(const struct ptah_call_tree_config *config,
				struct ptah_call_tree **tree);
PTAH_API void ptah_call_tree_free(struct ptah_call_tree *tree);

/*
 * Adds marks of one thread, in order; batches may be cut anywhere. PTAH_E_NOMEM:
 * the tree keeps what was complete before, and adds nothing any more.
 * PTAH_E_INVAL: an end without a beginning.
 */
PTAH_API int ptah_call_tree_add(struct ptah_call_tree *tree, const struct ptah_call_mark *marks,
				size_t n);

/*
 * Gives a function of `from` the key that it has in `into`: changes *space and
 * *function to any numbers, for instance to those of a name. False: the function
 * is left out, and what it did counts for its caller.
 */
typedef bool ptah_call_tree_map(void *context, uint16_t *space, uint64_t *function);

/*
 * Adds all of `from`, which must have no open call. `map` may be NULL: keys stay as
 * they are. Where a map makes one function of several, of which some called others,
 * calls that were folded before count for each of them. PTAH_E_INVAL, PTAH_E_NOMEM:
 * `into` is then only good to be freed.
 */
PTAH_API int ptah_call_tree_merge(struct ptah_call_tree *into, const struct ptah_call_tree *from,
				  ptah_call_tree_map *map, void *context);

struct ptah_call_figures {
	uint64_t instructions;
	uint64_t cycles; /* 0 without CYC packets */
	uint64_t time;	 /* nanoseconds */
};

enum ptah_call_value {
	PTAH_CALL_VALUE_INSTRUCTIONS,
	PTAH_CALL_VALUE_CYCLES,
	PTAH_CALL_VALUE_TIME,
	PTAH_CALL_VALUE_MAX
};

struct ptah_call_totals {
	struct ptah_call_figures inclusive; /* of the whole tree */
	uint64_t calls;	   /* that began; those that were running before do not count */
	uint64_t paths;	   /* distinct ones in the tree */
	uint64_t partial;  /* calls that are in no histogram */
	uint64_t untimed;  /* of the others: no time was known when they began */
	uint64_t uncycled; /* of the others: no cycles were known when they began */
	/* Paths that were folded, the calls in them, and what these calls ran. */
	uint64_t folded_paths, folded_calls;
	struct ptah_call_figures folded;
	/*
	 * Those of them that are calls of functions that are in no list, because there were more
	 * than half as many functions as there may be paths; and what ran in them.
	 */
	uint64_t unlisted_calls;
	struct ptah_call_figures unlisted;
};

/* This and the lists below: PTAH_E_INVAL while a call is open, PTAH_E_NOMEM. */
PTAH_API int ptah_call_tree_totals(const struct ptah_call_tree *tree,
				   struct ptah_call_totals *totals);

enum ptah_call_node_flags {
	PTAH_CALL_NODE_RECURSIVE = 1 << 0, /* its function is also further up */
	PTAH_CALL_NODE_FOLDED = 1 << 1,	   /* the folded calls below its parent, of any function */
};

/* A path: the function, called by the one of its parent, and so on up to the root. */
struct ptah_call_node {
	uint64_t function;
	uint16_t space;
	uint16_t flags;
	uint16_t begins;	 /* bit i: a call began by enum ptah_call_begin i */
	uint16_t function_flags; /* as in struct ptah_call_function */
	uint32_t parent;	 /* its index in the list; less than the node's own */
	uint32_t depth;		 /* 0: the root */
	uint64_t count;		 /* calls that began */
	struct ptah_call_figures inclusive, self;
};

/*
 * The nodes, depth first. The first is the root, which is no function: its self
 * figures are what ran in no known function. Nodes with the same parent are in the
 * order of space and function, the folded one last. The caller frees the array.
 */
PTAH_API int ptah_call_tree_nodes(const struct ptah_call_tree *tree, struct ptah_call_node **nodes,
				  size_t *n);

struct ptah_call_function {
	uint64_t function;
	uint16_t space;
	/* enum ptah_call_flags: NO_BOUNDS, STUB, KERNEL, RESTORER; FOLDED if one of its calls has
	 * it. */
	uint16_t flags;
	uint32_t reserved;
	uint64_t count, partial;
	struct ptah_call_figures inclusive, self;
	/*
	 * Where times are known at stamps (ptah_session_time_bounds()) and config.bounds asks for
	 * it: its inclusive time is not less and not more, in nanoseconds, whatever the estimate
	 * says. time_most 0: not known.
	 */
	uint64_t time_least, time_most;
	/* Histograms of the inclusive figures. calls 0: none. */
	struct {
		uint64_t calls, min, max;
	} histogram[PTAH_CALL_VALUE_MAX];
};

/* In the order of space and function. The caller frees the array. */
PTAH_API int ptah_call_tree_functions(const struct ptah_call_tree *tree,
				      struct ptah_call_function **functions, size_t *n);

/*
 * The smallest value that at least the share `q` (0 to 1) of a function's calls do
 * not exceed, right to 1 %; min and max are exact. 0 when its histogram is empty.
 */
PTAH_API uint64_t ptah_call_tree_quantile(const struct ptah_call_tree *tree,
					  const struct ptah_call_function *function,
					  enum ptah_call_value value, double q);

struct ptah_call_pair {
	uint64_t caller, callee;
	uint16_t caller_space, callee_space;
	bool no_caller; /* the callee was outermost, or its caller is unlisted: `caller` is 0 */
	uint64_t count;
	struct ptah_call_figures inclusive, self; /* of the callee */
};

/* In the order of caller (first those without one) and callee. The caller frees the array. */
PTAH_API int ptah_call_tree_pairs(const struct ptah_call_tree *tree, struct ptah_call_pair **pairs,
				  size_t *n);

/*
 * Call readers: the calls of every thread of a recording.
 *
 * A call reader decodes the streams of a session (session.h) and gives each thread a
 * call machine of its own. It returns batches of marks:
 *
 *	struct ptah_call_reader_config config = {.size = sizeof(config)};
 *	const struct ptah_call_batch *batch;
 *	int status;
 *
 *	ptah_call_reader_new(session, &config, &reader);
 *	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
 *		use(batch->thread, batch->marks, batch->count);
 *	ptah_call_reader_free(reader);
 *
 * Order. The batches of one thread come in the order in which it ran. Streams per
 * thread are read one after the other. Streams per CPU are read side by side, from
 * context switch to context switch in the order of time, so that a thread is followed
 * from CPU to CPU. Where it is not known which thread ran (ptah_reader_thread()), what
 * ran belongs to a thread whose tid is -1, and the calls of each thread that may have
 * been the one have a loss there.
 *
 * Memory: a decoder and a few hundred kilobytes for each stream per CPU, or for one
 * stream per thread at a time, and the open calls of each thread.
 */

/*
 * A thread. One that executes another program counts as another thread from there on, and so does
 * each CPU's idle thread.
 */
struct ptah_call_thread {
	size_t number;	  /* in the order of appearance, from 0 on without gaps */
	int32_t pid, tid; /* 0: the CPU is idle; -1: not known */
	char comm[16];	  /* its last name, "" if unknown */
	/* For ptah_session_find_map(): its memory, where marks have the space 0. */
	int32_t space;
	/* The stream that the present batch comes from: of a thread that migrates, one of several.
	 */
	size_t stream;
	uint64_t errors; /* error items (PTAH_ITEM_ERROR) in what was read of it so far */
};

struct ptah_call_batch {
	const struct ptah_call_thread *thread; /* lives as long as the reader */
	const struct ptah_call_mark *marks;    /* may be none */
	size_t count;
	/*
	 * What follows these marks in the thread, or NULL: an error or a loss of trace
	 * (PTAH_ITEM_ERROR, PTAH_ITEM_OVERFLOW, PTAH_ITEM_GAP); with config.events any item that is
	 * no block.
	 */
	const struct ptah_item *event;
	bool ended;			/* nothing of this thread follows */
	struct ptah_call_counts counts; /* of the thread, up to the event; 0 without one */
	/* With config.steps: these in place of marks, as many as `count`. */
	const struct ptah_call_step *steps;
};

struct ptah_call_reader_config {
	size_t size; /* sizeof(struct ptah_call_reader_config) */
	/* The bounds of functions, of this session; they must live as long as the reader. NULL: the
	 * reader makes its own. */
	struct ptah_functions *functions;
	/* Streams for which it returns false are left out. NULL: all are read. */
	bool (*wants)(void *context, size_t stream);
	void *context;
	bool events; /* return all events, each at the end of a batch */
	bool steps;  /* steps in place of marks, which takes half the time */
	/*
	 * Times between stamps are not wanted (struct ptah_times): items have that of
	 * the last stamp, which is several times as fast.
	 */
	bool no_estimates;
	unsigned jobs;	  /* threads that decode ahead; 0 and 1: the caller's alone */
	uint64_t segment; /* as in struct ptah_jobs */
	/* Of the session, or NULL: see ptah_workers_new(). */
	struct ptah_workers *workers;
	/* Of trees, see below. */
	uint32_t max_paths; /* of each tree; 0: as struct ptah_call_tree_config */
	/* Functions get time_least and time_most where times are known at stamps. */
	bool bounds;
	/*
	 * Or NULL. Called now and then on the caller's thread, with `context` and the number of
	 * trace bytes done. False ends the work early.
	 */
	bool (*progress)(void *context, uint64_t bytes);
	/*
	 * Or NULL. Called on any thread where a thread's trace ends, with its last time. Returns when
	 * the thread ended, which may have waited since then: its open calls end there.
	 */
	uint64_t (*ended)(void *context, const struct ptah_call_thread *thread, uint64_t tsc);
};

struct ptah_call_reader;

/* `config` may be NULL. */
PTAH_API int ptah_call_reader_new(const struct ptah_session *session,
				  const struct ptah_call_reader_config *config,
				  struct ptah_call_reader **reader);
PTAH_API void ptah_call_reader_free(struct ptah_call_reader *reader);

/*
 * The next batch, which is valid until the next call. 1; 0 at the end; negative when decoding
 * fails, for which errors in the trace are no reason.
 */
PTAH_API int ptah_call_reader_next(struct ptah_call_reader *reader,
				   const struct ptah_call_batch **batch);

/* The number for ptah_session_find_map() of what ran in a mark's `space` in this thread. */
PTAH_API int32_t ptah_call_thread_space(const struct ptah_call_thread *thread, unsigned space);

/* Trace bytes used so far, of all streams (for progress). */
PTAH_API uint64_t ptah_call_reader_offset(const struct ptah_call_reader *reader);

/*
 * Makes a call tree of each thread, which is much faster than reading its marks, and
 * passes them to `take` one after the other, on the caller's thread. The tree is freed after `take`
 * has returned; a negative result ends the work. With jobs, several streams of threads, or several
 * segments of one, are added up at the same time; the trees are the same. Losses are in the trees:
 * see PTAH_CALL_HAS_LOSS. Returns 0, an error, or the negative result of `take`.
 */
PTAH_API int ptah_session_call_trees(
    const struct ptah_session *session, const struct ptah_call_reader_config *config,
    int (*take)(void *context, const struct ptah_call_thread *thread, struct ptah_call_tree *tree),
    void *context);

PTAH_END_DECLS

#endif
