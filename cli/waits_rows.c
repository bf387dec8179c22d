/* SPDX-License-Identifier: MIT */
/* The output of `ptah waits`: causes, locks, and single waits. */
#include "time_head.h"
#include "waits_view.h"

#include "base/order.h"
#include "output/fields.h"
#include "output/pretty.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Single waits */

static void put_holder(const struct waits_view *v, size_t i, const struct ptah_wait *wait)
{
	char text[WAIT_TEXT];

	if (!wait->holder || wait->kind == PTAH_WAIT_THREAD)
		return;
	wait_functions(&v->names, i, PTAH_WAIT_STACK_HOLDER, 3, text);
	out_format(v->out, "; %d had it when the wait began", wait->holder);
	if (*text)
		out_text(v->out, ", in ");
	out_clean(v->out, text);
}

static void put_entry(struct waits_view *v, const struct waits_entry *entry)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	char text[WAIT_TEXT], end[WAIT_END], object[WAIT_TEXT], a[PRETTY_NUMBER];

	ptah_waits_get(v->names.waits, entry->wait, &wait);
	out_seconds(v->out, wait.begin);
	out_format(v->out, "  %d  %9s  ", wait.tid, pretty_time(entry->ns, a));
	pretty_text(v->out, PRETTY_HEAD, entry->cause);
	wait_object_name(&v->names, entry->wait, &wait, object);
	if (*object) {
		out_char(v->out, ' ');
		out_clean(v->out, object);
	}
	wait_functions(&v->names, entry->wait, PTAH_WAIT_STACK_OWN, 3, text);
	if (*text)
		out_text(v->out, " in ");
	out_clean(v->out, text);
	out_text(v->out, "\n    ");
	out_clean(v->out, wait_end(&v->names, entry->wait, &wait, end));
	put_holder(v, entry->wait, &wait);
	if (wait.woken && wait.end > wait.woken)
		out_format(v->out, "; from there %s until it ran again",
			   pretty_time((wait.ran ? wait.ran : wait.end) - wait.woken, a));
	if (entry->again != SIZE_MAX)
		out_format(v->out, "; then %s for its mutex", pretty_time(entry->again_ns, a));
	out_char(v->out, '\n');
}

static int compare_entries(const void *a, const void *b)
{
	const struct waits_entry *x = a, *y = b;

	return COMPARE_THEN(y->ns, x->ns, COMPARE(x->wait, y->wait));
}

static void put_list(struct waits_view *v)
{
	const size_t shown = input_shown(&v->options->input, v->count);

	for (size_t i = 0; i < shown; i++)
		put_entry(v, &v->entries[i]);
	if (shown < v->count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", v->count - shown);
}

/* Text */

static void put_head(const struct waits_view *v)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER];
	const struct ptah_syscalls *calls = ptah_waits_syscalls(v->names.waits);

	/* Waits begin and end at stamps: their times are no estimates. */
	if (ptah_session_times(v->session).kind == PTAH_TIME_SIMULATED)
		time_head_put_kind(v->out, v->session);
	pretty_head(v->out, "# %s waits of %s in all, in %s system calls\n",
		    pretty_number(v->count, a), pretty_time(v->total, b),
		    pretty_number(ptah_syscalls_count(calls), c));
}

/* A thread that waits until the end: for a lock, and who has that, or for the end of a thread. */
struct blocked {
	int32_t tid, holder;
	size_t wait;
	size_t walk; /* the first thread from which the walk came here; 0: none yet */
};

struct blocked_list {
	struct blocked *list; /* by thread */
	size_t count;
};

static int compare_blocked(const void *a, const void *b)
{
	return COMPARE(((const struct blocked *)a)->tid, ((const struct blocked *)b)->tid);
}

/* Adds a wait, if it is one for a lock that lasts until the end. False: out of memory. */
static bool add_blocked(const struct waits_view *v, struct blocked_list *b, size_t i)
{
	struct ptah_wait wait = {.size = sizeof(wait)};

	if (ptah_waits_get(v->names.waits, i, &wait) < 0 || wait.how != PTAH_WAIT_END_NEVER ||
	    !wait.holder)
		return true;
	if (!LIST_ADD(b->list, b->count))
		return false;
	b->list[b->count - 1] = (struct blocked){.tid = wait.tid, .holder = wait.holder, .wait = i};
	return true;
}

static int list_blocked(const struct waits_view *v, struct blocked_list *b)
{
	for (size_t i = 0; i < v->count; i++)
		if (!add_blocked(v, b, v->entries[i].wait) ||
		    !add_blocked(v, b, v->entries[i].again))
			return PTAH_E_NOMEM;
	if (b->count)
		qsort(b->list, b->count, sizeof(*b->list), compare_blocked);
	return 0;
}

/* Who has what this one waits for, if that one waits, too. */
static struct blocked *find_holder(const struct blocked_list *b, const struct blocked *waiting)
{
	size_t at;

	BISECT(at, 0, b->count, b->list[at].tid < waiting->holder);
	return at < b->count && b->list[at].tid == waiting->holder ? &b->list[at] : NULL;
}

/* Threads that wait for each other until the end: each thread of the circle, and who has its lock. */
static void put_deadlock(struct waits_view *v, const struct blocked_list *b,
			 const struct blocked *first)
{
	const struct blocked *at = first;
	struct ptah_wait wait = {.size = sizeof(wait)};
	char object[WAIT_TEXT], text[WAIT_TEXT];

	out_char(v->out, '\n');
	pretty_text(v->out, PRETTY_BAD, "deadlock:");
	out_char(v->out, '\n');
	do {
		ptah_waits_get(v->names.waits, at->wait, &wait);
		out_format(v->out, "  %d waits for %s ", at->tid,
			   wait_cause(&v->names, at->wait, &wait));
		out_clean(v->out, wait_object_name(&v->names, at->wait, &wait, object));
		out_text(v->out, " in ");
		out_clean(v->out,
			  wait_functions(&v->names, at->wait, PTAH_WAIT_STACK_OWN, 3, text));
		if (wait.kind == PTAH_WAIT_THREAD)
			out_char(v->out, '\n');
		else
			out_format(v->out, "; %d has it\n", at->holder);
		at = find_holder(b, at);
	} while (at != first);
}

/* From each thread to the one that has its lock: who is met again on the same walk is in a circle. */
static int put_deadlocks(struct waits_view *v)
{
	struct blocked_list b = {0};
	const int status = list_blocked(v, &b);

	for (size_t i = 0; status >= 0 && i < b.count; i++) {
		struct blocked *at = &b.list[i];

		for (; at && !at->walk; at = find_holder(&b, at))
			at->walk = i + 1;
		if (at && at->walk == i + 1)
			put_deadlock(v, &b, at);
	}
	free(b.list);
	return status;
}

static void put_by(const struct waits_view *v, const struct waits_group *g)
{
	if (!g->by.count)
		return;
	if (*g->by.by[0].text)
		out_clean(v->out, g->by.by[0].text);
	else if (g->by.by[0].tid > 0)
		out_format(v->out, "thread %d", g->by.by[0].tid);
	else
		out_text(v->out, "not recorded");
	if (g->by.count > 1)
		out_format(v->out, " and %zu more", g->by.count - 1);
	if (g->several)
		out_text(v->out, WAIT_OR_OTHERS);
}

static void put_groups(const struct waits_view *v, const struct waits_groups *g)
{
	const size_t shown = input_shown(&v->options->input, g->count);
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER], d[PRETTY_NUMBER],
	    e[PRETTY_NUMBER];

	pretty_head(v->out, "%-20s %9s %9s %9s %9s %9s  %-28s %s\n", "cause", "waits", "total",
		    "p50", "p99", "max", "in", "ended by");
	for (size_t i = 0; i < shown; i++) {
		const struct waits_group *group = &g->groups[i];

		out_format(v->out, "%-20s %9s %9s %9s %9s %9s  ", group->cause,
			   pretty_number(group->count, a), pretty_time(group->total, b),
			   pretty_time(waits_quantile(group, 0.5), c),
			   pretty_time(waits_quantile(group, 0.99), d),
			   pretty_time(waits_quantile(group, 1), e));
		pretty_column(v->out, group->functions, 28);
		out_char(v->out, ' ');
		put_by(v, group);
		out_char(v->out, '\n');
	}
	if (shown < g->count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", g->count - shown);
}

/* A lock's waiters, and who had it when their waits began. */
struct lock {
	struct waits_list waiters, holders;
	char name[WAIT_TEXT]; /* of a variable, or its address */
};

static bool add_to_lock(const struct waits_view *v, struct lock *lock,
			const struct waits_entry *entry)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	char text[WAIT_TEXT];

	ptah_waits_get(v->names.waits, entry->wait, &wait);
	if (!waits_count(&lock->waiters, "", wait.tid, entry->ns))
		return false;
	if (!wait.holder)
		return true;
	wait_functions(&v->names, entry->wait, PTAH_WAIT_STACK_HOLDER, 2, text);
	return waits_count(&lock->holders, text, wait.holder, entry->ns);
}

static bool read_lock(struct waits_view *v, const struct waits_groups *locks,
		      const struct waits_group *g, struct lock *lock)
{
	struct ptah_wait wait = {.size = sizeof(wait)};

	*lock = (struct lock){0};
	ptah_waits_get(v->names.waits, v->entries[g->first].wait, &wait);
	wait_object_name(&v->names, v->entries[g->first].wait, &wait, lock->name);
	for (size_t i = g->first; i != SIZE_MAX; i = locks->next[i])
		if (!add_to_lock(v, lock, &v->entries[i]))
			return false;
	waits_sort_by(&lock->waiters);
	waits_sort_by(&lock->holders);
	return true;
}

static void free_lock(struct lock *lock)
{
	waits_free_by(&lock->waiters);
	waits_free_by(&lock->holders);
}

/* Text lists so many locks, and so many threads of each. */
#define MOST_LOCKS   5
#define MOST_THREADS 8

static void put_lock(const struct waits_view *v, const struct waits_group *g,
		     const struct lock *lock)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	out_char(v->out, '\n');
	pretty_text(v->out, PRETTY_HEAD, g->cause);
	out_char(v->out, ' ');
	out_clean(v->out, lock->name);
	out_format(v->out, ": %s wait%s, %s\n", pretty_number(g->count, a),
		   g->count == 1 ? "" : "s", pretty_time(g->total, b));
	if (g->until_woken + g->until_ran)
		out_format(v->out, "  %s until %s, %s from there until the waiter ran again\n",
			   pretty_time(g->until_woken, a),
			   strcmp(g->cause, "mutex") ? "it was woken" : "it was given back",
			   pretty_time(g->until_ran, b));
	for (size_t i = 0; i < lock->waiters.count && i < MOST_THREADS; i++)
		out_format(v->out, "  waiter %-8d %9s waits %10s\n", lock->waiters.by[i].tid,
			   pretty_number(lock->waiters.by[i].count, a),
			   pretty_time(lock->waiters.by[i].ns, b));
	for (size_t i = 0; i < lock->holders.count && i < MOST_THREADS; i++) {
		out_format(v->out, "  holder %-8d %9s waits %10s ", lock->holders.by[i].tid,
			   pretty_number(lock->holders.by[i].count, a),
			   pretty_time(lock->holders.by[i].ns, b));
		pretty_percent(v->out, lock->holders.by[i].ns, g->total);
		out_text(v->out, "  ");
		out_clean(v->out, lock->holders.by[i].text);
		out_char(v->out, '\n');
	}
}

int waits_put_text(struct waits_view *v)
{
	struct waits_groups groups, locks;
	struct lock lock;
	int status = 0;

	put_head(v);
	if (v->options->list) {
		if (v->count)
			qsort(v->entries, v->count, sizeof(*v->entries), compare_entries);
		put_list(v);
		return 0;
	}
	status = waits_group(v, false, &groups);
	if (status >= 0)
		put_groups(v, &groups);
	waits_free_groups(&groups);
	if (status < 0)
		return status;
	status = waits_group(v, true, &locks);
	for (size_t i = 0; i < locks.count && i < MOST_LOCKS && status >= 0; i++) {
		if (!read_lock(v, &locks, &locks.groups[i], &lock))
			status = PTAH_E_NOMEM;
		else
			put_lock(v, &locks.groups[i], &lock);
		free_lock(&lock);
	}
	waits_free_groups(&locks);
	return status < 0 ? status : put_deadlocks(v);
}

/* Rows for programs */

struct group_row {
	const char *cause, *functions, *by;
	uint64_t waits, total, p50, p90, p99, max, until_woken, until_ran, several;
};

static const struct field group_fields[] = {
    FIELD(struct group_row, "cause", FIELD_STRING, cause),
    FIELD(struct group_row, "waits", FIELD_NUMBER, waits),
    FIELD(struct group_row, "total", FIELD_NUMBER, total),
    FIELD(struct group_row, "p50", FIELD_NUMBER, p50),
    FIELD(struct group_row, "p90", FIELD_NUMBER, p90),
    FIELD(struct group_row, "p99", FIELD_NUMBER, p99),
    FIELD(struct group_row, "max", FIELD_NUMBER, max),
    FIELD(struct group_row, "until_woken", FIELD_NUMBER, until_woken),
    FIELD(struct group_row, "until_ran", FIELD_NUMBER, until_ran),
    FIELD(struct group_row, "in", FIELD_STRING, functions),
    FIELD(struct group_row, "ended_by", FIELD_STRING, by),
    FIELD(struct group_row, "several", FIELD_NUMBER, several),
};

static const struct row_type group_type = ROW_TYPE(group_fields);

static struct group_row row_of_group(const struct waits_group *g)
{
	return (struct group_row){.cause = g->cause,
				  .functions = g->functions,
				  .by = g->by.count ? g->by.by[0].text : NULL,
				  .waits = g->count,
				  .total = g->total,
				  .p50 = waits_quantile(g, 0.5),
				  .p90 = waits_quantile(g, 0.9),
				  .p99 = waits_quantile(g, 0.99),
				  .max = waits_quantile(g, 1),
				  .until_woken = g->until_woken,
				  .until_ran = g->until_ran,
				  .several = g->several};
}

struct wait_row {
	int32_t pid, tid, waker, holder;
	uint64_t begin, ns, again, again_begin, woken, ran;
	const char *cause, *object, *end, *functions, *waker_in, *holder_in, *call;
	bool has_again, has_woken, has_ran, has_waker, has_holder, several;
};

static const struct field wait_fields[] = {
    FIELD(struct wait_row, "pid", FIELD_SIGNED, pid),
    FIELD(struct wait_row, "tid", FIELD_SIGNED, tid),
    FIELD(struct wait_row, "time_s", FIELD_SECONDS, begin),
    FIELD(struct wait_row, "ns", FIELD_NUMBER, ns),
    FIELD(struct wait_row, "again_ns", FIELD_NUMBER, again),
    {"again_s", "again_s", FIELD_SECONDS, offsetof(struct wait_row, again_begin), 0,
     offsetof(struct wait_row, has_again)},
    {"woken_s", "woken_s", FIELD_SECONDS, offsetof(struct wait_row, woken), 0,
     offsetof(struct wait_row, has_woken)},
    {"ran_s", "ran_s", FIELD_SECONDS, offsetof(struct wait_row, ran), 0,
     offsetof(struct wait_row, has_ran)},
    FIELD(struct wait_row, "cause", FIELD_STRING, cause),
    FIELD(struct wait_row, "object", FIELD_STRING, object),
    FIELD(struct wait_row, "end", FIELD_STRING, end),
    {"waker", "waker", FIELD_SIGNED, offsetof(struct wait_row, waker), 0,
     offsetof(struct wait_row, has_waker)},
    FIELD(struct wait_row, "several", FIELD_BOOL, several),
    {"holder", "holder", FIELD_SIGNED, offsetof(struct wait_row, holder), 0,
     offsetof(struct wait_row, has_holder)},
    FIELD(struct wait_row, "in", FIELD_STRING, functions),
    FIELD(struct wait_row, "waker_in", FIELD_STRING, waker_in),
    FIELD(struct wait_row, "holder_in", FIELD_STRING, holder_in),
    FIELD(struct wait_row, "call", FIELD_STRING, call),
};

static const struct row_type wait_type = ROW_TYPE(wait_fields);

/* The texts of a row of a single wait. */
struct texts {
	char object[WAIT_TEXT], functions[WAIT_TEXT], waker[WAIT_TEXT], holder[WAIT_TEXT],
	    call[1024];
};

static struct wait_row row_of_entry(struct waits_view *v, const struct waits_entry *entry,
				    struct texts *t)
{
	struct ptah_wait wait = {.size = sizeof(wait)}, again = {.size = sizeof(again)};
	const size_t i = entry->wait;

	ptah_waits_get(v->names.waits, i, &wait);
	ptah_waits_get(v->names.waits, entry->again, &again);
	t->call[0] = '\0';
	if (wait.call != SIZE_MAX)
		ptah_syscall_text(ptah_waits_syscalls(v->names.waits), wait.call, t->call,
				  sizeof(t->call));
	return (struct wait_row){
	    .pid = wait.pid,
	    .tid = wait.tid,
	    .waker = wait.waker_tid,
	    .has_waker = wait.waker_tid > 0,
	    .several = wait.flags & PTAH_WAIT_SEVERAL,
	    .holder = wait.holder,
	    .has_holder = wait.holder,
	    .begin = wait.begin,
	    .ns = entry->ns,
	    .again = entry->again_ns,
	    .has_again = entry->again != SIZE_MAX,
	    .again_begin = again.begin,
	    .woken = wait.woken,
	    .has_woken = wait.woken,
	    .ran = wait.ran,
	    .has_ran = wait.ran,
	    .cause = entry->cause,
	    .object = wait_object_name(&v->names, i, &wait, t->object),
	    .end = ptah_wait_end_name(wait.how),
	    .functions = wait_functions(&v->names, i, PTAH_WAIT_STACK_OWN, 8, t->functions),
	    .waker_in = wait_functions(&v->names, i, PTAH_WAIT_STACK_WAKER, 8, t->waker),
	    .holder_in = wait_functions(&v->names, i, PTAH_WAIT_STACK_HOLDER, 8, t->holder),
	    .call = t->call};
}

int waits_put_tsv(struct waits_view *v)
{
	struct waits_groups groups;
	struct texts texts;
	int status = 0;

	fields_tsv_head(v->out, v->options->list ? &wait_type : &group_type, 0);
	for (size_t i = 0; v->options->list && i < input_shown(&v->options->input, v->count); i++) {
		const struct wait_row row = row_of_entry(v, &v->entries[i], &texts);

		fields_tsv(v->out, &wait_type, 0, &row);
	}
	if (v->options->list)
		return 0;
	status = waits_group(v, false, &groups);
	for (size_t i = 0; status >= 0 && i < input_shown(&v->options->input, groups.count); i++) {
		const struct group_row row = row_of_group(&groups.groups[i]);

		fields_tsv(v->out, &group_type, 0, &row);
	}
	waits_free_groups(&groups);
	return status;
}

static void put_threads_json(struct json *j, const char *key, const struct waits_list *list)
{
	json_array(j, key);
	for (size_t i = 0; i < list->count; i++) {
		json_object(j, NULL, true);
		json_signed(j, "tid", list->by[i].tid);
		if (*list->by[i].text)
			json_string(j, "in", list->by[i].text);
		json_number(j, "waits", list->by[i].count);
		json_number(j, "total", list->by[i].ns);
		json_end_object(j);
	}
	json_end_array(j);
}

static int put_locks_json(struct waits_view *v, struct json *j)
{
	struct waits_groups locks;
	struct lock lock;
	int status = waits_group(v, true, &locks);

	json_array(j, "locks");
	for (size_t i = 0; i < input_shown(&v->options->input, locks.count) && status >= 0; i++) {
		const struct waits_group *g = &locks.groups[i];

		if (!read_lock(v, &locks, g, &lock))
			status = PTAH_E_NOMEM;
		json_object(j, NULL, false);
		json_string(j, "cause", g->cause);
		json_signed(j, "pid", g->pid);
		json_string(j, "address", g->object);
		json_string(j, "name", lock.name);
		json_number(j, "waits", g->count);
		json_number(j, "total", g->total);
		json_number(j, "until_woken", g->until_woken);
		json_number(j, "until_ran", g->until_ran);
		put_threads_json(j, "waiters", &lock.waiters);
		put_threads_json(j, "holders", &lock.holders);
		json_end_object(j);
		free_lock(&lock);
	}
	json_end_array(j);
	waits_free_groups(&locks);
	return status;
}

int waits_put_json(struct waits_view *v)
{
	struct waits_groups groups;
	struct texts texts;
	struct json json;
	int status = waits_group(v, false, &groups);

	json_init(&json, v->out);
	json_object(&json, NULL, false);
	json_string(&json, "times", ptah_session_times(v->session).name);
	json_number(&json, "waits", v->count);
	json_number(&json, "total", v->total);
	json_number(&json, "system_calls",
		    ptah_syscalls_count(ptah_waits_syscalls(v->names.waits)));
	json_array(&json, "causes");
	for (size_t i = 0; i < groups.count && status >= 0; i++) {
		const struct group_row row = row_of_group(&groups.groups[i]);

		fields_json(&json, &group_type, 0, &row);
	}
	json_end_array(&json);
	waits_free_groups(&groups);
	if (status >= 0)
		status = put_locks_json(v, &json);
	if (v->options->list)
		json_array(&json, "list");
	for (size_t i = 0; v->options->list && i < input_shown(&v->options->input, v->count); i++) {
		const struct wait_row row = row_of_entry(v, &v->entries[i], &texts);

		fields_json(&json, &wait_type, 0, &row);
	}
	if (v->options->list)
		json_end_array(&json);
	json_end_object(&json);
	json_finish(&json);
	return status;
}
