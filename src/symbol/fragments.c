/* SPDX-License-Identifier: MIT */
/* Finds the functions that fragments belong to (fragments.h). */
#include "symbol/fragments.h"

#include "base/order.h"
#include "support/list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool symbol_is_fragment(const char *name, size_t *length)
{
	static const char suffix[] = ".cold";
	size_t n = strlen(name), k = n;

	while (k && isdigit((unsigned char)name[k - 1]))
		k--;
	if (k < n && k && name[k - 1] == '.')
		n = k - 1;
	if (n < sizeof(suffix) || memcmp(name + n - strlen(suffix), suffix, strlen(suffix)) != 0)
		return false;
	*length = n - strlen(suffix);
	return true;
}

static void want(struct symbol_parents *p, size_t name, uint64_t group)
{
	if (!LIST_ROOM(p->items, p->count, p->room)) {
		p->failed = true;
		return;
	}
	p->items[p->count++] = (struct symbol_parent){.name = name, .group = group};
}

void symbol_parents_want(struct symbol_parents *p, const char *fragment, uint64_t group)
{
	size_t length, name;

	if (!symbol_is_fragment(fragment, &length))
		return;
	name = symbol_names_add(&p->names, fragment, "");
	if (p->names.failed)
		return;
	p->names.bytes[name + length] = '\0';
	if (group != SYMBOL_GROUP_GLOBAL)
		want(p, name, group);
	want(p, name, SYMBOL_GROUP_GLOBAL);
}

static int compare_parents(const void *a, const void *b, void *names)
{
	const struct symbol_parent *x = a, *y = b;
	int order = strcmp((const char *)names + x->name, (const char *)names + y->name);

	if (order)
		return order;
	return COMPARE(x->group, y->group);
}

void symbol_parents_sort(struct symbol_parents *p)
{
	size_t kept = 0;

	if (!p->count)
		return;
	qsort_r(p->items, p->count, sizeof(*p->items), compare_parents, p->names.bytes);
	for (size_t i = 0; i < p->count; i++)
		if (!i || compare_parents(&p->items[kept - 1], &p->items[i], p->names.bytes) != 0)
			p->items[kept++] = p->items[i];
	p->count = kept;
}

/* The entry of the first `length` bytes of a name and of a group, or NULL. */
static struct symbol_parent *find_parent_entry(const struct symbol_parents *p, const char *name,
					       size_t length, uint64_t group)
{
	size_t low = 0, high = p->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct symbol_parent *entry = &p->items[middle];
		const char *other = p->names.bytes + entry->name;
		int order = strncmp(name, other, length);

		if (!order && other[length])
			order = -1;
		if (!order)
			order = COMPARE(group, entry->group);
		if (!order)
			return entry;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

void symbol_parents_offer(struct symbol_parents *p, const char *name, uint64_t group,
			  uint64_t address)
{
	struct symbol_parent *entry = find_parent_entry(p, name, strlen(name), group);

	/* Two symbols of one address are one function. */
	if (!entry || (entry->found && entry->address == address))
		return;
	entry->address = address;
	entry->found++;
}

uint64_t symbol_parents_find(const struct symbol_parents *p, const char *fragment, uint64_t group)
{
	const struct symbol_parent *entry;
	size_t length;

	if (!symbol_is_fragment(fragment, &length))
		return 0;
	entry = find_parent_entry(p, fragment, length, group);
	if (!entry || !entry->found)
		entry = find_parent_entry(p, fragment, length, SYMBOL_GROUP_GLOBAL);
	return entry && entry->found == 1 ? entry->address : 0;
}

void symbol_parents_free(struct symbol_parents *p)
{
	free(p->items);
	free(p->names.bytes);
	*p = (struct symbol_parents){0};
}
