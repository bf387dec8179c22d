/* SPDX-License-Identifier: MIT */
/* Fills in a struct ptah_message; a NULL one is allowed. Returns `status`. */
#ifndef PTAH_PERFDATA_MESSAGE_H
#define PTAH_PERFDATA_MESSAGE_H

#include "base/compiler.h"

#include <ptah/session.h>

int perfdata_message(struct ptah_message *why, int status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/*
 * An exported function that has a `why` calls both: the first empties it, and the second, which
 * returns `status`, gives it the sentence of a status that came without one. So a caller may print
 * it after every failure.
 */
void perfdata_message_begin(struct ptah_message *why);
int perfdata_message_end(struct ptah_message *why, int status);

/*
 * As perfdata_message(), for a system call that failed with `error`: adds its text and, where one
 * helps, advice.
 */
int perfdata_system_message(struct ptah_message *why, int error, const char *path,
			    const char *what);

#endif
