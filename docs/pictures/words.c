/* SPDX-License-Identifier: MIT */
/* Words in lists and in trees (words.h). */
#include "words.h"

#include <stdlib.h>
#include <string.h>

static struct word *word_new(const char *text)
{
	struct word *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	strcpy(w->text, text);
	w->count = 1;
	return w;
}

bool word_count(struct word **list, const char *text)
{
	struct word **at = list, *w;

	while (*at && strcmp((*at)->text, text) != 0)
		at = &(*at)->next;
	w = *at;
	if (!w) {
		*at = word_new(text);
		return true;
	}
	w->count++;
	return false;
}

struct word *word_insert(struct word *tree, const char *text)
{
	const int order = tree ? strcmp(text, tree->text) : 0;

	if (!tree)
		return word_new(text);
	if (order < 0)
		tree->next = word_insert(tree->next, text);
	else if (order > 0)
		tree->other = word_insert(tree->other, text);
	else
		tree->count++;
	return tree;
}

unsigned word_depth(const struct word *tree)
{
	unsigned left, right;

	if (!tree)
		return 0;
	left = word_depth(tree->next);
	right = word_depth(tree->other);
	return 1 + (left > right ? left : right);
}

void word_free(struct word *word)
{
	if (!word)
		return;
	word_free(word->next);
	word_free(word->other);
	free(word);
}
