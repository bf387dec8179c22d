/* SPDX-License-Identifier: MIT */
/*
 * Coverage: a profile whose counts are taken out after each execution. The loop notes which entries
 * and pairs it counts for the first time, and only these are looked at when the execution ends.
 * What an entry adds to the bitmap is found out once and kept as a memo. The memo also sums up how
 * often the entry ran; the sum goes into the sets when the caller asks for them.
 */
#include <ptah/profile.h>

#include "base/hash.h"
#include "flow/large_table.h"
#include "profile/profile_internal.h"

#include <stdlib.h>

#define DEFAULT_BITMAP 65536
#define LEAST_BITMAP   8

/* A TNT-8 has at most so many outcomes, and each of them is at most one edge. */
#define MEMO_EDGES 6

/* Memos for each place of config.max_places; beyond that rows and memos begin again. */
#define MEMOS 8

#define FIRST_MEMOS 128

struct memo {
	uint64_t key;	/* as in `touched` */
	uint64_t total; /* executions not yet in the sets */
	uint32_t edges;
	uint32_t index[MEMO_EDGES]; /* in the bitmap */
};

struct ptah_coverage {
	struct ptah_profile *profile;
	struct ptah_coverage_config config;
	uint8_t *bitmap, *own;
	uint32_t *
	    hits; /* the entries of the bitmap that are not 0; room for as many as the bitmap has */
	size_t hit_count;
	struct memo *memos; /* index 0 is not used */
	size_t memo_count, memo_capacity;
	uint32_t *slots; /* memos by key, twice as many as memo_capacity; 0: free */
	uint32_t making; /* the memo that is being filled, or 0 */
	size_t blocks_before, edges_before;
};

/* The bitmap */

/* The bitmap while it is added to: for all the compiler knows, a byte of it could be in *c. */
struct bitmap {
	uint8_t *bytes;
	uint32_t *hits;
	size_t hit_count, size;
};

static struct bitmap bitmap_of(const struct ptah_coverage *c)
{
	return (struct bitmap){c->bitmap, c->hits, c->hit_count, c->config.bitmap_size};
}

static ALWAYS_INLINE void add_hits(struct bitmap *b, uint32_t index, uint32_t times)
{
	const uint32_t before = b->bytes[index], room = UINT8_MAX - before;

	/*
	 * A caller that writes to the bitmap itself may have set an entry back to 0, so it may be
	 * here twice.
	 */
	if (!before && b->hit_count < b->size)
		b->hits[b->hit_count++] = index;
	b->bytes[index] = (uint8_t)(before + (times < room ? times : room));
}

static void hit(struct ptah_coverage *c, uint32_t index)
{
	struct bitmap b = bitmap_of(c);

	add_hits(&b, index, 1);
	c->hit_count = b.hit_count;
}

static void clear_bitmap(struct ptah_coverage *c)
{
	if (c->hit_count == c->config.bitmap_size)
		memset(c->bitmap, 0, c->config.bitmap_size);
	else
		for (size_t i = 0; i < c->hit_count; i++)
			c->bitmap[c->hits[i]] = 0;
	c->hit_count = 0;
}

/* The sets */

static bool in_ranges(const struct ptah_coverage *c, uint64_t ip)
{
	for (unsigned i = 0; i < c->config.range_count; i++)
		if (ip >= c->config.ranges[i].first && ip <= c->config.ranges[i].last)
			return true;
	return !c->config.range_count;
}

/*
 * Adds an edge to the set. With `times` 0 it only becomes known. False: edges of this kind are not
 * counted.
 */
static bool add_edge(struct ptah_coverage *c, const struct tally_edge *key, uint64_t times)
{
	struct tally_edge *e;

	if (!in_ranges(c, key->from) || !in_ranges(c, key->to))
		return false;
	e = tally_edge(&c->profile->edges, key);
	if (e)
		e->count += times;
	else
		c->profile->status = PTAH_E_NOMEM;
	return e;
}

static uint32_t index_of(const struct ptah_coverage *c, const struct tally_edge *key)
{
	return (uint32_t)ptah_coverage_index(key->from, key->to, c->config.bitmap_size);
}

static struct tally_edge edge_of(const struct code_node *branch, uint64_t to)
{
	return (struct tally_edge){.from = branch->end - code_last_size(branch),
				   .to = to,
				   .space = branch->space,
				   .mode = (uint8_t)code_mode(branch),
				   .insn_class = branch->insn_class};
}

/* Takes an edge, for the memo that is being filled or for one whose sum goes into the sets. */
static void visit_edge(struct ptah_coverage *c, const struct code_node *branch, uint64_t to,
		       uint64_t times)
{
	const struct tally_edge key = edge_of(branch, to);
	struct memo *m = &c->memos[c->making];

	if (add_edge(c, &key, times) && c->making)
		m->index[m->edges++] = index_of(c, &key);
}

static void visit_node(struct ptah_profile *p, const struct code_node *node, bool taken,
		       const uint64_t *to, uint64_t times)
{
	struct ptah_coverage *c = p->coverage;

	if (in_ranges(c, node->ip))
		profile_add_block(p, node, taken, times);
	if (node->insn_class == PTAH_INSN_COND)
		visit_edge(c, node, taken ? node->target : node->end, times);
	else if (to)
		visit_edge(c, node, *to, times);
}

static void visit_return(struct ptah_coverage *c, int32_t branch, int32_t site, uint64_t times)
{
	const struct code_node *node = c->profile->states[branch].node;

	visit_node(c->profile, node, false, NULL, times);
	visit_edge(c, node, profile_at(c->profile, site)->ip, times);
}

/*
 * Adds a block that the flow has reported to the sets, and its edge. True: the edge is counted,
 * with this index in the bitmap.
 */
static bool add_block(struct ptah_coverage *c, const struct ptah_item *item, uint64_t times,
		      uint32_t *index)
{
	struct ptah_profile *p = c->profile;
	struct tally_block *b = NULL;
	struct tally_edge key = {.from = item->end - item->last_size,
				 .to = item->end,
				 .space = item->code.space,
				 .mode = item->mode,
				 .insn_class = item->insn_class};

	if (in_ranges(c, item->ip)) {
		b = profile_count_block(p, item, times);
		if (!b)
			return false;
	}
	if (item->insn_class != PTAH_INSN_COND || item->flags & PTAH_ITEM_UNKNOWN)
		return false;
	if (item->flags & PTAH_ITEM_TAKEN)
		key.to = b ? b->target : profile_target_of(p, item);
	*index = index_of(c, &key);
	return add_edge(c, &key, times);
}

static void visit_transition(struct ptah_coverage *c, const struct transition *t, uint64_t times)
{
	const struct ptah_item *blocks = profile_blocks_of(c->profile, t);
	struct memo *m = &c->memos[c->making];
	uint32_t index;

	for (unsigned i = 0; i < t->block_count; i++)
		if (add_block(c, &blocks[i], times, &index) && c->making)
			m->index[m->edges++] = index;
}

/* Visits the edges that an entry, a pair or a transition stands for. */
static void visit_key(struct ptah_coverage *c, uint64_t key, uint64_t times)
{
	struct ptah_profile *p = c->profile;
	const uint32_t from = (uint32_t)((key & ~FROM_RETURN) >> 32);
	const struct code_node *branch;

	if (!(key >> 32)) {
		const uint32_t entry = (uint32_t)key, state = entry / STRIDE * STRIDE;

		if (entry - state == ROW_RETURN)
			visit_return(c, p->rows[entry].next, (int32_t)state, times);
		else
			profile_walk(p, (int32_t)state, entry - state, visit_node, times);
		return;
	}
	if (profile_is_group(key)) {
		visit_transition(c, &p->transitions[(uint32_t)key], times);
		return;
	}
	if (key & FROM_RETURN) {
		visit_return(c, (int32_t)from, (int32_t)key, times);
		return;
	}
	branch = profile_walk(p, (int32_t)from, 0, visit_node, times);
	visit_edge(c, branch, profile_at(p, (int32_t)key)->ip, times);
}

/* What the flow has carried out itself */

static void on_indirect(void *context, const struct code_node *branch, uint64_t to)
{
	struct ptah_coverage *c = context;
	const struct tally_edge key = edge_of(branch, to);

	if (add_edge(c, &key, 1))
		hit(c, index_of(c, &key));
}

void coverage_count_block(struct ptah_profile *p, const struct ptah_item *item)
{
	struct ptah_coverage *c = p->coverage;
	uint32_t index;

	if (add_block(c, item, 1, &index))
		hit(c, index);
}

/* Memos */

bool coverage_is_full(const struct ptah_profile *p)
{
	return p->coverage->memo_count >= (size_t)MEMOS * p->config.max_places;
}

void coverage_forget_memos(struct ptah_profile *p)
{
	struct ptah_coverage *c = p->coverage;

	c->memo_count = 1; /* memo 0 means none */
	memset(c->slots, 0, 2 * c->memo_capacity * sizeof(*c->slots));
}

/* The slot of the memo of this key, or the free one where it belongs. */
static ALWAYS_INLINE uint32_t *memo_slot(const struct ptah_coverage *c, uint64_t key)
{
	const size_t mask = 2 * c->memo_capacity - 1;
	size_t at = (size_t)(hash_number(key) >> 32) & mask;

	while (c->slots[at] && c->memos[c->slots[at]].key != key)
		at = (at + 1) & mask;
	return &c->slots[at];
}

static bool grow_memos(struct ptah_coverage *c)
{
	struct flow_arena *arena = &c->profile->flow->arena;
	const size_t old = c->memo_capacity, capacity = flow_table_more(old);
	struct memo *memos;
	uint32_t *slots;

	if (capacity > UINT32_MAX / 2)
		return false;
	slots = flow_table_new(arena, 2 * capacity * sizeof(*slots));
	if (!slots)
		return false;
	memos = flow_table_grow(arena, c->memos, old * sizeof(*memos),
				c->memo_count * sizeof(*memos), capacity * sizeof(*memos));
	if (!memos) {
		flow_table_free(arena, slots, 2 * capacity * sizeof(*slots));
		return false;
	}
	flow_table_free(arena, c->slots, 2 * old * sizeof(*slots));
	c->memos = memos;
	c->slots = slots;
	c->memo_capacity = capacity;
	for (uint32_t i = 1; i < c->memo_count; i++)
		*memo_slot(c, memos[i].key) = i;
	return true;
}

/* Returns 0 when out of memory. */
static uint32_t make_memo(struct ptah_coverage *c, uint64_t key)
{
	if (c->memo_count == c->memo_capacity && !grow_memos(c)) {
		c->profile->status = PTAH_E_NOMEM;
		return 0;
	}
	c->making = (uint32_t)c->memo_count++;
	*memo_slot(c, key) = c->making;
	c->memos[c->making].key = key;
	c->memos[c->making].total = c->memos[c->making].edges = 0;
	visit_key(c, key, 0);
	return c->making;
}

/* The count of a pair or of a transition. */
static uint64_t *count_of(struct ptah_profile *p, uint64_t key)
{
	return profile_is_group(key) ? &p->transitions[(uint32_t)key].count
				     : &profile_pair(p, key)->count;
}

/*
 * The memo of a pair or of a transition, and its count, which becomes 0. The count never exceeds 32
 * bits; above them is the number of the memo, once there is one.
 */
static ALWAYS_INLINE uint32_t take_pair(struct ptah_coverage *c, uint64_t key, uint32_t *times)
{
	uint64_t *count = count_of(c->profile, key);
	uint32_t memo = (uint32_t)(*count >> 32);

	*times = (uint32_t)*count;
	if (UNLIKELY(!memo)) {
		memo = make_memo(c, key);
		count = count_of(c->profile, key);
	}
	*count = (uint64_t)memo << 32;
	return memo;
}

/* The same for an entry. */
static ALWAYS_INLINE uint32_t take_entry(struct ptah_coverage *c, uint64_t key, uint32_t *times)
{
	uint32_t memo = *memo_slot(c, key);

	*times = c->profile->rows[key].count;
	c->profile->rows[key].count = 0;
	return LIKELY(memo) ? memo : make_memo(c, key);
}

int coverage_settle(struct ptah_profile *p)
{
	struct ptah_coverage *c = p->coverage;
	const uint32_t context = p->context;
	const uint16_t space = p->flow->code.space;
	struct bitmap bitmap = bitmap_of(c);

	for (size_t i = 0; i < p->touched_count; i++) {
		const uint64_t key = p->touched[i];
		uint32_t times;
		const uint32_t memo =
		    key >> 32 ? take_pair(c, key, &times) : take_entry(c, key, &times);
		struct memo *m = &c->memos[memo];
		const uint32_t edges = m->edges;

		m->total += times;
		for (uint32_t k = 0; k < edges; k++)
			add_hits(&bitmap, m->index[k], times);
	}
	c->hit_count = bitmap.hit_count;
	c->making = 0;
	p->touched_count = 0;
	p->context = context;
	p->flow->code.space = space;
	p->budget = UINT32_MAX;
	return p->status;
}

int coverage_expand(struct ptah_profile *p)
{
	struct ptah_coverage *c = p->coverage;
	const uint32_t context = p->context;
	const uint16_t space = p->flow->code.space;

	coverage_settle(p);
	for (size_t i = 1; i < c->memo_count; i++) {
		if (!c->memos[i].total)
			continue;
		visit_key(c, c->memos[i].key, c->memos[i].total);
		c->memos[i].total = 0;
	}
	p->context = context;
	p->flow->code.space = space;
	return p->status;
}

/* Executions */

int coverage_begin(struct ptah_coverage *c)
{
	struct ptah_profile *p;

	if (!c)
		return PTAH_E_INVAL;
	p = c->profile;
	coverage_settle(p); /* of an execution that the caller did not end */
	clear_bitmap(c);
	ptah_profile_seek(p, 0);
	memset(&p->totals, 0, sizeof(p->totals));
	c->blocks_before = p->blocks.count;
	c->edges_before = p->edges.count;
	return p->status;
}

int coverage_feed(struct ptah_coverage *c, const void *bytes, size_t n, bool last)
{
	return c ? ptah_profile_feed(c->profile, bytes, n, last) : PTAH_E_INVAL;
}

int coverage_end(struct ptah_coverage *c, struct ptah_coverage_result *result)
{
	const struct ptah_profile *p;
	int status;

	if (!c)
		return PTAH_E_INVAL;
	p = c->profile;
	status = coverage_settle(c->profile);
	if (result)
		*result =
		    (struct ptah_coverage_result){.errors = p->totals.errors,
						  .overflows = p->totals.overflows,
						  .gaps = p->totals.gaps,
						  .first_error = p->totals.first_error,
						  .entries = c->hit_count,
						  .new_blocks = p->blocks.count - c->blocks_before,
						  .new_edges = p->edges.count - c->edges_before};
	return status;
}

int ptah_coverage_run(struct ptah_coverage *c, const void *bytes, size_t n,
		      struct ptah_coverage_result *result)
{
	int status = coverage_begin(c), ended;

	if (status >= 0)
		status = coverage_feed(c, bytes, n, true);
	ended = coverage_end(c, result);
	return status < 0 ? status : ended;
}

uint8_t *ptah_coverage_bitmap(struct ptah_coverage *c, size_t *size)
{
	if (size)
		*size = c ? c->config.bitmap_size : 0;
	return c ? c->bitmap : NULL;
}

struct ptah_profile *ptah_coverage_profile(struct ptah_coverage *c)
{
	return c ? c->profile : NULL;
}

int coverage_reset(struct ptah_coverage *c)
{
	int status;

	if (!c)
		return PTAH_E_INVAL;
	status = ptah_profile_reset(c->profile);
	/* The memos note what is in the sets already, so they go with the sets. */
	profile_forget_rows(c->profile);
	c->blocks_before = c->edges_before = 0;
	return status;
}

/* Creating and freeing */

static bool is_valid(const struct ptah_coverage_config *config)
{
	const size_t size = config->bitmap_size;

	return config->size >= sizeof(*config) && config->range_count <= PTAH_COVERAGE_RANGES &&
	       size >= LEAST_BITMAP && size <= PTAH_COVERAGE_MAX_BITMAP && !(size & (size - 1));
}

static int make_tables(struct ptah_coverage *c)
{
	struct flow_arena *arena = &c->profile->flow->arena;
	const size_t size = c->config.bitmap_size;

	c->memo_count = 1;
	c->memo_capacity = FIRST_MEMOS;
	c->memos = flow_table_new(arena, c->memo_capacity * sizeof(*c->memos));
	c->slots = flow_table_new(arena, 2 * c->memo_capacity * sizeof(*c->slots));
	c->hits = malloc(size * sizeof(*c->hits));
	c->own = c->config.bitmap ? NULL : calloc(1, size);
	c->bitmap = c->config.bitmap ? c->config.bitmap : c->own;
	if (!c->memos || !c->slots || !c->hits || !c->bitmap)
		return PTAH_E_NOMEM;
	if (!c->own)
		memset(c->bitmap, 0, size);
	return 0;
}

static int make_profile(struct ptah_coverage *c, const struct ptah_image *image)
{
	const struct ptah_profile_config config = {.size = sizeof(config),
						   .flow = c->config.flow,
						   .max_places = c->config.max_places,
						   .no_rows = c->config.no_rows,
						   .on_event = c->config.on_event,
						   .context = c->config.context};
	int status = ptah_profile_new(image, &config, &c->profile);

	if (status < 0)
		return status;
	beside_end(c->profile); /* it does not count by executions */
	c->profile->coverage = c;
	c->profile->blocks.arena = c->profile->edges.arena = &c->profile->flow->arena;
	c->profile->flow->on_indirect = on_indirect;
	c->profile->flow->indirect_context = c;
	return 0;
}

int ptah_coverage_new(const struct ptah_image *image, const struct ptah_coverage_config *config,
		      struct ptah_coverage **coverage)
{
	struct ptah_coverage_config wanted = {.size = sizeof(wanted)};
	struct ptah_coverage *c;
	int status;

	if (config && config->size >= sizeof(wanted))
		wanted = *config;
	wanted.bitmap_size = wanted.bitmap_size ? wanted.bitmap_size : DEFAULT_BITMAP;
	if (!image || !coverage || (config && config->size < sizeof(wanted)) || !is_valid(&wanted))
		return PTAH_E_INVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	c->config = wanted;
	status = make_profile(c, image);
	if (status >= 0)
		status = make_tables(c);
	if (status < 0) {
		ptah_coverage_free(c);
		return status;
	}
	*coverage = c;
	return 0;
}

void ptah_coverage_free(struct ptah_coverage *c)
{
	if (!c)
		return;
	if (c->profile) {
		const struct flow_arena *arena = &c->profile->flow->arena;

		flow_table_free(arena, c->memos, c->memo_capacity * sizeof(*c->memos));
		flow_table_free(arena, c->slots, 2 * c->memo_capacity * sizeof(*c->slots));
	}
	ptah_profile_free(c->profile);
	free(c->hits);
	free(c->own);
	free(c);
}
