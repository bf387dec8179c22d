/* SPDX-License-Identifier: MIT */
/* Takes the counts of a live session, and lists a function of them. */
#include "live_annotate.h"

#include "annotate_view.h"

#include <stdlib.h>
#include <string.h>

struct counting {
	struct ptah_counts *counts;
	const struct ptah_session *session;
};

/* A callback of ptah_live_counts(). */
static int add_live_code_profile(void *context, size_t stream, struct ptah_profile *profile)
{
	const struct counting *c = context;

	return ptah_counts_add_stream(c->counts, c->session, stream, profile);
}

int live_counts(const struct live_view *v, struct ptah_counts **counts)
{
	struct counting c = {.session = ptah_live_session(v->live)};
	struct names *names = NULL;
	int status = ptah_counts_new(&c.counts);

	if (status >= 0)
		status = ptah_live_counts(v->live, add_live_code_profile, &c);
	if (status >= 0)
		status = input_names(&v->options->record.input, c.session, &names);
	if (status >= 0)
		status = ptah_counts_locate(c.counts, names_find_file, names);
	names_free(names);
	if (status < 0) {
		ptah_counts_free(c.counts);
		c.counts = NULL;
	}
	*counts = c.counts;
	return status;
}

/* Whether it is the row's function. A row stands for a file that several processes have mapped. */
static bool is_of_row(const struct annotation *a, const struct annotate_function *f,
		      const struct live_row *row)
{
	const char *path = a->objects[f->object].path;

	if (!path || !row->path || strcmp(path, row->path) != 0)
		return false;
	return a->objects[f->object].is_file ? f->start == row->place : f->start == row->address;
}

/* The function that holds the row's address, as the counts have it. */
static const struct annotate_function *find_annotated_function(const struct annotation *a,
							       const struct live_row *row)
{
	for (size_t i = 0; i < a->function_count; i++)
		if (is_of_row(a, &a->functions[i], row))
			return &a->functions[i];
	return NULL;
}

static int put_live_code_listing(struct annotate_view *v, const struct annotate_function *f,
				 unsigned columns, char **text)
{
	const struct out_look look = {.columns = columns};
	size_t n;
	int status = out_open_memory(&v->out);

	if (status < 0)
		return status;
	out_set_look(v->out, &look);
	v->functions = &f;
	v->function_count = v->count = v->shown = 1;
	annotate_renderers[FORMAT_TEXT].row(v, f);
	out_char(v->out, '\0');
	*text = out_take(v->out, &n);
	return *text ? 0 : PTAH_E_NOMEM;
}

static int list(const struct live_view *v, struct ptah_counts *counts, const struct live_row *row,
		unsigned columns, char **text)
{
	/* On the screen there is no place for remarks. */
	struct annotate_options o = {.input = v->options->record.input};
	struct annotate_view view = {.options = &o};
	struct annotation_config config = {.counts = counts};
	struct annotation *a = NULL;
	const struct annotate_function *f;
	int status;

	o.input.quiet = true;
	status = input_names(&o.input, NULL, &view.names);
	if (status >= 0)
		status = names_use_counts(view.names, counts, true);
	config.names = view.names;
	if (status >= 0)
		status = annotation_new(&config, &a);
	view.annotation = a;
	view.sources.paths = input_source_paths(&o.input);
	f = status >= 0 ? find_annotated_function(a, row) : NULL;
	if (f)
		status = put_live_code_listing(&view, f, columns, text);
	source_files_fini(&view.sources);
	annotation_free(a);
	names_free(view.names);
	return status;
}

int live_annotate(const struct live_view *v, const struct live_row *row, unsigned columns,
		  char **text)
{
	struct ptah_counts *counts;
	int status;

	*text = NULL;
	ptah_live_hold(v->live);
	status = live_counts(v, &counts);
	ptah_live_release(v->live);
	if (status >= 0)
		status = list(v, counts, row, columns, text);
	ptah_counts_free(counts);
	return status;
}
