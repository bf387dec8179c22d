/* SPDX-License-Identifier: MIT */
/* Chooses waits, and adds up those that have the same cause in the same functions. */
#include "base/order.h"
#include "support/list.h"
#include "waits_view.h"

#include <ptah/session.h>

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --comm: the name that the thread had when it began to wait. */
static bool has_name(const struct waits_view *v, const struct ptah_wait *wait)
{
	const char *wanted = v->options->input.comm;
	char comm[16];
	uint64_t until;

	return !wanted || (ptah_session_thread_name(v->session, wait->tid,
						    ptah_session_tsc(v->session, wait->begin, true),
						    comm, &until) &&
			   !strncmp(comm, wanted, sizeof(comm)));
}

static bool is_wanted(const struct waits_view *v, size_t i, const struct ptah_wait *wait)
{
	const struct input *input = &v->options->input;

	if ((input->pid && (uint64_t)wait->pid != input->pid) ||
	    (input->tid && (uint64_t)wait->tid != input->tid) || wait->end < v->from ||
	    wait->begin > v->until || !has_name(v, wait))
		return false;
	for (int k = 0; k < v->wanted_count; k++)
		if (wait_is_in(&v->names, i, v->wanted[k]))
			return true;
	return !v->wanted_count;
}

/* A condition variable's wait and the one for its mutex are one entry. */
static void join_second_part(struct waits_view *v, struct waits_entry *entry)
{
	struct ptah_wait second = {.size = sizeof(second)};
	const size_t next = ptah_waits_next(v->names.waits, entry->wait);

	if (strcmp(entry->cause, "condition variable") != 0 || next == SIZE_MAX ||
	    !wait_continues(&v->names, next, entry->wait))
		return;
	ptah_waits_get(v->names.waits, next, &second);
	entry->again = next;
	entry->again_ns = second.end - second.begin;
}

int waits_list(struct waits_view *v)
{
	const size_t n = ptah_waits_count(v->names.waits);
	struct ptah_wait wait = {.size = sizeof(wait)};
	bool *joined = calloc(n + 1, 1);

	v->entries = calloc(n + 1, sizeof(*v->entries));
	if (!v->entries || !joined) {
		free(joined);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		struct waits_entry *entry = &v->entries[v->count];

		ptah_waits_get(v->names.waits, i, &wait);
		if (joined[i] || !is_wanted(v, i, &wait))
			continue;
		*entry = (struct waits_entry){
		    .wait = i, .again = SIZE_MAX, .cause = wait_cause(&v->names, i, &wait)};
		join_second_part(v, entry);
		if (entry->again != SIZE_MAX)
			joined[entry->again] = true;
		entry->ns = wait.end - wait.begin + entry->again_ns;
		v->total += entry->ns;
		v->count++;
	}
	free(joined);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct waits_by *x = a, *y = b;

	return x->tid != y->tid ? (x->tid < y->tid ? -1 : 1) : strcmp(x->text, y->text);
}

static int compare_by(const void *a, const void *b)
{
	const struct waits_by *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return compare_names(a, b);
}

/* Adds up what is of the same function or thread. */
static void merge_waits_list(struct waits_list *list)
{
	struct waits_by *by = list->by;
	size_t n = 0;

	if (!list->count)
		return;
	qsort(by, list->count, sizeof(*by), compare_names);
	for (size_t i = 1; i < list->count; i++) {
		if (compare_names(&by[n], &by[i]) != 0) {
			by[++n] = by[i];
			continue;
		}
		by[n].count += by[i].count;
		by[n].ns += by[i].ns;
		free(by[i].text);
	}
	list->count = n + 1;
}

/* Makes room for one more; a million of one thread take no more than a few. */
static bool make_waits_room(struct waits_list *list)
{
	if (list->count < list->room)
		return true;
	merge_waits_list(list);
	if (list->room && list->count <= list->room / 2)
		return true;
	return LIST_ROOM_FOR(list->by, list->count, list->count + 8, list->room);
}

bool waits_count(struct waits_list *list, const char *text, int32_t tid, uint64_t ns)
{
	char *copy;

	/* Often it is the same one again. */
	if (list->count && list->by[list->count - 1].tid == tid &&
	    !strcmp(list->by[list->count - 1].text, text)) {
		list->by[list->count - 1].count++;
		list->by[list->count - 1].ns += ns;
		return true;
	}
	copy = make_waits_room(list) ? strdup(text) : NULL;
	if (!copy)
		return false;
	list->by[list->count++] = (struct waits_by){.text = copy, .tid = tid, .count = 1, .ns = ns};
	return true;
}

void waits_sort_by(struct waits_list *list)
{
	merge_waits_list(list);
	if (list->count)
		qsort(list->by, list->count, sizeof(*list->by), compare_by);
}

void waits_free_by(struct waits_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->by[i].text);
	free(list->by);
}

/* Groups */

static int compare_keys(const void *a, const void *b)
{
	const struct waits_group *const *x = a, *const *y = b;
	int order = strcmp((*x)->cause, (*y)->cause);

	if (!order)
		order = strcmp((*x)->functions, (*y)->functions);
	if (!order)
		order = strcmp((*x)->object, (*y)->object);
	return order ? order : COMPARE((*x)->pid, (*y)->pid);
}

static void free_group(struct waits_group *group)
{
	free(group->functions);
	free(group->object);
	free(group->times);
	waits_free_by(&group->by);
}

/* The group of these texts, which are copied. NULL: out of memory. */
static struct waits_group *group_of(struct waits_groups *g, const struct waits_group *key)
{
	const struct waits_group **found;
	struct waits_group *group, **slot;
	struct waits_group **wanted = malloc(sizeof(struct waits_group *));

	if (!wanted)
		return NULL;
	*wanted = (struct waits_group *)(uintptr_t)key;
	found = tfind(wanted, &g->tree, compare_keys);
	if (found) {
		slot = *(struct waits_group ***)found;
		free(wanted);
		return *slot;
	}
	group = calloc(1, sizeof(*group));
	if (group) {
		group->cause = key->cause;
		group->pid = key->pid;
		group->functions = strdup(key->functions);
		group->object = strdup(key->object);
	}
	*wanted = group;
	if (group && group->functions && group->object && tsearch(wanted, &g->tree, compare_keys))
		return group;
	if (group)
		free_group(group);
	free(group);
	free(wanted);
	return NULL;
}

static void split_time(struct waits_group *group, const struct ptah_wait *wait)
{
	if (!wait->woken)
		return;
	group->until_woken += wait->woken - wait->begin;
	group->until_ran += wait->end - wait->woken;
}

static bool add_time(struct waits_group *group, uint64_t ns)
{
	if (!LIST_ROOM(group->times, group->count, group->room))
		return false;
	group->times[group->count++] = ns;
	group->total += ns;
	return true;
}

/* Somebody has ended it: a thread, also by a signal, or somebody who is not recorded. */
static bool wait_has_end(const struct ptah_wait *wait)
{
	return wait->how == PTAH_WAIT_END_WOKEN || wait->how == PTAH_WAIT_END_SIGNAL ||
	       (wait->how == PTAH_WAIT_END_UNKNOWN && wait->kind != PTAH_WAIT_PREEMPTED);
}

static bool add_entry(const struct waits_view *v, struct waits_groups *g, size_t i, bool by_object)
{
	const struct waits_entry *entry = &v->entries[i];
	char functions[WAIT_TEXT] = "", object[WAIT_TEXT] = "", by[WAIT_TEXT];
	struct ptah_wait wait = {.size = sizeof(wait)}, again = {.size = sizeof(again)};
	struct waits_group *group;

	ptah_waits_get(v->names.waits, entry->wait, &wait);
	if (by_object && wait.kind != PTAH_WAIT_FUTEX)
		return true;
	if (by_object)
		wait_object(&wait, object);
	else
		wait_functions(&v->names, entry->wait, PTAH_WAIT_STACK_OWN, 2, functions);
	group = group_of(g, &(struct waits_group){.cause = entry->cause,
						  .functions = functions,
						  .object = object,
						  .pid = by_object ? wait.pid : 0});
	if (!group)
		return false;
	if (group->count)
		g->next[group->last] = i;
	else
		group->first = i;
	group->last = i;
	if (!add_time(group, entry->ns))
		return false;
	split_time(group, &wait);
	if (entry->again != SIZE_MAX && ptah_waits_get(v->names.waits, entry->again, &again) >= 0)
		split_time(group, &again);
	if (!wait_has_end(&wait))
		return true;
	group->several += wait.flags & PTAH_WAIT_SEVERAL ? 1 : 0;
	wait_functions(&v->names, entry->wait, PTAH_WAIT_STACK_WAKER, 2, by);
	/* By thread where the functions are not known, and of locks. */
	return waits_count(&group->by, by, *by && !by_object ? 0 : wait.waker_tid, entry->ns);
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

uint64_t waits_quantile(const struct waits_group *group, double quantile)
{
	const size_t i = (size_t)(quantile * (double)(group->count - 1) + 0.5);

	return group->times[i];
}

static uint64_t sort_value(const struct waits_group *g, int sort)
{
	switch (sort) {
	case WAITS_COUNT:
		return g->count;
	case WAITS_P50:
		return waits_quantile(g, 0.5);
	case WAITS_P90:
		return waits_quantile(g, 0.9);
	case WAITS_P99:
		return waits_quantile(g, 0.99);
	case WAITS_MAX:
		return waits_quantile(g, 1);
	default:
		return g->total;
	}
}

static int compare_groups(const void *a, const void *b, void *view)
{
	const struct waits_group *x = a, *y = b;
	const int sort = ((const struct waits_view *)view)->options->sort;
	const uint64_t p = sort_value(x, sort), q = sort_value(y, sort);
	int order = strcmp(x->cause, y->cause);

	if (sort != WAITS_NAME && p != q)
		return p > q ? -1 : 1;
	if (!order)
		order = strcmp(x->functions, y->functions);
	return order ? order : strcmp(x->object, y->object);
}

/* Moves the groups from the tree into an array. */
static int list_groups(struct waits_groups *g, bool keep)
{
	int status = 0;

	while (g->tree) {
		struct waits_group **slot = *(struct waits_group ***)g->tree, *group = *slot;

		tdelete(slot, &g->tree, compare_keys);
		free(slot);
		if (keep && !LIST_ROOM(g->groups, g->count, g->room)) {
			keep = false;
			status = PTAH_E_NOMEM;
		}
		if (keep)
			g->groups[g->count++] = *group;
		else
			free_group(group);
		free(group);
	}
	return status;
}

int waits_group(const struct waits_view *v, bool by_object, struct waits_groups *g)
{
	int status = 0;

	*g = (struct waits_groups){.next = malloc((v->count + 1) * sizeof(*g->next))};
	if (!g->next)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < v->count && status >= 0; i++) {
		g->next[i] = SIZE_MAX;
		if (!add_entry(v, g, i, by_object))
			status = PTAH_E_NOMEM;
	}
	if (list_groups(g, status >= 0) < 0)
		status = PTAH_E_NOMEM;
	for (size_t i = 0; i < g->count; i++) {
		qsort(g->groups[i].times, g->groups[i].count, sizeof(uint64_t), compare_times);
		waits_sort_by(&g->groups[i].by);
	}
	if (g->count)
		qsort_r(g->groups, g->count, sizeof(*g->groups), compare_groups,
			(void *)(uintptr_t)v);
	return status;
}

void waits_free_groups(struct waits_groups *g)
{
	for (size_t i = 0; i < g->count; i++)
		free_group(&g->groups[i]);
	free(g->groups);
	free(g->next);
}
