/* SPDX-License-Identifier: MIT */
/* Adds up the calls of each thread of a recording. */
#include "call_trees.h"
#include "progress.h"

#include "output/wait_names.h"

#include <ptah/calls.h>

struct reading {
	const struct input *input;
	const struct ptah_session *session;
	struct progress progress;
	uint64_t errors;
	struct ptah_waits *waits; /* NULL: none are known */
	int (*take)(void *context, const struct ptah_call_thread *thread,
		    const struct ptah_call_tree *tree);
	void *context;
};

static bool wants_tree_stream(void *reading, size_t stream)
{
	const struct reading *r = reading;

	return input_wants(r->input, r->session, stream);
}

static bool show_tree_progress(void *reading, uint64_t bytes)
{
	struct reading *r = reading;

	progress_at(&r->progress, bytes);
	return !interrupted();
}

/* A thread whose trace ends while it waits waits on. */
static uint64_t end_of_thread(void *reading, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct reading *r = reading;

	return wait_end_of_thread(r->waits, r->session, thread, tsc);
}

static int take_tree(void *reading, const struct ptah_call_thread *thread,
		     struct ptah_call_tree *tree)
{
	struct reading *r = reading;

	r->errors += thread->errors;
	return r->take(r->context, thread, tree);
}

int input_call_trees(const struct input *input, const struct ptah_session *session,
		     int (*take)(void *context, const struct ptah_call_thread *thread,
				 const struct ptah_call_tree *tree),
		     void *context, uint64_t *errors)
{
	struct reading r = {.input = input, .session = session, .take = take, .context = context};
	struct ptah_call_reader_config config = {.size = sizeof(config),
						 .wants = wants_tree_stream,
						 .progress = show_tree_progress,
						 .context = &r,
						 .no_estimates = input->no_times,
						 .bounds = input->bounds,
						 .jobs = input_jobs(input, 0)};
	int status = 0;

	progress_begin(&r.progress, input, session, true);
	if (!input->no_times && ptah_session_samples(session)) {
		status = ptah_waits_new(session, NULL, &r.waits);
		config.ended = end_of_thread;
	}
	if (status >= 0)
		status = ptah_session_call_trees(session, &config, take_tree, &r);
	ptah_waits_free(r.waits);
	progress_end(&r.progress);
	*errors = r.errors;
	return status;
}
