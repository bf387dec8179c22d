/* SPDX-License-Identifier: MIT */
/* Names and creates files for output that is not complete yet (temporary.h). */
#include "output/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *temporary_target(const char *path)
{
	struct stat st;
	char *target = NULL;

	if (!lstat(path, &st) && S_ISLNK(st.st_mode))
		target = realpath(path, NULL);
	return target ? target : strdup(path); /* a link that leads nowhere is replaced */
}

int temporary_open(const char *path, char **name)
{
	if (!*path) {
		errno = ENOENT;
		return -1;
	}
	/* Other machines that write into the folder have processes of the same number. */
	for (unsigned i = 0; i < 100; i++) {
		int fd;

		if (asprintf(name, i ? "%s.%ld-%u.tmp" : "%s.%ld.tmp", path, (long)getpid(), i) <
		    0) {
			errno = ENOMEM;
			return -1;
		}
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0)
			return fd;
		free(*name);
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}
