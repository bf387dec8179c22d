/* SPDX-License-Identifier: MIT */
/* The functions of a call tree that have PTAH_CALL_STUB. */
#include "output/call_stubs.h"

#include "base/order.h"

#include <stdlib.h>

int call_stubs_list(struct call_stubs *stubs, const struct ptah_call_tree *tree)
{
	size_t all;
	int status;

	*stubs = (struct call_stubs){NULL, 0};
	status = ptah_call_tree_functions(tree, &stubs->functions, &all);
	if (status < 0)
		return status;
	for (size_t i = 0; i < all; i++)
		if (stubs->functions[i].flags & PTAH_CALL_STUB)
			stubs->functions[stubs->count++] = stubs->functions[i];
	return 0;
}

void call_stubs_free(struct call_stubs *stubs)
{
	free(stubs->functions);
	*stubs = (struct call_stubs){NULL, 0};
}

static int compare(const void *a, const void *b)
{
	const struct ptah_call_function *x = a, *y = b;

	return COMPARE_THEN(x->space, y->space, COMPARE(x->function, y->function));
}

bool call_stubs_has(const struct call_stubs *stubs, uint16_t space, uint64_t function)
{
	const struct ptah_call_function key = {.space = space, .function = function};

	return stubs->count && bsearch(&key, stubs->functions, stubs->count, sizeof(key), compare);
}
