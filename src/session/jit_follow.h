/* SPDX-License-Identifier: MIT */
/*
 * In a session that grows, the lists of generated code (jit.h) are read while runtimes write them.
 * They are looked for when a process executes code that is in no file. All lists are in the
 * session's jitdumps.
 */
#ifndef PTAH_SESSION_JIT_FOLLOW_H
#define PTAH_SESSION_JIT_FOLLOW_H

#include "session/session.h"

struct jit_follow;

int jit_follow_new(struct jit_follow **follow);
void jit_follow_free(struct jit_follow *follow);

/* The process has code that is in no file. */
void jit_follow_process(struct ptah_session *s, int32_t pid);
/* A process maps a jitdump. */
int jit_follow_dump(struct ptah_session *s, const struct perfdata_record *r);
/*
 * Another process has the number from `time` on, by perf's clock: the lists of the one before are
 * complete.
 */
void jit_follow_forked(struct ptah_session *s, int32_t pid, uint64_t time);
/* The first thread of the process has exited. */
void jit_follow_exited(struct ptah_session *s, int32_t pid);

/* The list of a process that was found last; the others are `older`. SESSION_NONE: none. */
size_t jit_follow_newest(const struct ptah_session *s, int32_t pid);

/*
 * After records were applied: reads what has been written since, a megabyte of it at most. Code of
 * jitdumps that serves as code becomes changes of memory. `complete`: the recording has ended, and
 * all is read. 1: lists have grown; 0: they have not; or an error.
 */
int jit_follow_read(struct ptah_session *s, bool complete);

#endif
