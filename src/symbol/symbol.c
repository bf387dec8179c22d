/* SPDX-License-Identifier: MIT */
/* The public resolver: reads each file once and answers from its table. */
#include <ptah/symbol.h>

#include "base/path.h"
#include "symbol/resolver.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ptah_symbols_new(const char *symfs, struct ptah_symbols **symbols)
{
	struct ptah_symbols *s;
	size_t n;

	if (!symbols)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	*symbols = s;
	if (!s)
		return PTAH_E_NOMEM;
	s->root = strdup(symfs ? symfs : "");
	s->pool = symbol_pool_new();
	if (!s->root || !s->pool) {
		ptah_symbols_free(s);
		*symbols = NULL;
		return PTAH_E_NOMEM;
	}
	for (n = strlen(s->root); n && s->root[n - 1] == '/'; n--)
		s->root[n - 1] = '\0';
	return 0;
}

static void free_entry(void *p)
{
	struct symbol_binary *entry = p;

	if (entry->debug_read)
		symbol_debug_free(&entry->debug);
	if (entry->has_go)
		symbol_elf_close(&entry->go_file);
	symbol_file_free(&entry->file);
	symbol_file_free(&entry->before);
	free(entry->fetched);
	free(entry->path);
	free(entry);
}

void ptah_symbols_free(struct ptah_symbols *symbols)
{
	if (!symbols)
		return;
	tdestroy(symbols->entries, free_entry);
	symbol_kernel_free(&symbols->kernel);
	symbol_pool_free(symbols->pool);
	symbol_debuginfod_free(symbols->servers);
	free(symbols->cache);
	free(symbols->kernel_lines);
	free(symbols->root);
	free(symbols);
}

static int compare_symbol_entries(const void *a, const void *b)
{
	return strcmp(((const struct symbol_binary *)a)->path,
		      ((const struct symbol_binary *)b)->path);
}

char *symbol_local_path(const struct ptah_symbols *symbols, const char *path)
{
	const char *located;
	char *local;

	if (!strcmp(path, PTAH_KERNEL_CODE))
		return symbols->kernel_lines ? strdup(symbols->kernel_lines) : NULL;
	located = symbols->locate ? symbols->locate(symbols->locate_context, path) : NULL;
	if (located)
		return strdup(located);
	if (path[0] != '/' && *symbols->root)
		return NULL;
	if (asprintf(&local, "%s%s", symbols->root, path) < 0)
		return NULL;
	if (*symbols->root)
		path_resolve(local + strlen(symbols->root));
	return local;
}

struct symbol_folders symbol_folders_of(const struct ptah_symbols *symbols,
					const struct symbol_binary *binary)
{
	return (struct symbol_folders){symbols->root, symbols->cache, binary->fetched,
				       symbols->servers};
}

static void read_symbol_entry(struct ptah_symbols *symbols, struct symbol_binary *entry)
{
	const struct symbol_folders folders = symbol_folders_of(symbols, entry);
	char *path = symbol_local_path(symbols, entry->path);

	if (path)
		symbol_file_read(path, &folders, &entry->file);
	free(path);
	if (strcmp(entry->path, PTAH_KERNEL_CODE) != 0)
		return;
	/* Places in the kernel are addresses. */
	for (size_t i = 0; i < entry->file.segment_count; i++)
		entry->file.segments[i].offset =
		    entry->file.segments[i].address + symbols->kernel_slide;
}

struct symbol_binary *symbol_find_binary(struct ptah_symbols *symbols, const char *path)
{
	struct symbol_binary *fresh, **node;

	if (symbols->last && !strcmp(symbols->last->path, path))
		return symbols->last;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->path = strdup(path);
	node = fresh->path ? tsearch(fresh, &symbols->entries, compare_symbol_entries) : NULL;
	if (!node || *node != fresh) {
		free(fresh->path);
		free(fresh);
	} else {
		read_symbol_entry(symbols, fresh);
	}
	symbols->last = node ? *node : symbols->last;
	return node ? *node : NULL;
}

/* The range that holds the byte at `offset` of a file, whose address is `address`; or NULL. */
static const struct symbol_range *find_range(const struct symbol_binary *entry, uint64_t offset,
					     uint64_t *address)
{
	return entry && symbol_file_address(&entry->file, offset, address)
		   ? symbol_ranges_find(&entry->file.ranges, *address)
		   : NULL;
}

bool ptah_symbols_lookup(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			 struct ptah_symbol *symbol)
{
	const struct symbol_range *range;
	const struct symbol_binary *entry;
	uint64_t address, inside;

	if (!symbols || !path || !symbol)
		return false;
	entry = symbol_find_binary(symbols, path);
	range = find_range(entry, file_offset, &address);
	if (!range)
		return false;
	inside = address - range->head;
	/* A function that begins before the file does: the file is malformed. */
	if (inside > file_offset)
		return false;
	*symbol = (struct ptah_symbol){
	    .name = entry->file.names.bytes + range->name,
	    .start = file_offset - inside,
	    .size = range->size,
	    .named = range->named,
	};
	return true;
}

/* The bounds of a range that is `slide` bytes above its address in memory. */
static struct ptah_function bounds_of(const struct symbol_range *range, uint64_t slide)
{
	const bool piece = range->flags & PTAH_FUNCTION_SECTION;

	return (struct ptah_function){
	    .low = range->start + slide,
	    .high = range->end + slide,
	    .start = slide + (range->parent ? range->parent
			      : piece	    ? range->start
					    : range->head),
	    .flags = range->flags,
	};
}

static bool kernel_function_bounds(const struct ptah_symbols *symbols, uint64_t address,
				   struct ptah_function *function)
{
	const struct symbol_range *range = symbol_ranges_find(&symbols->kernel.ranges, address);

	if (!range || !range->named)
		return false;
	*function = bounds_of(range, 0);
	function->flags |= PTAH_FUNCTION_KERNEL;
	return true;
}

bool ptah_symbols_bounds(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			 uint64_t address, struct ptah_function *function)
{
	const struct symbol_range *range;
	uint64_t own;

	if (!symbols || !function)
		return false;
	if (!path)
		return kernel_function_bounds(symbols, address, function);
	range = find_range(symbol_find_binary(symbols, path), file_offset, &own);
	if (range)
		*function = bounds_of(range, address - own);
	return range;
}

int ptah_symbols_find(struct ptah_symbols *symbols, const char *path, const char *name,
		      unsigned which, struct ptah_symbol *symbol)
{
	struct symbol_places places;
	const struct symbol_binary *entry;
	struct symbol_folders folders;
	struct ptah_symbol around;
	char *local;
	int n;

	if (!symbols || !path || !name || !symbol)
		return PTAH_E_INVAL;
	entry = symbol_find_binary(symbols, path);
	if (!entry)
		return PTAH_E_NOMEM;
	local = symbol_local_path(symbols, path);
	if (!local)
		return PTAH_E_MISSING;
	folders = symbol_folders_of(symbols, entry);
	n = symbol_file_find(&entry->file, local, &folders, name, &places);
	free(local);
	if (n <= 0 || which >= (unsigned)n)
		return n;
	*symbol = (struct ptah_symbol){
	    .name = name,
	    .start = places.items[which].offset,
	    .size = places.items[which].size,
	    .named = true,
	};
	if (!symbol->size && ptah_symbols_lookup(symbols, path, symbol->start, &around))
		symbol->size = around.start + around.size - symbol->start;
	return n;
}

int ptah_symbols_add_kallsyms(struct ptah_symbols *symbols, const char *path, const char *reference,
			      uint64_t *address)
{
	if (!symbols || !path || !reference || !address)
		return PTAH_E_INVAL;
	return symbol_kernel_read_kallsyms(&symbols->kernel, path, reference, address);
}

int ptah_symbols_add_vmlinux(struct ptah_symbols *symbols, const char *path, uint64_t slide,
			     unsigned what)
{
	if (!symbols || !path || !what || what >= PTAH_VMLINUX_MAX)
		return PTAH_E_INVAL;
	if (what & PTAH_VMLINUX_LINES && !symbols->kernel_lines) {
		symbols->kernel_lines = strdup(path);
		symbols->kernel_slide = slide;
		if (!symbols->kernel_lines)
			return PTAH_E_NOMEM;
	}
	return what & PTAH_VMLINUX_NAMES ? symbol_kernel_read_vmlinux(&symbols->kernel, path, slide)
					 : 0;
}

bool ptah_symbols_lookup_kernel(const struct ptah_symbols *symbols, uint64_t address,
				struct ptah_kernel_symbol *symbol)
{
	return symbols && symbol && symbol_kernel_find(&symbols->kernel, address, symbol);
}
