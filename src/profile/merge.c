/* SPDX-License-Identifier: MIT */
/* One profile's counts into another's. */
#include "profile/profile.h"

#include <stdlib.h>

/* The number that `into` gives to an address space; where it stands stays as it is. */
static int number_space(struct ptah_profile *into, const struct ptah_space *space, uint32_t *number)
{
	struct code_cache *code = &into->flow->code;
	const uint16_t now = code->space;
	int status = code_set_space(code, space);

	*number = code->space;
	code->space = now;
	return status;
}

/* For each space of `from` its number in `into`. Free it. */
static int number_spaces(struct ptah_profile *into, const struct ptah_profile *from,
			 uint32_t **numbers)
{
	const struct code_cache *code = &from->flow->code;
	int status = 0;

	*numbers = calloc(code->space_count, sizeof(**numbers));
	if (!*numbers)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < code->space_count && status >= 0; i++)
		status = number_space(into, &code->spaces[i], &(*numbers)[i]);
	return status;
}

static void add_blocks(struct ptah_profile *into, const struct ptah_profile *from,
		       const uint32_t *numbers)
{
	for (size_t i = 0; i < from->blocks.count; i++) {
		const struct tally_block *add = (const struct tally_block *)from->blocks.items + i;
		struct tally_block key = *add, *b;

		key.space = numbers[add->space];
		b = tally_block(&into->blocks, &key);
		b->count += add->count;
		b->taken += add->taken;
		b->unknown += add->unknown;
	}
}

static void add_edges(struct ptah_profile *into, const struct ptah_profile *from,
		      const uint32_t *numbers)
{
	for (size_t i = 0; i < from->edges.count; i++) {
		const struct tally_edge *add = (const struct tally_edge *)from->edges.items + i;
		struct tally_edge key = *add;

		key.space = numbers[add->space];
		tally_edge(&into->edges, &key)->count += add->count;
	}
}

static void add_totals(struct ptah_profile_totals *into, const struct ptah_profile_totals *from)
{
	if (!into->errors)
		into->first_error = from->first_error;
	into->errors += from->errors;
	into->overflows += from->overflows;
	into->gaps += from->gaps;
}

int ptah_profile_merge(struct ptah_profile *into, struct ptah_profile *from)
{
	uint32_t *numbers = NULL;
	int status;

	if (!into || !from || into == from)
		return PTAH_E_INVAL;
	status = into->status < 0 ? into->status : profile_expand(from);
	if (status >= 0)
		status = number_spaces(into, from, &numbers);
	/* With the room there nothing below can fail: all is added, or nothing. */
	if (status >= 0 && (!tally_reserve_blocks(&into->blocks, from->blocks.count) ||
			    !tally_reserve_edges(&into->edges, from->edges.count)))
		status = PTAH_E_NOMEM;
	if (status >= 0) {
		add_blocks(into, from, numbers);
		add_edges(into, from, numbers);
		add_totals(&into->totals, &from->totals);
	}
	free(numbers);
	return status;
}
