/* SPDX-License-Identifier: MIT */
/* Opens the path of a trace set: a ptah.trace, the folder of one, or what another system wrote. */
#include "traceset/foreign.h"
#include "traceset/text.h"

#include "perfdata/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a path is. */
enum kind {
	NOTHING,
	TEXT,
	FOLDER_WITH_TEXT,
	FOREIGN
};

static bool has_magic(const char *path)
{
	char magic[sizeof(TRACESET_MAGIC) - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, magic, sizeof(magic));

	if (fd >= 0)
		close(fd);
	return n == sizeof(magic) && !memcmp(magic, TRACESET_MAGIC, sizeof(magic));
}

static bool has_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(slash ? slash + 1 : path, TRACESET_FILE);
}

static enum kind kind_of(const char *path)
{
	char *file;
	struct stat st;
	bool has_text;

	if (stat(path, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return NOTHING;
	/* A file of this name is meant to be one, whatever is wrong with it. */
	if (S_ISREG(st.st_mode) && (has_magic(path) || has_name(path)))
		return TEXT;
	if (S_ISDIR(st.st_mode) && asprintf(&file, "%s/%s", path, TRACESET_FILE) >= 0) {
		has_text = !access(file, F_OK);
		free(file);
		if (has_text)
			return FOLDER_WITH_TEXT;
	}
	return foreign_find(path) ? FOREIGN : NOTHING;
}

bool traceset_is(const char *path)
{
	return kind_of(path) != NOTHING;
}

/* The folder `path`, or the one that the file `path` lies in, as an absolute path. */
static int enter_folder(struct ptah_trace_set *set, const char *path, struct ptah_message *why)
{
	char *folder = traceset_folder_of(path);
	int status = folder ? traceset_set_folder(set, folder)
			    : perfdata_system_message(why, errno, path, "find the folder");

	free(folder);
	return status;
}

static int read_set(const char *path, enum kind kind, struct ptah_trace_set *set,
		    struct ptah_message *why)
{
	char *file = NULL;
	int status = enter_folder(set, path, why);

	set->origin = strdup(path);
	if (status >= 0 && !set->origin)
		status = PTAH_E_NOMEM;
	if (status < 0)
		return status;
	if (kind == FOREIGN)
		return foreign_find(path)->read(path, set, why);
	if (kind == TEXT)
		return traceset_read_text(path, set, why);
	if (asprintf(&file, "%s/%s", path, TRACESET_FILE) < 0)
		return PTAH_E_NOMEM;
	status = traceset_read_text(file, set, why);
	free(file);
	return status;
}

static int open_trace_set(const char *path, struct ptah_trace_set **set, struct ptah_message *why)
{
	struct ptah_trace_set *s;
	enum kind kind;
	int status;

	if (!path || !set)
		return PTAH_E_INVAL;
	kind = kind_of(path);
	if (kind == NOTHING && access(path, F_OK) < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (kind == NOTHING)
		return perfdata_message(why, PTAH_E_BAD_MAGIC,
					"%s: neither a " TRACESET_FILE
					" (its first line is \"" TRACESET_MAGIC
					" 1\"), nor a folder with one, nor a trace that another "
					"system wrote; ptah-trace(5) lists what is known",
					path);
	status = ptah_trace_set_new(&s);
	if (status < 0)
		return status;
	status = read_set(path, kind, s, why);
	if (status < 0) {
		if (why && !why->text[0])
			perfdata_message(why, status, "%s: %s", path, ptah_strerror(status));
		ptah_trace_set_free(s);
		return status;
	}
	*set = s;
	return 0;
}

int ptah_trace_set_open(const char *path, struct ptah_trace_set **set, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, open_trace_set(path, set, why));
}
