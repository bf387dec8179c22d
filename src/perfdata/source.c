/* SPDX-License-Identifier: MIT */
/*
 * Maps a recording's bytes. What comes through a pipe is written to a file without a name first, so
 * that it may be larger than memory.
 */
#include "perfdata/file.h"
#include "support/list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int perfdata_temporary(void)
{
	/* /var/tmp first: it is meant for large files, and seldom in memory. */
	static const char *const folders[] = {"/var/tmp", P_tmpdir};
	int fd = -1;

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && fd < 0; i++) {
		char path[64];

		fd = open(folders[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			break;
		/* Not every file system supports files without a name. */
		snprintf(path, sizeof(path), "%s/ptah-XXXXXX", folders[i]);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	return fd;
}

static int write_all(int fd, const uint8_t *bytes, size_t n)
{
	while (n) {
		ssize_t k = write(fd, bytes, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		bytes += k;
		n -= (size_t)k;
	}
	return 0;
}

/*
 * Like read(), but returns less than `n` only at the end. A signal ends it, too (EINTR): a pipe may
 * never deliver anything, and nobody else asks whether to go on.
 */
static ssize_t read_full(int fd, uint8_t *bytes, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(fd, bytes + got, n - got);

		if (k < 0)
			return -1;
		if (!k)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

#define COPY_BYTES (1u << 18)

static int copy_pipe(const struct perfdata_file *f, int from, int to, struct ptah_message *why)
{
	uint8_t *bytes = malloc(COPY_BYTES);
	int status = bytes ? 0 : PTAH_E_NOMEM;
	bool begun = false;
	ssize_t n = 0;

	while (status >= 0 && (n = read_full(from, bytes, COPY_BYTES)) > 0) {
		if (write_all(to, bytes, (size_t)n) < 0)
			status = perfdata_system_message(
			    why, errno, f->path, "keep what comes through the pipe in /var/tmp");
		/* Refuse what is no recording at once: it may never end. */
		if (!begun && (n < 8 || memcmp(bytes, PERFDATA_MAGIC, 8) != 0))
			break;
		begun = true;
	}
	if (status >= 0 && n < 0)
		status = perfdata_system_message(why, errno, f->path, "read");
	free(bytes);
	return status;
}

/* Copies what `fd` delivers into a file, whose descriptor *fd becomes. */
static int spool_pipe(const struct perfdata_file *f, int *fd, struct ptah_message *why)
{
	int to = perfdata_temporary();
	int status;

	if (to < 0)
		return perfdata_system_message(why, errno, f->path,
					       "keep what comes through the pipe in /var/tmp");
	status = copy_pipe(f, *fd, to, why);
	close(*fd);
	*fd = to;
	return status;
}

static int map_fd(struct perfdata_part *part, int fd, struct ptah_message *why)
{
	struct stat st;
	void *bytes;

	if (fstat(fd, &st))
		return perfdata_system_message(why, errno, part->path, "open");
	part->size = (uint64_t)st.st_size;
	bytes = part->size ? mmap(NULL, part->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	if (bytes == MAP_FAILED)
		return perfdata_system_message(why, errno, part->path, "map");
	part->bytes = bytes;
	return 0;
}

/* Adds a part. Takes over `path`. */
static struct perfdata_part *new_part(struct perfdata_file *f, char *path)
{
	struct perfdata_part *part;

	if (!path || !LIST_ADD(f->parts, f->part_count)) {
		free(path);
		return NULL;
	}
	part = &f->parts[f->part_count - 1];
	part->path = path;
	if (f->part_count > 1)
		part->base = (part[-1].base + part[-1].size + 4095) & ~UINT64_C(4095);
	return part;
}

static int map_path(struct perfdata_file *f, char *path, struct ptah_message *why)
{
	struct perfdata_part *part = new_part(f, path);
	bool input = part && !strcmp(path, "-");
	struct stat st;
	int fd, status = 0;

	if (!part)
		return PTAH_E_NOMEM;
	fd = input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st))
		status = perfdata_system_message(why, errno, path, "open");
	else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
		/*
		 * Opening a fifo did not wait for its writer, but reading must: before the writer
		 * opens it, a read would report the end.
		 */
		if (!input && (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1) < 0 ||
			       fcntl(fd, F_SETFL, 0)))
			status = perfdata_system_message(why, errno, path, "read");
		else
			status = spool_pipe(f, &fd, why);
	} else if (!S_ISREG(st.st_mode)) {
		status = perfdata_message(why, PTAH_E_BAD_FILE,
					  "%s: neither a file, nor a pipe, nor a folder of perf's",
					  path);
	}
	if (status >= 0)
		status = map_fd(part, fd, why);
	close(fd);
	return status;
}

static char *join_folder_path(const char *folder, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* The same for a file that can be read; NULL: there is none. */
static char *join_readable(const char *folder, const char *name)
{
	char *path = join_folder_path(folder, name);

	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/*
 * A folder of perf's: `data` is the file, data.0 and so on were written by perf's threads
 * (perf.data-directory-format.txt), kcore_dir is made by --kcore.
 */
static int map_folder(struct perfdata_file *f, const char *folder, struct ptah_message *why)
{
	char *data = join_folder_path(folder, "data");
	int status;

	f->kcore = join_readable(folder, "kcore_dir/kcore");
	f->kallsyms = join_readable(folder, "kcore_dir/kallsyms");
	if (!data)
		return PTAH_E_NOMEM;
	if (access(data, F_OK) != 0) {
		free(data);
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: not a regular file, and no folder of perf's: "
					"there is no `data` in it",
					folder);
	}
	status = map_path(f, data, why);
	for (unsigned i = 0; status >= 0; i++) {
		char name[24], *path;

		snprintf(name, sizeof(name), "data.%u", i);
		path = join_folder_path(folder, name);
		if (path && access(path, F_OK) != 0) {
			free(path);
			break;
		}
		status = map_path(f, path, why);
	}
	return status;
}

int perfdata_map_bare(struct perfdata_file *f, const char *path, struct ptah_message *why)
{
	struct perfdata_part *part = new_part(f, strdup(path)), *last;
	struct stat st;
	int fd, status = 0;

	if (!part)
		return PTAH_E_NOMEM;
	last = f->part_count > 1 ? part - 1 : NULL;
	if (last && !strcmp(last->path, path)) {
		part->bytes = last->bytes;
		part->size = last->size;
		part->shared = true;
		return 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (!fstat(fd, &st) && !S_ISREG(st.st_mode))
		status = perfdata_message(why, PTAH_E_BAD_FILE, "%s: not a regular file", path);
	if (status >= 0)
		status = map_fd(part, fd, why);
	close(fd);
	return status;
}

int perfdata_map(struct perfdata_file *f, const char *path, struct ptah_message *why)
{
	struct stat st;
	char *copy;

	if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return map_folder(f, path, why);
	copy = strdup(path);
	return map_path(f, copy, why);
}
