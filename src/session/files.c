/* SPDX-License-Identifier: MIT */
/*
 * The files that were mapped in a recording: where they are now, and whether they are still the
 * same.
 */
#include "session/session.h"

#include "base/path.h"
#include "perfdata/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ptah_build_id_read(const char *path, uint8_t bytes[PTAH_BUILD_ID_MAX])
{
	struct perfdata_build_id id;
	int status;

	_Static_assert(sizeof(id.bytes) == PTAH_BUILD_ID_MAX, "one copy");
	if (!path || !bytes)
		return PTAH_E_INVAL;
	status = perfdata_build_id_read(path, &id);
	memcpy(bytes, id.bytes, sizeof(id.bytes));
	return status < 0 ? status : id.size;
}

int ptah_system_message(struct ptah_message *why, int error, const char *path, const char *what)
{
	return perfdata_system_message(why, error, path, what);
}

char *session_path(const struct ptah_session *s, const char *path)
{
	char *full;

	if (!s->symfs)
		return strdup(path);
	if (asprintf(&full, "%s%s", s->symfs, path) < 0)
		return NULL;
	path_resolve(full + strlen(s->symfs));
	return full;
}

char *session_map_path(const struct ptah_session *s, const struct change *change)
{
	const char *copy = session_copy_of(s, change);

	if (copy)
		return strdup(copy);
	return change->given && s->as_named ? strdup(change->path) : session_path(s, change->path);
}

static int report_changed(struct ptah_message *why, const char *path,
			  const struct perfdata_build_id *was, const struct perfdata_build_id *is)
{
	char was_text[2 * PERFDATA_BUILD_ID_MAX + 1], is_text[2 * PERFDATA_BUILD_ID_MAX + 1];

	perfdata_build_id_text(was, was_text);
	perfdata_build_id_text(is, is_text);
	return perfdata_message(
	    why, PTAH_E_CHANGED,
	    "%s is not the file that ran: its build id is %s, recorded was %s; restore it, "
	    "name another root with --symfs, or decode all the same with --force",
	    path, is->size ? is_text : "missing", was_text);
}

int session_check_file(struct ptah_session *s, const struct change *change,
		       struct ptah_message *why)
{
	char *path = session_map_path(s, change);
	struct perfdata_build_id was = change->id, is;
	int status, problem;

	if (!path)
		return PTAH_E_NOMEM;
	if (!was.size)
		perfdata_find_build_id(s->file, change->path, &was);
	problem = perfdata_build_id_read(path, &is) < 0 ? errno : 0;
	if (!problem && (!was.size || session_same_id(&was, &is)))
		status = 1;
	else
		status = session_find_copy(s, change, &was);
	if (!status && problem)
		status = perfdata_message(
		    why, PTAH_E_MISSING,
		    "%s: the recording ran this file, but it cannot be opened (%s); put it back, "
		    "name another root with --symfs, or go on without it with --force",
		    path, strerror(problem));
	else if (!status)
		status = report_changed(why, path, &was, &is);
	free(path);
	return status < 0 ? status : 0;
}

/*
 * perf's cache may have the vdso of the kernel that ran. perf lists that of 32-bit processes by a
 * name of its own.
 */
static int find_vdso(struct ptah_session *s, const struct change *change)
{
	const char *name = change->address > UINT32_MAX ? change->path : "[vdso32]";
	struct perfdata_build_id was = change->id;
	int status;

	if (strcmp(change->path, "[vdso]") != 0)
		return 0;
	if (!was.size)
		perfdata_find_build_id(s->file, name, &was);
	status = session_find_copy(s, change, &was);
	return status < 0 ? status : 0;
}

/* By path and build id: a file that was replaced during the recording is checked for both ids. */
static int compare_files(const void *a, const void *b)
{
	const struct change *x = *(const struct change *const *)a;
	const struct change *y = *(const struct change *const *)b;

	if (x->path != y->path)
		return (uintptr_t)x->path < (uintptr_t)y->path ? -1 : 1;
	return memcmp(&x->id, &y->id, sizeof(x->id));
}

/* Whether the recording has the mapping's code, too, from the same time on. */
static bool has_code(const struct change **changes, size_t count, size_t map)
{
	const struct change *m = changes[map];

	for (size_t i = map + 1; i < count && changes[i]->tsc - m->tsc < CHANGE_SAME_TICKS; i++)
		if (changes[i]->type == CHANGE_CODE && changes[i]->address >= m->address &&
		    changes[i]->address - m->address < m->size)
			return true;
	return false;
}

static int check_memory(struct ptah_session *s, const struct change **changes, size_t count,
			struct ptah_message *why)
{
	size_t n = 0;
	int status = 0;

	for (size_t i = 0; i < count; i++)
		if (changes[i]->type == CHANGE_MAP &&
		    !(has_code(changes, count, i) &&
		      session_check_file(s, changes[i], why) == PTAH_E_MISSING))
			changes[n++] = changes[i];
	qsort(changes, n, sizeof(*changes), compare_files);
	for (size_t i = 0; i < n && status >= 0; i++) {
		if (i && !compare_files(&changes[i - 1], &changes[i]))
			continue;
		status = change_is_file(changes[i]) ? session_check_file(s, changes[i], why)
						    : find_vdso(s, changes[i]);
		if (s->config.ignore_build_ids && status != PTAH_E_NOMEM)
			status = 0;
	}
	return status;
}

static int check_process(struct ptah_session *s, size_t process, bool *checked,
			 struct ptah_message *why)
{
	const struct change **changes;
	size_t count;
	bool *waits;
	int status;

	if (process == SESSION_NONE || checked[process])
		return 0;
	checked[process] = true;
	status = session_memory(s, process, &changes, &waits, &count);
	if (status < 0)
		return status;
	status = check_memory(s, changes, count, why);
	free(changes);
	free(waits);
	return status;
}

int session_check_files(struct ptah_session *s, struct ptah_message *why)
{
	bool *checked = calloc(s->process_count + 1, sizeof(*checked));
	int status = checked ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < s->stream_count && status >= 0; i++) {
		const struct stream *stream = &s->streams[i];
		const struct cpu *cpu = stream_is_shared(stream) ? &s->cpus[stream->cpu] : NULL;

		status = check_process(s, stream->process, checked, why);
		for (size_t k = 0; cpu && k < cpu->count && status >= 0; k++)
			status = check_process(s, cpu->turns[k].process, checked, why);
	}
	free(checked);
	return status;
}
