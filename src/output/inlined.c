/* SPDX-License-Identifier: MIT */
/* Adds up the instructions of inlined functions, block by block (inlined.h). */
#include "output/inlined.h"

#include "output/block_code.h"
#include "output/hotspots_internal.h"
#include "output/names_internal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Two functions of one name in one file differ in where they are declared. */
struct inlined {
	struct hotspot row;
	const char *file; /* where it is declared; NULL: unknown */
	uint32_t line;
	struct inlined *next;
};

struct taking {
	struct names *names;
	struct block_code code;
	void *tree; /* tsearch() tree of struct inlined */
	struct inlined *list;
	size_t count;
};

static int by_inlined_place(const void *a, const void *b)
{
	const struct name *x = &((const struct hotspot *)a)->name;
	const struct name *y = &((const struct hotspot *)b)->name;
	int order = compare_texts(x->path, y->path);

	return order || x->place == y->place ? order : x->place < y->place ? -1 : 1;
}

static int by_inlined_function(const void *a, const void *b)
{
	const struct inlined *x = a, *y = b;
	int order = compare_texts(x->row.name.path, y->row.name.path);

	order = order ? order : compare_texts(x->row.name.mangled, y->row.name.mangled);
	order = order ? order : compare_texts(x->file, y->file);
	return order || x->line == y->line ? order : x->line < y->line ? -1 : 1;
}

/* The function's row, which is added if there is none. NULL when out of memory. */
static struct inlined *find_inlined_row(struct taking *t, const struct inlined *key)
{
	struct inlined **node = tfind(key, &t->tree, by_inlined_function), *fresh;

	if (node)
		return *node;
	fresh = malloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	*fresh = *key;
	if (!tsearch(fresh, &t->tree, by_inlined_function)) {
		free(fresh);
		return NULL;
	}
	fresh->next = t->list;
	t->list = fresh;
	t->count++;
	return fresh;
}

/* Moves the instruction at byte `at` of a block to the function that was inlined there. */
static int take_instruction(struct taking *t, struct hotspot *block, uint64_t at,
			    const struct ptah_inline *function)
{
	struct inlined key = {.file = function->file, .line = function->line}, *to;

	key.row = (struct hotspot){
	    .name = block->name, .pid = block->pid, .ip = block->ip + at, .inlined = true};
	key.row.name.ip = key.row.name.start = key.row.ip;
	key.row.name.place += at;
	key.row.name.offset = 0;
	key.row.name.mangled = function->name;
	key.row.name.symbol = names_demangled(t->names, function->name);
	key.row.name.named = true;
	to = find_inlined_row(t, &key);
	if (!to)
		return PTAH_E_NOMEM;
	if (key.row.ip < to->row.ip)
		to->row = (struct hotspot){.name = key.row.name,
					   .pid = key.row.pid,
					   .ip = key.row.ip,
					   .instructions = to->row.instructions,
					   .inlined = true};
	to->row.instructions += block->executions;
	block->instructions -= block->executions;
	return 0;
}

static int take_inlined_block(struct taking *t, struct hotspot *block)
{
	uint8_t sizes[BLOCK_CODE_INSNS];
	struct ptah_inline function;
	struct ptah_map map;
	uint64_t offset;
	int status;

	if (!block->name.code ||
	    !ptah_symbols_debug_file(t->names->symbols, block->name.code, NULL))
		return 0;
	status = block_code_sizes(&t->code, t->names, block, sizes, &map);
	if (status <= 0)
		return status;
	offset = map.file_offset + (block->ip - map.address);
	for (uint32_t i = 0, at = 0; i < block->ninsn && status >= 0; at += sizes[i++])
		if (ptah_symbols_inlines(t->names->symbols, map.path, offset + at, &function, 1))
			status = take_instruction(t, block, at, &function);
	return status;
}

static int list_inlined_rows(const struct taking *t, struct hotspot **rows)
{
	size_t n = 0;

	*rows = calloc(t->count + 1, sizeof(**rows));
	if (!*rows)
		return PTAH_E_NOMEM;
	for (const struct inlined *i = t->list; i; i = i->next)
		(*rows)[n++] = i->row;
	return 0;
}

int inlined_take(struct names *names, struct hotspot *blocks, size_t n, struct hotspot **rows,
		 size_t *count)
{
	struct taking *t = calloc(1, sizeof(*t));
	int status = 0;

	if (!t)
		return PTAH_E_NOMEM;
	t->names = names;
	qsort(blocks, n, sizeof(*blocks), by_inlined_place);
	for (size_t i = 0; i < n && status >= 0; i++)
		status = take_inlined_block(t, &blocks[i]);
	if (status >= 0)
		status = list_inlined_rows(t, rows);
	*count = t->count;
	block_code_close(&t->code);
	tdestroy(t->tree, free);
	free(t);
	return status;
}
