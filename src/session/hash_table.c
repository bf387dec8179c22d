/* SPDX-License-Identifier: MIT */
/* Open hashing with linear probing, for numbers and for strings. */
#include "session/hash_table.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

#define FREE SIZE_MAX

static struct table_entry *table_slot(const struct table *t, uint32_t key)
{
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (t->capacity - 1);

	while (t->entries[i].value != FREE && t->entries[i].key != key)
		i = (i + 1) & (t->capacity - 1);
	return &t->entries[i];
}

size_t table_get(const struct table *t, uint32_t key)
{
	return t->capacity ? table_slot(t, key)->value : FREE;
}

static int table_grow(struct table *t)
{
	struct table bigger = {NULL, t->capacity ? 2 * t->capacity : 16, t->count};

	bigger.entries = malloc(bigger.capacity * sizeof(*bigger.entries));
	if (!bigger.entries)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < bigger.capacity; i++)
		bigger.entries[i].value = FREE;
	for (size_t i = 0; i < t->capacity; i++)
		if (t->entries[i].value != FREE)
			*table_slot(&bigger, t->entries[i].key) = t->entries[i];
	free(t->entries);
	*t = bigger;
	return 0;
}

int table_set(struct table *t, uint32_t key, size_t value)
{
	struct table_entry *entry;

	if (2 * (t->count + 1) > t->capacity) {
		int status = table_grow(t);

		if (status < 0)
			return status;
	}
	entry = table_slot(t, key);
	t->count += entry->value == FREE;
	*entry = (struct table_entry){key, value};
	return 0;
}

void table_free(struct table *t)
{
	free(t->entries);
	*t = (struct table){0};
}

static char **strings_slot(const struct strings *s, const char *text, size_t n)
{
	uint64_t hash = 0;
	size_t i;

	for (i = 0; i < n; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
	i = (size_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->capacity - 1);
	while (s->entries[i] && (strncmp(s->entries[i], text, n) != 0 || s->entries[i][n]))
		i = (i + 1) & (s->capacity - 1);
	return &s->entries[i];
}

static int strings_grow(struct strings *s)
{
	struct strings bigger = {NULL, s->capacity ? 2 * s->capacity : 64, s->count};

	bigger.entries = calloc(bigger.capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->capacity; i++)
		if (s->entries[i])
			*strings_slot(&bigger, s->entries[i], strlen(s->entries[i])) =
			    s->entries[i];
	free(s->entries);
	*s = bigger;
	return 0;
}

const char *strings_keep(struct strings *s, const char *text, size_t n)
{
	char **slot;

	n = strnlen(text, n);
	if (2 * (s->count + 1) > s->capacity && strings_grow(s) < 0)
		return NULL;
	slot = strings_slot(s, text, n);
	if (!*slot) {
		*slot = strndup(text, n);
		s->count += *slot != NULL;
	}
	return *slot;
}

void strings_free(struct strings *s)
{
	for (size_t i = 0; i < s->capacity; i++)
		free(s->entries[i]);
	free(s->entries);
	*s = (struct strings){0};
}
