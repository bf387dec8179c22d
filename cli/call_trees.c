/* SPDX-License-Identifier: MIT */
/* Adds up the calls of each thread of a recording. */
#include "call_trees.h"
#include "progress.h"

#include <ptah/functions.h>

#include <stdlib.h>

struct reading {
	const struct input *input;
	const struct ptah_session *session;
	struct ptah_functions *functions;
	struct progress progress;
	struct ptah_call_tree **trees; /* by the numbers of the threads; NULL: passed on */
	size_t count;
	uint64_t errors;
	int (*take)(void *context, const struct ptah_call_thread *thread,
		    const struct ptah_call_tree *tree);
	void *context;
};

static bool reading_wants(void *reading, size_t stream)
{
	const struct reading *r = reading;

	return input_wants(r->input, r->session, stream);
}

static bool reading_find(void *reading, int32_t space, uint64_t address, uint64_t tsc,
			 struct ptah_function *function)
{
	const struct reading *r = reading;

	return ptah_functions_find(r->functions, space, address, tsc, function);
}

/* The tree of a thread, which is made when it appears. NULL: out of memory. */
static struct ptah_call_tree *tree_of(struct reading *r, const struct ptah_call_thread *thread)
{
	struct ptah_call_tree_config config = {.size = sizeof(config)};

	if (thread->number >= r->count) {
		struct ptah_call_tree **trees =
		    reallocarray(r->trees, thread->number + 1, sizeof(struct ptah_call_tree *));

		if (!trees)
			return NULL;
		r->trees = trees;
		while (r->count <= thread->number)
			trees[r->count++] = NULL;
	}
	ptah_session_time_scale(r->session, &config.time_mult, &config.time_shift);
	if (!r->trees[thread->number] && ptah_call_tree_new(&config, &r->trees[thread->number]) < 0)
		return NULL;
	return r->trees[thread->number];
}

static int take_batch(struct reading *r, const struct ptah_call_batch *batch)
{
	struct ptah_call_tree *tree;
	int status;

	if (batch->event && batch->event->type == PTAH_ITEM_ERROR)
		r->errors++;
	if (!batch->count && !batch->ended)
		return 0;
	tree = tree_of(r, batch->thread);
	if (!tree)
		return PTAH_E_NOMEM;
	status = ptah_call_tree_add(tree, batch->marks, batch->count);
	if (status < 0 || !batch->ended)
		return status;
	status = r->take(r->context, batch->thread, tree);
	ptah_call_tree_free(tree);
	r->trees[batch->thread->number] = NULL;
	return status;
}

static int read_all(struct reading *r)
{
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .find = reading_find,
						       .wants = reading_wants,
						       .context = r,
						       .jobs = input_jobs(r->input, 0)};
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(r->session, &config, &reader);

	if (status < 0)
		return status;
	while (!interrupted() && (status = ptah_call_reader_next(reader, &batch)) > 0) {
		progress_at(&r->progress, ptah_call_reader_offset(reader));
		status = take_batch(r, batch);
		if (status < 0)
			break;
	}
	ptah_call_reader_free(reader);
	return status < 0 ? status : 0;
}

int input_call_trees(const struct input *input, const struct ptah_session *session,
		     int (*take)(void *context, const struct ptah_call_thread *thread,
				 const struct ptah_call_tree *tree),
		     void *context, uint64_t *errors)
{
	struct reading r = {.input = input, .session = session, .take = take, .context = context};
	int status = ptah_functions_new(session, &r.functions);

	if (status < 0)
		return status;
	progress_begin(&r.progress, input, session, true);
	status = read_all(&r);
	progress_end(&r.progress);
	for (size_t i = 0; i < r.count; i++)
		ptah_call_tree_free(r.trees[i]);
	free(r.trees);
	ptah_functions_free(r.functions);
	*errors = r.errors;
	return status;
}
