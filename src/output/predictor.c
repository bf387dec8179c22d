/* SPDX-License-Identifier: MIT */
/* Simulates TAGE, a branch predictor with global history (predictor.h). */
#include "output/predictor.h"

#include "base/hash.h"

#include <string.h>

#define INDEX_BITS 11 /* of PREDICTOR_ENTRIES */
#define BASE_BITS  13 /* of PREDICTOR_BASE */
#define TAG2_BITS  10 /* a second folding of the history, of another width, makes tags differ */

/* After so many branches, entries that have been useful once must prove it again. */
#define HALVING (1u << 18)

/* The history of each table. X is used with constants, because a shift by a variable number of bits
 * modulo another takes more time than all the rest (21 ns of 27 for a branch; gcc 12, gzip). */
#define TABLES(X) X(0, 5) X(1, 15) X(2, 44) X(3, 130)

void predictor_init(struct predictor *p)
{
	memset(p, 0, sizeof(*p));
	memset(p->base, 1, sizeof(p->base)); /* weakly not taken */
	p->use_alternative = 8;
}

/* Where a branch is looked up. */
struct places {
	struct predictor_entry *entry[PREDICTOR_TABLES];
	uint16_t tag[PREDICTOR_TABLES];
	uint8_t *base;
};

static void find_predicted_places(struct predictor *p, uint64_t ip, struct places *at)
{
	const uint64_t hash = hash_number(ip);
	const uint32_t low = (uint32_t)(hash >> 32), high = (uint32_t)(hash >> 48);

	at->base = &p->base[low & (PREDICTOR_BASE - 1)];
#define FIND(i, length)                                                                            \
	at->entry[i] =                                                                             \
	    &p->table[i][(low ^ low >> ((i) + 1) ^ p->fold[i].index) & (PREDICTOR_ENTRIES - 1)];   \
	at->tag[i] = (uint16_t)((high ^ p->fold[i].tag ^ p->fold[i].tag2 << 1) &                   \
				((1u << PREDICTOR_TAG) - 1));
	TABLES(FIND)
#undef FIND
}

static bool has(const struct places *at, int i)
{
	return at->entry[i]->tag == at->tag[i];
}

static inline uint32_t rotate(uint32_t value, unsigned bits)
{
	return (value << 1 | value >> (bits - 1)) & ((1u << bits) - 1);
}

static inline uint32_t fold(uint32_t value, unsigned bits, unsigned length, uint32_t newest,
			    uint32_t oldest)
{
	return rotate(value, bits) ^ newest ^ oldest << length % bits;
}

static inline void fold_all(struct predictor_fold *f, const uint64_t *history, unsigned length,
			    uint32_t newest)
{
	const uint32_t oldest = (uint32_t)(history[(length - 1) / 64] >> (length - 1) % 64) & 1;

	f->index = fold(f->index, INDEX_BITS, length, newest, oldest);
	f->tag = fold(f->tag, PREDICTOR_TAG, length, newest, oldest);
	f->tag2 = fold(f->tag2, TAG2_BITS, length, newest, oldest);
}

static void push_outcome(struct predictor *p, bool taken)
{
#define FOLD(i, length) fold_all(&p->fold[i], p->history, length, taken);
	TABLES(FOLD)
#undef FOLD
	p->history[2] = p->history[2] << 1 | p->history[1] >> 63;
	p->history[1] = p->history[1] << 1 | p->history[0] >> 63;
	p->history[0] = p->history[0] << 1 | taken;
}

static void count_entry(struct predictor_entry *e, bool taken)
{
	if (taken ? e->counter < 3 : e->counter > -4)
		e->counter = (int8_t)(e->counter + (taken ? 1 : -1));
}

static void count_base(uint8_t *base, bool taken)
{
	if (taken ? *base < 3 : *base > 0)
		*base = (uint8_t)(*base + (taken ? 1 : -1));
}

/* A miss gets an entry with a longer history, in the first table whose entry is not useful. */
static void allocate(struct places *at, int provider, bool taken)
{
	for (int i = provider + 1; i < PREDICTOR_TABLES; i++) {
		if (at->entry[i]->useful)
			continue;
		*at->entry[i] = (struct predictor_entry){.tag = at->tag[i],
							 .counter = (int8_t)(taken ? 0 : -1)};
		return;
	}
	for (int i = provider + 1; i < PREDICTOR_TABLES; i++)
		at->entry[i]->useful--;
}

static void halve_usefulness(struct predictor *p)
{
	p->branches = 0;
	for (unsigned i = 0; i < PREDICTOR_TABLES; i++)
		for (unsigned k = 0; k < PREDICTOR_ENTRIES; k++)
			p->table[i][k].useful >>= 1;
}

bool predictor_step(struct predictor *p, uint64_t ip, bool taken)
{
	struct places at;
	struct predictor_entry *e;
	int provider = PREDICTOR_TABLES - 1, other;
	bool predicted, first, alternative, is_new;

	find_predicted_places(p, ip, &at);
	while (provider >= 0 && !has(&at, provider))
		provider--;
	other = provider - 1;
	while (other >= 0 && !has(&at, other))
		other--;
	alternative = other >= 0 ? at.entry[other]->counter >= 0 : *at.base >= 2;
	if (provider < 0) {
		predicted = *at.base >= 2;
		count_base(at.base, taken);
		if (predicted != taken)
			allocate(&at, provider, taken);
	} else {
		e = at.entry[provider];
		first = e->counter >= 0;
		/* A new entry has seen too little: which of the two is right more often? */
		is_new = !e->useful && (e->counter == 0 || e->counter == -1);
		predicted = is_new && p->use_alternative >= 8 ? alternative : first;
		if (is_new && first != alternative) {
			if (alternative == taken)
				p->use_alternative += p->use_alternative < 15;
			else
				p->use_alternative -= p->use_alternative > 0;
		}
		if (predicted != taken && !(is_new && first == taken))
			allocate(&at, provider, taken);
		if (!e->useful && other >= 0)
			count_entry(at.entry[other], taken);
		else if (!e->useful)
			count_base(at.base, taken);
		count_entry(e, taken);
		if (first != alternative) {
			if (first == taken)
				e->useful = (uint8_t)(e->useful + (e->useful < 3));
			else
				e->useful = (uint8_t)(e->useful - (e->useful > 0));
		}
	}
	push_outcome(p, taken);
	if (++p->branches == HALVING)
		halve_usefulness(p);
	return predicted != taken;
}
