/* SPDX-License-Identifier: MIT */
/* What names.c and names_files.c share. */
#ifndef PTAH_OUTPUT_NAMES_INTERNAL_H
#define PTAH_OUTPUT_NAMES_INTERNAL_H

#include "output/names.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

struct names {
	const struct ptah_session *session;
	struct ptah_symbols *symbols;
	int32_t pid;
	struct name *table; /* a hash table by ip, open addressing; dso NULL: the slot is free */
	size_t capacity, count;
	struct name fallback;
	struct clean *cleaned;
	bool keep_mangled, show_all, fetches;
	void *demangled; /* tsearch() tree of struct demangled */
	struct alias *aliases;
	char *symfs, *cache; /* cache: perf's, or NULL */
	struct known_id *ids;
	struct file_copy *copies;
	const struct ptah_counts *counts;
	const struct ptah_counts_file *
	    *changed; /* of the counts' files, sorted by address in memory */
	size_t changed_count;
	const char **changed_paths;
	size_t changed_path_count;
	struct names_kernel kernel;
	bool kernel_read;		  /* its symbols have been read, or cannot be read */
	struct ptah_functions *functions; /* for generated code; NULL: not needed yet */
	uint64_t tsc;			  /* see names_set_time() */
	void *kept;			  /* names_keep(): a tsearch() tree of char * */
};

/* Linux on x86-64 uses the upper half of the addresses. */
#define NAMES_KERNEL_HALF (UINT64_C(1) << 63)

/* names_kernel.c: gives an address of the kernel its name. `map` is NULL if it is in none. */
void names_look_up_kernel(struct names *n, const struct ptah_map *map, struct name *name);

/* Sets the build id of a file of counts, if it is the kernel. */
void names_set_kernel_id(const struct names *n, struct ptah_counts_file *file);

/* Whether this file of the counts was another kernel than the one whose symbols are known. */
bool names_is_other_kernel(const struct names *n, const struct ptah_counts_file *file);

struct build_id {
	int size; /* 0: none */
	uint8_t bytes[PTAH_BUILD_ID_MAX];
};

/* The build id that a file has now. */
struct known_id {
	struct known_id *next;
	const char *path; /* compared as a pointer: the session's string, or that of a map */
	struct build_id id;
};

/* A file of counts that is missing or another one now, and where a copy of it is. */
struct file_copy {
	struct file_copy *next;
	const char *path;
	char *local;
};

/* A path with characters that must not reach a terminal, and the text that is shown for it. */
struct clean {
	struct clean *next;
	const char *path;
	char text[];
};

/* `path` without characters that must not reach a terminal: nearly always `path` itself. */
const char *names_shown(struct names *names, const char *path);

/* Where a copy of the file is. NULL: there is none, or none is needed. A ptah_symbols_locator. */
const char *names_find_copy(void *names, const char *path);
void names_free_copies(struct names *names);

/* The session's functions, which are made when they are needed first. NULL: there are none. */
struct ptah_functions *names_functions(struct names *names);

/* The only copy of text[0..n). It lives as long as the names. NULL when out of memory. */
const char *names_keep(struct names *names, const char *text, size_t n);

/* names_alias.c */
void names_free_aliases(struct names *names);

/* Whether this file of the counts has changed since it ran. */
bool names_is_changed(const struct names *names, const struct ptah_counts_file *file);

#endif
