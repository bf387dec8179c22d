/* SPDX-License-Identifier: MIT */
/*
 * The loop over packets: TNT and TIP by rows, timing packets by the event
 * layer's clocks, all else by the flow, which then has the position, until it
 * is at rest again.
 */
#include "profile/profile_internal.h"

/* The longest packet that the loop takes, and what it loads at once. */
#define LOOK 16

/* At most this many bytes in one go, so that no count wraps: a byte counts 8 times at most. */
#define STRETCH	 ((ptrdiff_t)1 << 28)
#define PER_BYTE 8

/* Handing over */

static bool can_enter(const struct ptah_profile *p)
{
	const struct ptah_flow *f = p->flow;

	return f->events->plain && f->positioned && flow_is_at_rest(f) && !f->space_waits &&
	       !f->old_calls && !f->no_tnt && f->events->tsc < f->time_limit && !p->config.no_rows;
}

/* From the flow to us. False when out of memory. */
static bool enter(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;

	p->context = (uint32_t)f->code.space << 2 | f->mode;
	p->state = profile_state(p, f->node ? f->node->ip : f->ip);
	p->depth = p->top = 0;
	for (unsigned i = f->stack_depth; p->stack_matters && i; i--) {
		const int32_t site = profile_state(p, f->stack[(f->stack_top - i) % STACK_SIZE].ip);

		if (!site)
			return false;
		p->stack[p->top++] = site;
		p->depth++;
	}
	return p->state;
}

/* Back to the flow, which stands at the state's code. */
static void leave(struct ptah_profile *p, int32_t state)
{
	struct ptah_flow *f = p->flow;

	f->ip = profile_at(p, state)->ip;
	f->node = profile_at(p, state)->node;
	f->stack_top = f->stack_depth = 0;
	for (unsigned i = p->depth; i; i--) {
		const int32_t site = p->stack[(p->top - i) % STACK_RING];

		f->stack[f->stack_top++] = (struct return_site){.ip = profile_at(p, site)->ip};
		f->stack_depth++;
	}
}

/* ... with outcomes of the packet that ends at `pos`. */
static void leave_with(struct ptah_profile *p, int32_t state, unsigned bits, unsigned n,
		       const uint8_t *pos)
{
	struct ptah_flow *f = p->flow;

	leave(p, state);
	f->tnt = bits;
	f->tnt_count = n;
	flow_set_time(f, event_offset(f->events, pos) - 1);
}

/*
 * What the loop keeps at hand. Loaded from the profile and stored into it
 * around everything that is not inline, so that the compiler can have it in
 * registers in spite of all that is counted through pointers.
 */
struct hot {
	struct row_entry *rows;
	const struct target *targets;
	struct pair *pairs;
	const struct effect *effects;
	const uint8_t *end;
	unsigned top, bottom; /* of the stack: what lies between is in it */
	/* Constant, and known to the compiler: what is touched is written down. */
	bool touching;
	uint64_t *touches;
	size_t touched, room;
};

static ALWAYS_INLINE void load(struct hot *h, const struct ptah_profile *p, bool touching)
{
	*h = (struct hot){.rows = p->rows,
			  .targets = p->targets,
			  .pairs = p->pairs,
			  .effects = p->effects,
			  .end = p->end,
			  .top = p->top,
			  .bottom = p->top - p->depth,
			  .touching = touching};
	if (touching) {
		h->touches = p->touched;
		h->touched = p->touched_count;
		h->room = p->touched_capacity < MOST_TOUCHED ? p->touched_capacity : MOST_TOUCHED;
	}
}

static ALWAYS_INLINE void store(const struct hot *h, struct ptah_profile *p)
{
	p->top = h->top;
	p->depth = h->top - h->bottom;
	if (h->touching)
		p->touched_count = h->touched;
}

/* The first count of something since the last settling. False when out of memory. */
static ALWAYS_INLINE bool touch(struct hot *h, struct ptah_profile *p, uint64_t key)
{
	bool good = true;

	/* profile_touch() grows the list, and stops the loop when it is long. */
	if (UNLIKELY(h->touched >= h->room)) {
		store(h, p);
		good = profile_touch(p, key);
		load(h, p, h->touching);
	} else {
		h->touches[h->touched++] = key;
	}
	return good;
}

/* The usual case of profile_state(): known, and in its first slot. */
static ALWAYS_INLINE int32_t find_state(struct hot *h, struct ptah_profile *p, uint64_t ip)
{
	const struct target *t = &h->targets[profile_target_slot(p, ip, p->context)];
	int32_t state = t->state;

	if (UNLIKELY(t->ip != ip || t->context != p->context || !state)) {
		state = profile_state(p, ip);
		store(h, p);
		load(h, p, h->touching);
	}
	return state;
}

/* One more of a pair: the usual case of profile_pair(). False when out of memory. */
static ALWAYS_INLINE bool count_pair(struct hot *h, struct ptah_profile *p, uint64_t key)
{
	struct pair *pair = &h->pairs[profile_pair_slot(p, key)];

	if (UNLIKELY(pair->key != key)) {
		store(h, p);
		pair = profile_pair(p, key);
		load(h, p, h->touching);
		if (UNLIKELY(!pair))
			return false;
	}
	return (uint32_t)pair->count++ || !h->touching || touch(h, p, key);
}

/* More return sites than an effect holds. The stack's top behind them. */
NOINLINE static unsigned push_many(struct ptah_profile *p, const struct effect *e, unsigned top)
{
	const int32_t *more = p->more + e->push[EFFECT_PUSHES - 1];

	for (unsigned i = 0; i < EFFECT_PUSHES - 1; i++)
		p->stack[top++ % STACK_RING] = e->push[i];
	for (unsigned i = EFFECT_PUSHES - 1; i < e->pushes; i++)
		p->stack[top++ % STACK_RING] = *more++;
	return top;
}

/* The stack's part of an effect. */
static ALWAYS_INLINE void move_stack(struct hot *h, struct ptah_profile *p, const struct effect *e)
{
	/* SDM: a push onto a full stack drops the oldest entry. */
	if (UNLIKELY(h->top - h->bottom + e->reach > STACK_SIZE))
		h->bottom = h->top + e->reach - STACK_SIZE;
	if (UNLIKELY(e->pushes > EFFECT_PUSHES)) {
		h->top = push_many(p, e, h->top);
		return;
	}
	/* Both, needed or not: how many it is cannot be predicted in large programs. */
	p->stack[h->top % STACK_RING] = e->push[0];
	p->stack[(h->top + 1) % STACK_RING] = e->push[1];
	h->top += e->pushes;
}

/*
 * The entry of a payload that is not known yet. False when the flow must go on:
 * it has been told from where.
 */
NOINLINE static bool make_entry(struct ptah_profile *p, int32_t state, unsigned payload,
				const uint8_t *pos)
{
	const unsigned n = highest_bit(payload);

	if (profile_make_entry(p, state, payload))
		return true;
	leave_with(p, state, payload & ((1u << n) - 1), n, pos);
	return false;
}

/* A return without an entry on the stack: the flow says what is wrong with it. */
NOINLINE static void refuse_return(struct ptah_profile *p, int32_t state, int32_t code,
				   const uint8_t *pos)
{
	const unsigned rest = RETURN_REST(code);

	/* The return's own outcome is 1, and stands where the stop bit does. */
	leave_with(p, state, rest, highest_bit(rest) + 1, pos);
	p->flow->node = p->states[RETURN_BRANCH(code)].node;
}

/* One more return from a branch to a site. False when out of memory. */
static ALWAYS_INLINE bool count_return(struct hot *h, struct ptah_profile *p, int32_t branch,
				       int32_t site)
{
	struct row_entry *entry = &h->rows[site + ROW_RETURN];

	if (UNLIKELY(entry->next != branch)) {
		if (entry->next)
			return count_pair(h, p,
					  FROM_RETURN | (uint64_t)branch << 32 | (uint32_t)site);
		entry->next = branch;
	}
	return entry->count++ || !h->touching || touch(h, p, (uint32_t)site + ROW_RETURN);
}

/*
 * The outcomes of a TNT-8 or a part of one, of which `pos` is the end. The next
 * state, or 0 when the flow must go on.
 */
static ALWAYS_INLINE int32_t take_outcomes(struct hot *h, struct ptah_profile *p, int32_t state,
					   unsigned payload, const uint8_t *pos)
{
	for (;;) {
		struct row_entry *entry = &h->rows[(uint32_t)state + payload];
		const struct effect *e;
		int32_t code;

		if (UNLIKELY(!entry->next)) {
			store(h, p);
			if (!make_entry(p, state, payload, pos))
				return 0;
			load(h, p, h->touching);
			entry = &h->rows[(uint32_t)state + payload];
		}
		if (!entry->count++ && h->touching &&
		    UNLIKELY(!touch(h, p, (uint32_t)state + payload)))
			return 0;
		if (LIKELY(entry->next > 0))
			return entry->next;
		code = ~entry->next;
		if (!(code & NEXT_RETURN)) {
			e = &h->effects[code];
			move_stack(h, p, e);
			if (LIKELY(e->next > 0))
				return e->next;
			code = ~e->next;
		}
		if (UNLIKELY(h->top == h->bottom)) {
			store(h, p);
			refuse_return(p, state, code, pos);
			return 0;
		}
		state = p->stack[--h->top % STACK_RING];
		if (UNLIKELY(!count_return(h, p, RETURN_BRANCH(code), state)))
			return 0;
		payload = RETURN_REST(code);
		if (payload == 1)
			return state;
	}
}

/* The stack's part of a TIP. False when it is the flow's. */
static ALWAYS_INLINE bool take_tip_effect(struct hot *h, struct ptah_profile *p, int32_t state)
{
	int32_t next = h->rows[state].next;
	const struct effect *e;

	if (LIKELY(next == NEXT_PLAIN))
		return true;
	if (UNLIKELY(!next)) {
		store(h, p);
		if (!profile_make_tip(p, state))
			return false;
		load(h, p, h->touching);
		next = h->rows[state].next;
		if (next == NEXT_PLAIN)
			return true;
	}
	e = &h->effects[~next];
	move_stack(h, p, e);
	h->top -= e->pops && h->top != h->bottom;
	return true;
}

/* A TNT-64, six outcomes at a time. */
static ALWAYS_INLINE int32_t take_long(struct ptah_profile *p, int32_t state, const uint8_t *pos,
				       bool touching)
{
	const uint64_t payload = load_le64(pos) >> 16;
	unsigned left = highest_bit(payload);
	struct hot h;

	load(&h, p, touching);
	while (left) {
		const unsigned n = left < 6 ? left : 6;
		const uint64_t bits = payload >> (left - n) & ((1u << n) - 1);
		int32_t next;

		left -= n;
		next = take_outcomes(&h, p, state, 1u << n | (unsigned)bits, pos + 8);
		if (!next) { /* the flow gets the rest as well */
			struct ptah_flow *f = p->flow;

			f->tnt = f->tnt << left | (payload & ((UINT64_C(1) << left) - 1));
			f->tnt_count += left;
			flow_set_time(f, event_offset(f->events, pos));
			return 0;
		}
		state = next;
	}
	store(&h, p);
	return state;
}

NOINLINE static int32_t take_long_plain(struct ptah_profile *p, int32_t state, const uint8_t *pos)
{
	return take_long(p, state, pos, false);
}

NOINLINE static int32_t take_long_touching(struct ptah_profile *p, int32_t state,
					   const uint8_t *pos)
{
	return take_long(p, state, pos, true);
}

/* A TIP. The next state, or 0: not taken. */
static ALWAYS_INLINE int32_t take_tip(struct hot *h, struct ptah_profile *p, int32_t state,
				      const uint8_t **pos, uint64_t *last_ip)
{
	uint64_t ip = *last_ip;
	const unsigned size = packet_take_ip(*pos, &ip);
	const uint64_t from = (uint64_t)state << 32;

	if (UNLIKELY(!size) || UNLIKELY(!take_tip_effect(h, p, state)))
		return 0;
	*last_ip = ip;
	*pos += size;
	state = find_state(h, p, ip);
	return UNLIKELY(!state || !count_pair(h, p, from | (uint32_t)state)) ? 0 : state;
}

/* No more are added up. What the flow has been told comes at the time of now. */
static void tell_cycles(struct ptah_profile *p, struct event_cycles cycles, bool left)
{
	struct ptah_flow *f = p->flow;

	event_tell_cycles(f->events, cycles.sum, cycles.any, f->time_limit);
	if (left && cycles.any)
		flow_set_time(f, f->offset);
}

/*
 * The packets that are ours, from the decoder's position on. `timed`: there are
 * CYC packets, and one before most others.
 */
static ALWAYS_INLINE void run_rows(struct ptah_profile *p, bool touching, bool timed)
{
	struct ptah_event_decoder *d = p->flow->events;
	const uint8_t *const start = d->pos, *pos = start;
	struct event_cycles cycles = {.sum = 0};
	uint64_t last_ip = d->last_ip;
	int32_t state = p->state, next;
	struct hot h;

	p->end = d->end - pos > STRETCH ? pos + STRETCH : d->end - LOOK;
	load(&h, p, touching);
	if (timed)
		event_settle_cycles(d, &cycles, p->flow->time_limit);
	while (pos <= h.end && state) {
		unsigned byte = *pos;

		if (timed && (byte & CYC_MASK) == OPCODE_CYC) {
			pos += event_add_cyc(&cycles, pos);
			byte = *pos;
		}
		if (LIKELY(!(byte & 1) && byte > OPCODE_EXT)) {
			pos++;
			state = take_outcomes(&h, p, state, byte >> 1, pos);
		} else if ((byte & OPCODE_IP_MASK) == OPCODE_TIP) {
			next = take_tip(&h, p, state, &pos, &last_ip);
			if (UNLIKELY(!next))
				break;
			state = next;
		} else if (byte == OPCODE_PAD) {
			pos++;
		} else if (byte == OPCODE_EXT && pos[1] == EXT_TNT_64 && load_le64(pos) >> 17) {
			store(&h, p);
			state = touching ? take_long_touching(p, state, pos)
					 : take_long_plain(p, state, pos);
			load(&h, p, touching);
			pos += 8;
		} else {
			const uint64_t limit = p->flow->time_limit;
			const bool more = event_take_clock_at(d, pos, cycles, limit);

			cycles = (struct event_cycles){.sum = 0};
			if (timed)
				event_settle_cycles(d, &cycles, limit);
			pos = d->pos;
			if (!more)
				break;
		}
	}
	store(&h, p);
	if (timed)
		tell_cycles(p, cycles, !state);
	d->pos = pos;
	d->last_ip = last_ip;
	p->budget -= (uint64_t)(pos - start) * PER_BYTE;
	if (state)
		leave(p, state);
}

/* A loop for each of its uses: what one does not need costs it nothing. */
NOINLINE static void run_plain(struct ptah_profile *p)
{
	run_rows(p, false, false);
}

NOINLINE static void run_touching(struct ptah_profile *p)
{
	run_rows(p, true, false);
}

NOINLINE static void run_plain_timed(struct ptah_profile *p)
{
	run_rows(p, false, true);
}

NOINLINE static void run_touching_timed(struct ptah_profile *p)
{
	run_rows(p, true, true);
}

static void run(struct ptah_profile *p)
{
	const bool timed = p->flow->events->time.cyc_seen;

	p->counted = true;
	if (p->coverage)
		(timed ? run_touching_timed : run_touching)(p);
	else
		(timed ? run_plain_timed : run_plain)(p);
}

static void count_event(struct ptah_profile *p, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_ERROR && !p->totals.errors++)
		p->totals.first_error = *item;
	p->totals.overflows += item->type == PTAH_ITEM_OVERFLOW;
	p->totals.gaps += item->type == PTAH_ITEM_GAP;
	if (p->config.on_event)
		p->config.on_event(p->config.context, item);
}

uint64_t profile_target_of(struct ptah_profile *p, const struct ptah_item *item)
{
	struct code_cache *code = &p->flow->code;
	const uint16_t space = code->space;
	const struct code_node *node;
	int status;

	code->space = (uint16_t)item->code.space;
	node = code_find(code, item->ip, item->mode, &status);
	code->space = space;
	return node && node->end == item->end ? node->target : 0;
}

struct tally_block *profile_count_block(struct ptah_profile *p, const struct ptah_item *item)
{
	struct ptah_item head = {.type = PTAH_ITEM_BLOCK,
				 .flags = item->flags & PTAH_ITEM_TRUNCATED,
				 .mode = item->mode,
				 .insn_class = item->insn_class,
				 .ninsn = item->ninsn,
				 .last_size = item->last_size};
	struct tally_block key = {.ip = item->ip,
				  .end = item->end,
				  .space = item->code.space,
				  .section = item->code.section};
	struct tally_block *b;

	memcpy(&key.head, &head, sizeof(key.head));
	b = tally_block(&p->blocks, &key);
	if (!b) {
		p->status = PTAH_E_NOMEM;
		return NULL;
	}
	if (!b->count)
		b->target = profile_target_of(p, item);
	b->count++;
	b->taken += !!(item->flags & PTAH_ITEM_TAKEN);
	b->unknown += !!(item->flags & PTAH_ITEM_UNKNOWN);
	return b;
}

void profile_count_item(struct ptah_profile *p, const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_BLOCK)
		count_event(p, item);
	else if (p->coverage)
		coverage_count_block(p, item);
	else
		profile_count_block(p, item);
}

/* Makes room in the tables for another stretch. False when out of memory. */
static bool prepare(struct ptah_profile *p)
{
	if (p->touched_count >= MOST_TOUCHED && coverage_settle(p) < 0)
		return false;
	if ((p->budget < STRETCH * PER_BYTE || profile_is_full(p)) && profile_expand(p) < 0)
		return false;
	if (profile_is_full(p))
		profile_forget_rows(p);
	return enter(p);
}

void profile_follow_image(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;

	/* What is counted ran over the code of before. */
	if (f->generation == ptah_image_generation(f->code.image) || profile_expand(p) < 0)
		return;
	if (flow_follow_image(f)) {
		profile_forget_rows(p);
		code_forget_places(&f->code);
	}
}

int profile_run(struct ptah_profile *p)
{
	struct ptah_flow *f = p->flow;
	struct ptah_item items[64];
	bool starved = false;
	int n;

	profile_follow_image(p);
	while (!starved && !f->paused && p->status >= 0) {
		if (f->events->end - f->events->pos > LOOK && can_enter(p)) {
			if (!prepare(p))
				break;
			run(p);
		}
		n = flow_read_packet(f, items, ARRAY_SIZE(items), &starved);
		for (int i = 0; i < n; i++)
			profile_count_item(p, &items[i]);
	}
	return p->status < 0 ? p->status : f->paused ? PTAH_PROFILE_PAUSED : 0;
}
