/* SPDX-License-Identifier: MIT */
/* Takes a piece of code apart into basic blocks and counts them (code_graph.h). */
#include "export/code_graph.h"

#include "base/order.h"
#include "output/disasm.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* A counted block is no longer: 255 instructions of 15 bytes. */
#define LONGEST_PIECE (255 * 15)

#define MOST_INSNS ((size_t)1 << 31)

/* The code that is being taken apart. */
struct maker {
	const struct code_object *object;
	uint64_t start, end;
	const struct ptah_line *rows;
	size_t row_count;
	const struct annotate_piece *pieces, *pieces_end; /* that may reach into it */
	struct code_graph *graph;
};

/* The first piece of the object at `at` or after it. */
static const struct annotate_piece *piece_at(const struct code_object *o, uint64_t at)
{
	const struct annotation *a = o->annotation;
	size_t low;

	BISECT(low, 0, a->piece_count,
	       a->pieces[low].object < o->number ||
		   (a->pieces[low].object == o->number && a->pieces[low].at < at));
	return a->pieces + low;
}

/* Instructions */

/* The bytes from `at` to where an instruction begins for sure: a line, or a block that ran. */
static size_t bytes_at(const struct maker *m, uint64_t at, size_t row,
		       const struct annotate_piece *next)
{
	uint64_t end = m->end;

	while (next < m->pieces_end && next->at <= at)
		next++;
	if (next < m->pieces_end && next->at < end)
		end = next->at;
	for (; row < m->row_count; row++) {
		if (m->rows[row].start <= at)
			continue;
		end = m->rows[row].start < end ? m->rows[row].start : end;
		break;
	}
	return (size_t)(end - at);
}

/* Appends the instruction at `at`. Bytes that are none are passed one by one. */
static bool add_insn(struct maker *m, uint64_t at, size_t row, size_t room)
{
	struct code_graph *g = m->graph;
	struct disasm_flow flow;
	struct code_insn *insn;

	if (!LIST_ROOM(g->insns, g->insn_count, g->insn_room))
		return false;
	disasm_flow(m->object->bytes + at, room, &flow);
	insn = &g->insns[g->insn_count++];
	*insn = (struct code_insn){
	    .at = at,
	    .row = row < m->row_count && m->rows[row].start <= at ? (uint32_t)row : CODE_NO_ROW,
	    .size = flow.size ? flow.size : 1,
	    .insn_class = flow.insn_class,
	    .condition = flow.condition,
	    .stops = flow.stops,
	    .target = flow.has_target ? at + flow.size + (uint64_t)flow.displacement : UINT64_MAX};
	return true;
}

static int list_insns(struct maker *m)
{
	const struct annotate_piece *piece = m->pieces;
	uint64_t at = m->start;
	size_t row = 0;

	m->graph->insn_count = 0;
	while (at < m->end) {
		while (row < m->row_count && m->rows[row].start + m->rows[row].size <= at)
			row++;
		while (piece < m->pieces_end && piece->at <= at)
			piece++;
		if (m->graph->insn_count == MOST_INSNS)
			return PTAH_E_LIMIT;
		if (!add_insn(m, at, row, bytes_at(m, at, row, piece)))
			return PTAH_E_NOMEM;
		at += m->graph->insns[m->graph->insn_count - 1].size;
	}
	return 0;
}

/* The first instruction at `at` or after it; insn_count: none. */
static size_t insn_at(const struct code_graph *g, uint64_t at)
{
	size_t low;

	BISECT(low, 0, g->insn_count, g->insns[low].at < at);
	return low;
}

/* How often each instruction was executed: as often as all pieces that contain it. */
static int count_insns(struct maker *m)
{
	struct code_graph *g = m->graph;
	uint64_t sum = 0;

	free(g->executed);
	g->executed = calloc(g->insn_count + 1, sizeof(*g->executed));
	if (!g->executed)
		return PTAH_E_NOMEM;
	for (const struct annotate_piece *p = m->pieces; p < m->pieces_end; p++) {
		if (p->end <= m->start || p->end <= p->at)
			continue;
		g->executed[insn_at(g, p->at)] += p->count;
		g->executed[insn_at(g, p->end)] -= p->count;
	}
	for (size_t i = 0; i < g->insn_count; i++) {
		sum += g->executed[i];
		g->executed[i] = sum;
	}
	return 0;
}

/* Blocks */

static void mark(struct code_graph *g, uint64_t at)
{
	const size_t i = insn_at(g, at);

	if (i < g->insn_count && g->insns[i].at == at)
		g->insns[i].leads = true;
}

static bool is_call(const struct code_insn *insn)
{
	return insn->insn_class == PTAH_INSN_CALL || insn->insn_class == PTAH_INSN_CALL_IND ||
	       insn->insn_class == PTAH_INSN_FAR_CALL;
}

/* A call is part of its statement: it ends a block only where it did not always return. */
static bool ends_block(const struct code_insn *insn)
{
	return insn->stops || (insn->insn_class != PTAH_INSN_OTHER &&
			       insn->insn_class != PTAH_INSN_PTWRITE && !is_call(insn));
}

/* A place where a piece begins. It leads a block, unless the piece begins there because of a call
 * before it. */
static void mark_entry(struct code_graph *g, uint64_t at)
{
	const size_t i = insn_at(g, at);

	if (i < g->insn_count && g->insns[i].at == at && i && !is_call(&g->insns[i - 1]))
		g->insns[i].leads = true;
}

static void mark_leaders(struct maker *m)
{
	struct code_graph *g = m->graph;

	for (size_t i = 0; i < g->insn_count; i++) {
		const struct code_insn *insn = &g->insns[i];

		g->insns[i].leads |=
		    !i || ends_block(&g->insns[i - 1]) || g->executed[i] != g->executed[i - 1];
		if (insn->target != UINT64_MAX && insn->insn_class != PTAH_INSN_CALL)
			mark(g, insn->target);
	}
	for (const struct annotate_piece *p = m->pieces; p < m->pieces_end; p++)
		mark_entry(g, p->at);
}

static int list_blocks(struct code_graph *g)
{
	g->block_count = 0;
	for (size_t i = 0; i < g->insn_count; i++) {
		struct code_block *block;

		if (g->insns[i].leads) {
			if (!LIST_ROOM(g->blocks, g->block_count, g->block_room))
				return PTAH_E_NOMEM;
			g->blocks[g->block_count++] =
			    (struct code_block){.first = (uint32_t)i, .count = g->executed[i]};
		}
		block = &g->blocks[g->block_count - 1];
		block->end = (uint32_t)i + 1;
	}
	return 0;
}

/* The block that begins at a place; block_count: none. */
static size_t block_at(const struct code_graph *g, uint64_t at)
{
	size_t low;

	BISECT(low, 0, g->block_count, g->insns[g->blocks[low].first].at < at);
	return low < g->block_count && g->insns[g->blocks[low].first].at == at ? low
									       : g->block_count;
}

/* Arcs */

static bool add_arc(struct code_graph *g, size_t from, size_t to, uint64_t count)
{
	if (to >= g->block_count)
		return true;
	if (!LIST_ROOM(g->arcs, g->arc_count, g->arc_room))
		return false;
	g->arcs[g->arc_count++] =
	    (struct code_arc){.from = (uint32_t)from, .to = (uint32_t)to, .count = count};
	g->blocks[from].arc_count++;
	return true;
}

/* The arcs of an indirect jump: where it went. */
static bool add_jumps(const struct maker *m, size_t from, uint64_t at)
{
	const struct code_object *o = m->object;
	size_t low;

	BISECT(low, 0, o->jump_count, o->jumps[low].from < at);
	for (; low < o->jump_count && o->jumps[low].from == at; low++)
		if (!add_arc(m->graph, from, block_at(m->graph, o->jumps[low].to),
			     o->jumps[low].count))
			return false;
	return true;
}

/* Whether execution continues with the next block without a decision. */
static bool falls_through(const struct code_insn *last)
{
	switch (last->insn_class) {
	case PTAH_INSN_COND:
	case PTAH_INSN_JUMP:
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_RETURN:
	case PTAH_INSN_FAR_RETURN:
	case PTAH_INSN_FAR_JUMP:
		return false;
	default:
		return !last->stops;
	}
}

static uint64_t not_taken(const struct annotate_branch *branch)
{
	const uint64_t other = branch->taken + branch->unknown;

	return branch->executed > other ? branch->executed - other : 0;
}

/* Adds the arcs of a block whose counts the trace has decided, and reserves that of a block that
 * falls through. */
static bool add_arcs(const struct maker *m, size_t i)
{
	struct code_graph *g = m->graph;
	struct code_block *block = &g->blocks[i];
	const struct code_insn *last = &g->insns[block->end - 1];
	const struct annotate_branch *branch;

	block->first_arc = (uint32_t)g->arc_count;
	switch (last->insn_class) {
	case PTAH_INSN_COND:
		branch = annotation_branch(m->object->annotation, m->object->number, last->at);
		return add_arc(g, i, block_at(g, last->target), branch ? branch->taken : 0) &&
		       add_arc(g, i, i + 1, branch ? not_taken(branch) : 0);
	case PTAH_INSN_JUMP:
		return add_arc(g, i, block_at(g, last->target), block->count);
	case PTAH_INSN_JUMP_IND:
		return add_jumps(m, i, last->at);
	default:
		return !falls_through(last) || add_arc(g, i, i + 1, 0);
	}
}

/*
 * A block that falls through, or that ends with a call, is followed by the next one as often as
 * that is not entered in another way: a call need not return, and setjmp() and fork() return more
 * often than they are called.
 */
static int count_falls(struct code_graph *g)
{
	free(g->known);
	g->known = calloc(g->block_count + 1, sizeof(*g->known));
	if (!g->known)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < g->arc_count; i++)
		g->known[g->arcs[i].to] += g->arcs[i].count;
	for (size_t i = 0; i + 1 < g->block_count; i++) {
		const struct code_block *block = &g->blocks[i], *next = block + 1;
		const struct code_insn *last = &g->insns[block->end - 1];
		uint64_t rest;

		if (!block->arc_count || !falls_through(last))
			continue;
		rest = next->count > g->known[i + 1] ? next->count - g->known[i + 1] : 0;
		if (rest > block->count && !(is_call(last) && block->count))
			rest = block->count;
		g->arcs[block->first_arc].count = rest;
	}
	return 0;
}

int code_graph_make(const struct code_object *object, uint64_t start, uint64_t end,
		    const struct ptah_line *rows, size_t row_count, struct code_graph *graph)
{
	struct maker m = {.object = object, .rows = rows, .row_count = row_count, .graph = graph};
	int status;

	m.start = start;
	m.end = end < object->size ? end : object->size;
	m.pieces = piece_at(object, start > LONGEST_PIECE ? start - LONGEST_PIECE : 0);
	m.pieces_end = piece_at(object, m.end);
	status = list_insns(&m);
	if (status >= 0)
		status = count_insns(&m);
	if (status < 0)
		return status;
	mark_leaders(&m);
	status = list_blocks(graph);
	graph->arc_count = 0;
	for (size_t i = 0; status >= 0 && i < graph->block_count; i++)
		if (!add_arcs(&m, i))
			status = PTAH_E_NOMEM;
	return status < 0 ? status : count_falls(graph);
}

void code_graph_free(struct code_graph *g)
{
	free(g->insns);
	free(g->blocks);
	free(g->arcs);
	free(g->executed);
	free(g->known);
	*g = (struct code_graph){0};
}

/* An indirect jump to the function's own beginning is a tail call of it, a direct one a loop. */
uint64_t code_graph_entries(const struct code_graph *g)
{
	uint64_t inside = 0;

	if (!g->block_count)
		return 0;
	for (size_t i = 0; i < g->arc_count; i++) {
		const struct code_block *from = &g->blocks[g->arcs[i].from];

		if (g->arcs[i].to == 0 && g->insns[from->end - 1].insn_class != PTAH_INSN_JUMP_IND)
			inside += g->arcs[i].count;
	}
	return g->blocks[0].count > inside ? g->blocks[0].count - inside : 0;
}
