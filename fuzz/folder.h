/* SPDX-License-Identifier: MIT */
/*
 * A folder for targets that read files of fixed names: `names`, which the target defines before. It
 * is made with the first input, emptied for each, and removed at the end.
 */
#ifndef PTAH_FUZZ_FOLDER_H
#define PTAH_FUZZ_FOLDER_H

#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMES (sizeof(names) / sizeof(*names))

static char folder[32];

static void path_of(char path[128], size_t name)
{
	snprintf(path, 128, "%s/%s", folder, names[name]);
}

static void empty_folder(void)
{
	char path[128];

	for (size_t i = 0; i < NAMES; i++) {
		path_of(path, i);
		unlink(path);
	}
}

static void remove_folder(void)
{
	empty_folder();
	rmdir(folder);
}

static void begin_folder(void)
{
	if (!*folder) {
		strcpy(folder, "/tmp/ptah-fuzz-XXXXXX");
		CHECK(mkdtemp(folder));
		atexit(remove_folder);
	}
	empty_folder();
}

/* flags: O_APPEND or O_TRUNC. */
static void write_file(size_t name, int flags, const void *bytes, size_t n)
{
	char path[128];
	int fd;

	path_of(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	CHECK(fd >= 0 && (!n || write(fd, bytes, n) == (ssize_t)n));
	close(fd);
}

#endif
