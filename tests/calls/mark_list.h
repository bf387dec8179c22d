/* SPDX-License-Identifier: MIT */
/* A list of marks that grows. */
#ifndef PTAH_TESTS_CALLS_MARK_LIST_H
#define PTAH_TESTS_CALLS_MARK_LIST_H

#include "test.h"

#include <ptah/calls.h>

#include <stdlib.h>
#include <string.h>

struct list {
	struct ptah_call_mark *marks;
	size_t count, capacity;
};

static inline void append(struct list *l, const struct ptah_call_mark *marks, size_t n)
{
	if (l->count + n > l->capacity) {
		l->capacity = 2 * (l->count + n);
		l->marks = realloc(l->marks, l->capacity * sizeof(*marks));
		assert_non_null(l->marks);
	}
	if (n)
		memcpy(l->marks + l->count, marks, n * sizeof(*marks));
	l->count += n;
}

#endif
