/* SPDX-License-Identifier: MIT */
/* Adds one profile's counts to another's. */
#include "profile/profile_internal.h"

#include <assert.h>
#include <stdlib.h>

/* The number of an address space in `into`, whose current space does not change. */
static int number_space(struct ptah_profile *into, const struct ptah_space *space, uint32_t *number)
{
	struct code_cache *code = &into->flow->code;
	const uint16_t now = code->space;
	int status = code_set_space(code, space);

	*number = code->space;
	code->space = now;
	return status;
}

/* An array with the number in `into` for each of n spaces. The caller frees it. */
static int number_spaces(struct ptah_profile *into, const struct ptah_space *spaces, size_t n,
			 uint32_t **numbers)
{
	int status = 0;

	*numbers = calloc(n + 1, sizeof(**numbers));
	if (!*numbers)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n && status >= 0; i++)
		status = number_space(into, &spaces[i], &(*numbers)[i]);
	return status;
}

/* False when out of memory, which cannot happen after tally_reserve_blocks(). */
static bool add_blocks(struct tally *into, const struct tally *from, const uint32_t *numbers)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct tally_block *add = (const struct tally_block *)from->items + i;
		struct tally_block key = *add, *b;

		key.space = numbers[add->space];
		b = tally_block(into, &key);
		if (!b)
			return false;
		b->count += add->count;
		b->taken += add->taken;
		b->unknown += add->unknown;
	}
	return true;
}

static bool add_edges(struct tally *into, const struct tally *from, const uint32_t *numbers)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct tally_edge *add = (const struct tally_edge *)from->items + i;
		struct tally_edge key = *add, *e;

		key.space = numbers[add->space];
		e = tally_edge(into, &key);
		if (!e)
			return false;
		e->count += add->count;
	}
	return true;
}

static void add_totals(struct ptah_profile_totals *into, const struct ptah_profile_totals *from,
		       const uint32_t *numbers)
{
	if (!into->errors && from->errors) {
		into->first_error = from->first_error;
		into->first_error.code.space = numbers[from->first_error.code.space];
	}
	into->errors += from->errors;
	into->overflows += from->overflows;
	into->gaps += from->gaps;
}

int profile_add_part(struct ptah_profile *into, const struct profile_part *part)
{
	uint32_t *numbers = NULL;
	int status = into->status;

	if (status >= 0)
		status = number_spaces(into, part->spaces, part->space_count, &numbers);
	/* After this nothing can fail, so that either everything is added or nothing. */
	if (status >= 0 && (!tally_reserve_blocks(&into->blocks, part->blocks.count) ||
			    !tally_reserve_edges(&into->edges, part->edges.count)))
		status = PTAH_E_NOMEM;
	if (status >= 0) {
		add_blocks(&into->blocks, &part->blocks, numbers);
		add_edges(&into->edges, &part->edges, numbers);
		add_totals(&into->totals, &part->totals, numbers);
	}
	free(numbers);
	if (status >= 0 && into->beside && profile_add_part(into->beside, part) < 0)
		beside_end(into);
	return status;
}

/* Exchanges the contents. */
static void swap_tallies(struct tally *a, struct tally *b)
{
	const struct tally t = *a;

	*a = *b;
	*b = t;
}

int profile_give_part(struct ptah_profile *into, struct profile_part *part)
{
	uint32_t *numbers = NULL;
	int status = into->status;
	bool same = true;

	assert(!into->blocks.count && !into->edges.count);
	if (status >= 0)
		status = number_spaces(into, part->spaces, part->space_count, &numbers);
	for (size_t i = 0; status >= 0 && i < part->space_count; i++)
		same = same && numbers[i] == i;
	if (status >= 0 && (!same || into->beside)) {
		status = profile_add_part(into, part);
	} else if (status >= 0) {
		add_totals(&into->totals, &part->totals, numbers);
		swap_tallies(&into->blocks, &part->blocks);
		swap_tallies(&into->edges, &part->edges);
	}
	free(numbers);
	profile_free_part(part);
	return status;
}

int profile_join_parts(struct profile_part *into, struct profile_part *from)
{
	static const uint32_t numbers[1]; /* the only space is 0 in both */

	assert(into->space_count == 1 && from->space_count == 1);
	if (into->blocks.count < from->blocks.count)
		swap_tallies(&into->blocks, &from->blocks);
	if (into->edges.count < from->edges.count)
		swap_tallies(&into->edges, &from->edges);
	/* Without room for all, because nearly all blocks are in both. */
	if (!add_blocks(&into->blocks, &from->blocks, numbers) ||
	    !add_edges(&into->edges, &from->edges, numbers))
		return PTAH_E_NOMEM;
	add_totals(&into->totals, &from->totals, numbers);
	profile_free_part(from);
	return 0;
}

int profile_merge(struct ptah_profile *into, struct ptah_profile *from)
{
	struct profile_part part;
	int status;

	if (!into || !from || into == from)
		return PTAH_E_INVAL;
	status = into->status < 0 ? into->status : profile_count_up(from);
	if (status < 0)
		return status;
	part = (struct profile_part){.blocks = from->blocks,
				     .edges = from->edges,
				     .totals = from->totals,
				     .spaces = from->flow->code.spaces,
				     .space_count = from->flow->code.space_count};
	return profile_add_part(into, &part);
}

int profile_take_part(struct ptah_profile *p, struct profile_part *part)
{
	const struct code_cache *code = &p->flow->code;
	int status = p->status < 0 ? p->status : profile_count_up(p);

	memset(part, 0, sizeof(*part));
	if (status < 0)
		return status;
	part->spaces = malloc(code->space_count * sizeof(*part->spaces));
	if (!part->spaces)
		return PTAH_E_NOMEM;
	memcpy(part->spaces, code->spaces, code->space_count * sizeof(*part->spaces));
	part->space_count = code->space_count;
	part->blocks = p->blocks;
	part->edges = p->edges;
	part->totals = p->totals;
	code_forget_places(&p->flow->code);
	memset(&p->blocks, 0, sizeof(p->blocks));
	memset(&p->edges, 0, sizeof(p->edges));
	memset(&p->totals, 0, sizeof(p->totals));
	if (p->beside)
		ptah_profile_reset(p->beside);
	return 0;
}

void profile_take_totals(struct ptah_profile *p, struct ptah_profile_totals *totals)
{
	*totals = p->totals;
	memset(&p->totals, 0, sizeof(p->totals));
	if (p->beside)
		memset(&p->beside->totals, 0, sizeof(p->beside->totals));
}

void profile_free_part(struct profile_part *part)
{
	tally_free(&part->blocks);
	tally_free(&part->edges);
	free(part->spaces);
	memset(part, 0, sizeof(*part));
}
