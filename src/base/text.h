/* SPDX-License-Identifier: MIT */
/* UTF-8 text from untrusted files: its characters, and those that must not reach a terminal. */
#ifndef PTAH_BASE_TEXT_H
#define PTAH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What text_character() returns for a byte that begins no valid UTF-8 sequence. */
#define TEXT_INVALID UINT32_MAX

/* Returns the code point at `text`, 0 at its end, or TEXT_INVALID. *n: its bytes, at least 1. */
uint32_t text_character(const char *text, size_t *n);

/*
 * Whether a terminal would obey this character, or show the text after it as something else. These
 * are control characters (C0, DEL and C1: U+009B is the same as ESC [), the marks that change the
 * direction of text, line and paragraph separators, and TEXT_INVALID: a terminal that expects 8-bit
 * text obeys the byte 0x9b.
 */
bool text_is_harmful(uint32_t character);

/* Replaces each harmful character by "?", in place. Returns whether there was one. */
bool text_clean(char *text);

/* Whether there is no harmful character in `text`. */
bool text_is_clean(const char *text);

#endif
