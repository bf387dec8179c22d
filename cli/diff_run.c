/* SPDX-License-Identifier: MIT */
/* Reads one run for `ptah diff`, and lists what it counted by function (diff_run.h). */
#include "base/order.h"
#include "diff_run.h"
#include "profile_rows.h"
#include "saved_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
	if (ptah_counts_totals(run->counts, &run->totals, NULL) < 0)
		return fail(command, "%s: the sums do not fit in 64 bits", path);
	return 0;
}

/*
 * A branch of the same file is found by its offset in its function. In another file the function's
 * code may have changed: there all branches of a function are one row.
 */
static int add_branch(struct diff_list *list, const struct profile_row *branch)
{
	const struct name *name = names_find_version(list->names, (int32_t)branch->process,
						     branch->from, branch->version);
	const struct ptah_counts_file *file =
	    ptah_counts_find(list->counts, branch->process, branch->from, branch->version);
	const uint64_t offset =
	    file ? file->file_offset + (branch->from - file->address) : branch->from;
	struct diff_entry e = {.path = name->path ? name->path : name->dso,
			       .other_name = "",
			       .build_id = file ? file->build_id : NULL,
			       .build_id_size = file ? file->build_id_size : 0,
			       .value = branch->count,
			       .calls = branch->taken};

	if (name->symbol) {
		e.name = diff_list_text(list, "%s+0x%" PRIx64, name->mangled, name->offset);
		e.shown = diff_list_text(list, "%s+0x%" PRIx64, name->symbol, name->offset);
	} else {
		e.name = e.shown = diff_list_text(list, "0x%" PRIx64, offset);
	}
	if (name->symbol && name->named) {
		e.other_name = diff_list_text(list, "%s: all branches", name->mangled);
		e.other_shown = diff_list_text(list, "%s: all branches", name->symbol);
	}
	if (!e.name || !e.shown || !e.other_name || (*e.other_name && !e.other_shown))
		return PTAH_E_NOMEM;
	list->entries[list->count++] = e;
	return 0;
}

/* Names are looked up process by process. */
static int by_process(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	return COMPARE(x->process, y->process);
}

static int list_branches(struct diff_list *list)
{
	struct profile_rows rows = {0};
	int status = profile_rows(list->counts, BY_BRANCHES, &rows);

	if (status >= 0)
		status = diff_list_reserve(list, rows.count, 4);
	if (status >= 0 && rows.count)
		qsort(rows.row, rows.count, sizeof(*rows.row), by_process);
	for (size_t i = 0; i < rows.count && status >= 0; i++)
		status = add_branch(list, &rows.row[i]);
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
	if (status < 0)
		return status;
	run->list.counts = run->counts;
	run->list.names = run->names;
	return by == DIFF_BRANCHES ? list_branches(&run->list)
	       : by == DIFF_LINES  ? diff_list_lines(&run->list)
				   : diff_list_functions(&run->list);
}

void diff_run_fini(struct diff_run *run)
{
	diff_list_fini(&run->list);
	names_free(run->names);
	ptah_counts_free(run->counts);
	*run = (struct diff_run){0};
}
