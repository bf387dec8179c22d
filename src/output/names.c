/* SPDX-License-Identifier: MIT */
#include "output/names.h"

#include "output/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
	const struct ptah_session *session;
	struct ptah_symbols *symbols;
	int32_t pid;
	struct name *table; /* by ip, open addressing; dso NULL: free */
	size_t capacity, count;
	struct name fallback;
	struct ptah_map *maps; /* added by hand; their paths are ours */
	size_t map_count;
	struct clean *cleaned;
	char *symfs;
	struct known_id *ids;
	const struct ptah_counts *counts;
	const struct ptah_counts_file **changed; /* files of the counts, by their place in memory */
	size_t changed_count;
	const char **changed_paths;
	size_t changed_path_count;
};

struct build_id {
	int size; /* 0: none */
	uint8_t bytes[PTAH_BUILD_ID_MAX];
};

/* The build id of a file as it is now. */
struct known_id {
	struct known_id *next;
	const char *path; /* the session's, or of a map */
	struct build_id id;
};

/* A path that cannot be shown as it is, and how it is shown. */
struct clean {
	struct clean *next;
	const char *path;
	char text[];
};

int names_new(const struct ptah_session *session, const char *symfs, struct names **names)
{
	struct names *n = calloc(1, sizeof(*n));
	int status;

	if (!n)
		return PTAH_E_NOMEM;
	n->session = session;
	n->capacity = 4096;
	n->table = calloc(n->capacity, sizeof(*n->table));
	n->symfs = strdup(symfs ? symfs : "");
	status = n->table && n->symfs ? ptah_symbols_new(symfs, &n->symbols) : PTAH_E_NOMEM;
	if (status < 0) {
		names_free(n);
		return status;
	}
	*names = n;
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->map_count; i++)
		free((char *)(uintptr_t)n->maps[i].path);
	free(n->maps);
	for (struct clean *c = n->cleaned, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	for (struct known_id *k = n->ids, *next; k; k = next) {
		next = k->next;
		free(k);
	}
	ptah_symbols_free(n->symbols);
	free(n->changed);
	free(n->changed_paths);
	free(n->symfs);
	free(n->table);
	free(n);
}

int names_add_map(struct names *n, uint64_t address, uint64_t size, uint64_t file_offset,
		  const char *path)
{
	struct ptah_map *maps = reallocarray(n->maps, n->map_count + 1, sizeof(*maps));
	/* Absolute, because that is what makes a path a file here. */
	char *copy = realpath(path, NULL);

	if (maps)
		n->maps = maps;
	if (!maps || !copy) {
		free(copy);
		return maps ? PTAH_E_MISSING : PTAH_E_NOMEM;
	}
	n->maps[n->map_count++] = (struct ptah_map){address, size, file_offset, copy};
	return 0;
}

int names_add_elf(struct names *n, const char *path, uint64_t base)
{
	struct ptah_elf_segment *segments;
	int count = ptah_elf_segments(path, base, &segments), status = 0;

	for (int i = 0; i < count && status >= 0; i++)
		status = names_add_map(n, segments[i].address, segments[i].size, segments[i].offset,
				       path);
	free(segments);
	return status;
}

/* The map added last wins, as in the image. */
static bool find_added_map(const struct names *n, uint64_t ip, struct ptah_map *map)
{
	for (size_t i = n->map_count; i-- > 0;) {
		if (ip - n->maps[i].address < n->maps[i].size) {
			*map = n->maps[i];
			return true;
		}
	}
	return false;
}

static struct name *slot(const struct names *n, uint64_t ip)
{
	size_t i = (size_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (n->capacity - 1);

	while (n->table[i].dso && n->table[i].ip != ip)
		i = (i + 1) & (n->capacity - 1);
	return &n->table[i];
}

static bool make_room(struct names *n)
{
	struct names bigger = *n;

	if (2 * n->count < n->capacity)
		return true;
	bigger.capacity *= 2;
	bigger.table = calloc(bigger.capacity, sizeof(*bigger.table));
	if (!bigger.table)
		return false;
	for (size_t i = 0; i < n->capacity; i++)
		if (n->table[i].dso)
			*slot(&bigger, n->table[i].ip) = n->table[i];
	free(n->table);
	*n = bigger;
	return true;
}

/* `path` without control characters; nearly always itself. */
static const char *shown(struct names *n, const char *path)
{
	struct clean *c;

	if (!path[strcspn(path,
			  "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
			  "\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f")])
		return path;
	for (c = n->cleaned; c; c = c->next)
		if (c->path == path)
			return c->text;
	c = malloc(sizeof(*c) + strlen(path) + 1);
	if (!c)
		return "?";
	*c = (struct clean){n->cleaned, path};
	strcpy(c->text, path);
	clean_text(c->text);
	n->cleaned = c;
	return c->text;
}

bool names_find_map(const struct names *n, int32_t pid, uint64_t ip, struct ptah_map *map)
{
	return ptah_session_find_map(n->session, pid, ip, 0, map) || find_added_map(n, ip, map);
}

/* The build id of what is at `path` now, below the root; none for what is no file. */
static void read_id(const struct names *n, const char *path, struct build_id *id)
{
	char *full;

	memset(id, 0, sizeof(*id));
	if (!ptah_path_is_file(path) || asprintf(&full, "%s%s", n->symfs, path) < 0)
		return;
	id->size = ptah_build_id_read(full, id->bytes);
	if (id->size < 0)
		id->size = 0;
	free(full);
}

static void find_id(struct names *n, const char *path, struct build_id *id)
{
	struct known_id *k;

	for (k = n->ids; k && k->path != path; k = k->next)
		;
	if (k) {
		*id = k->id;
		return;
	}
	read_id(n, path, id);
	k = malloc(sizeof(*k));
	if (!k)
		return;
	*k = (struct known_id){n->ids, path, *id};
	n->ids = k;
}

bool names_find_file(void *names, int32_t pid, uint64_t address, struct ptah_counts_file *file)
{
	struct names *n = names;
	struct build_id id;
	struct ptah_map map;

	if (!names_find_map(n, pid, address, &map))
		return false;
	find_id(n, map.path, &id);
	*file = (struct ptah_counts_file){.address = map.address,
					  .size = map.size,
					  .file_offset = map.file_offset,
					  .path = map.path,
					  .build_id_size = (uint8_t)id.size};
	memcpy(file->build_id, id.bytes, sizeof(id.bytes));
	return true;
}

/* Counts */

static int by_identity(const void *a, const void *b)
{
	const struct ptah_counts_file *x = *(const struct ptah_counts_file *const *)a;
	const struct ptah_counts_file *y = *(const struct ptah_counts_file *const *)b;
	int order = x->path == y->path ? 0 : strcmp(x->path, y->path);

	if (!order)
		order = x->build_id_size - y->build_id_size;
	return order ? order : memcmp(x->build_id, y->build_id, sizeof(x->build_id));
}

static int by_place(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

	return x < y ? -1 : x > y;
}

/* All files with a build id, equal ones beside each other. */
static int list_files(struct names *n)
{
	struct ptah_counts_process p;
	size_t count = 0;

	for (size_t i = 0; ptah_counts_process(n->counts, i, &p); i++)
		count += p.file_count;
	n->changed = calloc(count + 1, sizeof(*n->changed));
	n->changed_paths = calloc(count + 1, sizeof(*n->changed_paths));
	if (!n->changed || !n->changed_paths)
		return PTAH_E_NOMEM;
	count = 0;
	for (size_t i = 0; ptah_counts_process(n->counts, i, &p); i++)
		for (size_t k = 0; k < p.file_count; k++)
			if (p.files[k].build_id_size)
				n->changed[count++] = &p.files[k];
	n->changed_count = count;
	qsort(n->changed, count, sizeof(*n->changed), by_identity);
	return 0;
}

static bool is_changed(const struct names *n, const struct ptah_counts_file *file)
{
	struct build_id id;

	read_id(n, file->path, &id);
	/* One that is not there gives no names anyway. */
	return id.size &&
	       (id.size != file->build_id_size || memcmp(id.bytes, file->build_id, id.size) != 0);
}

static void note_changed_path(struct names *n, const char *path)
{
	path = shown(n, path);
	if (!n->changed_path_count || n->changed_paths[n->changed_path_count - 1] != path)
		n->changed_paths[n->changed_path_count++] = path;
}

int names_use_counts(struct names *n, const struct ptah_counts *counts, bool force)
{
	bool changed = false;
	size_t k = 0;
	int status;

	n->counts = counts;
	if (force)
		return 0;
	status = list_files(n);
	if (status < 0)
		return status;
	for (size_t i = 0; i < n->changed_count; i++) {
		const struct ptah_counts_file *file = n->changed[i];

		if (!i || by_identity(&n->changed[i - 1], &file)) {
			changed = is_changed(n, file);
			if (changed)
				note_changed_path(n, file->path);
		}
		if (changed)
			n->changed[k++] = file;
	}
	n->changed_count = k;
	qsort(n->changed, k, sizeof(*n->changed), by_place);
	return 0;
}

const char *names_changed_file(const struct names *n, size_t i)
{
	return i < n->changed_path_count ? n->changed_paths[i] : NULL;
}

/* The map of an address, and whether its file is the one that ran. */
static bool find_map(const struct names *n, uint64_t ip, struct ptah_map *map, bool *changed)
{
	const struct ptah_counts_file *file;

	*changed = false;
	if (!n->counts)
		return names_find_map(n, n->pid, ip, map);
	file = ptah_counts_find(n->counts, (size_t)n->pid, ip);
	if (!file)
		return false;
	*map = (struct ptah_map){file->address, file->size, file->file_offset, file->path};
	*changed = n->changed_count &&
		   bsearch(&file, n->changed, n->changed_count, sizeof(*n->changed), by_place);
	return true;
}

static void look_up(struct names *n, uint64_t ip, struct name *name)
{
	struct ptah_symbol symbol;
	struct ptah_map map;
	const char *slash;
	uint64_t offset;
	bool changed;

	*name = (struct name){.ip = ip, .start = ip, .dso = "[unknown]"};
	if (!find_map(n, ip, &map, &changed))
		return;
	name->path = shown(n, map.path);
	slash = strrchr(name->path, '/');
	name->dso = slash && slash[1] ? slash + 1 : name->path;
	offset = map.file_offset + (ip - map.address);
	if (map.path[0] != '/' || changed ||
	    !ptah_symbols_lookup(n->symbols, map.path, offset, &symbol))
		return;
	name->symbol = symbol.name;
	name->named = symbol.named;
	name->offset = offset - symbol.start;
	name->start = ip - name->offset;
}

const struct name *names_find(struct names *n, int32_t pid, uint64_t ip)
{
	struct name *name;

	if (pid != n->pid) {
		memset(n->table, 0, n->capacity * sizeof(*n->table));
		n->count = 0;
		n->pid = pid;
	}
	name = slot(n, ip);
	if (name->dso)
		return name;
	if (!make_room(n))
		name = &n->fallback;
	else
		name = slot(n, ip);
	look_up(n, ip, name);
	n->count += name != &n->fallback;
	return name;
}
