/* SPDX-License-Identifier: MIT */
/*
 * Puts the runtime into programs, at their first instruction. Uses ptrace only until then: no
 * tracer stays. All calls for one process have to come from the same thread.
 *
 *	inject_start(argv, &pid, &why);		it stands before its first instruction
 *	... read /proc/PID/maps, choose a slot ...
 *	inject_runtime(pid, &memory, &why);	it runs
 *
 * When a recorded process is about to execve (NATIVE_MESSAGE_EXEC):
 *
 *	inject_seize(pid, false, &why);		before the message is answered
 *	while (!(status = inject_exec(pid, false, &ended, &why))) ...	1: it is held
 *	inject_runtime(pid, &memory, &why);
 */
#ifndef PTAH_RECORD_NATIVE_INJECT_H
#define PTAH_RECORD_NATIVE_INJECT_H

#include "record/native/layout.h"

#include <ptah/session.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What is put into the program. */
struct inject_memory {
	int fd;			  /* of the memory of layout.h */
	uint64_t bytes;		  /* its size */
	unsigned slot;		  /* for the process's first thread */
	bool call_by_call;	  /* tests: as where the program has no name for the memory */
	bool or_natively;	  /* where this fails, the program runs without the runtime */
	bool committed;		  /* native_handover.committed */
	uint32_t filters, denied; /* native_handover */
	const int64_t *late;	  /* haste.h: then it fails */
	const struct native_header *constants;
	/* NULL: the recorder's. */
	const uint8_t *blob, *blob_end;
};

/*
 * Starts a command, searched for in PATH as a shell does, as a child of the caller that is killed
 * if the caller ends before inject_runtime(). A negative status: there is no child any more.
 */
int inject_start(char *const *argv, pid_t *pid, const int64_t *late, struct ptah_message *why);

/*
 * For a process that is held before its first instruction: puts the runtime and the memory into it
 * and lets it run. On failure the process has been killed, if it could not be let go natively.
 */
int inject_runtime(pid_t pid, const struct inject_memory *memory, struct ptah_message *why);

/*
 * Seizes a process, so that its next execve is held. It goes on. calls: it is also held for a moment
 * at each of its system calls, for inject_exec().
 */
int inject_seize(pid_t pid, bool calls, struct ptah_message *why);

/*
 * Whether a process that was seized is held before the first instruction of a new program: 1; 0:
 * not yet. Signals that come meanwhile are passed on. PTAH_E_MISSING: it has ended; *ended: its
 * status as of waitpid(), which for a child has been taken. calls: as it was seized; INJECT_TRACED:
 * it has asked its parent to trace it, for which it is let go.
 */
#define INJECT_TRACED 2
int inject_exec(pid_t pid, bool calls, int *ended, struct ptah_message *why);

/*
 * Lets go a thread that was seized: its execve has failed, or its new program is not to be recorded.
 * It is told to stop for that, and waited for a moment. False: it does not stop yet, because it
 * waits for the kernel, or for a child that it has made by vfork(). Then this is to be called again.
 */
bool inject_release(pid_t pid);

/* Kills a process that is held, and waits for it, for a second at most. */
void inject_kill(pid_t pid);

#endif
