/* SPDX-License-Identifier: MIT */
/* Turns the counts of packets at states into counts of blocks and edges. */
#include "profile/profile_internal.h"

/* So many states ahead memory is loaded. */
#define AHEAD 8

uint64_t profile_version(struct ptah_profile *p, uint64_t ip, unsigned mode, unsigned space)
{
	struct code_cache *code = &p->flow->code;
	const uint16_t before = code->space;
	int status;

	if (!image_has_times(code->image))
		return 0;
	/* A branch may be counted before the code that it leads to was looked up. */
	code->space = (uint16_t)space;
	code_find(code, ip, mode, &status);
	code->space = before;
	return code_version(code, ip, mode, space);
}

static uint64_t version_at(struct ptah_profile *p, uint64_t ip, const struct code_node *node)
{
	return profile_version(p, ip, code_mode(node), node->space);
}

struct tally_edge profile_edge_of(struct ptah_profile *p, const struct code_node *branch,
				  uint64_t to)
{
	return (struct tally_edge){.from = branch->end - code_last_size(branch),
				   .to = to,
				   .version = version_at(p, branch->ip, branch),
				   .target_version = version_at(p, to, branch),
				   .space = branch->space,
				   .mode = (uint8_t)code_mode(branch),
				   .insn_class = branch->insn_class};
}

void profile_add_edge(struct ptah_profile *p, const struct code_node *branch, uint64_t to,
		      uint64_t times)
{
	const struct tally_edge key = profile_edge_of(p, branch, to);
	struct tally_edge *e = tally_edge(&p->edges, &key);

	if (e)
		e->count += times;
	else
		p->status = PTAH_E_NOMEM;
}

/*
 * The tally's entry for a node, NULL when out of memory. Its number is kept beside the node
 * (code_place()), because nearly every node is on the way of several packets. That field is free
 * here: the flow of a profile has no paths.
 */
static struct tally_block *block_of(struct ptah_profile *p, const struct code_node *node)
{
	uint32_t *place = code_place(node);
	struct tally_block *b;

	if (!*place) {
		const struct tally_block key = {
		    .ip = node->ip,
		    .end = node->end,
		    .head = node->head,
		    .target = node->target,
		    .version = version_at(p, node->ip, node),
		    .target_version = node->target ? version_at(p, node->target, node) : 0,
		    .space = node->space,
		    .section = node->section};

		b = tally_block(&p->blocks, &key);
		if (!b)
			return NULL;
		*place = (uint32_t)(b - (struct tally_block *)p->blocks.items) + 1;
	}
	return (struct tally_block *)p->blocks.items + *place - 1;
}

void profile_add_block(struct ptah_profile *p, const struct code_node *node, bool taken,
		       uint64_t times)
{
	struct tally_block *b = block_of(p, node);

	if (!b) {
		p->status = PTAH_E_NOMEM;
		return;
	}
	b->count += times;
	b->taken += taken ? times : 0;
}

static void add_node(struct ptah_profile *p, const struct code_node *node, bool taken,
		     const uint64_t *to, uint64_t times)
{
	profile_add_block(p, node, taken, times);
	if (to)
		profile_add_edge(p, node, *to, times);
}

static void expand_entry(struct ptah_profile *p, int32_t state, unsigned payload,
			 struct row_entry *entry)
{
	if (!entry->count)
		return;
	profile_walk(p, state, payload, add_node, entry->count);
	entry->count = 0;
}

/* Expands the payloads from `first` on, and before `end`. */
static void expand_entries(struct ptah_profile *p, int32_t state, struct row_entry *row,
			   unsigned first, unsigned end)
{
	for (unsigned payload = first; payload < end; payload++)
		expand_entry(p, state, payload, &row[payload]);
}

/* Most rows are nearly empty: a twelfth of the lines of cc1plus had an entry. */
static void expand_row(struct ptah_profile *p, int32_t state)
{
	const unsigned lines = profile_at(p, state)->lines;

	for (unsigned line = 0; lines >> line; line++)
		if (lines >> line & 1)
			expand_entries(p, state, &p->rows[state], line ? line * LINE_ENTRIES : 2,
				       (line + 1) * LINE_ENTRIES);
}

/* Expands a state that has a line. */
static void expand_line(struct ptah_profile *p, int32_t state)
{
	struct row_entry *line = &p->rows[state];
	const uint8_t *tags = (const uint8_t *)line;

	for (unsigned at = 1; at < LINE; at++) {
		if (tags[at] == TAG_WIDE)
			expand_entries(p, state, &p->wide[line[at].next], 2, ROW);
		else if (tags[at] > ROW_RETURN + 1)
			expand_entry(p, state, tags[at] - 1u, &line[at]);
	}
}

/* Counts a return `times` times. */
void profile_add_return(struct ptah_profile *p, int32_t branch, int32_t site, uint64_t times)
{
	const struct code_node *node = p->states[branch].node;

	profile_add_block(p, node, false, times);
	profile_add_edge(p, node, profile_at(p, site)->ip, times);
}

/* What expanding a state will read from memory, all of it at random places. */
static void load_ahead(const struct ptah_profile *p, size_t s)
{
	const struct state *state = &p->states[s];
	const struct row_entry *row = &p->rows[s * (p->lines ? LINE : STRIDE)];
	/* The first line of a row has ROW_RETURN. */
	const unsigned lines = p->lines ? 1u : state->lines | 1u;

	for (unsigned line = 0; lines >> line; line++)
		if (lines >> line & 1)
			__builtin_prefetch(row + line * LINE_ENTRIES, 1);
	if (state->node) {
		__builtin_prefetch(state->node);
		__builtin_prefetch(code_place(state->node), 1);
	}
}

static void expand_returns(struct ptah_profile *p, int32_t site)
{
	struct row_entry *entry = profile_find_entry(p, site, ROW_RETURN);

	if (!entry || !entry->count)
		return;
	profile_add_return(p, entry->next, site, entry->count);
	entry->count = 0;
}

static void expand_pair(struct ptah_profile *p, const struct pair *pair)
{
	const uint64_t to = profile_at(p, (int32_t)pair->key)->ip;
	const uint32_t from = (uint32_t)((pair->key & ~FROM_RETURN) >> 32);
	const struct code_node *branch;

	if (pair->key & FROM_RETURN) {
		profile_add_return(p, (int32_t)from, (int32_t)pair->key, pair->count);
		return;
	}
	branch = profile_walk(p, (int32_t)from, 0, add_node, pair->count);
	profile_add_edge(p, branch, to, pair->count);
}

static void expand_transition(struct ptah_profile *p, struct transition *t)
{
	const struct ptah_item *blocks = profile_blocks_of(p, t);

	for (unsigned i = 0; t->count && i < t->block_count; i++)
		profile_count_block(p, &blocks[i], t->count);
	t->count = 0;
}

int profile_expand(struct ptah_profile *p)
{
	const uint32_t context = p->context;
	const uint16_t space = p->flow->code.space;

	if (p->coverage)
		return coverage_expand(p);
	if (!p->counted) /* looking through large tables takes long */
		return p->status;
	/* Most nodes have counts: a table that grows with them would be made again and again. */
	if (!p->blocks.count)
		tally_reserve_blocks(&p->blocks, p->flow->code.node_count);
	for (size_t s = 1; s < p->state_count; s++) {
		const int32_t state = (int32_t)(s * (p->lines ? LINE : STRIDE));

		if (p->state_count - s > AHEAD)
			load_ahead(p, s + AHEAD);
		expand_returns(p, state);
		if (!p->states[s].node) /* then the state has no counts */
			continue;
		if (p->lines)
			expand_line(p, state);
		else
			expand_row(p, state);
	}
	for (size_t i = 0; i < p->pair_slots; i++) {
		if (!p->pairs[i].count)
			continue;
		expand_pair(p, &p->pairs[i]);
		p->pairs[i].count = 0;
	}
	for (size_t i = 1; i < p->transition_count; i++)
		expand_transition(p, &p->transitions[i]);
	p->context = context;
	p->flow->code.space = space;
	p->budget = UINT32_MAX;
	p->counted = false;
	return p->status;
}
