/* SPDX-License-Identifier: MIT */
/* Replaces and cuts by characters of UTF-8 (utf8.h). */
#include "export/utf8.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

char *utf8_copy(const char *text)
{
	size_t size = 1, n;
	char *copy, *to;

	for (const char *s = text; *s; s += n)
		size += text_character(s, &n) == TEXT_INVALID ? sizeof(replacement) - 1 : n;
	copy = to = malloc(size);
	if (!copy)
		return NULL;
	for (; *text; text += n) {
		if (text_character(text, &n) == TEXT_INVALID) {
			memcpy(to, replacement, sizeof(replacement) - 1);
			to += sizeof(replacement) - 1;
		} else {
			memcpy(to, text, n);
			to += n;
		}
	}
	*to = '\0';
	return copy;
}

size_t utf8_cut(const char *text, size_t n, size_t most)
{
	if (n <= most)
		return n;
	while (most && ((unsigned char)text[most] & 0xc0) == 0x80)
		most--;
	return most;
}
