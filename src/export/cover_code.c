/* SPDX-License-Identifier: MIT */
/* Finds the places of what profiles have counted (cover_code.h). */
#include "export/cover_code.h"

#include "base/order.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

struct place {
	uint64_t object, at;
};

struct edge {
	struct place from, to;
};

/* An address, of a version of the code. */
struct versioned {
	uint64_t ip, version;
};

/* What is being added: the addresses come in ascending order. */
struct adding {
	struct cover_code *code;
	int32_t space;
	bool found; /* the mapping of the last address: */
	uint64_t address, end, offset, version;
	size_t object;
	struct cover_reached *reached;
	size_t count, room;
};

void cover_code_init(struct cover_code *c, const struct ptah_session *session, struct names *names,
		     bool keeps_blocks)
{
	*c = (struct cover_code){
	    .session = session,
	    .names = names,
	    .keeps_blocks = keeps_blocks,
	    .functions = {.row_size = sizeof(struct cover_function),
			  .key_size = offsetof(struct cover_function, name)},
	    .blocks = {.row_size = sizeof(struct cover_block),
		       .key_size = offsetof(struct cover_block, function)},
	    .branches = {.row_size = sizeof(struct place), .key_size = sizeof(struct place)},
	    .edges = {.row_size = sizeof(struct edge), .key_size = sizeof(struct edge)},
	};
}

void cover_code_free(struct cover_code *c)
{
	for (uint32_t i = 1; i <= c->functions.count; i++) {
		const struct cover_function *f = cover_code_function(c, i);

		free(f->name);
		free(f->shown);
	}
	for (size_t i = 0; i < c->object_count; i++)
		free(c->objects[i].path);
	free(c->objects);
	keyed_free(&c->functions);
	keyed_free(&c->blocks);
	keyed_free(&c->branches);
	keyed_free(&c->edges);
}

/* Objects */

/* Generated code and the like have a path as well, which says nothing about their places. */
static bool is_file(const char *path)
{
	return (path[0] == '/' && path[1] != '/') || !strcmp(path, "[vdso]") ||
	       !strncmp(path, "[kernel", 7);
}

static bool is_object(const struct cover_object *o, const struct ptah_counts_file *file)
{
	return !strcmp(o->path, file->path) && o->build_id_size == file->build_id_size &&
	       !memcmp(o->build_id, file->build_id, o->build_id_size) &&
	       (o->is_file || o->version == file->version);
}

/* The number of an object, SIZE_MAX: out of memory. There are as many as files were mapped. */
static size_t object_number(struct cover_code *c, const struct ptah_counts_file *file)
{
	struct cover_object *o;

	for (size_t i = 0; i < c->object_count; i++)
		if (is_object(&c->objects[i], file))
			return i;
	if (!LIST_ROOM(c->objects, c->object_count, c->object_room))
		return SIZE_MAX;
	o = &c->objects[c->object_count];
	*o = (struct cover_object){.path = strdup(file->path),
				   .build_id_size = file->build_id_size,
				   .version = file->version,
				   .is_file = is_file(file->path)};
	memcpy(o->build_id, file->build_id, file->build_id_size);
	return o->path ? c->object_count++ : SIZE_MAX;
}

/* Finds the mapping of an address. */
static bool find_mapping(struct adding *a, struct versioned at)
{
	const uint64_t ip = at.ip;
	struct ptah_counts_file file = {.path = ""};

	if (a->found && ip >= a->address && ip < a->end && at.version == a->version)
		return true;
	a->found =
	    names_find_file(a->code->names, a->space, ip, ptah_version_time(at.version), &file);
	if (!a->found)
		file = (struct ptah_counts_file){.path = "", .address = ip, .size = 1};
	a->version = file.version = at.version;
	file.path = names_object_path(a->code->names, file.path);
	a->address = file.address;
	a->end = file.address + file.size;
	a->object = object_number(a->code, &file);
	a->offset = is_file(file.path) ? file.file_offset - file.address : 0;
	return a->object != SIZE_MAX;
}

/* Finds the place of an address. False: out of memory. */
static bool find_place(struct adding *a, struct versioned at, struct place *place)
{
	if (!find_mapping(a, at))
		return false;
	*place = (struct place){a->object, at.ip + a->offset};
	return true;
}

/* Functions */

/* The number of the function at an address; 0: none is known. A negative result is an error. */
static int64_t function_number(struct adding *a, const struct ptah_profile_block *b,
			       const struct place *place)
{
	struct cover_code *c = a->code;
	const uint64_t ip = b->ip;
	const struct name *name = names_find_version(c->names, a->space, ip, b->version);
	struct cover_function row = {.object = place->object}, *f;
	uint32_t number;
	bool is_new;

	if (!name->symbol || name->start > ip)
		return 0;
	row.at = place->at - (ip - name->start);
	number = keyed_number(&c->functions, &row, &is_new);
	if (!number)
		return PTAH_E_NOMEM;
	if (!is_new)
		return number;
	f = keyed_row(&c->functions, number);
	f->name = strdup(name->mangled ? name->mangled : name->symbol);
	f->shown = strdup(name->symbol);
	return f->name && f->shown ? (int64_t)number : PTAH_E_NOMEM;
}

/* Blocks and edges */

static int keep_run(struct adding *a, const struct ptah_profile_block *b, struct place at)
{
	struct cover_code *c = a->code;
	const struct cover_block row = {
	    .object = at.object, .at = at.at, .end = at.at + (b->end - b->ip)};
	bool is_new;
	const uint32_t number = keyed_number(&c->blocks, &row, &is_new);
	int64_t function;

	if (!number || !LIST_ROOM(a->reached, a->count, a->room))
		return PTAH_E_NOMEM;
	a->reached[a->count++] = (struct cover_reached){number, b->count};
	if (!is_new)
		return 0;
	function = function_number(a, b, &at);
	if (function < 0)
		return (int)function;
	((struct cover_block *)keyed_row(&c->blocks, number))->function = (uint32_t)function;
	return 0;
}

static int keep_edge(struct adding *a, struct place from, struct versioned to)
{
	struct edge edge = {.from = from};
	bool is_new;

	if (!find_place(a, to, &edge.to) || !keyed_number(&a->code->edges, &edge, &is_new))
		return PTAH_E_NOMEM;
	return 0;
}

static int keep_branch(struct adding *a, const struct ptah_profile_block *b, struct place at)
{
	struct place branch = {at.object, at.at + (b->end - b->last_size - b->ip)};
	bool is_new;
	int64_t function;

	if (!keyed_number(&a->code->branches, &branch, &is_new))
		return PTAH_E_NOMEM;
	function = is_new ? function_number(a, b, &at) : 0;
	return function < 0 ? (int)function : 0;
}

/* The two edges of a conditional branch. */
static int keep_outcomes(struct adding *a, const struct ptah_profile_block *b)
{
	struct place from;
	int status = 0;

	if (!find_place(a, (struct versioned){b->end - b->last_size, b->version}, &from))
		return PTAH_E_NOMEM;
	if (b->count > b->taken + b->unknown)
		status = keep_edge(a, from, (struct versioned){b->end, b->version});
	return status >= 0 && b->taken
		   ? keep_edge(a, from, (struct versioned){b->target, b->target_version})
		   : status;
}

static int keep_block(struct adding *a, const struct ptah_profile_block *b)
{
	struct place at;
	int status = 0;

	if (!b->count)
		return 0;
	if (!find_place(a, (struct versioned){b->ip, b->version}, &at))
		return PTAH_E_NOMEM;
	if (a->code->keeps_blocks)
		status = keep_run(a, b, at);
	if (status >= 0 && !b->truncated)
		status = keep_branch(a, b, at);
	if (status >= 0 && b->insn_class == PTAH_INSN_COND)
		status = keep_outcomes(a, b);
	return status;
}

/* Giving */

static int by_block(const void *a, const void *b)
{
	const struct cover_reached *x = a, *y = b;

	return COMPARE(x->block, y->block);
}

/* Gives the blocks of a space, added up: several blocks of one profile may be one block. */
static int give(struct adding *a, cover_take *take, void *context)
{
	struct cover_reached *list = a->reached;
	const size_t n = a->count;
	size_t last = 0;

	a->count = 0;
	if (!n || !take)
		return 0;
	qsort(list, n, sizeof(*list), by_block);
	for (size_t i = 1; i < n; i++) {
		if (list[i].block != list[last].block)
			list[++last] = list[i];
		else if (__builtin_add_overflow(list[last].count, list[i].count, &list[last].count))
			list[last].count = UINT64_MAX;
	}
	return take(context, a->space, list, last + 1);
}

static int enter_space(struct adding *a, size_t stream, const struct ptah_profile *profile,
		       uint32_t space, cover_take *take, void *context)
{
	const int32_t next = ptah_session_profile_pid(a->code->session, stream, profile, space);
	const int status = next != a->space ? give(a, take, context) : 0;

	if (next != a->space)
		a->found = false;
	a->space = next;
	return status;
}

static int add_blocks(struct adding *a, size_t stream, struct ptah_profile *profile,
		      cover_take *take, void *context)
{
	struct ptah_profile_block *blocks;
	size_t n;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		if (!i || blocks[i].space != blocks[i - 1].space)
			status = enter_space(a, stream, profile, blocks[i].space, take, context);
		if (status >= 0)
			status = keep_block(a, &blocks[i]);
	}
	free(blocks);
	return status >= 0 ? give(a, take, context) : status;
}

static int add_edges(struct adding *a, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_edge *edges;
	struct place from;
	size_t n;
	int status = ptah_profile_edges(profile, &edges, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct ptah_profile_edge *e = &edges[i];

		if (!i || e->space != edges[i - 1].space)
			status = enter_space(a, stream, profile, e->space, NULL, NULL);
		if (status >= 0 && e->count)
			status =
			    find_place(a, (struct versioned){e->from, e->version}, &from)
				? keep_edge(a, from, (struct versioned){e->to, e->target_version})
				: PTAH_E_NOMEM;
	}
	free(edges);
	return status;
}

int cover_code_add(struct cover_code *c, size_t stream, struct ptah_profile *profile,
		   cover_take *take, void *context)
{
	struct adding a = {.code = c, .space = INT32_MIN};
	int status = add_blocks(&a, stream, profile, take, context);

	if (status >= 0)
		status = add_edges(&a, stream, profile);
	free(a.reached);
	return status;
}
