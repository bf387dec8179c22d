/* SPDX-License-Identifier: MIT */
/* The functions of timelines: each is named once, and then found by its address. */
#ifndef PTAH_CLI_EXPORT_FUNCTIONS_H
#define PTAH_CLI_EXPORT_FUNCTIONS_H

#include "export/timeline.h"
#include "output/names.h"

struct export_functions;

/* `wanted`: of the functions with this name export_function() says so; NULL: of all. */
int export_functions_new(struct names *names, const char *wanted,
			 struct export_functions **functions);
void export_functions_free(struct export_functions *functions);

/*
 * The function that begins at `address` of a space, as of the names' time. Strings with the same
 * text are the same string in all functions. NULL: out of memory. *is_wanted: see above.
 */
const struct timeline_function *export_function(struct export_functions *functions, int32_t space,
						uint64_t address, bool *is_wanted);

#endif
