/* SPDX-License-Identifier: MIT */
/* Compares two call trees in all that they show. */
#ifndef PTAH_TESTS_CALLS_SAME_TREES_H
#define PTAH_TESTS_CALLS_SAME_TREES_H

#include "test.h"

#include <ptah/calls.h>

#include <stdlib.h>

/* Both trees have the same lists. */
static inline void assert_same_trees(const struct ptah_call_tree *a, const struct ptah_call_tree *b)
{
	struct ptah_call_node *nodes[2];
	struct ptah_call_function *functions[2];
	struct ptah_call_pair *pairs[2];
	size_t n[2];

	assert_int_equal(ptah_call_tree_nodes(a, &nodes[0], &n[0]), 0);
	assert_int_equal(ptah_call_tree_nodes(b, &nodes[1], &n[1]), 0);
	assert_int_equal(n[0], n[1]);
	assert_memory_equal(nodes[0], nodes[1], n[0] * sizeof(**nodes));
	assert_int_equal(ptah_call_tree_functions(a, &functions[0], &n[0]), 0);
	assert_int_equal(ptah_call_tree_functions(b, &functions[1], &n[1]), 0);
	assert_int_equal(n[0], n[1]);
	assert_memory_equal(functions[0], functions[1], n[0] * sizeof(**functions));
	for (size_t i = 0; i < n[0]; i++)
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			for (double q = 0; q <= 1; q += 0.05)
				assert_int_equal(
				    ptah_call_tree_quantile(a, &functions[0][i], k, q),
				    ptah_call_tree_quantile(b, &functions[1][i], k, q));
	assert_int_equal(ptah_call_tree_pairs(a, &pairs[0], &n[0]), 0);
	assert_int_equal(ptah_call_tree_pairs(b, &pairs[1], &n[1]), 0);
	assert_int_equal(n[0], n[1]);
	assert_memory_equal(pairs[0], pairs[1], n[0] * sizeof(**pairs));
	for (unsigned i = 0; i < 2; i++) {
		free(nodes[i]);
		free(functions[i]);
		free(pairs[i]);
	}
}

#endif
