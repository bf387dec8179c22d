/* SPDX-License-Identifier: MIT */
/* The state of `ptah script`: the current thread, a cache of lines, and what the modes need. */
#ifndef PTAH_CLI_SCRIPT_VIEW_H
#define PTAH_CLI_SCRIPT_VIEW_H

#include "input.h"
#include "output/json.h"
#include "output/fields.h"
#include "progress.h"
#include "render.h"

#include <pthread.h>

struct script;
struct script_cache;

/* Perf's time, in nanoseconds. */
struct script_time {
	uint64_t ns;
	bool known;
	const char *kind; /* of struct ptah_times */
};

/* A mode: instructions, or one of --branches, --blocks and --calls. */
struct script_mode {
	const char *option; /* "" for instructions */
	const char *array;  /* of the JSON document */
	const struct row_type *type;
	/* The columns of TSV that get an event's address and its words. */
	const char *event_ip, *event_words;
	void (*take)(struct script *s, const struct ptah_item *item); /* NULL: --calls */
	struct renderer renderers[FORMAT_MAX];
};

extern const struct script_mode script_instructions, script_branches, script_blocks, script_calls;

/* The part of an instruction's line after the thread and time. It is made once per address, because
 * most instructions run often. */
struct script_line {
	uint64_t ip;
	int32_t space;
	uint8_t size; /* of the instruction; 0: free */
	uint8_t bytes[15];
	uint32_t length;
	uint32_t code; /* where the disassembly begins in the text */
	uint32_t text; /* its index in the pool */
};

/* Whether an address is in the function of --function, for addresses that come again. */
struct script_place {
	uint64_t ip;
	int32_t space;
	bool known, wanted;
};

#define SCRIPT_PLACES 4096

/* The branch that ended the last block. */
struct script_branch {
	bool is_open;
	uint64_t from;
	const char *kind;
};

/* In a job, for the branch that ended the block before its segment, which only the main thread
 * knows: where it led, and where its row belongs. */
struct script_carry {
	bool is_open;  /* neither is known yet */
	bool resolved; /* in the present piece */
	uint64_t to, tsc;
	size_t at; /* in the text of the piece */
};

struct script {
	const struct input *input;
	bool events, time, att;
	unsigned asked; /* SCRIPT_TIME, SCRIPT_SYMBOLS */
	const struct script_mode *mode;
	const struct renderer *renderer;
	const struct ptah_session *session;
	struct out *out;
	struct json json;
	struct names *names;
	pthread_mutex_t *names_lock;  /* for the names, or NULL: there is one thread */
	struct name name;	      /* that was found last */
	struct ptah_reader *reader;   /* not with --calls */
	struct ptah_workers *workers; /* keep what is known of the code from stream to stream */

	struct ptah_stream_info
	    info;	 /* of the current thread; its space is that of the last block */
	unsigned space;	 /* of the last block, as its item has it */
	char prefix[96]; /* comm, tid, time */
	size_t prefix_length, thread_length;
	uint64_t tsc; /* the time in the prefix */
	uint64_t at;  /* the time of the last item */
	bool guessed; /* rows had the thread's first name, because their time is not known */
	/* The name in the prefix is that of this time: [named, renamed). */
	uint64_t named, renamed;
	struct script_time now; /* the same; unknown without --time */
	bool timed;		/* a time was known somewhere */

	struct script_branch branch; /* --branches: its target is not known yet */
	struct script_carry carry;
	/* --calls: the number of the current thread, if there is one. */
	bool has_thread;
	size_t thread, appeared; /* and how many have appeared */

	struct script_cache *cache; /* of rows: script_cache.h; NULL: none are kept */
	size_t like;		    /* its code: as of this stream, */
	uint64_t generation;	    /* and as of this number of its reader */

	const char *function; /* --function, or NULL */
	bool found_function;
	struct script_place places[SCRIPT_PLACES];
	/* With --calls: of each thread, by its number, the call of the function that is open and
	 * outermost; 0: none. */
	uint64_t *inside;
	size_t inside_count;

	/* With --jobs: those of the main thread; of a job, the one to be used next. */
	struct script_jobs *jobs;
	struct script *next_job;
	pthread_t owner; /* the job's thread, in a stream: */
	uint64_t round;

	struct script_samples *samples; /* NULL: none are shown */

	/* --last: what script_last.c keeps, or NULL; and the session, whose window it changes. */
	struct script_last *last;
	struct ptah_session *own_session;

	char source[512]; /* the source line that was looked up last */
	uint64_t errors;
	struct script_line *lines;
	char *pool; /* the lines' text */
	size_t pool_used;
};

/* Bits for members of JSON's rows that are shown only on request. */
#define SCRIPT_TIME    1u
#define SCRIPT_SYMBOLS 2u
#define SCRIPT_LINES   4u

/* For the renderers and the fields of a mode. */
#define SCRIPT_SHARED_JSON                                                                         \
	.begin = script_begin_json, .event = script_event_json, .end = script_end_json,            \
	.offered = true
#define SCRIPT_SHARED_TSV .begin = script_begin_tsv, .event = script_event_tsv, .offered = true
#define SCRIPT_TIME_FIELD(type)                                                                    \
	{                                                                                          \
		"time_s", "time_s", FIELD_SECONDS, offsetof(type, time.ns), SCRIPT_TIME,           \
		    offsetof(type, time.known)                                                     \
	}
/* Behind the other columns; JSON has it once. */
#define SCRIPT_KIND_FIELD(type)                                                                    \
	{                                                                                          \
		"times", NULL, FIELD_STRING, offsetof(type, time.kind), SCRIPT_TIME, 0             \
	}
#define SCRIPT_SYMBOL_FIELD(type, key, member)                                                     \
	{                                                                                          \
		NULL, key, FIELD_STRING, offsetof(type, member), SCRIPT_SYMBOLS, 0                 \
	}

#define SCRIPT_LINE_FIELD(type)                                                                    \
	{                                                                                          \
		"line", "line", FIELD_STRING, offsetof(type, line), SCRIPT_LINES, 0                \
	}

/* What ended a thread. */
struct script_ending {
	int32_t pid;
	char signal[16]; /* "SIGSEGV"; "": not known */
	bool ip_known;
	uint64_t ip;		      /* the next instruction, or the one that faulted */
	const struct ptah_insn *insn; /* NULL: there is no code */
};

/* Whether part of the path is missing at this item. */
bool script_is_loss(const struct ptah_item *item);

/* The next rows belong to this thread. */
void script_begin_thread(struct script *s, const struct ptah_stream_info *info);

/* The next rows are of this time, and of the name that the thread had then. 0: it is not known. */
void script_set_time(struct script *s, uint64_t tsc);

/* Counts errors, and prints the events that are shown. */
void script_take_event(struct script *s, const struct ptah_item *item);

/* Reads the calls of a stream, or (SIZE_MAX) of all chosen ones. Returns 0 or an error. */
int script_read_calls(struct script *s, size_t stream, struct progress *progress);

/*
 * script_jobs.c: the jobs of --jobs, whose state is that of `s` as it is now. They use its names.
 * script_read_with_jobs() reads a stream as the library cuts it.
 */
int script_new_jobs(struct script *s, struct progress *progress);
void script_free_jobs(struct script *s);
int script_read_with_jobs(struct script *s, size_t stream);

/* Takes over items that the reader has returned. */
void script_take_items(struct script *s, const struct ptah_item *items, int n);

/* Reads all that the reader has. 0 or an error. */
int script_read_items(struct script *s, struct progress *progress);

/* Whether Ctrl-C has been pressed, or the output has been closed. */
bool script_has_stopped(const struct script *s);

/* The rows that follow are of this stream. */
void script_follow_stream(struct script *s, size_t stream);

/* --branches: the last branch led there. */
void script_resolve_branch(struct script *s, uint64_t to);

/* Reads one stream of a mode that takes items. */
int script_read_stream(struct script *s, size_t stream, struct progress *progress);

/*
 * script_last.c: shows only the last `wanted` rows of each thread. From then on s->renderer passes
 * on these rows.
 */
int script_new_last(struct script *s, uint64_t wanted);
void script_free_last(struct script *s);

/* Whether rows are only counted. */
bool script_is_counting(const struct script *s);

/* Whether what comes before the next row is shown. */
bool script_is_shown(struct script *s);

/* Reads the end of a stream, and prints its last rows. */
int script_last_of_stream(struct script *s, size_t stream, struct progress *progress);

/* At the end of a thread's trace, whose last item is this one: prints what ended it. */
void script_put_ending(struct script *s, const struct ptah_item *item);

/* script_events.c: prints it, as an event. */
void script_ending(struct script *s, const struct script_ending *ending);

/* Whether the address is in the function that --function names. True without that option. */
bool script_is_wanted(struct script *s, uint64_t ip);

/* The source line of an address, "main.c:12". NULL: it is not asked for, or not known. */
const char *script_source_line(struct script *s, uint64_t ip);

/* In text, ends a row with the source line of its address. */
void script_end_row(struct script *s, const char *line);

void script_put_prefix(struct script *s);

/* The name of an address in the space of the last block. */
const struct name *script_find_name(struct script *s, uint64_t ip);

/* Writes " symbol+0x10 (object)". */
void script_put_name(struct script *s, uint64_t ip);

/* Writes "symbol+0x10" into `text`. NULL: no symbol is known, or --no-symbols. */
const char *script_symbol(struct script *s, uint64_t ip, char *text, size_t n);

/* The line of an instruction, from the cache or made now. Its text is in s->pool. */
const struct script_line *script_find_line(struct script *s, const struct ptah_insn *insn);
int script_new_lines(struct script *s);
void script_forget_lines(struct script *s);
void script_free_lines(struct script *s);

/* Functions of the renderers that all modes share. */
void script_begin_json(void *view);
void script_begin_tsv(void *view);
void script_end_json(void *view);
/* Puts the moments for which the recording was kept, if they are of this thread, or of none. */
void script_put_hits(struct script *s);

/*
 * A row of the mode's columns for an event, whose words `put` writes. Those that an event has no
 * value for stay empty.
 */
void script_put_event_tsv(struct script *s, uint64_t ip,
			  void (*put)(struct script *s, const void *event), const void *event);

/*
 * script_samples.c: the samples and system calls of the recording, each at its place. They are
 * shown with --events, and system calls also in the text of --calls.
 */
int script_new_samples(struct script *s);
/* Whether the output in this format shows them. */
bool script_wants_samples(const struct script *s, int format);
void script_free_samples(struct script *s);
/* The next row of the current thread has this time; with `off`, tracing went off then. */
void script_put_samples(struct script *s, uint64_t tsc, bool off);
/* The stream ends: what is left of its thread has no later place. */
void script_end_samples(struct script *s, size_t stream);

void script_event_text(void *view, const void *event);
void script_event_json(void *view, const void *event);
void script_event_tsv(void *view, const void *event);

#endif
