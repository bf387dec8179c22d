/* SPDX-License-Identifier: MIT */
/* The code that recorded processes generated, as their runtimes have listed it. */
#ifndef PTAH_SESSION_JIT_H
#define PTAH_SESSION_JIT_H

#include "session/session.h"
#include "symbol/jit.h"

#include <ptah/symbol.h>

/* A jitdump that a process has mapped, so that recorders know of it. */
struct jitdump {
	int32_t pid;
	char *path;	/* as recorded; NULL: it was found without a record */
	uint64_t time;	/* of the record, by perf's clock */
	bool has_times; /* of its code, in the times of the trace */
	struct symbol_jit jit;
	/* Of a session that grows (jit_follow.h): */
	bool is_map;  /* it is a map for perf */
	bool opened;  /* its file was found */
	bool left;    /* its process is not followed any longer */
	bool settled; /* has_times is known */
	struct symbol_jit_file file;
	uint64_t grown; /* the session's jit_generation when code was added last */
	size_t older;	/* the list of the same process before it; SESSION_NONE: none */
};

/* Whether it is the path of a jitdump. */
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

/* How far times of a dump are before perf's, of which `time` is one at which it was begun. False:
 * these are different clocks. */
bool jit_times_shift(const struct ptah_session *session, const struct jitdump *dump,
		     uint64_t *shift);

/* The path to open for a jitdump that was recorded. The caller frees it. */
char *jit_dump_path(const struct ptah_session *session, const struct jitdump *dump);
int jit_note_unread(struct ptah_session *session, const char *path, int status);

/* Whether a process has jitdumps whose code is decoded. Then its anonymous maps say nothing. */
bool jit_has_code(const struct ptah_session *session, int32_t pid);

/*
 * The code that a process had at an address, from its jitdumps. NULL: none is known, or none of a
 * time near to it.
 */
const struct symbol_jit_code *jit_find_dumped(const struct ptah_session *session, int32_t pid,
					      uint64_t address, uint64_t tsc, uint64_t *low,
					      uint64_t *high, const struct symbol_jit **jit);

/* The same in the process's map for perf, in a session that grows. */
const struct symbol_jit_code *jit_find_mapped(const struct ptah_session *session, int32_t pid,
					      uint64_t address, uint64_t *low, uint64_t *high,
					      const struct symbol_jit **jit);

/* The session's jit_generation when a list of the process has grown last; the session grows. */
uint64_t jit_newest(const struct ptah_session *session, int32_t pid);

/* Until when what was found at `tsc` is there, in a session that grows; UINT64_MAX: always. */
uint64_t jit_until(const struct ptah_session *session, int32_t pid, uint64_t address, uint64_t tsc);

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

/* functions.c, of a session that grows */

/*
 * After lists have grown: whether code may be known now that was looked for in vain, so that what
 * was remembered of bounds is not to be used any longer. functions_generation() is then another.
 */
bool functions_refresh(struct ptah_functions *functions);
uint64_t functions_generation(const struct ptah_functions *functions);

/*
 * Until when the name of an address at `tsc` is valid, as far as lists go so far; UINT64_MAX:
 * always. *changes: it may be another one when lists grow.
 */
uint64_t functions_until(struct ptah_functions *functions, int32_t space, uint64_t address,
			 uint64_t tsc, bool *changes);

#endif
