/* SPDX-License-Identifier: MIT */
/* Finds and reads files of source code (source_files.h). */
#include "output/source_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nobody writes longer ones; the name comes from debug information that may be hostile. */
#define LARGEST (64u << 20)

/* Opens a regular file, and nothing else: a name may lead to a device or a pipe. */
static int open_regular(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode) || st->st_size > LARGEST)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Opens `folder` and `name` together. *path is the caller's to free, if the result is not -1. */
static int open_below(const char *folder, size_t n, const char *name, char **path, struct stat *st)
{
	int fd;

	if (asprintf(path, "%.*s%s%s", (int)n, folder, *name == '/' || !n ? "" : "/", name) < 0)
		return -1;
	fd = open_regular(*path, st);
	if (fd < 0) {
		free(*path);
		*path = NULL;
	}
	return fd;
}

/* The name without its first `strip` folders. */
static const char *stripped(const char *name, uint64_t strip)
{
	for (; strip; strip--) {
		const char *slash = strchr(name + 1, '/');

		if (!slash)
			break;
		name = slash;
	}
	return name;
}

/* In one folder: the whole name, then without its first folder, and so on. */
static int open_in_folder(const char *folder, size_t n, const char *name, char **path,
			  struct stat *st)
{
	int fd = -1;

	while (name && fd < 0) {
		fd = open_below(folder, n, name, path, st);
		name = strchr(name + 1, '/');
	}
	return fd;
}

static int open_source(const struct source_paths *paths, const char *name, char **path,
		       struct stat *st)
{
	int fd = -1;

	*path = NULL;
	if (paths->prefix && *name == '/')
		fd = open_below(paths->prefix, strlen(paths->prefix), stripped(name, paths->strip),
				path, st);
	if (fd < 0 && paths->symfs && *name == '/')
		fd = open_below(paths->symfs, strlen(paths->symfs), name, path, st);
	if (fd < 0)
		fd = open_below("", 0, name, path, st);
	for (const char *f = paths->folders; f && fd < 0;) {
		const size_t n = strcspn(f, ":");

		if (n)
			fd = open_in_folder(f, n, name, path, st);
		f = f[n] ? f + n + 1 : NULL;
	}
	return fd;
}

static bool find_lines(struct source_file *file, size_t size)
{
	size_t n = 2;

	for (size_t i = 0; i < size; i++)
		n += file->text[i] == '\n';
	file->starts = calloc(n, sizeof(*file->starts));
	if (!file->starts)
		return false;
	for (size_t i = 0; i < size; i++)
		if (file->text[i] == '\n')
			file->starts[++file->lines] = i + 1;
	if (file->starts[file->lines] < size) { /* the last line has no end */
		file->starts[++file->lines] = size + 1;
	}
	return true;
}

static bool read_source(struct source_file *file, int fd, size_t size)
{
	size_t n = 0;
	ssize_t k;

	file->text = malloc(size + 1);
	if (!file->text)
		return false;
	while (n < size && (k = read(fd, file->text + n, size - n)) > 0)
		n += (size_t)k;
	return find_lines(file, n);
}

struct source_file *source_file(struct source_files *files, const char *name)
{
	struct source_file *file;
	struct stat st;
	int fd;

	for (file = files->list; file; file = file->next)
		if (!strcmp(file->name, name))
			return file;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->next = files->list;
	files->list = file;
	file->name = strdup(name);
	if (!file->name) {
		files->list = file->next;
		free(file);
		return NULL;
	}
	fd = open_source(&files->paths, name, &file->path, &st);
	if (fd >= 0) {
		file->modified = st.st_mtime;
		if (!read_source(file, fd, (size_t)st.st_size))
			file->lines = 0;
		close(fd);
	}
	return file;
}

const char *source_line(const struct source_file *file, uint32_t line, size_t *n)
{
	if (!line || line > file->lines)
		return NULL;
	*n = file->starts[line] - file->starts[line - 1] - 1;
	return file->text + file->starts[line - 1];
}

void source_files_fini(struct source_files *files)
{
	for (struct source_file *f = files->list, *next; f; f = next) {
		next = f->next;
		free(f->name);
		free(f->path);
		free(f->text);
		free(f->starts);
		free(f);
	}
	files->list = NULL;
}
