/* SPDX-License-Identifier: MIT */
/*
 * pt_iscache_*: the section cache. isids are numbers in the order of creation; a table leads from
 * them to the pieces of a ptah_cache, which does the work.
 */
#include "iscache.h"

#include "pt_error.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

struct pt_image_section_cache {
	char *name;
	struct store *store;
	pthread_mutex_t lock; /* of the members below */
	struct piece *pieces; /* isid - 1 is the index */
	size_t count, capacity;
};

/* Stores and pieces */

struct store *store_new(void)
{
	struct store *store = malloc(sizeof(*store));

	if (!store)
		return NULL;
	store->references = 1;
	if (ptah_cache_new(0, &store->cache) < 0) {
		free(store);
		return NULL;
	}
	return store;
}

struct store *store_get(struct store *store)
{
	store->references++;
	return store;
}

void store_put(struct store *store)
{
	if (!store || --store->references)
		return;
	ptah_cache_free(store->cache);
	free(store);
}

/* Limits the size to what the file has. */
static int piece_measure(struct piece *piece)
{
	struct stat st;
	uint64_t rest;

	if (stat(piece->filename, &st) < 0 || st.st_size < 0 ||
	    piece->offset >= (uint64_t)st.st_size)
		return -pte_invalid;
	rest = (uint64_t)st.st_size - piece->offset;
	if (piece->size > rest)
		piece->size = rest;
	return 0;
}

int piece_add(struct piece *piece, struct store *store)
{
	uint64_t size;
	int status = piece_measure(piece);

	piece->id = 0;
	if (status < 0 || !piece->size)
		return status;
	/* Bytes after the end of the address space are never visible. */
	size = piece->size;
	if (size - 1 > UINT64_MAX - piece->vaddr)
		size = UINT64_MAX - piece->vaddr + 1;
	status = ptah_cache_add_file(store->cache, piece->filename, piece->offset, size,
				     piece->vaddr, &piece->id);
	if (status == PTAH_E_NOMEM || status == PTAH_E_LIMIT)
		return -pte_nomem;
	return status < 0 ? -pte_invalid : 0;
}

/* The cache */

static void free_cache(struct pt_image_section_cache *iscache)
{
	store_put(iscache->store);
	free(iscache->name);
	free(iscache);
}

struct pt_image_section_cache *pt_iscache_alloc(const char *name)
{
	struct pt_image_section_cache *iscache = calloc(1, sizeof(*iscache));

	if (!iscache)
		return NULL;
	iscache->store = store_new();
	iscache->name = name ? strdup(name) : NULL;
	if (!iscache->store || (name && !iscache->name) ||
	    pthread_mutex_init(&iscache->lock, NULL)) {
		free_cache(iscache);
		return NULL;
	}
	return iscache;
}

void pt_iscache_free(struct pt_image_section_cache *iscache)
{
	if (!iscache)
		return;
	for (size_t i = 0; i < iscache->count; i++)
		free(iscache->pieces[i].filename);
	free(iscache->pieces);
	pthread_mutex_destroy(&iscache->lock);
	free_cache(iscache);
}

const char *pt_iscache_name(const struct pt_image_section_cache *iscache)
{
	return iscache ? iscache->name : NULL;
}

int pt_iscache_set_limit(struct pt_image_section_cache *iscache, uint64_t limit)
{
	if (!iscache)
		return -pte_invalid;
	/* In Ptah, 0 means no limit; in libipt, that nothing stays mapped. */
	ptah_cache_set_limit(iscache->store->cache, limit ? limit : 1);
	return 0;
}

/* The isid of an equal piece, 0 if there is none. */
static int find_piece(const struct pt_image_section_cache *iscache, const struct piece *piece)
{
	for (size_t i = 0; i < iscache->count; i++) {
		const struct piece *p = &iscache->pieces[i];

		if (p->vaddr == piece->vaddr && p->offset == piece->offset &&
		    p->size == piece->size && !strcmp(p->filename, piece->filename))
			return (int)i + 1;
	}
	return 0;
}

/* Takes ownership of the name. */
static int insert_piece(struct pt_image_section_cache *iscache, const struct piece *piece)
{
	if (iscache->count == INT32_MAX)
		return -pte_nomem;
	if (iscache->count == iscache->capacity) {
		size_t capacity = iscache->capacity ? 2 * iscache->capacity : 16;
		struct piece *pieces = realloc(iscache->pieces, capacity * sizeof(*pieces));

		if (!pieces)
			return -pte_nomem;
		iscache->pieces = pieces;
		iscache->capacity = capacity;
	}
	iscache->pieces[iscache->count] = *piece;
	return (int)++iscache->count;
}

/* Adds the piece and returns its isid. The caller holds the lock. */
static int add_piece(struct pt_image_section_cache *iscache, struct piece *piece)
{
	int isid = find_piece(iscache, piece), status;

	/* A known piece is not measured again, though its file may have changed. */
	if (isid)
		return isid;
	status = piece_measure(piece);
	if (status < 0)
		return status;
	isid = find_piece(iscache, piece);
	if (isid)
		return isid;
	status = piece_add(piece, iscache->store);
	if (status < 0)
		return status;
	piece->filename = strdup(piece->filename);
	if (!piece->filename)
		return -pte_nomem;
	isid = insert_piece(iscache, piece);
	if (isid < 0)
		free(piece->filename);
	return isid;
}

int pt_iscache_add_file(struct pt_image_section_cache *iscache, const char *filename,
			uint64_t offset, uint64_t size, uint64_t vaddr)
{
	struct piece piece = {(char *)(uintptr_t)filename, offset, size, vaddr, 0};
	int isid;

	if (!iscache || !filename)
		return -pte_invalid;
	pthread_mutex_lock(&iscache->lock);
	isid = add_piece(iscache, &piece);
	pthread_mutex_unlock(&iscache->lock);
	return isid;
}

int iscache_lookup(struct pt_image_section_cache *iscache, int isid, struct piece *piece,
		   struct store **store)
{
	int status = -pte_bad_image;

	pthread_mutex_lock(&iscache->lock);
	if (isid > 0 && (size_t)isid <= iscache->count) {
		*piece = iscache->pieces[isid - 1];
		piece->filename = strdup(piece->filename);
		status = piece->filename ? 0 : -pte_nomem;
	}
	pthread_mutex_unlock(&iscache->lock);
	if (!status)
		*store = store_get(iscache->store);
	return status;
}

/* The most that one call reads; for more the client calls again. */
#define MAX_READ UINT16_MAX

int pt_iscache_read(struct pt_image_section_cache *iscache, uint8_t *buffer, uint64_t size,
		    int isid, uint64_t vaddr)
{
	uint32_t id = 0;
	int status;

	if (!iscache || !buffer || !size)
		return -pte_invalid;
	pthread_mutex_lock(&iscache->lock);
	status = isid > 0 && (size_t)isid <= iscache->count ? 0 : -pte_bad_image;
	if (!status)
		id = iscache->pieces[isid - 1].id;
	pthread_mutex_unlock(&iscache->lock);
	if (status < 0)
		return status;
	if (!id)
		return -pte_nomap;
	status = ptah_cache_read(iscache->store->cache, id, vaddr, buffer,
				 size < MAX_READ ? (size_t)size : MAX_READ);
	if (status >= 0)
		return status;
	return status == PTAH_E_NO_CODE ? -pte_nomap : -pte_bad_image;
}
