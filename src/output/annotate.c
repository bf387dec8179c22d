/* SPDX-License-Identifier: MIT */
/* Adds up counts by place, and finds the functions and branches (annotate.h). */
#include "output/annotate_internal.h"

#include "base/order.h"
#include "base/path.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks of code without a name that are no farther apart belong together. */
#define NEAR 64

/* Two builds of a program have the same path, and other code at the same places. */
static bool is_same_build(const struct ptah_counts_file *a, const struct ptah_counts_file *b)
{
	return !a || !b ||
	       (a->build_id_size == b->build_id_size &&
		!memcmp(a->build_id, b->build_id, a->build_id_size));
}

static bool is_same_path(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

uint32_t annotation_find_file(const struct annotation *a, const char *path,
			      const struct ptah_counts_file *build)
{
	for (size_t i = a->object_count; i-- > 0;) {
		const struct annotate_object *o = &a->objects[i];

		if (o->is_file && is_same_build(o->build, build) && is_same_path(path, o->path))
			return (uint32_t)i;
	}
	return NO_OBJECT;
}

uint32_t annotation_find_other(const struct annotation *a, int32_t pid, uint64_t version,
			       uint32_t from)
{
	for (size_t i = from; i < a->object_count; i++) {
		const struct annotate_object *o = &a->objects[i];

		if (!o->is_file && o->pid == pid && o->version == version)
			return (uint32_t)i;
	}
	return NO_OBJECT;
}

static uint32_t find_annotated_object(const struct annotation *a,
				      const struct annotate_object *like)
{
	uint32_t i;

	if (like->is_file)
		return annotation_find_file(a, like->path, like->build);
	i = annotation_find_other(a, like->pid, like->version, 0);
	while (i != NO_OBJECT && !is_same_path(a->objects[i].path, like->path))
		i = annotation_find_other(a, like->pid, like->version, i + 1);
	return i;
}

/* The object of a block, which is added if it is new. */
static uint32_t object_of(struct annotation *a, const struct ptah_counts_process *p, size_t process,
			  const struct ptah_profile_block *b, struct ptah_map *map)
{
	const uint64_t ip = b->ip;
	const struct name *name;
	struct annotate_object object = {.pid = ip >> 63 ? -1 : p->pid, .version = b->version};
	uint32_t known;

	if (names_find_place(a->config.names, (int32_t)process, ip, ptah_version_time(b->version),
			     map, &object.changed)) {
		object.path = names_object_path(a->config.names, map->path);
		object.is_file = outcomes_is_file(map->path, ip);
	}
	if (object.is_file) {
		object.pid = -1;
		object.version = 0;
		object.build = ptah_counts_find(a->config.counts, process, ip, b->version);
	}
	known = find_annotated_object(a, &object);
	if (known != NO_OBJECT)
		return known;
	name = names_find_version(a->config.names, (int32_t)process, ip, b->version);
	object.shown = name->dso;
	if (!LIST_ADD(a->objects, a->object_count))
		return NO_OBJECT;
	a->objects[a->object_count - 1] = object;
	return (uint32_t)a->object_count - 1;
}

static int add_pieces(struct annotation *a, const struct ptah_counts_process *p, size_t process)
{
	struct annotate_piece *pieces =
	    reallocarray(a->pieces, a->piece_count + p->block_count + 1, sizeof(*pieces));
	struct ptah_map map = {0};
	uint32_t object = NO_OBJECT;
	uint64_t version = 0;

	if (!pieces)
		return PTAH_E_NOMEM;
	a->pieces = pieces;
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];
		uint64_t slide;

		if (object == NO_OBJECT || !map.size || b->ip - map.address >= map.size ||
		    b->version != version) {
			map = (struct ptah_map){0};
			version = b->version;
			object = object_of(a, p, process, b, &map);
		}
		if (object == NO_OBJECT)
			return PTAH_E_NOMEM;
		slide = a->objects[object].is_file ? map.file_offset - map.address : 0;
		a->instructions += b->count * b->ninsn;
		pieces[a->piece_count++] = (struct annotate_piece){.object = object,
								   .process = (uint32_t)process,
								   .at = b->ip + slide,
								   .end = b->end + slide,
								   .ip = b->ip,
								   .version = b->version,
								   .count = b->count,
								   .taken = b->taken,
								   .unknown = b->unknown,
								   .target = b->target + slide,
								   .ninsn = b->ninsn,
								   .mode = b->mode,
								   .insn_class = b->insn_class,
								   .last_size = b->last_size,
								   .has_target = b->target != 0};
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct annotate_piece *x = a, *y = b;
	int order = COMPARE(x->object, y->object);

	order = order ? order : COMPARE(x->at, y->at);
	order = order ? order : COMPARE(x->end, y->end);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->ninsn, y->ninsn);
	order = order ? order : COMPARE(x->target, y->target);
	return order ? order : COMPARE(x->process, y->process);
}

/* Adds up the blocks that several processes or address spaces ran. */
static void sum_pieces(struct annotation *a)
{
	size_t last = 0;

	if (!a->piece_count)
		return;
	qsort(a->pieces, a->piece_count, sizeof(*a->pieces), by_place);
	for (size_t i = 1; i < a->piece_count; i++) {
		struct annotate_piece *to = &a->pieces[last], next = a->pieces[i];

		next.process = to->process;
		if (by_place(to, &next)) {
			a->pieces[++last] = a->pieces[i];
			continue;
		}
		to->count += next.count;
		to->taken += next.taken;
		to->unknown += next.unknown;
	}
	a->piece_count = last + 1;
}

size_t annotation_first_piece(const struct annotation *a, uint32_t object, uint64_t at)
{
	return annotation_piece_at(a, object, at > LONGEST_BLOCK ? at - LONGEST_BLOCK : 0);
}

size_t annotation_piece_at(const struct annotation *a, uint32_t object, uint64_t at)
{
	size_t low;

	BISECT(low, 0, a->piece_count,
	       a->pieces[low].object < object ||
		   (a->pieces[low].object == object && a->pieces[low].at < at));
	return low;
}

/* Functions */

/* The function that a block begins in; `key` is complete but for `end`. */
struct found {
	struct annotate_function function;
	uint64_t end;
};

static int by_annotated_function(const void *a, const void *b)
{
	const struct annotate_function *x = &((const struct found *)a)->function;
	const struct annotate_function *y = &((const struct found *)b)->function;
	int order = COMPARE(x->object, y->object);

	order = order ? order : COMPARE(x->start, y->start);
	if (order || x->mangled == y->mangled)
		return order;
	if (!x->mangled || !y->mangled)
		return (x->mangled != NULL) - (y->mangled != NULL);
	return strcmp(x->mangled, y->mangled);
}

static int by_instructions(const void *a, const void *b)
{
	const struct annotate_function *x = a, *y = b;
	int order = COMPARE(y->instructions, x->instructions);

	order = order ? order : COMPARE(x->object, y->object);
	return order ? order : COMPARE(x->start, y->start);
}

/* The functions of the blocks, in the order of the blocks. names caches one process at a time, so
 * that they are looked up process by process. */
static int by_annotated_process(const void *a, const void *b)
{
	const struct annotate_piece *x = *(const struct annotate_piece *const *)a;
	const struct annotate_piece *y = *(const struct annotate_piece *const *)b;
	int order = COMPARE(x->process, y->process);

	return order ? order : COMPARE((uintptr_t)x, (uintptr_t)y);
}

static void find_functions(const struct annotation *a, const struct annotate_piece **order,
			   struct found *found)
{
	qsort(order, a->piece_count, sizeof(const struct annotate_piece *), by_annotated_process);
	for (size_t i = 0; i < a->piece_count; i++) {
		const struct annotate_piece *p = order[i];
		const struct name *name =
		    names_find_version(a->config.names, (int32_t)p->process, p->ip, p->version);
		struct found *f = &found[p - a->pieces];

		f->end = p->end;
		f->function = (struct annotate_function){.object = p->object,
							 .start = p->at,
							 .symbol = name->symbol,
							 .section = name->symbol,
							 .mangled = name->mangled,
							 .process = p->process,
							 .ip = p->ip,
							 .version = p->version,
							 .instructions = p->count * p->ninsn};
		/* Code between functions has the name of its section, which is no function. */
		if (name->symbol && !name->named && name->symbol[0] == '.')
			f->function.symbol = f->function.mangled = NULL;
		if (!name->symbol || !f->function.symbol)
			continue;
		f->function.start -= name->offset;
		f->function.ip -= name->offset;
	}
	/* Code without a name begins where the blocks near it begin. */
	for (size_t i = 1; i < a->piece_count; i++) {
		const struct found *last = &found[i - 1];
		struct found *f = &found[i];

		if (f->function.symbol || last->function.symbol ||
		    f->function.object != last->function.object ||
		    f->function.start > last->end + NEAR)
			continue;
		f->function.ip -= f->function.start - last->function.start;
		f->function.start = last->function.start;
		f->end = f->end > last->end ? f->end : last->end;
	}
}

/* Where a function ends: as its symbol says, or else with the last block that ran. */
static void find_end(const struct annotation *a, struct annotate_function *f, uint64_t end)
{
	const struct annotate_object *object = &a->objects[f->object];
	struct ptah_symbols *symbols = names_symbols(a->config.names);
	struct ptah_symbol symbol;
	struct ptah_function bounds;

	f->end = end;
	if (!f->symbol)
		return;
	if (!object->is_file && !(f->ip >> 63)) {
		const struct ptah_counts_file *piece =
		    ptah_counts_find(a->config.counts, f->process, f->ip, f->version);

		if (piece && names_object_path(a->config.names, piece->path) != piece->path)
			f->end = f->start + (piece->address + piece->size - f->ip);
	} else if (object->is_file &&
		   ptah_symbols_lookup(symbols, object->path, f->start, &symbol) &&
		   symbol.start == f->start && symbol.size)
		f->end = f->start + symbol.size;
	else if (f->ip >> 63 && ptah_symbols_bounds(symbols, NULL, 0, f->ip, &bounds) &&
		 bounds.high - bounds.low < 1 << 20)
		f->end = f->start + (bounds.high - f->ip);
	if (f->end <= f->start)
		f->end = end;
}

static int list_annotated_functions(struct annotation *a)
{
	struct found *found = calloc(a->piece_count + 1, sizeof(*found));
	const struct annotate_piece **order = calloc(a->piece_count + 1, sizeof(*order));
	size_t n = 0;

	a->functions = calloc(a->piece_count + 1, sizeof(*a->functions));
	if (!found || !order || !a->functions) {
		free(found);
		free(order);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < a->piece_count; i++)
		order[i] = &a->pieces[i];
	find_functions(a, order, found);
	qsort(found, a->piece_count, sizeof(*found), by_annotated_function);
	for (size_t i = 0; i < a->piece_count; i++) {
		if (n && !by_annotated_function(&found[n - 1], &found[i])) {
			found[n - 1].function.instructions += found[i].function.instructions;
			if (found[i].end > found[n - 1].end)
				found[n - 1].end = found[i].end;
		} else {
			found[n++] = found[i];
		}
	}
	for (size_t i = 0; i < n; i++) {
		a->functions[i] = found[i].function;
		find_end(a, &a->functions[i], found[i].end);
	}
	a->function_count = n;
	free(found);
	free(order);
	return 0;
}

/* The versions of a function in their order, those of a process together. */
static int by_annotated_version(const void *a, const void *b)
{
	const struct annotate_function *x = *(struct annotate_function *const *)a;
	const struct annotate_function *y = *(struct annotate_function *const *)b;
	int order = COMPARE(x->process, y->process);

	order = order ? order : COMPARE(x->ip, y->ip);
	return order ? order : COMPARE(x->version, y->version);
}

/* Finds out when code that is in no file was replaced by other code. */
static int find_annotated_times(struct annotation *a)
{
	struct annotate_function **list =
	    calloc(a->function_count + 1, sizeof(struct annotate_function *));
	size_t n = 0;

	if (!list)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < a->function_count; i++)
		if (!a->objects[a->functions[i].object].is_file)
			list[n++] = &a->functions[i];
	qsort(list, n, sizeof(struct annotate_function *), by_annotated_version);
	for (size_t i = 1; i < n; i++) {
		if (list[i]->process != list[i - 1]->process || list[i]->ip != list[i - 1]->ip)
			continue;
		list[i - 1]->until = list[i]->since = list[i]->version;
	}
	free(list);
	return 0;
}

#define MOST_OVERLAPPING 8

static const struct annotate_function *find_function(const struct annotation *a, uint32_t object,
						     uint64_t at)
{
	size_t low;

	BISECT(low, 0, a->function_count,
	       a->by_place[low]->object < object ||
		   (a->by_place[low]->object == object && a->by_place[low]->start <= at));
	/* Functions hardly ever overlap: the one that begins next before it, or one of a few. */
	for (size_t i = low; i-- > 0 && low - i <= MOST_OVERLAPPING;)
		if (a->by_place[i]->object == object && at < a->by_place[i]->end)
			return a->by_place[i];
	return NULL;
}

const struct annotate_function *annotation_function(const struct annotation *a, uint32_t object,
						    uint64_t at)
{
	const struct annotate_function *f = find_function(a, object, at);
	uint32_t other = 0;

	/* What code of this version calls may be older. */
	if (f || object >= a->object_count || a->objects[object].is_file)
		return f;
	while (!f &&
	       (other = annotation_find_other(a, a->objects[object].pid, 0, other)) != NO_OBJECT)
		f = find_function(a, other++, at);
	return f;
}

/* Branches */

static int by_annotated_branch(const void *a, const void *b)
{
	const struct annotate_branch *x = a, *y = b;
	int order = COMPARE(x->object, y->object);

	return order ? order : COMPARE(x->at, y->at);
}

/* Pieces that end with the same branch began at different places. */
static int list_annotated_branches(struct annotation *a)
{
	size_t n = 0, k = 0;

	a->branches = calloc(a->piece_count + 1, sizeof(*a->branches));
	if (!a->branches)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < a->piece_count; i++) {
		const struct annotate_piece *p = &a->pieces[i];

		if (p->insn_class != PTAH_INSN_COND)
			continue;
		a->branches[n++] =
		    (struct annotate_branch){.object = p->object,
					     .at = p->end - p->last_size,
					     .target = p->target,
					     .executed = p->count,
					     .taken = p->taken,
					     .unknown = p->unknown,
					     .process = p->process,
					     .ip = p->ip + (p->end - p->last_size - p->at),
					     .version = p->version};
	}
	qsort(a->branches, n, sizeof(*a->branches), by_annotated_branch);
	for (size_t i = 0; i < n; i++) {
		struct annotate_branch *b = &a->branches[i];

		a->executed += b->executed;
		if (k && !by_annotated_branch(&a->branches[k - 1], b)) {
			a->branches[k - 1].executed += b->executed;
			a->branches[k - 1].taken += b->taken;
			a->branches[k - 1].unknown += b->unknown;
		} else {
			a->branches[k++] = *b;
		}
	}
	a->branch_count = k;
	return 0;
}

const struct annotate_branch *annotation_branch(const struct annotation *a, uint32_t object,
						uint64_t at)
{
	const struct annotate_branch key = {.object = object, .at = at};

	return a->branch_count
		   ? bsearch(&key, a->branches, a->branch_count, sizeof(key), by_annotated_branch)
		   : NULL;
}

static void sum_functions(struct annotation *a)
{
	for (size_t i = 0; i < a->function_count; i++) {
		struct annotate_function *f = &a->functions[i];
		size_t at;

		BISECT(at, 0, a->branch_count,
		       a->branches[at].object < f->object ||
			   (a->branches[at].object == f->object && a->branches[at].at < f->start));
		for (; at < a->branch_count && a->branches[at].object == f->object &&
		       a->branches[at].at < f->end;
		     at++) {
			f->branches += a->branches[at].executed;
			f->missed += a->branches[at].missed;
		}
	}
	qsort(a->functions, a->function_count, sizeof(*a->functions), by_instructions);
}

static int by_annotated_start(const void *a, const void *b)
{
	const struct annotate_function *x = *(const struct annotate_function *const *)a;
	const struct annotate_function *y = *(const struct annotate_function *const *)b;
	int order = COMPARE(x->object, y->object);

	return order ? order : COMPARE(x->start, y->start);
}

static int index_functions(struct annotation *a)
{
	a->by_place = calloc(a->function_count + 1, sizeof(const struct annotate_function *));
	if (!a->by_place)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < a->function_count; i++)
		a->by_place[i] = &a->functions[i];
	qsort(a->by_place, a->function_count, sizeof(const struct annotate_function *),
	      by_annotated_start);
	return 0;
}

int annotation_new(const struct annotation_config *config, struct annotation **annotation)
{
	struct annotation *a = calloc(1, sizeof(*a));
	struct ptah_counts_process p;
	int status = a ? 0 : PTAH_E_NOMEM;

	if (!a)
		return status;
	a->config = *config;
	a->predicted = config->outcomes != NULL;
	if (config->session)
		status = ptah_functions_new(config->session, &a->generated);
	for (size_t i = 0; status >= 0 && ptah_counts_process(config->counts, i, &p); i++)
		status = add_pieces(a, &p, i);
	if (status >= 0) {
		sum_pieces(a);
		status = annotation_split(a);
	}
	if (status >= 0) {
		sum_pieces(a);
		status = list_annotated_functions(a);
	}
	if (status >= 0)
		status = find_annotated_times(a);
	if (status >= 0)
		status = list_annotated_branches(a);
	if (status >= 0 && a->predicted)
		status = annotation_add_outcomes(a);
	if (status >= 0) {
		sum_functions(a);
		status = index_functions(a);
	}
	if (status < 0) {
		annotation_free(a);
		return status;
	}
	*annotation = a;
	return 0;
}

void annotation_free(struct annotation *a)
{
	if (!a)
		return;
	ptah_functions_free(a->generated);
	free(a->objects);
	free(a->pieces);
	free(a->functions);
	free(a->by_place);
	free(a->branches);
	free(a->bytes);
	free(a);
}
