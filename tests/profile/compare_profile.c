/* SPDX-License-Identifier: MIT */
/*
 * Adds up the items of a plain flow into blocks, edges and totals, and compares
 * them with the profile's.
 */
#include "compare_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
	struct ptah_profile_block *blocks;
	size_t n, capacity;
	struct ptah_profile_totals totals;
};

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* The order of ptah_profile_blocks(). */
static int order(const void *a, const void *b)
{
	const struct ptah_profile_block *x = a, *y = b;
	int c = compare(x->space, y->space);

	c = c ? c : compare(x->ip, y->ip);
	c = c ? c : compare(x->mode, y->mode);
	c = c ? c : compare(x->end, y->end);
	c = c ? c : compare(x->truncated, y->truncated);
	return c ? c : compare(x->insn_class, y->insn_class);
}

static void add(struct counts *c, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_ERROR && !c->totals.errors++)
		c->totals.first_error = *item;
	c->totals.overflows += item->type == PTAH_ITEM_OVERFLOW;
	c->totals.gaps += item->type == PTAH_ITEM_GAP;
	if (item->type != PTAH_ITEM_BLOCK)
		return;
	c->totals.blocks++;
	c->totals.instructions += item->ninsn;
	c->totals.classes[item->insn_class]++;
	c->totals.taken += !!(item->flags & PTAH_ITEM_TAKEN);
	if (c->n == c->capacity) {
		c->capacity = c->capacity ? 2 * c->capacity : 1024;
		c->blocks = realloc(c->blocks, c->capacity * sizeof(*c->blocks));
		if (!c->blocks)
			abort();
	}
	c->blocks[c->n++] = (struct ptah_profile_block){
	    .ip = item->ip,
	    .end = item->end,
	    .count = 1,
	    .taken = !!(item->flags & PTAH_ITEM_TAKEN),
	    .unknown = !!(item->flags & PTAH_ITEM_UNKNOWN),
	    .space = item->code.space,
	    .section = item->code.section,
	    .ninsn = item->ninsn,
	    .mode = item->mode,
	    .insn_class = item->insn_class,
	    .last_size = item->last_size,
	    .truncated = item->flags & PTAH_ITEM_TRUNCATED,
	};
}

/* Sorts the entries and joins equal ones. */
static void merge(struct counts *c)
{
	size_t n = 0;

	if (!c->n)
		return;
	qsort(c->blocks, c->n, sizeof(*c->blocks), order);
	for (size_t i = 1; i < c->n; i++) {
		if (!order(&c->blocks[n], &c->blocks[i])) {
			c->blocks[n].count += c->blocks[i].count;
			c->blocks[n].taken += c->blocks[i].taken;
			c->blocks[n].unknown += c->blocks[i].unknown;
		} else {
			c->blocks[++n] = c->blocks[i];
		}
	}
	c->n = n + 1;
}

static void count_flow(const struct ptah_image *image, const struct ptah_flow_config *config,
		       const uint8_t *trace, size_t size, size_t chunk, struct counts *c)
{
	struct ptah_flow_config plain = {.size = sizeof(plain)};
	struct ptah_item items[256];
	struct ptah_flow *flow;
	size_t at = 0;
	int n;

	if (config)
		plain = *config;
	plain.no_paths = true;
	memset(c, 0, sizeof(*c));
	if (ptah_flow_new(image, &plain, &flow) < 0)
		abort();
	do {
		size_t part = size - at < chunk ? size - at : chunk;

		if (ptah_flow_feed(flow, trace + at, part, at + part == size) < 0)
			abort();
		at += part;
		while ((n = ptah_flow_read(flow, items, 256)) > 0)
			for (int i = 0; i < n; i++)
				add(c, &items[i]);
	} while (at < size);
	ptah_flow_free(flow);
	merge(c);
}

/*
 * Feeds a profile in chunks, from memory that is freed after each call. The caller frees the
 * profile.
 */
static struct ptah_profile *profile_of(const struct ptah_image *image,
				       const struct ptah_profile_config *config,
				       const uint8_t *trace, size_t size, size_t chunk)
{
	struct ptah_profile *profile;
	size_t at = 0;

	if (ptah_profile_new(image, config, &profile) < 0)
		abort();
	do {
		size_t part = size - at < chunk ? size - at : chunk;
		uint8_t *copy = malloc(part ? part : 1);

		if (!copy)
			abort();
		memcpy(copy, trace + at, part);
		if (ptah_profile_feed(profile, copy, part, at + part == size))
			abort();
		free(copy);
		at += part;
	} while (at < size);
	return profile;
}

static void say(const char *who, const struct ptah_profile_block *b)
{
	fprintf(stderr,
		"%s: %" PRIx64 "-%" PRIx64 " mode %u class %u ninsn %u%s space %u: %" PRIu64
		", taken %" PRIu64 "\n",
		who, b->ip, b->end, b->mode, b->insn_class, b->ninsn, b->truncated ? " cut" : "",
		b->space, b->count, b->taken);
}

static bool same_blocks(const struct counts *c, struct ptah_profile *profile)
{
	struct ptah_profile_block *blocks;
	size_t n;
	bool same;

	if (ptah_profile_blocks(profile, &blocks, &n) < 0)
		abort();
	same = n == c->n;
	for (size_t i = 0; i < n && i < c->n; i++) {
		const struct ptah_profile_block *x = &blocks[i], *y = &c->blocks[i];

		if (!order(x, y) && x->count == y->count && x->taken == y->taken &&
		    x->unknown == y->unknown && x->ninsn == y->ninsn &&
		    x->last_size == y->last_size && x->section == y->section)
			continue;
		say("profile", x);
		say("flow", y);
		same = false;
		break;
	}
	if (n != c->n)
		fprintf(stderr, "%zu blocks, the flow has %zu\n", n, c->n);
	free(blocks);
	return same;
}

static bool same_totals(const struct counts *c, struct ptah_profile *profile)
{
	struct ptah_profile_totals t;

	if (ptah_profile_totals(profile, &t) < 0)
		abort();
	if (!memcmp(&t, &c->totals, sizeof(t)))
		return true;
	fprintf(stderr,
		"totals: %" PRIu64 " instructions, %" PRIu64 " blocks, %" PRIu64
		" errors; the flow has %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n",
		t.instructions, t.blocks, t.errors, c->totals.instructions, c->totals.blocks,
		c->totals.errors);
	return false;
}

/* With rows and without: in the second case the flow reports each indirect branch. */
static bool same_edges(struct ptah_profile *rows, struct ptah_profile *plain)
{
	struct ptah_profile_edge *a, *b;
	size_t n, m;
	bool same;

	if (ptah_profile_edges(rows, &a, &n) < 0 || ptah_profile_edges(plain, &b, &m) < 0)
		abort();
	same = n == m && !memcmp(a, b, n * sizeof(*a));
	for (size_t i = 0; !same && i < n && i < m; i++) {
		if (!memcmp(&a[i], &b[i], sizeof(*a)))
			continue;
		fprintf(stderr,
			"edges: %" PRIx64 " to %" PRIx64 " class %u: %" PRIu64
			"; the flow has %" PRIx64 " to %" PRIx64 " class %u: %" PRIu64 "\n",
			a[i].from, a[i].to, a[i].insn_class, a[i].count, b[i].from, b[i].to,
			b[i].insn_class, b[i].count);
		break;
	}
	if (!same)
		fprintf(stderr, "%zu edges, the flow has %zu\n", n, m);
	free(a);
	free(b);
	return same;
}

bool profile_equals_flow(const struct ptah_image *image, const struct ptah_flow_config *config,
			 const uint8_t *trace, size_t size, size_t chunk)
{
	/* By rows, by rows that are forgotten often, by the flow. */
	struct ptah_profile_config configs[3] = {
	    {.size = sizeof(*configs)},
	    {.size = sizeof(*configs), .max_places = 1},
	    {.size = sizeof(*configs), .no_rows = true},
	};
	const struct ptah_flow_config none = {.size = sizeof(none)};
	struct ptah_profile *profiles[3];
	struct counts c;
	bool same = true;

	config = config ? config : &none;
	chunk = chunk ? chunk : size + 1;
	count_flow(image, config, trace, size, chunk, &c);
	for (unsigned i = 0; i < 3; i++) {
		configs[i].flow = *config;
		profiles[i] = profile_of(image, &configs[i], trace, size, chunk);
	}
	for (unsigned i = 0; i < 3 && same; i++)
		same = same_totals(&c, profiles[i]) && same_blocks(&c, profiles[i]) &&
		       same_edges(profiles[i], profiles[2]);
	for (unsigned i = 0; i < 3; i++)
		ptah_profile_free(profiles[i]);
	free(c.blocks);
	return same;
}
