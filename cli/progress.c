/* SPDX-License-Identifier: MIT */
/* Shows progress on standard error, if that is a terminal. */
#include "progress.h"
#include "support/monotonic.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
	return (double)monotonic_ns() / 1e9;
}

void progress_begin(struct progress *p, const struct input *input,
		    const struct ptah_session *session, bool summary)
{
	struct ptah_stream_info info;

	memset(p, 0, sizeof(*p));
	/* Not while the output itself scrolls over the terminal. */
	p->on = !input->quiet && !input->no_progress && isatty(STDERR_FILENO) &&
		(input->output || !isatty(STDOUT_FILENO) || summary);
	p->last = now();
	for (size_t i = 0; i < ptah_session_streams(session); i++)
		if (input_wants(input, session, i) &&
		    ptah_session_stream_info(session, i, &info) >= 0)
			p->total += info.bytes;
}

void progress_at(struct progress *p, uint64_t offset)
{
	double t;

	if (!p->on || !p->total)
		return;
	t = now();
	if (t - p->last < 0.2 || !isatty(STDERR_FILENO)) /* the pager may have taken it over */
		return;
	p->last = t;
	p->shown = true;
	fprintf(stderr, "\r%3.0f%% of %.1f MB",
		100.0 * (double)(p->before + offset) / (double)p->total, (double)p->total / 1e6);
}

void progress_next(struct progress *p, uint64_t stream_bytes)
{
	p->before += stream_bytes;
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r                          \r", stderr);
}
