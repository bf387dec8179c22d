/* SPDX-License-Identifier: MIT */
/* Decodes UTF-8 and finds the characters that must not reach a terminal (text.h). */
#include "base/text.h"

/* How many bytes a sequence has whose first byte is `first`; 0: none begins with it. */
static size_t sequence_length(uint8_t first)
{
	return first < 0x80   ? 1
	       : first < 0xc2 ? 0
	       : first < 0xe0 ? 2
	       : first < 0xf0 ? 3
	       : first < 0xf5 ? 4
			      : 0;
}

uint32_t text_character(const char *text, size_t *n)
{
	const uint8_t *s = (const uint8_t *)text;
	const size_t length = sequence_length(s[0]);
	uint32_t value = length < 2 ? s[0] : s[0] & (0x7fu >> length);

	*n = 1;
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return TEXT_INVALID;
		value = value << 6 | (s[i] & 0x3f);
	}
	/* Overlong forms, surrogates, and what is beyond Unicode */
	if (!length || (length == 3 && value < 0x800) || (length == 4 && value < 0x10000) ||
	    (value >= 0xd800 && value < 0xe000) || value > 0x10ffff)
		return TEXT_INVALID;
	*n = length;
	return value;
}

bool text_is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == TEXT_INVALID;
}

bool text_clean(char *text)
{
	bool harmful = false;
	char *to = text;
	size_t n;

	while (*to >= 0x20 && *to < 0x7f) /* most texts have nothing else */
		to++;
	for (const char *from = to; *from; from += n) {
		if (text_is_harmful(text_character(from, &n))) {
			harmful = true;
			*to++ = '?';
			continue;
		}
		for (size_t i = 0; i < n; i++)
			*to++ = from[i];
	}
	*to = '\0';
	return harmful;
}

bool text_is_clean(const char *text)
{
	size_t n;

	for (; *text; text += n)
		if (text_is_harmful(text_character(text, &n)))
			return false;
	return true;
}
