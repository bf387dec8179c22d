/* SPDX-License-Identifier: MIT */
/* Goes through the code of the programs that ran, function by function (source_coverage.h). */
#include "export/source_coverage.h"

#include "base/hash.h"
#include "base/order.h"
#include "export/code_graph.h"
#include "export/source_lines.h"
#include "export/source_store.h"
#include "output/annotate.h"
#include "support/list.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Deeper chains of inlined functions are distinguished by their innermost calls. */
#define CHAIN 16

/* A jump of an object. */
struct object_jump {
	uint32_t object;
	struct code_jump jump;
};

/* A line of the function that is being read. */
struct local_line {
	uint32_t file, line;
};

/* A conditional branch of that function. */
struct local_branch {
	uint32_t line; /* local */
	uint32_t block;
	uint64_t chain; /* which inlined copy it is of; equal in one copy */
	uint64_t owner; /* which function's source it is from */
};

struct coverage_reader {
	const struct annotation *annotation;
	struct ptah_symbols *symbols;
	struct source_store store;
	struct source_coverage *coverage;
	struct object_jump *jumps; /* by object, beginning and end */
	size_t jump_count, jump_room;
	uint64_t branch_order;
	int status;

	/* the object */
	const char *path;
	struct code_object object;

	/* the function */
	struct ptah_symbol symbol;
	bool has_symbol;
	uint64_t start, end;
	struct ptah_line *rows;
	size_t row_count, row_room;
	uint32_t *line_of_row;
	struct local_line *lines;
	size_t line_count;
	struct code_graph graph;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = hash_number(hash ^ value);
	return hash ^ hash >> 29;
}

/* Indirect jumps */

static int by_jump(const void *a, const void *b)
{
	const struct object_jump *x = a, *y = b;
	int order = COMPARE(x->object, y->object);

	order = order ? order : COMPARE(x->jump.from, y->jump.from);
	return order ? order : COMPARE(x->jump.to, y->jump.to);
}

static int add_jumps(struct coverage_reader *r, size_t process, const struct ptah_counts_process *p)
{
	const struct ptah_counts *counts = r->annotation->config.counts;
	const struct ptah_counts_file *file, *last = NULL;
	uint32_t object = NO_OBJECT;

	for (size_t i = 0; i < p->edge_count; i++) {
		const struct ptah_profile_edge *e = &p->edges[i];

		if (e->insn_class != PTAH_INSN_JUMP_IND)
			continue;
		file = ptah_counts_find(counts, process, e->from, e->version);
		if (!file || e->to - file->address >= file->size)
			continue;
		if (file != last)
			object = annotation_find_file(r->annotation, file->path, file);
		last = file;
		if (object == NO_OBJECT)
			continue;
		if (!LIST_ROOM(r->jumps, r->jump_count, r->jump_room))
			return PTAH_E_NOMEM;
		r->jumps[r->jump_count++] = (struct object_jump){
		    .object = object,
		    .jump = {.from = e->from - file->address + file->file_offset,
			     .to = e->to - file->address + file->file_offset,
			     .count = e->count}};
	}
	return 0;
}

/* The indirect jumps of all processes, by object and place. */
static int list_jumps(struct coverage_reader *r)
{
	struct ptah_counts_process p;
	size_t n = 0;
	int status = 0;

	for (size_t i = 0; status >= 0 && ptah_counts_process(r->annotation->config.counts, i, &p);
	     i++)
		status = add_jumps(r, i, &p);
	if (status < 0 || !r->jump_count)
		return status;
	qsort(r->jumps, r->jump_count, sizeof(*r->jumps), by_jump);
	for (size_t i = 1; i < r->jump_count; i++) {
		if (by_jump(&r->jumps[n], &r->jumps[i]))
			r->jumps[++n] = r->jumps[i];
		else
			r->jumps[n].jump.count += r->jumps[i].jump.count;
	}
	r->jump_count = n + 1;
	return 0;
}

/* Lines of a function */

static int by_local_line(const void *a, const void *b)
{
	const struct local_line *x = a, *y = b;
	const int order = COMPARE(x->file, y->file);

	return order ? order : COMPARE(x->line, y->line);
}

/* Pushes a register, or makes room on the stack: so a function begins that has a frame. */
static bool begins_frame(const struct code_object *o, uint64_t at)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const uint8_t *p = o->bytes + at;
	size_t n = o->size - (size_t)at;

	if (n >= sizeof(endbr64) && !memcmp(p, endbr64, sizeof(endbr64))) {
		p += sizeof(endbr64);
		n -= sizeof(endbr64);
	}
	if (n >= 1 && (p[0] & 0xf8) == 0x50)
		return true;
	if (n >= 2 && p[0] == 0x41 && (p[1] & 0xf8) == 0x50)
		return true;
	return n >= 3 && p[0] == 0x48 && (p[1] == 0x83 || p[1] == 0x81) && p[2] == 0xec;
}

/*
 * Where the brace of a function stands on a line of its own, compilers give the function's first
 * instructions the line of the brace. They are of the line where the function is declared, which is
 * where people and gcov look for the number of calls.
 */
static void move_head(struct coverage_reader *r, const struct ptah_inline *function)
{
	const struct ptah_line first = r->rows[0];

	if (!function || !function->line || !function->file || function->file != first.file ||
	    function->line >= first.line || first.start != r->start ||
	    !begins_frame(&r->object, r->start))
		return;
	for (size_t i = 0; i < r->row_count && r->rows[i].file == first.file &&
			   r->rows[i].line == first.line && r->rows[i].column == first.column;
	     i++)
		r->rows[i].line = function->line;
}

/* Numbers the lines of the function. */
static int list_lines(struct coverage_reader *r)
{
	size_t n = 0;

	free(r->lines);
	free(r->line_of_row);
	r->lines = calloc(r->row_count + 1, sizeof(*r->lines));
	r->line_of_row = calloc(r->row_count + 1, sizeof(*r->line_of_row));
	if (!r->lines || !r->line_of_row)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < r->row_count; i++) {
		const struct ptah_line *row = &r->rows[i];
		uint32_t file;

		r->coverage->unnamed += row->line && !row->file;
		if (!row->file || !row->line)
			continue;
		file = source_store_file(&r->store, row->file);
		if (file == STORE_NO_FILE)
			return PTAH_E_NOMEM;
		r->lines[n++] = (struct local_line){file, row->line};
	}
	if (n)
		qsort(r->lines, n, sizeof(*r->lines), by_local_line);
	r->line_count = 0;
	for (size_t i = 0; i < n; i++)
		if (!i || by_local_line(&r->lines[i], &r->lines[r->line_count - 1]))
			r->lines[r->line_count++] = r->lines[i];
	for (size_t i = 0; i < r->row_count; i++) {
		const struct ptah_line *row = &r->rows[i];
		struct local_line key = {.line = row->line}, *found;

		r->line_of_row[i] = SOURCE_NO_LINE;
		if (!row->file || !row->line)
			continue;
		key.file = source_store_file(&r->store, row->file);
		found = bsearch(&key, r->lines, r->line_count, sizeof(key), by_local_line);
		r->line_of_row[i] = (uint32_t)(found - r->lines);
	}
	return 0;
}

static int store_lines(struct coverage_reader *r, uint32_t function_file, uint32_t function)
{
	struct source_line_count *counts = calloc(r->line_count + 1, sizeof(*counts));
	int status = counts ? source_lines_count(&r->graph, r->line_of_row, r->line_count, counts)
			    : PTAH_E_NOMEM;

	for (size_t i = 0; status >= 0 && i < r->line_count; i++) {
		const uint32_t file = r->lines[i].file;
		const struct stored_line line = {
		    .file = file,
		    .line = r->lines[i].line,
		    .function = file == function_file ? function : SOURCE_NO_FUNCTION,
		    .has_unexecuted = counts[i].has_unexecuted,
		    .count = counts[i].count};

		if (r->store.files[file].wanted && !source_store_line(&r->store, &line))
			status = PTAH_E_NOMEM;
	}
	free(counts);
	return status;
}

/* Branches of a function */

/* The name of a function without arguments of a template: copies of one source have it in common.
 */
static uint64_t hash_name(const char *name)
{
	char text[4096];
	const char *shown = ptah_symbol_demangle(name, 0, text, sizeof(text));
	uint64_t hash = 0;
	unsigned depth = 0;

	for (; *shown; shown++) {
		if (*shown == '>' && depth)
			depth--;
		else if (*shown == '<')
			depth++;
		else if (!depth)
			hash = mix(hash, (uint8_t)*shown);
	}
	return hash;
}

/* Which function's source the branch at a place is from, and which copy of it. */
static void find_copy(struct coverage_reader *r, uint64_t at, uint64_t function,
		      struct local_branch *branch)
{
	struct ptah_inline frames[CHAIN];
	const size_t n = ptah_symbols_inlines(r->symbols, r->path, at, frames, CHAIN);

	branch->owner = n ? hash_name(frames[0].name) : function;
	branch->chain = 0;
	for (size_t i = 0; i < n; i++)
		branch->chain = mix(mix(branch->chain, frames[i].call_line), frames[i].call_column);
}

static int by_copy(const void *a, const void *b)
{
	const struct local_branch *x = a, *y = b;
	int order = COMPARE(x->line, y->line);

	order = order ? order : COMPARE(x->chain, y->chain);
	order = order ? order : COMPARE(x->owner, y->owner);
	return order ? order : COMPARE(x->block, y->block);
}

static const struct code_insn *last_insn(const struct code_graph *g, uint32_t block)
{
	return &g->insns[g->blocks[block].end - 1];
}

/* What a branch looks like: its condition, and whether it leads back. Copies look the same. */
static uint64_t shape(const struct code_insn *insn)
{
	return 2u * insn->condition + (insn->target <= insn->at);
}

static bool store_branch(struct coverage_reader *r, const struct local_branch *b,
			 struct stored_branch stored)
{
	const struct code_insn *insn = last_insn(&r->graph, b->block);
	const struct annotate_branch *ran =
	    annotation_branch(r->annotation, r->object.number, insn->at);
	struct source_way taken = {0}, other = {.fall_through = true};
	const bool back = insn->target <= insn->at;

	if (ran) {
		taken.count = ran->taken;
		other.count = ran->executed - least(ran->executed, ran->taken + ran->unknown);
		stored.executed = ran->executed;
		stored.unknown = ran->unknown;
	}
	stored.ways[0] = back ? taken : other;
	stored.ways[1] = back ? other : taken;
	return source_store_branch(&r->store, &stored);
}

/* Stores branches [first, end), which are of one line and one copy of its source. */
static bool store_group(struct coverage_reader *r, const struct local_branch *list, size_t n,
			struct stored_branch stored)
{
	stored.group = mix(list->owner, n);
	for (size_t i = 0; i < n; i++)
		stored.group = mix(stored.group, shape(last_insn(&r->graph, list[i].block)));
	stored.order = r->branch_order + list->block;
	for (size_t i = 0; i < n; i++) {
		stored.ordinal = (uint32_t)i;
		if (!store_branch(r, &list[i], stored))
			return false;
	}
	return true;
}

static int store_branches(struct coverage_reader *r, const char *name, uint32_t function_file,
			  uint32_t function)
{
	const struct code_graph *g = &r->graph;
	struct local_branch *list = calloc(g->block_count + 1, sizeof(*list));
	const uint64_t owner = name ? hash_name(name) : 0;
	size_t n = 0, end;

	if (!list)
		return PTAH_E_NOMEM;
	for (uint32_t b = 0; b < g->block_count; b++) {
		const struct code_insn *insn = last_insn(g, b);
		const uint32_t line =
		    insn->row == CODE_NO_ROW ? SOURCE_NO_LINE : r->line_of_row[insn->row];

		if (insn->insn_class != PTAH_INSN_COND || line == SOURCE_NO_LINE ||
		    !r->store.files[r->lines[line].file].wanted)
			continue;
		list[n] = (struct local_branch){.line = line, .block = b};
		find_copy(r, insn->at, owner, &list[n++]);
	}
	if (n)
		qsort(list, n, sizeof(*list), by_copy);
	for (size_t i = 0; i < n; i = end) {
		const struct local_line *line = &r->lines[list[i].line];
		const struct stored_branch stored = {
		    .file = line->file,
		    .line = line->line,
		    .function = line->file == function_file ? function : SOURCE_NO_FUNCTION};

		for (end = i + 1;
		     end < n && list[end].line == list[i].line &&
		     list[end].chain == list[i].chain && list[end].owner == list[i].owner;
		     end++)
			;
		if (!store_group(r, list + i, end - i, stored)) {
			free(list);
			return PTAH_E_NOMEM;
		}
	}
	r->branch_order += g->block_count;
	free(list);
	return 0;
}

/* The function */

/* The last line of the function's own source. */
static uint32_t last_line(struct coverage_reader *r, const char *file, uint32_t first)
{
	struct ptah_inline inlined;
	uint32_t last = first;

	for (size_t i = 0; i < r->row_count; i++) {
		const struct ptah_line *row = &r->rows[i];

		if (row->file == file && row->line > last &&
		    !ptah_symbols_inlines(r->symbols, r->path, row->start, &inlined, 1))
			last = row->line;
	}
	return last;
}

/* Parts of a function that are only jumped to, or called in its stead, are no calls of it. */
static bool is_part(const char *symbol)
{
	return strstr(symbol, ".cold") || strstr(symbol, ".part.");
}

/* The name of the function: mangled if its debug information or its symbol is, because several
 * functions of a file may have the same plain name. */
static const char *name_of(const struct coverage_reader *r, const struct ptah_inline *declared)
{
	const char *symbol = r->has_symbol && r->symbol.start == r->start ? r->symbol.name : "";

	if (!declared)
		return r->symbol.name;
	return !strncmp(symbol, "_Z", 2) && strncmp(declared->name, "_Z", 2) && !strchr(symbol, '.')
		   ? symbol
		   : declared->name;
}

/* Functions that the compiler makes for variables that are initialized when the program starts. */
static bool is_initializer(const char *name)
{
	return !strncmp(name, "_GLOBAL__", 9) || !strncmp(name, "__cxx_global_", 13) ||
	       strstr(name, "__static_initialization_and_destruction");
}

/* Stores the function. *file and *number: its own; untouched if it has no name or no source. */
static int store_function(struct coverage_reader *r, const struct ptah_inline *declared,
			  uint32_t *file, uint32_t *number)
{
	const struct ptah_line *row = &r->rows[0];
	struct stored_function f = {.function.blocks = (uint32_t)r->graph.block_count};
	const char *source;

	if (!declared && !(r->has_symbol && r->symbol.named))
		return 0;
	/* With few details (-g1, -gline-tables-only) functions have no declaration. */
	if (declared && declared->file && declared->line) {
		source = declared->file;
		f.function.first = declared->line;
	} else {
		source = row->file;
		f.function.first = row->line;
		if (is_initializer(name_of(r, declared)))
			return 0;
	}
	if (!source || !f.function.first)
		return 0;
	f.file = source_store_file(&r->store, source);
	if (f.file == STORE_NO_FILE)
		return PTAH_E_NOMEM;
	if (!r->store.files[f.file].wanted)
		return 0;
	f.function.name = name_of(r, declared);
	f.function.shown = names_demangled(r->annotation->config.names, f.function.name);
	f.function.last = last_line(r, source, f.function.first);
	if (!r->has_symbol || (r->symbol.start == r->start && !is_part(r->symbol.name)))
		f.function.calls = code_graph_entries(&r->graph);
	for (size_t i = 0; i < r->graph.block_count; i++)
		f.function.blocks_executed += r->graph.blocks[i].count != 0;
	*file = f.file;
	*number = (uint32_t)r->store.function_count;
	return source_store_function(&r->store, &f) ? 0 : PTAH_E_NOMEM;
}

/* Takes the rows that were collected as a function. */
static int end_function(struct coverage_reader *r)
{
	uint32_t file = STORE_NO_FILE, number = SOURCE_NO_FUNCTION;
	const struct ptah_line *last;
	struct ptah_inline declared;
	bool has_declared;
	const char *name;
	uint64_t end;
	int status;

	if (!r->row_count)
		return 0;
	last = &r->rows[r->row_count - 1];
	end = last->start + last->size < r->end ? last->start + last->size : r->end;
	has_declared = ptah_symbols_function(r->symbols, r->path, r->rows[0].start, &declared);
	name = has_declared ? declared.name : r->has_symbol ? r->symbol.name : NULL;
	move_head(r, has_declared ? &declared : NULL);
	status = code_graph_make(&r->object, r->start, end, r->rows, r->row_count, &r->graph);
	if (status >= 0)
		status = list_lines(r);
	if (status >= 0)
		status = store_function(r, has_declared ? &declared : NULL, &file, &number);
	if (status >= 0)
		status = store_lines(r, file, number);
	if (status >= 0)
		status = store_branches(r, name, file, number);
	r->row_count = 0;
	return status;
}

/* A row after the end of the last function begins the next one. */
static void begin_function(struct coverage_reader *r, const struct ptah_line *row)
{
	const uint64_t done = r->end;
	struct ptah_function piece;

	r->has_symbol = ptah_symbols_lookup(r->symbols, r->path, row->start, &r->symbol);
	r->start = row->start;
	r->end = row->start + row->size;
	if (!r->has_symbol || row->start - r->symbol.start >= r->symbol.size)
		return;
	/* Code without a function is a piece between functions; its symbol is the whole section. */
	if (!r->symbol.named) {
		if (ptah_symbols_bounds(r->symbols, r->path, row->start, row->start, &piece))
			r->end = piece.high > r->end ? piece.high : r->end;
		return;
	}
	r->start = r->symbol.start > done ? r->symbol.start : done;
	r->end = r->symbol.start + r->symbol.size;
}

static bool take_row(void *reader, const struct ptah_line *row)
{
	struct coverage_reader *r = reader;

	if (row->start >= r->object.size || row->size > r->object.size - row->start)
		return true;
	if (row->start >= r->end) {
		r->status = end_function(r);
		if (r->status < 0)
			return false;
		begin_function(r, row);
	}
	if (!LIST_ROOM(r->rows, r->row_count, r->row_room)) {
		r->status = PTAH_E_NOMEM;
		return false;
	}
	r->rows[r->row_count++] = *row;
	return true;
}

/* Objects */

static int add_missing(struct coverage_reader *r, const char *path, int status)
{
	struct source_coverage *c = r->coverage;

	if (!LIST_ADD(c->missing, c->missing_count))
		return PTAH_E_NOMEM;
	c->missing[c->missing_count - 1] = (struct source_missing){path, status};
	return 0;
}

/* Maps the file of an object. False: it cannot be read. */
static bool map_file(struct coverage_reader *r)
{
	char *path = names_local_path(r->annotation->config.names, r->path);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat st;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	free(path);
	if (bytes == MAP_FAILED)
		return false;
	r->object.bytes = bytes;
	r->object.size = (size_t)st.st_size;
	return true;
}

static int read_object(struct coverage_reader *r, uint32_t number)
{
	const struct annotate_object *object = &r->annotation->objects[number];
	struct code_jump *jumps;
	int status;

	r->path = object->path;
	r->start = r->end = 0;
	r->row_count = 0;
	r->object = (struct code_object){.annotation = r->annotation, .number = number};
	jumps = calloc(r->jump_count + 1, sizeof(*jumps));
	if (!jumps)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < r->jump_count; i++)
		if (r->jumps[i].object == number)
			jumps[r->object.jump_count++] = r->jumps[i].jump;
	r->object.jumps = jumps;
	status = PTAH_E_MISSING;
	if (map_file(r)) {
		r->status = 0;
		status = ptah_symbols_lines(r->symbols, r->path, 0, UINT64_MAX, take_row, r);
		if (r->status >= 0)
			r->status = end_function(r);
		munmap((void *)(uintptr_t)r->object.bytes, r->object.size);
	}
	free(jumps);
	if (r->status < 0)
		return r->status;
	return status < 0 ? add_missing(r, r->path, status) : 0;
}

static int read_objects(struct coverage_reader *r)
{
	int status = list_jumps(r);

	for (uint32_t i = 0; status >= 0 && i < r->annotation->object_count; i++) {
		const struct annotate_object *object = &r->annotation->objects[i];

		if (!object->is_file)
			continue;
		status = object->changed ? add_missing(r, object->path, 0) : read_object(r, i);
	}
	return status;
}

int source_coverage_new(const struct annotation *annotation,
			const struct source_coverage_config *config,
			struct source_coverage **coverage)
{
	struct source_coverage *c = calloc(1, sizeof(*c));
	struct coverage_reader r = {.annotation = annotation,
				    .symbols = names_symbols(annotation->config.names),
				    .store = {.config = config},
				    .coverage = c};
	int status = c ? read_objects(&r) : PTAH_E_NOMEM;

	if (status >= 0)
		status = source_store_finish(&r.store, c);
	source_store_free(&r.store);
	code_graph_free(&r.graph);
	free(r.jumps);
	free(r.rows);
	free(r.lines);
	free(r.line_of_row);
	if (status < 0) {
		source_coverage_free(c);
		return status;
	}
	*coverage = c;
	return 0;
}

void source_coverage_free(struct source_coverage *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->file_count; i++)
		source_file_fini(&c->files[i]);
	free(c->files);
	free(c->missing);
	free(c);
}

size_t source_file_find(const struct source_file_coverage *file, uint32_t line)
{
	size_t at;

	BISECT(at, 0, file->line_count, file->lines[at].line < line);
	return at;
}
