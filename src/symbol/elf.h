/* SPDX-License-Identifier: MIT */
/* The functions of an ELF file: names and ranges of addresses. Internal to the layer symbol. */
#ifndef PTAH_SYMBOL_ELF_H
#define PTAH_SYMBOL_ELF_H

#include "symbol/ranges.h"

#include <ptah/symbol.h>

#include <gelf.h>

/* A malformed header may claim any number of program headers. */
#define SYMBOL_SEGMENTS_MAX 65536

struct symbol_file {
	struct ptah_elf_segment *segments;
	size_t segment_count;
	struct symbol_ranges ranges; /* sorted by address, disjoint */
	struct symbol_names names;
};

/* An open ELF file. */
struct symbol_elf {
	int fd;
	Elf *elf;
};

/* Where debug files are searched. */
struct symbol_folders {
	const char *root;    /* "" for "/" */
	const char *cache;   /* perf's cache of files by build id; NULL: none */
	const char *fetched; /* the file's debug file, which a server has sent; NULL: none */
	struct symbol_debuginfod *servers; /* NULL: none are asked */
};

/*
 * Servers for debug files (debuginfod.c). PTAH_E_UNSUPPORTED: libdebuginfod is not installed.
 * `file` of _get() is what is shown to the user; the result is a path, the caller's to free, or
 * NULL.
 */
int symbol_debuginfod_new(ptah_fetch_progress *progress, void *context,
			  struct symbol_debuginfod **servers);
void symbol_debuginfod_free(struct symbol_debuginfod *servers);

/* What servers have of a build id. */
enum symbol_debuginfod_kind {
	DEBUGINFOD_DEBUGINFO,
	DEBUGINFOD_EXECUTABLE,
	DEBUGINFOD_KINDS
};

char *symbol_debuginfod_get(struct symbol_debuginfod *servers, enum symbol_debuginfod_kind kind,
			    const void *id, size_t id_size, const char *file);

/* Opens an x86-64 ELF file (open.c). False when it is none, or claims absurd sizes. */
bool symbol_elf_open(const char *path, struct symbol_elf *elf);

/* The same, but the file must not shrink until it is closed. */
bool symbol_elf_map(const char *path, struct symbol_elf *elf);
void symbol_elf_close(struct symbol_elf *elf);

/*
 * Reads the functions of the file at `path`. Debug files are searched below
 * folders->root and then below "/". False when it is no x86-64 ELF file.
 */
bool symbol_file_read(const char *path, const struct symbol_folders *folders,
		      struct symbol_file *file);
void symbol_file_free(struct symbol_file *file);

/* Convert a file offset to an address and back. False when it is in no executable segment. */
bool symbol_file_address(const struct symbol_file *file, uint64_t offset, uint64_t *address);
bool symbol_file_offset(const struct symbol_file *file, uint64_t address, uint64_t *offset);

/* Functions of one name, by their offset in the file. */
#define SYMBOL_PLACES_MAX 64
struct symbol_places {
	struct symbol_place {
		uint64_t offset, size; /* size 0: unknown */
	} items[SYMBOL_PLACES_MAX];
	size_t count;
};

/*
 * Finds the functions of a name (find_name.c), at most SYMBOL_PLACES_MAX. Returns
 * how many, or a negative enum ptah_error.
 */
int symbol_file_find(const struct symbol_file *file, const char *path,
		     const struct symbol_folders *folders, const char *name,
		     struct symbol_places *places);

/* Whether it is the symbol of code. */
bool symbol_is_code(Elf *elf, const GElf_Sym *symbol, const char *name);

/*
 * Copies at most n - 1 bytes of the string at `offset` of a string table; "" when
 * there is none. elf_strptr() is not used because it may scan the whole table on
 * each call.
 */
void symbol_string(Elf_Data *table, uint64_t offset, char *text, size_t n);

/* The data of section `index` if it is a string table, or NULL. */
Elf_Data *symbol_string_table(Elf *elf, size_t index);

/* The string table with the names of sections, or NULL. */
Elf_Data *symbol_section_names(Elf *elf);

/* Adds "name@plt" for each entry of the procedure linkage tables (plt.c). */
void symbol_add_plt(Elf *elf, struct symbol_ranges *plt, struct symbol_ranges *tables,
		    const struct symbol_ranges *symbols, struct symbol_names *names);

/*
 * Adds a range with SYMBOL_NO_NAME for each function frame in .eh_frame (frames.c). `linker`: the
 * file is the dynamic linker.
 */
void symbol_add_frames(Elf *elf, bool linker, struct symbol_ranges *ranges);

/* Gives the ranges of frames their names, "fn_" and the address: after symbols have covered most.
 */
void symbol_name_frames(struct symbol_ranges *ranges, struct symbol_names *names);

/* Is it bounded what libdw allocates for the debug information of a file (open.c)? */
bool symbol_dwarf_is_bounded(const struct symbol_elf *elf);

/* Opens the debug file that belongs to `elf`, for its symbols (debug_file.c). */
bool symbol_debug_open(Elf *elf, const char *path, const struct symbol_folders *folders,
		       struct symbol_elf *debug);

/*
 * Opens the file with the debug information of the file at `path`, which may be that file, and sets
 * *found to its path, which the caller frees. 0, PTAH_E_MISSING, PTAH_E_BAD_MAGIC, PTAH_E_LIMIT or
 * PTAH_E_NOMEM.
 */
int symbol_dwarf_open(const char *path, const struct symbol_folders *folders,
		      struct symbol_elf *elf, char **found);

/*
 * Opens the file `name` with the build id `id`, to which dwz has moved what the file at `path` has
 * in common with others.
 */
bool symbol_alt_open(const char *path, const struct symbol_folders *folders, const char *name,
		     const void *id, size_t id_size, struct symbol_elf *elf);

/* qsort()s ranges that are nested, so that symbol_ranges_flatten() gives the innermost (debug.c).
 */
int symbol_compare_nested(const void *a, const void *b);

#endif
