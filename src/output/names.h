/* SPDX-License-Identifier: MIT */
/*
 * Names for addresses of a session: the function, how far inside, and the
 * file. Looked up once per address and remembered, because blocks repeat.
 */
#ifndef PTAH_OUTPUT_NAMES_H
#define PTAH_OUTPUT_NAMES_H

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

/* Where in which file an address lies; false: nothing is known. */
bool names_find_map(const struct names *names, int32_t pid, uint64_t ip, struct ptah_map *map);

/* Never NULL. Valid until the next call for another process. */
const struct name *names_find(struct names *names, int32_t pid, uint64_t ip);

#endif
