/* SPDX-License-Identifier: MIT */
/*
 * The basic blocks of a piece of code and the arcs between them, with how often each was executed.
 * The code is taken apart from its bytes, so that blocks that never ran are part of it.
 */
#ifndef PTAH_EXPORT_CODE_GRAPH_H
#define PTAH_EXPORT_CODE_GRAPH_H

#include "output/annotate.h"

/* An indirect jump in a file and where it went. Both are places. */
struct code_jump {
	uint64_t from, to, count;
};

/* The code of one object of an annotation. */
struct code_object {
	const struct annotation *annotation;
	uint32_t number;      /* of the object */
	const uint8_t *bytes; /* of the whole file */
	size_t size;
	const struct code_jump *jumps; /* by their beginning and end */
	size_t jump_count;
};

#define CODE_NO_ROW UINT32_MAX

struct code_insn {
	uint64_t at;
	uint64_t target; /* of a direct branch; UINT64_MAX: none */
	uint32_t row;	 /* the line of its first byte: index of the rows; CODE_NO_ROW: none */
	uint8_t size;
	uint8_t insn_class; /* enum ptah_insn_class */
	uint8_t condition;  /* as in disasm_flow */
	bool stops;	    /* the same */
	bool leads;	    /* a block begins here */
};

struct code_block {
	uint32_t first, end; /* its instructions */
	uint32_t first_arc, arc_count;
	uint64_t count;
};

struct code_arc {
	uint32_t from, to; /* blocks */
	uint64_t count;
};

/* Its lists keep their memory from one use to the next. All 0 is empty. */
struct code_graph {
	struct code_insn *insns;
	struct code_block *blocks; /* by ascending places */
	struct code_arc *arcs;	   /* by `from` */
	uint64_t *executed;	   /* of each instruction */
	uint64_t *known;	   /* of each block, while the arcs are made */
	size_t insn_count, block_count, arc_count;
	size_t insn_room, block_room, arc_room;
};

/*
 * Takes the code at [start, end) apart, which the rows cover by ascending places. 0, PTAH_E_NOMEM,
 * or PTAH_E_LIMIT: it has more than 2^31 instructions.
 */
int code_graph_make(const struct code_object *object, uint64_t start, uint64_t end,
		    const struct ptah_line *rows, size_t row_count, struct code_graph *graph);
void code_graph_free(struct code_graph *graph);

/* How often the code was called at its beginning (docs/glossary.md: call). */
uint64_t code_graph_entries(const struct code_graph *graph);

#endif
