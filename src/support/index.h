/* SPDX-License-Identifier: MIT */
/*
 * Finds entries of a list by their keys: a table from hashes to the entries' numbers, which begin
 * with 1. The list is its owner's, and so is the comparison of keys:
 *
 *	if (!index_reserve(&t->index))
 *		return 0;
 *	hash = index_hash(&t->index, pid, address);
 *	INDEX_FIND(n, &t->index, hash, t->rows[n - 1].pid == pid && ...);
 *	if (!n) {
 *		t->rows[t->count++] = ...;
 *		index_add(&t->index, hash, n = t->count);
 *	}
 *
 * Keys come from recordings, and these from strangers: the hash has a secret, so that nobody can
 * make a file whose keys all meet in one place. It differs from process to process; the order of
 * what a program prints must come from the list. All 0: empty.
 */
#ifndef PTAH_SUPPORT_INDEX_H
#define PTAH_SUPPORT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index {
	struct index_slot {
		uint32_t hash, number; /* number 0: free */
	} * slots;
	size_t capacity, count; /* capacity: 0 or a power of two */
	uint64_t secret[2];
};

/* Makes room for one more number, and before the first one the secret. False: out of memory. */
bool index_reserve(struct index *x);
/* There must be room. A hash is that of the table only after the first index_reserve(). */
void index_add(struct index *x, uint32_t hash, uint32_t number);
/* Forgets all numbers; the room stays. */
void index_clear(struct index *x);
void index_free(struct index *x);

/* The two halves of a product of 128 bits, xored: each bit of the key may change each bit. */
static inline uint64_t hash_with(const uint64_t secret[2], uint64_t key)
{
	const unsigned __int128 product = (unsigned __int128)(key ^ secret[0]) * secret[1];

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t index_hash(const struct index *x, uint64_t a, uint64_t b)
{
	return (uint32_t)hash_with(x->secret, hash_with(x->secret, a) ^ b);
}

uint32_t index_hash_bytes(const struct index *x, const void *bytes, size_t n);

/* The next number that was added with this hash, from *probe on, which is 0 at first. 0: none. */
static inline uint32_t index_next(const struct index *x, uint32_t hash, size_t *probe)
{
	while (x->capacity) {
		const struct index_slot *slot = &x->slots[(hash + (*probe)++) & (x->capacity - 1)];

		if (!slot->number || slot->hash == hash)
			return slot->number;
	}
	return 0;
}

/* Leaves the number for which `is_it`, an expression of `n`, is true, or 0, in `n`. */
#define INDEX_FIND(n, x, hash, is_it)                                                              \
	do {                                                                                       \
		size_t index_probe = 0;                                                            \
                                                                                                   \
		do                                                                                 \
			(n) = index_next((x), (hash), &index_probe);                               \
		while ((n) && !(is_it));                                                           \
	} while (0)

/* For other tables whose keys come from strangers. */
void make_hash_secret(uint64_t secret[2]);

#endif
