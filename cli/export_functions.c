/* SPDX-License-Identifier: MIT */
/* Names functions for timelines, with strings that are valid UTF-8 (export_functions.h). */
#include "export_functions.h"

#include "export/utf8.h"
#include "support/index.h"
#include "support/list.h"

#include <ptah/base.h>

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct known {
	uint64_t address;
	int32_t space;
	bool wanted;
	bool generated;	    /* code that was generated: another function may come to this place */
	const char *symbol; /* as the names have it */
	struct known *past; /* the function that was there before */
	struct timeline_function function;
};

struct export_functions {
	struct names *names;
	const char *wanted;
	struct known **list; /* for each place the function that was there last */
	size_t place_count, room;
	struct index index; /* of the list, by place */
	uint32_t count;
	void *strings; /* a tree (search.h) */
};

int export_functions_new(struct names *names, const char *wanted,
			 struct export_functions **functions)
{
	struct export_functions *f = calloc(1, sizeof(*f));

	*functions = f;
	if (!f)
		return PTAH_E_NOMEM;
	f->names = names;
	f->wanted = wanted;
	return 0;
}

void export_functions_free(struct export_functions *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->place_count; i++) {
		while (f->list[i]) {
			struct known *past = f->list[i]->past;

			free(f->list[i]);
			f->list[i] = past;
		}
	}
	free(f->list);
	index_free(&f->index);
	tdestroy(f->strings, free);
	free(f);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The string with this text. NULL: out of memory. */
static const char *keep_export_string(struct export_functions *f, const char *text)
{
	char *copy = utf8_copy(text);
	char **found = copy ? tsearch(copy, &f->strings, compare) : NULL;

	if (!found || *found != copy)
		free(copy);
	return found ? *found : NULL;
}

/* Fills in what the names say. False: out of memory. */
static bool describe(struct export_functions *f, struct known *k, const struct name *name)
{
	struct timeline_function *function = &k->function;
	struct ptah_line line;
	char address[32];

	k->generated = name->generated;
	k->symbol = name->symbol;
	k->wanted = !f->wanted || names_is(f->names, name, f->wanted);
	snprintf(address, sizeof(address), "0x%" PRIx64, k->address);
	function->name = keep_export_string(f, name->symbol ? name->symbol : address);
	function->object = keep_export_string(f, name->dso);
	function->kernel = k->address >> 63;
	if (names_line(f->names, name, &line) && line.file) {
		function->file = keep_export_string(f, line.file);
		function->line = line.line;
	}
	return function->name && function->object;
}

/* A function that is met for the first time. NULL: out of memory. */
static struct known *add_known_function(struct export_functions *f, int32_t space, uint64_t address)
{
	struct known *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->address = address;
	k->space = space;
	if (!describe(f, k, names_find(f->names, space, address))) {
		free(k);
		return NULL;
	}
	k->function.id = ++f->count;
	return k;
}

const struct timeline_function *export_function(struct export_functions *f, int32_t space,
						uint64_t address, bool *is_wanted)
{
	struct known *k, *past;
	uint32_t hash, n;

	if (!index_reserve(&f->index) || !LIST_ROOM(f->list, f->place_count, f->room))
		return NULL;
	hash = index_hash(&f->index, (uint32_t)space, address);
	INDEX_FIND(n, &f->index, hash,
		   f->list[n - 1]->address == address && f->list[n - 1]->space == space);
	k = past = n ? f->list[n - 1] : NULL;
	if (!k || (k->generated && names_find(f->names, space, address)->symbol != k->symbol)) {
		k = add_known_function(f, space, address);
		if (!k)
			return NULL;
		k->past = past;
		if (!n)
			index_add(&f->index, hash, n = (uint32_t)++f->place_count);
		f->list[n - 1] = k;
	}
	*is_wanted = k->wanted;
	return &k->function;
}
