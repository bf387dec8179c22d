/* SPDX-License-Identifier: MIT */
/* What suspended calls have run so far, by their id, until they end. */
#include "base/hash.h"
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

/* Ids are numbers in a row; any spread will do. */
static uint64_t hash(uint64_t id)
{
	return hash_number(id) >> 32;
}

#define MOST_SUSPENDED (UINT32_C(1) << 20)

static struct tree_suspended *find_suspended(const struct ptah_call_tree *t, uint64_t id)
{
	uint32_t i = (uint32_t)hash(id);

	if (!t->suspended_capacity)
		return NULL;
	for (;; i++) {
		struct tree_suspended *s = &t->suspended[i & (t->suspended_capacity - 1)];

		if (s->id == id || !s->id)
			return s;
	}
}

static bool grow_suspended(struct ptah_call_tree *t)
{
	const uint32_t n = t->suspended_capacity;
	struct tree_suspended *old = t->suspended;
	struct tree_suspended *more = calloc(n ? 2 * (size_t)n : 16, sizeof(*more));

	if (!more)
		return false;
	t->suspended = more;
	t->suspended_capacity = n ? 2 * n : 16;
	for (uint32_t i = 0; i < n; i++)
		if (old[i].id)
			*find_suspended(t, old[i].id) = old[i];
	free(old);
	return true;
}

bool tree_suspend(struct ptah_call_tree *t, uint64_t id, uint32_t function, uint32_t flags,
		  const struct ptah_call_figures *inclusive)
{
	struct tree_suspended *s;

	if (!id)
		return false;
	if (t->suspended_count + 1 > t->suspended_capacity / 2) {
		if (t->suspended_count >= MOST_SUSPENDED)
			return false;
		if (!grow_suspended(t))
			return tree_fail(t);
	}
	s = find_suspended(t, id);
	if (!s->id) {
		t->suspended_count++;
		s->id = id;
		s->function = function;
	}
	s->flags |= flags;
	tree_add_figures(&s->before, inclusive);
	return true;
}

/* Removes an entry, and moves those after it, which may have been put there because of it. */
static void forget_suspended(struct ptah_call_tree *t, struct tree_suspended *s)
{
	const uint32_t mask = t->suspended_capacity - 1;
	uint32_t i = (uint32_t)(s - t->suspended);

	memset(s, 0, sizeof(*s));
	t->suspended_count--;
	for (i = (i + 1) & mask; t->suspended[i].id; i = (i + 1) & mask) {
		const struct tree_suspended moved = t->suspended[i];

		memset(&t->suspended[i], 0, sizeof(moved));
		*find_suspended(t, moved.id) = moved;
	}
}

void tree_resume(struct ptah_call_tree *t, uint64_t id, struct ptah_call_figures *inclusive,
		 uint32_t *flags)
{
	struct tree_suspended *s = find_suspended(t, id);

	if (!s || !s->id) {
		*flags |= TREE_SUSPENDED_PARTIAL;
		return;
	}
	tree_add_figures(inclusive, &s->before);
	*flags |= s->flags;
	forget_suspended(t, s);
}
