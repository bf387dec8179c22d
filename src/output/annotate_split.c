/* SPDX-License-Identifier: MIT */
/* Divides pieces that run from one function into the next (see hotspot_split.c). */
#include "output/annotate_internal.h"
#include "output/block_code.h"
#include "output/names_internal.h"
#include "support/list.h"

#include <stdlib.h>

/* Where the function at the beginning of a piece of a file ends; UINT64_MAX: not known. */
static uint64_t end_of_function(const struct annotation *a, const struct annotate_piece *p)
{
	const struct annotate_object *object = &a->objects[p->object];
	struct ptah_function f;

	if (!object->is_file ||
	    !ptah_symbols_bounds(names_symbols(a->config.names), object->path, p->at, p->ip, &f))
		return UINT64_MAX;
	return f.high;
}

/* Appends what of piece i is behind its first `k` instructions, up to `end`. */
static int cut_piece(struct annotation *a, size_t i, size_t *capacity, uint64_t end, uint16_t k)
{
	struct annotate_piece *first, *rest;

	if (!LIST_ROOM(a->pieces, a->piece_count, *capacity))
		return PTAH_E_NOMEM;
	first = &a->pieces[i];
	rest = &a->pieces[a->piece_count++];
	*rest = *first;
	rest->at += end - first->ip;
	rest->ip = end;
	rest->ninsn = (uint16_t)(first->ninsn - k);
	first->end = rest->at;
	first->ninsn = k;
	first->taken = first->unknown = first->target = 0;
	first->insn_class = PTAH_INSN_OTHER;
	first->last_size = 0;
	first->has_target = false;
	return 0;
}

int annotation_split(struct annotation *a)
{
	struct block_code *code = calloc(1, sizeof(*code));
	size_t capacity = a->piece_count;
	int status = code ? 0 : PTAH_E_NOMEM;

	/* What is behind a cut comes last, and is looked at as well. */
	for (size_t i = 0; i < a->piece_count && status >= 0; i++) {
		const struct annotate_piece *p = &a->pieces[i];
		const uint64_t end = end_of_function(a, p);
		const struct hotspot block = {.pid = (int32_t)p->process,
					      .ip = p->ip,
					      .size = (uint32_t)(p->end - p->at),
					      .ninsn = p->ninsn,
					      .mode = p->mode,
					      .executions = p->count,
					      .instructions = p->count * p->ninsn,
					      .version = p->version};

		if (end - block.ip >= block.size)
			continue;
		status = block_code_below(code, a->config.names, &block, end);
		if (status > 0)
			status = cut_piece(a, i, &capacity, end, (uint16_t)status);
	}
	if (code)
		block_code_close(code);
	free(code);
	return status < 0 ? status : 0;
}
