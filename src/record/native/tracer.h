/* SPDX-License-Identifier: MIT */
/*
 * Debuggers and other tracers. The child of vfork() runs natively until its execve, for which the
 * recorder traces it; a debugger's child asks to be traced by its parent first (PTRACE_TRACEME),
 * which fails while somebody else does. To see that, the recorder would have to stop each child at
 * each system call, which takes longer than all else that most children do: so only children of
 * programs that may call ptrace() are stopped.
 */
#ifndef PTAH_RECORD_NATIVE_TRACER_H
#define PTAH_RECORD_NATIVE_TRACER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TRACER_FILES 16

/* The files that were asked about last; begins as zeros. */
struct tracer {
	struct tracer_file {
		dev_t device;
		ino_t inode;
		off_t size;
		bool may_be;
	} files[TRACER_FILES];
	unsigned next; /* the oldest */
};

/* Whether the name of ptrace() is in the process's executable file. */
bool tracer_may_be(struct tracer *t, int32_t pid);

#endif
