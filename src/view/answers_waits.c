/* SPDX-License-Identifier: MIT */
/*
 * The answer "waits": what a thread waited for, who ended it, and its other system calls, in the
 * order of their beginnings. Times are on the axis of time.
 */
#include "view/answers.h"
#include "view/model_internal.h"

#include "base/order.h"
#include "output/wait_names.h"

#include <stdlib.h>
#include <string.h>

/* An answer has at most so many: with more, neighbours of one kind are put together. */
#define MOST 5000

/* System calls by thread, then by time. */
struct thread_call {
	int32_t tid;
	uint64_t begin;
	size_t call;
};

struct view_waits {
	struct wait_names names; /* with the lock of names */
	struct thread_call *calls;
	size_t call_count;
};

static bool go_on(void *model, uint64_t bytes)
{
	(void)bytes;
	return !view_model_is_stopped(model);
}

static int compare_wait_calls(const void *a, const void *b)
{
	const struct thread_call *x = a, *y = b;

	return COMPARE_THEN(x->tid, y->tid,
			    COMPARE_THEN(x->begin, y->begin, COMPARE(x->call, y->call)));
}

static int list_wait_calls(struct view_waits *w)
{
	const struct ptah_syscalls *calls = ptah_waits_syscalls(w->names.waits);
	struct ptah_syscall call = {.size = sizeof(call)};

	w->calls = calloc(ptah_syscalls_count(calls) + 1, sizeof(*w->calls));
	if (!w->calls)
		return PTAH_E_NOMEM;
	for (size_t i = 0; ptah_syscalls_get(calls, i, &call) >= 0; i++)
		w->calls[w->call_count++] = (struct thread_call){
		    .tid = call.tid, .begin = call.begin ? call.begin : call.end, .call = i};
	if (w->call_count)
		qsort(w->calls, w->call_count, sizeof(*w->calls), compare_wait_calls);
	return 0;
}

int view_read_waits(struct view_model *m)
{
	const struct view_recording *r = &m->config.recordings[VIEW_SHOWN];
	const struct ptah_waits_config config = {.size = sizeof(config),
						 .stacks = true,
						 .jobs = m->jobs,
						 .progress = go_on,
						 .context = m};
	struct view_waits *w;
	int status;

	if (!m->has_time || !ptah_session_samples(r->session))
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return PTAH_E_NOMEM;
	w->names.names = r->names;
	w->names.session = r->session;
	status = ptah_waits_new(r->session, &config, &w->names.waits);
	if (status >= 0)
		status = list_wait_calls(w);
	if (status < 0) {
		view_waits_free(w);
		return status;
	}
	pthread_mutex_lock(&m->lock);
	m->waits = w;
	pthread_mutex_unlock(&m->lock);
	return 0;
}

void view_waits_free(struct view_waits *w)
{
	if (!w)
		return;
	ptah_waits_free(w->names.waits);
	free(w->calls);
	free(w);
}

/* The answer */

struct item {
	uint64_t begin, end; /* on the axis */
	size_t wait, call;   /* SIZE_MAX: none */
	uint8_t kind;	     /* of the wait; PTAH_WAIT_KIND_MAX: none */
	uint64_t count;	     /* with those that are put together with it */
};

struct items {
	struct view_model *model;
	const struct view_waits *waits;
	struct item *list;
	size_t count;
	uint64_t from, to, unit;
};

static uint64_t on_axis(const struct view_model *m, uint64_t time)
{
	return time > m->begin ? time - m->begin : 0;
}

/*
 * The number of the thread with this tid that was there at a time, and until when: another one may
 * follow, when it executes another program. SIZE_MAX: there is none.
 */
static size_t find_wait_thread(struct view_model *m, int32_t tid, uint64_t at, uint64_t *until)
{
	size_t found = SIZE_MAX;
	struct view_thread *t;

	*until = UINT64_MAX;
	for (size_t i = 0; (t = view_thread_get(m, i)); i++) {
		uint64_t begin;

		if (t->info.tid != tid)
			continue;
		view_lock_read(&t->lock);
		begin = t->begin[LOG_TIME];
		view_unlock_read(&t->lock);
		if (found == SIZE_MAX || begin <= at)
			found = i;
		else if (begin < *until)
			*until = begin;
	}
	return found;
}

/* Adds one; with neighbours of its kind in its unit, if it is not longer. False: no room. */
static bool add_wait_item(struct items *items, const struct item *item, size_t last[])
{
	size_t *same = &last[item->kind];

	if (item->end < items->from || item->begin > items->to)
		return true;
	if (*same != SIZE_MAX && item->end - item->begin < items->unit &&
	    items->list[*same].begin / items->unit == item->begin / items->unit) {
		struct item *of = &items->list[*same];

		of->end = item->end > of->end ? item->end : of->end;
		of->count++;
		return true;
	}
	if (items->count == MOST)
		return false;
	*same = items->count;
	items->list[items->count++] = *item;
	return true;
}

/* The last system call of a thread that began before a time, or its first one, in the list. */
static size_t first_call(const struct view_waits *w, int32_t tid, uint64_t time)
{
	size_t at;

	BISECT(at, 0, w->call_count,
	       w->calls[at].tid < tid || (w->calls[at].tid == tid && w->calls[at].begin < time));
	return at && w->calls[at - 1].tid == tid ? at - 1 : at;
}

/*
 * Calls and waits of a thread in the part that is asked for, both in the order of time; a call that is
 * a wait is one. Neither overlap.
 */
static bool collect(struct items *items, size_t number, int32_t tid)
{
	size_t is = SIZE_MAX;
	uint64_t until = 0;
	const struct view_waits *w = items->waits;
	struct ptah_syscall call = {.size = sizeof(call)};
	struct ptah_wait wait = {.size = sizeof(wait)};
	const uint64_t begin = items->model->begin;
	const uint64_t from = items->from < UINT64_MAX - begin ? begin + items->from : UINT64_MAX;
	size_t c = first_call(w, tid, from);
	size_t i = ptah_waits_of_thread(w->names.waits, tid, from ? from - 1 : 0);
	size_t last[PTAH_WAIT_KIND_MAX + 1];

	memset(last, 0xff, sizeof(last));
	items->count = 0;
	for (;;) {
		const bool has_call = c < w->call_count && w->calls[c].tid == tid;
		struct item item = {.wait = SIZE_MAX, .call = SIZE_MAX, .count = 1};

		if (i != SIZE_MAX)
			ptah_waits_get(w->names.waits, i, &wait);
		if (i != SIZE_MAX && (!has_call || wait.begin <= w->calls[c].begin)) {
			item.kind = wait.kind;
			item.wait = i;
			item.call = wait.call;
			item.begin = wait.begin;
			item.end = wait.end;
			c += has_call && w->calls[c].call == wait.call;
			i = ptah_waits_next(w->names.waits, i);
		} else if (has_call) {
			item.kind = PTAH_WAIT_KIND_MAX;
			item.call = w->calls[c].call;
			ptah_syscalls_get(ptah_waits_syscalls(w->names.waits), item.call, &call);
			item.begin = w->calls[c++].begin;
			item.end = call.end > item.begin ? call.end : item.begin;
		} else {
			return true;
		}
		if (item.end < items->model->begin)
			continue;
		item.begin = on_axis(items->model, item.begin);
		item.end = on_axis(items->model, item.end);
		if (item.begin > items->to)
			return true;
		if (item.begin >= until)
			is = find_wait_thread(items->model, tid, item.begin, &until);
		if (is == number && !add_wait_item(items, &item, last))
			return false;
	}
}

static void put_place(struct json *j, const struct items *items, const char *key, uint64_t time)
{
	if (time)
		json_number(j, key, on_axis(items->model, time));
}

/* The thread that ended a wait, and the system call in which it did. */
static void put_waker(struct json *j, const struct items *items, const struct ptah_wait *wait)
{
	const struct ptah_syscalls *calls = ptah_waits_syscalls(items->waits->names.waits);
	struct ptah_syscall call = {.size = sizeof(call)};
	const uint64_t at = wait->woken ? wait->woken : wait->end;
	uint64_t until;
	char text[256];

	json_signed(j, "waker_tid", wait->waker_tid);
	if (wait->flags & PTAH_WAIT_SEVERAL)
		json_bool(j, "several", true);
	json_signed(j, "waker",
		    (int64_t)find_wait_thread(items->model, wait->waker_tid,
					      on_axis(items->model, at), &until));
	if (ptah_syscalls_get(calls, wait->waker_call, &call) < 0)
		return;
	put_place(j, items, "waker_at", call.begin);
	put_place(j, items, "waker_end", call.end);
	json_string(j, "waker_call",
		    ptah_syscall_text(calls, wait->waker_call, text, sizeof(text)));
}

static void put_wait(struct json *j, struct items *items, size_t i)
{
	struct wait_names *names = (struct wait_names *)&items->waits->names;
	struct ptah_wait wait = {.size = sizeof(wait)};
	char text[WAIT_END], name[WAIT_NAME];

	ptah_waits_get(names->waits, i, &wait);
	json_string(j, "cause", wait_cause(names, i, &wait));
	json_string(j, "name", wait_name(names, i, &wait, name));
	json_string(j, "in", wait_functions(names, i, PTAH_WAIT_STACK_OWN, 3, text));
	json_string(j, "by", wait_end(names, i, &wait, text));
	put_place(j, items, "woken", wait.woken);
	if (wait.waker_tid > 0)
		put_waker(j, items, &wait);
	if (wait.holder && wait.kind != PTAH_WAIT_THREAD) {
		json_signed(j, "holder", wait.holder);
		json_string(j, "holder_in",
			    wait_functions(names, i, PTAH_WAIT_STACK_HOLDER, 3, text));
	}
}

static void put_wait_item(struct json *j, struct items *items, const struct item *item)
{
	const struct ptah_syscalls *calls = ptah_waits_syscalls(items->waits->names.waits);
	char text[512];

	json_object(j, NULL, true);
	json_number(j, "at", item->begin);
	json_number(j, "end", item->end);
	json_number(j, "count", item->count);
	if (item->count == 1 && item->call != SIZE_MAX)
		json_string(j, "call", ptah_syscall_text(calls, item->call, text, sizeof(text)));
	if (item->wait != SIZE_MAX) {
		json_string(j, "kind", ptah_wait_kind_name(item->kind));
		view_names_lock(items->model, VIEW_SHOWN);
		put_wait(j, items, item->wait);
		view_names_unlock(items->model, VIEW_SHOWN);
	}
	json_end_object(j);
}

static void put_wait_items(struct json *j, struct items *items, bool complete)
{
	json_object(j, NULL, false);
	json_number(j, "unit", items->unit);
	json_bool(j, "complete", complete);
	json_array(j, "items");
	for (size_t i = 0; i < items->count; i++)
		put_wait_item(j, items, &items->list[i]);
	json_end_array(j);
	json_end_object(j);
	json_finish(j);
}

int view_answer_waits(struct view_model *m, const struct view_query *query,
		      struct view_reply *reply)
{
	struct items items = {.model = m};
	struct view_thread *t;
	enum log_axis axis;
	double wanted = 1;
	uint64_t number = 0;
	bool done;
	int status = view_get_thread(m, query, reply, &t);

	if (!status)
		status = view_get_axis(m, query, reply, &axis);
	if (!status)
		status = view_get_window(query, reply, &items.from, &items.to);
	if (status)
		return status;
	if (view_query_text(query, "unit") &&
	    (!view_query_real(query, "unit", &wanted) || wanted < 0 || wanted > 9e15))
		return view_refuse(reply, 400, "unit is a length on the axis.");
	view_query_number(query, "thread", UINT32_MAX, &number);
	items.unit = wanted < 1 ? 1 : (uint64_t)wanted;
	pthread_mutex_lock(&m->lock);
	items.waits = m->waits;
	done = m->waits || m->done;
	pthread_mutex_unlock(&m->lock);
	items.list = calloc(MOST, sizeof(*items.list));
	if (!items.list)
		return PTAH_E_NOMEM;
	while (items.waits && axis == LOG_TIME && t->info.tid > 0 &&
	       !collect(&items, number, t->info.tid))
		items.unit *= 4;
	put_wait_items(&reply->json, &items, done);
	free(items.list);
	return 0;
}
