/* SPDX-License-Identifier: MIT */
/*
 * Separate debug files, as Debian's -dbgsym packages install them: by build id
 * below /usr/lib/debug/.build-id, or by the name in .gnu_debuglink. Only files
 * of this machine: nothing here asks a server.
 */
#include "symbol/elf.h"

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_build_id(Elf *elf, const void *id, ssize_t size)
{
	const void *other;

	return dwelf_elf_gnu_build_id(elf, &other) == size && memcmp(other, id, (size_t)size) == 0;
}

/* Opens `path` if it has the build id. Takes `path`, which may be NULL. */
static bool try_open(char *path, const void *id, ssize_t size, struct symbol_elf *debug)
{
	bool found = path && symbol_elf_open(path, debug);

	free(path);
	if (found && !same_build_id(debug->elf, id, size)) {
		symbol_elf_close(debug);
		found = false;
	}
	return found;
}

static char *build_id_path(const char *root, const uint8_t *id, ssize_t size)
{
	char hex[2 * 64 + 1], *path;

	if (size < 2 || size > 64)
		return NULL;
	for (ssize_t i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	if (asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, hex, hex + 2) < 0)
		return NULL;
	return path;
}

/* The i-th place where a debug link points to; `path` is the file that has it. */
static char *link_path(unsigned i, const char *root, const char *path, const char *link)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) : 0, n;
	size_t inside = strlen(root);
	char *place;

	if (!slash || strncmp(path, root, inside) != 0)
		inside = 0;
	if (i == 0)
		n = asprintf(&place, "%.*s/%s", folder, path, link);
	else if (i == 1)
		n = asprintf(&place, "%.*s/.debug/%s", folder, path, link);
	else
		n = asprintf(&place, "%s/usr/lib/debug%.*s/%s", root, folder - (int)inside,
			     path + inside, link);
	return n < 0 ? NULL : place;
}

bool symbol_debug_open(Elf *elf, const char *path, const char *root, struct symbol_elf *debug)
{
	const void *id;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
	const char *link;
	GElf_Word crc;

	/* Without a build id nothing proves that a file belongs to this one. */
	if (size <= 0)
		return false;
	if (try_open(build_id_path(root, id, size), id, size, debug) ||
	    (*root && try_open(build_id_path("", id, size), id, size, debug)))
		return true;
	link = dwelf_elf_gnu_debuglink(elf, &crc);
	if (!link || !*link || strchr(link, '/'))
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (try_open(link_path(i, root, path, link), id, size, debug))
			return true;
	return false;
}
