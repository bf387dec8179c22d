/* SPDX-License-Identifier: MIT */
/* A hash table of addresses (interned.h). */
#include "export/interned.h"

#include <stdlib.h>

static size_t slot_of(const struct interned *in, const void *key)
{
	const uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(hash >> 32) & (in->capacity - 1);

	while (in->keys[i] && in->keys[i] != key)
		i = (i + 1) & (in->capacity - 1);
	return i;
}

static bool grow(struct interned *in)
{
	struct interned more = {.capacity = in->capacity ? 2 * in->capacity : 256,
				.count = in->count};

	more.keys = calloc(more.capacity, sizeof(*more.keys));
	more.numbers = calloc(more.capacity, sizeof(*more.numbers));
	if (!more.keys || !more.numbers) {
		interned_free(&more);
		return false;
	}
	for (size_t i = 0; i < in->capacity; i++) {
		if (in->keys[i]) {
			const size_t slot = slot_of(&more, in->keys[i]);

			more.keys[slot] = in->keys[i];
			more.numbers[slot] = in->numbers[i];
		}
	}
	interned_free(in);
	*in = more;
	return true;
}

uint32_t interned_number(struct interned *in, const void *key, uint32_t most, bool *is_new)
{
	size_t slot;

	*is_new = false;
	if (2 * ((size_t)in->count + 1) > in->capacity && in->count < most && !grow(in))
		return 0;
	slot = slot_of(in, key);
	if (in->keys[slot])
		return in->numbers[slot];
	if (in->count >= most)
		return 0;
	*is_new = true;
	in->keys[slot] = key;
	in->numbers[slot] = ++in->count;
	return in->count;
}

void interned_free(struct interned *in)
{
	free(in->keys);
	free(in->numbers);
	*in = (struct interned){0};
}
