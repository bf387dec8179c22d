/* SPDX-License-Identifier: MIT */
/* The program of the pictures in docs/pictures.md: counts the words of a made-up text, twice. */
#include "words.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 1200

static uint32_t random_number(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 10;
}

/* Short words are frequent, as in most texts. */
static void make_word(uint32_t *seed, char word[16])
{
	const unsigned length = 2 + random_number(seed) % 3 + (random_number(seed) % 8 == 0) * 6;

	for (unsigned i = 0; i < length; i++)
		word[i] = (char)('a' + random_number(seed) % (i < 2 ? 9 : 26));
	word[length] = '\0';
}

static bool hash_by_sum;

/* With the sum of its letters as its hash, a word finds its list too long. */
static uint32_t hash_text(const char *text)
{
	uint32_t hash = 2166136261u;

	if (hash_by_sum) {
		for (hash = 0; *text; text++)
			hash += (unsigned char)*text;
		return hash;
	}
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash;
}

static int by_count(const void *a, const void *b)
{
	const struct word *x = *(struct word *const *)a, *y = *(struct word *const *)b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* Counts words in a hash table, and sorts them by how frequent they are. */
static unsigned index_words(uint32_t seed)
{
	static _Thread_local struct word *table[256];
	struct word *sorted[WORDS];
	unsigned n = 0;
	char word[16];

	for (int i = 0; i < WORDS; i++) {
		make_word(&seed, word);
		if (word_count(&table[hash_text(word) % 256], word))
			n++;
	}
	n = 0;
	for (int i = 0; i < 256; i++)
		for (struct word *w = table[i]; w; w = w->next)
			sorted[n++] = w;
	qsort(sorted, n, sizeof(*sorted), by_count);
	printf("%u different words; \"%s\" %u times\n", n, sorted[0]->text, sorted[0]->count);
	for (int i = 0; i < 256; i++)
		word_free(table[i]);
	return n;
}

/* Another thread puts the words into a tree. */
static void *make_tree(void *seed)
{
	struct word *tree = NULL;
	char word[16];

	for (int i = 0; i < WORDS; i++) {
		make_word(seed, word);
		tree = word_insert(tree, word);
	}
	printf("the tree is %u deep\n", word_depth(tree));
	word_free(tree);
	return NULL;
}

int main(int argc, char **argv)
{
	uint32_t seed = 7;
	pthread_t thread;

	if (argc > 2) {
		fprintf(stderr, "usage: %s [sum]\n", argv[0]);
		return 2;
	}
	hash_by_sum = argc > 1;
	if (pthread_create(&thread, NULL, make_tree, &seed))
		return 1;
	index_words(42);
	pthread_join(thread, NULL);
	return 0;
}
