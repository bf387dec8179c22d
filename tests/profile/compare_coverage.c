/* SPDX-License-Identifier: MIT */
/*
 * Makes a coverage from the items of a plain flow, as its definition says
 * (include/ptah/profile.h), and compares bitmap, edges and blocks with those of
 * the library.
 */
#include "compare_coverage.h"

#include "flow/flow_machine.h"
#include "x86/x86.h"
#include "profile/profile_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block (a: ip, b: end) or an edge. Compared byte by byte, so without padding. */
struct thing {
	uint64_t a, b, cr3, vmcs;
	uint32_t kind; /* of a block: its form; of an edge: mode and class */
	uint32_t is_edge;
};

struct counted {
	struct thing thing;
	uint64_t count, taken;
};

struct list {
	struct counted *items;
	size_t n, capacity;
};

static void add(struct list *list, const struct counted *c)
{
	if (list->n == list->capacity) {
		list->capacity = list->capacity ? 2 * list->capacity : 1024;
		list->items = realloc(list->items, list->capacity * sizeof(*list->items));
		if (!list->items)
			abort();
	}
	list->items[list->n++] = *c;
}

static int by_thing(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct thing));
}

/* Sorts the list and joins equal entries. */
static void merge(struct list *list)
{
	size_t last = 0;

	if (!list->n)
		return;
	qsort(list->items, list->n, sizeof(*list->items), by_thing);
	for (size_t i = 1; i < list->n; i++) {
		if (by_thing(&list->items[last], &list->items[i])) {
			list->items[++last] = list->items[i];
			continue;
		}
		list->items[last].count += list->items[i].count;
		list->items[last].taken += list->items[i].taken;
	}
	list->n = last + 1;
}

static size_t edges_of(const struct list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->items[i].thing.is_edge;
	return n;
}

static uint32_t form(unsigned ninsn, unsigned mode, unsigned insn_class, unsigned last_size,
		     bool cut)
{
	return ninsn << 16 | mode << 12 | insn_class << 6 | last_size << 1 | cut;
}

/* The expected result, from a plain flow */

struct reference {
	const struct ptah_coverage_config *config;
	struct ptah_flow *flow;
	struct list list; /* of this execution */
	uint64_t errors, overflows, gaps;
	/*
	 * The last two indirect branches that the flow reported: during this read and during the
	 * one before.
	 */
	uint64_t branch, to, branch_before, to_before;
	bool mistaken;
};

static bool inside(const struct ptah_coverage_config *config, uint64_t ip)
{
	bool found = !config->range_count;

	for (unsigned i = 0; i < config->range_count; i++)
		found |= ip >= config->ranges[i].first && ip <= config->ranges[i].last;
	return found;
}

static void add_edge(struct reference *r, uint64_t from, uint64_t to, unsigned space, unsigned mode,
		     unsigned insn_class)
{
	struct ptah_space s;

	if (!inside(r->config, from) || !inside(r->config, to))
		return;
	if (ptah_flow_space(r->flow, space, &s) < 0)
		abort();
	add(&r->list, &(struct counted){
			  .thing = {from, to, s.cr3, s.vmcs, form(0, mode, insn_class, 0, 0), 1},
			  .count = 1});
}

static void on_indirect(void *context, const struct code_node *branch, uint64_t to)
{
	struct reference *r = context;

	r->branch = branch->end;
	r->to = to;
	add_edge(r, branch->end - code_last_size(branch), to, branch->space, code_mode(branch),
		 branch->insn_class);
}

/* The target of the conditional branch at a block's end, from its bytes. */
static uint64_t target_of(struct reference *r, const struct ptah_item *item)
{
	static struct ptah_insn insns[CODE_MAX_INSNS];
	const int n = ptah_flow_insns(r->flow, item, insns, CODE_MAX_INSNS);
	struct x86_insn insn;

	if (n < 1 || x86_decode(insns[n - 1].bytes, insns[n - 1].size, insns[n - 1].ip,
				insns[n - 1].mode, &insn) < 0)
		abort();
	return insn.target;
}

static void add_block(struct reference *r, const struct ptah_item *item)
{
	const uint32_t kind = form(item->ninsn, item->mode, item->insn_class, item->last_size,
				   item->flags & PTAH_ITEM_TRUNCATED);
	const bool taken = item->flags & PTAH_ITEM_TAKEN;
	struct ptah_space s;

	if (ptah_flow_space(r->flow, item->code.space, &s) < 0)
		abort();
	if (inside(r->config, item->ip))
		add(&r->list,
		    &(struct counted){.thing = {item->ip, item->end, s.cr3, s.vmcs, kind, 0},
				      .count = 1,
				      .taken = taken});
	if (item->insn_class == PTAH_INSN_COND && !(item->flags & PTAH_ITEM_UNKNOWN))
		add_edge(r, item->end - item->last_size, taken ? target_of(r, item) : item->end,
			 item->code.space, item->mode, item->insn_class);
}

static void take(struct reference *r, const struct ptah_item *item, const struct ptah_item *before)
{
	r->errors += item->type == PTAH_ITEM_ERROR;
	r->overflows += item->type == PTAH_ITEM_OVERFLOW;
	r->gaps += item->type == PTAH_ITEM_GAP;
	if (item->type != PTAH_ITEM_BLOCK)
		return;
	/* The branch that the hook reported must be the one on the path. */
	if (before->type == PTAH_ITEM_BLOCK && before->insn_class >= PTAH_INSN_JUMP_IND &&
	    before->insn_class <= PTAH_INSN_RETURN && r->branch_before == before->end &&
	    r->to_before != item->ip)
		r->mistaken = true;
	add_block(r, item);
}

/* Reads items one by one, so that the hook's last call is about the block before. */
static void decode(struct reference *r, const struct ptah_image *image, const struct execution *e)
{
	struct ptah_item item, before = {.type = PTAH_ITEM_ERROR};
	struct ptah_flow_config config = r->config->flow;

	config.on_missing = NULL;
	if (ptah_flow_new(image, &config, &r->flow) < 0)
		abort();
	r->flow->on_indirect = on_indirect;
	r->flow->indirect_context = r;
	if (ptah_flow_feed(r->flow, e->trace, e->size, true) < 0)
		abort();
	while (ptah_flow_read(r->flow, &item, 1) > 0) {
		take(r, &item, &before);
		before = item;
		r->branch_before = r->branch;
		r->to_before = r->to;
	}
	ptah_flow_free(r->flow);
	merge(&r->list);
}

/* As coverage.h describes it. */
static size_t index_of(const struct thing *edge, size_t size)
{
	uint64_t h = edge->a * UINT64_C(0x9e3779b97f4a7c15) + edge->b;

	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	return (h ^ h >> 31) % size;
}

static void fill(const struct list *list, uint8_t *bitmap, size_t size)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct counted *c = &list->items[i];
		uint8_t *entry = &bitmap[index_of(&c->thing, size)];

		if (c->thing.is_edge)
			*entry = (uint8_t)(*entry + c->count > 255 ? 255 : *entry + c->count);
	}
}

/* The comparison */

static bool say(bool same, const char *what, uint64_t coverage, uint64_t flow)
{
	if (!same)
		fprintf(stderr, "%s: 0x%" PRIx64 ", the flow has 0x%" PRIx64 "\n", what, coverage,
			flow);
	return same;
}

static bool same_bitmap(struct ptah_coverage *coverage, const struct list *list, uint64_t *used)
{
	size_t size;
	const uint8_t *bitmap = ptah_coverage_bitmap(coverage, &size);
	uint8_t *wanted = calloc(size, 1);
	bool same = true;

	if (!wanted)
		abort();
	fill(list, wanted, size);
	*used = 0;
	for (size_t i = 0; i < size; i++) {
		same = same && say(bitmap[i] == wanted[i], "entry of the bitmap",
				   i << 8 | bitmap[i], i << 8 | wanted[i]);
		*used += !!wanted[i];
	}
	free(wanted);
	return same;
}

static bool same_result(struct ptah_coverage *coverage, const struct reference *r,
			const struct ptah_coverage_result *result, size_t new_blocks,
			size_t new_edges)
{
	uint64_t used;

	return same_bitmap(coverage, &r->list, &used) &&
	       say(result->errors == r->errors, "errors", result->errors, r->errors) &&
	       say(result->overflows == r->overflows, "overflows", result->overflows,
		   r->overflows) &&
	       say(result->gaps == r->gaps, "gaps", result->gaps, r->gaps) &&
	       say(result->entries == used, "entries", result->entries, used) &&
	       say(result->new_blocks == new_blocks, "new blocks", result->new_blocks,
		   new_blocks) &&
	       say(result->new_edges == new_edges, "new edges", result->new_edges, new_edges);
}

static void list_sets(struct ptah_coverage *coverage, struct list *list)
{
	struct ptah_profile_block *blocks;
	struct ptah_profile_edge *edges;
	struct ptah_space s;
	size_t n, m;

	if (ptah_profile_blocks(ptah_coverage_profile(coverage), &blocks, &n) < 0 ||
	    ptah_profile_edges(ptah_coverage_profile(coverage), &edges, &m) < 0)
		abort();
	for (size_t i = 0; i < n; i++) {
		const struct ptah_profile_block *b = &blocks[i];
		const uint32_t kind =
		    form(b->ninsn, b->mode, b->insn_class, b->last_size, b->truncated);

		ptah_profile_space(ptah_coverage_profile(coverage), b->space, &s);
		add(list, &(struct counted){.thing = {b->ip, b->end, s.cr3, s.vmcs, kind, 0},
					    .count = b->count,
					    .taken = b->taken});
	}
	for (size_t i = 0; i < m; i++) {
		const struct ptah_profile_edge *e = &edges[i];

		ptah_profile_space(ptah_coverage_profile(coverage), e->space, &s);
		add(list, &(struct counted){.thing = {e->from, e->to, s.cr3, s.vmcs,
						      form(0, e->mode, e->insn_class, 0, 0), 1},
					    .count = e->count});
	}
	free(blocks);
	free(edges);
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), by_thing);
}

static bool same_sets(struct ptah_coverage *coverage, const struct list *wanted)
{
	struct list list = {0};
	bool same = true;

	list_sets(coverage, &list);
	for (size_t i = 0; i < list.n && i < wanted->n && same; i++) {
		const struct counted *x = &list.items[i], *y = &wanted->items[i];

		same = say(!by_thing(x, y), "a block or an edge", x->thing.a, y->thing.a) &&
		       say(x->count == y->count, "its count", x->count, y->count) &&
		       say(x->taken == y->taken, "taken", x->taken, y->taken);
	}
	same = same && say(list.n == wanted->n, "blocks and edges", list.n, wanted->n);
	free(list.items);
	return same;
}

static void run(struct ptah_coverage *coverage, const struct execution *e, size_t chunk,
		struct ptah_coverage_result *result)
{
	/* Feeds from memory that is freed after the call. */
	size_t at = 0;

	if (coverage_begin(coverage) < 0)
		abort();
	do {
		const size_t part = e->size - at < chunk ? e->size - at : chunk;
		uint8_t *copy = malloc(part ? part : 1);

		if (!copy)
			abort();
		if (part)
			memcpy(copy, e->trace + at, part);
		if (coverage_feed(coverage, copy, part, at + part == e->size))
			abort();
		free(copy);
		at += part;
	} while (at < e->size);
	if (coverage_end(coverage, result) < 0)
		abort();
}

/* Runs one execution with both; `all` collects what all of them ran. */
static bool compare(struct ptah_coverage *coverage, const struct ptah_coverage_config *config,
		    const struct ptah_image *full, const struct execution *e, size_t chunk,
		    struct list *all)
{
	struct reference r = {.config = config};
	struct ptah_coverage_result result;
	const size_t edges = edges_of(all), things = all->n;
	bool same;

	decode(&r, full, e);
	for (size_t i = 0; i < r.list.n; i++)
		add(all, &r.list.items[i]);
	merge(all);
	if (chunk)
		run(coverage, e, chunk, &result);
	else if (ptah_coverage_run(coverage, e->trace, e->size, &result) < 0)
		abort();
	same = say(!r.mistaken, "the reference itself", 0, 0) &&
	       same_result(coverage, &r, &result, all->n - edges_of(all) - (things - edges),
			   edges_of(all) - edges);
	free(r.list.items);
	return same;
}

/* Chooses a range in the middle of what is mapped around the lowest address of a block. */
static void choose_ranges(struct ptah_coverage_config *config, const struct ptah_image *full,
			  const struct execution *e)
{
	struct ptah_coverage_config all = {.flow = config->flow};
	struct reference r = {.config = &all};

	decode(&r, full, e);
	config->range_count = 2;
	config->ranges[1] = (struct ptah_range){1, 0, 0}; /* empty */
	for (size_t i = 0, n = r.list.n; i < 2 && n; i++) {
		const uint64_t ip = r.list.items[n / (i + 2)].thing.a;

		config->ranges[i] = (struct ptah_range){ip, ip + (i ? 0x40 : 0x1000), 0};
	}
	free(r.list.items);
}

bool coverage_equals_flow(const struct ptah_image *full, const struct ptah_image *image,
			  const struct ptah_flow_config *config, const struct execution *executions,
			  size_t n, size_t chunk, unsigned variant)
{
	const struct ptah_flow_config none = {.size = sizeof(none)};
	struct ptah_coverage_config c = {.size = sizeof(c), .flow = config ? *config : none};
	uint8_t small[64];
	struct ptah_coverage *coverage;
	struct list all = {0};
	bool same = true;

	c.max_places = variant == 1 ? 1 : 0;
	c.no_rows = variant == 2;
	if (variant == 3) {
		memset(small, 0xaa, sizeof(small));
		c.bitmap = small;
		c.bitmap_size = sizeof(small);
		choose_ranges(&c, full, &executions[0]);
	}
	if (ptah_coverage_new(image, &c, &coverage) < 0)
		abort();
	for (size_t i = 0; i < 2 * n && same; i++)
		same = compare(coverage, &c, full, &executions[i % n], chunk, &all);
	same = same && same_sets(coverage, &all);
	ptah_coverage_free(coverage);
	free(all.items);
	return same;
}
