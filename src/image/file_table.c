/* SPDX-License-Identifier: MIT */
/* Files that several images have mapped (file_table.h). */
#include "image/file_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* More files than most processes have; if more are in use, some are mapped more often than once. */
#define FILES 512

/* A file as it was when it was mapped. */
struct mapped_file {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
	struct backing *backing;
};

struct file_table {
	_Atomic unsigned references;
	pthread_mutex_t lock; /* of what follows */
	size_t count, oldest; /* oldest: of a full table */
	struct mapped_file files[FILES];
};

struct file_table *file_table_new(void)
{
	struct file_table *t = calloc(1, sizeof(*t));

	if (t && pthread_mutex_init(&t->lock, NULL)) {
		free(t);
		t = NULL;
	}
	if (t)
		t->references = 1;
	return t;
}

struct file_table *file_table_get(struct file_table *t)
{
	if (t)
		t->references++;
	return t;
}

void file_table_put(struct file_table *t)
{
	if (!t || --t->references)
		return;
	for (size_t i = 0; i < t->count; i++)
		backing_put(t->files[i].backing);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static bool is_file(const struct mapped_file *f, const struct stat *st, const char *path)
{
	return f->inode == st->st_ino && f->device == st->st_dev && f->size == st->st_size &&
	       f->changed.tv_sec == st->st_mtim.tv_sec &&
	       f->changed.tv_nsec == st->st_mtim.tv_nsec && !strcmp(f->backing->path, path);
}

static struct backing *find_open_file(const struct file_table *t, const struct stat *st,
				      const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (is_file(&t->files[i], st, path)) {
			t->files[i].backing->references++;
			return t->files[i].backing;
		}
	return NULL;
}

/* Takes a reference of its own. In a full table the file replaces the one that came first. */
static void add_open_file(struct file_table *t, const struct stat *st, struct backing *backing)
{
	struct mapped_file *f = &t->files[t->count < FILES ? t->count++ : t->oldest++ % FILES];

	if (f->backing)
		backing_put(f->backing);
	backing->references++;
	*f = (struct mapped_file){st->st_dev, st->st_ino, st->st_size, st->st_mtim, backing};
}

int file_table_map(struct file_table *t, const char *path, struct backing **backing)
{
	struct stat st;
	int status;

	*backing = NULL;
	if (t && !stat(path, &st)) {
		pthread_mutex_lock(&t->lock);
		*backing = find_open_file(t, &st, path);
		pthread_mutex_unlock(&t->lock);
	}
	if (*backing)
		return 0;
	status = backing_map(path, &st, backing);
	if (!t || status < 0)
		return status;
	pthread_mutex_lock(&t->lock);
	add_open_file(t, &st, *backing);
	pthread_mutex_unlock(&t->lock);
	return 0;
}
