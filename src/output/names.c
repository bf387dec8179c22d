/* SPDX-License-Identifier: MIT */
/* Names for addresses, looked up once each (names.h). */
#include "output/names_internal.h"

#include "base/hash.h"
#include "base/text.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With an offset, NAMES_LABEL_MAX is enough for it. */
#define DEMANGLED_MAX 4096

int names_new(const struct ptah_session *session, const char *symfs, struct names **names)
{
	struct ptah_symbols_search search = {.size = sizeof(search), .locate = names_find_copy};
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
	search.locate_context = n;
	ptah_symbols_search(n->symbols, &search);
	if (session)
		names_kernel_of(session, &n->kernel);
	*names = n;
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (struct clean *c = n->cleaned, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	for (struct known_id *k = n->ids, *next; k; k = next) {
		next = k->next;
		free(k);
	}
	tdestroy(n->demangled, free);
	tdestroy(n->kept, free);
	names_free_aliases(n);
	names_free_copies(n);
	ptah_functions_free(n->functions);
	ptah_symbols_free(n->symbols);
	free(n->changed);
	free(n->changed_paths);
	free(n->symfs);
	free(n->cache);
	free(n->table);
	free(n);
}

static struct name *slot(const struct names *n, uint64_t ip, uint64_t tsc)
{
	size_t i = (size_t)(hash_number(ip ^ tsc << 8) >> 20) & (n->capacity - 1);

	while (n->table[i].dso && (n->table[i].ip != ip || n->table[i].tsc != tsc))
		i = (i + 1) & (n->capacity - 1);
	return &n->table[i];
}

static bool grow_name_table(struct names *n)
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
			*slot(&bigger, n->table[i].ip, n->table[i].tsc) = n->table[i];
	free(n->table);
	*n = bigger;
	return true;
}

const char *names_shown(struct names *n, const char *path)
{
	struct clean *c;

	if (text_is_clean(path))
		return path;
	for (c = n->cleaned; c; c = c->next)
		if (c->path == path)
			return c->text;
	c = malloc(sizeof(*c) + strlen(path) + 1);
	if (!c)
		return "?";
	*c = (struct clean){n->cleaned, path};
	strcpy(c->text, path);
	text_clean(c->text);
	n->cleaned = c;
	return c->text;
}

static int compare_kept(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *names_keep(struct names *names, const char *text, size_t n)
{
	char *copy = strndup(text, n), **node;

	node = copy ? tsearch(copy, &names->kept, compare_kept) : NULL;
	if (!node || *node != copy)
		free(copy);
	return node ? *node : NULL;
}

/* Debug files */

int names_use_cache(struct names *n, const char *folder)
{
	const struct ptah_symbols_search search = {.size = sizeof(search), .cache = folder};

	free(n->cache);
	n->cache = strdup(folder);
	return n->cache ? ptah_symbols_search(n->symbols, &search) : PTAH_E_NOMEM;
}

int names_use_debuginfod(struct names *n, ptah_fetch_progress *progress, void *context)
{
	const struct ptah_symbols_search search = {.size = sizeof(search),
						   .fetch = true,
						   .fetch_progress = progress,
						   .fetch_context = context};
	int status = ptah_symbols_search(n->symbols, &search);

	n->fetches = status >= 0;
	return status;
}

void names_show_all(struct names *n)
{
	n->show_all = true;
}

/* Demangling */

struct demangled {
	const char *name; /* as in the file, whose names live as long as the resolver */
	char text[];
};

static int compare_demangled(const void *pa, const void *pb)
{
	const struct demangled *a = pa, *b = pb;

	return strcmp(a->name, b->name);
}

void names_keep_mangled(struct names *n)
{
	n->keep_mangled = true;
}

const char *names_demangled(struct names *n, const char *name)
{
	struct demangled key = {name}, *fresh, **node;
	char text[DEMANGLED_MAX];
	const char *shown;

	if (n->keep_mangled || !name)
		return name;
	node = tfind(&key, &n->demangled, compare_demangled);
	if (node)
		return (*node)->text;
	shown = ptah_symbol_demangle(name, 0, text, sizeof(text));
	if (shown == name)
		return name;
	fresh = malloc(sizeof(*fresh) + strlen(shown) + 1);
	if (!fresh)
		return name;
	fresh->name = name;
	strcpy(fresh->text, shown);
	node = tsearch(fresh, &n->demangled, compare_demangled);
	if (node)
		return fresh->text;
	free(fresh);
	return name;
}

bool names_find_place(struct names *n, int32_t pid, uint64_t ip, uint64_t tsc, struct ptah_map *map,
		      bool *changed)
{
	const struct ptah_counts_file *file;

	*changed = false;
	if (!n->counts)
		return ptah_session_find_map(n->session, pid, ip, tsc, map);
	file = ptah_counts_find(n->counts, (size_t)pid, ip, tsc == PTAH_TIME_FIRST ? 0 : tsc);
	if (!file)
		return false;
	*map = (struct ptah_map){file->address, file->size, file->file_offset, file->path};
	*changed = names_is_changed(n, file) || names_is_other_kernel(n, file);
	return true;
}

struct ptah_symbols *names_symbols(const struct names *n)
{
	return n->symbols;
}

void names_set_time(struct names *n, uint64_t tsc)
{
	n->tsc = tsc;
}

static uint64_t time_of(const struct names *n, const struct name *name)
{
	return name->tsc ? name->tsc : n->tsc;
}

struct ptah_functions *names_functions(struct names *n)
{
	if (!n->functions && n->session && ptah_functions_new(n->session, &n->functions) < 0)
		n->functions = NULL;
	return n->functions;
}

/* In the path of generated code in counts, "[JIT] tid 123: f", the colon. NULL: it is another. */
static const char *find_colon(const char *path)
{
	return strncmp(path, "[JIT] ", 6) ? NULL : strstr(path, ": ");
}

const char *names_object_path(struct names *n, const char *path)
{
	const char *colon = find_colon(path);
	const char *list = colon ? names_keep(n, path, (size_t)(colon - path)) : NULL;

	return list ? list : path;
}

static void take_generated(struct names *n, const struct ptah_map *map, struct name *name)
{
	const char *colon = find_colon(map->path), *list = names_object_path(n, map->path);

	if (!colon)
		return;
	name->generated = name->named = true;
	name->symbol = colon + 2;
	name->path = name->dso = list;
	name->offset = map->file_offset + (name->ip - map->address);
	name->start = name->ip - name->offset;
}

/* Names code that a process of the session generated. */
static void look_up_generated(struct names *n, const struct ptah_map *map, struct name *name)
{
	struct ptah_function_name found;

	if (n->counts && map)
		take_generated(n, map, name);
	if (n->counts || !names_functions(n))
		return;
	name->generated = true;
	if (!ptah_functions_name(n->functions, n->pid, name->ip, time_of(n, name), &found) ||
	    !found.name)
		return;
	name->symbol = found.name;
	name->named = found.named;
	name->path = name->dso = found.path;
	name->offset = name->ip - found.start;
	name->start = found.start;
}

/* `offset` is that of the address in its file. */
static void set_symbol(struct name *name, const struct ptah_symbol *symbol, uint64_t offset)
{
	name->symbol = symbol->name;
	name->named = symbol->named;
	name->offset = offset - symbol->start;
	name->start = name->ip - name->offset;
}

/* Whether something else was at the address first than in the end. */
static bool has_other_maps(const struct names *n, uint64_t ip)
{
	struct ptah_map first, last;

	return n->session && !n->counts &&
	       ptah_session_find_map(n->session, n->pid, ip, PTAH_TIME_FIRST, &first) &&
	       ptah_session_find_map(n->session, n->pid, ip, PTAH_TIME_LAST, &last) &&
	       (first.path != last.path ||
		first.file_offset - first.address != last.file_offset - last.address);
}

static void look_up(struct names *n, uint64_t ip, uint64_t tsc, struct name *name)
{
	struct ptah_symbol symbol;
	struct ptah_map map;
	const char *slash;
	uint64_t offset;
	bool changed, in_file;

	*name = (struct name){.ip = ip, .tsc = tsc, .start = ip, .dso = "[unknown]", .place = ip};
	name->varies = !tsc && n->tsc && has_other_maps(n, ip);
	if (!names_find_place(n, n->pid, ip, name->varies ? n->tsc : tsc, &map, &changed)) {
		if (ip >= NAMES_KERNEL_HALF)
			names_look_up_kernel(n, NULL, name);
		else
			look_up_generated(n, NULL, name);
		return;
	}
	name->path = names_shown(n, map.path);
	slash = strrchr(name->path, '/');
	name->dso = slash && slash[1] ? slash + 1 : name->path;
	offset = map.file_offset + (ip - map.address);
	if (ptah_path_is_file(map.path))
		name->place = offset;
	if (changed)
		return;
	/* perf's cache may have the vdso, which is no file. */
	in_file = map.path[0] == '/' || names_find_copy(n, map.path);
	if (in_file) {
		name->code = map.path;
		name->code_at = offset;
	}
	if (!in_file || !ptah_symbols_lookup(n->symbols, map.path, offset, &symbol)) {
		if (ip >= NAMES_KERNEL_HALF)
			names_look_up_kernel(n, &map, name);
		else if (!ptah_path_is_file(map.path))
			look_up_generated(n, &map, name);
		return;
	}
	set_symbol(name, &symbol, offset);
}

static void demangle(struct names *n, struct name *name)
{
	name->mangled = name->symbol;
	if (name->named)
		name->symbol = names_demangled(n, name->symbol);
}

static const struct name *find_at(struct names *n, int32_t pid, uint64_t ip, uint64_t tsc)
{
	struct name *name;

	ptah_session_version(n->session, &pid, &tsc);
	if (pid != n->pid) {
		memset(n->table, 0, n->capacity * sizeof(*n->table));
		n->count = 0;
		n->pid = pid;
	}
	name = slot(n, ip, tsc);
	if (name->dso && (n->counts || (!name->generated && !name->varies)))
		return name;
	n->count -= name->dso != NULL;
	if (!grow_name_table(n))
		name = &n->fallback;
	else
		name = slot(n, ip, tsc);
	look_up(n, ip, tsc, name);
	demangle(n, name);
	if (n->show_all)
		names_fetch(n, name);
	n->count += name != &n->fallback;
	return name;
}

const struct name *names_find(struct names *n, int32_t pid, uint64_t ip)
{
	return find_at(n, pid, ip, 0);
}

const struct name *names_find_version(struct names *n, int32_t pid, uint64_t ip, uint64_t version)
{
	return find_at(n, pid, ip, ptah_version_time(version));
}

void names_fetch(struct names *n, struct name *name)
{
	struct ptah_symbol symbol;

	if (!n->fetches || !name->symbol || name->named || !name->path || name->path[0] != '/')
		return;
	ptah_symbols_fetch(n->symbols, name->path);
	if (!ptah_symbols_lookup(n->symbols, name->path, name->place, &symbol) || !symbol.named)
		return;
	set_symbol(name, &symbol, name->place);
	demangle(n, name);
}

bool names_line(struct names *n, const struct name *name, struct ptah_line *line)
{
	struct ptah_function_line generated;

	if (name->code)
		return ptah_symbols_line(n->symbols, name->code, name->code_at, line) &&
		       line->file && line->line;
	if (!name->generated || !n->functions ||
	    !ptah_functions_line(n->functions, n->pid, name->ip, time_of(n, name), &generated))
		return false;
	*line = (struct ptah_line){.file = names_shown(n, generated.file), .line = generated.line};
	return true;
}

bool names_is(struct names *n, const struct name *name, const char *function)
{
	if (!name->symbol)
		return false;
	if (ptah_symbol_matches(name->symbol, function) ||
	    (name->mangled && ptah_symbol_matches(name->mangled, function)))
		return true;
	return name->named && name->path && !name->generated &&
	       names_is_alias(n, name->path, name->place - name->offset, function);
}

static const char *put_name_label(const struct name *name, uint64_t ip, char *text, size_t size)
{
	if (!name || !name->symbol)
		snprintf(text, size, "0x%" PRIx64, ip);
	else if (name->offset)
		snprintf(text, size, "%s+0x%" PRIx64, name->symbol, name->offset);
	else
		snprintf(text, size, "%s", name->symbol);
	return text;
}

const char *names_label(struct names *n, int32_t pid, uint64_t ip, char *text, size_t size)
{
	return put_name_label(n ? names_find(n, pid, ip) : NULL, ip, text, size);
}

const char *names_label_version(struct names *n, int32_t pid, uint64_t ip, uint64_t version,
				char *text, size_t size)
{
	return put_name_label(n ? names_find_version(n, pid, ip, version) : NULL, ip, text, size);
}
