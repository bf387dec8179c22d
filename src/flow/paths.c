/* SPDX-License-Identifier: MIT */
#include "flow/paths.h"

#include "flow/route.h"

#include <stdlib.h>

/* The longest packet that the loop takes, and what it loads at once. */
#define LOOK PATHS_MIN_BYTES

/* A node becomes a place when it is come to this often. */
#define PROMOTE 3

/* What the tables may hold before they are begun anew: about 70 and 64 MB. */
#define MAX_PLACES ((size_t)1 << 16)
#define MAX_WORDS  ((size_t)8 << 20)

#define FIRST_PLACES 64
#define FIRST_WORDS  4096
#define TARGETS	     4096

/* Blocks in one path: a longer one is the flow's. */
#define MAX_BLOCKS 64

/* So many are copied at a time, whether all are wanted or not. */
#define BLOCK_GROUP 4
#define STEP_GROUP  8

#define TAKEN_BIT 3
_Static_assert(PTAH_ITEM_TAKEN == 1 << TAKEN_BIT, "TAKEN_BIT");

/*
 * What a place knows of a payload, and of a TIP in [0]. [1], which no payload
 * has, is its node. A place's number is where its row begins, so that the next
 * entry is found by one load from this one: all else is off that chain.
 */
union entry {
	struct {
		uint32_t path; /* PATH_*, or where it is */
		uint32_t next; /* the place behind it, if that is all; else 0 */
	};
	struct code_node *node;
};

#define ROW 128

/* Rows are a line longer than they need be, so that they do not share cache sets. */
#define STRIDE (ROW + 8)

enum {
	PATH_NEVER = 0,	  /* not seen */
	PATH_SEEN = 1,	  /* once: the second time it is made */
	PATH_REFUSED = 2, /* not so simple: the flow's, every time */
	PATH_FIRST = 3,
};

/* A call that a path leaves open, and the place it returns to, or 0. */
struct open_call {
	struct code_node *call;
	uint64_t place;
};

/*
 * Followed by its nodes with bit 0 for "taken", the same as blocks, and its open
 * calls. A return from before the packet, and a TIP's branch, are the last node.
 */
struct path {
	struct code_node *node; /* behind it, where that is always the same */
	uint32_t ninsn;		/* of its nodes */
	uint8_t blocks;
	uint8_t pushes;	   /* open calls */
	uint8_t reach;	   /* how far the stack was up in between */
	uint8_t rest;	   /* payload behind the return at its end; 0: there is none */
	bool pops;	   /* TIP: a return whose entry is taken off */
	uint32_t next;	   /* the place behind it; 0: not known yet */
	uint32_t calls_at; /* in list[] */
	uint32_t steps_at; /* the same as steps, in words; 0: not asked for yet */
	uint64_t list[];
};

#define PATH_WORDS (sizeof(struct path) / 8)
_Static_assert(sizeof(struct path) % 8 == 0, "paths lie in an array of words");

static ALWAYS_INLINE struct ptah_block *blocks_of(const struct path *p)
{
	return (struct ptah_block *)(p->list + p->blocks);
}

static ALWAYS_INLINE struct open_call *open_calls_of(const struct path *p)
{
	return (struct open_call *)(p->list + p->calls_at);
}

/* Places by the address of a TIP: a cache, one slot for each hash. */
struct target {
	uint64_t ip;
	uint32_t context; /* space and mode */
	uint32_t place;	  /* 0: free */
};

struct flow_paths {
	union entry *rows; /* STRIDE for each place; the first is none */
	size_t place_count, place_capacity;
	uint64_t *words;
	size_t word_count, word_capacity;
	bool full; /* as large as they may be, or out of memory: to be begun anew */
	struct target targets[TARGETS];
};

struct flow_paths *flow_paths_new(void)
{
	struct flow_paths *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->words = malloc(FIRST_WORDS * sizeof(*s->words));
	if (!s->words) {
		free(s);
		return NULL;
	}
	s->word_capacity = FIRST_WORDS;
	s->place_count = 1;
	s->word_count = PATH_FIRST;
	return s;
}

void flow_paths_free(struct flow_paths *s)
{
	if (!s)
		return;
	free(s->rows);
	free(s->words);
	free(s);
}

void flow_paths_forget(struct ptah_flow *f)
{
	struct flow_paths *s = f->paths;

	if (!s || s->place_count == 1)
		return;
	code_forget_places(&f->code);
	for (unsigned i = 0; i < STACK_SIZE; i++)
		f->stack[i].place = 0;
	s->place_count = 1;
	s->word_count = PATH_FIRST;
	s->full = false;
	memset(s->targets, 0, sizeof(s->targets));
}

/* Places */

static bool grow_places(struct flow_paths *s)
{
	size_t capacity = s->place_capacity ? 2 * s->place_capacity : FIRST_PLACES;
	union entry *rows;

	if (s->place_count >= MAX_PLACES)
		return false;
	rows = realloc(s->rows, capacity * STRIDE * sizeof(*rows));
	if (!rows)
		return false;
	s->rows = rows;
	s->place_capacity = capacity;
	return true;
}

/* A place of the node's own; 0: the tables are full. */
static uint32_t make_place(struct flow_paths *s, struct code_node *node)
{
	uint32_t place;

	if (s->full || (s->place_count >= s->place_capacity && !grow_places(s))) {
		s->full = true;
		return 0;
	}
	place = (uint32_t)(s->place_count++ * STRIDE);
	memset(&s->rows[place], 0, STRIDE * sizeof(*s->rows));
	s->rows[place + 1].node = node;
	*code_place(node) = place;
	return place;
}

/* The node's place, if it is worth one by now; else 0. */
NOINLINE static uint32_t ask_for_place(struct flow_paths *s, struct code_node *node,
				       uint32_t *known)
{
	return ++*known < PROMOTE ? 0 : make_place(s, node);
}

static ALWAYS_INLINE uint32_t place_of(struct flow_paths *s, struct code_node *node)
{
	uint32_t *known = code_place(node);

	return LIKELY(*known >= STRIDE) ? *known : ask_for_place(s, node, known);
}

static ALWAYS_INLINE struct code_node *node_at(const struct flow_paths *s, uint32_t place)
{
	return s->rows[place + 1].node;
}

/* Making paths */

static struct ptah_block block_of(const struct code_node *node, uint8_t flags)
{
	return (struct ptah_block){.ip = node->ip,
				   .size = (uint16_t)(node->end - node->ip),
				   .space = node->space,
				   .ninsn = (uint8_t)node->ninsn,
				   .class = node->class,
				   .mode = node->mode,
				   .flags = flags};
}

/* Notes the nodes on a route. */
struct listing {
	uint32_t count, ninsn;
	uint64_t nodes[MAX_BLOCKS + 1]; /* one more than fits tells that it does not */
};

static void list_node(void *context, const struct code_node *node, bool taken, const uint64_t *to)
{
	struct listing *l = context;

	(void)to;
	if (l->count <= MAX_BLOCKS)
		l->nodes[l->count++] = (uintptr_t)node | taken;
	l->ninsn += code_ninsn(node);
}

/* Room for so many more words; what is there may move. NULL: the tables are full. */
static uint64_t *new_words(struct flow_paths *s, size_t n)
{
	uint64_t *words;

	while (s->word_count + n > s->word_capacity) {
		size_t capacity = 2 * s->word_capacity;
		uint64_t *grown = capacity <= MAX_WORDS ? realloc(s->words, capacity * 8) : NULL;

		if (!grown) {
			s->full = true;
			return NULL;
		}
		s->words = grown;
		s->word_capacity = capacity;
	}
	words = s->words + s->word_count;
	memset(words, 0, n * sizeof(*words));
	s->word_count += n;
	return words;
}

/* A call's return site: as likely to be come to as the call is to be made again. */
static uint32_t return_place(struct ptah_flow *f, struct code_node *call)
{
	struct code_node *node;
	int status;

	if (!call->next[0])
		call->next[0] = code_find(&f->code, call->end, code_mode(call), &status);
	node = call->next[0];
	if (!node)
		return 0;
	return *code_place(node) >= STRIDE ? *code_place(node) : make_place(f->paths, node);
}

static struct path *make_path(struct flow_paths *s, const struct route *r, const struct listing *l)
{
	const size_t calls_at = l->count + 2 * (l->count + BLOCK_GROUP);
	struct path *path = (struct path *)new_words(s, PATH_WORDS + calls_at + 2 * r->pushes);
	struct open_call *calls;
	struct ptah_block *blocks;

	if (!path)
		return NULL;
	path->node = r->node;
	path->ninsn = l->ninsn;
	path->blocks = (uint8_t)l->count;
	path->pushes = (uint8_t)r->pushes;
	path->reach = (uint8_t)r->reach;
	path->calls_at = (uint32_t)calls_at;
	memcpy(path->list, l->nodes, l->count * sizeof(*path->list));
	blocks = blocks_of(path);
	for (unsigned i = 0; i < l->count; i++)
		blocks[i] = block_of((const struct code_node *)(l->nodes[i] & ~UINT64_C(1)),
				     (uint8_t)((l->nodes[i] & 1) << TAKEN_BIT));
	calls = open_calls_of(path);
	for (unsigned i = 0; i < r->pushes; i++) {
		calls[i].call = r->calls[i];
		calls[i].place = return_place(r->flow, r->calls[i]);
	}
	return path;
}

static struct path *make_tnt_path(struct flow_paths *s, struct route *r, struct listing *l,
				  unsigned payload)
{
	const enum route_stop stop = route_spend(r, payload);
	struct path *path;
	unsigned rest;

	if (stop == ROUTE_RETURN)
		list_node(l, r->node, false, NULL);
	if ((stop != ROUTE_SPENT && stop != ROUTE_RETURN) || !r->node || l->count > MAX_BLOCKS)
		return NULL;
	path = make_path(s, r, l);
	if (!path || stop == ROUTE_SPENT)
		return path;
	rest = (1u << (r->left - 1)) - 1;
	path->rest = (uint8_t)(rest + 1 + (payload & rest));
	return path;
}

static struct path *make_tip_path(struct flow_paths *s, struct route *r, struct listing *l)
{
	struct path *path;
	bool pops;

	if (!route_take_tip(r, &pops) || !flow_is_near_indirect(r->node))
		return NULL;
	list_node(l, r->node, false, NULL);
	if (l->count > MAX_BLOCKS)
		return NULL;
	path = make_path(s, r, l);
	if (path)
		path->pops = pops;
	return path;
}

/* Finds out what a payload does, the second time it is asked for. False: it is the flow's. */
NOINLINE static bool learn(struct ptah_flow *f, uint32_t place, unsigned payload)
{
	struct flow_paths *s = f->paths;
	const uint32_t known = s->rows[place + payload].path;
	struct listing l = {0};
	struct route r = {.flow = f,
			  .node = node_at(s, place),
			  .ip = node_at(s, place)->ip,
			  .mode = f->mode,
			  .no_stack = f->no_retcomp,
			  .visit = list_node,
			  .context = &l};
	struct path *path;

	if (known == PATH_REFUSED)
		return false;
	if (known == PATH_NEVER) {
		s->rows[place + payload].path = PATH_SEEN;
		return false;
	}
	path = payload ? make_tnt_path(s, &r, &l, payload) : make_tip_path(s, &r, &l);
	if (path)
		s->rows[place + payload].path = (uint32_t)((uint64_t *)path - s->words);
	else if (!s->full)
		s->rows[place + payload].path = PATH_REFUSED;
	return path;
}

/* Lists the path's steps. False: it cannot be done. The path may move. */
NOINLINE static bool learn_steps(struct ptah_flow *f, struct path *p)
{
	struct flow_paths *s = f->paths;
	const size_t at = (size_t)((uint64_t *)p - s->words);
	struct ptah_step *step = (struct ptah_step *)new_words(s, 2 * (p->ninsn + STEP_GROUP));

	if (!step)
		return false;
	p = (struct path *)(s->words + at);
	for (unsigned i = 0; i < p->blocks; i++) {
		struct code_node *node = (struct code_node *)(p->list[i] & ~UINT64_C(1));
		const struct ptah_insn *insns = code_node_insns(&f->code, node);

		if (!insns)
			return false;
		step = flow_put_steps(step, insns, code_ninsn(node), node->space,
				      (uint8_t)((p->list[i] & 1) << TAKEN_BIT));
	}
	p->steps_at = (uint32_t)((uint64_t *)step - 2 * p->ninsn - s->words);
	return true;
}

static ALWAYS_INLINE struct path *path_of(const struct flow_paths *s, uint32_t place,
					  unsigned payload)
{
	return (struct path *)(s->words + s->rows[place + payload].path);
}

/* What is asked for. */
enum form {
	FORM_ITEMS,
	FORM_BLOCKS,
	FORM_STEPS
};

/*
 * Where blocks go, in one of the forms, with what they have of now. Kept in
 * registers: what is written through it could, for all the compiler knows, be
 * the flow's.
 */
struct sink {
	struct ptah_item *item, *item_end;
	struct ptah_block *block, *block_end;
	struct ptah_step *step, *step_end;
	uint64_t head;
	word_pair now; /* tsc, offset */
	uint8_t flags; /* of blocks and steps */
};

/* Is there room for a path, and is all known of it that is needed? */
static ALWAYS_INLINE bool can_put(const struct sink *to, const struct path *p, enum form form)
{
	if (form == FORM_ITEMS)
		return to->item + p->blocks <= to->item_end;
	if (form == FORM_BLOCKS)
		return to->block + p->blocks + BLOCK_GROUP <= to->block_end;
	return to->step + p->ninsn + STEP_GROUP <= to->step_end;
}

static ALWAYS_INLINE void put_items(struct sink *to, const struct path *p)
{
	for (unsigned i = 0; i < p->blocks; i++) {
		const uint64_t taken = p->list[i] & 1;

		flow_put_block(to->item++, (const struct code_node *)(p->list[i] - taken),
			       to->head | taken << FLOW_TAKEN_SHIFT, to->now);
	}
}

/* Whole groups: how many there are is easier to predict. What is too much is written over. */
static ALWAYS_INLINE void put_blocks(struct sink *to, const struct path *p)
{
	const struct ptah_block *from = blocks_of(p);
	struct ptah_block *block = to->block, *const end = block + p->blocks;

	do {
		memcpy(block, from, BLOCK_GROUP * sizeof(*block));
		if (UNLIKELY(to->flags))
			for (unsigned i = 0; i < BLOCK_GROUP; i++)
				block[i].flags |= to->flags;
		block += BLOCK_GROUP;
		from += BLOCK_GROUP;
	} while (block < end);
	to->block = end;
}

static ALWAYS_INLINE void put_steps(struct sink *to, const struct path *p, const uint64_t *words)
{
	const struct ptah_step *from = (const struct ptah_step *)(words + p->steps_at);
	struct ptah_step *step = to->step, *const end = step + p->ninsn;

	do {
		memcpy(step, from, STEP_GROUP * sizeof(*step));
		if (UNLIKELY(to->flags))
			for (unsigned i = 0; i < STEP_GROUP; i++)
				step[i].flags |= to->flags;
		step += STEP_GROUP;
		from += STEP_GROUP;
	} while (step < end);
	to->step = end;
}

/* A path that is not known, or not in this form. NULL: it is the flow's, this time. */
NOINLINE static const struct path *learn_path(struct ptah_flow *f, uint32_t place, unsigned payload,
					      enum form form)
{
	struct path *p;

	if (f->paths->rows[place + payload].path < PATH_FIRST && !learn(f, place, payload))
		return NULL;
	p = path_of(f->paths, place, payload);
	if (form == FORM_STEPS && !p->steps_at) {
		if (!learn_steps(f, p))
			return NULL;
		p = path_of(f->paths, place, payload);
	}
	return p;
}

/* The path of a payload, with room for it. */
static ALWAYS_INLINE const struct path *find_path(struct ptah_flow *f, const struct sink *to,
						  uint32_t place, unsigned payload, enum form form)
{
	const uint32_t at = f->paths->rows[place + payload].path;
	const struct path *p = (const struct path *)(f->paths->words + at);

	if (UNLIKELY(at < PATH_FIRST || (form == FORM_STEPS && !p->steps_at)))
		p = learn_path(f, place, payload, form);
	return LIKELY(p && can_put(to, p, form)) ? p : NULL;
}

static ALWAYS_INLINE void put_path(const struct ptah_flow *f, struct sink *to, const struct path *p,
				   enum form form)
{
	if (form == FORM_ITEMS)
		put_items(to, p);
	else if (form == FORM_BLOCKS)
		put_blocks(to, p);
	else
		put_steps(to, p, f->paths->words);
}

/* What a path does to the call stack. */
static ALWAYS_INLINE void push_calls(struct ptah_flow *f, const struct path *p)
{
	const struct open_call *calls = open_calls_of(p);

	/* SDM: a push onto a full stack drops the oldest entry. */
	if (UNLIKELY(f->stack_depth + p->reach > STACK_SIZE))
		f->stack_depth = STACK_SIZE - p->reach;
	for (unsigned i = 0; i < p->pushes; i++)
		f->stack[f->stack_top++ % STACK_SIZE] = (struct return_site){
		    calls[i].call->end, calls[i].call, (uint32_t)calls[i].place};
	f->stack_depth += p->pushes;
}

/* The flow goes on from a node, with the outcomes of a payload. */
static ALWAYS_INLINE uint32_t leave(struct ptah_flow *f, struct code_node *node, unsigned payload)
{
	const unsigned n = highest_bit(payload);

	f->node = node;
	f->tnt = payload & ((1u << n) - 1);
	f->tnt_count = n;
	return 0;
}

/* The site's place is not known, or not of this mode. */
NOINLINE static uint32_t find_return(struct ptah_flow *f, const struct return_site *site)
{
	struct code_node *call = site->call;
	int status;

	f->ip = site->ip;
	f->node = NULL;
	if (!call || code_mode(call) != f->mode)
		return 0;
	if (!call->next[0])
		call->next[0] = code_find(&f->code, call->end, f->mode, &status);
	f->node = call->next[0];
	return f->node ? place_of(f->paths, f->node) : 0;
}

/* Back from a call: to a place, or 0 and the flow has been told where it is. */
static ALWAYS_INLINE uint32_t return_from(struct ptah_flow *f)
{
	const struct return_site *site = &f->stack[--f->stack_top % STACK_SIZE];

	f->stack_depth--;
	return LIKELY(site->place && code_mode(site->call) == f->mode) ? site->place
								       : find_return(f, site);
}

/* The place behind a path, put down for the next time; or 0, and the flow stands there. */
NOINLINE static uint32_t link_path(struct ptah_flow *f, uint32_t place, unsigned payload)
{
	struct path *p = path_of(f->paths, place, payload);

	p->next = place_of(f->paths, p->node);
	if (!p->reach)
		f->paths->rows[place + payload].next = p->next;
	return p->next ? p->next : leave(f, p->node, 1);
}

/*
 * The outcomes of a TNT-8 or a part of one. The place behind them, or 0: the
 * flow has been told where it stands and which outcomes are left.
 */
static ALWAYS_INLINE uint32_t take_outcomes(struct ptah_flow *f, struct sink *to, uint32_t place,
					    unsigned payload, enum form form)
{
	for (;;) {
		const struct path *p = find_path(f, to, place, payload, form);
		const uint32_t next = f->paths->rows[place + payload].next;

		/* A return without an entry on the stack is an error: the flow's to say. */
		if (UNLIKELY(!p || (!next && p->rest && !f->stack_depth)))
			return leave(f, node_at(f->paths, place), payload);
		put_path(f, to, p, form);
		if (LIKELY(next))
			return next;
		if (p->reach)
			push_calls(f, p);
		if (!p->rest)
			return LIKELY(p->next) ? p->next : link_path(f, place, payload);
		payload = p->rest;
		place = return_from(f);
		if (UNLIKELY(!place))
			return leave(f, f->node, payload);
		if (payload == 1)
			return place;
	}
}

/* A TNT-64, six outcomes at a time. */
static ALWAYS_INLINE uint32_t take_long(struct ptah_flow *f, struct sink *to, uint32_t place,
					uint64_t payload, enum form form)
{
	unsigned left = highest_bit(payload);

	while (left) {
		const unsigned n = left < 6 ? left : 6;
		const uint64_t bits = payload >> (left - n) & ((1u << n) - 1);

		left -= n;
		place = take_outcomes(f, to, place, 1u << n | (unsigned)bits, form);
		if (!place) { /* the flow gets the rest as well */
			f->tnt = f->tnt << left | (payload & ((UINT64_C(1) << left) - 1));
			f->tnt_count += left;
			return 0;
		}
	}
	return place;
}

static ALWAYS_INLINE size_t slot_of(uint64_t ip)
{
	return (size_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 40) % TARGETS;
}

NOINLINE static uint32_t find_target(struct ptah_flow *f, uint64_t ip, uint32_t context)
{
	int status;
	struct code_node *node = code_find(&f->code, ip, f->mode, &status);
	uint32_t place;

	f->ip = ip;
	f->node = node;
	place = node ? place_of(f->paths, node) : 0;
	if (place)
		f->paths->targets[slot_of(ip)] = (struct target){ip, context, place};
	return place;
}

/* The place that a TIP leads to, or 0: the flow stands there. */
static ALWAYS_INLINE uint32_t take_tip(struct ptah_flow *f, struct sink *to, const struct path *p,
				       uint64_t ip, uint32_t context, enum form form)
{
	const struct target *t = &f->paths->targets[slot_of(ip)];

	put_path(f, to, p, form);
	if (p->reach)
		push_calls(f, p);
	if (p->pops && f->stack_depth) {
		f->stack_depth--;
		f->stack_top--;
	}
	return LIKELY(t->ip == ip && t->context == context && t->place)
		   ? t->place
		   : find_target(f, ip, context);
}

/* The clocks have moved, or may have. */
static ALWAYS_INLINE void set_now(struct ptah_flow *f, struct sink *to)
{
	flow_set_time(f, f->offset);
	to->head = f->head;
	to->now[0] = f->tsc;
	to->flags = f->speculative;
}

/* The clocks are told of the cycles that wait. */
static ALWAYS_INLINE void tell_cycles(struct ptah_flow *f, struct sink *to, struct event_cycles *c)
{
	event_settle_cycles(f->events, c, f->time_limit);
	set_now(f, to);
}

/* The packets that are ours, from the decoder's position on. */
static ALWAYS_INLINE void run(struct ptah_flow *f, struct sink *sink, uint32_t place,
			      enum form form)
{
	struct sink copy = *sink, *const to = &copy;
	struct ptah_event_decoder *d = f->events;
	const uint32_t context = (uint32_t)f->code.space << 2 | f->mode;
	const uint8_t *pos = d->pos, *const end = d->end - LOOK;
	struct event_cycles cycles = {.sum = 0};
	uint64_t last_ip = d->last_ip;
	const struct path *p;
	unsigned cyc;

	to->now[1] = f->offset;
	tell_cycles(f, to, &cycles);
	while (pos <= end && place) {
		const unsigned byte = *pos;

		if (!(byte & 1) && byte > OPCODE_EXT) {
			to->now[1] = event_offset(d, pos);
			pos++;
			place = take_outcomes(f, to, place, byte >> 1, form);
		} else if ((byte & OPCODE_IP_MASK) == OPCODE_TIP) {
			uint64_t ip = last_ip;
			const unsigned size = packet_take_ip(pos, &ip);

			p = find_path(f, to, place, 0, form);
			if (UNLIKELY(!size || !p))
				break;
			to->now[1] = event_offset(d, pos);
			pos += size;
			last_ip = ip;
			place = take_tip(f, to, p, ip, context, form);
		} else if ((byte & CYC_MASK) == OPCODE_CYC &&
			   (cyc = event_add_cyc(&cycles, pos)) != 0) {
			pos += cyc;
			/* Items have times; blocks and steps have none. */
			if (form == FORM_ITEMS)
				tell_cycles(f, to, &cycles);
		} else if (byte == OPCODE_PAD) {
			pos += load_le64(pos) ? 1 : 8;
		} else if (byte == OPCODE_EXT && pos[1] == EXT_TNT_64 && load_le64(pos) >> 17) {
			to->now[1] = event_offset(d, pos);
			place = take_long(f, to, place, load_le64(pos) >> 16, form);
			pos += 8;
		} else {
			const bool more = event_take_clock_at(d, pos, cycles, f->time_limit);

			cycles = (struct event_cycles){.sum = 0};
			tell_cycles(f, to, &cycles);
			pos = d->pos;
			if (!more)
				break;
		}
	}
	if (cycles.any)
		tell_cycles(f, to, &cycles);
	d->pos = pos;
	d->last_ip = last_ip;
	f->offset = to->now[1];
	*sink = copy;
	if (place)
		leave(f, node_at(f->paths, place), 1);
}

/* The place we stand at, or 0. */
static uint32_t enter(struct ptah_flow *f)
{
	int status;

	if (UNLIKELY(!f->paths)) {
		f->paths = flow_paths_new();
		f->no_paths = !f->paths;
		if (f->no_paths)
			return 0;
	}
	if (UNLIKELY(f->paths->full))
		flow_paths_forget(f);
	if (UNLIKELY(!f->node))
		f->node = code_find(&f->code, f->ip, f->mode, &status);
	return f->node ? place_of(f->paths, f->node) : 0;
}

void flow_run_paths(struct ptah_flow *f, struct flow_output *out)
{
	struct sink to = {.item = out->items + out->count, .item_end = out->items + out->capacity};
	const uint32_t place = enter(f);

	if (place)
		run(f, &to, place, FORM_ITEMS);
	out->count = (size_t)(to.item - out->items);
}

void flow_run_block_paths(struct ptah_flow *f, struct flow_blocks *out)
{
	struct sink to = {.block = out->blocks + out->count,
			  .block_end = out->blocks + out->capacity};
	const uint32_t place = enter(f);

	if (place)
		run(f, &to, place, FORM_BLOCKS);
	out->count = (size_t)(to.block - out->blocks);
}

void flow_run_step_paths(struct ptah_flow *f, struct flow_steps *out)
{
	struct sink to = {.step = out->steps + out->count, .step_end = out->steps + out->capacity};
	const uint32_t place = enter(f);

	if (place)
		run(f, &to, place, FORM_STEPS);
	out->count = (size_t)(to.step - out->steps);
}
