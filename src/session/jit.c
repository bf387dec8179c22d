/* SPDX-License-Identifier: MIT */
/*
 * Finds what runtimes have written about the code that they generated (jit.h). As with perf, a
 * process maps its jitdump (jit-PID.dump) as executable, although nothing in it is executed, so
 * that a record in the recording names the file; a map for perf is found by the process's number.
 */
#include "session/jit.h"

#include "perfdata/jit_folder.h"
#include "session/jit_follow.h"
#include "session/records.h"
#include "support/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A jitdump and the recording may have different clocks. Both count nanoseconds from when the
 * machine was started, and differ by what their speeds were corrected by since then. A clock of
 * another kind, such as one that counts instructions, is farther away.
 */
#define CLOCKS_APART (UINT64_C(600) * 1000000000)

bool jit_is_dump(const char *path, size_t n)
{
	int32_t number;

	return perfdata_jit_kind(path, n, &number) == PERFDATA_JIT_DUMP;
}

int jit_on_map(struct ptah_session *s, const struct perfdata_record *r)
{
	if (r->pid <= 0 || !jit_is_dump(r->text, r->text_size))
		return 0;
	if (s->growth)
		return jit_follow_dump(s, r);
	for (size_t i = 0; i < s->jitdump_count; i++)
		if (s->jitdumps[i].pid == r->pid &&
		    !strncmp(s->jitdumps[i].path, r->text, r->text_size) &&
		    !s->jitdumps[i].path[r->text_size])
			return 0;
	if (!LIST_ROOM(s->jitdumps, s->jitdump_count, s->jitdump_capacity))
		return PTAH_E_NOMEM;
	s->jitdumps[s->jitdump_count] = (struct jitdump){.pid = r->pid,
							 .time = r->time,
							 .path = strndup(r->text, r->text_size),
							 .older = SESSION_NONE};
	return s->jitdumps[s->jitdump_count++].path ? 0 : PTAH_E_NOMEM;
}

/* The file of this name in a folder, if there is one. The caller frees the path. */
static char *path_in(const char *folder, const char *name)
{
	char *path;

	if (!folder || asprintf(&path, "%s/%s", folder, name) < 0)
		return NULL;
	if (access(path, F_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* The same for the recorder's copies, then for the folder of the recording. */
static char *path_beside(const struct ptah_session *s, const char *name)
{
	char *path = path_in(s->jit_folder, name);

	return path ? path : path_in(s->folder, name);
}

char *jit_dump_path(const struct ptah_session *s, const struct jitdump *dump)
{
	const char *slash = strrchr(dump->path, '/');
	char name[64], *path;

	/* The copy has the number that the process has in the recording. */
	snprintf(name, sizeof(name), "jit-%d.dump", (int)dump->pid);
	path = path_in(s->jit_folder, name);
	if (!path)
		path = path_in(s->folder, slash ? slash + 1 : dump->path);
	return path ? path : session_path(s, dump->path);
}

int jit_note_unread(struct ptah_session *s, const char *path, int status)
{
	return session_note_format(
	    s,
	    "%s: %s: code that was generated while the program ran has no "
	    "names; put the file back, or a copy beside the recording",
	    path, status == PTAH_E_SYSTEM ? strerror(errno) : ptah_strerror(status));
}

bool jit_times_shift(const struct ptah_session *s, const struct jitdump *dump, uint64_t *shift)
{
	/* The file was begun just before it was mapped. */
	*shift = dump->time - dump->jit.time;
	return s->has_clock && dump->time &&
	       (*shift <= CLOCKS_APART || *shift >= UINT64_MAX - CLOCKS_APART);
}

/* Converts the times of the dump. False: its clock has nothing to do with the recording's. */
static bool convert_times(const struct ptah_session *s, struct jitdump *dump)
{
	uint64_t shift;

	if (dump->jit.is_tsc)
		return true;
	if (!jit_times_shift(s, dump, &shift))
		return false;
	for (size_t i = 0; i < dump->jit.count; i++)
		dump->jit.codes[i].from = session_tsc(s, dump->jit.codes[i].from + shift);
	return true;
}

/* Forgets the times. */
static void without_times(struct symbol_jit *jit)
{
	for (size_t i = 0; i < jit->count; i++)
		jit->codes[i].from = 0;
}

static int read_dump(struct ptah_session *s, struct jitdump *dump)
{
	char *path = jit_dump_path(s, dump);
	int status = path ? symbol_jitdump_read(path, &dump->jit) : PTAH_E_NOMEM;

	if (status < 0 && status != PTAH_E_NOMEM)
		status = jit_note_unread(s, path, status);
	else if (status >= 0)
		dump->has_times = convert_times(s, dump);
	if (status >= 0 && dump->jit.count && !dump->has_times) {
		without_times(&dump->jit);
		status = session_note_format(
		    s,
		    "%s: its clock is not that of the recording: where code replaced other "
		    "code, the last one gives the name",
		    path);
	}
	free(path);
	return status;
}

int jit_read_dumps(struct ptah_session *s)
{
	int status = 0;

	for (size_t i = 0; i < s->jitdump_count && status >= 0; i++)
		status = read_dump(s, &s->jitdumps[i]);
	return status;
}

static void leave_out(struct symbol_jit *jit, uint64_t high)
{
	for (size_t i = 0; i < jit->count; i++)
		jit->codes[i].from = jit->codes[i].from > high ? jit->codes[i].from - high : 0;
}

void jit_leave_out(struct ptah_session *s, uint64_t high)
{
	for (size_t i = 0; i < s->jitdump_count; i++)
		leave_out(&s->jitdumps[i].jit, high);
}

void jit_free_dumps(struct ptah_session *s)
{
	for (size_t i = 0; i < s->jitdump_count; i++) {
		if (s->growth)
			symbol_jit_file_close(&s->jitdumps[i].file);
		free(s->jitdumps[i].path);
		symbol_jit_free(&s->jitdumps[i].jit);
	}
	free(s->jitdumps);
}

/* The lists of a process, one after the other. SESSION_NONE: there are no more. */
static size_t first_list(const struct ptah_session *s, int32_t pid)
{
	if (s->growth)
		return jit_follow_newest(s, pid);
	for (size_t i = s->jitdump_count; i-- > 0;)
		if (s->jitdumps[i].pid == pid)
			return i;
	return SESSION_NONE;
}

static size_t next_list(const struct ptah_session *s, size_t list)
{
	const int32_t pid = s->jitdumps[list].pid;

	if (s->growth)
		return s->jitdumps[list].older;
	while (list-- > 0)
		if (s->jitdumps[list].pid == pid)
			return list;
	return SESSION_NONE;
}

bool jit_has_code(const struct ptah_session *s, int32_t pid)
{
	if (!s->use_jit_code)
		return false;
	for (size_t i = first_list(s, pid); i != SESSION_NONE; i = next_list(s, i))
		if (s->jitdumps[i].has_times)
			return true;
	return false;
}

const struct symbol_jit_code *jit_find_dumped(const struct ptah_session *s, int32_t pid,
					      uint64_t address, uint64_t tsc, uint64_t *low,
					      uint64_t *high, const struct symbol_jit **jit)
{
	const struct symbol_jit_code *found = NULL, *code;
	uint64_t l, h;

	for (size_t i = first_list(s, pid); i != SESSION_NONE; i = next_list(s, i)) {
		if (s->jitdumps[i].is_map)
			continue;
		code = symbol_jit_find(&s->jitdumps[i].jit, address, tsc, &l, &h);
		if (!code || (found && found->from >= code->from))
			continue;
		found = code;
		*jit = &s->jitdumps[i].jit;
		*low = l;
		*high = h;
	}
	return found;
}

const struct symbol_jit_code *jit_find_mapped(const struct ptah_session *s, int32_t pid,
					      uint64_t address, uint64_t *low, uint64_t *high,
					      const struct symbol_jit **jit)
{
	const struct symbol_jit_code *found = NULL;

	for (size_t i = first_list(s, pid); i != SESSION_NONE && !found; i = next_list(s, i))
		if (s->jitdumps[i].is_map) {
			*jit = &s->jitdumps[i].jit;
			found = symbol_jit_find(*jit, address, 0, low, high);
		}
	return found;
}

uint64_t jit_newest(const struct ptah_session *s, int32_t pid)
{
	uint64_t newest = 0;

	for (size_t i = first_list(s, pid); i != SESSION_NONE; i = next_list(s, i))
		newest = s->jitdumps[i].grown > newest ? s->jitdumps[i].grown : newest;
	return newest;
}

uint64_t jit_until(const struct ptah_session *s, int32_t pid, uint64_t address, uint64_t tsc)
{
	uint64_t until = UINT64_MAX, one;

	for (size_t i = first_list(s, pid); i != SESSION_NONE; i = next_list(s, i)) {
		one = symbol_jit_until(&s->jitdumps[i].jit, address, tsc);
		until = one < until ? one : until;
	}
	return until;
}

bool jit_read_dump_beside(const struct ptah_session *s, int32_t pid, struct symbol_jit *jit)
{
	char name[64], *path;
	uint64_t begin;
	bool read;

	*jit = (struct symbol_jit){0};
	for (size_t i = 0; i < s->jitdump_count; i++)
		if (s->jitdumps[i].pid == pid)
			return false;
	snprintf(name, sizeof(name), "jit-%d.dump", (int)pid);
	path = path_beside(s, name);
	read = path && symbol_jitdump_read(path, jit) >= 0;
	free(path);
	if (!read)
		return false;
	/* Recorders that emulate may use the clock that runtimes use. */
	for (size_t i = 0; i < jit->count && !jit->is_tsc; i++)
		jit->codes[i].from = session_tsc(s, jit->codes[i].from);
	begin = jit->is_tsc ? jit->time : session_tsc(s, jit->time);
	leave_out(jit, s->tsc_high);
	begin -= s->tsc_high;
	if (begin < s->begin || begin > s->end)
		without_times(jit);
	return true;
}

bool jit_read_map(const struct ptah_session *s, int32_t pid, struct symbol_jit *jit)
{
	char name[64], *path;
	bool read = false;

	snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int)pid);
	*jit = (struct symbol_jit){0};
	if (pid <= 0)
		return false;
	path = path_beside(s, name + strlen("/tmp/"));
	if (path)
		read = symbol_perf_map_read(path, false, jit) >= 0;
	free(path);
	path = read ? NULL : session_path(s, name);
	if (path)
		read = symbol_perf_map_read(path, !s->config.ignore_build_ids, jit) >= 0;
	free(path);
	return read;
}
