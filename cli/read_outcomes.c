/* SPDX-License-Identifier: MIT */
/* Passes the outcomes of conditional branches to a predictor, and shows the progress. */
#include "read_outcomes.h"

#include "progress.h"

struct order {
	const struct input *input;
	const struct ptah_session *session;
	struct progress progress;
};

static bool wants_outcome_stream(void *order, size_t stream)
{
	const struct order *o = order;

	return input_wants(o->input, o->session, stream);
}

static bool order_progress(void *order, uint64_t bytes)
{
	progress_at(&((struct order *)order)->progress, bytes);
	return !interrupted();
}

int input_outcomes(const struct input *input, const struct ptah_session *session,
		   struct outcomes *outcomes)
{
	struct order order = {.input = input, .session = session};
	const struct outcomes_config config = {.jobs = input_jobs(input, 0),
					       .wants = wants_outcome_stream,
					       .progress = order_progress,
					       .context = &order};
	int status;

	progress_begin(&order.progress, input, session, true);
	status = outcomes_read(session, &config, outcomes);
	progress_end(&order.progress);
	return status;
}
