/* SPDX-License-Identifier: MIT */
/*
 * The section cache: pieces of files, mapped while they are used, shared by many images and
 * threads.
 */
#include "image/backing.h"
#include "image/section_map.h"
#include "support/list.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct piece {
	char *path;
	uint64_t offset, size, address;
	struct stat was;  /* of the file when the piece was added */
	uint8_t *mapping; /* from the start of the page with `offset`; NULL: not mapped */
	uint64_t used;	  /* when it was last used, to find the least recently used one */
};

struct ptah_cache {
	_Atomic unsigned references;
	pthread_mutex_t lock;
	uint64_t limit, mapped, clock;
	struct piece *pieces;
	size_t count, capacity;
};

int ptah_cache_new(uint64_t limit, struct ptah_cache **cache)
{
	struct ptah_cache *c;

	if (!cache)
		return PTAH_E_INVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	if (pthread_mutex_init(&c->lock, NULL)) {
		free(c);
		return PTAH_E_NOMEM;
	}
	c->references = 1;
	c->limit = limit;
	*cache = c;
	return 0;
}

static uint64_t page_mask(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE) - 1;
}

/* The size of a piece's mapping, from the start of its first page. */
static uint64_t mapping_size(const struct piece *p)
{
	return (p->offset & page_mask()) + p->size;
}

static void unmap(struct ptah_cache *c, struct piece *p)
{
	munmap(p->mapping, (size_t)mapping_size(p));
	p->mapping = NULL;
	c->mapped -= mapping_size(p);
}

void ptah_cache_free(struct ptah_cache *c)
{
	if (!c || --c->references)
		return;
	for (size_t i = 0; i < c->count; i++) {
		if (c->pieces[i].mapping)
			unmap(c, &c->pieces[i]);
		free(c->pieces[i].path);
	}
	pthread_mutex_destroy(&c->lock);
	free(c->pieces);
	free(c);
}

struct ptah_cache *cache_get(struct ptah_cache *c)
{
	c->references++;
	return c;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The id of an equal piece, 0 if there is none. */
static uint32_t find_section_piece(const struct ptah_cache *c, const struct piece *piece)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct piece *p = &c->pieces[i];

		if (p->offset == piece->offset && p->size == piece->size &&
		    p->address == piece->address && same_file(&p->was, &piece->was) &&
		    !strcmp(p->path, piece->path))
			return (uint32_t)i + 1;
	}
	return 0;
}

/* Takes ownership of piece->path when the piece is new. */
static int add_section_piece(struct ptah_cache *c, struct piece *piece, uint32_t *id)
{
	*id = find_section_piece(c, piece);
	if (*id)
		return 0;
	if (c->count == UINT32_MAX - 1)
		return PTAH_E_LIMIT;
	if (!LIST_ROOM(c->pieces, c->count, c->capacity))
		return PTAH_E_NOMEM;
	c->pieces[c->count] = *piece;
	piece->path = NULL;
	*id = (uint32_t)++c->count;
	return 0;
}

int ptah_cache_add_file(struct ptah_cache *c, const char *path, uint64_t offset, uint64_t size,
			uint64_t address, uint32_t *id)
{
	struct piece piece = {.offset = offset, .size = size, .address = address};
	int status;

	if (!c || !path || !size || !id)
		return PTAH_E_INVAL;
	if (stat(path, &piece.was) < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	if (!S_ISREG(piece.was.st_mode) || offset >= (uint64_t)piece.was.st_size)
		return PTAH_E_BAD_FILE;
	if (size > (uint64_t)piece.was.st_size - offset)
		piece.size = (uint64_t)piece.was.st_size - offset;
	if (piece.size - 1 > UINT64_MAX - address)
		return PTAH_E_INVAL;
	piece.path = strdup(path);
	if (!piece.path)
		return PTAH_E_NOMEM;
	pthread_mutex_lock(&c->lock);
	status = add_section_piece(c, &piece, id);
	pthread_mutex_unlock(&c->lock);
	free(piece.path);
	return status;
}

int cache_describe(struct ptah_cache *c, uint32_t id, uint64_t *address, uint64_t *size,
		   uint64_t *offset, char **path)
{
	int status = PTAH_E_INVAL;

	pthread_mutex_lock(&c->lock);
	if (id && id <= c->count) {
		const struct piece *p = &c->pieces[id - 1];

		*address = p->address;
		*size = p->size;
		*offset = p->offset;
		*path = strdup(p->path);
		status = *path ? 0 : PTAH_E_NOMEM;
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

static void evict_sections(struct ptah_cache *c, uint64_t size)
{
	while (c->limit && c->mapped + size > c->limit) {
		struct piece *oldest = NULL;

		for (size_t i = 0; i < c->count; i++)
			if (c->pieces[i].mapping && (!oldest || c->pieces[i].used < oldest->used))
				oldest = &c->pieces[i];
		if (!oldest)
			break;
		unmap(c, oldest);
	}
}

void ptah_cache_set_limit(struct ptah_cache *c, uint64_t limit)
{
	pthread_mutex_lock(&c->lock);
	c->limit = limit;
	evict_sections(c, 0);
	pthread_mutex_unlock(&c->lock);
}

/* Opens the file again, if it is still the one that was added. */
static int open_piece(const struct piece *p)
{
	struct stat st;
	int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	if (!fstat(fd, &st) && same_file(&st, &p->was))
		return fd;
	close(fd);
	return PTAH_E_CHANGED;
}

/*
 * Maps the piece, unless it alone exceeds the limit, or the system refuses: for a limit of its own
 * (RLIMIT_AS), or because the file system maps nothing.
 */
static void map_piece(struct ptah_cache *c, struct piece *p, int fd)
{
	uint64_t size = mapping_size(p);
	void *mapping;

	if (c->limit && size > c->limit)
		return;
	evict_sections(c, size);
	mapping =
	    mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, (off_t)(p->offset & ~page_mask()));
	if (mapping == MAP_FAILED)
		return;
	p->mapping = mapping;
	c->mapped += size;
}

static int read_section_piece(struct ptah_cache *c, struct piece *p, uint64_t at, void *bytes,
			      size_t n)
{
	ssize_t got;
	int fd;

	p->used = ++c->clock;
	if (!p->mapping) {
		fd = open_piece(p);
		if (fd < 0)
			return fd;
		map_piece(c, p, fd);
		/* What is not mapped is read. */
		got = p->mapping ? 0 : pread(fd, bytes, n, (off_t)(p->offset + at));
		close(fd);
		if (!p->mapping)
			return got > 0 ? (int)got : PTAH_E_SYSTEM;
	}
	memcpy(bytes, p->mapping + (p->offset & page_mask()) + at, n);
	return (int)n;
}

int ptah_cache_read(struct ptah_cache *c, uint32_t id, uint64_t address, void *bytes, size_t n)
{
	int status = PTAH_E_INVAL;

	if (!c || (!bytes && n))
		return PTAH_E_INVAL;
	pthread_mutex_lock(&c->lock);
	if (id && id <= c->count) {
		struct piece *p = &c->pieces[id - 1];
		uint64_t at = address - p->address;

		status = PTAH_E_NO_CODE;
		if (address >= p->address && at < p->size) {
			if (n > p->size - at)
				n = (size_t)(p->size - at);
			status = read_section_piece(c, p, at, bytes, n < INT32_MAX ? n : INT32_MAX);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

uint64_t cache_mapped(struct ptah_cache *c)
{
	uint64_t mapped;

	pthread_mutex_lock(&c->lock);
	mapped = c->mapped;
	pthread_mutex_unlock(&c->lock);
	return mapped;
}
