/* SPDX-License-Identifier: MIT */
/* The table of formats (formats.def), and how one is found in it. */
#include "export/formats.h"

#include "export/export.h"

#include <string.h>

const struct export_format export_formats[] = {
#define EXPORT_FORMAT(from, word, end, is_binary, writer, text)                                    \
	{.name = (word),                                                                           \
	 .extension = (end),                                                                       \
	 .summary = (text),                                                                        \
	 .binary = (is_binary),                                                                    \
	 .source = EXPORT_##from,                                                                  \
	 writer},
#include "export/formats.def"
    {0},
};

const struct export_format *export_find_by_file(const char *path)
{
	const size_t n = strlen(path);
	const struct export_format *best = NULL;
	size_t longest = 0;

	for (const struct export_format *f = export_formats; f->name; f++) {
		const size_t k = strlen(f->extension);

		if (k > longest && k < n && !strcmp(path + n - k, f->extension)) {
			longest = k;
			best = f;
		}
	}
	return best;
}
