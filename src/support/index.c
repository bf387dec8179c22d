/* SPDX-License-Identifier: MIT */
/* Open addressing with linear probing (index.h); at most half of the slots are in use. */
#include "support/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define FIRST_CAPACITY 64

void make_hash_secret(uint64_t secret[2])
{
	/* 16 random bytes that the kernel gives to each process. */
	memcpy(secret, (const void *)getauxval(AT_RANDOM), 2 * sizeof(*secret));
	secret[1] |= 1;
}

static void put_slot(struct index *x, struct index_slot slot)
{
	size_t i = slot.hash & (x->capacity - 1);

	while (x->slots[i].number)
		i = (i + 1) & (x->capacity - 1);
	x->slots[i] = slot;
}

bool index_reserve(struct index *x)
{
	struct index more = *x;

	if (x->count < x->capacity / 2)
		return true;
	more.capacity = x->capacity ? 2 * x->capacity : FIRST_CAPACITY;
	more.slots = calloc(more.capacity, sizeof(*more.slots));
	if (!more.slots)
		return false;
	if (!x->capacity)
		make_hash_secret(more.secret);
	for (size_t i = 0; i < x->capacity; i++)
		if (x->slots[i].number)
			put_slot(&more, x->slots[i]);
	free(x->slots);
	*x = more;
	return true;
}

void index_add(struct index *x, uint32_t hash, uint32_t number)
{
	put_slot(x, (struct index_slot){hash, number});
	x->count++;
}

void index_clear(struct index *x)
{
	if (x->capacity)
		memset(x->slots, 0, x->capacity * sizeof(*x->slots));
	x->count = 0;
}

void index_free(struct index *x)
{
	free(x->slots);
	*x = (struct index){0};
}

uint32_t index_hash_bytes(const struct index *x, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t hash = n, word = 0;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = hash_with(x->secret, hash ^ word);
	}
	word = 0;
	if (n)
		memcpy(&word, p, n);
	return (uint32_t)hash_with(x->secret, hash ^ word);
}
