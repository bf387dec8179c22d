/* SPDX-License-Identifier: MIT */
/*
 * Names for addresses of a session: the function, how far inside, and the
 * file. Looked up once per address and remembered, because blocks repeat.
 */
#ifndef PTAH_OUTPUT_NAMES_H
#define PTAH_OUTPUT_NAMES_H

#include <ptah/counts.h>
#include <ptah/session.h>
#include <ptah/symbol.h>

struct name {
	uint64_t ip;
	const char *symbol; /* NULL: not known */
	uint64_t offset;    /* from the symbol's start */
	const char *path;   /* NULL: not known */
	const char *dso;    /* the path's last part; "[unknown]" */
	uint64_t start;	    /* address where the function begins; ip if not known */
	bool named;	    /* the symbol is a real one */
};

struct names;

/* Without a session (NULL) only what is added below is known. */
int names_new(const struct ptah_session *session, const char *symfs, struct names **names);
void names_free(struct names *names);

/* For sessions that know no mappings: `path` from `file_offset` on lies at `address`. */
int names_add_map(struct names *names, uint64_t address, uint64_t size, uint64_t file_offset,
		  const char *path);

/*
 * The same for an ELF file, mapped as ptah_image_add_elf() does it. Files that
 * are none are left out.
 */
int names_add_elf(struct names *names, const char *path, uint64_t base);

/*
 * What holds an address, with the build id of the file as it is now: as
 * ptah_counts_locate() wants it, with the names as its context.
 */
bool names_find_file(void *names, int32_t pid, uint64_t address, struct ptah_counts_file *file);

/*
 * Takes the files from counts, which must live as long: what is a pid below is
 * then the number of one of their processes. A file whose build id is another
 * one now gives no names, unless `force`. PTAH_E_NOMEM.
 */
int names_use_counts(struct names *names, const struct ptah_counts *counts, bool force);

/* The paths of those files, each once. NULL when i is out of range. */
const char *names_changed_file(const struct names *names, size_t i);

/* Where in which file an address lies; false: nothing is known. */
bool names_find_map(const struct names *names, int32_t pid, uint64_t ip, struct ptah_map *map);

/* Never NULL. Valid until the next call for another process. */
const struct name *names_find(struct names *names, int32_t pid, uint64_t ip);

#endif
