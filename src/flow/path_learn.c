/* SPDX-License-Identifier: MIT */
/*
 * Finds out what a packet does at a place, by the flow's own rules (route.c), and records it as a
 * path.
 */
#include "flow/path_tables.h"

#include "flow/route.h"
#include "flow/spans.h"

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

/* Collects the nodes on a route. */
struct listing {
	uint32_t count, ninsn;
	uint64_t nodes[MAX_BLOCKS + 1]; /* one more than fits, to notice that a route is too long */
};

static void list_node(void *context, const struct code_node *node, bool taken, const uint64_t *to)
{
	struct listing *l = context;

	(void)to;
	if (l->count <= MAX_BLOCKS)
		l->nodes[l->count++] = (uintptr_t)node | taken;
	l->ninsn += code_ninsn(node);
}

/* Makes a place of a call's return site: it will be reached as often as the call is made. */
static uint32_t return_place(struct ptah_flow *f, struct code_node *call)
{
	struct code_node *node;
	int status;

	if (!code_next(call, 0))
		call->next[0] = code_find(&f->code, call->end, code_mode(call), &status);
	node = call->next[0];
	if (!node)
		return 0;
	return *code_place(node) >= STRIDE ? *code_place(node) : paths_make_place(f->paths, node);
}

static void put_open_calls(const struct route *r, struct return_site *sites)
{
	for (unsigned i = 0; i < r->pushes; i++)
		sites[i] = (struct return_site){r->calls[i]->end, r->calls[i],
						return_place(r->flow, r->calls[i])};
}

/* Returns the path's number; 0: the tables are full. */
static uint32_t make_block_path(struct flow_paths *s, const struct route *r,
				const struct listing *l)
{
	struct path *path = (struct path *)paths_new_words(
	    s, PATH_WORDS + 2 * l->count + SITE_WORDS * r->pushes + l->count + 1);
	struct ptah_block *blocks;

	if (!path)
		return 0;
	path->ninsn = l->ninsn;
	path->blocks = (uint8_t)l->count;
	path->pushes = (uint8_t)r->pushes;
	path->reach = (uint8_t)r->reach;
	blocks = blocks_of(path);
	for (unsigned i = 0; i < l->count; i++)
		blocks[i] = block_of((const struct code_node *)(l->nodes[i] & ~UINT64_C(1)),
				     (uint8_t)((l->nodes[i] & 1) << TAKEN_BIT));
	put_open_calls(r, open_calls_of(path));
	memcpy(nodes_of(path), l->nodes, l->count * sizeof(*l->nodes));
	*node_after(path) = r->node;
	return paths_number(s, path, path->blocks);
}

/* Lists the spans that end on a route. Returns how many; *ninsn: instructions after them. */
static unsigned list_spans(const struct route *r, const struct listing *l, bool open_end,
			   struct ptah_span *spans, uint32_t *ninsn)
{
	struct flow_spans list = {.spans = spans, .capacity = MAX_BLOCKS};

	for (unsigned i = 0; i < l->count; i++) {
		const uint64_t taken = l->nodes[i] & 1;
		const struct code_node *node = (const struct code_node *)(l->nodes[i] - taken);
		const struct code_node *next =
		    i + 1 < l->count ? (const struct code_node *)(l->nodes[i + 1] & ~UINT64_C(1))
				     : r->node;
		struct ptah_span block = {.ip = node->ip,
					  .end = node->end,
					  .to = next->ip,
					  .ninsn = code_ninsn(node),
					  .insn_class = node->insn_class,
					  .last_size = (uint8_t)code_last_size(node),
					  .flags = (uint8_t)(taken << TAKEN_BIT),
					  .space = node->space};

		if (open_end && i + 1 == l->count)
			block.to = 0;
		flow_add_span(r->flow, &list, &block);
	}
	*ninsn = (uint32_t)list.open.ninsn;
	return (unsigned)list.count;
}

void paths_put_ends(struct span_end *ends, struct ptah_span *spans, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		spans[i].mode = 0;
		spans[i].flags &= (uint8_t)~PTAH_ITEM_SPECULATIVE;
		ends[i] = (struct span_end){
		    .end = spans[i].end, .to = spans[i].to, .ninsn = (uint32_t)spans[i].ninsn};
		memcpy(&ends[i].word, &spans[i].insn_class, sizeof(ends[i].word));
	}
}

static uint32_t make_span_path(struct flow_paths *s, const struct route *r, const struct listing *l,
			       bool open_end)
{
	struct ptah_span spans[MAX_BLOCKS];
	struct span_path *path;
	struct span_end *ends;
	uint32_t ninsn;
	const unsigned n = list_spans(r, l, open_end, spans, &ninsn);

	path = (struct span_path *)paths_new_words(s, SPAN_PATH_WORDS + n * SPAN_END_WORDS +
							  SITE_WORDS * r->pushes);
	if (!path)
		return 0;
	*path = (struct span_path){.ninsn = ninsn,
				   .pushes = (uint8_t)r->pushes,
				   .reach = (uint8_t)r->reach,
				   .node = open_end ? NULL : r->node};
	ends = span_ends_of(path);
	paths_put_ends(ends, spans, n);
	put_open_calls(r, (struct return_site *)(ends + n));
	return paths_number(s, path, n);
}

/*
 * open_end: the path ends at an indirect branch or a return, and what follows differs. 0: the
 * tables are full.
 */
static uint32_t make_path(struct flow_paths *s, const struct route *r, const struct listing *l,
			  bool open_end)
{
	return s->spans ? make_span_path(s, r, l, open_end) : make_block_path(s, r, l);
}

/* False: the packet is too complex for a path, or the tables are full. */
static bool make_tnt_path(struct flow_paths *s, struct route *r, struct listing *l,
			  unsigned payload, union entry *entry)
{
	const enum route_stop stop = route_spend(r, payload);

	if (stop == ROUTE_RETURN)
		list_node(l, r->node, false, NULL);
	if ((stop != ROUTE_SPENT && stop != ROUTE_RETURN) || !r->node || l->count > MAX_BLOCKS)
		return false;
	entry->path = make_path(s, r, l, stop == ROUTE_RETURN);
	if (!entry->path)
		return false;
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
	bool pops;

	if (!route_take_tip(r, &pops) || !flow_is_near_indirect(r->node))
		return false;
	list_node(l, r->node, false, NULL);
	if (l->count > MAX_BLOCKS)
		return false;
	entry->path = make_path(s, r, l, true);
	if (!entry->path)
		return false;
	entry->next = (r->reach ? NEXT_PUSHES : 0) | (pops ? NEXT_POPS : 0);
	return true;
}

NOINLINE bool paths_learn(struct ptah_flow *f, uint32_t place, unsigned payload)
{
	struct flow_paths *s = f->paths;
	const uint32_t known = s->rows[place + payload].path;
	struct listing l = {0};
	struct route r = {.flow = f,
			  .node = paths_node_at(s, place),
			  .ip = paths_node_at(s, place)->ip,
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
	/* return_place() may have moved the rows. */
	if (good)
		s->rows[place + payload] = made;
	else if (!s->full)
		s->rows[place + payload].path = PATH_REFUSED;
	return good;
}

NOINLINE bool paths_learn_steps(struct ptah_flow *f, struct path *p)
{
	struct flow_paths *s = f->paths;
	const size_t at = (size_t)((uint64_t *)p - s->words);
	struct ptah_step *step =
	    (struct ptah_step *)paths_new_words(s, 2 * (p->ninsn + STEP_GROUP));

	if (!step)
		return false;
	p = (struct path *)(s->words + at);
	for (unsigned i = 0; i < p->blocks; i++) {
		struct code_node *node = (struct code_node *)(nodes_of(p)[i] & ~UINT64_C(1));
		const struct ptah_insn *insns = code_node_insns(&f->code, node);
		const struct ptah_block *block = &blocks_of(p)[i];

		if (!insns)
			return false;
		step = flow_put_steps(step, insns, block->ninsn, node->space, block->flags);
	}
	p->steps_at = (uint32_t)((uint64_t *)step - 2 * p->ninsn - s->words);
	return true;
}
