/* SPDX-License-Identifier: MIT */
/* Builds and searches the index of the changes of a memory (change_index.h). */
#include "session/change_index.h"

#include "base/order.h"
#include "session/session.h"

#include <stdlib.h>

static int compare_bounds(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(x, y);
}

static bool covers_addresses(const struct change *c)
{
	return c->type != CHANGE_EXEC && c->size;
}

/* The addresses at which a change begins or ends, each once. False: out of memory. */
static bool list_bounds(struct change_index *index, const struct change *changes, size_t n)
{
	size_t count = 0;

	index->bounds = calloc(2 * n + 1, sizeof(*index->bounds));
	if (!index->bounds)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!covers_addresses(&changes[i]))
			continue;
		index->bounds[count++] = changes[i].address;
		/* 0 where a change goes up to the end of the address space. */
		index->bounds[count++] = changes[i].address + changes[i].size;
	}
	qsort(index->bounds, count, sizeof(*index->bounds), compare_bounds);
	for (size_t i = 0; i < count; i++)
		if (!i || index->bounds[i] != index->bounds[index->leaves - 1])
			index->bounds[index->leaves++] = index->bounds[i];
	return true;
}

/* The last leaf that begins at or below the address. There must be one. */
static size_t find_leaf(const struct change_index *index, uint64_t address)
{
	size_t low = 0, high = index->leaves;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (index->bounds[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Counts (`put` false) or appends a change to the nodes that are its range. */
static void add_change(struct change_index *index, const struct change *c, uint32_t number,
		       bool put)
{
	const uint64_t end = c->address + c->size;
	size_t from = find_leaf(index, c->address) + index->leaves;
	size_t to = (end > c->address ? find_leaf(index, end) : index->leaves) + index->leaves;

	for (; from < to; from /= 2, to /= 2) {
		const size_t nodes[2] = {from & 1 ? from++ : 0, to & 1 ? --to : 0};

		for (unsigned k = 0; k < 2; k++) {
			if (nodes[k] && put)
				index->entries[index->starts[nodes[k]]] = number;
			index->starts[nodes[k]] += nodes[k] != 0;
		}
	}
}

/* Makes the lists of all nodes. False: out of memory, or more than there are numbers for. */
static bool fill_lists(struct change_index *index, const struct change *changes, size_t n)
{
	const size_t nodes = 2 * index->leaves;
	uint64_t total = 0;

	index->starts = calloc(nodes + 1, sizeof(*index->starts));
	if (!index->starts)
		return false;
	for (size_t i = 0; i < n; i++)
		if (covers_addresses(&changes[i]))
			add_change(index, &changes[i], 0, false);
	for (size_t i = 0; i < nodes; i++) {
		const uint32_t count = index->starts[i];

		index->starts[i] = (uint32_t)total;
		total += count;
	}
	if (total > UINT32_MAX)
		return false;
	index->entries = calloc(total + 1, sizeof(*index->entries));
	if (!index->entries)
		return false;
	for (size_t i = 0; i < n; i++)
		if (covers_addresses(&changes[i]))
			add_change(index, &changes[i], (uint32_t)i, true);
	/* Each start has moved to the end of its list, which is the next one's start. */
	for (size_t i = nodes; i > 0; i--)
		index->starts[i] = index->starts[i - 1];
	index->starts[0] = 0;
	return true;
}

int change_index_build(struct change_index *index, const struct change *changes, size_t n)
{
	change_index_free(index);
	if (n <= UINT32_MAX / 2 && list_bounds(index, changes, n) && fill_lists(index, changes, n))
		return 0;
	change_index_free(index);
	return PTAH_E_NOMEM;
}

void change_index_free(struct change_index *index)
{
	free(index->bounds);
	free(index->starts);
	free(index->entries);
	*index = (struct change_index){0};
}

/* The position in a node's list of the first entry that is not below `number`. */
static size_t find_entry(const struct change_index *index, size_t node, size_t number)
{
	size_t at;

	BISECT(at, index->starts[node], index->starts[node + 1], index->entries[at] < number);
	return at;
}

/* The wanted entry of a node's list. NULL: there is none. */
static const uint32_t *find_in_node(const struct change_index *index, const struct change *changes,
				    size_t node, size_t first, size_t n, enum wanted_change wanted)
{
	const size_t from = find_entry(index, node, first), to = find_entry(index, node, n);

	for (size_t i = 0; from + i < to; i++) {
		const uint32_t *e = &index->entries[wanted == WANTED_FIRST ? from + i : to - 1 - i];

		if (wanted == WANTED_LAST_OR_GONE || changes[*e].type != CHANGE_GONE)
			return e;
	}
	return NULL;
}

const struct change *change_index_find(const struct change_index *index,
				       const struct change *changes, size_t first, size_t n,
				       uint64_t address, enum wanted_change wanted)
{
	const uint32_t *found = NULL;

	if (!index->leaves || address < index->bounds[0])
		return NULL;
	for (size_t node = find_leaf(index, address) + index->leaves; node; node /= 2) {
		const uint32_t *e = find_in_node(index, changes, node, first, n, wanted);

		if (e && (!found || (wanted == WANTED_FIRST ? *e < *found : *e > *found)))
			found = e;
	}
	return found ? &changes[*found] : NULL;
}
