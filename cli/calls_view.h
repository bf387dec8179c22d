/* SPDX-License-Identifier: MIT */
/* What the parts of `ptah calls` share: functions by name, and the values that are shown. */
#ifndef PTAH_CLI_CALLS_VIEW_H
#define PTAH_CLI_CALLS_VIEW_H

#include "call_trees.h"
#include "output/json.h"
#include "output/names.h"
#include "render.h"

enum calls_sort {
	CALLS_TOTAL,
	CALLS_SELF,
	CALLS_COUNT,
	CALLS_MIN,
	CALLS_P50,
	CALLS_P90,
	CALLS_P99,
	CALLS_MAX,
	CALLS_NAME,
};

struct calls_options {
	struct input input;
	int value; /* enum ptah_call_value */
	int sort;  /* enum calls_sort */
	bool stubs;
	const char *callers, *callees, *of;
	uint64_t slowest;
	bool why;
};

/* A function: the same wherever its file was mapped. */
struct calls_key {
	const char *function; /* as it is shown; an address where no name is known */
	const char *mangled;
	const char *path, *object;
	uint64_t place; /* its offset in the file: several functions of a file may have one name */
	uint64_t ip;	/* where it begins, in the first process that had it */
	bool wanted;	/* the user named it */
};

struct calls_view {
	const struct calls_options *options;
	struct ptah_session *session;
	struct names *names;
	struct out *out;
	char *const *wanted; /* the names that the user gave */
	int wanted_count;
	struct calls_key *keys;
	size_t key_count, key_room;
	uint32_t *slots; /* of a hash table: index of a key + 1 */
	size_t slot_count;
	uint64_t errors;
	bool estimated; /* times of calls are estimates ... */
	bool bounded;	/* ... between stamps */
	bool folded;	/* calls were too deep to be followed */
};

/* The key of a function. SIZE_MAX: out of memory. */
size_t calls_key_of(struct calls_view *v, int32_t space, uint64_t function);
void calls_free_keys(struct calls_view *v);

/*
 * Finds out whether any of the wanted functions was met. If not, prints so. Returns an exit code.
 */
int calls_check_wanted(const struct calls_view *v);

uint64_t calls_figure(const struct calls_view *v, const struct ptah_call_figures *figures);

/* A figure as text for people, with its unit where it has one. */
const char *calls_text(const struct calls_view *v, uint64_t figure, char text[32]);

/* In the head: what the recording's times are, where a time is shown. */
/* The last column of TSV where values are times: what kind of times. JSON has it once. */
#define CALLS_TIMES 1u
/* Between stamps totals have bounds. */
#define CALLS_BOUNDS 2u
#define CALLS_KIND_FIELD(type)                                                                     \
	{                                                                                          \
		"times", NULL, FIELD_STRING, offsetof(type, times), CALLS_TIMES, 0                 \
	}
unsigned calls_asked(const struct calls_view *v);
const char *calls_kind_name(const struct calls_view *v);

void calls_put_time_head(const struct calls_view *v);
void calls_put_time_json(const struct calls_view *v, struct json *json);

/* The word of --value. */
const char *calls_value_name(const struct calls_view *v);

/* calls_rows.c: the table of functions; or the callers or callees of one. Returns an exit code. */
int calls_put_functions(struct calls_view *v, const struct ptah_call_tree *tree);
int calls_put_pairs(struct calls_view *v, const struct ptah_call_tree *tree, bool callers);

/* calls_waits.c: what threads waited for in single calls. */
struct call_waits;

/* Where the time of a call went, in nanoseconds. */
struct call_split {
	struct call_wait {
		char text[128]; /* the cause, and of what: "mutex 0x4040c0" */
		uint64_t ns;
	} waits[8]; /* the longest first; the last one has what does not fit */
	size_t wait_count;
	uint64_t waited, preempted;
	uint64_t kernel; /* in system calls that are no waits */
	uint64_t rest;	 /* it ran; without context switches, it may have waited for a processor */
	bool has_switches;
};

/* NULL in *waits: the recording has none. 0 or an error. */
int call_waits_new(struct calls_view *v, struct call_waits **waits);
void call_waits_free(struct call_waits *waits);

/* wait_end_of_thread() */
uint64_t call_waits_end(const struct call_waits *waits, const struct ptah_call_thread *thread,
			uint64_t tsc);

/* What a thread did in [from, until], nanoseconds. */
void call_waits_split(struct call_waits *waits, int32_t tid, uint64_t from, uint64_t until,
		      struct call_split *split);
/* --why: each wait, and what the thread did that ended it, with its own waits. */
void call_waits_put_chain(struct call_waits *waits, int32_t tid, uint64_t from, uint64_t until);
void call_waits_put_split(struct out *out, const struct call_split *split);

/* calls_slowest.c: reads single calls, and prints those with the largest values. An exit code. */
int calls_put_slowest(struct calls_view *v);

#endif
