/* SPDX-License-Identifier: MIT */
/* Finds Ptah's plugins for QEMU, which lie beside the library or the command. */
#include "record/plugin_path.h"

#include "base/compiler.h"

#include <ptah/record.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PTAH_PLUGIN_INSTALL_DIR
#define PTAH_PLUGIN_INSTALL_DIR "/usr/local/lib/ptah"
#endif

static char *folder_of_this(void)
{
	Dl_info info;
	char *path, *slash;

	if (!dladdr((void *)(uintptr_t)ptah_recorder_new, &info) || !info.dli_fname)
		return NULL;
	path = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL);
	slash = path ? strrchr(path, '/') : NULL;
	if (slash)
		*slash = '\0';
	return path;
}

/* folder/between/name, if it can be read. The caller frees it. */
static char *readable(const char *folder, const char *between, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s/%s", folder, between, name) < 0)
		return NULL;
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

char *record_find_plugin(const char *name)
{
	static const char *const places[] = {"", "/ptah", "/../lib", "/../lib/ptah"};
	char *folder = folder_of_this(), *path = NULL;

	for (size_t i = 0; folder && !path && i < ARRAY_SIZE(places); i++)
		path = readable(folder, places[i], name);
	free(folder);
	return path ? path : readable(PTAH_PLUGIN_INSTALL_DIR, "", name);
}
