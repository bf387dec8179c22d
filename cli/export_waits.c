/* SPDX-License-Identifier: MIT */
/* Names the slices of a timeline in which a thread was in the kernel after what it did there. */
#include "export_waits.h"

#include "output/wait_names.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A system call begins so long after tracing went off at most: the kernel's own samples are late. */
#define LATE 100000

struct export_waits {
	struct wait_names names;
	void *texts; /* a tsearch() tree: each text once */
};

int export_waits_new(struct exporting *e, struct export_waits **waits)
{
	const struct ptah_waits_config config = {
	    .size = sizeof(config), .stacks = true, .jobs = input_jobs(&e->options->input, 1)};
	struct export_waits *w;
	int status;

	*waits = NULL;
	if (!ptah_session_samples(e->session))
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return PTAH_E_NOMEM;
	w->names.names = e->names;
	w->names.session = e->session;
	status = ptah_waits_new(e->session, &config, &w->names.waits);
	if (status < 0)
		free(w);
	else
		*waits = w;
	return status;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

void export_waits_free(struct export_waits *w)
{
	if (!w)
		return;
	ptah_waits_free(w->names.waits);
	while (w->texts) {
		char *text = *(char **)w->texts;

		tdelete(text, &w->texts, compare_texts);
		free(text);
	}
	free(w);
}

/* The text's only copy. With memory short, nothing in particular. */
static const char *keep_text(struct export_waits *w, const char *text)
{
	char **found = tfind(text, &w->texts, compare_texts), *copy;

	if (found)
		return *found;
	copy = strdup(text);
	if (!copy || !tsearch(copy, &w->texts, compare_texts)) {
		free(copy);
		return "";
	}
	return copy;
}

/* The next system call of the thread that began then. SIZE_MAX: it is not known. */
static size_t find_call(const struct export_waits *w, struct export_wait_place *place, int32_t tid,
			uint64_t time)
{
	const struct ptah_session *session = w->names.session;
	struct ptah_sample sample = {.size = sizeof(sample)};

	if (!place->begun) {
		place->sample = ptah_session_next_sample(session, tid, SIZE_MAX);
		place->wait = ptah_waits_of_thread(w->names.waits, tid, 0);
		place->begun = true;
	}
	for (; place->sample != SIZE_MAX;
	     place->sample = ptah_session_next_sample(session, tid, place->sample)) {
		size_t call;

		ptah_session_sample(session, place->sample, &sample);
		if (sample.time < time)
			continue;
		if (sample.time - time > LATE)
			return SIZE_MAX;
		call = ptah_syscalls_find(ptah_waits_syscalls(w->names.waits), place->sample, NULL);
		if (call != SIZE_MAX)
			return call;
	}
	return SIZE_MAX;
}

/* The wait in this call. SIZE_MAX: none. */
static size_t find_wait(const struct export_waits *w, struct export_wait_place *place, size_t call,
			uint64_t begin, struct ptah_wait *wait)
{
	for (; place->wait != SIZE_MAX;
	     place->wait = ptah_waits_next(w->names.waits, place->wait)) {
		ptah_waits_get(w->names.waits, place->wait, wait);
		if (wait->call == call)
			return place->wait;
		if (wait->begin > begin)
			return SIZE_MAX;
	}
	return SIZE_MAX;
}

static void describe_wait(struct export_waits *w, size_t i, const struct ptah_wait *wait,
			  struct timeline_event *event, struct timeline_detail *details)
{
	char text[WAIT_TEXT + 16];
	char functions[WAIT_TEXT];

	snprintf(text, sizeof(text), "wait: %s", wait_cause(&w->names, i, wait));
	event->name = keep_text(w, text);
	wait_object_name(&w->names, i, wait, functions);
	if (*functions)
		details[event->detail_count++] =
		    (struct timeline_detail){"for", keep_text(w, functions), 0};
	details[event->detail_count++] =
	    (struct timeline_detail){"end", ptah_wait_end_name(wait->how), 0};
	if (wait->waker_tid > 0)
		details[event->detail_count++] =
		    (struct timeline_detail){"waker", NULL, (uint64_t)wait->waker_tid};
	if (wait->flags & PTAH_WAIT_SEVERAL)
		details[event->detail_count++] =
		    (struct timeline_detail){"or others", "several threads may have ended it", 0};
	wait_functions(&w->names, i, PTAH_WAIT_STACK_WAKER, 3, functions);
	if (*functions)
		details[event->detail_count++] =
		    (struct timeline_detail){"waker in", keep_text(w, functions), 0};
	if (wait->holder && wait->kind != PTAH_WAIT_THREAD)
		details[event->detail_count++] =
		    (struct timeline_detail){"holder", NULL, (uint64_t)wait->holder};
}

void export_waits_describe(struct export_waits *w, struct export_wait_place *place, int32_t tid,
			   uint64_t time, struct timeline_event *event,
			   struct timeline_detail *details)
{
	const size_t i = find_call(w, place, tid, time);
	const struct ptah_syscalls *calls = ptah_waits_syscalls(w->names.waits);
	struct ptah_syscall call = {.size = sizeof(call)};
	struct ptah_wait wait = {.size = sizeof(wait)};
	char text[512];
	size_t found;

	if (i == SIZE_MAX || ptah_syscalls_get(calls, i, &call) < 0)
		return;
	if (ptah_syscall_name(call.number))
		event->name = ptah_syscall_name(call.number);
	details[event->detail_count++] = (struct timeline_detail){
	    "call", keep_text(w, ptah_syscall_text(calls, i, text, sizeof(text))), 0};
	found = find_wait(w, place, i, call.begin, &wait);
	if (found != SIZE_MAX)
		describe_wait(w, found, &wait, event, details);
}

uint64_t export_waits_end(const struct export_waits *w, const struct ptah_call_thread *thread,
			  uint64_t tsc)
{
	return wait_end_of_thread(w->names.waits, w->names.session, thread, tsc);
}
