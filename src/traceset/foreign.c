/* SPDX-License-Identifier: MIT */
/* The systems whose folders and files become trace sets. */
#include "traceset/foreign.h"

#include <stddef.h>

/* The first reader that knows a path reads it. NULL ends the table. */
static const struct foreign_reader *const readers[] = {
    &foreign_drpttracer,
    &foreign_lldb,
    &foreign_insntrace,
    &foreign_hwt,
    &foreign_crash_dump,
    &foreign_dumps, /* the least certain, so the last */
    NULL,
};

const struct foreign_reader *foreign_find(const char *path)
{
	for (size_t i = 0; readers[i]; i++)
		if (readers[i]->is(path))
			return readers[i];
	return NULL;
}
