/* SPDX-License-Identifier: MIT */
/* What the parts of `ptah waits` share: groups of waits, locks, and the rows of single waits. */
#ifndef PTAH_CLI_WAITS_VIEW_H
#define PTAH_CLI_WAITS_VIEW_H

#include "input.h"
#include "output/json.h"
#include "render.h"
#include "output/wait_names.h"

enum waits_sort {
	WAITS_TOTAL,
	WAITS_COUNT,
	WAITS_P50,
	WAITS_P90,
	WAITS_P99,
	WAITS_MAX,
	WAITS_NAME,
};

struct waits_options {
	struct input input;
	int sort; /* enum waits_sort */
	bool list, folded;
};

/* A wait as it is counted: with the wait for the mutex that follows it, of condition variables. */
struct waits_entry {
	size_t wait;
	size_t again; /* the wait for the mutex; SIZE_MAX: none */
	uint64_t ns, again_ns;
	const char *cause;
};

/* A function, or a thread, with what is counted of it. */
struct waits_by {
	char *text;
	int32_t tid;
	uint64_t count, ns;
};

/* Functions or threads: each once, and the most frequent first, after waits_sort_by(). */
struct waits_list {
	struct waits_by *by;
	size_t count, room;
};

/* Waits for the same in the same functions. */
struct waits_group {
	const char *cause;
	char *functions, *object;
	int32_t pid;	 /* of an object; 0: of all processes */
	uint64_t *times; /* sorted in the end */
	size_t count, room;
	uint64_t total;
	uint64_t until_woken, until_ran; /* of those of which it is known when they were ended */
	struct waits_list by;		 /* who ended them, by function */
	uint64_t several;		 /* of them, those that others may have ended */
	size_t first, last;		 /* entries; see `next` of waits_groups */
};

struct waits_view {
	const struct waits_options *options;
	struct ptah_session *session;
	struct wait_names names;
	struct out *out;
	char *const *wanted;
	int wanted_count;
	struct waits_entry *entries;
	size_t count;
	uint64_t total, from, until; /* from, until: nanoseconds; what --since and --until choose */
};

/* waits_groups.c: the entries of the view that are chosen. 0 or an error. */
int waits_list(struct waits_view *v);

struct waits_groups {
	struct waits_group *groups;
	size_t count, room;
	size_t *next; /* of each entry, the next one of its group; SIZE_MAX: it is the last */
	void *tree;
};

/*
 * Groups by cause and functions, or `by_object`: locks and other futexes, by their address. The
 * largest are first. 0 or PTAH_E_NOMEM.
 */
int waits_group(const struct waits_view *v, bool by_object, struct waits_groups *groups);
void waits_free_groups(struct waits_groups *groups);

/* Counts in a list of functions or threads. False: out of memory. */
bool waits_count(struct waits_list *list, const char *text, int32_t tid, uint64_t ns);
void waits_sort_by(struct waits_list *list);
void waits_free_by(struct waits_list *list);

uint64_t waits_quantile(const struct waits_group *group, double quantile);

/* waits_rows.c: the output. */
int waits_put_text(struct waits_view *v);
int waits_put_json(struct waits_view *v);
int waits_put_tsv(struct waits_view *v);
/* waits_folded.c */
int waits_put_folded(struct waits_view *v);

#endif
