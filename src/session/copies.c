/* SPDX-License-Identifier: MIT */
/*
 * Copies of the files that ran, by their build ids: in perf's cache (~/.debug, which perf record,
 * perf buildid-cache and perf archive fill), or from debuginfod servers. They are used where the
 * file at the recorded path is missing or another one.
 */
#include "session/session.h"

#include "base/compiler.h"
#include "base/order.h"
#include "support/list.h"
#include "symbol/elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * perf record before Linux 5.13 pads shorter ids in the header with zeros to 20 bytes, and does not
 * say so.
 */
bool session_same_id(const struct perfdata_build_id *was, const struct perfdata_build_id *is)
{
	if (!is->size || is->size > was->size || memcmp(is->bytes, was->bytes, is->size) != 0)
		return false;
	for (unsigned i = is->size; i < was->size; i++)
		if (was->size != PERFDATA_BUILD_ID_MAX || was->bytes[i])
			return false;
	return true;
}

bool session_has_id(const char *path, const struct perfdata_build_id *id)
{
	struct perfdata_build_id is;

	return perfdata_build_id_read(path, &is) >= 0 && session_same_id(id, &is);
}

char *session_cached_path(const char *cache, const struct perfdata_build_id *id, const char *name)
{
	char text[2 * PERFDATA_BUILD_ID_MAX + 1], *path;

	if (!cache || !id->size)
		return NULL;
	perfdata_build_id_text(id, text);
	return asprintf(&path, "%s/.build-id/%.2s/%s%s", cache, text, text + 2, name) < 0 ? NULL
											  : path;
}

char *ptah_build_id_find(const char *cache, const uint8_t *id, size_t size)
{
	/* perf before Linux 4.8 had the file itself at the last one, which is a folder now. */
	static const char *const names[] = {"/elf", "/vdso", ""};
	struct perfdata_build_id wanted = {.size = (uint8_t)size};

	if (!cache || !id || !size || size > sizeof(wanted.bytes))
		return NULL;
	memcpy(wanted.bytes, id, size);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *path = session_cached_path(cache, &wanted, names[i]);

		if (path && session_has_id(path, &wanted))
			return path;
		free(path);
	}
	return NULL;
}

/* From the servers, if the caller allows it. */
static char *fetch_copy(struct ptah_session *s, const char *path,
			const struct perfdata_build_id *id)
{
	char *fetched;

	if (!s->config.fetch || s->servers_failed)
		return NULL;
	if (!s->servers && symbol_debuginfod_new(s->config.fetch_progress, s->config.fetch_context,
						 &s->servers) < 0) {
		s->servers_failed = true;
		return NULL;
	}
	fetched =
	    symbol_debuginfod_get(s->servers, DEBUGINFOD_EXECUTABLE, id->bytes, id->size, path);
	if (fetched && session_has_id(fetched, id))
		return fetched;
	free(fetched);
	return NULL;
}

static int compare_copies(const struct file_copy *copy, const char *path,
			  const struct perfdata_build_id *id)
{
	const int order = strcmp(copy->path, path);

	return order ? order : memcmp(&copy->id, id, sizeof(*id));
}

/* The first copy that is not before this path and id. */
static size_t copy_at(const struct ptah_session *s, const char *path,
		      const struct perfdata_build_id *id)
{
	size_t at;

	BISECT(at, 0, s->copy_count, compare_copies(&s->copies[at], path, id) < 0);
	return at;
}

/* What is known of this path and id. NULL: nothing has been looked for. */
static const struct file_copy *known_copy(const struct ptah_session *s, const char *path,
					  const struct perfdata_build_id *id)
{
	const size_t at = copy_at(s, path, id);

	return at < s->copy_count && !compare_copies(&s->copies[at], path, id) ? &s->copies[at]
									       : NULL;
}

int session_find_copy(struct ptah_session *s, const struct change *change,
		      const struct perfdata_build_id *was)
{
	const struct file_copy *known = known_copy(s, change->path, &change->id);
	const size_t at = copy_at(s, change->path, &change->id);
	char *found;

	if (known)
		return known->local != NULL;
	if (!was->size)
		return 0;
	found = ptah_build_id_find(s->config.build_id_cache, was->bytes, was->size);
	if (!found)
		found = fetch_copy(s, change->path, was);
	/* That there is none is kept, too: a server that does not answer is asked once. */
	if (!LIST_ROOM(s->copies, s->copy_count, s->copy_capacity)) {
		free(found);
		return PTAH_E_NOMEM;
	}
	memmove(&s->copies[at + 1], &s->copies[at], (s->copy_count++ - at) * sizeof(*s->copies));
	s->copies[at] = (struct file_copy){change->path, change->id, found};
	return found != NULL;
}

const char *session_copy_of(const struct ptah_session *s, const struct change *change)
{
	const struct file_copy *known = known_copy(s, change->path, &change->id);

	return known ? known->local : NULL;
}

const char *ptah_session_copy(const struct ptah_session *s, const char *path)
{
	const struct perfdata_build_id first = {0};
	const char *local = NULL;

	if (!s || !path)
		return NULL;
	for (size_t at = copy_at(s, path, &first);
	     !local && at < s->copy_count && !strcmp(s->copies[at].path, path); at++)
		local = s->copies[at].local;
	return local;
}

void session_forget_copies(struct ptah_session *s)
{
	for (size_t i = 0; i < s->copy_count; i++)
		free(s->copies[i].local);
	free(s->copies);
	symbol_debuginfod_free(s->servers);
}
