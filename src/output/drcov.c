/* SPDX-License-Identifier: MIT */
/* Collects blocks by the file they lie in, and writes them as a drcov file. */
#include "output/drcov.h"

#include "base/bits.h"
#include "base/path.h"
#include "support/list.h"

#include <ptah/symbol.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_MODULES 65535 /* the format's module numbers have 16 bits */

/* A mapped file: where its first page is or would be, were all of it mapped. */
struct module {
	uint64_t base, end, entry;
	const char *path;
};

struct drcov_block {
	uint32_t start;
	uint16_t size, module;
};

struct drcov {
	struct names *names;
	struct module *modules;
	size_t module_count, module_capacity;
	struct drcov_block *blocks;
	size_t count, capacity;
	size_t left_out;
	/* The mapping of the last block: the next block is mostly in the same one. */
	struct ptah_map map;
	int32_t pid;
	uint64_t version;
	int module; /* of that mapping; -1: none */
};

int drcov_new(struct names *names, struct drcov **drcov)
{
	struct drcov *d = calloc(1, sizeof(*d));

	if (!d)
		return PTAH_E_NOMEM;
	d->names = names;
	*drcov = d;
	return 0;
}

void drcov_free(struct drcov *d)
{
	if (!d)
		return;
	free(d->modules);
	free(d->blocks);
	free(d);
}

size_t drcov_left_out(const struct drcov *d)
{
	return d->left_out;
}

/* Whether it is the mapping of a file, not "[vdso]" or "//anon". */
static bool is_file(const struct ptah_map *map)
{
	return map->path[0] == '/' && map->path[1] != '/';
}

/* Computes the extent of a file that is no ELF file: its bytes are contiguous in memory. */
static void place_plain(const char *path, const struct ptah_map *map, struct module *m)
{
	struct stat st;

	m->base = map->address - map->file_offset;
	m->end = map->address + map->size;
	if (!stat(path, &st) && m->base + (uint64_t)st.st_size < m->end)
		m->end = m->base + (uint64_t)st.st_size;
}

/* Computes where the whole file begins and ends, from one mapped part of it. */
static void place(const struct drcov *d, const struct ptah_map *map, struct module *m)
{
	char *path = names_local_path(d->names, map->path);
	struct ptah_elf_extent e;
	bool found;

	*m = (struct module){.path = map->path};
	found = (path && ptah_elf_extent(path, map->file_offset, &e)) ||
		ptah_elf_extent(map->path, map->file_offset, &e);
	free(path);
	if (!found) {
		place_plain(map->path, map, m);
		return;
	}
	m->base = map->address - e.at + e.address;
	m->end = map->address - e.at + e.end;
	m->entry = e.entry ? map->address - e.at + e.entry : 0;
}

/* Finds or adds the module of a mapping. *number is -1 if it has none. */
static int find_module(struct drcov *d, const struct ptah_map *map, int *number)
{
	struct module m;

	*number = -1;
	if (!is_file(map))
		return 0;
	place(d, map, &m);
	for (size_t i = 0; i < d->module_count; i++) {
		if (d->modules[i].base == m.base && !strcmp(d->modules[i].path, m.path)) {
			*number = (int)i;
			return 0;
		}
	}
	if (d->module_count == MOST_MODULES)
		return 0;
	if (!LIST_ROOM(d->modules, d->module_count, d->module_capacity))
		return PTAH_E_NOMEM;
	*number = (int)d->module_count;
	d->modules[d->module_count++] = m;
	return 0;
}

/* Sets d->module to the module of the address. */
static int move_to(struct drcov *d, int32_t pid, uint64_t ip, uint64_t version)
{
	bool changed;

	if (d->map.size && d->pid == pid && d->version == version &&
	    ip - d->map.address < d->map.size)
		return 0;
	d->pid = pid;
	d->version = version;
	d->module = -1;
	d->map.size = 0;
	if (!names_find_place(d->names, pid, ip, ptah_version_time(version), &d->map, &changed))
		return 0;
	return find_module(d, &d->map, &d->module);
}

int drcov_add(struct drcov *d, int32_t pid, uint64_t ip, uint64_t end, uint64_t version)
{
	int status = move_to(d, pid, ip, version);
	uint64_t start;

	if (status < 0)
		return status;
	start = d->module < 0 ? UINT64_MAX : ip - d->modules[d->module].base;
	if (start > UINT32_MAX || end - ip > UINT16_MAX) {
		d->left_out++;
		return 0;
	}
	if (!LIST_ROOM(d->blocks, d->count, d->capacity))
		return PTAH_E_NOMEM;
	d->blocks[d->count++] =
	    (struct drcov_block){(uint32_t)start, (uint16_t)(end - ip), (uint16_t)d->module};
	return 0;
}

static int by_drcov_place(const void *a, const void *b)
{
	const struct drcov_block *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

/* Removes the duplicates of blocks that several processes ran. */
static void merge_drcov_blocks(struct drcov *d)
{
	size_t last = 0;

	if (!d->count)
		return;
	qsort(d->blocks, d->count, sizeof(*d->blocks), by_drcov_place);
	for (size_t i = 1; i < d->count; i++)
		if (by_drcov_place(&d->blocks[last], &d->blocks[i]))
			d->blocks[++last] = d->blocks[i];
	d->count = last + 1;
}

void drcov_write(struct drcov *d, struct out *out)
{
	merge_drcov_blocks(d);
	out_format(out,
		   "DRCOV VERSION: 2\nDRCOV FLAVOR: drcov\n"
		   "Module Table: version 3, count %zu\n"
		   "Columns: id, containing_id, start, end, entry, path\n",
		   d->module_count);
	for (size_t i = 0; i < d->module_count; i++) {
		const struct module *m = &d->modules[i];

		out_format(out,
			   "%3zu, %3zu, 0x%016" PRIx64 ", 0x%016" PRIx64 ", 0x%016" PRIx64 ", ", i,
			   i, m->base, m->end, m->entry);
		out_clean(out, m->path);
		out_char(out, '\n');
	}
	out_format(out, "BB Table: %zu bbs\n", d->count);
	for (size_t i = 0; i < d->count; i++) {
		uint8_t wire[8];

		store_le32(wire, d->blocks[i].start);
		store_le16(wire + 4, d->blocks[i].size);
		store_le16(wire + 6, d->blocks[i].module);
		out_bytes(out, (const char *)wire, sizeof(wire));
	}
}
