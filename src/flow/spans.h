/* SPDX-License-Identifier: MIT */
/* Joins blocks to spans: see struct ptah_span. */
#ifndef PTAH_FLOW_SPANS_H
#define PTAH_FLOW_SPANS_H

#include "flow/flow_machine.h"

/*
 * Adds a block: `block` has the span that consists of it alone. If a span ends with it, it is
 * written, and there must be room for it.
 */
void flow_add_span(struct ptah_flow *f, struct flow_spans *out, const struct ptah_span *block);

/* Adds a block that ptah_flow_read() would return next. */
void flow_add_block(struct ptah_flow *f, struct flow_spans *out, const struct ptah_item *block);

/* Writes what has run since the last span as one of the class OTHER. There must be room for it. */
void flow_close_span(struct flow_spans *out);

#endif
