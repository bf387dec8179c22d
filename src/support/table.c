/* SPDX-License-Identifier: MIT */
/* Open addressing with linear probing, for numbers; strings are found by an index. */
#include "support/table.h"

#include "support/index.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

#define FREE SIZE_MAX

static struct table_entry *table_slot(const struct table *t, uint64_t key)
{
	size_t i = (size_t)hash_with(t->secret, key) & (t->capacity - 1);

	while (t->entries[i].value != FREE && t->entries[i].key != key)
		i = (i + 1) & (t->capacity - 1);
	return &t->entries[i];
}

size_t table_get(const struct table *t, uint64_t key)
{
	return t->capacity ? table_slot(t, key)->value : FREE;
}

static int table_grow(struct table *t)
{
	struct table bigger = *t;

	bigger.capacity = t->capacity ? 2 * t->capacity : 16;
	bigger.entries = malloc(bigger.capacity * sizeof(*bigger.entries));
	if (!bigger.entries)
		return PTAH_E_NOMEM;
	if (!t->capacity)
		make_hash_secret(bigger.secret);
	for (size_t i = 0; i < bigger.capacity; i++)
		bigger.entries[i].value = FREE;
	for (size_t i = 0; i < t->capacity; i++)
		if (t->entries[i].value != FREE)
			*table_slot(&bigger, t->entries[i].key) = t->entries[i];
	free(t->entries);
	*t = bigger;
	return 0;
}

int table_set(struct table *t, uint64_t key, size_t value)
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

uint32_t table_number(struct table *t, uint64_t key, uint32_t most, bool *is_new)
{
	const size_t known = table_get(t, key);

	*is_new = false;
	if (known != FREE)
		return (uint32_t)known;
	if (t->count >= most || table_set(t, key, t->count + 1) < 0)
		return 0;
	*is_new = true;
	return (uint32_t)t->count;
}

void table_free(struct table *t)
{
	free(t->entries);
	*t = (struct table){0};
}

static bool is_text(const char *known, const char *text, size_t n)
{
	return !strncmp(known, text, n) && !known[n];
}

const char *strings_keep(struct strings *s, const char *text, size_t n)
{
	uint32_t hash, number;
	char *copy;

	n = strnlen(text, n);
	if (!index_reserve(&s->index) || !LIST_ROOM(s->list, s->count, s->room))
		return NULL;
	hash = index_hash_bytes(&s->index, text, n);
	INDEX_FIND(number, &s->index, hash, is_text(s->list[number - 1], text, n));
	if (number)
		return s->list[number - 1];
	copy = s->count < UINT32_MAX ? strndup(text, n) : NULL;
	if (copy) {
		s->list[s->count++] = copy;
		index_add(&s->index, hash, (uint32_t)s->count);
	}
	return copy;
}

void strings_free(struct strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i]);
	free(s->list);
	index_free(&s->index);
	*s = (struct strings){0};
}
