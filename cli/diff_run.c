/* SPDX-License-Identifier: MIT */
/* Reads one run for `ptah diff`, and lists what it counted by function (diff_run.h). */
#include "diff_run.h"
#include "output/annotate.h"
#include "profile_rows.h"
#include "saved_counts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int diff_run_read(const struct command *command, struct input *input, const char *path,
		  struct diff_run *run)
{
	char *arguments[] = {(char *)path, NULL};
	int status;

	*run = (struct diff_run){.path = path};
	input->path = NULL;
	status = counts_read(command, input, 1, arguments, &run->counts, &run->kernel);
	if (status) {
		run->counts = NULL;
		return status;
	}
	if (ptah_counts_totals(run->counts, &run->totals) < 0)
		return fail(command, "%s: the sums do not fit in 64 bits", path);
	return 0;
}

/* Lists the files of all processes, each path once, for their build ids. */
static int list_files(struct diff_run *run)
{
	struct ptah_counts_process p;

	for (size_t i = 0; ptah_counts_process(run->counts, i, &p); i++) {
		struct ptah_counts_file *files;

		for (size_t k = 0; k < p.file_count; k++) {
			size_t known = 0;

			while (known < run->file_count &&
			       strcmp(run->files[known].path, p.files[k].path))
				known++;
			if (known < run->file_count)
				continue;
			files = reallocarray(run->files, run->file_count + 1, sizeof(*files));
			if (!files)
				return PTAH_E_NOMEM;
			run->files = files;
			files[run->file_count++] = p.files[k];
		}
	}
	return 0;
}

void diff_run_identify(const struct diff_run *run, struct diff_entry *entry)
{
	for (size_t i = 0; i < run->file_count; i++) {
		if (strcmp(run->files[i].path, entry->path))
			continue;
		entry->build_id = run->files[i].build_id;
		entry->build_id_size = run->files[i].build_id_size;
		return;
	}
}

int diff_run_reserve(struct diff_run *run, size_t n, size_t texts)
{
	run->entries = calloc(n + 1, sizeof(*run->entries));
	run->texts = calloc(texts * n + 1, sizeof(*run->texts));
	return run->entries && run->texts ? 0 : PTAH_E_NOMEM;
}

const char *diff_run_text(struct diff_run *run, const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		return NULL;
	run->texts[run->text_count++] = text;
	return text;
}

static int list_functions(struct diff_run *run)
{
	struct hotspots *counter;
	size_t n = 0;
	int status = hotspots_new(&counter);

	if (status < 0)
		return status;
	status = hotspots_add_counts(counter, run->counts);
	if (status >= 0)
		status = hotspots_functions(counter, run->names, &run->functions, &n);
	hotspots_free(counter);
	if (status < 0)
		return status;
	status = diff_run_reserve(run, n, 0);
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct hotspot *f = &run->functions[i];
		struct diff_entry *e = &run->entries[run->count++];

		*e = (struct diff_entry){.path = f->name.path ? f->name.path : f->name.dso,
					 .name = f->name.mangled ? f->name.mangled : "",
					 .shown = f->name.symbol,
					 .other_name = f->name.symbol && !f->name.named ? "" : NULL,
					 .value = f->instructions,
					 .calls = f->calls};
		diff_run_identify(run, e);
	}
	return status;
}

/*
 * A branch of the same file is found by its offset in its function. In another file the function's
 * code may have changed: there all branches of a function are one row.
 */
static int add_branch(struct diff_run *run, const struct profile_row *branch)
{
	const struct name *name = names_find(run->names, (int32_t)branch->process, branch->from);
	const struct ptah_counts_file *file =
	    ptah_counts_find(run->counts, branch->process, branch->from);
	const uint64_t offset =
	    file ? file->file_offset + (branch->from - file->address) : branch->from;
	struct diff_entry e = {.path = name->path ? name->path : name->dso,
			       .other_name = "",
			       .build_id = file ? file->build_id : NULL,
			       .build_id_size = file ? file->build_id_size : 0,
			       .value = branch->count,
			       .calls = branch->taken};

	if (name->symbol) {
		e.name = diff_run_text(run, "%s+0x%" PRIx64, name->mangled, name->offset);
		e.shown = diff_run_text(run, "%s+0x%" PRIx64, name->symbol, name->offset);
	} else {
		e.name = e.shown = diff_run_text(run, "0x%" PRIx64, offset);
	}
	if (name->symbol && name->named) {
		e.other_name = diff_run_text(run, "%s: all branches", name->mangled);
		e.other_shown = diff_run_text(run, "%s: all branches", name->symbol);
	}
	if (!e.name || !e.shown || !e.other_name || (*e.other_name && !e.other_shown))
		return PTAH_E_NOMEM;
	run->entries[run->count++] = e;
	return 0;
}

/* Names are looked up process by process. */
static int by_process(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	return x->process < y->process ? -1 : x->process > y->process;
}

static int list_branches(struct diff_run *run)
{
	struct profile_rows rows = {0};
	int status = profile_rows(run->counts, BY_BRANCHES, &rows);

	if (status >= 0)
		status = diff_run_reserve(run, rows.count, 4);
	if (status >= 0 && rows.count)
		qsort(rows.row, rows.count, sizeof(*rows.row), by_process);
	for (size_t i = 0; i < rows.count && status >= 0; i++)
		status = add_branch(run, &rows.row[i]);
	free(rows.row);
	return status;
}

int diff_run_list(const struct input *input, enum diff_by by, struct diff_run *run)
{
	const char *path;
	int status = input_names(input, NULL, &run->names);

	if (status < 0)
		return status;
	names_use_kernel(run->names, &run->kernel);
	names_show_all(run->names); /* functions are compared by name, whether shown or not */
	status = names_use_counts(run->names, run->counts, input->force);
	for (size_t i = 0;
	     status >= 0 && !input->quiet && (path = names_changed_file(run->names, i)); i++)
		fprintf(
		    stderr,
		    "note: %s: %s is not the file that ran (its build id differs): its functions "
		    "have no names; --symfs names a folder that has it\n",
		    run->path, path);
	if (status >= 0)
		status = list_files(run);
	if (status < 0)
		return status;
	return by == DIFF_BRANCHES ? list_branches(run)
	       : by == DIFF_LINES  ? diff_run_list_lines(input, run)
				   : list_functions(run);
}

void diff_run_fini(struct diff_run *run)
{
	free(run->entries);
	for (size_t i = 0; i < run->text_count; i++)
		free(run->texts[i]);
	free(run->texts);
	annotation_free(run->annotation);
	free(run->functions);
	free(run->files);
	names_free(run->names);
	ptah_counts_free(run->counts);
	*run = (struct diff_run){0};
}
