/* SPDX-License-Identifier: MIT */
/*
 * A recording with the same trace in fewer bytes (ptah repack). For recordings of a simulated
 * processor, whose recorder may write packets as they come (docs/native-recorder.md).
 */
#ifndef PTAH_EXPORT_REPACK_H
#define PTAH_EXPORT_REPACK_H

#include <ptah/session.h>

struct repack_job {
	const char *input; /* perf.data, the one of the session */
	const char *output;
	const struct ptah_session *session;
	/* Compress returns, although the recording says that none are, and let it say that. */
	bool retcomp;
	uint64_t psb_period; /* as in struct repack_config */
	/* Called now and then with the bytes done since; false (Ctrl-C) ends the work: no file is
	 * left. */
	bool (*step)(void *context, uint64_t bytes);
	void *context;
	/* Results, in bytes of trace. copied: those that had to stay as they were. */
	uint64_t before, after, copied;
	bool stopped;
};

/*
 * Writes the output; a file that is there becomes FILE.old. Returns 0, or an error with a message;
 * then the output is as it was.
 */
int repack_run(struct repack_job *job, struct ptah_message *why);

#endif
