/* SPDX-License-Identifier: MIT */
/*
 * The path hash: one number for the sequence of instructions a thread ran.
 *
 * The path is cut into runs: maximal stretches in which each instruction
 * begins where the one before it ends. Runs depend on the addresses alone, not
 * on how a recorder or decoder cuts its blocks nor on why control moved, so
 * that independent producers get the same number. For each run, its first
 * address and the address after its last instruction are mixed into the hash.
 * A rep instruction is one instruction. Freestanding.
 */
#ifndef PTAH_BASE_PATH_HASH_H
#define PTAH_BASE_PATH_HASH_H

#include "base/bits.h"
#include "base/hash.h"

struct path_hash {
	uint64_t hash;
	uint64_t start; /* of the open run */
	uint64_t end;	/* the address after it; start == end: no run is open */
};

/* A run as one number. The constant is 2^64 divided by the golden ratio, made odd. */
static inline uint64_t path_hash_key(uint64_t start, uint64_t end)
{
	return hash_number(start) + end;
}

static inline uint64_t path_hash_mix_key(uint64_t hash, uint64_t key)
{
	/* A 64-bit prime. */
	return rotate_left((hash ^ key) * UINT64_C(0xd6e8feb86659fd93), 31);
}

static inline uint64_t path_hash_mix(uint64_t hash, uint64_t start, uint64_t end)
{
	return path_hash_mix_key(hash, path_hash_key(start, end));
}

/* The instructions in [start, end), start < end, ran next. */
static inline void path_hash_add(struct path_hash *p, uint64_t start, uint64_t end)
{
	if (start != p->end || p->start == p->end) {
		if (p->start != p->end)
			p->hash = path_hash_mix(p->hash, p->start, p->end);
		p->start = start;
	}
	p->end = end;
}

/* The hash as if the open run had ended; *p does not change. */
static inline uint64_t path_hash_value(const struct path_hash *p)
{
	return p->start != p->end ? path_hash_mix(p->hash, p->start, p->end) : p->hash;
}

#endif
