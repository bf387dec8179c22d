/* SPDX-License-Identifier: MIT */
/*
 * Carries out packets whose paths are remembered (path_tables.h): copies the blocks, steps or items
 * of a packet's path into the caller's array, and continues at the place that the path leads to.
 */
#include "flow/path_tables.h"

#include "flow/emit_items.h"
#include "flow/pass_groups.h"

/* What the caller reads. */
enum form {
	FORM_ITEMS,
	FORM_BLOCKS,
	FORM_STEPS
};

/*
 * The caller's array, in one of the forms, and what changes with every packet. It is kept in
 * registers: for all the compiler knows, a write through one of these pointers could change the
 * flow.
 */
struct packet_taker {
	struct ptah_flow *flow;
	const uint8_t *end; /* see packet_loop.h */
	enum form form;	    /* constant, and known to the compiler */
	uint32_t context;   /* of the places in this address space and mode, plus 1 */
	struct ptah_item *item, *item_end;
	struct ptah_block *block, *block_end;
	struct ptah_step *step, *step_end;
	uint64_t head;
	word_pair now;	      /* tsc, offset */
	const uint8_t *moved; /* the last packet with outcomes or a target, or NULL */
	bool quiet;	      /* groups are taken without events */
	bool lost_tnt;	      /* that packet is a TNT although tracing is off: the flow's */
	unsigned top, depth;  /* of the return address stack */
	/* The tables, until learning moves them. */
	union entry *rows;
	const uint64_t *words;
};

static ALWAYS_INLINE uint32_t context_of(const struct ptah_flow *f)
{
	return ((uint32_t)f->code.space << 2 | f->mode) + 1;
}

static ALWAYS_INLINE void load_tables(struct packet_taker *to, const struct ptah_flow *f)
{
	to->rows = f->paths->rows;
	to->words = f->paths->words;
}

/* Whether there is room in the array for this path. */
static ALWAYS_INLINE bool can_put(const struct packet_taker *to, union entry entry,
				  const struct path *p, enum form form)
{
	if (form == FORM_ITEMS)
		return to->item_end - to->item >= count_of(entry);
	if (form == FORM_BLOCKS)
		return to->block_end - to->block >= count_of(entry) + BLOCK_GROUP;
	return to->step_end - to->step >= (ptrdiff_t)p->ninsn + STEP_GROUP;
}

static ALWAYS_INLINE void put_items(struct packet_taker *to, const struct path *p)
{
	const uint64_t *nodes = nodes_of(p);

	for (unsigned i = 0; i < p->blocks; i++) {
		const uint64_t taken = nodes[i] & 1;

		flow_put_block(to->item++, (const struct code_node *)(nodes[i] - taken),
			       to->head | taken << FLOW_TAKEN_SHIFT, to->now);
	}
}

/*
 * Copies whole groups: their number is easier to predict than that of blocks. What was
 * copied beyond the path is overwritten later.
 */
static ALWAYS_INLINE void put_blocks(struct packet_taker *to, const struct path *p, unsigned n)
{
	const struct ptah_block *from = blocks_of(p);
	struct ptah_block *block = to->block, *const end = block + n;

	do {
		memcpy(block, from, BLOCK_GROUP * sizeof(*block));
		block += BLOCK_GROUP;
		from += BLOCK_GROUP;
	} while (UNLIKELY(block < end));
	to->block = end;
}

static ALWAYS_INLINE void put_steps(struct packet_taker *to, const struct path *p)
{
	const struct ptah_step *from = (const struct ptah_step *)(to->words + p->steps_at);
	struct ptah_step *step = to->step, *const end = step + p->ninsn;

	do {
		memcpy(step, from, STEP_GROUP * sizeof(*step));
		step += STEP_GROUP;
		from += STEP_GROUP;
	} while (step < end);
	to->step = end;
}

/*
 * Learns a path that is not known, or not in this form. False: the flow has to carry the packet out
 * this time.
 */
NOINLINE static bool learn_path(struct ptah_flow *f, uint32_t place, unsigned payload,
				enum form form)
{
	struct path *p;

	if (place == PLACE_OFF)
		return false;
	if (f->paths->rows[place + payload].path < PATH_FIRST && !paths_learn(f, place, payload))
		return false;
	p = path_of(f->paths->words, f->paths->rows[place + payload]);
	return form != FORM_STEPS || p->steps_at || paths_learn_steps(f, p);
}

/*
 * Finds the path of a payload, if there is room for it. False: the flow has to carry the packet
 * out.
 */
static ALWAYS_INLINE bool find_path(struct ptah_flow *f, struct packet_taker *to, uint32_t place,
				    unsigned payload, union entry *entry, enum form form)
{
	*entry = to->rows[place + payload];
	if (UNLIKELY(entry->path < PATH_FIRST ||
		     (form == FORM_STEPS && !path_of(to->words, *entry)->steps_at))) {
		const bool known = learn_path(f, place, payload, form);

		load_tables(to, f);
		if (!known)
			return false;
		*entry = to->rows[place + payload];
	}
	return LIKELY(can_put(to, *entry, path_of(to->words, *entry), form));
}

static ALWAYS_INLINE void put_path(struct packet_taker *to, union entry entry, enum form form)
{
	const struct path *p = path_of(to->words, entry);

	if (form == FORM_ITEMS)
		put_items(to, p);
	else if (form == FORM_BLOCKS)
		put_blocks(to, p, count_of(entry));
	else
		put_steps(to, p);
}

/* Applies a path to the return address stack. */
static ALWAYS_INLINE void push_calls(struct ptah_flow *f, struct packet_taker *to,
				     union entry entry)
{
	const struct path *p = path_of(to->words, entry);
	const struct return_site *calls = open_calls_of(p);

	/* SDM: a push onto a full stack drops the oldest entry. */
	if (UNLIKELY(to->depth + p->reach > STACK_SIZE))
		to->depth = STACK_SIZE - p->reach;
	for (unsigned i = 0; i < p->pushes; i++)
		f->stack[to->top++ % STACK_SIZE] = calls[i];
	to->depth += p->pushes;
}

/* Carries out a return. Returns the site's place, or 0: then the flow is at the site. */
static ALWAYS_INLINE uint32_t return_from(struct ptah_flow *f, struct packet_taker *to)
{
	const struct return_site *site = &f->stack[--to->top % STACK_SIZE];
	uint32_t place = site->place;

	to->depth--;
	if (UNLIKELY(!place)) {
		place = paths_find_return(f, site);
		load_tables(to, f);
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
	struct code_node *node = *node_after(path_of(f->paths->words, entry));
	const uint32_t next = paths_place_of(f->paths, node);

	f->paths->rows[place + payload].next |= next;
	return next ? next : paths_leave(f, node, 1);
}

/*
 * Takes the outcomes of a TNT-8 or of a part of one. Returns the place after them. 0: the flow is
 * at the place reached, with the outcomes that are left.
 */
static ALWAYS_INLINE uint32_t take_outcomes(struct ptah_flow *f, struct packet_taker *to,
					    uint32_t place, unsigned payload, enum form form)
{
	for (;;) {
		union entry entry;
		uint32_t next;

		/* A return without an entry on the stack is an error, which the flow reports. */
		if (UNLIKELY(!find_path(f, to, place, payload, &entry, form) ||
			     (entry.next & NEXT_POPS && !to->depth))) {
			to->lost_tnt = place == PLACE_OFF;
			return to->lost_tnt
				   ? 0
				   : paths_leave(f, paths_node_at(f->paths, place), payload);
		}
		put_path(to, entry, form);
		next = entry.next & ~NEXT_KINDS;
		if (entry.next & NEXT_PUSHES)
			push_calls(f, to, entry);
		if (!(entry.next & NEXT_POPS)) {
			if (UNLIKELY(!next)) {
				next = link_path(f, place, payload);
				load_tables(to, f);
			}
			return next;
		}
		payload = next;
		place = return_from(f, to);
		if (UNLIKELY(!place))
			return paths_leave(f, f->node, payload);
		if (payload == 1)
			return place;
	}
}

/* Takes more outcomes than a TNT-8 has, six at a time. */
static ALWAYS_INLINE uint32_t take_many_outcomes(struct ptah_flow *f, struct packet_taker *to,
						 uint32_t place, uint64_t payload, enum form form)
{
	unsigned left = highest_bit(payload);

	while (left) {
		const unsigned n = left < 6 ? left : 6;
		const uint64_t bits = payload >> (left - n) & ((1u << n) - 1);

		left -= n;
		place = take_outcomes(f, to, place, 1u << n | (unsigned)bits, form);
		if (!place) { /* the flow gets the remaining outcomes as well */
			f->tnt = f->tnt << left | (payload & ((UINT64_C(1) << left) - 1));
			f->tnt_count += left;
			return 0;
		}
	}
	return place;
}

/*
 * Takes outcomes for which there was no room, or that a path did not use. Only for blocks and
 * steps: items also carry the time of the outcomes' packet.
 */
NOINLINE static uint32_t resume(struct ptah_flow *f, struct packet_taker *to, uint32_t place,
				enum form form)
{
	const uint64_t stop_bit = UINT64_C(1) << f->tnt_count;
	const uint64_t payload = stop_bit | (f->tnt & (stop_bit - 1));

	f->tnt_count = 0;
	load_tables(to, f);
	to->top = f->stack_top;
	to->depth = f->stack_depth;
	place = take_many_outcomes(f, to, place, payload, form);
	f->stack_top = to->top;
	f->stack_depth = to->depth;
	return place;
}

/* The place at the address that a packet leads to, or 0: then the flow is there. */
static ALWAYS_INLINE uint32_t place_at(struct ptah_flow *f, struct packet_taker *to, uint64_t ip)
{
	const struct target *t = &f->paths->targets[paths_slot(ip)];
	uint32_t place = t->place;

	if (UNLIKELY(t->ip != ip || t->context != to->context)) {
		place = paths_find_target(f, ip, to->context);
		load_tables(to, f);
	}
	return place;
}

/* Carries out a TIP. Returns the place of its target, or 0: then the flow is at the target. */
static ALWAYS_INLINE uint32_t go_to_target(struct ptah_flow *f, struct packet_taker *to,
					   union entry entry, uint64_t ip)
{
	put_path(to, entry, to->form);
	if (entry.next & NEXT_PUSHES)
		push_calls(f, to, entry);
	if (entry.next & NEXT_POPS && to->depth) {
		to->depth--;
		to->top--;
	}
	return place_at(f, to, ip);
}

/* What packet_loop.h needs to be defined. */

typedef uint32_t place_number;

/* The packet at `pos` moves the flow. */
static ALWAYS_INLINE void move(struct packet_taker *to, const uint8_t *pos)
{
	to->moved = pos;
	if (to->form == FORM_ITEMS)
		to->now[1] = event_offset(to->flow->events, pos);
}

static ALWAYS_INLINE uint32_t take_tnt(struct packet_taker *to, uint32_t place, unsigned payload,
				       const uint8_t *pos)
{
	move(to, pos);
	return take_outcomes(to->flow, to, place, payload, to->form);
}

static ALWAYS_INLINE uint32_t take_tnt_64(struct packet_taker *to, uint32_t place,
					  const uint8_t *pos)
{
	move(to, pos);
	if (UNLIKELY(place == PLACE_OFF)) {
		to->lost_tnt = true;
		return 0;
	}
	return take_many_outcomes(to->flow, to, place, load_le64(pos) >> 16, to->form);
}

static ALWAYS_INLINE bool take_tip(struct packet_taker *to, uint32_t *place, const uint8_t *pos,
				   uint64_t ip)
{
	union entry entry;

	if (UNLIKELY(!find_path(to->flow, to, *place, 0, &entry, to->form)))
		return false;
	move(to, pos);
	*place = go_to_target(to->flow, to, entry, ip);
	return true;
}

static ALWAYS_INLINE void take_time(struct packet_taker *to)
{
	struct ptah_flow *f = to->flow;

	flow_set_time(f, f->offset);
	to->head = f->head;
	to->now[0] = f->tsc;
}

/* Items carry a time, blocks and steps do not. */
static ALWAYS_INLINE void take_cyc(struct packet_taker *to, struct event_cycles *cycles)
{
	if (to->form != FORM_ITEMS)
		return;
	event_settle_cycles(to->flow->events, cycles, to->flow->time_limit);
	take_time(to);
}

/*
 * Reports an event, after the loop if it is not an item in the caller's array. `pos`: the packet
 * that it begins with. The caller can act before what follows, where it wants to.
 */
static ALWAYS_INLINE void put_event(struct packet_taker *to, unsigned type, uint8_t flags,
				    uint64_t ip, uint64_t target, const uint8_t *pos)
{
	struct ptah_flow *f = to->flow;
	const struct ptah_event_decoder *d = f->events;
	struct ptah_item *item = to->form == FORM_ITEMS ? to->item : &f->held;

	to->moved = pos;
	if (f->no_events)
		return;
	*item = (struct ptah_item){.type = (uint8_t)type,
				   .flags = flags | (d->in_tx ? PTAH_ITEM_SPECULATIVE : 0),
				   .mode = d->mode,
				   .tsc_error = d->tsc_error,
				   .ip = ip,
				   .to = target,
				   .tsc = d->tsc,
				   .offset = event_offset(d, pos)};
	if (to->form == FORM_ITEMS)
		to->item++;
	else
		f->has_held = true;
	if (to->form != FORM_ITEMS || f->stop_at_events)
		to->end = pos - 1;
}

static ALWAYS_INLINE bool has_event_room(const struct packet_taker *to)
{
	return to->form != FORM_ITEMS || to->item != to->item_end;
}

/* The same for a path, with the part of a node at its end. */
static ALWAYS_INLINE void put_group_path(struct packet_taker *to, union entry entry)
{
	const struct path *p = path_of(to->words, entry);
	const struct ptah_block *last;

	put_path(to, entry, to->form);
	if (to->form != FORM_ITEMS || !p->cut)
		return;
	last = blocks_of(p) + p->blocks - 1;
	to->item[-1].flags |= PTAH_ITEM_TRUNCATED;
	to->item[-1].insn_class = PTAH_INSN_OTHER;
	to->item[-1].ninsn = last->ninsn;
	to->item[-1].last_size = last->last_size;
	to->item[-1].end = last->ip + last->size;
}

/* Learns the path of packets that belong together, or learns it in this form. */
NOINLINE static bool learn_group(struct ptah_flow *f, uint32_t place, const uint8_t *pos,
				 uint64_t last_ip, const struct packet_group *g, enum form form)
{
	const struct transition *x = paths_transition(f->paths, place, g->ip, g->to);
	struct path *p;

	if ((!paths_is_transition(x, place, g) || x->entry.path < PATH_FIRST) &&
	    !paths_learn_group(f, place, pos, last_ip, g))
		return false;
	p = path_of(f->paths->words, x->entry);
	return form != FORM_STEPS || p->steps_at || paths_learn_steps(f, p);
}

/* Tracing is off, and events are not wanted: up to the next TIP.PGE, or to what the flow has to do.
 */
static ALWAYS_INLINE void pass_off(struct packet_taker *to, uint32_t *place, const uint8_t **pos,
				   uint64_t *last_ip)
{
	struct ptah_flow *f = to->flow;
	const uint8_t *at = *pos;
	uint64_t ip = *last_ip;
	const bool on = paths_pass_off(f, &at, to->end, &ip);

	*pos = at;
	*last_ip = ip;
	to->depth = 0;
	if (on) {
		to->context = context_of(f);
		*place = place_at(f, to, f->ip);
	} else {
		*place = PLACE_OFF;
		to->end = at - 1;
	}
}

/* Takes a PSB+ while tracing is on. */
static ALWAYS_INLINE bool take_psb(struct packet_taker *to, uint32_t place, const uint8_t **pos,
				   uint64_t *last_ip)
{
	uint64_t ip = *last_ip;
	const uint8_t *end = paths_pass_psb(to->flow, place, *pos, to->end, &ip);

	if (!end)
		return false;
	to->depth = 0;
	*pos = end;
	*last_ip = ip;
	return true;
}

/* Takes a TIP.PGD, or one after a FUP. */
static ALWAYS_INLINE bool switch_off(struct packet_taker *to, uint32_t *place, const uint8_t **pos,
				     uint64_t *last_ip, const struct packet_group *group)
{
	const struct packet_group g = *group;
	const struct transition *x = paths_transition(to->flow->paths, *place, g.ip, g.to);
	union entry entry = x->entry;

	if (UNLIKELY(!paths_is_transition(x, *place, &g) || entry.path < PATH_FIRST ||
		     (to->form == FORM_STEPS && !path_of(to->words, entry)->steps_at))) {
		const struct packet_group copy = g;
		const bool known = learn_group(to->flow, *place, *pos, *last_ip, &copy, to->form);

		load_tables(to, to->flow);
		if (!known)
			return false;
		entry = x->entry;
	}
	if (!has_event_room(to) || !can_put(to, entry, path_of(to->words, entry), to->form) ||
	    (to->form == FORM_ITEMS && to->item_end - to->item == count_of(entry)))
		return false;
	if (to->form == FORM_ITEMS)
		to->now[1] = event_offset(to->flow->events, *pos);
	put_group_path(to, entry);
	to->depth = 0;
	put_event(to,
		  g.kind == PACKET_GROUP_FUP_PGD ? PTAH_ITEM_ASYNC_DISABLED : PTAH_ITEM_DISABLED,
		  g.has_to ? 0 : PTAH_ITEM_IP_SUPPRESSED, g.ip, g.to, *pos);
	*pos = g.end;
	*last_ip = g.last_ip;
	if (to->quiet)
		pass_off(to, place, pos, last_ip);
	else
		*place = PLACE_OFF;
	return true;
}

/* Takes a TIP.PGE. */
static ALWAYS_INLINE bool switch_on(struct packet_taker *to, uint32_t *place, const uint8_t **pos,
				    uint64_t *last_ip)
{
	struct ptah_flow *f = to->flow;
	uint64_t ip = *last_ip;
	const unsigned size = packet_take_ip(*pos, &ip);

	if (!size || !has_event_room(to))
		return false;
	put_event(to, PTAH_ITEM_ENABLED, 0, ip, 0, *pos);
	flow_lose_position(f);
	f->lost_return = 0;
	f->positioned = f->events->enabled = f->events->plain = true;
	to->depth = 0;
	*place = place_at(f, to, ip);
	*pos += size;
	*last_ip = ip;
	return true;
}

static ALWAYS_INLINE bool take_group(struct packet_taker *to, uint32_t *place, const uint8_t **pos,
				     uint64_t *last_ip)
{
	const unsigned opcode = **pos & OPCODE_IP_MASK;
	struct packet_group g;

	if (*place == PLACE_OFF) {
		if (to->quiet)
			pass_off(to, place, pos, last_ip);
		return to->quiet ||
		       (opcode == OPCODE_TIP_PGE && switch_on(to, place, pos, last_ip));
	}
	if (opcode == OPCODE_TIP_PGD || opcode == OPCODE_FUP)
		return packet_group_read(*pos, to->end, *last_ip, &g) &&
		       g.kind != PACKET_GROUP_FUP_TIP && switch_off(to, place, pos, last_ip, &g);
	return to->quiet && load_le64(*pos) == PSB_WORD && take_psb(to, *place, pos, last_ip);
}

#include "flow/packet_loop.h"

/* Takes packets from the event decoder's position on, as long as their paths are known. */
static ALWAYS_INLINE void take_path_packets(struct ptah_flow *f, struct packet_taker *sink,
					    uint32_t place, enum form form, bool timed)
{
	struct packet_taker copy = *sink, *const to = &copy;

	to->flow = f;
	to->end = f->events->end - LOOP_LOOK;
	to->form = form;
	to->context = context_of(f);
	to->now[1] = f->offset;
	to->top = f->stack_top;
	to->depth = f->stack_depth;
	to->moved = NULL;
	to->quiet = f->no_events && flow_can_pass_groups(f);
	to->lost_tnt = false;
	load_tables(to, f);
	place = loop_over_packets(to, place, timed);
	if (to->moved) {
		f->offset = event_offset(f->events, to->moved);
		if (f->tnt_count)
			flow_leave_outcomes(f, to->moved);
	}
	f->stack_top = to->top;
	f->stack_depth = to->depth;
	*sink = copy;
	if (to->lost_tnt)
		f->events->pos = to->moved;
	if (place == PLACE_OFF || to->lost_tnt)
		flow_turn_off(f);
	else if (place)
		paths_leave(f, paths_node_at(f->paths, place), 1);
}

/*
 * A loop for each form, and each with and without CYC packets: no form pays for what it does not
 * need.
 */
NOINLINE static void run_items(struct ptah_flow *f, struct packet_taker *sink, uint32_t place)
{
	take_path_packets(f, sink, place, FORM_ITEMS, false);
}

NOINLINE static void run_items_timed(struct ptah_flow *f, struct packet_taker *sink, uint32_t place)
{
	take_path_packets(f, sink, place, FORM_ITEMS, true);
}

NOINLINE static void run_blocks(struct ptah_flow *f, struct packet_taker *sink, uint32_t place)
{
	take_path_packets(f, sink, place, FORM_BLOCKS, false);
}

NOINLINE static void run_blocks_timed(struct ptah_flow *f, struct packet_taker *sink,
				      uint32_t place)
{
	take_path_packets(f, sink, place, FORM_BLOCKS, true);
}

NOINLINE static void run_steps(struct ptah_flow *f, struct packet_taker *sink, uint32_t place)
{
	take_path_packets(f, sink, place, FORM_STEPS, false);
}

NOINLINE static void run_steps_timed(struct ptah_flow *f, struct packet_taker *sink, uint32_t place)
{
	take_path_packets(f, sink, place, FORM_STEPS, true);
}

static uint32_t enter_path(struct ptah_flow *f)
{
	return f->positioned ? paths_enter(f, false) : paths_enter_off(f, false);
}

void flow_run_paths(struct ptah_flow *f, struct flow_output *out)
{
	struct packet_taker to = {.item = out->items + out->count,
				  .item_end = out->items + out->capacity};
	const uint32_t place = enter_path(f);

	if (place)
		(f->events->time.cyc_seen ? run_items_timed : run_items)(f, &to, place);
	out->count = (size_t)(to.item - out->items);
	if (f->stop_at_events && out->count && to.item != out->items &&
	    to.item[-1].type != PTAH_ITEM_BLOCK)
		flow_end_batch(out);
}

void flow_run_block_paths(struct ptah_flow *f, struct flow_blocks *out)
{
	struct ptah_block *block = out->blocks + out->count;
	struct packet_taker to = {.block = block, .block_end = out->blocks + out->capacity};
	uint32_t place = enter_path(f);

	if (place && f->tnt_count)
		place = resume(f, &to, place, FORM_BLOCKS);
	if (place)
		(f->events->time.cyc_seen ? run_blocks_timed : run_blocks)(f, &to, place);
	/*
	 * Transactions are rare, and the flag is the same for all blocks: so it is not in the loop.
	 */
	for (; UNLIKELY(f->speculative && block < to.block); block++)
		block->flags |= f->speculative;
	out->count = (size_t)(to.block - out->blocks);
}

void flow_run_step_paths(struct ptah_flow *f, struct flow_steps *out)
{
	struct ptah_step *step = out->steps + out->count;
	struct packet_taker to = {.step = step, .step_end = out->steps + out->capacity};
	uint32_t place = enter_path(f);

	if (place && f->tnt_count)
		place = resume(f, &to, place, FORM_STEPS);
	if (place)
		(f->events->time.cyc_seen ? run_steps_timed : run_steps)(f, &to, place);
	for (; UNLIKELY(f->speculative && step < to.step); step++)
		step->flags |= f->speculative;
	out->count = (size_t)(to.step - out->steps);
}
