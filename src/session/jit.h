/* SPDX-License-Identifier: MIT */
/* The code that recorded processes generated, as their runtimes have listed it. */
#ifndef PTAH_SESSION_JIT_H
#define PTAH_SESSION_JIT_H

#include "session/session.h"
#include "symbol/jit.h"

/* A jitdump that a process has mapped, so that recorders know of it. */
struct jitdump {
	int32_t pid;
	char *path;	/* as recorded */
	uint64_t time;	/* of the record, by perf's clock */
	bool has_times; /* of its code, in the times of the trace */
	struct symbol_jit jit;
};

/* Is it the path of a jitdump? */
bool jit_is_dump(const char *path, size_t n);

/* Notes a jitdump if that is what the mapped file is. */
int jit_on_map(struct ptah_session *session, const struct perfdata_record *r);

/*
 * Reads the jitdumps that were noted, with the times of their code as TSC. Later jit_leave_out()
 * leaves out the highest byte.
 */
int jit_read_dumps(struct ptah_session *session);
void jit_leave_out(struct ptah_session *session, uint64_t high);
void jit_free_dumps(struct ptah_session *session);

/* Does a process have jitdumps whose code is decoded? Then its anonymous maps say nothing. */
bool jit_has_code(const struct ptah_session *session, int32_t pid);

/*
 * The code that a process had at an address, from its jitdumps. NULL: none is known, or none of a
 * time near to it.
 */
const struct symbol_jit_code *jit_find_dumped(const struct ptah_session *session, int32_t pid,
					      uint64_t address, uint64_t tsc, uint64_t *low,
					      uint64_t *high, const struct symbol_jit **jit);

/*
 * Reads the jitdump of a process that lies beside the recording, if the recording has not named it:
 * emulators do not record that it was mapped. False: there is none. `jit` is then empty.
 */
bool jit_read_dump_beside(const struct ptah_session *session, int32_t pid, struct symbol_jit *jit);

/*
 * Reads the map for perf of a process: beside the recording, or in /tmp. False: there is none, or
 * it must not be used. `jit` is then empty.
 */
bool jit_read_map(const struct ptah_session *session, int32_t pid, struct symbol_jit *jit);

#endif
