/* SPDX-License-Identifier: MIT */
/* Finds the files of the page (web.h). */
#include "view/web.h"

#include <string.h>

const struct view_file *view_file_find(const char *name)
{
	for (const struct view_file *file = view_files; file->name; file++)
		if (!strcmp(file->name, name))
			return file;
	return NULL;
}
