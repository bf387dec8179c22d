/* SPDX-License-Identifier: MIT */
/* Names from untrusted files as valid UTF-8, for formats that take nothing else. */
#ifndef PTAH_EXPORT_UTF8_H
#define PTAH_EXPORT_UTF8_H

#include <stddef.h>

/*
 * A copy in which each byte that belongs to no valid UTF-8 is U+FFFD, the replacement character.
 * NULL: out of memory. To be freed.
 */
char *utf8_copy(const char *text);

/* How many of the first `most` bytes of valid text are whole characters. */
size_t utf8_cut(const char *text, size_t n, size_t most);

#endif
