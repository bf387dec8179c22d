/* SPDX-License-Identifier: MIT */
/* Counts that a test makes, loads from bytes, and compares. */
#ifndef PTAH_TESTS_COUNTS_LOAD_COUNTS_H
#define PTAH_TESTS_COUNTS_LOAD_COUNTS_H

#include "test.h"
#include "counts/counts_internal.h"

#include <ptah/counts.h>

#include <stdlib.h>

static inline struct ptah_counts *counts_new(void)
{
	struct ptah_counts *counts;

	assert_int_equal(ptah_counts_new(&counts), 0);
	return counts;
}

static inline struct ptah_counts *loaded(const void *bytes, size_t n)
{
	struct ptah_message why = {""};
	struct ptah_counts *counts;

	if (counts_load(bytes, n, &counts, &why) < 0)
		fail_msg("%s", why.text);
	return counts;
}

/* Whether both save to the same bytes. */
static inline void assert_same_bytes(const struct ptah_counts *a, const struct ptah_counts *b)
{
	void *x, *y;
	size_t n, m;

	assert_int_equal(ptah_counts_save(a, &x, &n), 0);
	assert_int_equal(ptah_counts_save(b, &y, &m), 0);
	assert_int_equal(n, m);
	assert_memory_equal(x, y, n);
	free(x);
	free(y);
}

#endif
