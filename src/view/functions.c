/* SPDX-License-Identifier: MIT */
/*
 * Keeps functions and entries in pieces that never move, so that other threads read them while more
 * are added. The tables that find them belong to the thread that adds.
 */
#include "view/functions.h"

#include "base/compiler.h"
#include "support/index.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE	    4096
#define MOST_PIECES 16384 /* 67 million */

/* An array whose elements stay where they are. */
struct pieces {
	void *piece[MOST_PIECES];
	atomic_uint count;
};

/* Which function an address is. */
struct address {
	uint64_t address;
	int32_t space;
	uint32_t id;
};

struct view_functions {
	struct pieces functions, entries, addresses;
	struct index by_name, by_entry, by_address;
	atomic_bool has_lines;
};

int view_functions_new(struct view_functions **functions)
{
	*functions = calloc(1, sizeof(**functions));
	return *functions ? 0 : PTAH_E_NOMEM;
}

static void free_pieces(struct pieces *p)
{
	for (size_t i = 0; i < MOST_PIECES && p->piece[i]; i++)
		free(p->piece[i]);
}

void view_functions_free(struct view_functions *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->functions.count; i++) {
		const struct view_function *v = view_functions_get(f, i);

		free((char *)v->name);
		free((char *)v->mangled);
		free((char *)v->path);
		free((char *)v->object);
		free((char *)v->file);
	}
	free_pieces(&f->functions);
	free_pieces(&f->entries);
	free_pieces(&f->addresses);
	index_free(&f->by_name);
	index_free(&f->by_entry);
	index_free(&f->by_address);
	free(f);
}

/* An element, which must be one of those that were added. */
static void *at(const struct pieces *p, uint32_t i, size_t size)
{
	return (char *)p->piece[i / PIECE] + i % PIECE * size;
}

/* Appends a copy. False: out of memory, or too many. */
static bool append_piece(struct pieces *p, const void *element, size_t size)
{
	const uint32_t i = atomic_load_explicit(&p->count, memory_order_relaxed);

	if (i / PIECE >= MOST_PIECES)
		return false;
	if (!p->piece[i / PIECE] && !(p->piece[i / PIECE] = malloc(PIECE * size)))
		return false;
	memcpy(at(p, i, size), element, size);
	atomic_store_explicit(&p->count, i + 1, memory_order_release);
	return true;
}

static uint32_t hash_function(const struct index *x, const struct view_function *f)
{
	const uint64_t words[] = {f->place, index_hash_bytes(x, f->mangled, strlen(f->mangled)),
				  index_hash_bytes(x, f->path, strlen(f->path))};

	return index_hash_bytes(x, words, sizeof(words));
}

static ALWAYS_INLINE uint32_t hash_entry(const struct index *x, const struct view_entry *e)
{
	return index_hash(x, e->site,
			  e->function ^ (uint64_t)(uint32_t)e->space << 32 ^
			      (uint64_t)e->how << 56 ^ (uint64_t)e->flags << 24);
}

/* Functions */

static bool is_same(const struct view_function *a, const struct view_function *b)
{
	return a->place == b->place && !strcmp(a->mangled, b->mangled) && !strcmp(a->path, b->path);
}

static uint32_t add_function(struct view_functions *f, const struct view_function *like)
{
	struct view_function copy = *like;

	copy.name = strdup(like->name);
	copy.mangled = strdup(like->mangled);
	copy.path = strdup(like->path);
	copy.object = strdup(like->object);
	if (!copy.name || !copy.mangled || !copy.path || !copy.object ||
	    !append_piece(&f->functions, &copy, sizeof(copy))) {
		free((char *)copy.name);
		free((char *)copy.mangled);
		free((char *)copy.path);
		free((char *)copy.object);
		return UINT32_MAX;
	}
	return f->functions.count - 1;
}

static uint32_t find_function(struct view_functions *f, const struct view_function *like)
{
	uint32_t hash, number, id;

	if (!index_reserve(&f->by_name))
		return UINT32_MAX;
	hash = hash_function(&f->by_name, like);
	INDEX_FIND(number, &f->by_name, hash, is_same(view_functions_get(f, number - 1), like));
	if (number)
		return number - 1;
	id = add_function(f, like);
	if (id != UINT32_MAX)
		index_add(&f->by_name, hash, id + 1);
	return id;
}

/* What makes functions the same is as in `ptah calls`. */
static uint32_t name_function(struct view_functions *f, struct names *names, int32_t space,
			      uint64_t address)
{
	const struct name *n = names_find(names, space, address);
	char text[32];
	const char *mangled = n->mangled ? n->mangled : n->symbol;

	if (!mangled) {
		snprintf(text, sizeof(text), "0x%" PRIx64, address);
		mangled = text;
	}
	return find_function(
	    f, &(struct view_function){.name = n->symbol ? n->symbol : mangled,
				       .mangled = mangled,
				       .path = n->path ? n->path : "",
				       .object = n->dso ? n->dso : "[unknown]",
				       .place = n->path && !n->generated ? n->place - n->offset : 0,
				       .ip = address,
				       .space = space,
				       .generated = n->generated});
}

static const struct address *address_at(const struct view_functions *f, uint32_t number)
{
	return at(&f->addresses, number - 1, sizeof(struct address));
}

static bool is_at(const struct address *a, int32_t space, uint64_t address)
{
	return a->address == address && a->space == space;
}

uint32_t view_functions_id(struct view_functions *f, const struct view_naming *naming,
			   int32_t space, uint64_t address)
{
	struct address a = {.address = address, .space = space};
	uint32_t hash, number;

	if (!index_reserve(&f->by_address))
		return UINT32_MAX;
	hash = index_hash(&f->by_address, (uint32_t)space, address);
	INDEX_FIND(number, &f->by_address, hash, is_at(address_at(f, number), space, address));
	if (number)
		return address_at(f, number)->id;
	naming->lock(naming->context);
	a.id = name_function(f, naming->names, space, address);
	naming->unlock(naming->context);
	if (a.id == UINT32_MAX || !append_piece(&f->addresses, &a, sizeof(a)))
		return UINT32_MAX;
	index_add(&f->by_address, hash, f->addresses.count);
	return a.id;
}

static ALWAYS_INLINE bool is_entry(const struct view_entry *a, const struct view_entry *b)
{
	return a->function == b->function && a->site == b->site && a->space == b->space &&
	       a->flags == b->flags && a->how == b->how;
}

static NOINLINE uint32_t add_function_entry(struct view_functions *f,
					    const struct view_naming *naming,
					    const struct view_entry *entry)
{
	struct view_entry e = *entry;

	e.id = view_functions_id(f, naming, e.space, e.function);
	if (e.id == UINT32_MAX || !index_reserve(&f->by_entry) ||
	    !append_piece(&f->entries, &e, sizeof(e)))
		return UINT32_MAX;
	index_add(&f->by_entry, hash_entry(&f->by_entry, &e), f->entries.count);
	return f->entries.count - 1;
}

uint32_t view_functions_entry(struct view_functions *f, const struct view_naming *naming,
			      const struct view_entry *entry)
{
	const uint32_t hash = hash_entry(&f->by_entry, entry);
	uint32_t number;

	INDEX_FIND(number, &f->by_entry, hash,
		   is_entry(at(&f->entries, number - 1, sizeof(*entry)), entry));
	return LIKELY(number) ? number - 1 : add_function_entry(f, naming, entry);
}

uint32_t view_functions_count(const struct view_functions *f)
{
	return atomic_load_explicit(&f->functions.count, memory_order_acquire);
}

const struct view_function *view_functions_get(const struct view_functions *f, uint64_t id)
{
	return id < view_functions_count(f)
		   ? at(&f->functions, (uint32_t)id, sizeof(struct view_function))
		   : NULL;
}

const struct view_entry *view_functions_get_entry(const struct view_functions *f, uint64_t number)
{
	return number < atomic_load_explicit(&f->entries.count, memory_order_acquire)
		   ? at(&f->entries, (uint32_t)number, sizeof(struct view_entry))
		   : NULL;
}

/* Lines */

void view_functions_find_lines(struct view_functions *f, const struct view_naming *naming,
			       bool (*stopped)(void *context))
{
	const uint32_t count = view_functions_count(f);

	for (uint32_t i = 0; i < count && !stopped(naming->context); i++) {
		struct view_function *v = at(&f->functions, i, sizeof(*v));
		struct ptah_line line;
		const struct name *n;

		naming->lock(naming->context);
		n = names_find(naming->names, v->space, v->ip);
		if (names_line(naming->names, n, &line) && line.file) {
			v->file = strdup(line.file);
			v->line = v->file ? line.line : 0;
		}
		naming->unlock(naming->context);
	}
	atomic_store_explicit(&f->has_lines, true, memory_order_release);
}

bool view_functions_have_lines(const struct view_functions *f)
{
	return atomic_load_explicit(&f->has_lines, memory_order_acquire);
}
