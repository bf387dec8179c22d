/* SPDX-License-Identifier: MIT */
/* What kind of times an output has, and what of them passed off the processor: for its head. */
#ifndef PTAH_CLI_TIME_HEAD_H
#define PTAH_CLI_TIME_HEAD_H

#include "output/json.h"
#include "output/out.h"

#include <ptah/session.h>

/* Lines of comment. */
void time_head_put(struct out *out, const struct ptah_session *session);
/* The kind alone. */
void time_head_put_kind(struct out *out, const struct ptah_session *session);
/* "times", and where it is known "off_ns" and "preempted_ns", for the object that is open. */
void time_head_put_json(struct json *json, const struct ptah_session *session);

/* Of saved calls, by enum ptah_counts_times. "mixed": of several recordings; NULL: not known. */
const char *time_head_saved_kind(unsigned times);
void time_head_put_saved(struct out *out, unsigned times);

#endif
