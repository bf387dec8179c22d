/* SPDX-License-Identifier: MIT */
/*
 * Adds up the processes of one program that ran at different addresses.
 *
 * Each process gets the *canonical layout*: the files whose build id is known lie one after the
 * other from LAYOUT_BEGIN on, the program first, then in the order of their build ids, and byte
 * `offset` of a file is at its base plus `offset`. The layout of a sum depends on the files of all
 * its processes, and not on their order: when another file comes, those after it move up, which
 * leaves the order of addresses as it was.
 *
 * What has no place in the layout is the *rest* of a process, which stays a process of its own.
 */
#include "base/order.h"
#include "calls/tree_internal.h"
#include "counts/counts_internal.h"
#include "perfdata/byte_buffer.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUT_BEGIN (UINT64_C(1) << 32)
#define LAYOUT_END   (UINT64_C(1) << 47)
#define LAYOUT_ALIGN (UINT64_C(2) << 20)

/* Bytes of a file beyond this offset have no place in a layout. */
#define LAST_OFFSET (UINT64_C(1) << 40)

/* Where calls have functions that are in no layout, and edges come from them, as one. */
#define NO_ID_ADDRESS UINT64_C(0x1000)
#define NO_ID_SIZE    UINT64_C(0x1000)
#define NO_ID_PATH    "[no build id]"

/* A file in a layout: all pieces with its build id. */
struct module {
	const struct ptah_counts_file *file; /* one of them: its path is the least */
	uint64_t end;			     /* the offset where the last of them ends */
	uint64_t base;
	bool program;
};

struct layout {
	struct module *modules;
	size_t count;
};

/* What takes the addresses of a process to those of a layout. */
struct slides {
	const struct counts_process *p;
	uint64_t *by; /* what is added to the addresses in each of its files */
	const char **paths;
};

static int compare_fold_ids(const struct ptah_counts_file *a, const struct ptah_counts_file *b)
{
	int order = COMPARE(a->build_id_size, b->build_id_size);

	return order ? order : memcmp(a->build_id, b->build_id, a->build_id_size);
}

/* Whether the file has a place in layouts. Those of the kernel do not say how far it was moved. */
static bool has_place(const struct ptah_counts_file *f)
{
	return f->build_id_size && !(counts_last(f) >> 63) && f->size <= LAST_OFFSET &&
	       f->file_offset <= LAST_OFFSET - f->size;
}

/* The file at the lowest address is the program: libraries are mapped above it. */
static const struct ptah_counts_file *program_of(const struct counts_process *p)
{
	for (size_t i = 0; i < p->file_count; i++)
		if (has_place(&p->files[i]))
			return &p->files[i];
	return NULL;
}

static int compare_programs(const struct ptah_counts_file *a, const struct ptah_counts_file *b)
{
	return a && b ? compare_fold_ids(a, b) : (a != NULL) - (b != NULL);
}

/* Layouts */

static int by_id(const void *a, const void *b)
{
	const struct module *x = a, *y = b;

	return x->program != y->program ? (x->program ? -1 : 1)
					: compare_fold_ids(x->file, y->file);
}

static int by_id_and_path(const void *a, const void *b)
{
	int order = by_id(a, b);

	return order ? order
		     : strcmp(((const struct module *)a)->file->path,
			      ((const struct module *)b)->file->path);
}

static void list_modules(struct layout *l, const struct counts_process *p,
			 const struct ptah_counts_file *program)
{
	for (size_t i = 0; i < p->file_count; i++)
		if (has_place(&p->files[i]))
			l->modules[l->count++] =
			    (struct module){.file = &p->files[i],
					    .end = p->files[i].file_offset + p->files[i].size,
					    .program = !compare_fold_ids(&p->files[i], program)};
}

/* Each file once: its pieces are adjacent. */
static void unite_modules(struct layout *l)
{
	size_t last = 0;

	for (size_t i = 1; i < l->count; i++) {
		struct module *m = &l->modules[last];

		if (by_id(m, &l->modules[i]))
			l->modules[++last] = l->modules[i];
		else if (m->end < l->modules[i].end)
			m->end = l->modules[i].end;
	}
	l->count = l->count ? last + 1 : 0;
}

/* The layout of two processes of one program. The caller frees l->modules also on failure. */
static int lay_out(struct layout *l, const struct counts_process *a, const struct counts_process *b,
		   const struct ptah_counts_file *program)
{
	uint64_t next = LAYOUT_BEGIN;

	*l = (struct layout){.modules =
				 calloc(a->file_count + b->file_count + 1, sizeof(*l->modules))};
	if (!l->modules)
		return PTAH_E_NOMEM;
	list_modules(l, a, program);
	list_modules(l, b, program);
	qsort(l->modules, l->count, sizeof(*l->modules), by_id_and_path);
	unite_modules(l);
	for (size_t i = 0; i < l->count; i++) {
		l->modules[i].base = next;
		/* At least one page between two files belongs to none. */
		next += (l->modules[i].end + 4096 + LAYOUT_ALIGN - 1) & ~(LAYOUT_ALIGN - 1);
		if (next > LAYOUT_END)
			return PTAH_E_LIMIT;
	}
	return 0;
}

static int make_slides(struct slides *s, const struct counts_process *p, const struct layout *l,
		       const struct ptah_counts_file *program)
{
	*s = (struct slides){.p = p,
			     .by = calloc(p->file_count + 1, sizeof(*s->by)),
			     .paths = calloc(p->file_count + 1, sizeof(*s->paths))};
	if (!s->by || !s->paths)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < p->file_count; i++) {
		const struct ptah_counts_file *f = &p->files[i];
		const struct module *m,
		    key = {.file = f, .program = program && !compare_fold_ids(f, program)};

		if (!has_place(f))
			continue;
		m = bsearch(&key, l->modules, l->count, sizeof(*m), by_id);
		s->by[i] = m->base + f->file_offset - f->address;
		s->paths[i] = m->file->path;
	}
	return 0;
}

static void free_slides(struct slides *s)
{
	free(s->by);
	free(s->paths);
}

static bool has_no_place(const struct slides *s, uint64_t address, uint64_t version)
{
	const struct ptah_counts_file *f = counts_find_file(s->p, address, version);

	return !f || !has_place(f);
}

/* Takes an address to the layout. False: it has no place there, and is unchanged. */
static bool slide(const struct slides *s, uint64_t *address, uint64_t version)
{
	const struct ptah_counts_file *f = counts_find_file(s->p, *address, version);

	if (!f || !has_place(f))
		return false;
	*address += s->by[f - s->p->files];
	return true;
}

static bool slide_block(const struct slides *s, struct ptah_profile_block *b)
{
	const uint64_t ip = b->ip;
	uint64_t last = b->end - b->last_size, target = b->target;

	if (!slide(s, &b->ip, b->version) || !slide(s, &last, b->version) ||
	    (target && !slide(s, &target, b->target_version)))
		return false;
	/* A block that goes on in the next file cannot be moved as one. */
	if (last + b->last_size - b->end != b->ip - ip)
		return false;
	b->end = last + b->last_size;
	b->target = target;
	/* The times of one run mean nothing in another one, and each file has a place of its own.
	 */
	b->version = b->target_version = 0;
	return true;
}

/*
 * An edge belongs to where it leads: a function has all of its calls, also those from code without
 * a place.
 */
static bool slide_edge(const struct slides *s, struct ptah_profile_edge *e)
{
	if (!slide(s, &e->to, e->target_version))
		return false;
	if (!slide(s, &e->from, e->version))
		e->from = NO_ID_ADDRESS;
	e->version = e->target_version = 0;
	return true;
}

/* An error is somewhere else in each run; what is kept is where in a file. */
static void slide_error(const struct slides *s, struct ptah_item *error)
{
	if (!slide(s, &error->ip, 0))
		error->ip = 0;
	if (!slide(s, &error->to, 0))
		error->to = 0;
}

/* A ptah_call_tree_map. */
static bool slide_function(void *slides, uint16_t *space, uint64_t *function)
{
	if (*space || !slide(slides, function, 0))
		*function = NO_ID_ADDRESS;
	*space = 0;
	return true;
}

/* Copies of the files that have a place, in the layout. */
static void slide_files(const struct slides *s, struct counts_process *folded)
{
	for (size_t i = 0; i < s->p->file_count; i++) {
		struct ptah_counts_file *f = &folded->files[folded->file_count];

		if (!has_place(&s->p->files[i]))
			continue;
		*f = s->p->files[i];
		f->address += s->by[i];
		f->path = s->paths[i];
		f->version = 0;
		folded->file_count++;
	}
}

/* Splitting a process: what has a place in the layout, and the rest */

static int make_lists(struct counts_process *part, const struct counts_process *p)
{
	part->spaces = calloc(p->space_count + 1, sizeof(*part->spaces));
	part->blocks = calloc(p->block_count + 1, sizeof(*part->blocks));
	part->edges = calloc(p->block_count + p->edge_count + 1, sizeof(*part->edges));
	part->files = calloc(p->file_count + 1, sizeof(*part->files));
	if (!part->spaces || !part->blocks || !part->edges || !part->files)
		return PTAH_E_NOMEM;
	memcpy(part->spaces, p->spaces, p->space_count * sizeof(*part->spaces));
	part->space_count = p->space_count;
	return 0;
}

/* Sorts the lists again, in which a file that was mapped twice has counts twice. */
static void sort_lists(struct counts_process *p)
{
	size_t blocks = 0, edges = 0;

	qsort(p->files, p->file_count, sizeof(*p->files), counts_compare_files);
	qsort(p->blocks, p->block_count, sizeof(*p->blocks), counts_compare_blocks);
	qsort(p->edges, p->edge_count, sizeof(*p->edges), counts_compare_edges);
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];

		if (blocks && !counts_compare_blocks(&p->blocks[blocks - 1], b)) {
			p->blocks[blocks - 1].count += b->count;
			p->blocks[blocks - 1].taken += b->taken;
			p->blocks[blocks - 1].unknown += b->unknown;
		} else {
			p->blocks[blocks++] = *b;
		}
	}
	for (size_t i = 0; i < p->edge_count; i++) {
		if (edges && !counts_compare_edges(&p->edges[edges - 1], &p->edges[i]))
			p->edges[edges - 1].count += p->edges[i].count;
		else
			p->edges[edges++] = p->edges[i];
	}
	p->block_count = blocks;
	p->edge_count = edges;
}

/*
 * A direct call or jump from code without a place to code with one: the block that it ends stays in
 * the rest, and its edge does not. False: the block has none.
 */
static bool take_edge(const struct slides *s, struct ptah_profile_block *b,
		      struct ptah_profile_edge *e)
{
	*e = (struct ptah_profile_edge){.from = b->ip,
					.to = b->target,
					.count = b->count,
					.version = b->version,
					.target_version = b->target_version,
					.space = b->space,
					.mode = b->mode,
					.insn_class = b->insn_class};
	if ((b->insn_class != PTAH_INSN_CALL && b->insn_class != PTAH_INSN_JUMP) || !b->target ||
	    !has_no_place(s, b->ip, b->version) || !slide_edge(s, e))
		return false;
	b->target = b->target_version = 0;
	return true;
}

static int split(const struct slides *s, struct counts_process *folded, struct counts_process *rest)
{
	const struct counts_process *p = s->p;

	if (make_lists(folded, p) < 0 || make_lists(rest, p) < 0)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < p->block_count; i++) {
		struct ptah_profile_block b = p->blocks[i];

		if (slide_block(s, &b)) {
			folded->blocks[folded->block_count++] = b;
			continue;
		}
		b = p->blocks[i];
		folded->edge_count += take_edge(s, &b, &folded->edges[folded->edge_count]);
		rest->blocks[rest->block_count++] = b;
	}
	for (size_t i = 0; i < p->edge_count; i++) {
		struct ptah_profile_edge e = p->edges[i];

		if (slide_edge(s, &e))
			folded->edges[folded->edge_count++] = e;
		else
			rest->edges[rest->edge_count++] = p->edges[i];
	}
	slide_files(s, folded);
	sort_lists(folded);
	sort_lists(rest);
	folded->events = p->events;
	slide_error(s, &folded->events.first_error);
	return counts_drop_spaces(folded) < 0 || counts_drop_spaces(rest) < 0 ? PTAH_E_NOMEM : 0;
}

/* What is kept apart */

/* A ptah_counts_finder, of the files of `process`. */
static bool find_fold_piece(void *process, int32_t space, uint64_t address, uint64_t tsc,
			    struct ptah_counts_file *file)
{
	const struct ptah_counts_file *f =
	    counts_find_file(process, address, counts_version_at(tsc));

	(void)space;
	if (f)
		*file = *f;
	return f != NULL;
}

/* Appends the rest of `p`, with the files that its addresses are in. Takes ownership of it. */
static int append_rest(struct ptah_counts *into, struct counts_process *rest,
		       const struct counts_process *p)
{
	struct counts_process all = *p; /* a finder may change its context; this one does not */
	struct perfdata_buffer bytes = {0};
	struct counts_process *to;
	int status;

	rest->pid = p->pid;
	memcpy(rest->comm, p->comm, sizeof(rest->comm));
	free(rest->files);
	rest->files = NULL;
	rest->file_count = 0;
	status = counts_locate(into, rest, find_fold_piece, &all);
	if (status >= 0 && (!counts_put_process(&bytes, rest, 0, true) || bytes.failed))
		status = PTAH_E_NOMEM;
	rest->digest = counts_checksum(bytes.bytes, bytes.size);
	perfdata_buffer_free(&bytes);
	to = status >= 0 ? counts_append(into) : NULL;
	if (!to) {
		counts_free_process(rest);
		return PTAH_E_NOMEM;
	}
	*to = *rest;
	return 0;
}

/* Appends all of `p`, whose address spaces are those of its recording alone. */
static int append_whole(struct ptah_counts *into, const struct counts_process *p)
{
	struct counts_process whole = {.space = p->space};
	int status = counts_join(&whole, p);

	if (status < 0) {
		counts_free_process(&whole);
		return status;
	}
	return append_rest(into, &whole, p);
}

static bool has_own_spaces(const struct counts_process *p)
{
	return p->space_count > 1 || (p->space_count && (p->spaces[0].cr3 != PTAH_SPACE_ANY ||
							 p->spaces[0].vmcs != PTAH_SPACE_ANY));
}

/* Adding up */

static int by_number(const void *a, const void *b)
{
	return COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}

/*
 * Finds out whether the calls can be added up with those of other runs. Where paths were folded,
 * what functions ran together is not known, so that several of them cannot become one. Returns 1, 0
 * or PTAH_E_NOMEM.
 */
static int can_add_calls(struct slides *s)
{
	const struct ptah_call_tree *tree = s->p->calls;
	uint64_t *places;
	uint16_t space;
	int can = 1;

	if (!tree || tree->pair_count <= 1)
		return tree != NULL;
	places = calloc(tree->function_count, sizeof(*places));
	if (!places)
		return PTAH_E_NOMEM;
	for (uint32_t i = 1; i < tree->function_count; i++) {
		places[i] = tree->functions[i].address;
		space = tree->functions[i].space;
		slide_function(s, &space, &places[i]);
	}
	qsort(places, tree->function_count, sizeof(*places), by_number);
	for (uint32_t i = 1; i < tree->function_count; i++)
		if (places[i] == places[i - 1])
			can = 0;
	free(places);
	return can;
}

static bool has_function(const struct ptah_call_tree *tree, uint64_t address)
{
	for (uint32_t i = 1; tree && i < tree->function_count; i++)
		if (!tree->functions[i].space && tree->functions[i].address == address)
			return true;
	return false;
}

/* Takes the calls of `from` to the layout and adds them to *into, which may be NULL. */
static int add_calls(struct ptah_call_tree **into, const struct ptah_call_tree *from,
		     struct slides *s)
{
	int status = *into || !from ? 0 : ptah_call_tree_new(NULL, into);

	return status < 0 || !from ? status : ptah_call_tree_merge(*into, from, slide_function, s);
}

static bool has_edge_from(const struct counts_process *p, uint64_t address)
{
	for (size_t i = 0; i < p->edge_count; i++)
		if (p->edges[i].from == address)
			return true;
	return false;
}

/* The file of all code without a place. */
static int name_no_id(struct counts_process *p)
{
	struct ptah_counts_file *files;

	if ((!has_function(p->calls, NO_ID_ADDRESS) && !has_edge_from(p, NO_ID_ADDRESS)) ||
	    (p->file_count && p->files[0].address == NO_ID_ADDRESS))
		return 0;
	files = calloc(p->file_count + 1, sizeof(*files));
	if (!files)
		return PTAH_E_NOMEM;
	files[0] = (struct ptah_counts_file){
	    .address = NO_ID_ADDRESS, .size = NO_ID_SIZE, .path = NO_ID_PATH};
	memcpy(files + 1, p->files, p->file_count * sizeof(*files));
	free(p->files);
	p->files = files;
	p->file_count++;
	return 0;
}

/* Which of the first errors of two processes the sum has: it must not depend on their order. */
static struct ptah_item choose_error(const struct ptah_profile_totals *a,
				     const struct ptah_profile_totals *b)
{
	int order = a->errors && b->errors ? COMPARE(a->first_error.offset, b->first_error.offset)
					   : (b->errors != 0) - (a->errors != 0);

	if (!order)
		order = memcmp(&a->first_error, &b->first_error, sizeof(a->first_error));
	return order <= 0 ? a->first_error : b->first_error;
}

static bool is_unmoved(const struct slides *s)
{
	for (size_t i = 0; i < s->p->file_count; i++)
		if (has_place(&s->p->files[i]) &&
		    (s->by[i] || strcmp(s->paths[i], s->p->files[i].path) != 0))
			return false;
	return true;
}

/* Gives the group another layout. */
static int move_group(struct counts_process *group, struct slides *s)
{
	struct counts_process moved = {.pid = -1, .space = -1, .folded = true}, none = {0};
	int status;

	if (is_unmoved(s))
		return 0;
	memcpy(moved.comm, group->comm, sizeof(moved.comm));
	status = split(s, &moved, &none);
	if (status >= 0)
		status = add_calls(&moved.calls, group->calls, s);
	if (status >= 0)
		status = name_no_id(&moved);
	counts_free_process(&none);
	if (status < 0) {
		counts_free_process(&moved);
		return status;
	}
	counts_free_process(group);
	*group = moved;
	return 0;
}

/* Adds `folded`, which is `p` in the layout of the group, and these calls of `p`. */
static int add_to_group(struct counts_process *group, const struct counts_process *folded,
			const struct ptah_call_tree *more, struct slides *of_p)
{
	const struct ptah_item first = choose_error(&group->events, &folded->events);
	struct ptah_call_tree *calls = group->calls;
	int status;

	/* A tree that grows in place is cheaper than the sum of two. */
	group->calls = NULL;
	status = counts_join(group, folded);
	group->calls = calls;
	group->folded = true;
	group->events.first_error = first;
	if (status >= 0)
		status = add_calls(&group->calls, more, of_p);
	return status < 0 ? status : name_no_id(group);
}

/*
 * The index of the process that `p` is added to, which is appended if there is none. *added: it
 * was.
 */
static int find_group(struct ptah_counts *into, const struct counts_process *p, size_t *at,
		      bool *added)
{
	struct counts_process *group;
	size_t groups = 0;

	*added = false;
	for (*at = 0; *at < into->count; ++*at) {
		group = &into->processes[*at];
		if (!group->folded)
			continue;
		if (!memcmp(group->comm, p->comm, sizeof(p->comm)) &&
		    !compare_programs(program_of(group), program_of(p)))
			return 0;
		if (++groups >= COUNTS_SAME_PID)
			return PTAH_E_LIMIT;
	}
	group = counts_append(into);
	if (!group)
		return PTAH_E_NOMEM;
	group->pid = group->space = -1;
	group->folded = true;
	memcpy(group->comm, p->comm, sizeof(p->comm));
	*added = true;
	return 0;
}

/* Adds the parts of `p`. Returns 1 if there is nothing to be added: then the group is as it was. */
static int add_fold_parts(struct counts_process *group, struct slides *of_group,
			  struct counts_process *folded, struct counts_process *rest,
			  struct slides *of_p)
{
	const struct ptah_call_tree *calls = of_p->p->calls;
	const int can = can_add_calls(of_p);
	int status = can < 0 ? can : split(of_p, folded, rest);

	if (status >= 0 && !can)
		status = counts_join_calls(calls, NULL, &rest->calls);
	if (status >= 0 && !can && counts_is_empty(folded) && !counts_is_empty(rest))
		return 1;
	if (status >= 0)
		status = move_group(group, of_group);
	return status < 0 ? status : add_to_group(group, folded, can ? calls : NULL, of_p);
}

/* The same for all that has to do with it. */
static int fold_into(struct ptah_counts *into, struct counts_process *group,
		     const struct counts_process *p, struct counts_process *rest)
{
	const struct ptah_counts_file *program = program_of(p);
	struct counts_process folded = {.pid = -1, .space = -1};
	struct slides of_group = {0}, of_p = {0};
	struct layout layout;
	int status = lay_out(&layout, group, p, program);

	if (status >= 0)
		status = make_slides(&of_group, group, &layout, program);
	if (status >= 0)
		status = make_slides(&of_p, p, &layout, program);
	if (status >= 0)
		status = add_fold_parts(group, &of_group, &folded, rest, &of_p);
	if (!status)
		status = counts_keep_paths(into, group);
	free(layout.modules);
	free_slides(&of_group);
	free_slides(&of_p);
	counts_free_process(&folded);
	return status;
}

static int fold_process(struct ptah_counts *into, const struct counts_process *p)
{
	struct counts_process rest = {.space = p->space};
	bool added;
	size_t at;
	int status;

	if (has_own_spaces(p))
		return append_whole(into, p);
	status = find_group(into, p, &at, &added);
	if (status >= 0)
		status = fold_into(into, &into->processes[at], p, &rest);
	if (status > 0 && added)
		counts_free_process(&into->processes[--into->count]);
	if (status >= 0 && !counts_is_empty(&rest))
		return append_rest(into, &rest, p);
	counts_free_process(&rest);
	return status < 0 ? status : 0;
}

static int by_fold_run(const void *a, const void *b)
{
	const struct counts_process *x = a, *y = b;
	int order = COMPARE(x->pid, y->pid);

	order = order ? order : memcmp(x->comm, y->comm, sizeof(x->comm));
	order = order ? order : (y->folded ? 1 : 0) - (x->folded ? 1 : 0);
	order = order ? order : COMPARE(x->digest, y->digest);
	return order || !x->folded ? order : compare_programs(program_of(x), program_of(y));
}

static bool too_many_of_a_pid(const struct ptah_counts *c)
{
	size_t same = 0;

	for (size_t i = 0; i < c->count; i++) {
		same = i && c->processes[i].pid == c->processes[i - 1].pid ? same + 1 : 1;
		if (same > COUNTS_SAME_PID)
			return true;
	}
	return false;
}

int ptah_counts_fold(struct ptah_counts *into, const struct ptah_counts *from)
{
	int status = 0;

	if (!into || !from || into == from)
		return PTAH_E_INVAL;
	if (!counts_add_sums(&into->sums, &from->sums))
		return PTAH_E_LIMIT;
	into->times |= from->times;
	for (size_t i = 0; i < from->count && status >= 0; i++)
		status = fold_process(into, &from->processes[i]);
	if (into->count)
		qsort(into->processes, into->count, sizeof(*into->processes), by_fold_run);
	return status >= 0 && too_many_of_a_pid(into) ? PTAH_E_LIMIT : status;
}
