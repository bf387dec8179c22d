/* SPDX-License-Identifier: MIT */
/*
 * The sum of two processes. Their lists are sorted, and so are those of the sum: each pair is
 * merged in one pass, in which entries with the same key become one.
 */
#include "base/order.h"
#include "counts/counts_internal.h"

#include <stdlib.h>
#include <string.h>

/* Orders of the lists */

int counts_compare_spaces(const void *a, const void *b)
{
	const struct ptah_space *x = a, *y = b;
	int order = COMPARE(x->cr3, y->cr3);

	return order ? order : COMPARE(x->vmcs, y->vmcs);
}

int counts_compare_blocks(const void *a, const void *b)
{
	const struct ptah_profile_block *x = a, *y = b;
	int order = COMPARE(x->space, y->space);

	order = order ? order : COMPARE(x->ip, y->ip);
	order = order ? order : COMPARE(x->mode, y->mode);
	order = order ? order : COMPARE(x->end, y->end);
	order = order ? order : COMPARE(x->truncated, y->truncated);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	/* The same addresses, but the code was rewritten in between. */
	order = order ? order : COMPARE(x->ninsn, y->ninsn);
	order = order ? order : COMPARE(x->last_size, y->last_size);
	order = order ? order : COMPARE(x->target, y->target);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

int counts_compare_edges(const void *a, const void *b)
{
	const struct ptah_profile_edge *x = a, *y = b;
	int order = COMPARE(x->space, y->space);

	order = order ? order : COMPARE(x->from, y->from);
	order = order ? order : COMPARE(x->mode, y->mode);
	order = order ? order : COMPARE(x->to, y->to);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

int counts_compare_files(const void *a, const void *b)
{
	const struct ptah_counts_file *x = a, *y = b;
	int order = COMPARE(x->version, y->version);

	return order ? order : COMPARE(x->address, y->address);
}

/* Joining two processes: all lists are sorted, and so is the result. */

static void join_spaces(void *into, const void *from)
{
	(void)into;
	(void)from;
}

static void join_blocks(void *into, const void *from)
{
	const struct ptah_profile_block *f = from;
	struct ptah_profile_block *b = into;

	b->count += f->count;
	b->taken += f->taken;
	b->unknown += f->unknown;
}

static void join_edges(void *into, const void *from)
{
	((struct ptah_profile_edge *)into)->count +=
	    ((const struct ptah_profile_edge *)from)->count;
}

struct list_kind {
	size_t size;
	int (*compare)(const void *a, const void *b);
	void (*join)(void *into, const void *from); /* combines two entries that compare equal;
						       NULL: that does not happen */
};

static const struct list_kind kind_of_spaces = {sizeof(struct ptah_space), counts_compare_spaces,
						join_spaces};
static const struct list_kind kind_of_blocks = {sizeof(struct ptah_profile_block),
						counts_compare_blocks, join_blocks};
static const struct list_kind kind_of_edges = {sizeof(struct ptah_profile_edge),
					       counts_compare_edges, join_edges};
static const struct list_kind kind_of_files = {sizeof(struct ptah_counts_file),
					       counts_compare_files, NULL};

struct list {
	const void *items;
	size_t count;
};

/* A new list of all entries of both; *n is its length. NULL when out of memory. */
static void *join_lists(const struct list_kind *kind, struct list a, struct list b, size_t *n)
{
	const uint8_t *x = a.items, *y = b.items;
	uint8_t *list = malloc((a.count + b.count + 1) * kind->size), *to = list;

	if (!list)
		return NULL;
	while (a.count || b.count) {
		int order = !a.count ? 1 : !b.count ? -1 : kind->compare(x, y);

		memcpy(to, order <= 0 ? x : y, kind->size);
		if (!order && kind->join) {
			kind->join(to, y);
			y += kind->size;
			b.count--;
		}
		to += kind->size;
		if (order <= 0) {
			x += kind->size;
			a.count--;
		} else {
			y += kind->size;
			b.count--;
		}
	}
	*n = (size_t)(to - list) / kind->size;
	return list;
}

/*
 * The number of each of the process's spaces in `spaces`, which has them all. The caller frees it.
 */
static uint32_t *number_spaces(const struct counts_process *p, const struct ptah_space *spaces,
			       size_t count)
{
	uint32_t *numbers = calloc(p->space_count + 1, sizeof(*numbers));

	for (size_t i = 0; numbers && i < p->space_count; i++) {
		const struct ptah_space *at =
		    bsearch(&p->spaces[i], spaces, count, sizeof(*spaces), counts_compare_spaces);

		numbers[i] = (uint32_t)(at - spaces);
	}
	return numbers;
}

static void renumber(struct counts_process *p, const uint32_t *numbers)
{
	for (size_t i = 0; i < p->block_count; i++)
		p->blocks[i].space = numbers[p->blocks[i].space];
	for (size_t i = 0; i < p->edge_count; i++)
		p->edges[i].space = numbers[p->edges[i].space];
}

int counts_drop_spaces(struct counts_process *p)
{
	uint32_t *numbers = calloc(p->space_count + 1, sizeof(*numbers)), n = 0;

	if (!numbers)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < p->block_count; i++)
		numbers[p->blocks[i].space] = 1;
	for (size_t i = 0; i < p->edge_count; i++)
		numbers[p->edges[i].space] = 1;
	for (size_t i = 0; i < p->space_count; i++)
		if (numbers[i]) {
			p->spaces[n] = p->spaces[i];
			numbers[i] = n++;
		}
	p->space_count = n;
	renumber(p, numbers);
	free(numbers);
	return 0;
}

int counts_sort(struct counts_process *p)
{
	struct ptah_space *spaces = calloc(p->space_count + 1, sizeof(*spaces));
	uint32_t *numbers;

	if (!spaces)
		return PTAH_E_NOMEM;
	memcpy(spaces, p->spaces, p->space_count * sizeof(*spaces));
	qsort(spaces, p->space_count, sizeof(*spaces), counts_compare_spaces);
	numbers = number_spaces(p, spaces, p->space_count);
	if (!numbers) {
		free(spaces);
		return PTAH_E_NOMEM;
	}
	renumber(p, numbers);
	free(numbers);
	free(p->spaces);
	p->spaces = spaces;
	for (size_t i = 0; i < p->block_count; i++)
		p->blocks[i].section = 0;
	qsort(p->blocks, p->block_count, sizeof(*p->blocks), counts_compare_blocks);
	qsort(p->edges, p->edge_count, sizeof(*p->edges), counts_compare_edges);
	return 0;
}

int counts_copy_renumbered(struct counts_process *copy, const struct counts_process *p,
			   const struct ptah_space *spaces, size_t count)
{
	uint32_t *numbers = number_spaces(p, spaces, count);

	memset(copy, 0, sizeof(*copy));
	copy->blocks = malloc((p->block_count + 1) * sizeof(*p->blocks));
	copy->edges = malloc((p->edge_count + 1) * sizeof(*p->edges));
	if (!numbers || !copy->blocks || !copy->edges) {
		free(numbers);
		return PTAH_E_NOMEM;
	}
	copy->block_count = p->block_count;
	copy->edge_count = p->edge_count;
	if (p->block_count)
		memcpy(copy->blocks, p->blocks, p->block_count * sizeof(*p->blocks));
	if (p->edge_count)
		memcpy(copy->edges, p->edges, p->edge_count * sizeof(*p->edges));
	renumber(copy, numbers);
	free(numbers);
	return 0;
}

#define LIST(process, what)                                                                        \
	(struct list)                                                                              \
	{                                                                                          \
		(process)->what##s, (process)->what##_count                                        \
	}

/*
 * Joins overlapping pieces of one mapping. The caller has made sure that pieces of different
 * mappings do not overlap.
 */
static void unite_files(struct counts_process *p)
{
	size_t last = 0;

	for (size_t i = 1; i < p->file_count; i++) {
		struct ptah_counts_file *a = &p->files[last], *b = &p->files[i];

		if (b->version != a->version || b->address > counts_last(a)) {
			p->files[++last] = *b;
			continue;
		}
		if (counts_last(b) > counts_last(a))
			a->size = counts_last(b) - a->address + 1;
	}
	p->file_count = p->file_count ? last + 1 : 0;
}

struct ptah_space *counts_common_spaces(const struct counts_process *a,
					const struct counts_process *b, size_t *count)
{
	return join_lists(&kind_of_spaces, LIST(a, space), LIST(b, space), count);
}

static struct counts_order first_of(struct counts_order a, struct counts_order b)
{
	int order = COMPARE(a.stream, b.stream);

	order = order ? order : counts_compare_spaces(&a.space, &b.space);
	return order <= 0 ? a : b;
}

int counts_join(struct counts_process *into, const struct counts_process *from)
{
	struct counts_process sum = {.pid = into->pid,
				     .space = into->space,
				     .order = first_of(into->order, from->order),
				     .permanent = into->permanent || from->permanent},
			      a = {0}, b = {0};
	int status = PTAH_E_NOMEM;

	sum.spaces = counts_common_spaces(into, from, &sum.space_count);
	if (!sum.spaces || counts_copy_renumbered(&a, into, sum.spaces, sum.space_count) < 0 ||
	    counts_copy_renumbered(&b, from, sum.spaces, sum.space_count) < 0)
		goto out;
	sum.blocks =
	    join_lists(&kind_of_blocks, LIST(&a, block), LIST(&b, block), &sum.block_count);
	sum.edges = join_lists(&kind_of_edges, LIST(&a, edge), LIST(&b, edge), &sum.edge_count);
	sum.files = join_lists(&kind_of_files, LIST(into, file), LIST(from, file), &sum.file_count);
	if (!sum.blocks || !sum.edges || !sum.files ||
	    counts_join_calls(into->calls, from->calls, &sum.calls) < 0)
		goto out;
	unite_files(&sum);
	memcpy(sum.comm, into->comm, sizeof(sum.comm));
	sum.events = into->events;
	counts_add_events(&sum.events, &from->events);
	counts_free_process(into);
	*into = sum;
	memset(&sum, 0, sizeof(sum));
	status = 0;
out:
	counts_free_process(&sum);
	counts_free_process(&a);
	counts_free_process(&b);
	return status;
}
