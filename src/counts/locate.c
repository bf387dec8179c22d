/* SPDX-License-Identifier: MIT */
/* Finds the files that the addresses of counts lie in. */
#include "base/order.h"
#include "calls/tree_internal.h"
#include "counts/counts_internal.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* An address of a version of the code. */
struct located {
	uint64_t version, address;
};

static int by_version(const void *a, const void *b)
{
	const struct located *x = a, *y = b;
	int order = COMPARE(x->version, y->version);

	return order ? order : COMPARE(x->address, y->address);
}

/*
 * All addresses in the counts, by version and then ascending. The caller frees them. NULL when out
 * of memory.
 */
static struct located *list_addresses(const struct counts_process *p, size_t *count)
{
	const size_t functions = p->calls ? p->calls->function_count : 0;
	struct located *list =
	    malloc((3 * p->block_count + 2 * p->edge_count + functions + 1) * sizeof(*list));
	size_t n = 0, unique = 0;

	if (!list)
		return NULL;
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];

		list[n++] = (struct located){b->version, b->ip};
		list[n++] = (struct located){b->version, b->end - b->last_size};
		if (b->target)
			list[n++] = (struct located){b->target_version, b->target};
	}
	for (size_t i = 0; i < p->edge_count; i++) {
		const struct ptah_profile_edge *e = &p->edges[i];

		list[n++] = (struct located){e->version, e->from};
		list[n++] = (struct located){e->target_version, e->to};
	}
	/* Functions in other address spaces are not in this process's files. */
	for (size_t i = 1; i < functions; i++)
		if (!p->calls->functions[i].space)
			list[n++] = (struct located){0, p->calls->functions[i].address};
	qsort(list, n, sizeof(*list), by_version);
	for (size_t i = 0; i < n; i++)
		if (!i || by_version(&list[i], &list[unique - 1]))
			list[unique++] = list[i];
	*count = unique;
	return list;
}

struct files {
	struct ptah_counts_file *list, *wholes; /* see struct counts_process */
	size_t count, capacity;
	bool open;	  /* the last one may still grow */
	uint64_t floor;	  /* the lowest address at which the next one may begin */
	size_t first;	  /* how many are of version 0 */
	uint64_t version; /* of those that are being added */
};

static bool is_whole(const struct files *f, const struct ptah_counts_file *file)
{
	const struct ptah_counts_file *whole = &f->wholes[f->count - 1];

	return whole->address == file->address && whole->size == file->size &&
	       counts_same_mapping(whole, file);
}

/* The open file ends before `address`, where something else lies. */
static void close_file(struct files *f, uint64_t address)
{
	struct ptah_counts_file *last;

	if (!f->open)
		return;
	last = &f->list[f->count - 1];
	if (counts_last(last) >= address)
		last->size = address - last->address;
	f->floor = counts_last(last) + 1;
	f->open = false;
}

/* Makes room for one more file. */
static int grow(struct files *f)
{
	size_t capacity = f->capacity;

	return LIST_ROOM(f->list, f->count, capacity) && LIST_ROOM(f->wholes, f->count, f->capacity)
		   ? 0
		   : PTAH_E_NOMEM;
}

static int open_located_file(struct ptah_counts *c, struct files *f,
			     const struct ptah_counts_file *file)
{
	struct ptah_counts_file *last;
	uint64_t cut;

	if (grow(f) < 0)
		return PTAH_E_NOMEM;
	last = &f->list[f->count];
	*last = *file;
	last->version = f->version;
	last->path = strings_keep(&c->paths, file->path, strlen(file->path));
	if (!last->path)
		return PTAH_E_NOMEM;
	f->wholes[f->count] = *last;
	f->open = true;
	f->count++;
	cut = f->floor > last->address ? f->floor - last->address : 0;
	last->address += cut;
	last->file_offset += cut;
	last->size -= cut;
	return 0;
}

/* Whether the answer is plausible. It must contain the address and not wrap. */
static bool holds(const struct ptah_counts_file *file, uint64_t address)
{
	return file->path && file->build_id_size <= PTAH_BUILD_ID_MAX &&
	       address - file->address < file->size && counts_last(file) >= file->address;
}

/* Lies the address in the same file in version 0? */
static bool is_in_first(const struct files *f, const struct ptah_counts_file *file,
			uint64_t address)
{
	const struct counts_process first = {.files = f->list, .file_count = f->first};
	const struct ptah_counts_file *there = counts_find_file(&first, address, 0);

	return there && counts_same_mapping(there, file);
}

/* The addresses of the next version follow. */
static void begin_version(struct files *f, uint64_t version)
{
	f->first = f->version ? f->first : f->count;
	f->version = version;
	f->open = false;
	f->floor = 0;
}

static int add_address(struct ptah_counts *c, struct files *f, int32_t space,
		       const struct located *at, ptah_counts_finder *find, void *context)
{
	const uint64_t address = at->address;
	struct ptah_counts_file file;

	memset(&file, 0, sizeof(file));
	if (at->version != f->version)
		begin_version(f, at->version);
	if (!find(context, space, address, ptah_version_time(at->version), &file) ||
	    !holds(&file, address) || (f->version && is_in_first(f, &file, address))) {
		close_file(f, address);
		f->floor = address + 1;
		return 0;
	}
	if (f->open && is_whole(f, &file))
		return 0;
	close_file(f, address);
	return open_located_file(c, f, &file);
}

int counts_locate(struct ptah_counts *c, struct counts_process *p, ptah_counts_finder *find,
		  void *context)
{
	struct files f = {0};
	size_t n = 0;
	struct located *addresses = list_addresses(p, &n);
	int status = addresses ? 0 : PTAH_E_NOMEM;

	for (size_t k = 0; k < n && status >= 0; k++)
		status = add_address(c, &f, p->space, &addresses[k], find, context);
	free(addresses);
	free(p->files);
	free(p->wholes);
	p->files = f.list;
	p->wholes = f.wholes;
	p->file_count = f.count;
	return status;
}

int ptah_counts_locate(struct ptah_counts *c, ptah_counts_finder *find, void *context)
{
	int status = 0;

	if (!c || !find)
		return PTAH_E_INVAL;
	for (size_t i = 0; i < c->count && status >= 0; i++)
		status = counts_locate(c, &c->processes[i], find, context);
	return status;
}

/* Two processes, and all addresses of the first one. */
struct sources {
	const struct counts_process *a, *b;
	struct located *addresses;
	size_t count;
};

/* The mapping of the process that the session reported for one of its addresses. */
static bool find_located_whole(const struct counts_process *p, const struct located *at,
			       struct ptah_counts_file *file)
{
	const struct ptah_counts_file *found = counts_find_file(p, at->address, at->version);

	if (!found)
		return false;
	*file = p->wholes[found - p->files];
	return true;
}

/* A ptah_counts_finder. */
static bool find_in_sources(void *context, int32_t space, uint64_t address, uint64_t tsc,
			    struct ptah_counts_file *file)
{
	const struct sources *s = context;
	const struct located at = {counts_version_at(tsc), address};
	const bool is_a =
	    s->count && bsearch(&at, s->addresses, s->count, sizeof(*s->addresses), by_version);

	(void)space;
	return find_located_whole(is_a ? s->a : s->b, &at, file);
}

int counts_locate_in(struct ptah_counts *c, struct counts_process *p,
		     const struct counts_process *a, const struct counts_process *b)
{
	struct sources s = {.a = a, .b = b};
	int status;

	s.addresses = list_addresses(a, &s.count);
	status = s.addresses ? counts_locate(c, p, find_in_sources, &s) : PTAH_E_NOMEM;
	free(s.addresses);
	return status;
}
