/* SPDX-License-Identifier: MIT */
/*
 * Reads the calls of all threads, and puts their waits between them: a wait becomes a call of a
 * label, which begins and ends when the wait does. Ticks of the marks are nanoseconds of wall time
 * here, so that the sums of the trees are exact.
 */
#include "wall_trees.h"
#include "progress.h"

#include "output/wait_names.h"
#include "support/list.h"

#include <ptah/calls.h>
#include <ptah/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a thread up to `now`. */
struct wall_thread {
	struct ptah_call_tree *tree; /* NULL: there is none yet, or any more */
	int32_t tid;
	struct ptah_call_counts counts; /* as the reader has them */
	uint64_t tsc;			/* 0: no time is known yet */
	uint64_t begin, now;		/* nanoseconds */
	size_t wait;			/* the one that ends next; SIZE_MAX: none */
	uint32_t depth;
};

/* What becomes of a thread's tree. */
typedef int take_tree(void *context, const struct ptah_call_thread *thread,
		      const struct ptah_call_tree *tree);

struct wall {
	const struct input *input;
	const struct ptah_session *session;
	struct wait_names names;
	struct graph_labels *labels;
	size_t *wait_labels;  /* of each wait, the number of its label plus 1 */
	uint64_t from, until; /* of the window */
	struct wall_thread *threads;
	size_t thread_count;
	struct progress progress;
	uint64_t errors;
	take_tree *take;
	void *context;
};

static bool wants_wall_stream(void *wall, size_t stream)
{
	const struct wall *w = wall;

	return input_wants(w->input, w->session, stream);
}

static bool show_wall_progress(void *wall, uint64_t bytes)
{
	struct wall *w = wall;

	progress_at(&w->progress, bytes);
	return !interrupted();
}

/* The number of a label, which is added if it is new. SIZE_MAX: out of memory. */
static size_t find_label(struct graph_labels *labels, const char *text)
{

	for (size_t i = 0; i < labels->count; i++)
		if (!strcmp(labels->texts[i], text))
			return i;
	if (!LIST_ADD(labels->texts, labels->count))
		return SIZE_MAX;
	labels->texts[labels->count - 1] = strdup(text);
	if (labels->texts[labels->count - 1])
		return labels->count - 1;
	labels->count--;
	return SIZE_MAX;
}

/* So many different objects have labels of their own; others have that of their kind. */
#define MOST_LABELS 1024

static size_t label_of_wait(struct wall *w, size_t i, const struct ptah_wait *wait)
{
	char name[WAIT_NAME], text[WAIT_NAME + 16];

	if (w->wait_labels[i])
		return w->wait_labels[i] - 1;
	wait_name(&w->names, i, wait, name);
	snprintf(text, sizeof(text), "[waits: %s]",
		 w->labels->count < MOST_LABELS ? name : ptah_wait_kind_name(wait->kind));
	w->wait_labels[i] = find_label(w->labels, text) + 1;
	return w->wait_labels[i] - 1;
}

/* The time from `now` to `time` was spent as the label says. */
static int add_label(struct wall_thread *t, size_t label, uint64_t time)
{
	struct ptah_call_mark marks[2] = {{.how = PTAH_CALL_CALLED,
					   .function = GRAPH_LABEL + label,
					   .tsc = t->now,
					   .thread = t->counts},
					  {.end = 1,
					   .how = PTAH_CALL_END_RETURN,
					   .function = GRAPH_LABEL + label,
					   .tsc = time,
					   .thread = t->counts}};

	if (label == SIZE_MAX)
		return PTAH_E_NOMEM;
	marks[0].thread.ticks = t->now - t->begin;
	marks[1].thread.ticks = time - t->begin;
	t->now = time;
	return ptah_call_tree_add(t->tree, marks, 2);
}

/* The thread did not wait from `now` to `time`; until `lost` nothing is known of what ran. */
static int add_wall_run(struct wall *w, struct wall_thread *t, uint64_t lost, uint64_t time)
{
	int status = 0;

	if (lost > time)
		lost = time;
	if (lost > t->now)
		status = add_label(t, find_label(w->labels, "[unknown: trace lost]"), lost);
	if (status >= 0 && !t->depth && time > t->now)
		return add_label(t, find_label(w->labels, "[unknown]"), time);
	t->now = time > t->now ? time : t->now;
	return status;
}

/* Passes all up to `time`: waits, and what is between them. */
static int pass_time(struct wall *w, struct wall_thread *t, uint64_t lost, uint64_t time)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	int status = 0;

	while (status >= 0 && t->wait != SIZE_MAX && time > t->now) {
		ptah_waits_get(w->names.waits, t->wait, &wait);
		if (wait.begin >= time)
			break;
		if (wait.begin > t->now)
			status = add_wall_run(w, t, lost, wait.begin);
		if (status >= 0 && wait.end > t->now)
			status = add_label(t, label_of_wait(w, t->wait, &wait),
					   wait.end < time ? wait.end : time);
		if (wait.end > time)
			return status;
		t->wait = ptah_waits_next(w->names.waits, t->wait);
	}
	return status < 0 ? status : add_wall_run(w, t, lost, time);
}

/* Whether no thread before this one had its number, as before it executed another program. */
static bool is_first(const struct wall *w, const struct wall_thread *t)
{
	for (size_t i = 0; i < w->thread_count; i++)
		if (&w->threads[i] != t && w->threads[i].tsc && w->threads[i].tid == t->tid)
			return false;
	return true;
}

/* The first time of a thread that is known. Before that it waited, perhaps, since it was made. */
static int pass_begin(struct wall *w, struct wall_thread *t, uint64_t time)
{
	struct ptah_wait wait = {.size = sizeof(wait), .begin = UINT64_MAX};

	t->begin = t->now = time;
	if (t->tid <= 0)
		return 0;
	t->wait = ptah_waits_of_thread(w->names.waits, t->tid, is_first(w, t) ? w->from : time);
	ptah_waits_get(w->names.waits, t->wait, &wait);
	if (wait.begin < time)
		t->begin = t->now = wait.begin > w->from ? wait.begin : w->from;
	return pass_time(w, t, t->now, time);
}

/*
 * The thread has come to a mark. Ticks that the reader leaves out are a loss, which is taken to
 * lie before what ran up to the mark: the reader ends a batch where a loss begins.
 */
static int pass_to(struct wall *w, struct wall_thread *t, uint64_t tsc,
		   const struct ptah_call_counts *counts)
{
	const uint64_t ran = counts->ticks - t->counts.ticks, from = t->tsc;
	const bool lost = from && tsc > from && tsc - from > ran;
	int status = 0;

	t->counts.instructions = counts->instructions;
	t->counts.cycles = counts->cycles;
	t->counts.ticks = counts->ticks;
	if (tsc <= from)
		return 0;
	t->tsc = tsc;
	if (from) {
		status = pass_time(w, t, lost ? ptah_session_time(w->session, tsc - ran) : t->now,
				   ptah_session_time(w->session, tsc));
	} else {
		status = pass_begin(w, t, ptah_session_time(w->session, tsc));
	}
	return status;
}

/*
 * Its calls end with the trace: it may wait after that, for what does not come, or for a processor
 * on which to end.
 */
static int pass_end(struct wall *w, struct wall_thread *t)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	uint64_t end = t->now;
	int status;

	for (size_t i = t->tsc ? t->wait : SIZE_MAX; i != SIZE_MAX;
	     i = ptah_waits_next(w->names.waits, i)) {
		ptah_waits_get(w->names.waits, i, &wait);
		end = wait.end > end ? wait.end : end;
	}
	status = pass_time(w, t, t->now, end < w->until ? end : w->until);
	t->wait = SIZE_MAX;
	return status;
}

static int add_wall_mark(struct wall *w, struct wall_thread *t, const struct ptah_call_mark *mark)
{
	struct ptah_call_mark wall = *mark;
	int status = pass_to(w, t, mark->tsc, &mark->thread);

	if (status >= 0 && mark->end && mark->how == PTAH_CALL_END_TRACE)
		status = pass_end(w, t);
	if (status < 0)
		return status;
	t->depth = mark->depth + !mark->end;
	wall.tsc = t->now;
	wall.thread.ticks = t->now - t->begin;
	return ptah_call_tree_add(t->tree, &wall, 1);
}

static void find_window(struct wall *w)
{
	struct ptah_window window = {.size = sizeof(window)};

	w->until = UINT64_MAX;
	if (!ptah_session_get_window(w->session, &window))
		return;
	w->from = window.since ? ptah_session_time(w->session, window.since) : 0;
	if (window.until < UINT64_MAX)
		w->until = ptah_session_time(w->session, window.until);
}

static struct wall_thread *thread_of(struct wall *w, const struct ptah_call_thread *info)
{
	/* The times are nanoseconds already. */
	const struct ptah_call_tree_config config = {
	    .size = sizeof(config), .time_mult = 1, .time_shift = 0};
	struct wall_thread *t;

	while (w->thread_count <= info->number) {
		if (!LIST_ADD(w->threads, w->thread_count))
			return NULL;
		w->threads[w->thread_count - 1].wait = SIZE_MAX;
	}
	t = &w->threads[info->number];
	t->tid = info->tid;
	return t->tree || ptah_call_tree_new(&config, &t->tree) >= 0 ? t : NULL;
}

static int finish_thread(struct wall *w, struct wall_thread *t, const struct ptah_call_thread *info)
{
	const int status = w->take(w->context, info, t->tree);

	ptah_call_tree_free(t->tree);
	t->tree = NULL;
	return status;
}

static int take_wall_batch(struct wall *w, const struct ptah_call_batch *batch)
{
	struct wall_thread *t = thread_of(w, batch->thread);
	int status = t ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < batch->count && status >= 0; i++)
		status = add_wall_mark(w, t, &batch->marks[i]);
	/* What ran up to a loss, which begins then. */
	if (status >= 0 && batch->event && t->tsc)
		status =
		    pass_to(w, t, t->tsc + (batch->counts.ticks - t->counts.ticks), &batch->counts);
	if (status < 0 || !batch->ended)
		return status;
	w->errors += batch->thread->errors;
	return finish_thread(w, t, batch->thread);
}

/*
 * A thread that waits all the time from its first wait on has no trace: in what functions it is, is
 * not known. One that has trace was added already.
 */
static int add_waiting(struct wall *w, size_t stream, const struct ptah_thread *who)
{
	const size_t first = ptah_waits_of_thread(w->names.waits, who->tid, w->from);
	struct ptah_call_thread info = {
	    .number = w->thread_count, .pid = who->pid, .tid = who->tid, .stream = stream};
	struct ptah_wait wait = {.size = sizeof(wait), .begin = UINT64_MAX};
	struct ptah_stream_info in = {.space = -1};
	struct wall_thread *t;
	int status;

	ptah_waits_get(w->names.waits, first, &wait);
	if (wait.begin >= w->until)
		return 0;
	for (size_t i = 0; i < w->thread_count; i++)
		if (w->threads[i].tid == who->tid)
			return 0;
	ptah_session_stream_info(w->session, stream, &in);
	info.space = in.space;
	memcpy(info.comm, who->comm, sizeof(info.comm));
	t = thread_of(w, &info);
	if (!t)
		return PTAH_E_NOMEM;
	t->tsc = 1;
	status = pass_begin(w, t, wait.begin > w->from ? wait.begin : w->from);
	if (status >= 0)
		status = pass_end(w, t);
	return status < 0 ? status : finish_thread(w, t, &info);
}

static int add_all_waiting(struct wall *w)
{
	struct ptah_thread who;
	int status = 0;

	for (size_t i = 0; i < ptah_session_streams(w->session); i++)
		for (size_t k = 0; status >= 0 && wants_wall_stream(w, i) &&
				   ptah_session_stream_thread(w->session, i, k, &who) >= 0;
		     k++)
			if (who.tid > 0)
				status = add_waiting(w, i, &who);
	return status;
}

static int read_wall_calls(struct wall *w)
{
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .wants = wants_wall_stream,
						       .context = w,
						       .jobs = input_jobs(w->input, 0)};
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(w->session, &config, &reader);

	if (status < 0)
		return status;
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = take_wall_batch(w, batch);
		if (status < 0 || !show_wall_progress(w, ptah_call_reader_offset(reader)))
			break;
	}
	ptah_call_reader_free(reader);
	return status ? status : add_all_waiting(w);
}

int input_wall_trees(const struct input *input, const struct ptah_session *session,
		     struct names *names, struct graph_labels *labels, take_tree *take,
		     void *context, uint64_t *errors)
{
	struct wall w = {.input = input,
			 .session = session,
			 .names = {.names = names, .session = session},
			 .labels = labels,
			 .take = take,
			 .context = context};
	const struct ptah_waits_config config = {.size = sizeof(config),
						 .stacks = true,
						 .jobs = input_jobs(input, 0),
						 .progress = show_wall_progress,
						 .context = &w};
	int status;

	find_window(&w);
	progress_begin(&w.progress, input, session, true);
	status = ptah_waits_new(session, &config, &w.names.waits);
	if (status >= 0) {
		w.wait_labels = calloc(ptah_waits_count(w.names.waits) + 1, sizeof(*w.wait_labels));
		status = w.wait_labels ? read_wall_calls(&w) : PTAH_E_NOMEM;
	}
	progress_end(&w.progress);
	*errors = w.errors;
	for (size_t i = 0; i < w.thread_count; i++)
		ptah_call_tree_free(w.threads[i].tree);
	free(w.threads);
	free(w.wait_labels);
	ptah_waits_free(w.names.waits);
	return status;
}
