/* SPDX-License-Identifier: MIT */
/* Finds the functions of a session by address: in mapped files and in the kernel (symbol.h). */
#include <ptah/symbol.h>

#include "session/jit.h"
#include "session/versions.h"
#include "support/list.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORE "[kernel.kallsyms]"

/* The map for perf of a process, empty if there is none. */
struct process_map {
	int32_t pid;
	char path[32]; /* what perf calls it where it shows files */
	struct symbol_jit jit;
	struct symbol_jit dump; /* the jitdump beside the recording, empty if there is none */
	/*
	 * In a session that grows, code was looked for in vain when the session had this
	 * jit_generation.
	 */
	bool missed;
	uint64_t missed_at;
};

struct ptah_functions {
	const struct ptah_session *session;
	pthread_mutex_t lock; /* of what follows */
	struct ptah_symbols *symbols;
	bool kernel_read; /* its symbols have been read, or cannot be read */
	struct process_map **maps;
	size_t map_count, map_capacity;
	uint64_t generation; /* of a session that grows: changes as functions_refresh() says */
};

/* An address and what was mapped there; map.path NULL: nothing is known of that. */
struct place {
	int32_t space;
	uint64_t address, tsc;
	struct ptah_map map;
};

static const char *locate_copy(void *session, const char *path)
{
	return ptah_session_copy(session, path);
}

int ptah_functions_new(const struct ptah_session *session, struct ptah_functions **functions)
{
	struct ptah_symbols_search search = {.size = sizeof(search), .locate = locate_copy};
	struct ptah_functions *f;
	int status;

	if (!session || !functions)
		return PTAH_E_INVAL;
	f = calloc(1, sizeof(*f));
	*functions = NULL;
	if (!f)
		return PTAH_E_NOMEM;
	f->session = session;
	status = ptah_symbols_new(session->symfs, &f->symbols);
	if (status < 0 || pthread_mutex_init(&f->lock, NULL)) {
		ptah_symbols_free(f->symbols);
		free(f);
		return PTAH_E_NOMEM;
	}
	search.locate_context = (void *)(uintptr_t)session;
	ptah_symbols_search(f->symbols, &search);
	*functions = f;
	return 0;
}

void ptah_functions_free(struct ptah_functions *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	for (size_t i = 0; i < f->map_count; i++) {
		symbol_jit_free(&f->maps[i]->jit);
		symbol_jit_free(&f->maps[i]->dump);
		free(f->maps[i]);
	}
	free(f->maps);
	ptah_symbols_free(f->symbols);
	free(f);
}

/* The times of records and of the trace may differ a little: then what is there later counts. */
static struct place find_place(const struct ptah_functions *f, int32_t space, uint64_t address,
			       uint64_t tsc)
{
	struct place p;

	ptah_session_version(f->session, &space, &tsc);
	p = (struct place){.space = space, .address = address, .tsc = tsc};
	if (!ptah_session_find_map(f->session, space, address, tsc, &p.map) &&
	    (!tsc || !ptah_session_find_map(f->session, space, address, 0, &p.map)))
		p.map.path = NULL;
	return p;
}

static uint64_t file_offset(const struct place *p)
{
	return p->map.file_offset + (p->address - p->map.address);
}

/* The kernel */

static void read_kernel(struct ptah_functions *f)
{
	struct ptah_kernel k;
	int status = PTAH_E_MISSING;

	if (f->kernel_read)
		return;
	f->kernel_read = true;
	ptah_session_kernel(f->session, &k);
	if (k.kallsyms)
		status = ptah_symbols_add_kallsyms(f->symbols, k.kallsyms,
						   *k.symbol ? k.symbol : "_text", &k.address);
	if (status < 0 && k.vmlinux)
		ptah_symbols_add_vmlinux(f->symbols, k.vmlinux, k.slide, PTAH_VMLINUX_NAMES);
}

/* Code with a name of its own ("bpf_prog_...") instead of a file. */
static bool is_kernel_function(const struct place *p)
{
	return p->address >= KERNEL_HALF && p->map.path && *p->map.path && *p->map.path != '/' &&
	       *p->map.path != '[';
}

/* How far the kernel's symbols are above the place where it was, for an address in the kernel. */
static uint64_t kernel_shift(const struct ptah_functions *f, const struct place *p)
{
	struct ptah_kernel k;

	ptah_session_kernel(f->session, &k);
	if (!k.address || !p->map.path || strcmp(p->map.path, CORE) != 0)
		return 0;
	return k.address + file_offset(p) - p->address;
}

static bool kernel_bounds(struct ptah_functions *f, const struct place *p,
			  struct ptah_function *function)
{
	const uint64_t shift = kernel_shift(f, p);

	read_kernel(f);
	if (!ptah_symbols_bounds(f->symbols, NULL, 0, p->address + shift, function))
		return false;
	function->low -= shift;
	function->high -= shift;
	function->start -= shift;
	return true;
}

static bool kernel_name(struct ptah_functions *f, const struct place *p,
			struct ptah_function_name *name)
{
	const uint64_t shift = kernel_shift(f, p);
	struct ptah_kernel_symbol symbol;

	read_kernel(f);
	if (!ptah_symbols_lookup_kernel(f->symbols, p->address + shift, &symbol))
		return false;
	name->name = symbol.name;
	name->named = true;
	name->start = symbol.start - shift;
	name->file_offset -= p->address - name->start;
	if (!name->path)
		name->path = *symbol.module ? symbol.module : CORE;
	return true;
}

/* Code that processes generated */

static int32_t pid_of(const struct ptah_functions *f, int32_t space)
{
	struct ptah_thread thread;

	return ptah_session_space(f->session, space, &thread) >= 0 ? thread.pid : space;
}

/* The map for perf of a process, which is read when it is needed first. NULL: out of memory. */
static struct process_map *map_of(struct ptah_functions *f, int32_t pid)
{
	struct process_map *map;

	for (size_t i = 0; i < f->map_count; i++)
		if (f->maps[i]->pid == pid)
			return f->maps[i];
	map = LIST_ROOM(f->maps, f->map_count, f->map_capacity) ? calloc(1, sizeof(*map)) : NULL;
	if (!map)
		return NULL;
	map->pid = pid;
	snprintf(map->path, sizeof(map->path), "[JIT] tid %d", (int)pid);
	/* One that grows has read them itself. */
	if (!f->session->growth) {
		jit_read_map(f->session, pid, &map->jit);
		jit_read_dump_beside(f->session, pid, &map->dump);
	}
	f->maps[f->map_count++] = map;
	return map;
}

/* Generated code, and the list that has it. */
struct generated {
	const struct symbol_jit *jit;
	const struct symbol_jit_code *code;
	uint64_t low, high;
	const char *path;
};

/* Whether it may be generated code. The code of files and of the kernel is none. */
static bool may_be_generated(const struct place *p)
{
	return p->address < KERNEL_HALF && !(p->map.path && ptah_path_is_file(p->map.path));
}

/* In the lists that a session that grows has read. */
static bool find_listed(struct ptah_functions *f, const struct place *p, struct process_map *map,
			struct generated *g)
{
	if (!g->code)
		g->code =
		    jit_find_mapped(f->session, map->pid, p->address, &g->low, &g->high, &g->jit);
	if (!g->code) {
		map->missed = true;
		map->missed_at = f->session->jit_generation;
	}
	return g->code;
}

static bool find_generated(struct ptah_functions *f, const struct place *p, struct generated *g)
{
	/* A list finds the one that was there first for any time before it. */
	const uint64_t tsc = p->tsc == PTAH_TIME_FIRST ? 1 : p->tsc;
	struct process_map *map;
	int32_t pid;

	if (!may_be_generated(p))
		return false;
	pid = pid_of(f, p->space);
	map = map_of(f, pid);
	if (!map)
		return false;
	g->path = map->path;
	g->code = jit_find_dumped(f->session, pid, p->address, tsc, &g->low, &g->high, &g->jit);
	if (g->code)
		return true;
	if (f->session->growth)
		return find_listed(f, p, map, g);
	g->jit = &map->dump;
	g->code = symbol_jit_find(&map->dump, p->address, tsc, &g->low, &g->high);
	if (g->code)
		return true;
	g->jit = &map->jit;
	g->code = symbol_jit_find(&map->jit, p->address, 0, &g->low, &g->high);
	return g->code;
}

bool functions_refresh(struct ptah_functions *f)
{
	bool stale = false;

	for (size_t i = 0; i < f->map_count; i++) {
		struct process_map *map = f->maps[i];

		if (!map->missed || jit_newest(f->session, map->pid) <= map->missed_at)
			continue;
		map->missed = false;
		stale = true;
	}
	f->generation += stale;
	return stale;
}

uint64_t functions_generation(const struct ptah_functions *f)
{
	return f->generation;
}

uint64_t functions_until(struct ptah_functions *f, int32_t space, uint64_t address, uint64_t tsc,
			 bool *changes)
{
	const struct place p = find_place(f, space, address, tsc);

	*changes = may_be_generated(&p);
	return *changes ? jit_until(f->session, pid_of(f, space), address, tsc) : UINT64_MAX;
}

/* Bounds */

/* The part of a piece that is in the mapping of the address. */
static void keep_in_map(const struct place *p, struct ptah_function *function)
{
	const uint64_t last = p->map.address + (p->map.size - 1);

	if (function->low < p->map.address)
		function->low = p->map.address;
	if (function->high > last)
		function->high = last == UINT64_MAX ? last : last + 1;
}

static bool find_bounds(struct ptah_functions *f, const struct place *p,
			struct ptah_function *function)
{
	const uint32_t kernel = p->address >= KERNEL_HALF ? PTAH_FUNCTION_KERNEL : 0;
	struct generated g;

	if (p->map.path && *p->map.path == '/' &&
	    ptah_symbols_bounds(f->symbols, p->map.path, file_offset(p), p->address, function)) {
		keep_in_map(p, function);
		function->flags |= kernel;
		return true;
	}
	if (kernel && !is_kernel_function(p) && kernel_bounds(f, p, function))
		return true;
	if (find_generated(f, p, &g)) {
		*function = (struct ptah_function){
		    .low = g.low,
		    .high = g.high,
		    .start = g.code->head,
		    .flags = PTAH_FUNCTION_JIT,
		};
		return true;
	}
	if (!p->map.path)
		return false;
	*function = (struct ptah_function){
	    .high = UINT64_MAX,
	    .flags = kernel | (is_kernel_function(p) ? 0 : PTAH_FUNCTION_SECTION),
	};
	keep_in_map(p, function);
	function->start = function->low;
	return true;
}

/* Versions */

static uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* As nearly always: one file lies at both places, and has since it was mapped. */
static bool is_same_map(const struct place *a, const struct place *b)
{
	return a->map.path && *a->map.path == '/' && a->map.path == b->map.path &&
	       a->map.address - a->map.file_offset == b->map.address - b->map.file_offset;
}

/* A number for what has names at a place: a file at its address, or generated code. 0: nothing. */
static uint64_t identify(struct ptah_functions *f, const struct place *p)
{
	struct generated g;

	if (p->map.path && *p->map.path == '/')
		return hash_text(p->map.path) ^ (p->map.address - p->map.file_offset);
	if (find_generated(f, p, &g))
		return hash_text(symbol_jit_name(g.jit, g.code)) ^ ~g.code->head;
	return 0;
}

/*
 * Which of several functions that were at an address it is. What is looked up without a time is the
 * one of the end, so that all others are versions. Of a session that grows the end is not known.
 */
static uint16_t find_version(struct ptah_functions *f, const struct place *p)
{
	const uint64_t first = f->session->begin ? f->session->begin : 1;
	struct place last;
	uint64_t identity;

	if (!p->tsc || p->address >= KERNEL_HALF || f->session->growth)
		return 0;
	last = find_place(f, p->space, p->address, PTAH_TIME_LAST);
	if (is_same_map(p, &last))
		return 0;
	identity = identify(f, p);
	if (!identity || identity == identify(f, &last))
		return 0;
	return versions_number(f->session->versions, p->space, identity,
			       p->tsc == PTAH_TIME_FIRST ? first : p->tsc);
}

bool ptah_functions_find(struct ptah_functions *f, int32_t space, uint64_t address, uint64_t tsc,
			 struct ptah_function *function)
{
	struct place p;
	bool found;

	if (!f || !function)
		return false;
	p = find_place(f, space, address, tsc);
	pthread_mutex_lock(&f->lock);
	found = find_bounds(f, &p, function);
	function->version = found ? find_version(f, &p) : 0;
	function->reserved = 0;
	pthread_mutex_unlock(&f->lock);
	return found;
}

/* Names */

static void find_name(struct ptah_functions *f, const struct place *p,
		      struct ptah_function_name *name)
{
	struct ptah_symbol symbol;
	struct generated g;

	*name = (struct ptah_function_name){.path = p->map.path, .start = p->address};
	if (p->map.path)
		name->file_offset = file_offset(p);
	if (is_kernel_function(p)) {
		name->name = p->map.path;
		name->named = true;
		name->start = p->map.address;
		return;
	}
	if (p->map.path && *p->map.path == '/' &&
	    ptah_symbols_lookup(f->symbols, p->map.path, name->file_offset, &symbol)) {
		name->name = symbol.name;
		name->named = symbol.named;
		name->start -= name->file_offset - symbol.start;
		name->file_offset = symbol.start;
		return;
	}
	if (p->address >= KERNEL_HALF) {
		kernel_name(f, p, name);
	} else if (find_generated(f, p, &g)) {
		name->name = symbol_jit_name(g.jit, g.code);
		name->named = true;
		name->path = g.path;
		name->start = g.code->head;
		name->file_offset = 0;
	}
}

bool ptah_functions_name(struct ptah_functions *f, int32_t space, uint64_t address, uint64_t tsc,
			 struct ptah_function_name *name)
{
	struct place p;

	if (!f || !name)
		return false;
	p = find_place(f, space, address, tsc);
	pthread_mutex_lock(&f->lock);
	find_name(f, &p, name);
	pthread_mutex_unlock(&f->lock);
	return name->name || name->path;
}

/* Lines */

bool ptah_functions_line(struct ptah_functions *f, int32_t space, uint64_t address, uint64_t tsc,
			 struct ptah_function_line *line)
{
	const char *file = NULL;
	unsigned number = 0;
	struct generated g;
	struct place p;
	bool found;

	if (!f || !line)
		return false;
	p = find_place(f, space, address, tsc);
	pthread_mutex_lock(&f->lock);
	found = find_generated(f, &p, &g) &&
		symbol_jit_line(g.jit, g.code, address - g.code->head, &file, &number);
	pthread_mutex_unlock(&f->lock);
	if (!found || !number)
		return false;
	*line = (struct ptah_function_line){file, number};
	return true;
}
