/* SPDX-License-Identifier: MIT */
/* Counts the code of a recording, and lists its source files (sources.h). */
#include "view/sources.h"

#include "base/order.h"
#include "base/path.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

int view_sources_new(const struct view_sources_config *config, struct view_sources **sources)
{
	struct view_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return PTAH_E_NOMEM;
	s->config = *config;
	s->texts.paths = config->paths;
	if (pthread_mutex_init(&s->lock, NULL)) {
		free(s);
		return PTAH_E_NOMEM;
	}
	*sources = s;
	return 0;
}

void view_sources_free(struct view_sources *s)
{
	if (!s)
		return;
	source_coverage_free(s->coverage);
	annotation_free(s->annotation);
	ptah_counts_free(s->counts);
	for (size_t i = 0; i < s->file_count; i++)
		free(s->names[i]);
	free(s->names);
	free(s->files);
	free(s->lines);
	free(s->by_start);
	free(s->ranks);
	source_files_fini(&s->texts);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Counting */

static bool goes_on(void *sources, uint64_t bytes)
{
	const struct view_sources *s = sources;

	(void)bytes;
	return !s->config.stopped || !s->config.stopped(s->config.stop_context);
}

static bool wants_source_stream(void *sources, size_t stream)
{
	const struct view_sources *s = sources;

	return !s->config.wants || s->config.wants(s->config.context, stream);
}

static int add_profile(void *sources, size_t stream, struct ptah_profile *profile)
{
	struct view_sources *s = sources;

	return ptah_counts_add_stream(s->counts, s->config.session, stream, profile);
}

static int count_source_lines(struct view_sources *s)
{
	const struct ptah_jobs jobs = {
	    .size = sizeof(jobs), .jobs = s->config.jobs, .progress = goes_on, .context = s};
	struct names *files = NULL; /* know which file was where */
	struct names_kernel kernel;
	int status = ptah_counts_new(&s->counts);

	if (status >= 0)
		status = ptah_session_count(s->config.session, &jobs, wants_source_stream,
					    add_profile, s);
	if (status >= 0 && !goes_on(s, 0))
		status = PTAH_E_END;
	if (status >= 0)
		status = names_new(s->config.session, s->config.symfs, &files);
	if (status >= 0)
		status = ptah_counts_locate(s->counts, names_find_file, files);
	names_free(files);
	if (status < 0)
		return status;
	names_kernel_of(s->config.session, &kernel);
	names_use_kernel(s->config.names, &kernel);
	return names_use_counts(s->config.names, s->counts, false);
}

/* Files and lines */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A name as coverage has it. The caller frees it. */
static char *resolved(const char *recorded)
{
	char *name = strdup(recorded);

	if (name && *name == '/')
		path_resolve(name);
	return name;
}

static bool add_name(struct view_sources *s, size_t *room, const char *recorded)
{
	if (!LIST_ROOM(s->names, s->file_count, *room))
		return false;
	s->names[s->file_count] = resolved(recorded);
	return s->names[s->file_count] && ++s->file_count;
}

/* Lists the names of all files, each once. */
static int list_names(struct view_sources *s, const struct annotate_line *ran, size_t n)
{
	size_t room = 0, kept = 0;

	for (size_t i = 0; i < s->coverage->file_count; i++)
		if (!add_name(s, &room, s->coverage->files[i].name))
			return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		if ((!i || ran[i].file != ran[i - 1].file) && !add_name(s, &room, ran[i].file))
			return PTAH_E_NOMEM;
	if (s->file_count)
		qsort(s->names, s->file_count, sizeof(*s->names), by_text);
	for (size_t i = 0; i < s->file_count; i++) {
		if (kept && !strcmp(s->names[kept - 1], s->names[i]))
			free(s->names[i]);
		else
			s->names[kept++] = s->names[i];
	}
	s->file_count = kept;
	return 0;
}

static uint32_t find_source_name(const struct view_sources *s, const char *name)
{
	char *const *found =
	    s->file_count ? bsearch(&name, s->names, s->file_count, sizeof(*s->names), by_text)
			  : NULL;

	return found ? (uint32_t)(found - s->names) : UINT32_MAX;
}

uint32_t view_sources_find(const struct view_sources *s, const char *recorded)
{
	char *name = recorded ? resolved(recorded) : NULL;
	const uint32_t file = name ? find_source_name(s, name) : UINT32_MAX;

	free(name);
	return file;
}

static int by_line(const void *a, const void *b)
{
	const struct view_line *x = a, *y = b;

	return COMPARE_THEN(x->file, y->file, COMPARE(x->line, y->line));
}

/* Adds up what is of one line. */
static void add_up(struct view_sources *s)
{
	size_t kept = 0;

	if (s->line_count)
		qsort(s->lines, s->line_count, sizeof(*s->lines), by_line);
	for (size_t i = 0; i < s->line_count; i++) {
		const struct view_line *from = &s->lines[i];
		struct view_line *to = kept ? &s->lines[kept - 1] : NULL;

		if (!to || by_line(to, from) != 0) {
			s->lines[kept++] = *from;
			continue;
		}
		to->executed += from->executed;
		to->instructions += from->instructions;
		to->covered += from->covered;
		if (to->object == VIEW_NO_OBJECT)
			to->object = from->object;
	}
	s->line_count = kept;
}

/* Lines that ran as `ptah annotate` counts them; those of line tables that did not, with 0. */
static int list_source_lines(struct view_sources *s, const struct annotate_line *ran, size_t n)
{
	size_t all = n;
	uint32_t file = UINT32_MAX;

	for (size_t i = 0; i < s->coverage->file_count; i++)
		all += s->coverage->files[i].line_count;
	s->lines = calloc(all + 1, sizeof(*s->lines));
	if (!s->lines)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!i || ran[i].file != ran[i - 1].file)
			file = view_sources_find(s, ran[i].file);
		if (file != UINT32_MAX)
			s->lines[s->line_count++] =
			    (struct view_line){.file = file,
					       .line = ran[i].line,
					       .object = ran[i].object,
					       .executed = ran[i].executed,
					       .instructions = ran[i].instructions};
	}
	for (size_t i = 0; i < s->coverage->file_count; i++) {
		const struct source_file_coverage *f = &s->coverage->files[i];

		file = find_source_name(s, f->name);
		for (size_t k = 0; k < f->line_count && file != UINT32_MAX; k++)
			s->lines[s->line_count++] =
			    (struct view_line){.file = file,
					       .line = f->lines[k].line,
					       .object = VIEW_NO_OBJECT,
					       .covered = f->lines[k].count};
	}
	add_up(s);
	/* Where a function is declared, no instruction may be of that line: then it ran as often as
	 * coverage has it. */
	for (size_t i = 0; i < s->line_count; i++)
		if (!s->lines[i].executed)
			s->lines[i].executed = s->lines[i].covered;
	return 0;
}

static int list_source_files(struct view_sources *s)
{
	s->files = calloc(s->file_count + 1, sizeof(*s->files));
	if (!s->files)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->file_count; i++)
		s->files[i].name = s->names[i];
	for (size_t i = 0; i < s->coverage->file_count; i++) {
		const uint32_t file = find_source_name(s, s->coverage->files[i].name);

		if (file != UINT32_MAX)
			s->files[file].coverage = &s->coverage->files[i];
	}
	for (size_t i = 0; i < s->line_count; i++) {
		const struct view_line *l = &s->lines[i];
		struct view_source_file *f = &s->files[l->file];

		if (!f->line_count++)
			f->first_line = i;
		f->lines_run += l->executed != 0;
		f->instructions += l->instructions;
	}
	return 0;
}

static int by_source_instructions(const void *x, const void *y, void *sources)
{
	const struct view_sources *s = sources;
	const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return COMPARE_THEN(s->files[b].instructions, s->files[a].instructions, COMPARE(a, b));
}

static int rank_files(struct view_sources *s)
{
	s->ranks = calloc(s->file_count + 1, sizeof(*s->ranks));
	if (!s->ranks)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->file_count; i++)
		s->ranks[i] = (uint32_t)i;
	if (s->file_count)
		qsort_r(s->ranks, s->file_count, sizeof(*s->ranks), by_source_instructions, s);
	return 0;
}

bool view_sources_rank(struct view_sources *s, size_t i, uint32_t *file)
{
	const bool found =
	    view_sources_lock(s) >= 0 && i < s->file_count && s->files[s->ranks[i]].instructions;

	if (found)
		*file = s->ranks[i];
	view_sources_unlock(s);
	return found;
}

/* Functions */

static int compare_start(const struct annotation *a, const struct annotate_function *f,
			 const char *path, uint64_t place)
{
	const struct annotate_object *o = &a->objects[f->object];
	const int order = strcmp(o->path ? o->path : "", path);

	return order ? order : COMPARE(f->start, place);
}

static int by_start(const void *x, const void *y, void *annotation)
{
	const struct annotation *a = annotation;
	const struct annotate_function *f = &a->functions[*(const uint32_t *)y];
	const struct annotate_object *o = &a->objects[f->object];

	return compare_start(a, &a->functions[*(const uint32_t *)x], o->path ? o->path : "",
			     f->start);
}

static int list_source_functions(struct view_sources *s)
{
	const size_t n = s->annotation->function_count;

	s->by_start = calloc(n + 1, sizeof(*s->by_start));
	if (!s->by_start)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		s->by_start[i] = (uint32_t)i;
	if (n)
		qsort_r(s->by_start, n, sizeof(*s->by_start), by_start, s->annotation);
	return 0;
}

const struct annotate_function *view_sources_function(const struct view_sources *s,
						      const char *path, uint64_t place)
{
	const struct annotation *a = s->annotation;
	size_t low = 0, high = a->function_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct annotate_function *f = &a->functions[s->by_start[middle]];
		const int order = compare_start(a, f, path, place);

		if (!order)
			return f;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* All of it */

static int make_sources(struct view_sources *s)
{
	struct annotation_config config = {.counts = NULL, .names = s->config.names};
	struct annotate_line *ran = NULL;
	size_t n = 0;
	int status = count_source_lines(s);

	config.counts = s->counts;
	if (status >= 0)
		status = annotation_new(&config, &s->annotation);
	if (status >= 0)
		status = source_coverage_new(s->annotation, &(struct source_coverage_config){0},
					     &s->coverage);
	if (status >= 0)
		status = annotate_lines(s->annotation, NULL, &ran, &n);
	if (status >= 0)
		status = list_names(s, ran, n);
	if (status >= 0)
		status = list_source_lines(s, ran, n);
	if (status >= 0)
		status = list_source_files(s);
	if (status >= 0)
		status = rank_files(s);
	if (status >= 0)
		status = list_source_functions(s);
	free(ran);
	return status;
}

int view_sources_lock(struct view_sources *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->made) {
		s->made = true;
		s->status = make_sources(s);
	}
	return s->status;
}

void view_sources_unlock(struct view_sources *s)
{
	pthread_mutex_unlock(&s->lock);
}
