/* SPDX-License-Identifier: MIT */
/* Names and removes the copies of lists of generated code beside a recording (jit_folder.h). */
#include "perfdata/jit_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether `name` is BEGIN, digits and END. */
static bool is_numbered(const char *name, size_t n, const char *begin, const char *end,
			int32_t *number)
{
	const size_t head = strlen(begin), tail = strlen(end);
	int64_t value = 0;

	if (n <= head + tail || memcmp(name, begin, head) != 0 ||
	    memcmp(name + n - tail, end, tail) != 0)
		return false;
	for (size_t i = head; i < n - tail; i++) {
		if (!isdigit((unsigned char)name[i]))
			return false;
		value = value > INT32_MAX ? value : 10 * value + (name[i] - '0');
	}
	*number = value > INT32_MAX ? -1 : (int32_t)value;
	return true;
}

enum perfdata_jit_kind perfdata_jit_kind(const char *path, size_t n, int32_t *pid)
{
	const char *slash = memrchr(path, '/', n), *name = slash ? slash + 1 : path;

	n -= (size_t)(name - path);
	if (is_numbered(name, n, "perf-", ".map", pid))
		return PERFDATA_JIT_MAP;
	return is_numbered(name, n, "jit-", ".dump", pid) ? PERFDATA_JIT_DUMP : PERFDATA_JIT_NONE;
}

char *perfdata_jit_folder(const char *recording)
{
	struct stat st;
	char *path;
	const bool folder = !stat(recording, &st) && S_ISDIR(st.st_mode);

	return asprintf(&path, "%s%s.jit", recording, folder ? "/data" : "") < 0 ? NULL : path;
}

void perfdata_jit_remove(const char *folder)
{
	/* A link would lead to files that no recorder has put there. */
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int32_t pid;

	while (d && (entry = readdir(d)))
		if (perfdata_jit_kind(entry->d_name, strlen(entry->d_name), &pid))
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	rmdir(folder);
}
