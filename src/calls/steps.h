/* SPDX-License-Identifier: MIT */
/*
 * A call machine that returns steps (struct ptah_call_step) in place of marks. All functions of
 * <ptah/calls.h> but those that take or finish may be called for it.
 */
#ifndef PTAH_CALLS_STEPS_H
#define PTAH_CALLS_STEPS_H

#include "calls/machine.h"
#include "calls/calls.h"

int calls_new_steps(const struct calls_config *config, struct calls_marks **calls);

/* As calls_marks_take(), calls_marks_take_spans() and calls_marks_finish(). */
int calls_take_steps(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		     struct ptah_call_step *steps, size_t capacity, size_t *count);
int calls_take_span_steps(struct calls_marks *calls, const struct ptah_span *spans, size_t n,
			  struct ptah_call_step *steps, size_t capacity, size_t *count);
int calls_finish_steps(struct calls_marks *calls, struct ptah_call_step *steps, size_t capacity);

#endif
