/* SPDX-License-Identifier: MIT */
/*
 * Carries out packets whose paths are remembered (path_tables.h), for callers that read spans.
 * Where no span ends in a packet, and of most programs that is so for two packets in three, its
 * instructions are added up and nothing is written.
 */
#include "flow/path_tables.h"

#include "flow/emit_items.h"
#include "flow/pass_groups.h"
#include "flow/spans.h"

/* The caller's array, and what changes with every packet: as in path_run.c. */
struct packet_taker {
	struct ptah_flow *flow;
	const uint8_t *end; /* see packet_loop.h */
	uint32_t context;   /* of the places in this address space and mode, plus 1 */
	struct ptah_span *span, *span_end;
	/* What has run since the last span ended. */
	uint64_t ip, ninsn;
	word_pair now; /* tsc, offset */
	uint64_t cycles;
	uint64_t before; /* the offset up to which the open span has run, until the packet runs */
	/*
	 * Before the last packet of time: the end of the spans, `ninsn`, `now` and `cycles`. If
	 * nothing has run since, these are what the open span has, as it has in a flow that goes
	 * from block to block.
	 */
	const struct ptah_span *ran_span;
	uint64_t ran_ninsn;
	word_pair ran_now;
	uint64_t ran_cycles;
	uint8_t error, ran_error; /* tsc_error with `now`, and with `ran_now` */
	uint64_t tail;		  /* the last word of each span: mode, space and the like */
	const uint8_t *moved;	  /* the last packet with outcomes, a target or an event, or NULL */
	bool in_line;		  /* events are written as spans */
	bool lost_tnt;		  /* outcomes came while tracing is off: see `moved` */
	unsigned top, depth;	  /* of the return address stack */
	/* The tables, until learning moves them. */
	union entry *rows;
	const uint64_t *words;
};

static ALWAYS_INLINE void load_tables(struct packet_taker *t)
{
	t->rows = t->flow->paths->rows;
	t->words = t->flow->paths->words;
}

static ALWAYS_INLINE struct span_path *span_path_of(const struct packet_taker *t, union entry entry)
{
	return (struct span_path *)path_of(t->words, entry);
}

/* An entry of a path in which no span ends, and after which the place is always the same. */
static ALWAYS_INLINE bool is_plain(union entry entry)
{
	return !count_of(entry) && entry.next;
}

/* Writes the spans that end in a path. */
static ALWAYS_INLINE void put_spans(struct packet_taker *t, const struct span_path *p, unsigned n)
{
	const struct span_end *from = span_ends_of(p), *const end = from + n;
	struct ptah_span *span = t->span;
	uint64_t ip = t->ip, ninsn = t->ninsn;

	for (; from < end; from++, span++) {
		const word_pair words[4] = {{ip, from->end},
					    {from->to, t->now[0]},
					    {t->now[1], t->cycles},
					    {ninsn + from->ninsn, t->tail | from->word}};

		memcpy(span, words, sizeof(words));
		ip = from->to;
		ninsn = 0;
	}
	t->span = span;
	t->ip = ip;
	t->ninsn = ninsn + p->ninsn;
}

/* The last span ended with an indirect branch or a return to here. */
static ALWAYS_INLINE void lead_to(struct packet_taker *t, uint64_t ip)
{
	t->span[-1].to = ip;
	t->ip = ip;
}

/* Applies a path to the return address stack. */
static ALWAYS_INLINE void push_calls(struct packet_taker *t, const struct span_path *p, unsigned n)
{
	const struct return_site *calls = (const struct return_site *)(span_ends_of(p) + n);

	/* SDM: a push onto a full stack drops the oldest entry. */
	if (UNLIKELY(t->depth + p->reach > STACK_SIZE))
		t->depth = STACK_SIZE - p->reach;
	for (unsigned i = 0; i < p->pushes; i++)
		t->flow->stack[t->top++ % STACK_SIZE] = calls[i];
	t->depth += p->pushes;
}

/* Carries out a return. Returns the site's place, or 0: then the flow is at the site. */
static ALWAYS_INLINE uint32_t return_from(struct packet_taker *t)
{
	const struct return_site *site = &t->flow->stack[--t->top % STACK_SIZE];
	uint32_t place = site->place;

	lead_to(t, site->ip);
	t->depth--;
	if (UNLIKELY(!place)) {
		place = paths_find_return(t->flow, site);
		load_tables(t);
	}
	return place;
}

/*
 * Finds the place after a path and records it for the next time. 0: the node there is no place, and
 * the flow is at it.
 */
NOINLINE static uint32_t link_path(struct ptah_flow *f, uint32_t place, unsigned payload)
{
	const union entry entry = f->paths->rows[place + payload];
	const struct span_path *p = (struct span_path *)path_of(f->paths->words, entry);
	struct code_node *node = p->node;
	const uint32_t ninsn = p->ninsn, next = paths_place_of(f->paths, node);

	if (!next)
		return paths_leave(f, node, 1);
	f->paths->rows[place + payload].next |= next;
	if (!count_of(entry))
		f->paths->rows[place + payload].path = ninsn << COUNT_BITS;
	return next;
}

/*
 * The flow has to carry out the outcomes that are left. If it has to do so from the packet's first
 * one on, nothing has run with the packet's offset: the batch may end here.
 */
static ALWAYS_INLINE uint32_t leave(struct packet_taker *t, uint32_t place, unsigned payload)
{
	t->now[1] = t->before;
	return paths_leave(t->flow, paths_node_at(t->flow->paths, place), payload);
}

/*
 * Takes outcomes that one entry does not take by itself: a path that is not known yet, that ends
 * spans, or that is not linked to the place after it. Otherwise as take_outcomes().
 */
static ALWAYS_INLINE uint32_t take_spans(struct packet_taker *t, uint32_t place, unsigned payload)
{
	struct ptah_flow *f = t->flow;

	for (;;) {
		union entry entry = t->rows[place + payload];
		const struct span_path *p;
		unsigned n;

		if (UNLIKELY(entry.path < PATH_FIRST)) {
			bool known;

			if (place == PLACE_OFF) {
				t->lost_tnt = true;
				return 0;
			}
			known = paths_learn(f, place, payload);
			load_tables(t);
			if (!known)
				return leave(t, place, payload);
			entry = t->rows[place + payload];
		}
		if (is_plain(entry)) {
			t->ninsn += entry.path >> COUNT_BITS;
			return entry.next;
		}
		n = count_of(entry);
		/* A return without an entry on the stack is an error, which the flow reports. */
		if (UNLIKELY(t->span_end - t->span < n || (entry.next & NEXT_POPS && !t->depth)))
			return leave(t, place, payload);
		p = span_path_of(t, entry);
		put_spans(t, p, n);
		t->before = t->now[1];
		if (entry.next & NEXT_PUSHES)
			push_calls(t, p, n);
		if (!(entry.next & NEXT_POPS)) {
			uint32_t next = entry.next & ~NEXT_KINDS;

			if (UNLIKELY(!next)) {
				next = link_path(f, place, payload);
				load_tables(t);
			}
			return next;
		}
		payload = entry.next & ~NEXT_KINDS;
		place = return_from(t);
		if (UNLIKELY(!place))
			return paths_leave(f, f->node, payload);
		if (payload == 1)
			return place;
	}
}

/*
 * Takes the outcomes of a TNT-8 or of a part of one. Returns the place after them. 0: the flow is
 * at the place reached, with the outcomes that are left.
 */
static ALWAYS_INLINE uint32_t take_outcomes(struct packet_taker *t, uint32_t place,
					    unsigned payload)
{
	const union entry entry = t->rows[place + payload];

	/* Neither of the small numbers for paths that are not known has a place after it. */
	if (is_plain(entry)) {
		t->ninsn += entry.path >> COUNT_BITS;
		return entry.next;
	}
	return take_spans(t, place, payload);
}

/* Takes more outcomes than a TNT-8 has, six at a time. */
static ALWAYS_INLINE uint32_t take_many_outcomes(struct packet_taker *t, uint32_t place,
						 uint64_t payload)
{
	struct ptah_flow *f = t->flow;
	unsigned left = highest_bit(payload);

	if (UNLIKELY(place == PLACE_OFF)) {
		t->lost_tnt = true;
		return 0;
	}
	while (left) {
		const unsigned n = left < 6 ? left : 6;
		const uint64_t bits = payload >> (left - n) & ((1u << n) - 1);

		left -= n;
		place = take_outcomes(t, place, 1u << n | (unsigned)bits);
		if (!place) { /* the flow gets the remaining outcomes as well */
			f->tnt = f->tnt << left | (payload & ((UINT64_C(1) << left) - 1));
			f->tnt_count += left;
			return 0;
		}
		t->before = t->now[1];
	}
	return place;
}

/* What packet_loop.h needs to be defined. */

typedef uint32_t place_number;

/* The packet at `pos` moves the flow. */
static ALWAYS_INLINE void move(struct packet_taker *t, const uint8_t *pos)
{
	t->moved = pos;
	t->before = t->now[1];
	t->now[1] = event_offset(t->flow->events, pos);
}

static ALWAYS_INLINE uint32_t take_tnt(struct packet_taker *t, uint32_t place, unsigned payload,
				       const uint8_t *pos)
{
	move(t, pos);
	return take_outcomes(t, place, payload);
}

static ALWAYS_INLINE uint32_t take_tnt_64(struct packet_taker *t, uint32_t place,
					  const uint8_t *pos)
{
	move(t, pos);
	return take_many_outcomes(t, place, load_le64(pos) >> 16);
}

/* The place at the address that a packet leads to, or 0: then the flow is there. */
static ALWAYS_INLINE uint32_t place_at(struct packet_taker *t, uint64_t ip)
{
	const struct target *target = &t->flow->paths->targets[paths_slot(ip)];
	uint32_t place = target->place;

	if (UNLIKELY(target->ip != ip || target->context != t->context)) {
		place = paths_find_target(t->flow, ip, t->context);
		load_tables(t);
	}
	return place;
}

static ALWAYS_INLINE bool take_tip(struct packet_taker *t, uint32_t *place, const uint8_t *pos,
				   uint64_t ip)
{
	union entry entry = t->rows[*place];
	const struct span_path *p;
	unsigned n;

	if (UNLIKELY(entry.path < PATH_FIRST)) {
		const bool known = *place != PLACE_OFF && paths_learn(t->flow, *place, 0);

		load_tables(t);
		if (!known)
			return false;
		entry = t->rows[*place];
	}
	n = count_of(entry);
	if (UNLIKELY(t->span_end - t->span < n))
		return false;
	move(t, pos);
	p = span_path_of(t, entry);
	put_spans(t, p, n);
	lead_to(t, ip);
	if (entry.next & NEXT_PUSHES)
		push_calls(t, p, n);
	if (entry.next & NEXT_POPS && t->depth) {
		t->depth--;
		t->top--;
	}
	*place = place_at(t, ip);
	return true;
}

static ALWAYS_INLINE bool has_run(const struct packet_taker *t)
{
	return t->span != t->ran_span || t->ninsn != t->ran_ninsn;
}

/* Spans have the flow's time from here on. */
static ALWAYS_INLINE void load_time(struct packet_taker *t)
{
	const struct ptah_flow *f = t->flow;
	const struct ptah_span last = {
	    .mode = f->mode, .space = f->code.space, .tsc_error = f->tsc_error};

	if (has_run(t)) {
		t->ran_span = t->span;
		t->ran_ninsn = t->ninsn;
		t->ran_now = t->now;
		t->ran_cycles = t->cycles;
		t->ran_error = t->error;
	}
	memcpy(&t->tail, &last.insn_class, sizeof(t->tail));
	t->now[0] = f->tsc;
	t->cycles = f->events->time.total_cycles;
	t->error = f->tsc_error;
}

static ALWAYS_INLINE void take_time(struct packet_taker *t)
{
	flow_set_time(t->flow, t->flow->offset);
	load_time(t);
}

static ALWAYS_INLINE void take_cyc(struct packet_taker *t, struct event_cycles *cycles)
{
	event_settle_cycles(t->flow->events, cycles, t->flow->time_limit);
	take_time(t);
}

/* The time of what has run since the last span ended. */
static ALWAYS_INLINE void put_time(const struct packet_taker *t, struct ptah_span *span)
{
	const bool has = has_run(t);

	span->tsc = has ? t->now[0] : t->ran_now[0];
	span->offset = has ? t->now[1] : t->ran_now[1];
	span->cycles = has ? t->cycles : t->ran_cycles;
	span->tsc_error = has ? t->error : t->ran_error;
}

/* Writes what has run since the last span, as flow_close_span() does. Execution is at `to`. */
static ALWAYS_INLINE void close_span(struct packet_taker *t, uint64_t to)
{
	const struct ptah_flow *f = t->flow;

	if (!t->ninsn)
		return;
	*t->span = (struct ptah_span){.ip = t->ip,
				      .end = to,
				      .to = to,
				      .ninsn = t->ninsn,
				      .insn_class = PTAH_INSN_OTHER,
				      .mode = f->mode,
				      .space = f->code.space};
	put_time(t, t->span);
	t->span++;
	t->ninsn = 0;
}

/* Reports an event that begins with the packet at `pos`: as a span, or after the loop. */
static ALWAYS_INLINE void put_event(struct packet_taker *t, unsigned type, uint8_t flags,
				    uint64_t ip, uint64_t to, const uint8_t *pos)
{
	struct ptah_flow *f = t->flow;
	const struct ptah_event_decoder *d = f->events;
	const struct ptah_item item = {.type = (uint8_t)type,
				       .flags = flags | (d->in_tx ? PTAH_ITEM_SPECULATIVE : 0),
				       .mode = d->mode,
				       .tsc_error = d->tsc_error,
				       .ip = ip,
				       .to = to,
				       .tsc = d->tsc,
				       .offset = event_offset(d, pos)};

	t->moved = pos;
	if (f->no_events)
		return;
	if (t->in_line) {
		flow_put_event_span(t->span++, &item);
		return;
	}
	f->held = item;
	f->has_held = true;
	t->end = pos - 1;
}

/*
 * Takes a TIP.PGD, or one after a FUP. The span that is open ends here: with the blocks that the
 * packets prove, or before them.
 */
static ALWAYS_INLINE bool switch_off(struct packet_taker *t, uint32_t *place, const uint8_t **pos,
				     uint64_t *last_ip, const struct packet_group *group)
{
	struct ptah_flow *f = t->flow;
	const struct packet_group g = *group;
	const struct transition *x = paths_transition(f->paths, *place, g.ip, g.to);
	const struct span_path *p;
	unsigned n;

	if (UNLIKELY(!paths_is_transition(x, *place, &g) || x->entry.path < PATH_FIRST)) {
		const struct packet_group copy = g;
		const bool known = paths_learn_group(f, *place, *pos, *last_ip, &copy);

		load_tables(t);
		if (!known)
			return false;
	}
	p = span_path_of(t, x->entry);
	n = count_of(x->entry);
	if (UNLIKELY((size_t)(t->span_end - t->span) < (size_t)n + 2))
		return false;
	if (p->blocks) {
		t->now[1] = event_offset(f->events, *pos);
		put_spans(t, p, n);
	}
	close_span(t, span_ends_of(p)[n].to);
	t->depth = 0;
	put_event(t, g.kind == PACKET_GROUP_FUP_PGD ? PTAH_ITEM_ASYNC_DISABLED : PTAH_ITEM_DISABLED,
		  g.has_to ? 0 : PTAH_ITEM_IP_SUPPRESSED, g.ip, g.to, *pos);
	*pos = g.end;
	*last_ip = g.last_ip;
	*place = PLACE_OFF;
	return true;
}

/* Takes a TIP.PGE. */
static ALWAYS_INLINE bool switch_on(struct packet_taker *t, uint32_t *place, const uint8_t **pos,
				    uint64_t *last_ip)
{
	struct ptah_flow *f = t->flow;
	uint64_t ip = *last_ip;
	const unsigned size = packet_take_ip(*pos, &ip);

	if (!size || t->span == t->span_end)
		return false;
	put_event(t, PTAH_ITEM_ENABLED, 0, ip, 0, *pos);
	flow_lose_position(f);
	f->lost_return = 0;
	f->positioned = f->events->enabled = f->events->plain = true;
	t->depth = 0;
	t->ip = ip;
	*place = place_at(t, ip);
	*pos += size;
	*last_ip = ip;
	return true;
}

static ALWAYS_INLINE bool take_group(struct packet_taker *t, uint32_t *place, const uint8_t **pos,
				     uint64_t *last_ip)
{
	const unsigned opcode = **pos & OPCODE_IP_MASK;
	struct packet_group g;

	if (*place == PLACE_OFF)
		return opcode == OPCODE_TIP_PGE && switch_on(t, place, pos, last_ip);
	return (opcode == OPCODE_TIP_PGD || opcode == OPCODE_FUP) &&
	       packet_group_read(*pos, t->end, *last_ip, &g) && g.kind != PACKET_GROUP_FUP_TIP &&
	       switch_off(t, place, pos, last_ip, &g);
}

#include "flow/packet_loop.h"

/* Takes packets from the event decoder's position on, as long as their paths are known. */
static ALWAYS_INLINE void take_span_packets(struct packet_taker *taker, uint32_t place, bool timed)
{
	struct packet_taker copy = *taker, *const t = &copy;
	struct ptah_flow *f = t->flow;

	if (f->tnt_count) { /* for which there was no room, or that a path did not use */
		const uint64_t stop_bit = UINT64_C(1) << f->tnt_count;
		const uint64_t payload = stop_bit | (f->tnt & (stop_bit - 1));

		f->tnt_count = 0;
		place = take_many_outcomes(t, place, payload);
	}
	if (place)
		place = loop_over_packets(t, place, timed);
	if (t->moved) {
		f->offset = event_offset(f->events, t->moved);
		if (f->tnt_count)
			flow_leave_outcomes(f, t->moved);
	}
	f->stack_top = t->top;
	f->stack_depth = t->depth;
	*taker = copy;
	if (t->lost_tnt)
		f->events->pos = t->moved;
	if (place == PLACE_OFF || t->lost_tnt)
		flow_turn_off(f);
	else if (place)
		paths_leave(f, paths_node_at(f->paths, place), 1);
}

NOINLINE static void run_timed(struct packet_taker *taker, uint32_t place)
{
	take_span_packets(taker, place, true);
}

NOINLINE static void run_untimed(struct packet_taker *taker, uint32_t place)
{
	take_span_packets(taker, place, false);
}

void flow_run_span_paths(struct ptah_flow *f, struct flow_spans *out)
{
	struct ptah_span *first = out->spans + out->count, *open = &out->open;
	const uint32_t place = f->positioned ? paths_enter(f, true) : paths_enter_off(f, true);
	struct packet_taker t = {.flow = f,
				 .end = f->events->end - LOOP_LOOK,
				 .context = ((uint32_t)f->code.space << 2 | f->mode) + 1,
				 .span = first,
				 .span_end = out->spans + out->capacity,
				 .ip = open->ip,
				 .ninsn = open->ninsn,
				 .now = {f->tsc, f->offset},
				 .before = f->offset,
				 .ran_span = first,
				 .ran_ninsn = open->ninsn,
				 .ran_now = {open->tsc, open->offset},
				 .ran_cycles = open->cycles,
				 .ran_error = open->tsc_error,
				 .in_line = out->in_line,
				 .top = f->stack_top,
				 .depth = f->stack_depth};

	if (!place)
		return;
	load_tables(&t);
	load_time(&t);
	if (!open->ninsn && place != PLACE_OFF)
		t.ip = paths_node_at(f->paths, place)->ip;
	(f->events->time.cyc_seen ? run_timed : run_untimed)(&t, place);
	for (; UNLIKELY(f->speculative && first < t.span); first++)
		first->flags |= f->speculative;
	*open = (struct ptah_span){.ip = t.ip,
				   .to = f->node ? f->node->ip : f->ip,
				   .ninsn = t.ninsn,
				   .mode = f->mode,
				   .flags = f->speculative,
				   .space = f->code.space};
	put_time(&t, open);
	out->count = (size_t)(t.span - out->spans);
}
