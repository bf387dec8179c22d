/* SPDX-License-Identifier: MIT */
/* Finds the files that the addresses of counts lie in. */
#include "calls/tree_internal.h"
#include "counts/counts_internal.h"

#include <stdlib.h>
#include <string.h>

static int by_address(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All addresses in the counts, ascending. The caller frees them. NULL when out of memory. */
static uint64_t *list_addresses(const struct counts_process *p, size_t *count)
{
	const size_t functions = p->calls ? p->calls->function_count : 0;
	uint64_t *list =
	    malloc((3 * p->block_count + 2 * p->edge_count + functions + 1) * sizeof(*list));
	size_t n = 0, unique = 0;

	if (!list)
		return NULL;
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];

		list[n++] = b->ip;
		list[n++] = b->end - b->last_size;
		if (b->target)
			list[n++] = b->target;
	}
	for (size_t i = 0; i < p->edge_count; i++) {
		list[n++] = p->edges[i].from;
		list[n++] = p->edges[i].to;
	}
	/* Functions in other address spaces are not in this process's files. */
	for (size_t i = 1; i < functions; i++)
		if (!p->calls->functions[i].space)
			list[n++] = p->calls->functions[i].address;
	qsort(list, n, sizeof(*list), by_address);
	for (size_t i = 0; i < n; i++)
		if (!i || list[i] != list[unique - 1])
			list[unique++] = list[i];
	*count = unique;
	return list;
}

struct files {
	struct ptah_counts_file *list, *wholes; /* see struct counts_process */
	size_t count, capacity;
	bool open;	/* the last one may still grow */
	uint64_t floor; /* the lowest address at which the next one may begin */
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
	const size_t capacity = f->capacity ? 2 * f->capacity : 16;
	struct ptah_counts_file *more;

	if (f->count < f->capacity)
		return 0;
	more = realloc(f->list, capacity * sizeof(*more));
	if (!more)
		return PTAH_E_NOMEM;
	f->list = more;
	more = realloc(f->wholes, capacity * sizeof(*more));
	if (!more)
		return PTAH_E_NOMEM;
	f->wholes = more;
	f->capacity = capacity;
	return 0;
}

static int open_file(struct ptah_counts *c, struct files *f, const struct ptah_counts_file *file)
{
	struct ptah_counts_file *last;
	uint64_t cut;

	if (grow(f) < 0)
		return PTAH_E_NOMEM;
	last = &f->list[f->count];
	*last = *file;
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

/* Is the answer plausible? It must contain the address and not wrap. */
static bool holds(const struct ptah_counts_file *file, uint64_t address)
{
	return file->path && file->build_id_size <= PTAH_BUILD_ID_MAX &&
	       address - file->address < file->size && counts_last(file) >= file->address;
}

static int add_address(struct ptah_counts *c, struct files *f, int32_t space, uint64_t address,
		       ptah_counts_finder *find, void *context)
{
	struct ptah_counts_file file;

	memset(&file, 0, sizeof(file));
	if (!find(context, space, address, &file) || !holds(&file, address)) {
		close_file(f, address);
		f->floor = address + 1;
		return 0;
	}
	if (f->open && is_whole(f, &file))
		return 0;
	close_file(f, address);
	return open_file(c, f, &file);
}

int counts_locate(struct ptah_counts *c, struct counts_process *p, ptah_counts_finder *find,
		  void *context)
{
	struct files f = {0};
	size_t n = 0;
	uint64_t *addresses = list_addresses(p, &n);
	int status = addresses ? 0 : PTAH_E_NOMEM;

	for (size_t k = 0; k < n && status >= 0; k++)
		status = add_address(c, &f, p->space, addresses[k], find, context);
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
	uint64_t *addresses;
	size_t count;
};

/* The mapping of the process that the session reported for one of its addresses. */
static bool find_whole(const struct counts_process *p, uint64_t address,
		       struct ptah_counts_file *file)
{
	size_t low = 0, high = p->file_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (counts_last(&p->files[middle]) < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == p->file_count || p->files[low].address > address)
		return false;
	*file = p->wholes[low];
	return true;
}

/* A ptah_counts_finder. */
static bool find_in_sources(void *context, int32_t space, uint64_t address,
			    struct ptah_counts_file *file)
{
	const struct sources *s = context;
	const bool is_a = s->count && bsearch(&address, s->addresses, s->count,
					      sizeof(*s->addresses), by_address);

	(void)space;
	return find_whole(is_a ? s->a : s->b, address, file);
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
