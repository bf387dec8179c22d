/* SPDX-License-Identifier: MIT */
/* Adds up call trees by names. */
#include "output/call_graph.h"

#include "base/order.h"
#include "support/index.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* Which key an address has in a process. */
struct graph_address {
	uint64_t address;
	int32_t space;
	uint32_t key;
};

struct graph_tables {
	struct index keys, nodes, addresses;
	struct graph_address *address; /* address[0] is none */
	uint32_t address_count, address_capacity, key_capacity, node_capacity;
	uint64_t *places;  /* of keys: where the function lies in its file */
	uint32_t *running; /* of keys: how often each is on the path that is being added */
};

int call_graph_new(const struct call_graph_config *config, struct call_graph **graph)
{
	struct call_graph *g = calloc(1, sizeof(*g));

	*graph = g;
	if (!g)
		return PTAH_E_NOMEM;
	g->config = *config;
	g->tables = calloc(1, sizeof(*g->tables));
	if (g->tables) {
		g->nodes = calloc(64, sizeof(*g->nodes));
		g->tables->node_capacity = 64;
		g->node_count = g->key_count = g->tables->address_count = 1;
	}
	if (!g->tables || !g->nodes) {
		call_graph_free(g);
		*graph = NULL;
		return PTAH_E_NOMEM;
	}
	return 0;
}

void call_graph_free(struct call_graph *g)
{
	if (!g)
		return;
	if (g->tables) {
		index_free(&g->tables->keys);
		index_free(&g->tables->nodes);
		index_free(&g->tables->addresses);
		free(g->tables->address);
		free(g->tables->places);
		free(g->tables->running);
		free(g->tables);
	}
	free(g->keys);
	free(g->nodes);
	free(g);
}

/* Keys */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Texts that are NULL differ from empty ones. */
static uint64_t hash_text(const struct index *x, const char *text)
{
	return text ? index_hash_bytes(x, text, strlen(text) + 1) : 0;
}

static uint32_t hash_key(const struct index *x, const struct graph_key *key, uint64_t place)
{
	const uint64_t words[] = {place, key->line, hash_text(x, key->path),
				  hash_text(x, key->special), hash_text(x, key->file)};

	return index_hash_bytes(x, words, sizeof(words));
}

static bool reserve_key(struct call_graph *g)
{
	struct graph_tables *t = g->tables;
	const uint32_t before = t->key_capacity;
	uint32_t places = before, running = before;

	if (g->keys && g->key_count < before)
		return true;
	if (!LIST_ROOM(t->places, g->key_count, places) ||
	    !LIST_ROOM(t->running, g->key_count, running) ||
	    !LIST_ROOM(g->keys, g->key_count, t->key_capacity))
		return false;
	memset(t->running + before, 0, (t->key_capacity - before) * sizeof(*t->running));
	memset(g->keys + before, 0, (t->key_capacity - before) * sizeof(*g->keys));
	memset(t->places + before, 0, (t->key_capacity - before) * sizeof(*t->places));
	return true;
}

/* The number of a key. 0: out of memory. */
static uint32_t find_key(struct call_graph *g, const struct graph_key *key, uint64_t place)
{
	struct graph_tables *t = g->tables;
	uint32_t hash, at;

	if (!index_reserve(&t->keys))
		return 0;
	hash = hash_key(&t->keys, key, place);
	INDEX_FIND(at, &t->keys, hash,
		   t->places[at] == place && g->keys[at].line == key->line &&
		       same_text(g->keys[at].path, key->path) &&
		       same_text(g->keys[at].special, key->special) &&
		       same_text(g->keys[at].file, key->file));
	if (at)
		return at;
	if (!reserve_key(g))
		return 0;
	at = g->key_count++;
	g->keys[at] = *key;
	t->places[at] = place;
	index_add(&t->keys, hash, at);
	return at;
}

static uint32_t special_key(struct call_graph *g, const char *special)
{
	return find_key(g, &(struct graph_key){.special = special}, 0);
}

/*
 * The source file and line of a function: where it is declared, or of assembly, which has no
 * declarations, where it begins.
 */
static void find_graph_line(const struct call_graph *g, const struct name *name,
			    struct graph_key *key)
{
	struct ptah_symbols *symbols = names_symbols(g->config.names);
	struct ptah_inline function;
	struct ptah_line line = {0};
	struct name begin = *name;

	begin.ip -= name->offset;
	begin.code_at -= name->offset;
	if (name->code && ptah_symbols_function(symbols, name->code, begin.code_at, &function) &&
	    function.file) {
		line.file = function.file;
		line.line = function.line;
	} else if (!names_line(g->config.names, &begin, &line)) {
		return;
	}
	key->file = line.file;
	key->line = g->config.sort & GRAPH_LINE ? line.line : 0;
}

/*
 * Functions are the same where they are the same place of the same file. Without functions the keys
 * are what is left of it: the object, the source file, the line.
 */
static uint32_t key_of_address(struct call_graph *g, int32_t space, uint64_t address)
{
	const struct name *name = names_find(g->config.names, space, address);
	const unsigned sort = g->config.sort;
	struct graph_key key = {.ip = address};
	uint64_t place = name->place - name->offset;

	if (sort & (GRAPH_FILE | GRAPH_LINE))
		find_graph_line(g, name, &key);
	if (sort & (GRAPH_FUNCTION | GRAPH_OBJECT))
		key.path = name->path;
	if (sort & GRAPH_OBJECT)
		key.object = name->dso;
	if (!(sort & GRAPH_FUNCTION))
		return find_key(g, &key, 0);
	key.function = name->symbol;
	return find_key(g, &key, name->path ? place : address);
}

static uint32_t find_address(struct call_graph *g, int32_t space, uint64_t address)
{
	struct graph_tables *t = g->tables;
	uint32_t hash, at, key;

	if (!index_reserve(&t->addresses))
		return 0;
	hash = index_hash(&t->addresses, (uint32_t)space, address);
	INDEX_FIND(at, &t->addresses, hash,
		   t->address[at].address == address && t->address[at].space == space);
	if (at)
		return t->address[at].key;
	key = key_of_address(g, space, address);
	if (!key || !LIST_ROOM(t->address, t->address_count, t->address_capacity))
		return 0;
	t->address[t->address_count] = (struct graph_address){address, space, key};
	index_add(&t->addresses, hash, t->address_count++);
	return key;
}

/* Nodes */

static void add_graph_figures(struct ptah_call_figures *to, const struct ptah_call_figures *f)
{
	to->instructions += f->instructions;
	to->cycles += f->cycles;
	to->time += f->time;
}

/* The child of a node. 0: out of memory. */
static uint32_t find_graph_node(struct call_graph *g, uint32_t parent, uint32_t key)
{
	struct graph_tables *t = g->tables;
	uint32_t hash, at;

	if (!index_reserve(&t->nodes))
		return 0;
	hash = index_hash(&t->nodes, parent, key);
	INDEX_FIND(at, &t->nodes, hash, g->nodes[at].parent == parent && g->nodes[at].key == key);
	if (at)
		return at;
	if (g->node_count == UINT32_MAX / 2 ||
	    !LIST_ROOM(g->nodes, g->node_count, t->node_capacity))
		return 0;
	at = g->node_count++;
	g->nodes[at] =
	    (struct graph_node){.key = key, .parent = parent, .depth = g->nodes[parent].depth + 1};
	index_add(&t->nodes, hash, at);
	return at;
}

/* A tree that is being added. */
struct adding {
	struct call_graph *g;
	const struct ptah_call_node *from;
	size_t n;
	uint32_t *keys;	 /* of each node of `from` */
	uint32_t *nodes; /* in the graph */
	bool *same;	 /* it is not told apart from its caller */
};

/* Whether it is a stub that is to be left out. An outermost one is not: it has no caller. */
static bool is_left_out(const struct call_graph *g, const struct ptah_call_node *n)
{
	return n->parent && !g->config.stubs && n->function_flags & PTAH_CALL_STUB &&
	       !(n->flags & PTAH_CALL_NODE_FOLDED);
}

/* What a node is called that is no function. NULL: it is one. */
static const char *label_of(const struct call_graph *g, const struct ptah_call_node *n)
{
	const struct graph_labels *labels = g->config.labels;
	const uint64_t i = n->function - GRAPH_LABEL;

	return labels && i < labels->count ? labels->texts[i] : NULL;
}

/* The key of a node's function, or of what is none. 0: out of memory. */
static uint32_t key_of_node(struct call_graph *g, const struct ptah_call_thread *thread,
			    const struct ptah_call_node *n)
{
	if (n->flags & PTAH_CALL_NODE_FOLDED)
		return special_key(g, "[folded]");
	if (label_of(g, n)) {
		g->totals.calls -= n->count;
		return special_key(g, label_of(g, n));
	}
	return find_address(g, ptah_call_thread_space(thread, n->space), n->function);
}

static int find_keys(struct adding *a, const struct ptah_call_thread *thread)
{
	for (size_t i = 1; i < a->n; i++) {
		const struct ptah_call_node *n = &a->from[i];

		if (is_left_out(a->g, n)) {
			a->keys[i] = a->keys[n->parent];
			a->same[i] = true;
			a->g->totals.calls -= n->count;
			continue;
		}
		a->keys[i] = key_of_node(a->g, thread, n);
		if (!a->keys[i])
			return PTAH_E_NOMEM;
		a->same[i] = n->parent && !(a->g->config.sort & GRAPH_FUNCTION) &&
			     a->keys[i] == a->keys[n->parent];
	}
	return 0;
}

/* Leaves the path of node `last`, up to `parent`. */
static void leave(const struct adding *a, size_t last, size_t parent)
{
	for (; last != parent; last = a->from[last].parent)
		if (!a->same[last])
			a->g->tables->running[a->keys[last]]--;
}

/* Sums by key. */
static void add_keys(const struct adding *a)
{
	struct call_graph *g = a->g;
	size_t last = 0;

	for (size_t i = 1; i < a->n; i++) {
		const struct ptah_call_node *n = &a->from[i];
		struct graph_key *key = &g->keys[a->keys[i]];

		leave(a, last, n->parent);
		last = i;
		add_graph_figures(&key->self, &n->self);
		if (a->same[i])
			continue;
		key->count += n->count;
		if (!g->tables->running[a->keys[i]]++)
			add_graph_figures(&key->inclusive, &n->inclusive);
	}
	leave(a, last, 0);
}

/* From callers to callees. */
static int add_down(const struct adding *a)
{
	struct call_graph *g = a->g;

	for (size_t i = 1; i < a->n; i++) {
		const struct ptah_call_node *n = &a->from[i];
		const uint32_t parent = a->nodes[n->parent];
		const uint32_t at = a->same[i] ? parent : find_graph_node(g, parent, a->keys[i]);

		if (!at)
			return PTAH_E_NOMEM;
		a->nodes[i] = at;
		add_graph_figures(&g->nodes[at].self, &n->self);
		if (a->same[i])
			continue;
		g->nodes[at].count += n->count;
		add_graph_figures(&g->nodes[at].inclusive, &n->inclusive);
	}
	return 0;
}

/* From a function to its callers: what ran in the function itself counts for each of them. */
static int add_up(const struct adding *a)
{
	struct call_graph *g = a->g;

	for (size_t i = 1; i < a->n; i++) {
		const struct ptah_call_node *n = &a->from[i];
		uint32_t at = 0, levels = 0;

		for (size_t k = i; k && levels <= GRAPH_MOST_CALLERS; k = a->from[k].parent) {
			if (a->same[k])
				continue;
			at = find_graph_node(g, at, a->keys[k]);
			if (!at)
				return PTAH_E_NOMEM;
			g->nodes[at].count += a->same[i] ? 0 : n->count;
			add_graph_figures(&g->nodes[at].inclusive, &n->self);
			if (!levels++)
				add_graph_figures(&g->nodes[at].self, &n->self);
		}
	}
	return 0;
}

/* By caller and callee. Nested calls of a function are in `inclusive` once, as in the sums by key.
 */
static int add_graph_pairs(const struct adding *a)
{
	struct call_graph *g = a->g;
	const uint32_t outermost = special_key(g, "[outermost]");
	size_t last = 0;

	if (!outermost)
		return PTAH_E_NOMEM;
	for (size_t i = 1; i < a->n; i++) {
		const struct ptah_call_node *n = &a->from[i];
		const uint32_t caller = n->parent ? a->keys[n->parent] : outermost;
		uint32_t at = a->nodes[n->parent];

		if (!a->same[i]) {
			at = find_graph_node(g, 0, caller);
			at = at ? find_graph_node(g, at, a->keys[i]) : 0;
		}
		if (!at)
			return PTAH_E_NOMEM;
		a->nodes[i] = at;
		leave(a, last, n->parent);
		last = i;
		add_graph_figures(&g->nodes[at].self, &n->self);
		if (a->same[i])
			continue;
		g->nodes[at].count += n->count;
		if (!g->tables->running[a->keys[i]]++)
			add_graph_figures(&g->nodes[at].inclusive, &n->inclusive);
	}
	leave(a, last, 0);
	return 0;
}

/* What ran in no function, as a key and a child of the root. */
static int add_outside(struct call_graph *g, const struct ptah_call_figures *figures)
{
	uint32_t key, at;

	if (!figures->instructions)
		return 0;
	key = special_key(g, "[outside of functions]");
	at = key ? find_graph_node(g, 0, key) : 0;
	if (!at)
		return PTAH_E_NOMEM;
	add_graph_figures(&g->keys[key].self, figures);
	add_graph_figures(&g->keys[key].inclusive, figures);
	add_graph_figures(&g->nodes[at].self, figures);
	add_graph_figures(&g->nodes[at].inclusive, figures);
	return 0;
}

static void add_graph_totals(struct ptah_call_totals *to, const struct ptah_call_totals *from)
{
	add_graph_figures(&to->inclusive, &from->inclusive);
	to->calls += from->calls;
	to->paths += from->paths;
	to->partial += from->partial;
	to->untimed += from->untimed;
	to->uncycled += from->uncycled;
	to->folded_paths += from->folded_paths;
	to->folded_calls += from->folded_calls;
	add_graph_figures(&to->folded, &from->folded);
	to->unlisted_calls += from->unlisted_calls;
	add_graph_figures(&to->unlisted, &from->unlisted);
}

/* Whether it is a call of the function that the graph is limited to. */
static bool is_wanted(const struct call_graph *g, const struct ptah_call_thread *thread,
		      uint16_t space, uint64_t function)
{
	const struct name *name =
	    names_find(g->config.names, ptah_call_thread_space(thread, space), function);

	return names_is(g->config.names, name, g->config.function);
}

/* How many calls of that function are not wholly in the trace. */
static int count_partial(const struct call_graph *g, const struct ptah_call_thread *thread,
			 const struct ptah_call_tree *tree, uint64_t *partial)
{
	struct ptah_call_function *functions = NULL;
	size_t n = 0;
	const int status = ptah_call_tree_functions(tree, &functions, &n);

	*partial = 0;
	for (size_t i = 0; status >= 0 && i < n; i++)
		if (is_wanted(g, thread, functions[i].space, functions[i].function))
			*partial += functions[i].partial;
	free(functions);
	return status;
}

/*
 * Leaves the calls of one function, with what they called, directly below the root; *totals are
 * theirs. Nodes come after their parents.
 */
static int keep_function(struct call_graph *g, const struct ptah_call_thread *thread,
			 struct ptah_call_node *nodes, size_t *count,
			 struct ptah_call_totals *totals)
{
	uint32_t *at = calloc(*count, sizeof(*at)); /* where a node is now; 0: left out */
	size_t kept = 1;

	if (!at)
		return PTAH_E_NOMEM;
	totals->inclusive = totals->folded = (struct ptah_call_figures){0};
	totals->calls = totals->folded_calls = totals->folded_paths = 0;
	for (size_t i = 1; i < *count; i++) {
		struct ptah_call_node n = nodes[i];

		n.parent = at[n.parent];
		if (n.flags & PTAH_CALL_NODE_FOLDED) {
			*(n.parent ? &totals->folded_calls : &g->folded_elsewhere) += n.count;
			if (!n.parent)
				continue;
			add_graph_figures(&totals->folded, &n.inclusive);
		} else if (!n.parent && !is_wanted(g, thread, n.space, n.function)) {
			continue;
		}
		if (!n.parent)
			add_graph_figures(&totals->inclusive, &n.inclusive);
		totals->calls += n.count;
		at[i] = (uint32_t)kept;
		nodes[kept++] = n;
	}
	nodes[0].self = (struct ptah_call_figures){0};
	*count = kept;
	free(at);
	return 0;
}

int call_graph_add(struct call_graph *g, const struct ptah_call_thread *thread,
		   const struct ptah_call_tree *tree)
{
	struct adding a = {.g = g};
	struct ptah_call_node *nodes = NULL;
	struct ptah_call_totals totals;
	int status = ptah_call_tree_totals(tree, &totals);

	if (status >= 0)
		status = ptah_call_tree_nodes(tree, &nodes, &a.n);
	if (status >= 0 && g->config.function)
		status = keep_function(g, thread, nodes, &a.n, &totals);
	if (status >= 0 && g->config.function)
		status = count_partial(g, thread, tree, &totals.partial);
	if (status < 0) {
		free(nodes);
		return status;
	}
	a.from = nodes;
	a.keys = calloc(a.n, sizeof(*a.keys));
	a.nodes = calloc(a.n, sizeof(*a.nodes));
	a.same = calloc(a.n, sizeof(*a.same));
	status = a.keys && a.nodes && a.same ? find_keys(&a, thread) : PTAH_E_NOMEM;
	if (status >= 0)
		status = g->config.direction == GRAPH_DOWN ? add_down(&a)
			 : g->config.direction == GRAPH_UP ? add_up(&a)
							   : add_graph_pairs(&a);
	if (status >= 0)
		add_keys(&a);
	if (status >= 0)
		status = add_outside(g, &nodes[0].self);
	add_graph_totals(&g->totals, &totals);
	add_graph_figures(&g->nodes[0].inclusive, &totals.inclusive);
	g->nodes[0].count = g->totals.calls;
	free(nodes);
	free(a.keys);
	free(a.nodes);
	free(a.same);
	return status;
}

/* Order */

uint64_t graph_figure(const struct ptah_call_figures *f, enum ptah_call_value value)
{
	return value == PTAH_CALL_VALUE_TIME	 ? f->time
	       : value == PTAH_CALL_VALUE_CYCLES ? f->cycles
						 : f->instructions;
}

/* A node as it is sorted: by parent, then the most first. */
struct ordered {
	uint64_t value, count;
	uint32_t parent, node;
	const struct graph_key *key;
};

static int by_graph_place(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	int order;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	order = strcmp(x->key->function ? x->key->function : "",
		       y->key->function ? y->key->function : "");
	if (order)
		return order;
	return COMPARE(x->key->ip, y->key->ip);
}

int call_graph_sort(struct call_graph *g)
{
	const size_t n = g->node_count - 1;
	struct ordered *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct graph_node *node = &g->nodes[i + 1];

		list[i] =
		    (struct ordered){graph_figure(&node->inclusive, g->config.value), node->count,
				     node->parent, (uint32_t)i + 1, &g->keys[node->key]};
	}
	qsort(list, n, sizeof(*list), by_graph_place);
	for (size_t i = n; i-- > 0;) {
		struct graph_node *node = &g->nodes[list[i].node];

		node->next = g->nodes[node->parent].first;
		g->nodes[node->parent].first = list[i].node;
	}
	free(list);
	return 0;
}
