/* SPDX-License-Identifier: MIT */
/*
 * Transitions: packets that belong together, and are no steps from row to row, are carried out by
 * the flow once at each state. What it reported is kept; when they come there again, they are
 * counted. PSB+ and the packets between TIP.PGD and TIP.PGE, which prove nothing to have run, are
 * passed (flow/pass_groups.h).
 */
#include "profile/profile_internal.h"

#include "flow/emit_items.h"
#include "flow/move.h"
#include "flow/pass_groups.h"

#include <stdlib.h>

#define FIRST_TRANSITIONS 64
#define FIRST_BLOCKS	  256

/* The table */

static uint32_t *slot_for(const struct ptah_profile *p, int32_t from, const struct packet_group *g)
{
	size_t at = profile_transition_slot(p, from, g->ip, g->to, g->kind);

	while (p->transition_slots[at] &&
	       !profile_is_transition(&p->transitions[p->transition_slots[at]], from, g))
		at = (at + 1) & (p->transition_slot_count - 1);
	return &p->transition_slots[at];
}

static bool grow_transitions(struct ptah_profile *p)
{
	const size_t capacity =
	    p->transition_capacity ? 2 * p->transition_capacity : FIRST_TRANSITIONS;
	const size_t slots = 4 * capacity;
	struct transition *transitions;
	uint32_t *slot;

	if (capacity > INT32_MAX)
		return false;
	transitions = realloc(p->transitions, capacity * sizeof(*transitions));
	if (!transitions)
		return false;
	p->transitions = transitions;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return false;
	free(p->transition_slots);
	p->transition_slots = slot;
	p->transition_slot_count = slots;
	p->transition_capacity = capacity;
	if (!p->transition_count) {
		memset(&transitions[0], 0, sizeof(transitions[0]));
		p->transition_count = 1;
	}
	for (size_t i = 1; i < p->transition_count; i++) {
		const struct transition *t = &transitions[i];
		size_t at =
		    profile_transition_slot(p, t->from, t->ip, t->to, t->kind & ~TRANSITION_TO);

		while (slot[at])
			at = (at + 1) & (slots - 1);
		slot[at] = (uint32_t)i;
	}
	return true;
}

static bool keep_blocks(struct ptah_profile *p, const struct ptah_item *blocks, size_t n)
{
	if (p->blocks_run_capacity - p->blocks_run_count < n) {
		const size_t capacity =
		    p->blocks_run_capacity ? 2 * p->blocks_run_capacity : FIRST_BLOCKS;
		struct ptah_item *grown = realloc(p->blocks_run, capacity * sizeof(*grown));

		if (!grown)
			return false;
		p->blocks_run = grown;
		p->blocks_run_capacity = capacity;
	}
	if (n)
		memcpy(p->blocks_run + p->blocks_run_count, blocks, n * sizeof(*blocks));
	p->blocks_run_count += n;
	return true;
}

/* Adds a transition that is not in the table. */
static void add_transition(struct ptah_profile *p, int32_t from, const struct packet_group *g,
			   int32_t next, const struct ptah_item *blocks, size_t n)
{
	if (p->transition_count + 1 > p->transition_capacity && !grow_transitions(p)) {
		p->status = PTAH_E_NOMEM;
		return;
	}
	if (!keep_blocks(p, blocks, n)) {
		p->status = PTAH_E_NOMEM;
		return;
	}
	p->transitions[p->transition_count] =
	    (struct transition){.ip = g->ip,
				.to = g->to,
				.from = from,
				.kind = (uint8_t)(g->kind | (g->has_to ? TRANSITION_TO : 0)),
				.block_count = (uint8_t)n,
				.next = next,
				.first = (uint32_t)(p->blocks_run_count - n)};
	*slot_for(p, from, g) = (uint32_t)p->transition_count++;
}

void profile_forget_groups(struct ptah_profile *p)
{
	if (p->transition_slots)
		memset(p->transition_slots, 0,
		       p->transition_slot_count * sizeof(*p->transition_slots));
	p->transition_count = p->transition_capacity ? 1 : 0;
	p->blocks_run_count = 0;
}

void profile_groups_fini(struct ptah_profile *p)
{
	free(p->transitions);
	free(p->transition_slots);
	free(p->blocks_run);
}

/*
 * The transition of a group, or NULL. A row's entry for a TIP has no count of its own: there the
 * number of the last group's transition is kept.
 */
static ALWAYS_INLINE struct transition *find_transition(struct ptah_profile *p, int32_t from,
							const struct packet_group *g)
{
	struct row_entry *entry;
	struct transition *t;

	if (UNLIKELY(p->transition_count < 2))
		return NULL;
	entry = profile_entry(p, from, 0);
	if (UNLIKELY(!entry))
		return NULL;
	t = &p->transitions[entry->count];
	if (LIKELY(profile_is_transition(t, from, g)))
		return t;
	entry->count = *slot_for(p, from, g);
	return entry->count ? &p->transitions[entry->count] : NULL;
}

static ALWAYS_INLINE bool count_transition(struct ptah_profile *p, struct transition *t)
{
	if (LIKELY((uint32_t)t->count++) || !p->coverage)
		return true;
	return profile_touch(p, FROM_GROUP | (uint64_t)(t - p->transitions));
}

/* Taking groups */

/* The flow has passed a TIP.PGE: its state; 0 when out of memory. */
static int32_t enter_after_enable(struct ptah_profile *p, struct transition *t, const uint8_t *pos)
{
	const uint64_t ip = p->flow->ip;

	p->context = (uint32_t)p->flow->code.space << 2 | p->flow->mode;
	p->depth = 0;
	profile_empty_stack(p, ip, pos, ip);
	if (t && t->enter_state && t->enter_ip == ip && t->enter_context == p->context)
		return t->enter_state;
	p->state = profile_state(p, ip);
	if (t) {
		t->enter_ip = ip;
		t->enter_context = p->context;
		t->enter_state = p->state;
	}
	return p->state;
}

static ALWAYS_INLINE bool take_transition(struct ptah_profile *p, int32_t *state,
					  const uint8_t **pos, const uint8_t *end,
					  uint64_t *last_ip)
{
	struct packet_group g;
	struct transition *t;

	if (!packet_group_read(*pos, end, *last_ip, &g))
		return false;
	t = find_transition(p, *state, &g);
	if (UNLIKELY(!t)) {
		p->unknown = g;
		p->unknown_from = *state;
		return false;
	}
	if (UNLIKELY(!count_transition(p, t)))
		return false;
	*pos = g.end;
	*last_ip = g.last_ip;
	if (t->next != TRANSITION_OFF) {
		flow_note_far(p->flow, g.ip, g.to);
		*state = t->next;
		return true;
	}
	if (LIKELY(flow_pass_off(p->flow, pos, end, last_ip))) {
		*state = enter_after_enable(p, t, *pos);
		return true;
	}
	flow_turn_off(p->flow);
	*state = 0;
	return true;
}

/*
 * A PSB+ empties the return address stack. Its address is that of the place, or of an instruction
 * that execution gets to from there without a packet. In the second case the flow remembers it, in
 * case that the next packet does not prove so much to have run; otherwise it makes no difference.
 */
static bool take_psb(struct ptah_profile *p, int32_t *state, const uint8_t **pos,
		     const uint8_t *end, uint64_t *last_ip)
{
	struct transition *t = NULL;
	struct packet_group g;
	struct packet_psb psb;

	if (!packet_psb_read(*pos, end, &psb) || !psb.has_ip || !flow_psb_fits(p->flow, &psb))
		return false;
	if (psb.ip != profile_at(p, *state)->ip) {
		if (!packet_is_branch(psb.end, end))
			return false;
		g = (struct packet_group){
		    .kind = PACKET_GROUP_PSB, .ip = psb.ip, .last_ip = psb.ip, .end = psb.end};
		t = find_transition(p, *state, &g);
		if (!t) {
			p->unknown = g;
			p->unknown_from = *state;
			return false;
		}
	}
	if (!flow_pass_psb(p->flow, &psb) || (t && !count_transition(p, t)))
		return false;
	p->depth = 0;
	*state = t ? t->next : *state;
	*pos = psb.end;
	*last_ip = psb.ip;
	profile_empty_stack(p, profile_at(p, *state)->ip, psb.end, psb.ip);
	return true;
}

bool profile_take_group(struct ptah_profile *p, int32_t *state, const uint8_t **pos,
			const uint8_t *end, uint64_t *last_ip)
{
	const uint8_t *at = *pos;

	if (p->no_groups)
		return false;
	switch (*at & OPCODE_IP_MASK) {
	case OPCODE_TIP_PGD:
	case OPCODE_FUP:
		return take_transition(p, state, pos, end, last_ip);
	default:
		break;
	}
	if (load_le16(at) == EXT_WORD(PSB))
		return take_psb(p, state, pos, end, last_ip);
	if (load_le16(at) == EXT_WORD(CBR)) {
		event_take_ratio(p->flow->events, at[2]);
		*pos = at + SIZE_CBR;
		return true;
	}
	return false;
}

void profile_pass_off(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;
	struct ptah_event_decoder *d = f->events;
	const uint8_t *pos = d->pos;

	p->state = 0;
	if (flow_pass_off(f, &pos, d->end - LOOP_LOOK, &d->last_ip))
		p->state = enter_after_enable(p, NULL, pos);
	else
		flow_turn_off(f);
	d->pos = pos;
}

/* Learning */

/* Whether the flow has carried out exactly the group, and nothing of it is left. */
static bool is_done(const struct ptah_profile *p, uint64_t end)
{
	const struct ptah_event_decoder *d = p->flow->events;

	return flow_is_at_rest(p->flow) && !d->queue_count && event_offset(d, d->pos) == end;
}

/* The state after the group; TRANSITION_OFF; or 0: what it did is not remembered. */
static int32_t next_of(struct ptah_profile *p, const struct packet_group *g, unsigned top)
{
	struct ptah_flow *f = p->flow;

	if (g->kind != PACKET_GROUP_FUP_TIP)
		return flow_is_off(f) ? TRANSITION_OFF : 0;
	/* Calls on the way to the FUP's address would have to be pushed. */
	if (!f->events->plain || !f->positioned || f->node || f->ip != g->to || f->space_waits ||
	    ((p->stack_matters || p->late_stack) && f->stack_top != top))
		return 0;
	p->context = (uint32_t)f->code.space << 2 | f->mode;
	return profile_state(p, g->to);
}

/*
 * A PSB+ with an address further along the direct way, which the flow has taken. Calls before that
 * address are not pushed any more: if there are some, the next state is the node that has the
 * address, and the nodes before it have run.
 */
static void learn_psb(struct ptah_profile *p, const struct packet_group *g, int32_t from)
{
	struct ptah_item blocks[TRANSITION_BLOCKS];
	struct ptah_flow *f = p->flow;
	struct code_node *node = f->node;
	unsigned before, last_size;
	int32_t next = from;
	size_t n = 0;

	if (!f->has_proven || f->proven.ip != g->ip || !f->positioned || !node ||
	    node->ip != profile_at(p, from)->ip || !flow_chain_ok(f, node))
		return;
	if ((p->stack_matters || p->late_stack) && f->old_calls) {
		while (!code_locate(&f->code, node, g->ip, &before, &last_size)) {
			if (n == TRANSITION_BLOCKS || !flow_is_direct(node))
				return;
			flow_put_block(&blocks[n++], node, 0, (word_pair){0, 0});
			node = flow_chain_next(f, node);
			if (!node)
				return;
		}
		p->context = (uint32_t)f->code.space << 2 | f->mode;
		next = profile_state(p, node->ip);
	}
	if (next)
		add_transition(p, from, g, next, blocks, n);
}

void profile_learn_group(struct ptah_profile *p, bool *starved)
{
	const struct packet_group g = p->unknown;
	const int32_t from = p->unknown_from;
	struct ptah_flow *f = p->flow;
	const uint64_t end = event_offset(f->events, g.end);
	const unsigned top = f->stack_top;
	struct ptah_item items[2 * TRANSITION_BLOCKS], blocks[TRANSITION_BLOCKS];
	bool good = true;
	size_t count = 0;
	int32_t next;

	p->unknown.kind = PACKET_GROUP_NONE;
	do {
		const int n = flow_read_packet(f, items, ARRAY_SIZE(items), starved);

		for (int i = 0; i < n; i++) {
			const bool takes = time_window_takes(&p->window, &items[i]);

			if (takes)
				profile_count_item(p, &items[i]);
			good = good && takes && items[i].type != PTAH_ITEM_ERROR &&
			       items[i].type != PTAH_ITEM_GAP &&
			       items[i].type != PTAH_ITEM_OVERFLOW;
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			good = good && count < TRANSITION_BLOCKS;
			if (good)
				blocks[count++] = items[i];
		}
	} while (!is_done(p, end) && !*starved && !f->paused && p->status >= 0 &&
		 event_offset(f->events, f->events->pos) <= end);
	if (!good || p->status < 0 || !is_done(p, end))
		return;
	if (g.kind == PACKET_GROUP_PSB) {
		learn_psb(p, &g, from);
		return;
	}
	next = next_of(p, &g, top);
	if (next)
		add_transition(p, from, &g, next, blocks, count);
}
