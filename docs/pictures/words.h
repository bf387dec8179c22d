/* SPDX-License-Identifier: MIT */
/* Words in lists and in trees. */
#include <stdbool.h>

struct word {
	struct word *next, *other; /* in a list: the next one; in a tree: both children */
	unsigned count;
	char text[16];
};

/* Counts a word in a list. True: it is new. */
bool word_count(struct word **list, const char *text);
struct word *word_insert(struct word *tree, const char *text);
unsigned word_depth(const struct word *tree);
void word_free(struct word *word);
