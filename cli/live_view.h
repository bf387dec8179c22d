/* SPDX-License-Identifier: MIT */
/* What the parts of `ptah live` share: what has been measured, and how it is shown. */
#ifndef PTAH_CLI_LIVE_VIEW_H
#define PTAH_CLI_LIVE_VIEW_H

#include "record_options.h"
#include "record_run.h"

#include "output/names.h"

#include <ptah/live.h>

/* The words of --sort, in this order; the keys of the screen go through them. */
enum live_sort {
	LIVE_NOW,
	LIVE_TOTAL,
	LIVE_CALLS,
	LIVE_P99,
	LIVE_MAX,
	LIVE_WAITS,
	LIVE_SORT_MAX
};

extern const char *const live_sort_words[];

/* In place of --limit, which was not given. */
#define LIVE_NO_LIMIT UINT64_MAX

struct live_options {
	struct record_options record; /* its first member is the shared struct input */
	const char *every, *duration, *save, *command_output;
	struct text_list watches, actions; /* --watch, --on-hit */
	const char *keep;
	uint64_t hits;	  /* --hits; 0: not given */
	int sort, format; /* format -1: not given */
	bool drop;
	uint64_t queue, limit;
	double interval, length; /* seconds; length 0: no end */
	/* Coverage: live_cover.h */
	const char *cover, *until;
	bool per_process;
	int cover_format; /* -1: not given, before live_cover_check() */
	double stable;	  /* seconds; 0: no end */
};

/* How much was reached. */
struct live_coverage {
	uint64_t blocks, edges, functions;
};

/* A function of a file, in all processes that have it. */
struct live_row {
	const char *name, *path;      /* as in the file; NULL: not known */
	uint64_t place;		      /* its offset in the file; without one, its address */
	uint64_t address;	      /* where it begins, in one of the processes */
	uint64_t instructions, calls; /* since the beginning */
	uint64_t now, calls_now;      /* in the last interval */
	uint64_t open, ended, timed;  /* calls, as in struct ptah_live_function */
	uint64_t total_instructions, max_instructions; /* of calls that have ended */
	uint64_t waited;			       /* in timed calls, in nanoseconds */
	uint64_t p50, p99, max;			       /* of timed calls, in nanoseconds */
	size_t first, count;			       /* its functions in live_measure.functions */
};

struct live_thread_row {
	struct ptah_live_thread thread;
	uint64_t now; /* instructions in the last interval */
};

/* A hit of a watch, as it is reported. */
struct live_hit_line {
	uint64_t number, time; /* time: nanoseconds of perf's clock; 0: not known */
	int32_t pid, tid;
	char text[512];
	char file[4096];    /* "": it was not saved */
	char failure[1200]; /* why not */
};

/* What an interval has brought. */
struct live_measure {
	double seconds;				/* since the beginning */
	double length;				/* of the interval */
	struct ptah_live_status status, before; /* at its end and its beginning */
	struct live_row *rows;			/* in the order of `sort` */
	size_t count;
	struct ptah_live_function *functions;
	uint64_t instructions, now; /* of all rows */
	struct live_thread_row *threads;
	size_t thread_count;
	bool waits; /* some function has waited */
	bool timed; /* TSC ticks can be told in nanoseconds */
	bool final; /* everything is decoded; the interval is the whole time */
	/* Coverage, if `covers`: in all, what was reached for the first time in this interval, and
	 * for how many seconds nothing has been. */
	bool covers;
	struct live_coverage coverage, fresh;
	double quiet;
};

struct live_view {
	const struct live_options *options;
	struct ptah_live *live;
	struct live_cover *cover; /* NULL: no coverage */
	struct names *names;	  /* only demangles */
	const char *recorder;	  /* which and why; or what is read */
	const char *command;	  /* what is followed, for people */
	const char *redirected;	  /* where the command's output goes; NULL: where it went */
	enum live_sort sort;
	double started;
	struct live_measure measure;
	uint64_t hits;		  /* of watches */
	struct live_hit_line hit; /* the last one */
	struct live_row *last;	  /* those of the interval before, by place */
	size_t last_count;
};

/* live_measure.c */

/* Measures what has happened since the last time. 0 or an error. */
int live_measure(struct live_view *v, bool final);
void live_measure_free(struct live_view *v);

/* What the times of the recording are, as a word or as a sentence. */
const char *live_times(const struct live_view *v);
const char *live_times_text(const struct live_view *v);

/* Sorts the rows again. */
void live_sort_rows(struct live_view *v);

/* The row's name as it is shown. */
const char *live_label(const struct live_view *v, const struct live_row *row, char text[32]);
const char *live_object(const struct live_row *row);

/*
 * live_lines.c: without a terminal. What prints returns false when that could not be written, for
 * the reason in errno; EPIPE: nobody reads it any more.
 */

/* Prints what comes before the first line: of TSV the names of the columns. */
bool live_put_head(const struct live_view *v, int fd);

/* Prints the measure on the descriptor, as --format says. */
bool live_put_line(const struct live_view *v, int fd);

/* The same of the last one: in text a table as that of `ptah report`. */
bool live_put_summary(const struct live_view *v, int fd);

/* Prints the last hit, in the middle of an interval. */
bool live_put_hit(const struct live_view *v, int fd);

/* live_options.c: --every and the like. */
extern const struct option_def live_options[], live_input_options[];

/* A time in seconds, or with s, ms, us, m or h. false: it is none. */
bool live_parse_time(const char *text, double *seconds);

#endif
