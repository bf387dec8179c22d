/* SPDX-License-Identifier: MIT */
/* The line on a terminal's standard error that shows how much of the trace has been read. */
#ifndef PTAH_CLI_PROGRESS_H
#define PTAH_CLI_PROGRESS_H

#include "input.h"

struct progress {
	bool on, shown;
	uint64_t total, before;
	double last;
};

/* `summary`: the command prints nothing before it has read everything. */
void progress_begin(struct progress *p, const struct input *input,
		    const struct ptah_session *session, bool summary);
void progress_at(struct progress *p, uint64_t offset); /* in the current stream */
void progress_next(struct progress *p, uint64_t stream_bytes);
void progress_end(struct progress *p);

double now(void); /* seconds */

#endif
