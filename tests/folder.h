/* SPDX-License-Identifier: MIT */
/*
 * A folder of the test's own, in which it runs, and which is removed with all that is in it:
 * TEST_GROUP(make_folder, remove_folder), or for each test TEST_WITH(name, make_folder,
 * remove_folder).
 */
#ifndef PTAH_TESTS_FOLDER_H
#define PTAH_TESTS_FOLDER_H

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[32];

static inline int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/ptah-test-XXXXXX");
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") || system(command) ? -1 : 0;
}

static inline void append_file(const char *path, const char *mode, const void *bytes, size_t n)
{
	FILE *f = fopen(path, mode);

	assert_non_null(f);
	assert_true(fwrite(bytes, 1, n, f) == n);
	assert_int_equal(fclose(f), 0);
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
	append_file(path, "wb", bytes, n);
}

static inline void write_text(const char *path, const char *text)
{
	write_file(path, text, strlen(text));
}

#endif
