/* SPDX-License-Identifier: MIT */
/* Adds up the instructions of inlined functions, block by block (inlined.h). */
#include "output/inlined.h"

#include "output/disasm.h"
#include "output/hotspots_internal.h"
#include "output/names_internal.h"

#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block has at most so many instructions, of 15 bytes; only damaged files of counts have others,
 * which are left as they are. */
#define MOST_INSNS    255
#define LONGEST_BLOCK (MOST_INSNS * 15)

/* The file whose blocks are looked at, which are sorted by place: it is read once, in pieces. */
struct code_file {
	const char *path; /* as recorded; NULL: none yet */
	int fd;		  /* -1: it has no debug information, or cannot be read */
	uint64_t at;	  /* of bytes[0] in the file */
	size_t size;
	uint8_t bytes[16 * LONGEST_BLOCK];
};

/* Two functions of one name in one file differ in where they are declared. */
struct inlined {
	struct hotspot row;
	const char *file; /* where it is declared; NULL: unknown */
	uint32_t line;
	struct inlined *next;
};

struct taking {
	struct names *names;
	struct code_file code;
	void *tree; /* tsearch() tree of struct inlined */
	struct inlined *list;
	size_t count;
};

static int by_place(const void *a, const void *b)
{
	const struct name *x = &((const struct hotspot *)a)->name;
	const struct name *y = &((const struct hotspot *)b)->name;
	int order = compare_texts(x->path, y->path);

	return order || x->place == y->place ? order : x->place < y->place ? -1 : 1;
}

static int by_function(const void *a, const void *b)
{
	const struct inlined *x = a, *y = b;
	int order = compare_texts(x->row.name.path, y->row.name.path);

	order = order ? order : compare_texts(x->row.name.mangled, y->row.name.mangled);
	order = order ? order : compare_texts(x->file, y->file);
	return order || x->line == y->line ? order : x->line < y->line ? -1 : 1;
}

/* The function's row, which is added if there is none. NULL when out of memory. */
static struct inlined *find_row(struct taking *t, const struct inlined *key)
{
	struct inlined **node = tfind(key, &t->tree, by_function), *fresh;

	if (node)
		return *node;
	fresh = malloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	*fresh = *key;
	if (!tsearch(fresh, &t->tree, by_function)) {
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
	to = find_row(t, &key);
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

static void close_code(struct code_file *c)
{
	if (c->path && c->fd >= 0)
		close(c->fd);
	c->path = NULL;
}

static int open_code(const struct taking *t, struct code_file *c, const char *path)
{
	char *local;

	if (c->path && !strcmp(c->path, path))
		return 0;
	close_code(c);
	c->path = path;
	c->fd = -1;
	c->size = 0;
	if (!ptah_symbols_debug_file(t->names->symbols, path, NULL))
		return 0;
	local = names_local_path(t->names, path);
	if (!local)
		return PTAH_E_NOMEM;
	c->fd = open(local, O_RDONLY | O_CLOEXEC);
	free(local);
	return 0;
}

/* `n` bytes of the file; NULL: it does not have them. */
static const uint8_t *code_at(struct code_file *c, uint64_t at, size_t n)
{
	ssize_t k;

	if (c->fd < 0 || at > INT64_MAX - sizeof(c->bytes))
		return NULL;
	if (at - c->at >= c->size || c->size - (at - c->at) < n) {
		c->at = at;
		c->size = 0;
		while (c->size < sizeof(c->bytes) &&
		       (k = pread(c->fd, c->bytes + c->size, sizeof(c->bytes) - c->size,
				  (off_t)(at + c->size))) > 0)
			c->size += (size_t)k;
	}
	return c->size - (at - c->at) >= n ? c->bytes + (at - c->at) : NULL;
}

/* The sizes of a block's instructions. False: the bytes are not those that ran. */
static bool list_sizes(const struct hotspot *block, const uint8_t *bytes, uint8_t *sizes)
{
	uint32_t at = 0, n = 0;

	for (; n < block->ninsn && at < block->size; at += sizes[n++]) {
		sizes[n] = (uint8_t)disasm_size(block->mode, bytes + at, block->size - at);
		if (!sizes[n])
			return false;
	}
	return n == block->ninsn && at == block->size;
}

static int take_block(struct taking *t, struct hotspot *block)
{
	uint8_t sizes[MOST_INSNS];
	const uint8_t *bytes;
	struct ptah_inline function;
	struct ptah_map map;
	bool changed;
	uint64_t offset;
	int status;

	/* If code was rewritten, a block may have had several numbers of instructions. */
	if (block->ninsn > MOST_INSNS || block->size > LONGEST_BLOCK ||
	    block->instructions != block->executions * block->ninsn)
		return 0;
	if (!names_find_place(t->names, block->pid, block->ip, ptah_version_time(block->version),
			      &map, &changed) ||
	    changed || !ptah_path_is_file(map.path))
		return 0;
	offset = map.file_offset + (block->ip - map.address);
	status = open_code(t, &t->code, map.path);
	bytes = status < 0 ? NULL : code_at(&t->code, offset, block->size);
	if (!bytes || !list_sizes(block, bytes, sizes))
		return status;
	for (uint32_t i = 0, at = 0; i < block->ninsn && status >= 0; at += sizes[i++])
		if (ptah_symbols_inlines(t->names->symbols, map.path, offset + at, &function, 1))
			status = take_instruction(t, block, at, &function);
	return status;
}

static int list_rows(const struct taking *t, struct hotspot **rows)
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
	qsort(blocks, n, sizeof(*blocks), by_place);
	for (size_t i = 0; i < n && status >= 0; i++)
		status = take_block(t, &blocks[i]);
	if (status >= 0)
		status = list_rows(t, rows);
	*count = t->count;
	close_code(&t->code);
	tdestroy(t->tree, free);
	free(t);
	return status;
}
