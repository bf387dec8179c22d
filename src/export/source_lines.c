/* SPDX-License-Identifier: MIT */
/*
 * Counts lines as gcov does (source_lines.h).
 *
 * A line of source code is several basic blocks: a condition in its middle, a call, the three parts
 * of `for`. Neither the sum of their counts is how often "the line" was executed, nor the largest
 * of them. A line was executed once each time that execution entered it from another line, and once
 * more for each pass of a loop that lies within it.
 *
 * So each block belongs to one line: the last new one among its instructions. The line counts the
 * entries to its blocks that come from no block of its own, and the passes along those of its arcs
 * that lead back (to a block that is being visited in a search depth first). A line that no block
 * belongs to ran whenever one of the blocks with its instructions did.
 *
 * Jumps connect lines. Compilers give one the line of the `if` or of the loop around it, wherever
 * it is. So a jump counts only for a line that has no other code, as `break` and `goto` have none.
 */
#include "export/source_lines.h"

#include <stdlib.h>

struct counter {
	const struct code_graph *graph;
	uint32_t *owner;     /* of each block: its line */
	uint64_t *inside;    /* of each block: entries from its own line */
	uint8_t *state;	     /* of each block: 0 not visited, 1 being visited, 2 done */
	uint32_t *stack;     /* blocks that are being visited */
	uint32_t *next_arc;  /* of each of these */
	uint32_t *last_seen; /* of each line: 1 + the last block with it */
	uint64_t *sums;	     /* of each line: of all blocks with it */
	uint64_t *entered;   /* of each line: how often its own blocks ran */
	uint64_t *within;    /* of these: how often execution came from another of them, onwards */
	bool *owns;	     /* has the line blocks of its own? */
	bool *has_code;	     /* has the line other instructions than jumps? */
};

static uint32_t line_at(const struct counter *c, const uint32_t *line_of_row, uint32_t insn)
{
	const uint32_t row = c->graph->insns[insn].row;

	return row == CODE_NO_ROW ? SOURCE_NO_LINE : line_of_row[row];
}

static void find_code(struct counter *c, const uint32_t *line_of_row)
{
	for (uint32_t i = 0; i < c->graph->insn_count; i++) {
		const uint32_t line = line_at(c, line_of_row, i);

		if (line != SOURCE_NO_LINE && c->graph->insns[i].insn_class != PTAH_INSN_JUMP)
			c->has_code[line] = true;
	}
}

static void find_owners(struct counter *c, const uint32_t *line_of_row,
			struct source_line_count *counts)
{
	const struct code_graph *g = c->graph;

	for (uint32_t b = 0; b < g->block_count; b++) {
		const struct code_block *block = &g->blocks[b];

		c->owner[b] = SOURCE_NO_LINE;
		for (uint32_t i = block->first; i < block->end; i++) {
			const uint32_t line = line_at(c, line_of_row, i);

			if (line == SOURCE_NO_LINE || c->last_seen[line] == b + 1 ||
			    (g->insns[i].insn_class == PTAH_INSN_JUMP && c->has_code[line]))
				continue;
			c->last_seen[line] = b + 1;
			c->owner[b] = line;
			c->sums[line] += block->count;
			counts[line].has_unexecuted |= !block->count;
		}
		if (c->owner[b] == SOURCE_NO_LINE)
			continue;
		c->owns[c->owner[b]] = true;
		c->entered[c->owner[b]] += block->count;
	}
}

static bool is_inside(const struct counter *c, const struct code_arc *arc)
{
	return arc->count && c->owner[arc->from] != SOURCE_NO_LINE &&
	       c->owner[arc->from] == c->owner[arc->to];
}

/* Visits the blocks of one line from a block on. Arcs that do not lead back are no entries. */
static void visit(struct counter *c, uint32_t root)
{
	const struct code_graph *g = c->graph;
	size_t depth = 0;

	if (c->state[root])
		return;
	c->stack[0] = root;
	c->next_arc[0] = 0;
	c->state[root] = 1;
	for (;;) {
		const uint32_t b = c->stack[depth];
		const struct code_block *block = &g->blocks[b];
		const struct code_arc *arc;

		if (c->next_arc[depth] == block->arc_count) {
			c->state[b] = 2;
			if (!depth--)
				return;
			continue;
		}
		arc = &g->arcs[block->first_arc + c->next_arc[depth]++];
		if (!is_inside(c, arc) || c->state[arc->to] == 1)
			continue;
		c->within[c->owner[b]] += arc->count;
		if (c->state[arc->to])
			continue;
		c->state[arc->to] = 1;
		c->stack[++depth] = arc->to;
		c->next_arc[depth] = 0;
	}
}

/* The search begins with the blocks that are entered from other lines, so that arcs that lead back
 * are those of loops. */
static void visit_all(struct counter *c)
{
	const struct code_graph *g = c->graph;

	for (size_t i = 0; i < g->arc_count; i++)
		if (is_inside(c, &g->arcs[i]))
			c->inside[g->arcs[i].to] += g->arcs[i].count;
	for (uint32_t b = 0; b < g->block_count; b++)
		if (g->blocks[b].count > c->inside[b])
			visit(c, b);
	for (uint32_t b = 0; b < g->block_count; b++)
		visit(c, b);
}

static uint64_t result(const struct counter *c, size_t line)
{
	/* Blocks of its own that never ran do not undo those that did. */
	if (!c->owns[line] || c->entered[line] <= c->within[line])
		return c->sums[line];
	return c->entered[line] - c->within[line];
}

int source_lines_count(const struct code_graph *graph, const uint32_t *line_of_row, size_t n,
		       struct source_line_count *counts)
{
	const size_t blocks = graph->block_count + 1;
	struct counter c = {
	    .graph = graph,
	    .owner = calloc(blocks, sizeof(*c.owner)),
	    .inside = calloc(blocks, sizeof(*c.inside)),
	    .state = calloc(blocks, sizeof(*c.state)),
	    .stack = calloc(blocks, sizeof(*c.stack)),
	    .next_arc = calloc(blocks, sizeof(*c.next_arc)),
	    .last_seen = calloc(n + 1, sizeof(*c.last_seen)),
	    .sums = calloc(n + 1, sizeof(*c.sums)),
	    .entered = calloc(n + 1, sizeof(*c.entered)),
	    .within = calloc(n + 1, sizeof(*c.within)),
	    .owns = calloc(n + 1, sizeof(*c.owns)),
	    .has_code = calloc(n + 1, sizeof(*c.has_code)),
	};
	int status = 0;

	if (!c.owner || !c.inside || !c.state || !c.stack || !c.next_arc || !c.last_seen ||
	    !c.sums || !c.entered || !c.within || !c.owns || !c.has_code)
		status = PTAH_E_NOMEM;
	if (!status) {
		find_code(&c, line_of_row);
		find_owners(&c, line_of_row, counts);
		visit_all(&c);
	}
	for (size_t i = 0; !status && i < n; i++)
		counts[i].count = result(&c, i);
	free(c.owner);
	free(c.inside);
	free(c.state);
	free(c.stack);
	free(c.next_arc);
	free(c.last_seen);
	free(c.sums);
	free(c.entered);
	free(c.within);
	free(c.owns);
	free(c.has_code);
	return status;
}
