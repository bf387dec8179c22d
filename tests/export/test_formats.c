/* SPDX-License-Identifier: MIT */
/* The table of formats: names and extensions lead to one format each. */
#include "export/export.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

TEST(test_names_and_extensions_are_unique)
{
	char path[64];

	for (const struct export_format *f = export_formats; f->name; f++) {
		for (const struct export_format *other = export_formats; other != f; other++)
			assert_string_not_equal(other->name, f->name);
		assert_int_equal(f->extension[0], '.');
		snprintf(path, sizeof(path), "folder.d/x%s", f->extension);
		assert_ptr_equal(export_find_by_file(path), f);
		/* A name that is nothing but the extension is a hidden file's. */
		if (!strchr(f->extension + 1, '.'))
			assert_null(export_find_by_file(f->extension));
		assert_non_null(f->timeline);
		assert_int_equal(strcspn(f->summary, "\t\n*`"), strlen(f->summary));
	}
}

TEST(test_unknown)
{
	assert_null(export_find_by_file(""));
	assert_null(export_find_by_file("perf.data"));
	assert_null(export_find_by_file("fxt"));
}
