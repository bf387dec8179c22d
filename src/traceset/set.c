/* SPDX-License-Identifier: MIT */
/* The trace set as an object: what is added to it is checked and copied. */
#include "traceset/set.h"

#include "base/compiler.h"
#include "support/list.h"

#include <ptah/session.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ptah_trace_set_new(struct ptah_trace_set **set)
{
	if (!set)
		return PTAH_E_INVAL;
	*set = calloc(1, sizeof(**set));
	return *set ? 0 : PTAH_E_NOMEM;
}

void ptah_trace_set_free(struct ptah_trace_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->string_count; i++)
		free(set->strings[i]);
	free(set->strings);
	free(set->origin);
	free(set->folder);
	free(set->streams);
	free(set->code);
	free(set->threads);
	free(set->switches);
	free(set->sideband);
	free(set->events);
	free((void *)set->notes);
	free(set);
}

/* Appends a copy of an element to an array of the set. 0 or PTAH_E_NOMEM. */
#define APPEND(array, count, capacity, element)                                                    \
	(LIST_ROOM(array, count, capacity) ? ((array)[(count)++] = (element), 0) : PTAH_E_NOMEM)

/* Takes over a string from the heap. NULL: `text` is NULL, or there is no memory. */
static const char *keep_set_string(struct ptah_trace_set *set, char *text)
{
	/* Pieces of one file follow each other: the last path often comes again. */
	if (text && set->string_count && !strcmp(set->strings[set->string_count - 1], text)) {
		free(text);
		return set->strings[set->string_count - 1];
	}
	if (text && APPEND(set->strings, set->string_count, set->string_capacity, text) < 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Replaces a path by an absolute one that the set owns. */
static int keep_path(struct ptah_trace_set *set, const char **path)
{
	char *folder = NULL, *full = NULL;

	if (**path == '/') {
		*path = keep_set_string(set, strdup(*path));
		return *path ? 0 : PTAH_E_NOMEM;
	}
	while (!strncmp(*path, "./", 2))
		*path += 2 + strspn(*path + 2, "/");
	folder = set->folder ? set->folder : getcwd(NULL, 0);
	if (folder && asprintf(&full, "%s/%s", strcmp(folder, "/") ? folder : "", *path) < 0)
		full = NULL;
	if (!set->folder)
		free(folder);
	*path = keep_set_string(set, full);
	return *path ? 0 : PTAH_E_NOMEM;
}

int traceset_set_folder(struct ptah_trace_set *set, const char *folder)
{
	char *copy = strdup(folder);

	if (!copy)
		return PTAH_E_NOMEM;
	free(set->folder);
	set->folder = copy;
	return 0;
}

static bool is_file(const struct ptah_trace_file *file)
{
	return file->path && *file->path && (!file->to || file->from < file->to);
}

/* -1 for every number that stands for an unknown process or thread. */
static int32_t known(int32_t id)
{
	return id > 0 ? id : -1;
}

int ptah_trace_set_add_stream(struct ptah_trace_set *set, const struct ptah_trace_stream *stream)
{
	struct ptah_trace_stream s;
	int status;

	if (!set || !stream || stream->size < sizeof(*stream) || !is_file(&stream->file))
		return PTAH_E_INVAL;
	s = *stream;
	s.cpu = s.cpu < 0 ? -1 : s.cpu;
	s.pid = known(s.pid);
	s.tid = known(s.tid);
	s.gap = s.gap || s.lost;
	status = keep_path(set, &s.file.path);
	return status < 0 ? status
			  : APPEND(set->streams, set->stream_count, set->stream_capacity, s);
}

/* Whether the piece of a file fits the address space, as far as that can be seen here. */
static bool fits(const struct ptah_trace_code *code)
{
	const struct ptah_trace_file *file = &code->file;

	if (code->kind == PTAH_TRACE_CODE_RAW)
		return !file->to || file->to - file->from - 1 <= UINT64_MAX - code->address;
	return !file->from && !file->to && (code->kind != PTAH_TRACE_CODE_PAGES || !code->address);
}

int ptah_trace_set_add_code(struct ptah_trace_set *set, const struct ptah_trace_code *code)
{
	struct ptah_trace_code c;
	int status;

	if (!set || !code || code->size < sizeof(*code) || !is_file(&code->file) ||
	    code->kind >= PTAH_TRACE_CODE_MAX || !fits(code) ||
	    code->build_id_size > sizeof(code->build_id))
		return PTAH_E_INVAL;
	c = *code;
	c.pid = known(c.pid);
	if (!c.space.cr3 && !c.space.vmcs)
		c.space = (struct ptah_space){PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	if (c.pid >= 0 && (c.space.cr3 != PTAH_SPACE_ANY || c.space.vmcs != PTAH_SPACE_ANY))
		return PTAH_E_INVAL;
	if (c.recorded_path && !*c.recorded_path)
		c.recorded_path = NULL;
	status = keep_path(set, &c.file.path);
	if (status >= 0 && c.recorded_path) {
		c.recorded_path = keep_set_string(set, strdup(c.recorded_path));
		status = c.recorded_path ? 0 : PTAH_E_NOMEM;
	}
	return status < 0 ? status : APPEND(set->code, set->code_count, set->code_capacity, c);
}

int ptah_trace_set_add_thread(struct ptah_trace_set *set, const struct ptah_trace_thread *thread)
{
	struct ptah_trace_thread t;

	if (!set || !thread || thread->size < sizeof(*thread) || thread->tid <= 0 ||
	    !memchr(thread->comm, '\0', sizeof(thread->comm)))
		return PTAH_E_INVAL;
	t = *thread;
	t.pid = known(t.pid);
	return APPEND(set->threads, set->thread_count, set->thread_capacity, t);
}

int ptah_trace_set_add_switch(struct ptah_trace_set *set, const struct ptah_trace_switch *change)
{
	struct ptah_trace_switch s;

	if (!set || !change || change->size < sizeof(*change) || change->cpu < 0)
		return PTAH_E_INVAL;
	s = *change;
	s.pid = s.pid < 0 ? -1 : s.pid;
	s.tid = s.tid < 0 ? -1 : s.tid;
	return APPEND(set->switches, set->switch_count, set->switch_capacity, s);
}

int ptah_trace_set_add_sideband(struct ptah_trace_set *set,
				const struct ptah_trace_sideband *sideband)
{
	struct ptah_trace_sideband s;
	int status;

	if (!set || !sideband || sideband->size < sizeof(*sideband) || !is_file(&sideband->file))
		return PTAH_E_INVAL;
	s = *sideband;
	s.cpu = s.cpu < 0 ? -1 : s.cpu;
	s.pid = known(s.pid);
	s.tid = known(s.tid);
	status = keep_path(set, &s.file.path);
	return status < 0 ? status
			  : APPEND(set->sideband, set->sideband_count, set->sideband_capacity, s);
}

int ptah_trace_set_add_event(struct ptah_trace_set *set, const struct ptah_trace_event *event)
{
	if (!set || !event || event->size < sizeof(*event))
		return PTAH_E_INVAL;
	return APPEND(set->events, set->event_count, set->event_capacity, *event);
}

static bool has_valid_ranges(const struct ptah_trace_config *trace)
{
	for (size_t i = 0; i < PTAH_RANGES; i++)
		if (trace->ranges[i].mode > PTAH_RANGE_STOP ||
		    (trace->ranges[i].mode && trace->ranges[i].last < trace->ranges[i].first))
			return false;
	return true;
}

#define FIELD_MAX 15 /* MTCFreq and CycThresh in IA32_RTIT_CTL have four bits */

int ptah_trace_set_processor(struct ptah_trace_set *set,
			     const struct ptah_trace_processor *processor)
{
	if (!set || !processor || processor->size < sizeof(*processor) ||
	    (processor->has_clock && (!processor->time_mult || processor->time_shift >= 64)) ||
	    processor->trace.mtc_period > FIELD_MAX || processor->trace.cyc_threshold > FIELD_MAX ||
	    !has_valid_ranges(&processor->trace))
		return PTAH_E_INVAL;
	set->processor = *processor;
	return 0;
}

/* Whether the text is a list of ranges, all of them numbers. */
static bool is_filter(const char *text)
{
	struct ptah_filter filter;
	size_t n = 0;

	while (*(text += strspn(text, " ,")))
		if (++n > PTAH_RANGES || ptah_filter_parse(&text, &filter, NULL) < 0 ||
		    *filter.start.name || !filter.has_end || *filter.end.name || !filter.end.number)
			return false;
	return n > 0;
}

/*
 * The quotation marks that the name of a file in a folder needs in the text of a filter. One with
 * both kinds cannot be written there.
 */
static const char *quotes_for(const char *folder, const char *file)
{
	static const char special[] = " ,\"'";

	if (!folder[strcspn(folder, special)] && !file[strcspn(file, special)])
		return "";
	return strchr(folder, '"') || strchr(file, '"') ? "'" : "\"";
}

char *traceset_move_filter(const char *text, const char *of, const char *below)
{
	const size_t n = below ? strlen(below) : 0;
	struct ptah_filter filter;
	char *moved = strdup("");

	while (moved && *(text += strspn(text, " ,")) &&
	       ptah_filter_parse(&text, &filter, NULL) >= 0) {
		const char *file = filter.file;
		const bool add = of && *file && *file != '/';
		const char *quote;
		char *longer;

		if (below && n && !strncmp(file, below, n) && file[n] == '/' && file[n + 1])
			file += n + 1;
		quote = add ? quotes_for(of, file) : quotes_for("", file);
		if (asprintf(&longer, "%s%s%s 0x%" PRIx64 "/0x%" PRIx64 "%s%s%s%s%s%s", moved,
			     *moved ? "," : "", filter.mode == PTAH_RANGE_STOP ? "stop" : "filter",
			     filter.start.number, filter.end.number, *file ? "@" : "", quote,
			     add ? of : "", add ? "/" : "", file, quote) < 0)
			longer = NULL;
		free(moved);
		moved = longer;
	}
	return moved;
}

/* The text of a filter, with files by their whole paths. NULL: out of memory. */
static const char *keep_filter(struct ptah_trace_set *set, const char *text)
{
	char *folder = set->folder ? strdup(set->folder) : getcwd(NULL, 0);
	const char *filter =
	    folder ? keep_set_string(set, traceset_move_filter(text, folder, NULL)) : NULL;

	free(folder);
	return filter;
}

static int keep_system(struct ptah_trace_set *set, const struct ptah_trace_system *system)
{
	struct ptah_trace_system s = *system;
	const char **paths[] = {&s.kcore,
				&s.kallsyms,
				&s.root,
				&s.vdso[PTAH_TRACE_VDSO_64],
				&s.vdso[PTAH_TRACE_VDSO_32],
				&s.vdso[PTAH_TRACE_VDSO_X32]},
		   **kept[] = {&set->kcore,
			       &set->kallsyms,
			       &set->root,
			       &set->vdso[PTAH_TRACE_VDSO_64],
			       &set->vdso[PTAH_TRACE_VDSO_32],
			       &set->vdso[PTAH_TRACE_VDSO_X32]};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (*paths[i] && !**paths[i])
			return PTAH_E_INVAL;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (*paths[i] && keep_path(set, paths[i]) < 0)
			return PTAH_E_NOMEM;
	if (s.filter && !(s.filter = keep_filter(set, s.filter)))
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (*paths[i])
			*kept[i] = *paths[i];
	if (s.filter)
		set->filter = s.filter;
	return 0;
}

int ptah_trace_set_system(struct ptah_trace_set *set, const struct ptah_trace_system *system)
{
	if (!set || !system || system->size < sizeof(*system) ||
	    (system->filter && !is_filter(system->filter)))
		return PTAH_E_INVAL;
	return keep_system(set, system);
}

int trace_set_note(struct ptah_trace_set *set, const char *text)
{
	const char *note;

	if (!set || !text || !*text)
		return PTAH_E_INVAL;
	note = keep_set_string(set, strdup(text));
	return note ? APPEND(set->notes, set->note_count, set->note_capacity, note) : PTAH_E_NOMEM;
}
