/* SPDX-License-Identifier: MIT */
/*
 * Live: a recording is decoded while it is being made.
 *
 * A live session takes what a recorder delivers (record.h), or a perf.data that comes
 * through a pipe (`perf record -o -`), and follows every thread while it is recorded: it
 * counts, finds calls, and reports items where that is asked for. At the end its results
 * are those of a file of the same recording, count by count.
 *
 *	struct ptah_live_config config = {.size = sizeof(config), .what = PTAH_LIVE_CALLS};
 *
 *	ptah_live_new(&config, &live);
 *	record.output.sink = ptah_live_sink(live);
 *	ptah_recorder_new(&record, &r, &problem, &why);
 *	ptah_recorder_start(r);
 *	while (ptah_recorder_poll(r, 10) > 0 && ptah_live_poll(live) >= 0)
 *		if (a_second_has_passed()) {
 *			ptah_live_hold(live);
 *			ptah_live_functions(live, &rows, &n);
 *			ptah_live_release(live);
 *			...
 *			free(rows);
 *		}
 *	ptah_recorder_finish(r);
 *	ptah_live_finish(live);     (everything is decoded, all calls have ended)
 *	ptah_recorder_free(r);
 *	ptah_live_free(live);
 *
 * or, instead of a recorder:
 *
 *	while ((status = ptah_live_feed_fd(live, fd, 100)) > 0 && ptah_live_poll(live) >= 0)
 *		...
 *
 * Order. What a piece of trace means depends on records: what was mapped then, which program ran.
 * Every recorder works in rounds. In a round it first takes all records that were written before
 * the round began, and then trace. A program, or the kernel, writes the record of a mapping
 * before the trace of what runs there. So the trace of a round needs no other records than those
 * of this round and the next. A live session decodes the trace of a round when the round after it
 * has ended; that is also the least lag. The recorders of record.h mark the ends of their rounds
 * in what a sink gets and in what they write through a pipe; perf does that with FINISHED_ROUND.
 * The trace of processors (`perf record -a`, and what perf records of a command by default) waits
 * for one more round, so that records can be applied in the order of time (docs/live.md,
 * "Processors"). Within what may be decoded, a mapping, an execve or changed code takes effect at
 * its time, as in a session of a file. Lists of generated code (jitdumps, maps for perf) are read
 * while they are written, each time before trace is decoded (docs/live.md, "Generated code").
 *
 * Memory. Trace is freed as soon as it has been decoded. What stays is in proportion to threads,
 * processes, their mappings, the code that ran, and code that is in no file; it does not grow
 * with the trace.
 *
 * Lag. A recorder delivers what it finds in the buffers. One without hardware finds a thread's
 * trace there when a part of the buffer is full, and looks every 10 ms for threads that fill none;
 * for a small lag the buffers are to be small (docs/live.md). Between delivered and decoded are at
 * most `queue` bytes of trace that may be decoded, and those of two rounds. If more come, the sink
 * waits (PTAH_LIVE_WAIT): a recorder with a simulated processor then does not empty the program's
 * buffers, so that the program waits, and nothing is lost. Hardware does not wait; what its buffers
 * cannot hold is lost and is reported as in any recording. Or trace is left out (PTAH_LIVE_DROP),
 * from where a thread's queue is full up to a PSB: on_loss says how many bytes, of which thread,
 * and when, and the results have an error (PTAH_E_LOST) there. Of the trace of processors, eight
 * times the queue may wait besides for what must be decoded before it; then what waits most is
 * decoded with what is known.
 *
 * Threads. With config.jobs 0 everything happens on the thread that calls. Otherwise the live
 * session has as many threads of its own, which decode; a stream is decoded by one of them at a
 * time. These functions may then be called by different threads:
 *
 *	one thread, the one that polls the recorder or the pipe: the sink, ptah_live_feed(),
 *		ptah_live_feed_fd(), ptah_live_poll(), ptah_live_finish()
 *	any thread, at any time: ptah_live_status()
 *	any thread, between ptah_live_hold() and ptah_live_release(), or after
 *		ptah_live_finish(): ptah_live_session(), ptah_live_finder(),
 *		ptah_live_counts(), ptah_live_functions(), ptah_live_common_quantile(),
 *		ptah_live_thread()
 *
 * Callbacks are called by the thread that decodes, never two at the same time. They may ask
 * ptah_live_session() and ptah_live_finder(), and must call no other function of this header.
 */
#ifndef PTAH_LIVE_H
#define PTAH_LIVE_H

#include <ptah/calls.h>
#include <ptah/record.h>
#include <ptah/session.h>
#include <ptah/symbol.h>

PTAH_BEGIN_DECLS

/* What is made of the trace. Each decodes it once more: counts are the fastest, items the slowest.
 */
enum ptah_live_what {
	PTAH_LIVE_COUNTS = 1 << 0, /* exact counts of blocks and edges (profile.h) */
	PTAH_LIVE_CALLS = 1 << 1,  /* calls (calls.h), and figures of functions made of them */
	PTAH_LIVE_ITEMS = 1 << 2,  /* all items, for config.on_items */
};

/* What happens when trace comes faster than it is decoded. */
enum ptah_live_policy {
	PTAH_LIVE_WAIT = 0, /* the sink waits, and with it the recorder */
	PTAH_LIVE_DROP,	    /* whole pieces of trace are left out and reported */
};

/*
 * A thread of the recording, or one program of a thread that executes several; of a stream per
 * processor: the processor.
 */
struct ptah_live_thread {
	size_t size;	       /* sizeof(struct ptah_live_thread) */
	size_t number;	       /* in the order of appearance; it is also the stream's (session.h) */
	int32_t pid, tid;      /* -1: not known, or of several */
	int32_t cpu;	       /* -1: a thread's stream */
	int32_t space;	       /* for ptah_session_find_map(), as of now */
	char comm[16];	       /* its last name */
	bool ended;	       /* the recorder has said that nothing follows */
	uint64_t bytes;	       /* of trace that came */
	uint64_t decoded;      /* of those, decoded */
	uint64_t dropped;      /* left out (PTAH_LIVE_DROP) */
	uint64_t tsc;	       /* the time of what was decoded last; 0: not known */
	uint64_t errors;       /* error items, and */
	uint64_t overflows;    /* overflows in what was decoded */
	uint64_t instructions; /* decoded so far */
};

/* Trace that was left out: [offset, offset + bytes) of a stream as it was recorded. */
struct ptah_live_loss {
	size_t size; /* sizeof(struct ptah_live_loss) */
	size_t number;
	int32_t pid, tid, cpu; /* as in struct ptah_live_thread */
	uint64_t offset, bytes;
	uint64_t tsc;	/* of what was decoded before it; 0: not known */
	uint64_t since; /* CLOCK_MONOTONIC in nanoseconds when the first */
	uint64_t until; /* and when the last of these bytes came */
};

/*
 * Watches
 */

enum ptah_watch_kind {
	PTAH_WATCH_TIME,	 /* a call of the function takes more than `limit` nanoseconds */
	PTAH_WATCH_INSTRUCTIONS, /* ... executes more than `limit` instructions, its calls included
				  */
	PTAH_WATCH_WAITS,	 /* ... waits for more than `limit` nanoseconds */
	PTAH_WATCH_ENTER,	 /* the function is called */
	PTAH_WATCH_RATE,	 /* it is called more than `limit` times in a second of the trace */
	PTAH_WATCH_SIGNAL,	 /* a process is ended by the signal `limit`; 0: by any */
	PTAH_WATCH_EXIT,	 /* a process exits; `compare` and `limit` say with which status */
	PTAH_WATCH_MAX
};

enum ptah_watch_compare {
	PTAH_WATCH_MORE,
	PTAH_WATCH_LESS,
	PTAH_WATCH_EQUAL,
	PTAH_WATCH_UNEQUAL,
};

struct ptah_watch {
	uint8_t kind;	    /* enum ptah_watch_kind */
	uint8_t compare;    /* of EXIT: enum ptah_watch_compare */
	char function[256]; /* its name, mangled or as tables print it; "" for the last two kinds */
	/* The mapped file's path, or its end after a slash; "[JIT]": none, the process generates
	 * the code; "": any. */
	char file[256];
	uint64_t limit;
};

/*
 * A watch from text: "parse@./server > 2ms" (ns, us, ms, s, of which 1.5 is also a number, or
 * "instructions"), "waits parse > 2ms", "enter fail@libfoo.so", "rate parse > 1000/s", "signal SEGV", "signal", "exit != 0" (also =, <,
 * >). PTAH_E_INVAL with a sentence.
 */
PTAH_API int ptah_watch_parse(const char *text, struct ptah_watch *watch, struct ptah_message *why);

/*
 * Whether the watch waits for calls of this function: its name as in the file's symbols, and the
 * file's path, which may be NULL.
 */
PTAH_API bool ptah_watch_is_of(const struct ptah_watch *watch, const char *function,
			       const char *path);

/* Whether the end of a process is what the watch waits for: its status as of waitpid(). */
PTAH_API bool ptah_watch_ended(const struct ptah_watch *watch, int wait_status);

/*
 * A call that a watch waited for. TIME, INSTRUCTIONS and WAITS hit once for each call: when what has
 * been decoded of its thread shows that it is too long, which may be before it ends.
 */
struct ptah_live_hit {
	size_t size;  /* sizeof(struct ptah_live_hit) */
	size_t watch; /* the number of the watch in config.watches */
	const struct ptah_live_thread *thread;
	/* The end of the call, or its beginning if the end has not been seen. */
	const struct ptah_call_mark *mark;
	int32_t space; /* of the function, for ptah_functions_name() */
	/* Nanoseconds or instructions so far, calls in the second; ENTER: 0. */
	uint64_t value;
	uint64_t begin_tsc; /* when the call began; 0: not known */
	uint64_t tsc;	    /* as far as its thread has been decoded; 0: not known */
	/*
	 * The value is a time that has certainly passed, and the call may have taken longer: times
	 * are only known at some places (ptah_session_time_bounds()).
	 */
	bool at_least;
	/*
	 * WAITS: there are no context switches. The value is the time in which tracing was off, as
	 * in system calls: the thread may have waited then.
	 */
	bool in_kernel;
};

#define PTAH_LIVE_WATCHES 32

struct ptah_live_config {
	size_t size;   /* sizeof(struct ptah_live_config) */
	unsigned what; /* of enum ptah_live_what; 0: COUNTS */
	/* How files are found; its size 0: the defaults. What does not fit the recording becomes a
	 * note (ptah_session_note()), and its code is not decoded. */
	struct ptah_session_config session;
	unsigned jobs;	/* threads that decode; 0: the caller's */
	uint8_t policy; /* enum ptah_live_policy */
	uint64_t queue; /* bytes of trace that may wait to be decoded; 0: 8 MiB */
	/*
	 * The greatest memory for code that is in no file and for what describes the recording; 0:
	 * 1 GiB. When more comes, the session fails with PTAH_E_LIMIT.
	 */
	uint64_t memory;
	/* Gets every piece too, also of what is fed, before the live session does; or NULL. See
	 * ptah_live_file_new(). */
	const struct ptah_record_sink *tee;

	/*
	 * Callbacks, each or NULL; a negative result is an error, with which the session ends.
	 * Marks of one thread come in the order in which it ran, items in that of their stream;
	 * those of different ones in any order. In the stream of a processor, pid, tid, space and
	 * comm are those of the thread that ran; -1: it is not known.
	 */
	int (*on_calls)(void *context, const struct ptah_live_thread *thread,
			const struct ptah_call_mark *marks, size_t n);
	int (*on_items)(void *context, const struct ptah_live_thread *thread,
			const struct ptah_item *items, size_t n);
	int (*on_loss)(void *context, const struct ptah_live_loss *loss);
	/*
	 * With PTAH_LIVE_COUNTS: called when a stream has ended and is decoded, with what was
	 * counted of it. A positive result: the caller has what it wanted, and the counts are
	 * freed; ptah_live_counts() does not report them. They may be asked for once more, with
	 * what came since, if the stream continues. 0: they are kept. The counts of streams that
	 * last until ptah_live_finish() are for ptah_live_counts() alone.
	 */
	int (*on_counts)(void *context, const struct ptah_live_thread *thread,
			 struct ptah_profile *profile);
	/*
	 * With PTAH_LIVE_CALLS: called for each hit of the watches, of which there are at most
	 * PTAH_LIVE_WATCHES; they are copied. RATE hits once in each second. SIGNAL and EXIT are
	 * the caller's to look at: see ptah_watch_ended().
	 */
	int (*on_hit)(void *context, const struct ptah_live_hit *hit);
	const struct ptah_watch *watches;
	size_t watch_count;
	void *context;
};

struct ptah_live;

/* PTAH_E_INVAL, PTAH_E_NOMEM. */
PTAH_API int ptah_live_new(const struct ptah_live_config *config, struct ptah_live **live);

/* NULL does nothing. What is still to be decoded is not. */
PTAH_API void ptah_live_free(struct ptah_live *live);

/*
 * Input: either the pieces of one recorder, or a perf.data in the layout of a pipe.
 */

/* For ptah_record_config.output.sink. It lives as long as the live session, and does not change. */
PTAH_API const struct ptah_record_sink *ptah_live_sink(struct ptah_live *live);

/*
 * The next n bytes of a perf.data as it is written through a pipe, cut anywhere. 0; PTAH_E_FOREIGN,
 * PTAH_E_BAD_FILE and others with a sentence from ptah_live_why(), after which nothing more is
 * taken.
 */
PTAH_API int ptah_live_feed(struct ptah_live *live, const void *bytes, size_t n);

/*
 * Reads what there is from a descriptor, at most a megabyte, and feeds it; waits up to timeout_ms
 * for it to come (negative: as long as it takes). 1; 0: the input has ended; or an error.
 */
PTAH_API int ptah_live_feed_fd(struct ptah_live *live, int fd, int timeout_ms);

/*
 * With config.jobs 0: decodes what may be decoded now. Otherwise it only returns how things stand:
 * 0, or the first error of what was decoded or called.
 */
PTAH_API int ptah_live_poll(struct ptah_live *live);

/*
 * The recording has ended: decodes the rest, ends the calls that are open, and the threads. 0, or
 * the first error; PTAH_E_EMPTY when no trace came. Afterwards all questions may be asked.
 */
PTAH_API int ptah_live_finish(struct ptah_live *live);

/* The sentence of the first error, "" without one. */
PTAH_API const char *ptah_live_why(const struct ptah_live *live);

/*
 * Questions
 */

struct ptah_live_status {
	size_t size;			  /* sizeof(struct ptah_live_status) */
	uint64_t bytes, decoded, dropped; /* of trace, of all threads */
	/* Bytes that have come and are not decoded: all, and those that may be decoded now. */
	uint64_t behind, queued;
	/* For how long the oldest of them has waited, and the longest that any has; nanoseconds. */
	uint64_t lag, worst_lag;
	uint64_t waited; /* for how long the sink has waited in all; nanoseconds */
	uint64_t rounds; /* of the recorder */
	uint64_t records;
	uint64_t memory; /* bytes of trace that waits, and of records that are kept */
	size_t threads;	 /* and processors: see ptah_live_thread() */
	size_t processes;
	/* Decoded, of all threads; with PTAH_LIVE_COUNTS alone as of the last ptah_live_hold(). */
	uint64_t instructions, errors, overflows;
	uint64_t calls;	 /* that began (PTAH_LIVE_CALLS) */
	uint64_t losses; /* how often trace was left out */
	bool finished;
};

PTAH_API int ptah_live_status(struct ptah_live *live, struct ptah_live_status *status);

/*
 * From hold to release nothing is decoded and nothing changes, so that questions can be asked;
 * trace that comes meanwhile waits. hold waits until the work at hand is done, mostly some
 * milliseconds. They do not nest.
 */
PTAH_API void ptah_live_hold(struct ptah_live *live);
PTAH_API void ptah_live_release(struct ptah_live *live);

/*
 * The session as it is now: for ptah_session_stream_info(), _find_map(), _time(), _note() and so
 * on. It must not be decoded. NULL before the first record.
 */
PTAH_API const struct ptah_session *ptah_live_session(struct ptah_live *live);

/* Bounds and names of its functions. Names live as long as the live session. */
PTAH_API struct ptah_functions *ptah_live_finder(struct ptah_live *live);

/* The i-th thread, PTAH_E_MISSING: there are no more. */
PTAH_API int ptah_live_thread(struct ptah_live *live, size_t i, struct ptah_live_thread *thread);

/*
 * Passes the counts of each stream up to now to `take`, in the order of the streams, as
 * ptah_session_count() does; for PTAH_LIVE_COUNTS. The counts of a stream that has ended may have
 * been added to another one's of the same program of the same process. A negative result ends the
 * work.
 */
PTAH_API int ptah_live_counts(struct ptah_live *live,
			      int (*take)(void *context, size_t stream,
					  struct ptah_profile *profile),
			      void *context);

/* A function and what ran in it, in all threads of an address space. Sums since the beginning. */
struct ptah_live_function {
	/*
	 * Of its process, for ptah_functions_name(). When many processes have ended, a function of
	 * a file has one row for all others, in one of them.
	 */
	int32_t space;
	uint32_t flags;	       /* enum ptah_call_flags: NO_BOUNDS, STUB, KERNEL, RESTORER */
	uint64_t function;     /* the address where it begins; 0: what ran in no known function */
	uint64_t calls;	       /* that began; those that were running before do not count */
	uint64_t instructions; /* executed in it, without what it called */
	uint64_t open;	       /* calls that have not ended */
	/*
	 * Of calls that have ended and whose beginning and end are in the trace without a loss
	 * between them: how many, and sums and greatest of their times in TSC ticks
	 * (ptah_session_time_scale()) and instructions, with what they called. `timed`: of those,
	 * how many have a time.
	 */
	uint64_t ended, timed;
	uint64_t ticks, max_ticks;
	uint64_t total_instructions, max_instructions;
	/* Of `ticks`, in which the thread was on no processor and could not have run; 0 where context
	 * switches are not recorded. */
	uint64_t waited;
};

/*
 * All functions that ran so far, in the order of space and address; for PTAH_LIVE_CALLS. The caller
 * frees *rows. PTAH_E_INVAL without PTAH_LIVE_CALLS.
 */
PTAH_API int ptah_live_functions(struct ptah_live *live, struct ptah_live_function **rows,
				 size_t *n);

/* The same of the calls of n functions together, as of one that several processes have mapped. */
PTAH_API uint64_t ptah_live_common_quantile(struct ptah_live *live,
					    const struct ptah_live_function *functions, size_t n,
					    double q);

/*
 * A file beside it
 */

/*
 * A sink that writes a perf.data in the layout of a pipe: for config.tee, or for a sink of its own.
 * Every reader of perf.data takes it. The file has all that was delivered, up to the last piece,
 * if the writer is killed.
 */
struct ptah_live_file;

/* An existing file is replaced. PTAH_E_SYSTEM with *why (may be NULL). */
PTAH_API int ptah_live_file_new(const char *path, struct ptah_live_file **file,
				struct ptah_message *why);
PTAH_API const struct ptah_record_sink *ptah_live_file_sink(struct ptah_live_file *file);
/* Completes the file: 0, or the first failure. Afterwards only free may be called. */
PTAH_API int ptah_live_file_finish(struct ptah_live_file *file);
PTAH_API void ptah_live_file_free(struct ptah_live_file *file);

/*
 * The end of a recording
 *
 * A sink that keeps all records and the last trace of each stream in memory. When something has
 * happened that is worth it, what led to it is saved as a perf.data of its own.
 */
struct ptah_live_keep;

/*
 * bytes: of trace of each thread or processor, at least so many are kept, from a PSB on. memory: of
 * trace of all of them, and of records, each, at most so many; the oldest trace is given up for
 * newer, and when the records are more, the sink returns PTAH_E_LIMIT. await: what the threads of a
 * process that has ended left is not forgotten before the sink was told how it ended, which may be
 * long afterwards: a recorder may know it from who waits for the process. That is for the last 256
 * threads of such processes, and within `memory`.
 */
PTAH_API int ptah_live_keep_new(uint64_t bytes, uint64_t memory, bool await,
				struct ptah_live_keep **keep);
PTAH_API const struct ptah_record_sink *ptah_live_keep_sink(struct ptah_live_keep *keep);
/*
 * Whether the sink was given the end of all threads of the process that it knows, or knows none.
 * How the process ended may be told before.
 */
PTAH_API bool ptah_live_keep_has_ended(struct ptah_live_keep *keep, int32_t pid);
/*
 * Of each thread or processor, forgets what came before the last `bytes` of the trace that came
 * before `before` (nanoseconds of CLOCK_MONOTONIC), unless it is needed to decode what came
 * afterwards. With 0 bytes, all that came before that time. To keep so many bytes before what a live
 * session has decoded, however far that is behind: `before` is now, less ptah_live_status.lag; to
 * keep the last 50 ms before it, 50 ms less.
 */
PTAH_API void ptah_live_keep_forget(struct ptah_live_keep *keep, uint64_t bytes, uint64_t before);
/*
 * Writes what is kept now to a file in the layout of a pipe, each stream from a PSB on. `hit`: why,
 * which the file then says (ptah_session_hit()), and whose process alone is saved if hit->pid is
 * more than 0; or NULL. May be called at any time by any thread, also by a callback of a live
 * session whose tee this is. On failure the file is removed; PTAH_E_EMPTY: no trace is kept, and
 * nothing is written.
 */
PTAH_API int ptah_live_keep_save(struct ptah_live_keep *keep, const char *path,
				 const struct ptah_hit *hit, struct ptah_message *why);
PTAH_API void ptah_live_keep_free(struct ptah_live_keep *keep);

PTAH_END_DECLS

#endif
