/* SPDX-License-Identifier: MIT */
/*
 * Images: layers of sections, one for each address space, the reader callback, and the changes that
 * code caches follow.
 */
#include "image/image_access.h"

#include "image/section_map.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

struct layer {
	struct ptah_space space;
	struct map *map;
};

struct ptah_image {
	struct layer *layers;
	size_t count;
	uint64_t order; /* of the last section added */
	uint64_t time;	/* see image_set_time() */
	bool has_times; /* of some section it is not 0 */
	uint64_t generation;
	struct image_change changes[IMAGE_CHANGES]; /* generation g is in [g % IMAGE_CHANGES] */
	ptah_image_reader *read;
	void *read_context;
	struct file_table *files; /* NULL: no file is shared with other images */
};

static const struct ptah_space any_space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};

static const struct ptah_space *or_any(const struct ptah_space *space)
{
	return space ? space : &any_space;
}

/* Whether the two spaces agree in all that both specify. */
static bool matches(const struct ptah_space *a, const struct ptah_space *b)
{
	return (a->cr3 == b->cr3 || a->cr3 == PTAH_SPACE_ANY || b->cr3 == PTAH_SPACE_ANY) &&
	       (a->vmcs == b->vmcs || a->vmcs == PTAH_SPACE_ANY || b->vmcs == PTAH_SPACE_ANY);
}

/* Whether `outer` contains every space that `inner` contains. */
static bool covers(const struct ptah_space *outer, const struct ptah_space *inner)
{
	return (outer->cr3 == PTAH_SPACE_ANY || outer->cr3 == inner->cr3) &&
	       (outer->vmcs == PTAH_SPACE_ANY || outer->vmcs == inner->vmcs);
}

int ptah_image_new(struct ptah_image **image)
{
	if (!image)
		return PTAH_E_INVAL;
	*image = calloc(1, sizeof(**image));
	return *image ? 0 : PTAH_E_NOMEM;
}

void ptah_image_free(struct ptah_image *image)
{
	if (!image)
		return;
	for (size_t i = 0; i < image->count; i++)
		map_put(image->layers[i].map);
	file_table_put(image->files);
	free(image->layers);
	free(image);
}

int ptah_image_clone(const struct ptah_image *image, struct ptah_image **copy)
{
	struct ptah_image *c;

	if (!image || !copy)
		return PTAH_E_INVAL;
	c = malloc(sizeof(*c));
	if (!c)
		return PTAH_E_NOMEM;
	*c = *image;
	c->layers = NULL;
	c->count = 0;
	if (image->count && !LIST_REACH(c->layers, c->count, image->count - 1)) {
		free(c);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < image->count; i++) {
		c->layers[i] = image->layers[i];
		c->layers[i].map->references++;
	}
	file_table_get(c->files);
	*copy = c;
	return 0;
}

static void log_change(struct ptah_image *image, uint64_t first, uint64_t last)
{
	image->changes[++image->generation % IMAGE_CHANGES] =
	    (struct image_change){first, last, false};
}

int image_changes(const struct ptah_image *image, uint64_t since, struct image_change *changes)
{
	uint64_t n = image->generation - since;

	if (n > IMAGE_CHANGES)
		return -1;
	for (uint64_t i = 0; i < n; i++)
		changes[i] = image->changes[(since + 1 + i) % IMAGE_CHANGES];
	return (int)n;
}

void image_reader_changed(struct ptah_image *image, uint64_t first, uint64_t last)
{
	log_change(image, first, last);
	image->changes[image->generation % IMAGE_CHANGES].reader = true;
}

static struct layer *find_layer(struct ptah_image *image, const struct ptah_space *space)
{
	for (size_t i = 0; i < image->count; i++)
		if (image->layers[i].space.cr3 == space->cr3 &&
		    image->layers[i].space.vmcs == space->vmcs)
			return &image->layers[i];
	return NULL;
}

static struct layer *make_layer(struct ptah_image *image, const struct ptah_space *space)
{
	struct layer *layer = find_layer(image, space);
	struct map *map;

	if (layer)
		return layer;
	map = map_new();
	if (!map || !LIST_ADD(image->layers, image->count)) {
		map_put(map);
		return NULL;
	}
	layer = &image->layers[image->count - 1];
	*layer = (struct layer){*space, map};
	return layer;
}

bool image_overlaps(const struct ptah_image *image, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < image->count; i++)
		if (map_overlaps(image->layers[i].map, address, address + (size - 1)))
			return true;
	return false;
}

bool image_overlaps_in(const struct ptah_image *image, uint64_t address, uint64_t size,
		       const struct ptah_space *space)
{
	for (size_t i = 0; i < image->count; i++)
		if (image->layers[i].space.cr3 == space->cr3 &&
		    image->layers[i].space.vmcs == space->vmcs)
			return map_overlaps(image->layers[i].map, address, address + (size - 1));
	return false;
}

/* Whether the sections are of two files, or of different places of one. */
static bool are_other_files(const struct section *s, const struct backing *backing, uint64_t at)
{
	return s->backing->path && backing->path &&
	       (s->at != at || strcmp(s->backing->path, backing->path) != 0);
}

/*
 * Whether the address has exactly these bytes already. Adding them, as when a program maps a file
 * again, is no change; but another file with the same bytes is.
 */
static bool already_there(const struct ptah_image *image, const struct layer *layer,
			  uint64_t address, const struct backing *backing, uint64_t at,
			  uint64_t size)
{
	size_t i = map_first_from(layer->map, address);
	const struct section *s;

	if (image->count != 1 || i == layer->map->count || !backing->bytes)
		return false;
	s = &layer->map->sections[i];
	return s->address <= address && s->size - (address - s->address) >= size &&
	       s->backing->bytes && !are_other_files(s, backing, at - (address - s->address)) &&
	       !memcmp(s->backing->bytes + s->at + (address - s->address), backing->bytes + at,
		       size);
}

int image_add(struct ptah_image *image, uint64_t address, uint64_t size, uint64_t at,
	      struct backing *backing, const struct ptah_space *space)
{
	struct section section = {.address = address, .size = size, .at = at, .backing = backing};
	struct layer *layer;
	int status = PTAH_E_INVAL;

	if (!size || size - 1 > UINT64_MAX - address)
		goto out;
	layer = make_layer(image, or_any(space));
	status = layer ? 0 : PTAH_E_NOMEM;
	if (status < 0 || already_there(image, layer, address, backing, at, size))
		goto out;
	status = map_own(&layer->map, 2);
	if (status < 0)
		goto out;
	if (image_overlaps(image, address, size))
		log_change(image, address, section_last(&section));
	section.order = ++image->order;
	section.since = image->time;
	image->has_times |= image->time != 0;
	section.id = (uint32_t)section.order;
	map_cut(layer->map, address, section_last(&section));
	map_insert(layer->map, &section);
	return 0;
out:
	backing_put(backing);
	return status;
}

void image_use_files(struct ptah_image *image, struct file_table *files)
{
	file_table_put(image->files);
	image->files = file_table_get(files);
}

int ptah_image_add_file(struct ptah_image *image, const char *path, uint64_t offset, uint64_t size,
			uint64_t address, const struct ptah_space *space)
{
	struct backing *backing;
	int status;

	if (!image || !path || !size)
		return PTAH_E_INVAL;
	status = file_table_map(image->files, path, &backing);
	if (status < 0)
		return status;
	if (offset >= backing->size) {
		backing_put(backing);
		return PTAH_E_BAD_FILE;
	}
	if (size > backing->size - offset)
		size = backing->size - offset;
	return image_add(image, address, size, offset, backing, space);
}

int ptah_image_add_bytes(struct ptah_image *image, const void *bytes, size_t size, uint64_t address,
			 const struct ptah_space *space)
{
	struct backing *backing;
	uint8_t *copy;

	if (!image || !bytes || !size)
		return PTAH_E_INVAL;
	copy = malloc(size);
	if (!copy)
		return PTAH_E_NOMEM;
	memcpy(copy, bytes, size);
	backing = backing_new(copy, size, false);
	return backing ? image_add(image, address, size, 0, backing, space) : PTAH_E_NOMEM;
}

int ptah_image_add_cached(struct ptah_image *image, struct ptah_cache *cache, uint32_t id,
			  const struct ptah_space *space)
{
	uint64_t address, size, offset;
	struct backing *backing;
	char *path;
	int status;

	if (!image || !cache)
		return PTAH_E_INVAL;
	status = cache_describe(cache, id, &address, &size, &offset, &path);
	if (status < 0)
		return status;
	backing = backing_new(NULL, 0, false);
	if (!backing) {
		free(path);
		return PTAH_E_NOMEM;
	}
	backing->path = path;
	backing->cache = cache_get(cache);
	backing->cache_id = id;
	backing->address = address - offset; /* so that `at` counts as in a file */
	return image_add(image, address, size, offset, backing, space);
}

/* Removal */

int ptah_image_remove(struct ptah_image *image, uint64_t address, uint64_t size,
		      const struct ptah_space *space)
{
	uint64_t last = address + (size - 1);
	bool changed = false;

	if (!image || !size || size - 1 > UINT64_MAX - address)
		return PTAH_E_INVAL;
	for (size_t i = 0; i < image->count; i++) {
		struct layer *layer = &image->layers[i];

		if (!covers(or_any(space), &layer->space) ||
		    !map_overlaps(layer->map, address, last))
			continue;
		if (map_own(&layer->map, 1) < 0)
			return PTAH_E_NOMEM;
		if (!changed)
			log_change(image, address, last);
		changed = true;
		map_cut(layer->map, address, last);
	}
	return 0;
}

/* Reading */

void ptah_image_set_reader(struct ptah_image *image, ptah_image_reader *read, void *context)
{
	if (!image)
		return;
	if (image->read) /* bytes that it gave are forgotten */
		image_reader_changed(image, 0, UINT64_MAX);
	image->read = read;
	image->read_context = context;
}

/*
 * The section visible at `address`; up to *last it is the visible one. NULL when there is none;
 * that, too, holds up to *last.
 */
static const struct section *look(const struct ptah_image *image, const struct ptah_space *space,
				  uint64_t address, uint64_t *last)
{
	const struct section *best = NULL;

	*last = UINT64_MAX;
	for (size_t i = 0; i < image->count; i++) {
		const struct map *map = image->layers[i].map;
		const struct section *s;
		size_t at;
		uint64_t end;

		if (!matches(space, &image->layers[i].space))
			continue;
		at = map_first_from(map, address);
		if (at == map->count)
			continue;
		s = &map->sections[at];
		end = s->address > address ? s->address - 1 : section_last(s);
		*last = end < *last ? end : *last;
		if (s->address <= address && (!best || s->order > best->order))
			best = s;
	}
	return best;
}

size_t ptah_image_read(const struct ptah_image *image, uint64_t address, void *bytes, size_t n,
		       const struct ptah_space *space)
{
	const struct ptah_space *in = or_any(space);
	uint8_t *out = bytes;
	size_t done = 0;

	while (done < n) {
		uint64_t at = address + done, last;
		const struct section *s;
		size_t want = n - done, k;

		if (at < address)
			break; /* the end of the address space */
		s = look(image, in, at, &last);
		if (last - at < want - 1)
			want = (size_t)(last - at) + 1;
		if (s)
			k = backing_read(s->backing, s->at + (at - s->address), out + done, want);
		else
			k = image->read ? image->read(image->read_context, in, at, out + done, want)
					: 0;
		if (!k || k > want)
			break;
		done += k;
	}
	return done;
}

bool image_is_read(const struct ptah_image *image, uint64_t first, uint64_t last,
		   const struct ptah_space *space)
{
	uint64_t at = first, end;

	if (!image->read)
		return false;
	while (look(image, or_any(space), at, &end)) {
		if (end >= last)
			return false;
		at = end + 1;
	}
	return true;
}

void image_set_time(struct ptah_image *image, uint64_t tsc)
{
	image->time = tsc;
}

bool image_has_times(const struct ptah_image *image)
{
	return image->has_times;
}

uint64_t image_since(const struct ptah_image *image, uint64_t first, uint64_t last,
		     const struct ptah_space *space)
{
	uint64_t since = 0, at = first, end;

	for (;; at = end + 1) {
		const struct section *s = look(image, or_any(space), at, &end);

		if (s && s->since > since)
			since = s->since;
		if (end >= last)
			return since;
	}
}

int ptah_image_find(const struct ptah_image *image, uint64_t address,
		    const struct ptah_space *space, struct ptah_section *section)
{
	const struct section *s;
	uint64_t last;

	if (!image || !section)
		return PTAH_E_INVAL;
	s = look(image, or_any(space), address, &last);
	if (!s)
		return PTAH_E_NO_CODE;
	*section = (struct ptah_section){.id = s->id,
					 .address = s->address,
					 .size = s->size,
					 .path = s->backing->path,
					 .file_offset = s->backing->path ? s->at : 0};
	for (size_t i = 0; i < image->count; i++) {
		const struct map *map = image->layers[i].map;

		if (s >= map->sections && s < map->sections + map->count)
			section->space = image->layers[i].space;
	}
	return 0;
}

uint64_t image_generation(const struct ptah_image *image)
{
	return image->generation;
}
