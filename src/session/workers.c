/* SPDX-License-Identifier: MIT */
/* Creates and frees the set of decoders that callers keep between counts. */
#include "session/workers.h"

#include <stdlib.h>

int ptah_workers_new(const struct ptah_session *session, struct ptah_workers **workers)
{
	if (!session || !workers)
		return PTAH_E_INVAL;
	*workers = calloc(1, sizeof(**workers));
	if (!*workers)
		return PTAH_E_NOMEM;
	(*workers)->session = session;
	return 0;
}

static void free_streams(struct job_streams *s)
{
	stream_free(s->probe);
	for (unsigned i = 0; i < MAX_JOBS; i++)
		stream_free(s->jobs[i]);
}

void workers_fini(struct ptah_workers *workers)
{
	stream_free(workers->caller);
	stream_free(workers->reader);
	free_streams(&workers->count);
	free_streams(&workers->calls);
	free_streams(&workers->segments);
}

void ptah_workers_free(struct ptah_workers *workers)
{
	if (!workers)
		return;
	workers_fini(workers);
	free(workers);
}
