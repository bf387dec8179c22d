/* SPDX-License-Identifier: MIT */
/* Counts the chosen streams with several threads, shows progress, and stops on Ctrl-C. */
#include "progress.h"

#include <unistd.h>

#define MOST_JOBS 64

unsigned input_jobs(const struct input *input, unsigned jobs)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (input->jobs)
		jobs = input->jobs < MOST_JOBS ? (unsigned)input->jobs : MOST_JOBS;
	else if (!jobs)
		jobs = processors > 0 ? (unsigned)processors : 1;
	return jobs < MOST_JOBS ? jobs : MOST_JOBS;
}

/* The context of the callbacks below. */
struct counting {
	const struct input *input;
	const struct ptah_session *session;
	struct progress progress;
	int (*take)(void *context, const struct ptah_stream_info *info, size_t stream,
		    struct ptah_profile *profile);
	void *context;
};

static bool counting_wants(void *counting, size_t stream)
{
	const struct counting *c = counting;

	return input_wants(c->input, c->session, stream);
}

static int counting_take(void *counting, size_t stream, struct ptah_profile *profile)
{
	const struct counting *c = counting;
	struct ptah_stream_info info;

	input_stream_info(c->session, stream, &info);
	return c->take(c->context, &info, stream, profile);
}

static bool counting_progress(void *counting, uint64_t bytes)
{
	progress_at(&((struct counting *)counting)->progress, bytes);
	return !interrupted();
}

int input_count(const struct input *input, const struct ptah_session *session,
		int (*take)(void *context, const struct ptah_stream_info *info, size_t stream,
			    struct ptah_profile *profile),
		void *context)
{
	struct counting c = {.input = input, .session = session, .take = take, .context = context};
	const struct ptah_jobs jobs = {.size = sizeof(jobs),
				       .jobs = input_jobs(input, 0),
				       .progress = counting_progress,
				       .context = &c};
	int status;

	progress_begin(&c.progress, input, session, true);
	status = ptah_session_count(session, &jobs, counting_wants, counting_take, &c);
	progress_end(&c.progress);
	return status;
}
