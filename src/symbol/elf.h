/* SPDX-License-Identifier: MIT */
/* What an ELF file says about its functions. */
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
	struct symbol_ranges ranges; /* by address, disjoint */
	struct symbol_names names;
};

/* An open ELF file. */
struct symbol_elf {
	int fd;
	Elf *elf;
};

/* Opens an x86-64 ELF file; false when it is none or claims absurd sizes (open.c). */
bool symbol_elf_open(const char *path, struct symbol_elf *elf);
void symbol_elf_close(struct symbol_elf *elf);

/*
 * Reads all there is to know about the file at `path`; debug files are looked
 * for below `root` and then below "/". False when it is no x86-64 ELF file.
 */
bool symbol_file_read(const char *path, const char *root, struct symbol_file *file);
void symbol_file_free(struct symbol_file *file);

/* Between places in the file and addresses; false when no executable segment holds it. */
bool symbol_file_address(const struct symbol_file *file, uint64_t offset, uint64_t *address);
bool symbol_file_offset(const struct symbol_file *file, uint64_t address, uint64_t *offset);

/* Places in a file, by offset. */
#define SYMBOL_PLACES_MAX 64
struct symbol_places {
	struct symbol_place {
		uint64_t offset, size; /* size 0: not told */
	} items[SYMBOL_PLACES_MAX];
	size_t count;
};

/*
 * Where functions of that name begin (find_name.c), the first SYMBOL_PLACES_MAX.
 * Returns how many, or a negative enum ptah_error.
 */
int symbol_file_find(const struct symbol_file *file, const char *path, const char *root,
		     const char *name, struct symbol_places *places);

/* Does the symbol name code? */
bool symbol_is_code(const GElf_Sym *symbol, const char *name);

/*
 * The string at `offset` of a string table, copied with at most n - 1 bytes;
 * "" when there is none. elf_strptr() may look at the whole table each time.
 */
void symbol_string(Elf_Data *table, uint64_t offset, char *text, size_t n);

/* The string table that is section `index`, or NULL. */
Elf_Data *symbol_string_table(Elf *elf, size_t index);

/* The table of the sections' names, or NULL. */
Elf_Data *symbol_section_names(Elf *elf);

/* Adds "name@plt" for each entry of the procedure linkage tables (plt.c). */
void symbol_add_plt(Elf *elf, struct symbol_ranges *plt, struct symbol_ranges *tables,
		    const struct symbol_ranges *symbols, struct symbol_names *names);

/* Adds a range without a name for each function frame in .eh_frame (frames.c). */
void symbol_add_frames(Elf *elf, struct symbol_ranges *ranges, struct symbol_names *names);

/* Opens the debug file that belongs to `elf` (debug_file.c). */
bool symbol_debug_open(Elf *elf, const char *path, const char *root, struct symbol_elf *debug);

#endif
