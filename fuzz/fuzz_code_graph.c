/* SPDX-License-Identifier: MIT */
/*
 * Proves of the coverage of code: any bytes, counts and lines give a graph whose blocks are all of
 * the code, each once and in order, and whose arcs lead to its blocks; and no line ran more often
 * than the blocks with its instructions did together.
 *
 * Input: numbers of counted blocks and of lines, a byte each; the blocks, 6 bytes each (where it
 * begins after the last one, size, how often it ran, was taken and has an unknown outcome, class of
 * the last instruction); the lines, 3 bytes each (bytes without a line, size, line); then the code.
 */
#include "fuzz.h"

#include "export/source_lines.h"

#include <ptah/base.h>

#define START 64

/* Of output/annotate.h, for the annotation that is made here. */
const struct annotate_branch *annotation_branch(const struct annotation *annotation,
						uint32_t object, uint64_t at)
{
	for (size_t i = 0; i < annotation->branch_count; i++)
		if (annotation->branches[i].object == object && annotation->branches[i].at == at)
			return &annotation->branches[i];
	return NULL;
}

static void add_piece(struct annotation *a, const uint8_t *p)
{
	const uint64_t last = a->piece_count ? a->pieces[a->piece_count - 1].at : START - 8;
	struct annotate_piece *piece = &a->pieces[a->piece_count++];

	*piece = (struct annotate_piece){.at = last + p[0] % 32,
					 .count = p[2],
					 .taken = p[3],
					 .unknown = p[4],
					 .insn_class = p[5] % PTAH_INSN_CLASS_MAX};
	piece->end = piece->at + p[1];
	a->branches[a->branch_count++] = (struct annotate_branch){
	    .at = piece->end - p[5] % 16, .executed = p[2], .taken = p[3], .unknown = p[4]};
}

static void check_graph(const struct code_graph *g, uint64_t end)
{
	uint64_t at = START;
	uint32_t insn = 0, arc = 0;

	for (size_t i = 0; i < g->insn_count; i++) {
		CHECK(g->insns[i].at == at && g->insns[i].size);
		at += g->insns[i].size;
	}
	CHECK(at == end || at == START);
	for (uint32_t i = 0; i < g->block_count; i++) {
		const struct code_block *b = &g->blocks[i];

		CHECK(b->first == insn && b->end > b->first);
		CHECK(b->first_arc == arc);
		for (uint32_t k = 0; k < b->arc_count; k++, arc++)
			CHECK(g->arcs[arc].from == i && g->arcs[arc].to < g->block_count);
		insn = b->end;
	}
	CHECK(insn == g->insn_count && arc == g->arc_count);
}

/* The sum of the blocks that have instructions of a line. */
static uint64_t most(const struct code_graph *g, const uint32_t *line_of_row, uint32_t line)
{
	uint64_t sum = 0;

	for (size_t b = 0; b < g->block_count; b++)
		for (uint32_t i = g->blocks[b].first; i < g->blocks[b].end; i++)
			if (g->insns[i].row != CODE_NO_ROW &&
			    line_of_row[g->insns[i].row] == line) {
				sum += g->blocks[b].count;
				break;
			}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct annotate_piece pieces[256];
	struct annotate_branch branches[256];
	struct ptah_line rows[256];
	uint32_t line_of_row[256];
	struct source_line_count counts[256] = {{0}};
	struct annotation a = {.pieces = pieces, .branches = branches};
	struct code_object object = {.annotation = &a};
	struct code_graph graph = {0};
	size_t piece_count, row_count = 0;
	uint64_t at = START;
	uint8_t *code;

	if (size < 2 || size > 4096 || size < 2 + 6u * data[0] + 3u * data[1])
		return 0;
	piece_count = data[0];
	object.size = START + size - 2 - 6 * piece_count - 3u * data[1];
	for (size_t i = 0; i < piece_count; i++)
		add_piece(&a, data + 2 + 6 * i);
	for (const uint8_t *p = data + 2 + 6 * piece_count; row_count < data[1]; p += 3) {
		at += p[0] % 8;
		rows[row_count] = (struct ptah_line){.start = at, .size = p[1] + 1u, .line = p[2]};
		at += rows[row_count].size;
		line_of_row[row_count++] = p[2] == 255 ? SOURCE_NO_LINE : p[2];
	}
	code = calloc(1, object.size + 1);
	CHECK(code);
	memcpy(code + START, data + size - (object.size - START), object.size - START);
	object.bytes = code;
	CHECK(code_graph_make(&object, START, at, rows, row_count, &graph) == 0);
	check_graph(&graph, at < object.size ? at : object.size);
	CHECK(source_lines_count(&graph, line_of_row, 256, counts) == 0);
	for (uint32_t line = 0; line < 255; line++)
		CHECK(counts[line].count <= most(&graph, line_of_row, line));
	code_graph_entries(&graph);
	code_graph_free(&graph);
	free(code);
	return 0;
}
