/* SPDX-License-Identifier: MIT */
/* A call machine that adds calls to a call tree, without making marks. */
#ifndef PTAH_CALLS_ADDER_H
#define PTAH_CALLS_ADDER_H

#include <ptah/call_tree.h>
#include <ptah/calls.h>

/* Adds the calls of one thread to a tree. */
struct calls_adder;

/* The tree must live as long as the adder. */
int calls_adder_new(const struct ptah_calls_config *config, struct ptah_call_tree *tree,
		    struct calls_adder **adder);
void calls_adder_free(struct calls_adder *adder);

/* As the functions for a list of marks. 0 or PTAH_E_NOMEM. */
int calls_adder_take_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n);
int calls_adder_take(struct calls_adder *adder, const struct ptah_item *items, size_t n);
int calls_adder_finish(struct calls_adder *adder);
int calls_adder_exec(struct calls_adder *adder, uint64_t tsc);
int calls_adder_lost(struct calls_adder *adder);
void calls_adder_code_changed(struct calls_adder *adder);

#endif
