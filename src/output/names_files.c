/* SPDX-License-Identifier: MIT */
/* The build ids of files that have names, and which files have changed since they were counted. */
#include "output/names_internal.h"

#include "base/order.h"
#include "base/path.h"

#include <ptah/calls.h>
#include <ptah/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *names_find_copy(void *names, const char *path)
{
	const struct names *n = names;
	const char *copy = ptah_session_copy(n->session, path);

	for (const struct file_copy *c = n->copies; c && !copy; c = c->next)
		copy = strcmp(c->path, path) == 0 ? c->local : NULL;
	return copy;
}

void names_free_copies(struct names *n)
{
	for (struct file_copy *c = n->copies, *next; c; c = next) {
		next = c->next;
		free(c->local);
		free(c);
	}
}

char *names_local_path(const struct names *n, const char *path)
{
	const char *copy = names_find_copy((void *)(uintptr_t)n, path);
	char *full;

	if (copy)
		return strdup(copy);
	if (asprintf(&full, "%s%s", n->symfs, path) < 0)
		return NULL;
	if (*n->symfs)
		path_resolve(full + strlen(n->symfs));
	return full;
}

/* Reads the build id of the file at `path`, as it is on this machine now. */
static void read_name_id(const struct names *n, const char *path, struct build_id *id)
{
	char *full;

	memset(id, 0, sizeof(*id));
	if (!ptah_path_is_file(path) && !names_find_copy((void *)(uintptr_t)n, path))
		return;
	full = names_local_path(n, path);
	if (!full)
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
	read_name_id(n, path, id);
	k = malloc(sizeof(*k));
	if (!k)
		return;
	*k = (struct known_id){n->ids, path, *id};
	n->ids = k;
}

/*
 * Generated code has a piece for each function, whose path is what perf calls it and the name, so
 * that counts have it without the lists of the process.
 */
static bool find_name_generated(struct names *n, int32_t pid, uint64_t address, uint64_t tsc,
				struct ptah_counts_file *file)
{
	struct ptah_function_name name;
	struct ptah_function bounds;
	char *path;

	if (address >= NAMES_KERNEL_HALF || !names_functions(n) ||
	    !ptah_functions_find(n->functions, pid, address, tsc, &bounds) ||
	    !(bounds.flags & PTAH_FUNCTION_JIT) ||
	    !ptah_functions_name(n->functions, pid, address, tsc, &name) || !name.name)
		return false;
	if (asprintf(&path, "%s: %s", name.path, name.name) < 0)
		return false;
	*file = (struct ptah_counts_file){.address = bounds.low,
					  .size = bounds.high - bounds.low,
					  .file_offset = bounds.low - bounds.start,
					  .path = names_keep(n, path, strlen(path))};
	free(path);
	return file->path;
}

static bool find_name_file(struct names *n, int32_t pid, uint64_t address, uint64_t tsc,
			   struct ptah_counts_file *file)
{
	struct build_id id;
	struct ptah_map map;
	bool found = ptah_session_find_map(n->session, pid, address, tsc, &map);

	if (!found || !ptah_path_is_file(map.path))
		if (find_name_generated(n, pid, address, tsc, file))
			return true;
	if (!found)
		return false;
	find_id(n, map.path, &id);
	*file = (struct ptah_counts_file){.address = map.address,
					  .size = map.size,
					  .file_offset = map.file_offset,
					  .path = map.path,
					  .build_id_size = (uint8_t)id.size};
	memcpy(file->build_id, id.bytes, sizeof(id.bytes));
	names_set_kernel_id(n, file);
	return true;
}

bool names_find_file(void *names, int32_t pid, uint64_t address, uint64_t tsc,
		     struct ptah_counts_file *file)
{
	const unsigned version = address < NAMES_KERNEL_HALF ? (unsigned)(address >> 48) : 0;
	const uint64_t real = address & (UINT64_MAX >> 16);
	const struct ptah_call_thread thread = {.space = pid};

	/* See ptah_counts_version_address(). */
	if (version &&
	    find_name_file(names, ptah_call_thread_space(&thread, PTAH_CALLS_VERSION + version),
			   real, tsc, file)) {
		file->address += address - real;
		return true;
	}
	return find_name_file(names, pid, address, tsc, file);
}

static int by_identity(const void *a, const void *b)
{
	const struct ptah_counts_file *x = *(const struct ptah_counts_file *const *)a;
	const struct ptah_counts_file *y = *(const struct ptah_counts_file *const *)b;
	int order = x->path == y->path ? 0 : strcmp(x->path, y->path);

	if (!order)
		order = x->build_id_size - y->build_id_size;
	return order ? order : memcmp(x->build_id, y->build_id, sizeof(x->build_id));
}

static int by_name_place(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

	return COMPARE(x, y);
}

/* Lists all files that have a build id, sorted so that the same files are adjacent. */
static int list_name_files(struct names *n)
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

/* Finds a copy of the file that ran. False: there is none. */
static bool add_name_copy(struct names *n, const struct ptah_counts_file *file)
{
	char *local = ptah_build_id_find(n->cache, file->build_id, file->build_id_size);
	struct file_copy *copy;

	if (!local)
		local = ptah_symbols_fetch_file(n->symbols, file->path, file->build_id,
						file->build_id_size);
	copy = local ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		free(local);
		return false;
	}
	*copy = (struct file_copy){n->copies, file->path, local};
	n->copies = copy;
	return true;
}

static bool is_changed(struct names *n, const struct ptah_counts_file *file)
{
	struct build_id id;

	read_name_id(n, file->path, &id);
	if (id.size == file->build_id_size && !memcmp(id.bytes, file->build_id, (size_t)id.size))
		return false;
	/* A file that does not exist gives no names in any case. */
	return !add_name_copy(n, file) && id.size;
}

static void note_changed_path(struct names *n, const char *path)
{
	path = names_shown(n, path);
	if (!n->changed_path_count || n->changed_paths[n->changed_path_count - 1] != path)
		n->changed_paths[n->changed_path_count++] = path;
}

int names_use_counts(struct names *n, const struct ptah_counts *counts, bool force)
{
	bool changed = false;
	size_t k = 0;
	int status;

	n->counts = counts;
	status = list_name_files(n);
	if (status < 0)
		return status;
	for (size_t i = 0; i < n->changed_count; i++) {
		const struct ptah_counts_file *file = n->changed[i];

		if (!i || by_identity(&n->changed[i - 1], &file)) {
			changed = is_changed(n, file) && !force;
			if (changed)
				note_changed_path(n, file->path);
		}
		if (changed)
			n->changed[k++] = file;
	}
	n->changed_count = k;
	qsort(n->changed, k, sizeof(*n->changed), by_name_place);
	return 0;
}

const char *names_changed_file(const struct names *n, size_t i)
{
	return i < n->changed_path_count ? n->changed_paths[i] : NULL;
}

bool names_is_changed(const struct names *n, const struct ptah_counts_file *file)
{
	return n->changed_count &&
	       bsearch(&file, n->changed, n->changed_count, sizeof(*n->changed), by_name_place);
}
