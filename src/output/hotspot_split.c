/* SPDX-License-Identifier: MIT */
/*
 * Divides blocks that run from one function into the next, as where the first falls through, or
 * where a function in assembly has a second name in its middle: each function has the instructions
 * that lie in it.
 */
#include "output/block_code.h"
#include "output/hotspots_internal.h"
#include "output/names_internal.h"
#include "support/list.h"

#include <stdlib.h>

struct split {
	struct names *names;
	struct block_code code;
	struct hotspot *rows;
	size_t count, capacity;
};

/* Where the function of a block ends; UINT64_MAX: not known. The kernel's may be labels. */
static uint64_t end_of_function(const struct split *s, const struct hotspot *block)
{
	const struct name *name = &block->name;
	struct ptah_function f;

	if (!name->code || block->ip >= NAMES_KERNEL_HALF ||
	    !ptah_symbols_bounds(names_symbols(s->names), name->code, name->code_at, block->ip, &f))
		return UINT64_MAX;
	return f.high;
}

/* Appends what of block i is behind `end`, where its instruction number k is. */
static int cut_hotspot_block(struct split *s, size_t i, uint64_t end, uint32_t k)
{
	struct hotspot *first, *rest;

	if (!LIST_ROOM(s->rows, s->count, s->capacity))
		return PTAH_E_NOMEM;
	first = &s->rows[i];
	rest = &s->rows[s->count++];
	*rest = *first;
	rest->name = *names_find_version(s->names, first->pid, end, first->version);
	rest->ip = end;
	rest->size = first->size - (uint32_t)(end - first->ip);
	rest->ninsn = first->ninsn - k;
	rest->instructions = first->executions * rest->ninsn;
	rest->calls = 0;
	rest->runs_on = true;
	first->size -= rest->size;
	first->ninsn = k;
	first->instructions -= rest->instructions;
	first->to = first->to_count = 0;
	return 0;
}

int hotspots_split(struct names *names, struct hotspot **rows, size_t *n)
{
	struct split *s = calloc(1, sizeof(*s));
	int status = 0;

	if (!s)
		return PTAH_E_NOMEM;
	s->names = names;
	s->rows = *rows;
	s->count = s->capacity = *n;
	/* What is behind a cut comes last, and is looked at as well. */
	for (size_t i = 0; i < s->count && status >= 0; i++) {
		const struct hotspot *block = &s->rows[i];
		const uint64_t end = end_of_function(s, block);

		if (end - block->ip >= block->size)
			continue;
		status = block_code_below(&s->code, names, block, end);
		if (status > 0)
			status = cut_hotspot_block(s, i, end, (uint32_t)status);
	}
	block_code_close(&s->code);
	*rows = s->rows;
	*n = s->count;
	free(s);
	return status < 0 ? status : 0;
}
