/* SPDX-License-Identifier: MIT */
/* Call readers, for the files that read calls: call_reader.c and call_trees.c. */
#ifndef PTAH_SESSION_CALL_READER_H
#define PTAH_SESSION_CALL_READER_H

#include "session/call_threads.h"

/* What can be read independently of all else: a stream of one thread, or all streams per CPU. */
enum call_unit_kind {
	CALL_UNIT_ALL, /* everything */
	CALL_UNIT_STREAM,
	CALL_UNIT_CPUS,
};

struct call_unit {
	enum call_unit_kind kind;
	size_t stream;
};

/* Whether the stream follows the threads that ran on a CPU. */
static inline bool call_is_per_cpu(const struct ptah_session *session, size_t stream)
{
	return session->streams[stream].cpu != SESSION_NONE;
}

static inline bool call_unit_has(const struct call_unit *unit, const struct ptah_session *session,
				 size_t stream)
{
	switch (unit->kind) {
	case CALL_UNIT_STREAM:
		return stream == unit->stream;
	case CALL_UNIT_CPUS:
		return call_is_per_cpu(session, stream);
	default:
		return true;
	}
}

bool call_is_config(const struct ptah_session *session,
		    const struct ptah_call_reader_config *config);

/* trees: for trees of this kind instead of marks, or NULL. */
int call_reader_open(const struct ptah_session *session,
		     const struct ptah_call_reader_config *config,
		     const struct ptah_call_tree_config *trees, const struct call_unit *unit,
		     struct ptah_call_reader **reader);

/*
 * 1: the next thread that has ended, with its tree, or NULL after about a megabyte of trace; 0: the
 * end; or an error.
 */
int call_reader_next_tree(struct ptah_call_reader *reader, struct call_thread **thread);

#endif
