/* SPDX-License-Identifier: MIT */
/* Adds up the calls of all threads by function, as `ptah calls` and `ptah report -g` do. */
#include "view/trees.h"

#include "output/call_stubs.h"
#include "output/wait_names.h"

#include <stdlib.h>
#include <string.h>

struct adding {
	struct view_model *model;
	struct view_naming naming;
	struct view_trees *trees;
	const struct ptah_call_thread *thread;
	struct call_stubs stubs; /* of the thread's tree */
	bool full;		 /* out of memory */
};

/* A callback of ptah_call_tree_merge(). */
static bool map_function(void *context, uint16_t *space, uint64_t *function)
{
	struct adding *a = context;
	uint32_t id;

	if (call_stubs_has(&a->stubs, *space, *function))
		return false;
	id = view_functions_id(a->model->functions, &a->naming,
			       ptah_call_thread_space(a->thread, *space), *function);
	a->full |= id == UINT32_MAX;
	*space = 0;
	*function = (uint64_t)id + 1;
	return true;
}

static int add_thread(void *context, const struct ptah_call_thread *thread,
		      struct ptah_call_tree *tree)
{
	struct adding *a = context;
	int status = call_stubs_list(&a->stubs, tree);

	a->thread = thread;
	a->trees->errors += thread->errors;
	if (status >= 0)
		status = ptah_call_tree_merge(a->trees->sum, tree, map_function, a);
	call_stubs_free(&a->stubs);
	return status < 0 ? status : a->full ? PTAH_E_NOMEM : 0;
}

static bool go_on(void *context, uint64_t bytes)
{
	struct adding *a = context;

	a->model->tree_bytes = bytes;
	return !a->model->stop;
}

/* The reader has one context for `wants` and the progress. */
static bool wants_stream(void *context, size_t stream)
{
	const struct adding *a = context;
	const struct view_recording *r = &a->model->config.recordings[VIEW_SHOWN];

	return !r->wants || r->wants(r->context, stream);
}

static void take_function(struct view_trees *t, const struct ptah_call_function *f)
{
	static const double quantiles[VIEW_QUANTILES] = {0.5, 0.9, 0.99, 0.999};
	struct view_tree_function *to;

	if (!f->function || f->function > t->function_count)
		return;
	to = &t->functions[f->function - 1];
	to->count = f->count;
	to->partial = f->partial;
	to->inclusive = f->inclusive;
	to->self = f->self;
	to->flags = f->flags;
	for (unsigned v = 0; v < PTAH_CALL_VALUE_MAX; v++) {
		to->of[v].calls = f->histogram[v].calls;
		to->of[v].min = f->histogram[v].min;
		to->of[v].max = f->histogram[v].max;
		for (unsigned q = 0; q < VIEW_QUANTILES && f->histogram[v].calls; q++)
			to->of[v].quantile[q] = ptah_call_tree_quantile(
			    t->sum, f, (enum ptah_call_value)v, quantiles[q]);
	}
}

static uint64_t self_of(const struct view_trees *t, uint32_t i)
{
	return t->functions[i].self.instructions;
}

/* Finds the functions that ran most. */
static void find_top(struct view_trees *t)
{
	for (uint32_t i = 0; i < t->function_count; i++) {
		unsigned at = t->top_count;

		if (!t->functions[i].count)
			continue;
		while (at && self_of(t, t->top[at - 1]) < self_of(t, i))
			at--;
		if (at == VIEW_TOP)
			continue;
		t->top_count += t->top_count < VIEW_TOP;
		memmove(t->top + at + 1, t->top + at, (t->top_count - 1 - at) * sizeof(*t->top));
		t->top[at] = i;
	}
}

static uint64_t end_of_thread(void *context, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct adding *a = context;

	return wait_end_of_thread(a->model->ends, a->model->config.recordings[VIEW_SHOWN].session,
				  thread, tsc);
}

/* Makes the lists that answers are made from. */
static int list(struct view_model *m, struct view_trees *t)
{
	struct ptah_call_function *functions = NULL;
	size_t count = 0;
	int status = ptah_call_tree_functions(t->sum, &functions, &count);

	t->function_count = view_functions_count(m->functions);
	t->functions = calloc(t->function_count + 1, sizeof(*t->functions));
	if (!t->functions)
		status = PTAH_E_NOMEM;
	for (size_t i = 0; i < count && status >= 0; i++)
		take_function(t, &functions[i]);
	free(functions);
	if (status >= 0)
		find_top(t);
	if (status >= 0)
		status = ptah_call_tree_totals(t->sum, &t->totals);
	if (status >= 0)
		status = ptah_call_tree_nodes(t->sum, &t->nodes, &t->node_count);
	return status;
}

static int make_trees(struct view_model *m, struct view_trees *t)
{
	struct ptah_call_tree_config config = {.size = sizeof(config)};
	struct adding adding = {.model = m, .trees = t};
	const struct ptah_call_reader_config reader = {.size = sizeof(reader),
						       .wants = wants_stream,
						       .progress = go_on,
						       .ended = m->ends ? end_of_thread : NULL,
						       .context = &adding,
						       .jobs = m->jobs};
	const struct ptah_session *session = m->config.recordings[VIEW_SHOWN].session;
	int status;

	view_naming(m, &adding.naming);
	ptah_session_time_scale(session, &config.time_mult, &config.time_shift);
	status = ptah_call_tree_new(&config, &t->sum);
	if (status >= 0)
		status = ptah_session_call_trees(session, &reader, add_thread, &adding);
	if (status >= 0 && !m->stop)
		status = list(m, t);
	return status;
}

int view_read_trees(struct view_model *m)
{
	struct view_trees *t = calloc(1, sizeof(*t));
	int status = t ? make_trees(m, t) : PTAH_E_NOMEM;

	if (status < 0 || m->stop) {
		view_trees_free(t);
		return status;
	}
	pthread_mutex_lock(&m->lock);
	m->trees = t;
	pthread_mutex_unlock(&m->lock);
	return 0;
}

void view_trees_free(struct view_trees *t)
{
	if (!t)
		return;
	ptah_call_tree_free(t->sum);
	free(t->functions);
	free(t->nodes);
	free(t);
}
