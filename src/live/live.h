/* SPDX-License-Identifier: MIT */
/*
 * What the files of a live session share: queue.c takes pieces and holds them until their round
 * may be decoded, feed.c takes a pipe apart into pieces, steps.c applies records and decodes,
 * follow.c decodes one stream, processors.c follows calls through those of processors, tally.c
 * keeps figures of functions, fold.c those of many processes that have ended, crew.c has the
 * threads, live.c the calls of <ptah/live.h>, file.c writes pieces to a file.
 */
#ifndef PTAH_LIVE_LIVE_H
#define PTAH_LIVE_LIVE_H

#include "live/tally.h"
#include "session/call_threads.h"
#include "session/grow.h"
#include "session/span_times.h"
#include "support/index.h"

#include <ptah/live.h>

#include <pthread.h>

/* A piece of a recording, copied. */
struct live_entry {
	struct live_entry *next;
	enum live_entry_kind {
		LIVE_TRACE,
		LIVE_RECORD,
		LIVE_ROUND, /* a round has ended */
		LIVE_LOSS,  /* trace was left out before the next one of the stream */
	} kind;
	uint32_t stream;
	int32_t tid, cpu;
	uint64_t offset;      /* of trace, as the recorder counts */
	uint64_t end;	      /* of trace in a stream: its offset after the last byte */
	uint64_t when, until; /* CLOCK_MONOTONIC when it came; LOSS: the first and the last */
	uint64_t size;	      /* LOSS: bytes that were left out */
	bool has_psb;	      /* keep.c: decoding can begin in it */
	uint8_t bytes[];
};

struct live_list {
	struct live_entry *first, **last;
};

void live_list_init(struct live_list *list);
void live_list_add(struct live_list *list, struct live_entry *entry);
/* Moves all entries of `from` to the end of `to`. */
void live_list_move(struct live_list *to, struct live_list *from);
void live_list_free(struct live_list *list);

/* The open calls of a watch that waits for long ones, from the outermost to the innermost. */
struct live_open {
	struct live_open_call {
		struct ptah_call_mark mark; /* its beginning */
		uint64_t began_by;	    /* when it had surely begun; UINT64_MAX: not known */
		uint64_t losses;	    /* until then */
		uint64_t waited;	    /* by the thread, until then */
	} * calls;
	size_t count, capacity;
	size_t late; /* how many of them have been reported: the outer ones */
};

/* A record that is to be applied at its place in the order of time. */
struct live_timed {
	uint64_t tsc;
	size_t order;
	struct live_entry *entry; /* its bytes; NULL: they are kept */
	struct perfdata_record record;
};

/* A thread whose calls are followed, through the programs that it executes. */
struct live_runner {
	struct call_thread *thread;
	struct live_tally tally;
	struct live_waits waits; /* for watches */
	struct live_open *open;	 /* for each watch; NULL: none has been called */
	/* Of one that runs on processors: when its last turn began, and whether it has ended. */
	uint64_t since;
	bool exited;
};

struct live_source;

/* A stream of trace and its decoders. */
struct live_stream {
	struct ptah_live *live;
	size_t index; /* in the session */
	bool named, opened;
	bool ended;	       /* nothing follows: it is retired when its trace is decoded */
	uint64_t ended_at;     /* rounds when that became known */
	uint64_t closed_at;    /* rounds when the recorder had said all of it, and 1; 0: not yet */
	bool keeps;	       /* it is retired, and has figures that others are added to */
	bool retired;	       /* its figures are those of the stream `heir`, or its own */
	uint64_t tsc;	       /* of what was decoded last */
	uint64_t instructions; /* of a retired stream without calls; of a processor with calls */
	/* What of its profile's totals are those of streams whose heir it is. */
	struct live_inherited {
		uint64_t instructions, errors, overflows;
	} inherited;
	struct stream_decoder *counts, *calls, *items; /* or NULL */
	struct live_runner own;			       /* of `calls`, if the stream is a thread's */
	struct live_source *source;		       /* if it is a processor's: processors.c */
	uint64_t generation;			       /* of the image of `calls` */
	uint64_t delivered; /* of a processor: what is not decoded yet is not earlier */
	bool dry;	    /* of a processor: more must come before more of it can be decoded */
	struct live_list blocks; /* trace that is in the session */
	struct live_list losses; /* that have not been reported */
	uint64_t decoded, dropped;
	/*
	 * To the last stamp that has come; the stamps for its times and for the bounds of watches;
	 * and up to where times are known.
	 */
	struct stamp_walk ahead;
	struct stamp_queue stamps, bound_stamps;
	uint64_t known;
	uint64_t held_since; /* rounds when something began to wait for its time */
	struct stamp_bounds bounds;
	struct span_times times;
	uint64_t errors, overflows;
	int status;
};

/* fold.c: where functions of processes that have ended have their rows. */
struct live_fold {
	struct live_place *places;
	size_t count, capacity;
	struct index index; /* of the places */
	size_t processes;   /* that have ended, and have or had rows */
};

/* What a stream's trace is left out for, and since when: used by the thread that takes pieces. */
struct live_drop {
	uint32_t stream;
	bool dropping;
	struct live_entry *loss;
};

struct live_crew;

/*
 * How often the function of a RATE was called lately, in parts of a second: threads are decoded one
 * after the other, so that calls do not come in the order of time.
 */
#define RATE_PARTS 8
#define RATE_KEPT  64
struct live_rate {
	uint64_t part[RATE_KEPT]; /* the number of the part whose calls these are */
	uint64_t calls[RATE_KEPT];
	uint64_t hits[RATE_KEPT]; /* when one of them was reported, in nanoseconds; 0: none was */
	uint64_t newest;
};

struct ptah_live {
	struct ptah_live_config config;
	struct ptah_record_sink sink;

	/* The queue: protected by `lock`. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct live_list queue;
	uint64_t round_bytes, held_bytes, ready_bytes; /* of trace: of this round, of the last one,
							  and those that may be decoded */
	uint64_t waiting_bytes; /* of ready_bytes, those that cannot be decoded before more comes */
	uint64_t rounds_queued; /* marks in `queue` */
	uint64_t oldest; /* when the oldest trace came that a step has taken and not decoded; 0 */
	bool finishing, finished, stop;
	bool stepping;	  /* a step is being taken */
	unsigned holders; /* threads that hold the session, or want to */
	struct ptah_live_status figures;
	int status; /* the first error */
	struct ptah_message why;

	/* What the thread uses that takes pieces. */
	bool cut;	   /* the input ended inside a record */
	bool marked;	   /* a round was marked */
	bool marks_rounds; /* the recorder marks them itself: FINISHED_ROUND says nothing */
	struct live_drop *drops;
	size_t drop_count, drop_capacity;
	struct live_feed *feed;

	/* What the thread uses that takes a step, or that holds, between enter and leave. */
	struct ptah_session *session;
	struct ptah_functions *functions;
	struct live_list kept;	   /* records that the session refers to */
	struct live_list trace[3]; /* of the present round, of the one before, and of processors */
	/* Records that wait to be applied in the order of time, and the number of those that came.
	 */
	struct live_timed *waiting;
	size_t waiting_count, waiting_capacity, record_count;
	/* The greatest time of a record so far, of the rounds that have ended, and of those before
	 * the last. */
	uint64_t newest, ended, known;
	bool per_cpu; /* there is trace of processors */
	struct live_stream **streams;
	size_t count, capacity;
	size_t next;	 /* the stream that is decoded first in the next step */
	uint64_t rounds; /* that have ended */
	struct ptah_watch watches[PTAH_LIVE_WATCHES];
	struct live_rate rates[PTAH_LIVE_WATCHES];
	size_t watch_count;
	pthread_mutex_t callback;     /* one at a time */
	pthread_mutex_t threads_lock; /* of `threads` */
	struct call_threads threads;
	struct live_fold fold;
	/* Those that run on processors are found by their number in `threads`. */
	struct live_runner **runners;
	size_t runner_count, runner_capacity;
	uint64_t code_changes;	/* how often code has changed, in any processor's stream */
	struct live_crew *crew; /* NULL: the caller's thread does everything */
};

uint64_t live_now(void);

/* Keeps the first error. Returns it. */
int live_fail(struct ptah_live *live, int status, const char *format, ...) PRINTF_LIKE(3, 4);

/* live.c: around a step. Somebody who wants to hold the session comes first. */
void live_enter(struct ptah_live *live);
void live_leave(struct ptah_live *live);

/* queue.c */
int live_put_record(struct ptah_live *live, const uint8_t *bytes, size_t size);
int live_put_trace(struct ptah_live *live, uint32_t stream, int32_t tid, int32_t cpu,
		   uint64_t offset, const uint8_t *bytes, size_t size);
int live_sink_take(void *context, const struct ptah_record_piece *piece);
int live_sink_ended(void *context, int32_t pid, int wait_status);
/* Has what was queued up to the last mark of a round. True: the recording has ended, and it is all.
 */
bool live_take_rounds(struct ptah_live *live, struct live_list *rounds);

/* feed.c */
void live_feed_free(struct live_feed *feed);
/* The input has ended. */
int live_feed_end(struct ptah_live *live);

/*
 * steps.c: applies what was queued, and decodes for some milliseconds. 1: there is more to do, 0:
 * there is not, or an error.
 */
int live_step(struct ptah_live *live);
/* Adds up what profiles have counted, for ptah_live_status(). */
void live_count_up(struct ptah_live *live);
/* Ends all streams, after everything was decoded. */
int live_end(struct ptah_live *live);
void live_forget(struct ptah_live *live);

/* follow.c */
int live_open(struct live_stream *stream);
void live_close(struct live_stream *stream);
/* Decodes up to the offset `stop`. */
int live_decode(struct live_stream *stream, uint64_t stop);
/*
 * The stream has been decoded to its end: frees its decoders. What they have counted is added to
 * `heir`, a stream of the same program of the same process, or stays here if that is NULL.
 */
int live_retire(struct live_stream *stream, struct live_stream *heir);
/* The stream has been decoded: ends the calls that are open. */
int live_end_calls(struct live_stream *stream);
/* How far all of the stream's decoders have come. */
uint64_t live_position(const struct live_stream *stream);
/* Session and lists have moved; and so many pieces, and limits of a processor's trace, are gone. */
void live_refresh(struct live_stream *stream, size_t pieces, size_t limits);
int live_take_change(struct live_stream *stream, size_t process, const struct change *change);
/* After all changes: whose trace it is may be known better. */
int live_settle(struct live_stream *stream);
/* What the decoders of a processor's stream need no longer is forgotten. */
void live_trim(struct live_stream *stream);
void live_describe(struct live_stream *stream, struct ptah_live_thread *thread);

/* Errors and overflows are counted. */
void live_note_items(struct live_stream *stream, const struct ptah_item *items, size_t n);
/* Marks of a thread that runs in this stream: adds them up, and reports them. */
int live_give_marks(struct live_stream *stream, struct live_runner *runner,
		    const struct ptah_call_mark *marks, size_t n);
/* queue.c: does as much trace wait as may, so that no more comes before some is decoded? */
bool live_is_full(struct ptah_live *live);

/* Finds the stamps of the trace that has come. 0 or an error. */
int live_follow_stamps(struct live_stream *stream);
/* The thread executes another program: its calls end. */
int live_execute(struct live_stream *stream, struct live_runner *runner, uint64_t tsc);
/* What has been executed so far is the innermost call's. */
int live_reach(struct live_stream *stream, struct live_runner *runner);
/* Ends the thread's open calls, and frees its machine. */
int live_end_thread(struct live_stream *stream, struct live_runner *runner);

/*
 * fold.c: the stream is retired, and was the last one of its process: its rows are added to those
 * of processes that have ended before, if there are many.
 */
int live_fold(struct live_stream *stream);
void live_fold_free(struct live_fold *fold);

/* processors.c: calls of threads that move between processors */
int live_source_new(struct live_source **source);
/* From where on what was read is not followed yet; UINT64_MAX: all is. `source`: NULL too. */
uint64_t live_source_offset(const struct live_source *source);
/*
 * Follows calls up to where the decoders of calls are to stop, as far as their order is known.
 * `force`: of what cannot go on, the earliest does. 1: some were followed.
 */
int live_run_processors(struct ptah_live *live, bool force);
/* The thread with this number has exited. */
void live_note_exited(struct ptah_live *live, int32_t tid);
/* Ends the calls of threads that have exited and whose trace was decoded; or of all. */
int live_end_runners(struct ptah_live *live, bool all);
/* Whether all that this turn has, and those of its thread before it, is followed. */
bool live_is_past(struct ptah_live *live, size_t cpu, size_t turn);
void live_free_runners(struct ptah_live *live);

/* watch.c: looks for what the watches wait for; called with the lock of callbacks. */
int live_watch(struct live_stream *stream, struct live_runner *runner,
	       const struct ptah_live_thread *thread, const struct ptah_call_mark *marks, size_t n);
/* The same of the calls that are open, now that the thread has been decoded up to here. */
int live_watch_open(struct live_stream *stream, struct live_runner *runner,
		    const struct ptah_live_thread *thread, uint64_t tsc, uint64_t instructions);
void live_watch_free(const struct ptah_live *live, struct live_runner *runner);
/*
 * Counts a call at `now`, in nanoseconds. Whether it makes it more than `limit` in a second, and
 * none within a second of it was reported: then it is. *calls: how many. Calls without a time (0)
 * are in no second.
 */
bool live_count_rate(struct live_rate *rate, uint64_t limit, uint64_t now, uint64_t *calls);

/* crew.c */
int live_crew_new(struct ptah_live *live, struct live_crew **crew);
void live_crew_free(struct live_crew *crew);
/* Calls work(context, i) for each i below n, by the crew and the thread that calls. */
void live_crew_run(struct live_crew *crew, size_t n, void (*work)(void *context, size_t i),
		   void *context);

/*
 * The smallest time, in TSC ticks, that at least the share `q` (0 to 1) of the function's timed
 * calls do not exceed, right to 1 %. 0 when there are none.
 */
uint64_t live_quantile(struct ptah_live *live, const struct ptah_live_function *function, double q);

#endif
