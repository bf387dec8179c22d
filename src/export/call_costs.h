/* SPDX-License-Identifier: MIT */
/*
 * Calls by call site: how often each call instruction called each function, and how many
 * instructions ran in these calls. With the counts of an annotation that is what callgrind counts.
 */
#ifndef PTAH_EXPORT_CALL_COSTS_H
#define PTAH_EXPORT_CALL_COSTS_H

#include "output/annotate.h"

#include <ptah/calls.h>

/*
 * Addresses in the processes' spaces, as ptah_call_thread_space() numbers them. A call that was not
 * seen to begin (`site` 0) counts nothing, but what ran in it does.
 */
struct call_arc {
	uint64_t site; /* 0: not known */
	uint64_t caller, callee;
	int32_t caller_space, callee_space;
	uint64_t calls;
	/*
	 * What ran in the calls. A call of a function that was running already adds nothing: what
	 * runs in it is in the outer call's.
	 */
	uint64_t instructions;
};

struct call_arcs;

int call_arcs_new(struct call_arcs **arcs);
void call_arcs_free(struct call_arcs *arcs);

/* Adds the calls of a batch; those of one thread come in order. 0 or PTAH_E_NOMEM. */
int call_arcs_add(struct call_arcs *arcs, const struct ptah_call_batch *batch);

/* In no particular order. They belong to `arcs`. */
const struct call_arc *call_arcs_list(const struct call_arcs *arcs, size_t *n);

/* What callgrind.c writes. */
struct call_costs {
	const struct annotation *annotation;
	const struct call_arcs *arcs;
	struct names *names; /* of the session: they know where the arcs' addresses are */
	const char *command; /* NULL: not known */
};

#endif
