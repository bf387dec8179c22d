/* SPDX-License-Identifier: MIT */
/* Resolves "." and ".." in a path (path.h). */
#include "base/path.h"

#include <stddef.h>

void path_resolve(char *path)
{
	const char *from = path;
	char *to = path;

	if (*path != '/')
		return;
	while (*from) {
		size_t n = 0;

		while (*from == '/')
			from++;
		while (from[n] && from[n] != '/')
			n++;
		if (n == 2 && from[0] == '.' && from[1] == '.') {
			while (to > path && *--to != '/')
				;
		} else if (n && !(n == 1 && from[0] == '.')) {
			*to++ = '/';
			for (size_t i = 0; i < n; i++)
				to[i] = from[i];
			to += n;
		}
		from += n;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}
