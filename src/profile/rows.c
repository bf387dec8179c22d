/* SPDX-License-Identifier: MIT */
/*
 * The rows: what a packet does at a state, found out once by the flow's own rules, and the tables
 * that they lie in.
 */
#include "profile/profile_internal.h"

#include "flow/large_table.h"

#include <stdlib.h>

/* The first size of the tables is for traces of a few packets; the second is enough for most. */
#define FIRST_STATES  32
#define SECOND_STATES 512
#define FIRST_SLOTS   256

/* Slots of a hash table per entry, so that nearly every lookup succeeds in the first slot. */
#define SPARSE 6

/*
 * Limits of the tables, in states; beyond them they are emptied. By default 34 MB of lines and 285
 * MB of rows beside them (a coverage: 570 MB of rows), and about 570 MB for the other tables
 * together. A program that needs more is slow to decode, but a
 * trace that was made to exhaust memory cannot do it. The lower limit is more than a full return
 * address stack needs.
 */
#define DEFAULT_STATES ((uint32_t)1 << 19)
#define LEAST_STATES   ((uint32_t)256)
#define MOST_STATES    ((uint32_t)(INT32_MAX / STRIDE / 2))
/* What a run adds before it stops does not change this: grow_states() has the same limit. */
_Static_assert(INT32_MAX / STRIDE < NEXT_RETURN >> RETURN_REST_BITS, "RETURN_BRANCH()");
#define EFFECTS 4
#define PAIRS	4

/*
 * From so many states on a state has a line: one of this many of the limit. By default 32768, with
 * 36 MB of rows.
 */
#define LARGE_PART 16

/* The most wide rows, as a part of the limit. */
#define WIDE_PART  2
#define FIRST_WIDE 32

bool profile_is_full(const struct ptah_profile *p)
{
	const size_t max = p->config.max_places;

	return p->state_count >= max || p->wide_count >= max / WIDE_PART ||
	       p->effect_count >= EFFECTS * max || p->pair_count >= PAIRS * max ||
	       p->transition_count >= PAIRS * max || (p->coverage && coverage_is_full(p));
}

/* A table has grown: stops the loop soon if it is full now. */
static void look_at_limits(struct ptah_profile *p)
{
	if (UNLIKELY(profile_is_full(p) || profile_is_large(p)))
		p->end = NULL;
}

bool profile_is_large(const struct ptah_profile *p)
{
	/* A coverage notes what it touches by its index in rows. */
	return !p->lines && !p->coverage && p->state_count >= p->config.max_places / LARGE_PART;
}

static size_t stride(const struct ptah_profile *p)
{
	return p->lines ? LINE : STRIDE;
}

static int out_of_memory(struct ptah_profile *p)
{
	p->status = PTAH_E_NOMEM;
	return 0;
}

static uint32_t within(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

int profile_rows_init(struct ptah_profile *p)
{
	p->config.max_places = within(p->config.max_places ? p->config.max_places : DEFAULT_STATES,
				      LEAST_STATES, MOST_STATES);
	p->flow->arena.huge &= !p->config.no_huge_pages;
	p->targets = flow_table_new(&p->flow->arena, FIRST_SLOTS * sizeof(*p->targets));
	p->pairs = flow_table_new(&p->flow->arena, FIRST_SLOTS * sizeof(*p->pairs));
	if (!p->targets || !p->pairs)
		return PTAH_E_NOMEM;
	p->target_slots = p->pair_slots = FIRST_SLOTS;
	p->state_count = 1; /* state 0 means none */
	p->budget = UINT32_MAX;
	return 0;
}

void profile_rows_fini(struct ptah_profile *p)
{
	const struct flow_arena *arena = &p->flow->arena;

	flow_table_free(arena, p->rows, p->state_capacity * stride(p) * sizeof(*p->rows));
	flow_table_free(arena, p->wide, p->wide_capacity * STRIDE * sizeof(*p->wide));
	free(p->states);
	flow_table_free(arena, p->targets, p->target_slots * sizeof(*p->targets));
	flow_table_free(arena, p->effects, p->effect_capacity * sizeof(*p->effects));
	free(p->more);
	flow_table_free(arena, p->pairs, p->pair_slots * sizeof(*p->pairs));
	free(p->touched);
	profile_groups_fini(p);
}

void profile_forget_rows(struct ptah_profile *p)
{
	memset(p->targets, 0, p->target_slots * sizeof(*p->targets));
	memset(p->pairs, 0, p->pair_slots * sizeof(*p->pairs));
	p->state_count = 1;
	if (p->came_from)
		p->arrival = (struct tally_edge){0}; /* a row was later */
	p->came_from = 0;
	p->effect_count = p->pair_count = p->more_count = p->wide_count = 0;
	profile_forget_groups(p);
	if (p->coverage)
		coverage_forget_memos(p);
}

/* States */

static bool grow_targets(struct ptah_profile *p)
{
	const size_t old_slots = p->target_slots;
	struct target *old = p->targets;
	struct target *targets =
	    flow_table_new(&p->flow->arena, flow_table_more(old_slots) * sizeof(*targets));

	if (!targets)
		return false;
	p->targets = targets;
	p->target_slots = flow_table_more(old_slots);
	for (size_t i = 0; i < old_slots; i++) {
		size_t at;

		if (!old[i].state)
			continue;
		at = profile_target_slot(p, old[i].ip, old[i].context);
		while (targets[at].state)
			at = (at + 1) & (p->target_slots - 1);
		targets[at] = old[i];
	}
	flow_table_free(&p->flow->arena, old, old_slots * sizeof(*old));
	return true;
}

static bool grow_states(struct ptah_profile *p)
{
	const size_t capacity = p->state_capacity >= SECOND_STATES ? 2 * p->state_capacity
				: p->state_capacity		   ? SECOND_STATES
								   : FIRST_STATES;
	const size_t row = stride(p) * sizeof(*p->rows);
	struct state *states;
	struct row_entry *rows;

	if (capacity > (size_t)INT32_MAX / STRIDE) /* the numbers of states are positive int32_t */
		return false;
	states = realloc(p->states, capacity * sizeof(*states));
	if (!states)
		return false;
	p->states = states;
	/* Last, because state_capacity must always be the size of this table. */
	rows = flow_table_grow(&p->flow->arena, p->rows, p->state_capacity * row,
			       p->state_count * row, capacity * row);
	if (!rows)
		return false;
	p->rows = rows;
	p->state_capacity = capacity;
	return true;
}

int32_t profile_state(struct ptah_profile *p, uint64_t ip)
{
	int32_t state;
	size_t at;

	for (at = profile_target_slot(p, ip, p->context); p->targets[at].state;
	     at = (at + 1) & (p->target_slots - 1))
		if (p->targets[at].ip == ip && p->targets[at].context == p->context)
			return p->targets[at].state;
	if (p->state_count >= p->state_capacity && !grow_states(p))
		return out_of_memory(p);
	if (SPARSE * p->state_count > p->target_slots) {
		if (!grow_targets(p))
			return out_of_memory(p);
		for (at = profile_target_slot(p, ip, p->context); p->targets[at].state;)
			at = (at + 1) & (p->target_slots - 1);
	}
	state = (int32_t)(p->state_count * stride(p));
	p->targets[at] = (struct target){ip, p->context, state};
	p->states[p->state_count] =
	    (struct state){.ip = ip, .space = (uint16_t)(p->context >> 2), .mode = p->context & 3};
	if (p->state_count < p->used_states)
		memset(p->rows + state, 0, stride(p) * sizeof(*p->rows));
	p->state_count++;
	if (p->used_states < p->state_count)
		p->used_states = p->state_count;
	look_at_limits(p);
	return state;
}

void profile_use_lines(struct ptah_profile *p)
{
	const struct flow_arena *arena = &p->flow->arena;
	const size_t n = p->state_capacity * sizeof(*p->rows);
	struct row_entry *lines = flow_table_new(&p->flow->arena, LINE * n);

	if (!lines) {
		out_of_memory(p);
		return;
	}
	flow_table_free(arena, p->rows, STRIDE * n);
	p->rows = lines;
	p->lines = true;
	p->used_states = 0;
}

/* Entries of lines */

struct row_entry *profile_in_rest_of_line(struct row_entry *line, struct row_entry *wide,
					  unsigned payload)
{
	const uint64_t ones = UINT64_C(0x0101010101010100); /* for each tag */
	const uint64_t differ = load_le64(line) ^ ones * (payload + 1);
	/* The lowest bit is at the tag that does not differ. */
	const uint64_t found = (differ - ones) & ~differ & ones << 7;

	if (found)
		return &line[__builtin_ctzll(found) / 8];
	if (((const uint8_t *)line)[LINE_LAST] == TAG_WIDE)
		return &wide[line[LINE_LAST].next + (int32_t)payload];
	return NULL;
}

static bool grow_wide(struct ptah_profile *p)
{
	const size_t capacity = p->wide_capacity ? 2 * p->wide_capacity : FIRST_WIDE;
	const size_t row = STRIDE * sizeof(*p->wide);
	struct row_entry *wide;

	if (capacity > (size_t)INT32_MAX / STRIDE)
		return false;
	wide = flow_table_grow(&p->flow->arena, p->wide, p->wide_capacity * row,
			       p->wide_count * row, capacity * row);
	if (!wide)
		return false;
	p->wide = wide;
	p->wide_capacity = capacity;
	return true;
}

/* Adds a row to a full line, which gives up its last entry for that. False when out of memory. */
static bool widen(struct ptah_profile *p, struct row_entry *line)
{
	uint8_t *tags = (uint8_t *)line;
	struct row_entry *row;

	if (p->wide_count == p->wide_capacity && !grow_wide(p))
		return false;
	row = p->wide + p->wide_count * STRIDE;
	if (p->wide_count < p->used_wide)
		memset(row, 0, STRIDE * sizeof(*row));
	row[tags[LINE_LAST] - 1] = line[LINE_LAST];
	line[LINE_LAST] = (struct row_entry){.next = (int32_t)(p->wide_count * STRIDE)};
	tags[LINE_LAST] = TAG_WIDE;
	p->wide_count++;
	if (p->used_wide < p->wide_count)
		p->used_wide = p->wide_count;
	look_at_limits(p);
	return true;
}

struct row_entry *profile_entry(struct ptah_profile *p, int32_t state, unsigned payload)
{
	struct row_entry *entry = profile_find_entry(p, state, payload), *line = &p->rows[state];
	unsigned at = profile_position(payload);
	uint8_t *tags = (uint8_t *)line;

	if (entry)
		return entry;
	for (unsigned i = 1; i < LINE && tags[at]; i++)
		at = at == LINE_LAST ? 1 : at + 1;
	if (!tags[at]) {
		tags[at] = (uint8_t)(payload + 1);
		return &line[at];
	}
	if (widen(p, line))
		return profile_find_entry(p, state, payload);
	out_of_memory(p);
	return NULL;
}

/* Pairs */

static bool grow_pairs(struct ptah_profile *p)
{
	const size_t old_slots = p->pair_slots;
	struct pair *old = p->pairs;
	struct pair *pairs =
	    flow_table_new(&p->flow->arena, flow_table_more(old_slots) * sizeof(*pairs));

	if (!pairs)
		return false;
	p->pairs = pairs;
	p->pair_slots = flow_table_more(old_slots);
	for (size_t i = 0; i < old_slots; i++) {
		size_t at;

		if (!old[i].key)
			continue;
		at = profile_pair_slot(p, old[i].key);
		while (pairs[at].key)
			at = (at + 1) & (p->pair_slots - 1);
		pairs[at] = old[i];
	}
	flow_table_free(&p->flow->arena, old, old_slots * sizeof(*old));
	return true;
}

struct pair *profile_pair(struct ptah_profile *p, uint64_t key)
{
	size_t at;

	for (at = profile_pair_slot(p, key); p->pairs[at].key; at = (at + 1) & (p->pair_slots - 1))
		if (p->pairs[at].key == key)
			return &p->pairs[at];
	if (SPARSE * (p->pair_count + 1) > p->pair_slots) {
		if (!grow_pairs(p)) {
			out_of_memory(p);
			return NULL;
		}
		for (at = profile_pair_slot(p, key); p->pairs[at].key;)
			at = (at + 1) & (p->pair_slots - 1);
	}
	p->pairs[at] = (struct pair){key, 0};
	p->pair_count++;
	look_at_limits(p);
	return &p->pairs[at];
}

bool profile_touch(struct ptah_profile *p, uint64_t key)
{
	if (p->touched_count == p->touched_capacity) {
		const size_t capacity = p->touched_capacity ? 2 * p->touched_capacity : 4096;
		uint64_t *touched = realloc(p->touched, capacity * sizeof(*touched));

		if (!touched)
			return out_of_memory(p);
		p->touched = touched;
		p->touched_capacity = capacity;
	}
	p->touched[p->touched_count++] = key;
	if (UNLIKELY(p->touched_count >= MOST_TOUCHED)) /* they have to be settled first */
		p->end = NULL;
	return true;
}

/* The start of a packet's route from a state. */
static struct route begin_route(struct ptah_profile *p, int32_t state)
{
	return (struct route){.flow = p->flow,
			      .ip = profile_at(p, state)->ip,
			      .node = profile_at(p, state)->node,
			      .mode = profile_at(p, state)->mode,
			      .no_stack = !p->stack_matters};
}

/* Remembers the state's node for the next time. */
static void keep_node(struct ptah_profile *p, int32_t state)
{
	struct route r = begin_route(p, state);

	profile_at(p, state)->node = route_here(&r);
}

/* Effects */

static bool grow_effects(struct ptah_profile *p)
{
	const size_t capacity = p->effect_capacity ? 2 * p->effect_capacity : 256;
	struct effect *effects;

	if (capacity > INT32_MAX / ROUTE_PUSHES)
		return false;
	effects =
	    flow_table_grow(&p->flow->arena, p->effects, p->effect_capacity * sizeof(*effects),
			    p->effect_count * sizeof(*effects), capacity * sizeof(*effects));
	if (!effects)
		return false;
	p->effects = effects;
	p->effect_capacity = capacity;
	return true;
}

static struct effect *new_effect(struct ptah_profile *p)
{
	if (p->effect_count == p->effect_capacity && !grow_effects(p)) {
		out_of_memory(p);
		return NULL;
	}
	memset(&p->effects[p->effect_count], 0, sizeof(*p->effects));
	p->effect_count++;
	look_at_limits(p);
	return &p->effects[p->effect_count - 1];
}

/* Stores the return sites that do not fit into the effect. */
static bool add_more(struct ptah_profile *p, struct effect *e, const int32_t *push, unsigned n)
{
	int32_t *more = realloc(p->more, (p->more_count + ROUTE_PUSHES) * sizeof(*more));

	if (!more)
		return out_of_memory(p);
	p->more = more;
	e->push[EFFECT_PUSHES - 1] = (int32_t)p->more_count;
	memcpy(more + p->more_count, push, n * sizeof(*push));
	p->more_count += ROUTE_PUSHES;
	return true;
}

/*
 * Makes the effect of a route without its `next`, which the caller sets. Returns ~number, or 0 for
 * none.
 */
static int32_t make_effect(struct ptah_profile *p, const struct route *r, struct effect **effect)
{
	const unsigned here = r->pushes > EFFECT_PUSHES ? EFFECT_PUSHES - 1 : r->pushes;
	int32_t push[ROUTE_PUSHES];
	struct effect *e;

	for (unsigned i = 0; i < r->pushes; i++) {
		push[i] = profile_state(p, r->calls[i]->end);
		if (!push[i])
			return 0;
	}
	e = new_effect(p);
	if (!e || (here < r->pushes && !add_more(p, e, push + here, r->pushes - here)))
		return 0;
	e->pushes = (uint8_t)r->pushes;
	e->reach = (uint8_t)r->reach;
	memcpy(e->push, push, here * sizeof(*push));
	*effect = e;
	return ~(int32_t)(e - p->effects);
}

/* A return to a call from before the packet: the `next` of its entry, or 0. */
static int32_t make_return(struct ptah_profile *p, const struct route *r, unsigned payload)
{
	const unsigned rest = 1u << (r->left - 1) | (payload & ((1u << (r->left - 1)) - 1));
	const int32_t branch = profile_state(p, r->node->ip);
	const int32_t code = profile_index(p, branch) << RETURN_REST_BITS | (int32_t)rest;
	struct effect *e;
	int32_t next;

	if (!branch)
		return 0;
	profile_at(p, branch)->node = r->node;
	if (!r->reach)
		return ~(code | NEXT_RETURN);
	next = make_effect(p, r, &e);
	if (next)
		e->next = ~(code | NEXT_RETURN);
	return next;
}

static bool set_next(struct ptah_profile *p, int32_t state, unsigned payload, int32_t next)
{
	struct row_entry *entry = profile_entry(p, state, payload);

	if (entry)
		entry->next = next;
	return entry;
}

bool profile_make_entry(struct ptah_profile *p, int32_t state, unsigned payload)
{
	struct route r = begin_route(p, state);
	enum route_stop stop = route_spend(&r, payload);
	int32_t next = 0;
	struct effect *e;

	if (stop == ROUTE_SPENT) {
		int32_t after = profile_state(p, r.ip);

		if (!after)
			return false;
		next = after;
		if (r.reach) {
			next = make_effect(p, &r, &e);
			if (next)
				e->next = after;
		}
	} else if (stop == ROUTE_RETURN) {
		next = make_return(p, &r, payload);
	} else if (stop == ROUTE_LOST && r.node && r.node->insn_class == PTAH_INSN_RETURN) {
		p->compressed = true;
	}
	if (!next)
		return false;
	keep_node(p, state);
	profile_at(p, state)->lines |= (uint16_t)(1u << payload / LINE_ENTRIES);
	return set_next(p, state, payload, next);
}

bool profile_make_tip(struct ptah_profile *p, int32_t state)
{
	struct route r = begin_route(p, state);
	int32_t next = NEXT_PLAIN;
	struct effect *e;
	bool pops;

	if (!route_take_tip(&r, &pops))
		return false;
	/* The flow notes far transfers, for the case that they lead into missing code. */
	if (p->flow->resync && !flow_is_near_indirect(r.node))
		return false;
	if (r.reach || pops) {
		next = make_effect(p, &r, &e);
		if (!next)
			return false;
		e->pops = pops;
	}
	keep_node(p, state);
	return set_next(p, state, 0, next);
}

/* Passes the nodes of a route on to a profile_visit function. */
struct visitor {
	struct ptah_profile *profile;
	profile_visit *visit;
	uint64_t times;
};

static void pass_on(void *context, const struct code_node *node, bool taken, const uint64_t *to)
{
	const struct visitor *v = context;

	v->visit(v->profile, node, taken, to, v->times);
}

const struct code_node *profile_walk(struct ptah_profile *p, int32_t state, unsigned payload,
				     profile_visit *to, uint64_t times)
{
	struct visitor visitor = {p, to, times};
	struct route r = begin_route(p, state);

	p->context = (uint32_t)profile_at(p, state)->space << 2 | profile_at(p, state)->mode;
	p->flow->code.space = profile_at(p, state)->space;
	r.visit = pass_on;
	r.context = &visitor;
	if (payload)
		route_spend(&r, payload);
	else if (route_pass_chain(&r))
		pass_on(&visitor, r.node, false, NULL);
	return r.node;
}
