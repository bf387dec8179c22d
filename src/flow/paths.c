/* SPDX-License-Identifier: MIT */
#include "flow/paths.h"

#include "flow/route.h"
#include "flow/large_table.h"

#include <stdlib.h>

/* The longest packet that the loop takes, and what it loads at once. */
#define LOOK PATHS_MIN_BYTES

/*
 * A node becomes a place when it is come to this often: its row costs more than
 * going on from node to node a few times, and a short trace never gets that back.
 * Who has many places has a long one. At once where tests and fuzzers look.
 */
#if defined(PTAH_COMPARE) || defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
#define PROMOTE_FIRST 3
#else
#define PROMOTE_FIRST 16
#endif
#define PROMOTE	    3
#define MANY_PLACES 1024

/* What the tables may hold before they are begun anew: about 70 and 64 MB. */
#define MAX_PLACES ((size_t)1 << 16)
#define MAX_WORDS  ((size_t)8 << 20)

#define FIRST_PLACES 64
#define FIRST_WORDS  4096
#define TARGETS	     4096

/* Blocks in one path: a longer one is the flow's. */
#define MAX_BLOCKS 64

/*
 * So many are copied at a time, whether all are wanted or not: most paths are one
 * group of blocks, and how many blocks they have cannot be predicted.
 */
#define BLOCK_GROUP 8
#define STEP_GROUP  8

/* Words that can be read behind the last path. */
#define SLACK_WORDS ((size_t)2 * BLOCK_GROUP)

#define TAKEN_BIT 3
_Static_assert(PTAH_ITEM_TAKEN == 1 << TAKEN_BIT, "TAKEN_BIT");

/*
 * What a place knows of a payload, and of a TIP in [0]. [1], which no payload
 * has, is its node. A place's number is where its row begins, so that the next
 * entry is found by one load from this one: all else is off that chain.
 */
union entry {
	struct {
		uint32_t path; /* PATH_*, or where it is and how many blocks it has */
		uint32_t next; /* NEXT_* and the place behind it, or the payload */
	};
	struct code_node *node;
};

/* A path's number counts units of two words; below it are its blocks. */
#define COUNT_BITS 7
_Static_assert(MAX_BLOCKS < 1 << COUNT_BITS, "COUNT_BITS");
_Static_assert(MAX_WORDS / 2 << COUNT_BITS <= UINT32_MAX, "COUNT_BITS");

/* What else there is about a path than blocks and a place, which is 0 if not known yet. */
#define NEXT_PUSHES ((uint32_t)1 << 31) /* it moves the call stack up, at least in between */
#define NEXT_POPS                                                                                  \
	((uint32_t)1 << 30) /* its last branch is a return from before the packet.                 \
			     * TNT: with the payload behind it instead of the place. */
#define NEXT_KINDS (NEXT_PUSHES | NEXT_POPS)

#define ROW 128

/* Rows are a line longer than they need be, so that they do not share cache sets. */
#define STRIDE (ROW + 8)
_Static_assert(MAX_PLACES *STRIDE < NEXT_POPS, "a place beside NEXT_*");

enum {
	PATH_NEVER = 0,	  /* not seen */
	PATH_SEEN = 1,	  /* once: the second time it is made */
	PATH_REFUSED = 2, /* not so simple: the flow's, every time */
	PATH_FIRST = 1 << COUNT_BITS,
};

#define FIRST_WORD 2 /* so that no path's number is less than PATH_FIRST */

/*
 * Followed by its blocks, the entries of the call stack for the calls that it
 * leaves open, its nodes with bit 0 for "taken", and the node behind it, where
 * that is always the same. A return from before the packet, and a TIP's branch,
 * are the last node.
 */
struct path {
	uint32_t ninsn;	   /* of its nodes */
	uint32_t steps_at; /* the same as steps, in words; 0: not asked for yet */
	uint8_t blocks;
	uint8_t pushes; /* open calls */
	uint8_t reach;	/* how far the stack was up in between */
	uint8_t reserved[5];
};

#define PATH_WORDS (sizeof(struct path) / 8)
#define SITE_WORDS (sizeof(struct return_site) / 8)
_Static_assert(sizeof(struct path) % 16 == 0, "blocks lie where they are copied best");
_Static_assert(sizeof(struct return_site) % 8 == 0, "paths lie in an array of words");
_Static_assert(sizeof(struct ptah_block) == 16, "two words");

static ALWAYS_INLINE struct ptah_block *blocks_of(const struct path *p)
{
	return (struct ptah_block *)(p + 1);
}

static ALWAYS_INLINE struct return_site *open_calls_of(const struct path *p)
{
	return (struct return_site *)(blocks_of(p) + p->blocks);
}

static ALWAYS_INLINE uint64_t *nodes_of(const struct path *p)
{
	return (uint64_t *)(open_calls_of(p) + p->pushes);
}

static ALWAYS_INLINE struct code_node **node_behind(const struct path *p)
{
	return (struct code_node **)(nodes_of(p) + p->blocks);
}

/* Places by the address of a TIP: a cache, one slot for each hash. */
struct target {
	uint64_t ip;
	uint32_t context; /* space and mode, plus 1; 0: free */
	uint32_t place;
};

struct flow_paths {
	union entry *rows; /* STRIDE for each place; the first is none */
	size_t place_count, place_capacity;
	uint64_t *words;
	size_t word_count, word_capacity;
	uint8_t mode; /* of the places on the call stack */
	bool huge;    /* large pages are asked for */
	bool full;    /* as large as they may be, or out of memory: to be begun anew */
	struct target targets[TARGETS];
};

/* Of so many words, in bytes. */
static size_t words_size(size_t capacity)
{
	return (capacity + SLACK_WORDS) * sizeof(uint64_t);
}

static size_t rows_size(size_t capacity)
{
	return capacity * STRIDE * sizeof(union entry);
}

struct flow_paths *flow_paths_new(bool huge)
{
	struct flow_paths *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->huge = huge;
	s->words = flow_table_new(words_size(FIRST_WORDS), huge);
	if (!s->words) {
		free(s);
		return NULL;
	}
	s->word_capacity = FIRST_WORDS;
	s->place_count = 1;
	s->word_count = FIRST_WORD;
	return s;
}

void flow_paths_free(struct flow_paths *s)
{
	if (!s)
		return;
	flow_table_free(s->rows, rows_size(s->place_capacity));
	flow_table_free(s->words, words_size(s->word_capacity));
	free(s);
}

/* Return sites are looked up anew: in another mode they are other places. */
static void forget_sites(struct ptah_flow *f)
{
	for (unsigned i = 0; i < STACK_SIZE; i++)
		f->stack[i].place = 0;
	f->paths->mode = f->mode;
}

void flow_paths_forget(struct ptah_flow *f)
{
	struct flow_paths *s = f->paths;

	if (!s || s->place_count == 1)
		return;
	code_forget_places(&f->code);
	forget_sites(f);
	s->place_count = 1;
	s->word_count = FIRST_WORD;
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
	rows = flow_table_grow(s->rows, rows_size(s->place_capacity), rows_size(s->place_count),
			       rows_size(capacity), s->huge);
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
	const uint32_t often = s->place_count < MANY_PLACES ? PROMOTE_FIRST : PROMOTE;

	return ++*known < often ? 0 : make_place(s, node);
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
				   .insn_class = node->insn_class,
				   .last_size = code_last_size(node),
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

	n = (n + 1) & ~(size_t)1;
	while (s->word_count + n > s->word_capacity) {
		const size_t capacity = 2 * s->word_capacity;
		uint64_t *grown = NULL;

		if (capacity <= MAX_WORDS)
			grown = flow_table_grow(s->words, words_size(s->word_capacity),
						s->word_count * sizeof(*s->words),
						words_size(capacity), s->huge);
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
	struct path *path = (struct path *)new_words(s, PATH_WORDS + 2 * l->count +
							    SITE_WORDS * r->pushes + l->count + 1);
	struct return_site *calls;
	struct ptah_block *blocks;

	if (!path)
		return NULL;
	path->ninsn = l->ninsn;
	path->blocks = (uint8_t)l->count;
	path->pushes = (uint8_t)r->pushes;
	path->reach = (uint8_t)r->reach;
	blocks = blocks_of(path);
	for (unsigned i = 0; i < l->count; i++)
		blocks[i] = block_of((const struct code_node *)(l->nodes[i] & ~UINT64_C(1)),
				     (uint8_t)((l->nodes[i] & 1) << TAKEN_BIT));
	calls = open_calls_of(path);
	for (unsigned i = 0; i < r->pushes; i++)
		calls[i] = (struct return_site){r->calls[i]->end, r->calls[i],
						return_place(r->flow, r->calls[i])};
	memcpy(nodes_of(path), l->nodes, l->count * sizeof(*l->nodes));
	*node_behind(path) = r->node;
	return path;
}

static uint32_t path_number(const struct flow_paths *s, const struct path *p)
{
	return (uint32_t)((const uint64_t *)p - s->words) / 2 << COUNT_BITS | p->blocks;
}

/* False: not so simple, or no room. */
static bool make_tnt_path(struct flow_paths *s, struct route *r, struct listing *l,
			  unsigned payload, union entry *entry)
{
	const enum route_stop stop = route_spend(r, payload);
	const struct path *path;

	if (stop == ROUTE_RETURN)
		list_node(l, r->node, false, NULL);
	if ((stop != ROUTE_SPENT && stop != ROUTE_RETURN) || !r->node || l->count > MAX_BLOCKS)
		return false;
	path = make_path(s, r, l);
	if (!path)
		return false;
	entry->path = path_number(s, path);
	entry->next = r->reach ? NEXT_PUSHES : 0;
	if (stop == ROUTE_RETURN) {
		const uint32_t stop_bit = (uint32_t)1 << (r->left - 1);

		entry->next |= NEXT_POPS | stop_bit | (payload & (stop_bit - 1));
	}
	return true;
}

static bool make_tip_path(struct flow_paths *s, struct route *r, struct listing *l,
			  union entry *entry)
{
	const struct path *path;
	bool pops;

	if (!route_take_tip(r, &pops) || !flow_is_near_indirect(r->node))
		return false;
	list_node(l, r->node, false, NULL);
	if (l->count > MAX_BLOCKS)
		return false;
	path = make_path(s, r, l);
	if (!path)
		return false;
	entry->path = path_number(s, path);
	entry->next = (r->reach ? NEXT_PUSHES : 0) | (pops ? NEXT_POPS : 0);
	return true;
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
	union entry made = {.path = PATH_NEVER};
	bool good;

	if (known == PATH_REFUSED)
		return false;
	if (known == PATH_NEVER) {
		s->rows[place + payload].path = PATH_SEEN;
		return false;
	}
	good = payload ? make_tnt_path(s, &r, &l, payload, &made) : make_tip_path(s, &r, &l, &made);
	/* The rows may have moved: return_place(). */
	if (good)
		s->rows[place + payload] = made;
	else if (!s->full)
		s->rows[place + payload].path = PATH_REFUSED;
	return good;
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
		const uint64_t taken = nodes_of(p)[i] & 1;
		struct code_node *node = (struct code_node *)(nodes_of(p)[i] - taken);
		const struct ptah_insn *insns = code_node_insns(&f->code, node);

		if (!insns)
			return false;
		step = flow_put_steps(step, insns, code_ninsn(node), node->space,
				      (uint8_t)(taken << TAKEN_BIT));
	}
	p->steps_at = (uint32_t)((uint64_t *)step - 2 * p->ninsn - s->words);
	return true;
}

static ALWAYS_INLINE struct path *path_of(const uint64_t *words, union entry entry)
{
	return (struct path *)(words + 2 * (size_t)(entry.path >> COUNT_BITS));
}

static ALWAYS_INLINE unsigned count_of(union entry entry)
{
	return entry.path & ((1u << COUNT_BITS) - 1);
}

/* What is asked for. */
enum form {
	FORM_ITEMS,
	FORM_BLOCKS,
	FORM_STEPS
};

/*
 * Where blocks go, in one of the forms, with what they have of now, and what
 * else changes all the time. Kept in registers: what is written through it
 * could, for all the compiler knows, be the flow's.
 */
struct sink {
	struct ptah_item *item, *item_end;
	struct ptah_block *block, *block_end;
	struct ptah_step *step, *step_end;
	uint64_t head;
	word_pair now;	      /* tsc, offset */
	const uint8_t *moved; /* the packet that moved us last, or NULL */
	unsigned top, depth;  /* of the call stack */
	/* The tables, as they are until something is learnt. */
	union entry *rows;
	const uint64_t *words;
};

static ALWAYS_INLINE void load_tables(struct sink *to, const struct ptah_flow *f)
{
	to->rows = f->paths->rows;
	to->words = f->paths->words;
}

/* Is there room for a path? */
static ALWAYS_INLINE bool can_put(const struct sink *to, union entry entry, const struct path *p,
				  enum form form)
{
	if (form == FORM_ITEMS)
		return to->item_end - to->item >= count_of(entry);
	if (form == FORM_BLOCKS)
		return to->block_end - to->block >= count_of(entry) + BLOCK_GROUP;
	return to->step_end - to->step >= (ptrdiff_t)p->ninsn + STEP_GROUP;
}

static ALWAYS_INLINE void put_items(struct sink *to, const struct path *p)
{
	const uint64_t *nodes = nodes_of(p);

	for (unsigned i = 0; i < p->blocks; i++) {
		const uint64_t taken = nodes[i] & 1;

		flow_put_block(to->item++, (const struct code_node *)(nodes[i] - taken),
			       to->head | taken << FLOW_TAKEN_SHIFT, to->now);
	}
}

/* Whole groups: how many there are is easier to predict. What is too much is written over. */
static ALWAYS_INLINE void put_blocks(struct sink *to, const struct path *p, unsigned n)
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

static ALWAYS_INLINE void put_steps(struct sink *to, const struct path *p)
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

/* A path that is not known, or not in this form. False: it is the flow's, this time. */
NOINLINE static bool learn_path(struct ptah_flow *f, uint32_t place, unsigned payload,
				enum form form)
{
	struct path *p;

	if (f->paths->rows[place + payload].path < PATH_FIRST && !learn(f, place, payload))
		return false;
	p = path_of(f->paths->words, f->paths->rows[place + payload]);
	return form != FORM_STEPS || p->steps_at || learn_steps(f, p);
}

/* What is known of a payload, with room for its path. False: it is the flow's. */
static ALWAYS_INLINE bool find_path(struct ptah_flow *f, struct sink *to, uint32_t place,
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

static ALWAYS_INLINE void put_path(struct sink *to, union entry entry, enum form form)
{
	const struct path *p = path_of(to->words, entry);

	if (form == FORM_ITEMS)
		put_items(to, p);
	else if (form == FORM_BLOCKS)
		put_blocks(to, p, count_of(entry));
	else
		put_steps(to, p);
}

/* What a path does to the call stack. */
static ALWAYS_INLINE void push_calls(struct ptah_flow *f, struct sink *to, union entry entry)
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
static ALWAYS_INLINE uint32_t return_from(struct ptah_flow *f, struct sink *to)
{
	const struct return_site *site = &f->stack[--to->top % STACK_SIZE];
	uint32_t place = site->place;

	to->depth--;
	if (UNLIKELY(!place)) {
		place = find_return(f, site);
		load_tables(to, f);
	}
	return place;
}

/* The place behind a path, put down for the next time; or 0, and the flow stands there. */
NOINLINE static uint32_t link_path(struct ptah_flow *f, uint32_t place, unsigned payload)
{
	const union entry entry = f->paths->rows[place + payload];
	struct code_node *node = *node_behind(path_of(f->paths->words, entry));
	const uint32_t next = place_of(f->paths, node);

	f->paths->rows[place + payload].next |= next;
	return next ? next : leave(f, node, 1);
}

/*
 * The outcomes of a TNT-8 or a part of one. The place behind them, or 0: the
 * flow has been told where it stands and which outcomes are left.
 */
static ALWAYS_INLINE uint32_t take_outcomes(struct ptah_flow *f, struct sink *to, uint32_t place,
					    unsigned payload, enum form form)
{
	for (;;) {
		union entry entry;
		uint32_t next;

		/* A return without an entry on the stack is an error: the flow's to say. */
		if (UNLIKELY(!find_path(f, to, place, payload, &entry, form) ||
			     (entry.next & NEXT_POPS && !to->depth)))
			return leave(f, node_at(f->paths, place), payload);
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
static ALWAYS_INLINE uint32_t take_tip(struct ptah_flow *f, struct sink *to, union entry entry,
				       uint64_t ip, uint32_t context, enum form form)
{
	const struct target *t = &f->paths->targets[slot_of(ip)];
	uint32_t place;

	put_path(to, entry, form);
	if (entry.next & NEXT_PUSHES)
		push_calls(f, to, entry);
	if (entry.next & NEXT_POPS && to->depth) {
		to->depth--;
		to->top--;
	}
	place = t->place;
	if (UNLIKELY(t->ip != ip || t->context != context)) {
		place = find_target(f, ip, context);
		load_tables(to, f);
	}
	return place;
}

/* The clocks have moved, or may have. */
static ALWAYS_INLINE void set_now(struct ptah_flow *f, struct sink *to)
{
	flow_set_time(f, f->offset);
	to->head = f->head;
	to->now[0] = f->tsc;
}

/* The clocks are told of the cycles that wait. */
static ALWAYS_INLINE void tell_cycles(struct ptah_flow *f, struct sink *to, struct event_cycles *c)
{
	event_settle_cycles(f->events, c, f->time_limit);
	set_now(f, to);
}

/*
 * Outcomes that there was no room for, or that a path has left. Only for blocks
 * and steps: items have the time of the outcomes' packet.
 */
NOINLINE static uint32_t resume(struct ptah_flow *f, struct sink *to, uint32_t place,
				enum form form)
{
	const uint64_t stop_bit = UINT64_C(1) << f->tnt_count;
	const uint64_t payload = stop_bit | (f->tnt & (stop_bit - 1));

	f->tnt_count = 0;
	load_tables(to, f);
	to->top = f->stack_top;
	to->depth = f->stack_depth;
	place = take_long(f, to, place, payload, form);
	f->stack_top = to->top;
	f->stack_depth = to->depth;
	return place;
}

/* A packet moves us. */
static ALWAYS_INLINE void move(const struct ptah_event_decoder *d, struct sink *to,
			       const uint8_t *pos, enum form form)
{
	to->moved = pos;
	if (form == FORM_ITEMS)
		to->now[1] = event_offset(d, pos);
}

/* The packets that are ours, from the decoder's position on. */
static ALWAYS_INLINE void run(struct ptah_flow *f, struct sink *sink, uint32_t place,
			      enum form form)
{
	struct sink copy = *sink, *const to = &copy;
	struct ptah_event_decoder *d = f->events;
	const uint32_t context = ((uint32_t)f->code.space << 2 | f->mode) + 1;
	const uint8_t *pos = d->pos, *const end = d->end - LOOK;
	struct event_cycles cycles = {.sum = 0};
	uint64_t last_ip = d->last_ip;
	union entry entry;
	unsigned cyc;

	to->now[1] = f->offset;
	to->top = f->stack_top;
	to->depth = f->stack_depth;
	to->moved = NULL;
	load_tables(to, f);
	tell_cycles(f, to, &cycles);
	while (pos <= end && place) {
		const unsigned byte = *pos;

		if (!(byte & 1) && byte > OPCODE_EXT) {
			move(d, to, pos, form);
			pos++;
			place = take_outcomes(f, to, place, byte >> 1, form);
		} else if ((byte & OPCODE_IP_MASK) == OPCODE_TIP) {
			uint64_t ip = last_ip;
			const unsigned size = packet_take_ip(pos, &ip);

			if (UNLIKELY(!size || !find_path(f, to, place, 0, &entry, form)))
				break;
			move(d, to, pos, form);
			pos += size;
			last_ip = ip;
			place = take_tip(f, to, entry, ip, context, form);
		} else if ((byte & CYC_MASK) == OPCODE_CYC &&
			   (cyc = event_add_cyc(&cycles, pos)) != 0) {
			pos += cyc;
			/* Items have times; blocks and steps have none. */
			if (form == FORM_ITEMS)
				tell_cycles(f, to, &cycles);
		} else if (byte == OPCODE_PAD) {
			pos += load_le64(pos) ? 1 : 8;
		} else if (byte == OPCODE_EXT && pos[1] == EXT_TNT_64 && load_le64(pos) >> 17) {
			move(d, to, pos, form);
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
	if (to->moved)
		f->offset = event_offset(d, to->moved);
	f->stack_top = to->top;
	f->stack_depth = to->depth;
	*sink = copy;
	if (place)
		leave(f, node_at(f->paths, place), 1);
}

/* The place we stand at, or 0. */
static uint32_t enter(struct ptah_flow *f)
{
	int status;

	if (UNLIKELY(!f->paths)) {
		f->paths = flow_paths_new(!f->no_huge_pages);
		f->no_paths = !f->paths;
		if (f->no_paths)
			return 0;
	}
	if (UNLIKELY(f->paths->full))
		flow_paths_forget(f);
	if (UNLIKELY(f->paths->mode != f->mode))
		forget_sites(f);
	if (UNLIKELY(!f->node))
		f->node = code_find(&f->code, f->ip, f->mode, &status);
	if (UNLIKELY(!f->node))
		return 0;
	/* Amid outcomes it is no place of its own, unless packets begin there as well. */
	if (f->tnt_count)
		return *code_place(f->node) >= STRIDE ? *code_place(f->node) : 0;
	return place_of(f->paths, f->node);
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
	struct ptah_block *block = out->blocks + out->count;
	struct sink to = {.block = block, .block_end = out->blocks + out->capacity};
	uint32_t place = enter(f);

	if (place && f->tnt_count)
		place = resume(f, &to, place, FORM_BLOCKS);
	if (place)
		run(f, &to, place, FORM_BLOCKS);
	/* Seldom, and the same for all of them: so not in the loop. */
	for (; UNLIKELY(f->speculative && block < to.block); block++)
		block->flags |= f->speculative;
	out->count = (size_t)(to.block - out->blocks);
}

void flow_run_step_paths(struct ptah_flow *f, struct flow_steps *out)
{
	struct ptah_step *step = out->steps + out->count;
	struct sink to = {.step = step, .step_end = out->steps + out->capacity};
	uint32_t place = enter(f);

	if (place && f->tnt_count)
		place = resume(f, &to, place, FORM_STEPS);
	if (place)
		run(f, &to, place, FORM_STEPS);
	for (; UNLIKELY(f->speculative && step < to.step); step++)
		step->flags |= f->speculative;
	out->count = (size_t)(to.step - out->steps);
}
