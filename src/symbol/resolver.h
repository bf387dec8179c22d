/* SPDX-License-Identifier: MIT */
/* What a resolver knows, for the files that answer its questions. Internal to the layer symbol. */
#ifndef PTAH_SYMBOL_RESOLVER_H
#define PTAH_SYMBOL_RESOLVER_H

#include "symbol/debug.h"
#include "symbol/go.h"
#include "symbol/kernel.h"

struct symbol_binary {
	char *path; /* as the caller gave it */
	struct symbol_file file;
	bool debug_read;
	struct symbol_debug debug; /* read when the first line is asked for */
	bool go_read, has_go;	   /* Go's table has been looked for, and is there */
	struct symbol_elf go_file;
	struct symbol_go go;
	bool asked;		   /* the servers have been asked for its debug file */
	char *fetched;		   /* where that is now; NULL: nowhere */
	struct symbol_file before; /* without it: names that callers may still have */
};

struct ptah_symbols {
	char *root;		      /* symfs, "" for "/" */
	char *cache;		      /* perf's, or NULL */
	ptah_symbols_locator *locate; /* or NULL */
	void *locate_context;
	struct symbol_debuginfod *servers; /* NULL: none are asked */
	void *entries;			   /* tsearch() tree of struct symbol_binary by path */
	struct symbol_binary *last;	   /* callers look up one file many times in a row */
	struct symbol_kernel kernel;
	char *kernel_lines; /* the file that has them; NULL: none */
	uint64_t kernel_slide;
	struct symbol_pool *pool;
};

/* The entry of a path. The file is read on the first call. NULL when out of memory. */
struct symbol_binary *symbol_find_binary(struct ptah_symbols *symbols, const char *path);

/* Where its debug files are searched. */
struct symbol_folders symbol_folders_of(const struct ptah_symbols *symbols,
					const struct symbol_binary *binary);

/* Asks the servers for the debug file, once. True: it is there now, and the file is read anew. */
bool symbol_fetch(struct ptah_symbols *symbols, struct symbol_binary *binary);

/*
 * The path of the file on this machine; NULL when there is none, or no memory. The caller frees
 * it.
 */
char *symbol_local_path(const struct ptah_symbols *symbols, const char *path);

/* The debug information of a file, which is opened on the first call. *status says why not
 * (lines.c). */
struct symbol_debug *symbol_find_debug(struct ptah_symbols *symbols, const char *path, int *status);

#endif
