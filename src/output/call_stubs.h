/* SPDX-License-Identifier: MIT */
/*
 * Which functions of a call tree are stubs (of the PLT, or the dynamic linker's resolver): a map of
 * ptah_call_tree_merge() leaves them out, so that what they ran counts for their callers.
 */
#ifndef PTAH_OUTPUT_CALL_STUBS_H
#define PTAH_OUTPUT_CALL_STUBS_H

#include <ptah/calls.h>

#include <stdbool.h>

struct call_stubs {
	struct ptah_call_function *functions; /* in the order of space and function */
	size_t count;
};

/* Lists the stubs of a tree. 0, or an error: then the list is empty. */
int call_stubs_list(struct call_stubs *stubs, const struct ptah_call_tree *tree);
void call_stubs_free(struct call_stubs *stubs);

bool call_stubs_has(const struct call_stubs *stubs, uint16_t space, uint64_t function);

#endif
