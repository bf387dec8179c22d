/* SPDX-License-Identifier: MIT */
/*
 * Counts packets by rows: TNT and TIP lead from state to state, and each step is counted in the
 * entry that says where it leads. Where an entry is missing or impossible, the flow is put in the
 * same place and continues.
 */
#include "profile/profile_internal.h"

#include "flow/pass_groups.h"

/* Hands the place and the return address stack to the flow. */
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

/* The same, with outcomes left of the packet that ends at `pos`. */
static void leave_with(struct ptah_profile *p, int32_t state, unsigned bits, unsigned n,
		       const uint8_t *pos)
{
	struct ptah_flow *f = p->flow;

	leave(p, state);
	f->tnt = bits;
	f->tnt_count = n;
	if (!(pos[-1] & 1) && pos[-1] > OPCODE_EXT) /* else of a TNT-64: take_long() does it */
		flow_leave_outcomes(f, pos - 1);
	flow_set_time(f, event_offset(f->events, pos) - 1);
}

/*
 * What the loop keeps in registers. It is loaded from the profile and stored back around every call
 * that is not inlined; otherwise the compiler would have to expect that any count changes it.
 */
struct packet_taker {
	struct ptah_flow *flow;
	struct ptah_profile *profile;
	struct row_entry *rows, *wide;
	const struct target *targets;
	struct pair *pairs;
	const struct effect *effects;
	const uint8_t *end; /* see packet_loop.h */
	unsigned top,
	    bottom; /* of the return address stack: the entries between the two are in use */
	/* Constant, and known to the compiler: what is touched is noted; states have lines. */
	bool touching, lines;
	uint64_t *touches;
	size_t touched, room;
};

static ALWAYS_INLINE void load(struct packet_taker *h, struct ptah_profile *p, bool touching,
			       bool lines)
{
	*h = (struct packet_taker){.flow = p->flow,
				   .profile = p,
				   .rows = p->rows,
				   .wide = p->wide,
				   .targets = p->targets,
				   .pairs = p->pairs,
				   .effects = p->effects,
				   .end = p->end,
				   .top = p->top,
				   .bottom = p->top - p->depth,
				   .touching = touching,
				   .lines = lines};
	if (touching) {
		h->touches = p->touched;
		h->touched = p->touched_count;
		h->room = p->touched_capacity < MOST_TOUCHED ? p->touched_capacity : MOST_TOUCHED;
	}
}

static ALWAYS_INLINE void store(const struct packet_taker *h, struct ptah_profile *p)
{
	p->top = h->top;
	p->depth = h->top - h->bottom;
	if (h->touching)
		p->touched_count = h->touched;
}

/* After a call that may have changed what is in registers. */
static ALWAYS_INLINE void reload(struct packet_taker *h)
{
	load(h, h->profile, h->touching, h->lines);
}

/* Notes the first count since the last settling. False when out of memory. */
static ALWAYS_INLINE bool touch(struct packet_taker *h, struct ptah_profile *p, uint64_t key)
{
	bool good = true;

	/* profile_touch() grows the list, and stops the loop when it is long. */
	if (UNLIKELY(h->touched >= h->room)) {
		store(h, p);
		good = profile_touch(p, key);
		reload(h);
	} else {
		h->touches[h->touched++] = key;
	}
	return good;
}

/* The usual case of profile_state(): the state exists, in its first slot. */
static ALWAYS_INLINE int32_t find_state(struct packet_taker *h, struct ptah_profile *p, uint64_t ip)
{
	const struct target *t = &h->targets[profile_target_slot(p, ip, p->context)];
	int32_t state = t->state;

	if (UNLIKELY(t->ip != ip || t->context != p->context || !state)) {
		state = profile_state(p, ip);
		store(h, p);
		reload(h);
	}
	return state;
}

/* Counts a pair; inline is the usual case of profile_pair(). False when out of memory. */
static ALWAYS_INLINE bool count_pair(struct packet_taker *h, struct ptah_profile *p, uint64_t key)
{
	struct pair *pair = &h->pairs[profile_pair_slot(p, key)];

	if (UNLIKELY(pair->key != key)) {
		store(h, p);
		pair = profile_pair(p, key);
		reload(h);
		if (UNLIKELY(!pair))
			return false;
	}
	return (uint32_t)pair->count++ || !h->touching || touch(h, p, key);
}

/* Pushes more return sites than an effect holds. Returns the new top of the stack. */
NOINLINE static unsigned push_many(struct ptah_profile *p, const struct effect *e, unsigned top)
{
	const int32_t *more = p->more + e->push[EFFECT_PUSHES - 1];

	for (unsigned i = 0; i < EFFECT_PUSHES - 1; i++)
		p->stack[top++ % STACK_RING] = e->push[i];
	for (unsigned i = EFFECT_PUSHES - 1; i < e->pushes; i++)
		p->stack[top++ % STACK_RING] = *more++;
	return top;
}

/* Applies an effect to the return address stack. */
static ALWAYS_INLINE void move_stack(struct packet_taker *h, struct ptah_profile *p,
				     const struct effect *e)
{
	/* SDM: a push onto a full stack drops the oldest entry. */
	if (UNLIKELY(h->top - h->bottom + e->reach > STACK_SIZE))
		h->bottom = h->top + e->reach - STACK_SIZE;
	if (UNLIKELY(e->pushes > EFFECT_PUSHES)) {
		h->top = push_many(p, e, h->top);
		return;
	}
	if (h->lines) {
		/* The line of a return site has all that a return needs. */
		__builtin_prefetch(&h->rows[e->push[0]], 1);
		__builtin_prefetch(&h->rows[e->push[1]], 1);
	}
	/* Writes both, whether needed or not: the number cannot be predicted in large programs. */
	p->stack[h->top % STACK_RING] = e->push[0];
	p->stack[(h->top + 1) % STACK_RING] = e->push[1];
	h->top += e->pushes;
}

/*
 * Makes the entry of a payload that is not known yet. False: the flow has to continue, and has been
 * put in place for that.
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

/* A return without an entry on the stack: the flow reports the error. */
NOINLINE static void refuse_return(struct ptah_profile *p, int32_t state, int32_t code,
				   const uint8_t *pos)
{
	const unsigned rest = RETURN_REST(code);

	/*
	 * `rest` has its stop bit, a 1, at the bit where the return's own outcome belongs. That is
	 * 1 as well: with one outcome more, the stop bit serves as it.
	 */
	leave_with(p, state, rest, highest_bit(rest) + 1, pos);
	p->flow->node = p->states[RETURN_BRANCH(code)].node;
}

/* As profile_find_entry(). */
static ALWAYS_INLINE struct row_entry *find_entry(const struct packet_taker *h, int32_t state,
						  unsigned payload)
{
	return h->lines ? profile_in_line(h->rows, h->wide, state, payload)
			: &h->rows[(uint32_t)state + payload];
}

/* Counts a return from a branch to a site. False when out of memory. */
static ALWAYS_INLINE bool count_return(struct packet_taker *h, struct ptah_profile *p,
				       int32_t branch, int32_t site)
{
	struct row_entry *entry = find_entry(h, site, ROW_RETURN);

	if (h->lines && UNLIKELY(!entry)) {
		store(h, p);
		entry = profile_entry(p, site, ROW_RETURN);
		reload(h);
		if (UNLIKELY(!entry))
			return false;
	}
	if (UNLIKELY(entry->next != branch)) {
		if (entry->next)
			return count_pair(h, p,
					  FROM_RETURN | (uint64_t)branch << 32 | (uint32_t)site);
		entry->next = branch;
	}
	return entry->count++ || !h->touching || touch(h, p, (uint32_t)site + ROW_RETURN);
}

/*
 * Takes the outcomes of a TNT-8 or of a part of one, which ends at `pos`. Returns the next state,
 * or 0 when the flow has to continue.
 */
static ALWAYS_INLINE int32_t take_outcomes(struct packet_taker *h, struct ptah_profile *p,
					   int32_t state, unsigned payload, const uint8_t *pos)
{
	for (;;) {
		struct row_entry *entry = find_entry(h, state, payload);
		const struct effect *e;
		int32_t code;

		if (UNLIKELY((h->lines && !entry) || !entry->next)) {
			store(h, p);
			if (!make_entry(p, state, payload, pos))
				return 0;
			reload(h);
			entry = find_entry(h, state, payload);
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

/* Applies a TIP to the return address stack. False: the flow has to carry out the TIP. */
static ALWAYS_INLINE bool take_tip_effect(struct packet_taker *h, struct ptah_profile *p,
					  int32_t state)
{
	const struct row_entry *entry = find_entry(h, state, 0);
	int32_t next = h->lines && UNLIKELY(!entry) ? 0 : entry->next;
	const struct effect *e;

	if (LIKELY(next == NEXT_PLAIN))
		return true;
	if (UNLIKELY(!next)) {
		store(h, p);
		if (!profile_make_tip(p, state))
			return false;
		reload(h);
		next = find_entry(h, state, 0)->next;
		if (next == NEXT_PLAIN)
			return true;
	}
	e = &h->effects[~next];
	move_stack(h, p, e);
	h->top -= e->pops && h->top != h->bottom;
	return true;
}

/* Takes a TNT-64, six outcomes at a time. */
static ALWAYS_INLINE int32_t take_long(struct ptah_profile *p, int32_t state, const uint8_t *pos,
				       bool touching, bool lines)
{
	const uint64_t payload = load_le64(pos) >> 16;
	unsigned left = highest_bit(payload);
	struct packet_taker h;

	load(&h, p, touching, lines);
	while (left) {
		const unsigned n = left < 6 ? left : 6;
		const uint64_t bits = payload >> (left - n) & ((1u << n) - 1);
		int32_t next;

		left -= n;
		next = take_outcomes(&h, p, state, 1u << n | (unsigned)bits, pos + 8);
		if (!next) { /* the flow gets the remaining outcomes as well */
			struct ptah_flow *f = p->flow;

			f->tnt = f->tnt << left | (payload & ((UINT64_C(1) << left) - 1));
			f->tnt_count += left;
			flow_leave_outcomes(f, pos);
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
	return take_long(p, state, pos, false, false);
}

NOINLINE static int32_t take_long_lines(struct ptah_profile *p, int32_t state, const uint8_t *pos)
{
	return take_long(p, state, pos, false, true);
}

NOINLINE static int32_t take_long_touching(struct ptah_profile *p, int32_t state,
					   const uint8_t *pos)
{
	return take_long(p, state, pos, true, false);
}

/* What packet_loop.h needs to be defined. A place is a state here. */

typedef int32_t place_number;

static ALWAYS_INLINE place_number take_tnt(struct packet_taker *h, place_number place,
					   unsigned payload, const uint8_t *pos)
{
	return take_outcomes(h, h->profile, place, payload, pos + 1);
}

static ALWAYS_INLINE place_number take_tnt_64(struct packet_taker *h, place_number place,
					      const uint8_t *pos)
{
	struct ptah_profile *p = h->profile;
	int32_t state = place;

	store(h, p);
	state = (h->touching ? take_long_touching
		 : h->lines  ? take_long_lines
			     : take_long_plain)(p, state, pos);
	reload(h);
	return state;
}

/* Also false when out of memory. */
static ALWAYS_INLINE bool take_tip(struct packet_taker *h, place_number *place, const uint8_t *pos,
				   uint64_t ip)
{
	struct ptah_profile *p = h->profile;
	const int32_t from = *place;
	int32_t to;

	(void)pos;
	if (UNLIKELY(!take_tip_effect(h, p, from)))
		return false;
	to = find_state(h, p, ip);
	if (UNLIKELY(!to || !count_pair(h, p, (uint64_t)from << 32 | (uint32_t)to)))
		return false;
	*place = to;
	p->came_from = from;
	return true;
}

/* Counts have no times. */
static ALWAYS_INLINE void take_time(struct packet_taker *h)
{
	(void)h;
}

static ALWAYS_INLINE void take_cyc(struct packet_taker *h, struct event_cycles *cycles)
{
	(void)h;
	(void)cycles;
}

/* The transition of a TIP.PGD with this address: the last one here, or in its first slot; or NULL.
 */
static ALWAYS_INLINE struct transition *find_off(struct packet_taker *h, struct ptah_profile *p,
						 int32_t from, uint64_t to)
{
	const struct packet_group g = {.kind = PACKET_GROUP_PGD, .has_to = true, .to = to};
	struct row_entry *entry = find_entry(h, from, 0);
	struct transition *t;

	if (UNLIKELY(p->transition_count < 2 || (h->lines && !entry)))
		return NULL;
	t = &p->transitions[entry->count];
	if (LIKELY(profile_is_transition(t, from, &g)))
		return t;
	entry->count =
	    p->transition_slots[profile_transition_slot(p, from, 0, to, PACKET_GROUP_PGD)];
	t = &p->transitions[entry->count];
	return LIKELY(profile_is_transition(t, from, &g)) ? t : NULL;
}

/* The state of the TIP.PGE after a transition, or 0 when out of memory. */
static ALWAYS_INLINE int32_t state_after(struct packet_taker *h, struct ptah_profile *p,
					 struct transition *t, uint64_t ip)
{
	if (UNLIKELY(t->enter_ip != ip || t->enter_context != p->context || !t->enter_state)) {
		t->enter_ip = ip;
		t->enter_context = p->context;
		t->enter_state = find_state(h, p, ip);
	}
	return t->enter_state;
}

/*
 * The usual case of profile_take_group(): a known TIP.PGD and nothing but PADs up to its TIP.PGE.
 * Inline, because some traces have such a pair for every few branches: mruby was counted at 470
 * MB/s without this.
 */
static ALWAYS_INLINE bool switch_off_and_on(struct packet_taker *h, struct ptah_profile *p,
					    place_number *place, const uint8_t **pos,
					    uint64_t *last_ip)
{
	const uint8_t *at = *pos;
	uint64_t ip = *last_ip;
	const unsigned size = packet_take_ip(at, &ip);
	struct transition *t;
	int32_t next;

	if (UNLIKELY(!size))
		return false;
	t = find_off(h, p, *place, ip);
	if (UNLIKELY(!t))
		return false;
	at = packet_skip_pads(at + size, h->end);
	if (UNLIKELY(at > h->end || (*at & OPCODE_IP_MASK) != OPCODE_TIP_PGE))
		return false;
	if (UNLIKELY(!packet_has_ip(at)))
		return false;
	at += packet_take_ip(at, &ip);
	next = state_after(h, p, t, ip);
	if (UNLIKELY(!next))
		return false;
	if (!(uint32_t)t->count++ && h->touching &&
	    UNLIKELY(!touch(h, p, FROM_GROUP | (uint64_t)(t - p->transitions))))
		return false;
	flow_forget_far(p->flow);
	h->bottom = h->top;
	if (p->late_stack)
		profile_empty_stack(p, ip, at, ip);
	*place = next;
	*pos = at;
	*last_ip = ip;
	return true;
}

static ALWAYS_INLINE bool take_group(struct packet_taker *h, place_number *place,
				     const uint8_t **pos, uint64_t *last_ip)
{
	struct ptah_profile *p = h->profile;
	bool taken;

	if ((**pos & OPCODE_IP_MASK) == OPCODE_TIP_PGD &&
	    LIKELY(switch_off_and_on(h, p, place, pos, last_ip)))
		return true;
	store(h, p);
	taken = profile_take_group(p, place, pos, h->end, last_ip);
	reload(h);
	return taken;
}

#include "flow/packet_loop.h"

/* Takes packets from the event decoder's position on, as long as rows know them. */
static ALWAYS_INLINE void run_rows(struct ptah_profile *p, bool touching, bool lines, bool timed)
{
	const struct ptah_event_decoder *d = p->flow->events;
	const uint8_t *const start = d->pos;
	struct packet_taker h;
	int32_t state;

	p->end = d->end - start > PROFILE_STRETCH ? start + PROFILE_STRETCH : d->end - LOOP_LOOK;
	load(&h, p, touching, lines);
	state = loop_over_packets(&h, p->state, timed);
	store(&h, p);
	p->budget -= (uint64_t)(d->pos - start) * PROFILE_PER_BYTE;
	p->looped += (uint64_t)(d->pos - start);
	if (state)
		leave(p, state);
	if (p->late_stack && p->flow->positioned && p->status >= 0)
		profile_find_stack(p);
}

/* A loop for each use, so that none pays for what it does not need. */
NOINLINE static void run_plain(struct ptah_profile *p)
{
	run_rows(p, false, false, false);
}

NOINLINE static void run_touching(struct ptah_profile *p)
{
	run_rows(p, true, false, false);
}

NOINLINE static void run_plain_timed(struct ptah_profile *p)
{
	run_rows(p, false, false, true);
}

NOINLINE static void run_touching_timed(struct ptah_profile *p)
{
	run_rows(p, true, false, true);
}

NOINLINE static void run_lines(struct ptah_profile *p)
{
	run_rows(p, false, true, false);
}

NOINLINE static void run_lines_timed(struct ptah_profile *p)
{
	run_rows(p, false, true, true);
}

void profile_run_rows(struct ptah_profile *p, bool off)
{
	const bool timed = p->flow->events->time.cyc_seen;

	p->counted = true;
	if (off) {
		profile_pass_off(p);
		if (!p->state)
			return;
	}
	if (p->coverage)
		(timed ? run_touching_timed : run_touching)(p);
	else if (p->lines)
		(timed ? run_lines_timed : run_lines)(p);
	else
		(timed ? run_plain_timed : run_plain)(p);
}
