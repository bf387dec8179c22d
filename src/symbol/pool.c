/* SPDX-License-Identifier: MIT */
/* Strings that live as long as the resolver, each kept once: names of source files and functions.
 */
#include "base/text.h"
#include "symbol/debug.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct symbol_pool {
	void *strings; /* tsearch() tree */
	size_t used;
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct symbol_pool *symbol_pool_new(void)
{
	return calloc(1, sizeof(struct symbol_pool));
}

void symbol_pool_free(struct symbol_pool *pool)
{
	if (!pool)
		return;
	tdestroy(pool->strings, free);
	free(pool);
}

const char *symbol_pool_keep(struct symbol_pool *pool, const char *text)
{
	char *copy = strdup(text), **node;
	size_t n = strlen(text) + 64; /* with what malloc() and tsearch() add */

	if (!copy || n > SYMBOL_NAMES_MAX - pool->used) {
		free(copy);
		return NULL;
	}
	text_clean(copy);
	node = tsearch(copy, &pool->strings, compare);
	if (!node || *node != copy)
		free(copy);
	else
		pool->used += n;
	return node ? *node : NULL;
}
