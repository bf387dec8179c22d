/* SPDX-License-Identifier: MIT */
/*
 * ptah export of costs by instruction: reads the counts of the code, and then the single calls for
 * what each call instruction called.
 */
#include "export_view.h"
#include "progress.h"
#include "saved_counts.h"

#include "export/call_costs.h"

static bool wants_stream(void *exporting, size_t stream)
{
	const struct exporting *e = exporting;

	return input_wants(&e->options->input, e->session, stream);
}

static int read_batches(const struct exporting *e, struct ptah_call_reader *reader,
			struct call_arcs *arcs)
{
	const struct ptah_call_batch *batch;
	struct progress progress;
	int status = 0;

	progress_begin(&progress, &e->options->input, e->session, false);
	while (!interrupted() && (status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = call_arcs_add(arcs, batch);
		if (status < 0)
			break;
		progress_at(&progress, ptah_call_reader_offset(reader));
	}
	progress_end(&progress);
	return status;
}

static int read_arcs(struct exporting *e, struct call_arcs **arcs)
{
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .wants = wants_stream,
						       .context = e,
						       .jobs = input_jobs(&e->options->input, 0)};
	struct ptah_call_reader *reader;
	int status = call_arcs_new(arcs);

	if (status < 0)
		return status;
	status = ptah_call_reader_new(e->session, &config, &reader);
	if (status < 0)
		return status;
	status = read_batches(e, reader, *arcs);
	ptah_call_reader_free(reader);
	return status;
}

/* Reads the calls, and writes everything. */
static int put_costs(struct exporting *e, const struct annotation *annotation)
{
	struct call_costs costs = {.annotation = annotation,
				   .names = e->names,
				   .command = ptah_session_command(e->session)};
	struct call_arcs *arcs = NULL;
	int status = read_arcs(e, &arcs);

	costs.arcs = arcs;
	if (status >= 0 && interrupted())
		status = interrupted_status();
	else if (status >= 0)
		status = e->format->costs(e->out, &costs);
	call_arcs_free(arcs);
	return status;
}

static int annotate_and_put(struct exporting *e, const struct ptah_counts *counts,
			    const struct names_kernel *kernel)
{
	const struct input *input = &e->options->input;
	struct names *names = NULL; /* of the counts */
	struct annotation_config config = {.counts = counts, .session = e->session};
	struct annotation *annotation = NULL;
	int status = input_names(input, NULL, &names);

	if (status >= 0) {
		names_use_kernel(names, kernel);
		status = names_use_counts(names, counts, input->force);
	}
	config.names = names;
	if (status >= 0)
		status = annotation_new(&config, &annotation);
	if (status >= 0)
		status = put_costs(e, annotation);
	if (status >= 0)
		counts_note_changed(input, names);
	annotation_free(annotation);
	names_free(names);
	return status;
}

int export_costs(struct exporting *e)
{
	const struct input *input = &e->options->input;
	struct ptah_profile_totals totals;
	struct names_kernel kernel;
	struct ptah_counts *counts;
	int status;

	if (input->function)
		return fail_usage(&command_export, "--function: --to=%s is of all functions",
				  e->format->name);
	status = counts_of_session(&command_export, input, e->session, &counts, &kernel);
	if (status)
		return status;
	status = annotate_and_put(e, counts, &kernel);
	if (status >= 0 && ptah_counts_totals(counts, &totals, NULL) >= 0)
		e->errors = totals.errors;
	ptah_counts_free(counts);
	e->found = true;
	return status;
}
