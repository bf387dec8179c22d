/* SPDX-License-Identifier: MIT */
/*
 * Programs that filter system calls (seccomp). The runtime makes its calls under the same filters:
 * so it looks into each before the program has it, and follows where all that it needs is let
 * through. Calls of the program that a filter does not let through go to the kernel as they are,
 * which answers them, sends SIGSYS, or ends the program.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_SANDBOX_H
#define PTAH_RECORD_NATIVE_RUNTIME_SANDBOX_H

#include "record/native/runtime/syscalls.h"

/* Whether the call adds a filter. */
bool sandbox_is_filter(const struct call *call);
/*
 * Carries out such a call. Not NULL: why it has to leave, and then nothing has changed. name: of
 * the call that would be denied, or NULL.
 */
const char *sandbox_begin(struct context *c, const struct call *call, int64_t *result,
			  const char **name);
/* Whether a filter answers this call in the kernel's place, so that the kernel is to be asked. */
bool sandbox_answers(const struct context *c, const struct call *call);
/* After `parent` has made a context of a new thread. */
void sandbox_inherit(struct context *parent, struct context *child);
/* What the recorder is to know at an execve: native_message.value. */
uint64_t sandbox_summary(const struct context *c);

#endif
