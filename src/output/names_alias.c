/* SPDX-License-Identifier: MIT */
/*
 * Functions by any of the names that they have in their file: fork() of the C library is __fork
 * where it is shown, and what a linker has folded into one has several names.
 */
#include "output/names_internal.h"

#include <stdlib.h>
#include <string.h>

/* Where the functions of one name begin in a file. */
struct alias {
	struct alias *next;
	size_t count;
	const char *function; /* the end of `path` */
	uint64_t *places;
	char path[];
};

/* More functions of one name in a file are not looked for. */
#define MOST_PLACES 256

static void find_places(struct ptah_symbols *symbols, struct alias *a)
{
	struct ptah_symbol symbol;
	const int n = ptah_symbols_find(symbols, a->path, a->function, 0, &symbol);
	const size_t count = n < 0 ? 0 : n < MOST_PLACES ? (size_t)n : MOST_PLACES;

	a->places = count ? calloc(count, sizeof(*a->places)) : NULL;
	for (unsigned i = 0; a->places && i < count; i++)
		if (ptah_symbols_find(symbols, a->path, a->function, i, &symbol) > 0)
			a->places[a->count++] = symbol.start;
}

/* NULL: out of memory. */
static const struct alias *find_alias(struct names *n, const char *path, const char *function)
{
	const size_t length = strlen(path) + 1;
	struct alias *a = n->aliases;

	while (a && (strcmp(a->path, path) != 0 || strcmp(a->function, function) != 0))
		a = a->next;
	if (a)
		return a;
	a = calloc(1, sizeof(*a) + length + strlen(function) + 1);
	if (!a)
		return NULL;
	memcpy(a->path, path, length);
	a->function = strcpy(a->path + length, function);
	find_places(n->symbols, a);
	a->next = n->aliases;
	n->aliases = a;
	return a;
}

bool names_is_alias(struct names *n, const char *path, uint64_t start, const char *function)
{
	const struct alias *a = path[0] == '/' ? find_alias(n, path, function) : NULL;

	for (size_t i = 0; a && i < a->count; i++)
		if (a->places[i] == start)
			return true;
	return false;
}

void names_free_aliases(struct names *n)
{
	for (struct alias *a = n->aliases, *next; a; a = next) {
		next = a->next;
		free(a->places);
		free(a);
	}
}
