/* SPDX-License-Identifier: MIT */
/*
 * Loads both libraries into one process: Ptah's, which is tested, and Debian's, which is the
 * reference.
 */
#ifndef PTAH_TESTS_COMPAT_JUDGED_H
#define PTAH_TESTS_COMPAT_JUDGED_H

#include "compat/twin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct twin_api ours, theirs;

static void load_library(struct twin_api *api, const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	api->path = path;
#define LOAD(name) *(void **)(void *)&api->name = dlsym(library, #name);
	TWIN_FUNCTIONS(LOAD)
#undef LOAD
}

static inline void load_both(void)
{
	load_library(&ours, TWIN_JUDGED);
	load_library(&theirs, TWIN_JUDGE);
}

#endif
