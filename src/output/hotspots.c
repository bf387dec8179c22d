/* SPDX-License-Identifier: MIT */
/* Adds up the counts of streams, block by block (hotspots.h). */
#include "output/hotspots_internal.h"

#include "base/compiler.h"
#include "base/hash.h"
#include "base/order.h"
#include <stdlib.h>
#include <string.h>

int hotspots_new(struct hotspots **counter)
{
	struct hotspots *c = calloc(1, sizeof(*c));

	if (!c)
		return PTAH_E_NOMEM;
	c->capacity = 8192;
	c->cells = calloc(c->capacity, sizeof(*c->cells));
	if (!c->cells) {
		free(c);
		return PTAH_E_NOMEM;
	}
	*counter = c;
	return 0;
}

void hotspots_free(struct hotspots *c)
{
	if (!c)
		return;
	free(c->cells);
	free(c);
}

const struct hotspot_totals *hotspots_totals(const struct hotspots *c)
{
	return &c->totals;
}

/* The cell with the key of `like`, or the free one where it belongs. */
static struct cell *find_hotspot_cell(const struct hotspots *c, const struct cell *like)
{
	uint64_t hash =
	    hash_number(like->ip ^ like->end << 32 ^ (uint64_t)(uint32_t)like->pid << 48 ^
			(like->version ^ like->to_version) << 16);
	size_t i = (size_t)(hash >> 24) & (c->capacity - 1);

	while (c->cells[i].ninsn &&
	       (c->cells[i].ip != like->ip || c->cells[i].end != like->end ||
		c->cells[i].pid != like->pid || c->cells[i].version != like->version ||
		c->cells[i].to_version != like->to_version ||
		c->cells[i].insn_class != like->insn_class))
		i = (i + 1) & (c->capacity - 1);
	return &c->cells[i];
}

static int grow(struct hotspots *c)
{
	struct hotspots bigger = *c;

	bigger.capacity *= 2;
	bigger.cells = calloc(bigger.capacity, sizeof(*bigger.cells));
	if (!bigger.cells)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < c->capacity; i++)
		if (c->cells[i].ninsn)
			*find_hotspot_cell(&bigger, &c->cells[i]) = c->cells[i];
	free(c->cells);
	*c = bigger;
	return 0;
}

/* The block's cell, which is added if there is none. NULL when out of memory. */
static struct cell *cell_of(struct hotspots *c, int32_t pid, const struct ptah_profile_block *block)
{
	const struct cell key = {.ip = block->ip,
				 .end = block->end,
				 .version = block->version,
				 .to_version = block->target_version,
				 .pid = pid,
				 .ninsn = block->ninsn,
				 .mode = block->mode,
				 .insn_class = block->insn_class};
	struct cell *cell = find_hotspot_cell(c, &key);

	if (cell->ninsn)
		return cell;
	if (2 * c->count >= c->capacity) {
		if (grow(c) < 0)
			return NULL;
		cell = find_hotspot_cell(c, &key);
	}
	c->count++;
	*cell = key;
	return cell;
}

/* How often call instructions went to an address. */
struct entry {
	uint64_t ip, version, calls;
};

static int by_hotspot_address(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return COMPARE_THEN(x->ip, y->ip, COMPARE(x->version, y->version));
}

/* Lists the entries by address, each address once. The caller frees *list. */
static int list_entries(const struct ptah_profile_block *blocks, size_t block_count,
			const struct ptah_profile_edge *edges, size_t edge_count,
			struct entry **list, size_t *n)
{
	struct entry *e = calloc(block_count + edge_count + 1, sizeof(*e));
	size_t k = 0, unique = 0;

	if (!e)
		return PTAH_E_NOMEM;
	/* Direct ones are of code that is not there, after ptah_counts_fold(). */
	for (size_t i = 0; i < edge_count; i++)
		if (edges[i].insn_class == PTAH_INSN_CALL_IND ||
		    edges[i].insn_class == PTAH_INSN_CALL)
			e[k++] =
			    (struct entry){edges[i].to, edges[i].target_version, edges[i].count};
	for (size_t i = 0; i < block_count; i++)
		if (blocks[i].insn_class == PTAH_INSN_CALL)
			e[k++] = (struct entry){blocks[i].target, blocks[i].target_version,
						blocks[i].count};
	qsort(e, k, sizeof(*e), by_hotspot_address);
	for (size_t i = 1; i < k; i++) {
		if (!by_hotspot_address(&e[i], &e[unique]))
			e[unique].calls += e[i].calls;
		else
			e[++unique] = e[i];
	}
	*list = e;
	*n = k ? unique + 1 : 0;
	return 0;
}

/* `entered`: the calls to the block's address; NULL: there were none. */
static int add_hotspot_block(struct hotspots *c, int32_t pid,
			     const struct ptah_profile_block *block, const struct entry *entered)
{
	struct cell *cell = cell_of(c, pid, block);

	if (!cell)
		return PTAH_E_NOMEM;
	cell->executions += block->count;
	cell->instructions +=
	    block->count * block->ninsn; /* ninsn differs between blocks if code was rewritten */
	cell->entered += entered ? entered->calls : 0;
	cell->taken += block->taken;
	cell->to = block->target;
	c->totals.blocks += block->count;
	c->totals.instructions += block->count * block->ninsn;
	if (block->insn_class != PTAH_INSN_OTHER && block->insn_class != PTAH_INSN_PTWRITE)
		c->totals.branches += block->count;
	return 0;
}

int hotspots_add_lists(struct hotspots *c, int32_t pid, const struct ptah_profile_block *blocks,
		       size_t block_count, const struct ptah_profile_edge *edges, size_t edge_count)
{
	struct entry *entries, *entered;
	size_t count;
	int status = list_entries(blocks, block_count, edges, edge_count, &entries, &count);

	if (status < 0)
		return status;
	for (size_t i = 0; i < block_count && status >= 0; i++) {
		const struct entry key = {blocks[i].ip, blocks[i].version, 0};

		entered = bsearch(&key, entries, count, sizeof(key), by_hotspot_address);
		status = add_hotspot_block(c, pid, &blocks[i], entered);
		/* Several blocks may begin at one address: the first one gets all of its entries.
		 */
		if (entered)
			entered->calls = 0;
	}
	free(entries);
	return status;
}

int hotspots_add_counts(struct hotspots *c, const struct ptah_counts *counts)
{
	struct ptah_counts_process p;
	int status = 0;

	for (size_t i = 0; status >= 0 && ptah_counts_process(counts, i, &p); i++)
		status = hotspots_add_lists(c, (int32_t)i, p.blocks, p.block_count, p.edges,
					    p.edge_count);
	return status;
}

/* The counts of a profile. */
struct lists {
	struct ptah_profile_block *blocks;
	struct ptah_profile_edge *edges;
	size_t block_count, edge_count;
};

/*
 * The process (as a space of the session) that the counts are added to. Processes
 * that had the same memory are counted as one, so that a thousand runs of a program
 * take the memory of one.
 */
static int32_t space_of(const struct hotspot_source *source, const struct ptah_profile *profile,
			uint32_t space)
{
	const size_t like = ptah_session_stream_like(source->session, source->stream);

	return ptah_session_profile_pid(source->session, like, profile, space);
}

/* The lists are sorted by space: the counts of a process are contiguous. */
static int add_by_process(struct hotspots *c, const struct hotspot_source *source,
			  const struct ptah_profile *profile, const struct lists *l)
{
	size_t b = 0, e = 0;
	int status = 0;

	while (status >= 0 && (b < l->block_count || e < l->edge_count)) {
		const size_t blocks = b, edges = e;
		uint32_t space = b < l->block_count ? l->blocks[b].space : l->edges[e].space;
		int32_t pid;

		if (e < l->edge_count && l->edges[e].space < space)
			space = l->edges[e].space;
		pid = space_of(source, profile, space);
		while (b < l->block_count && pid == space_of(source, profile, l->blocks[b].space))
			b++;
		while (e < l->edge_count && pid == space_of(source, profile, l->edges[e].space))
			e++;
		status = hotspots_add_lists(c, pid, l->blocks + blocks, b - blocks,
					    l->edges + edges, e - edges);
	}
	return status;
}

static int add_lists_of(struct hotspots *c, const struct hotspot_source *source,
			struct ptah_profile *profile)
{
	struct lists l;
	int status = ptah_profile_blocks(profile, &l.blocks, &l.block_count);

	if (status < 0)
		return status;
	status = ptah_profile_edges(profile, &l.edges, &l.edge_count);
	if (status >= 0) {
		status = add_by_process(c, source, profile, &l);
		free(l.edges);
	}
	free(l.blocks);
	return status;
}

int hotspots_add(struct hotspots *c, const struct hotspot_source *source,
		 const struct ptah_stream_info *info, struct ptah_profile *profile)
{
	struct ptah_profile_totals totals;
	int status = ptah_profile_totals(profile, &totals);

	if (status < 0)
		return status;
	c->totals.streams++;
	c->totals.bytes += info->bytes;
	c->totals.lost_bytes += info->lost;
	c->totals.errors += totals.errors;
	c->totals.overflows += totals.overflows;
	c->totals.gaps += totals.gaps;
	return add_lists_of(c, source, profile);
}
