/* SPDX-License-Identifier: MIT */
/* ptah export to a database: its writer reads the single calls, and makes the file itself. */
#include "export_view.h"
#include "progress.h"

#include "export/database.h"
#include "output/wait_names.h"

struct database {
	const struct exporting *e;
	struct progress progress;
	struct ptah_waits *waits; /* NULL: none are known */
};

static bool wants_database_stream(void *database, size_t stream)
{
	const struct exporting *e = ((const struct database *)database)->e;

	return input_wants(&e->options->input, e->session, stream);
}

/* A thread whose trace ends while it waits waits on. */
static uint64_t end_in_database(void *database, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct database *d = database;

	return wait_end_of_thread(d->waits, d->e->session, thread, tsc);
}

static bool show_progress(void *database, uint64_t bytes)
{
	progress_at(&((struct database *)database)->progress, bytes);
	return !interrupted();
}

int export_database(struct exporting *e)
{
	const struct input *input = &e->options->input;
	struct database d = {.e = e};
	struct ptah_call_reader_config reader = {.size = sizeof(reader),
						 .wants = wants_database_stream,
						 .context = &d,
						 .jobs = input_jobs(input, 0)};
	struct export_database db = {.path = input->output,
				     .session = e->session,
				     .names = e->names,
				     .reader = &reader,
				     .branches = (enum export_branches)e->options->branches,
				     .recording = input->path ? input->path
						  : input->pt ? input->pt
							      : "perf.data",
				     .step = show_progress,
				     .context = &d};
	struct ptah_message why = {""};
	int status;

	if (input->function)
		return fail_usage(
		    &command_export,
		    "--function is not for databases: their queries choose functions");
	if (ptah_session_samples(e->session)) {
		status = ptah_waits_new(e->session, NULL, &d.waits);
		if (status < 0)
			return status;
		reader.ended = end_in_database;
	}
	progress_begin(&d.progress, input, e->session, true);
	status = e->format->database(&db, &why);
	progress_end(&d.progress);
	ptah_waits_free(d.waits);
	e->errors = db.errors;
	e->found = true;
	if (status < 0 && *why.text)
		return fail(&command_export, "%s", why.text);
	return status < 0 ? status : interrupted_status();
}
