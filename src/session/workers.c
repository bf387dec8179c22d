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

void workers_fini(struct ptah_workers *workers)
{
	ptah_stream_free(workers->caller);
	ptah_stream_free(workers->probe);
	ptah_stream_free(workers->reader);
	for (unsigned i = 0; i < MAX_JOBS; i++)
		ptah_stream_free(workers->jobs[i]);
}

void ptah_workers_free(struct ptah_workers *workers)
{
	if (!workers)
		return;
	workers_fini(workers);
	free(workers);
}
