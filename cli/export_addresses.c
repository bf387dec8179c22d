/* SPDX-License-Identifier: MIT */
/*
 * The driver of `ptah export` for profiles that compilers' tools read: adds up recordings and saved
 * counts, chooses a binary, and writes what ran of it.
 */
#include "base/path.h"
#include "export/bolt.h"
#include "export_view.h"
#include "read_outcomes.h"
#include "saved_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the command works with. */
struct addresses {
	const struct export_options *options;
	struct input *input;
	struct ptah_session *session; /* with a predictor */
	struct outcomes outcomes;
	struct ptah_counts *counts;
	struct address_object *objects; /* those with the most instructions first */
	size_t object_count;
	uint64_t instructions;
	struct address_object object; /* the chosen one */
	char *path;		      /* where its file is now */
};

/* With a predictor one recording is read, in order. Returns an exit code. */
static int read_ordered(struct addresses *a, int argc, char **argv)
{
	struct names_kernel kernel = {0};
	const char *path = argc ? argv[0] : a->input->path;
	int status, problem;

	if (argc > 1 || (path && !a->input->pt && ptah_counts_recognise(path) == PTAH_COUNTS_SUM))
		return fail_usage(&command_export, "--predictor needs the order of execution: one "
						   "recording, and no saved counts");
	status = input_open(&command_export, a->input, argc, argv, true, &a->session);
	if (!status)
		status =
		    counts_of_session(&command_export, a->input, a->session, &a->counts, &kernel);
	if (status)
		return status;
	problem = input_outcomes(a->input, a->session, &a->outcomes);
	if (problem >= 0)
		return 0;
	ptah_counts_free(a->counts);
	return fail(&command_export, "%s", ptah_strerror(problem));
}

static int read_counts(struct addresses *a, int argc, char **argv)
{
	struct names_kernel kernel;

	if (a->options->predictor)
		return read_ordered(a, argc, argv);
	return counts_read(&command_export, a->input, argc, argv, &a->counts, &kernel);
}

/* The program that ran most, or whatever did if there is none. */
static const struct address_object *find_program(const struct addresses *a)
{
	for (size_t i = 0; i < a->object_count; i++)
		if (a->objects[i].is_program)
			return &a->objects[i];
	return a->objects;
}

static bool is_wanted(const struct addresses *a, const struct address_object *object)
{
	const char *slash = strrchr(object->path, '/'), *name = a->options->dso;

	if (!name)
		return object == find_program(a);
	return !strcmp(object->path, name) || (slash && !strcmp(slash + 1, name));
}

/* Whether the file at a path is another one than the one that ran. */
static bool is_changed(const struct address_object *object, const char *path)
{
	uint8_t id[PTAH_BUILD_ID_MAX];
	const int n = ptah_build_id_read(path, id);

	return object->build_id_size && n >= 0 &&
	       (n != object->build_id_size || memcmp(id, object->build_id, (size_t)n) != 0);
}

/*
 * Where an object is: below --symfs, or in perf's cache if there is another file or none. NULL when
 * out of memory.
 */
static char *local_path(const struct addresses *a, const struct address_object *object)
{
	const char *symfs = a->input->symfs ? a->input->symfs : "";
	char cache[4096], *full, *copy;

	if (asprintf(&full, "%s%s", symfs, object->path) < 0)
		return NULL;
	if (*symfs)
		path_resolve(full + strlen(symfs));
	if (!access(full, F_OK) && !is_changed(object, full))
		return full;
	copy = ptah_build_id_find(input_build_id_cache(a->input, cache, sizeof(cache)),
				  object->build_id, object->build_id_size);
	if (!copy)
		return full;
	free(full);
	return copy;
}

static int fail_object(const struct addresses *a, const char *changed)
{
	if (changed)
		return fail(&command_export,
			    "%s is not the file that ran (its build id differs): --symfs or "
			    "--force",
			    changed);
	if (!a->object_count)
		return fail(&command_export, "no code of a file was executed");
	return fail(&command_export, "no code of \"%s\" was executed; the program is %s",
		    a->options->dso, find_program(a)->path);
}

/* Finds the binary that is meant. Returns an exit code. */
static int choose_object(struct addresses *a)
{
	const struct address_object *chosen = NULL;
	const char *changed = NULL;

	for (size_t i = 0; i < a->object_count; i++) {
		const struct address_object *o = &a->objects[i];
		char *path;

		if (!is_wanted(a, o))
			continue;
		if (chosen && a->options->dso && strcmp(chosen->path, o->path) != 0)
			return fail_usage(&command_export, "--dso=%s: it may be %s or %s",
					  a->options->dso, chosen->path, o->path);
		path = chosen ? NULL : local_path(a, o);
		if (path && is_changed(o, path) && !a->input->force) {
			changed = changed ? changed : o->path;
			free(path);
		} else if (path) {
			chosen = o;
			a->path = path;
		}
	}
	if (!chosen)
		return fail_object(a, changed);
	a->object = *chosen;
	return 0;
}

/* Says whose profile it is, and what is not in it. */
static void print_notes(const struct addresses *a, const struct address_profile *profile)
{
	if (a->input->quiet)
		return;
	if (!a->options->dso && a->object.instructions < a->instructions)
		print_clean("note: ",
			    "the profile is of %s, which has %.1f%% of the executed instructions; "
			    "--dso=FILE chooses another file",
			    a->object.path,
			    100.0 * (double)a->object.instructions / (double)a->instructions);
	if (profile->unknown)
		print_clean("note: ",
			    "of %" PRIu64 " executions of conditional branches the trace does not "
			    "have the outcome: runs end there",
			    profile->unknown);
	if (profile->runs.broken)
		print_clean(
		    "note: ", "%" PRIu64 " runs are cut in two, because too many pass one place",
		    profile->runs.broken);
}

static int make_profile(struct addresses *a, struct address_profile *profile)
{
	int problem = address_profile_make(a->counts, &a->object, a->path, profile);

	if (problem >= 0 && a->options->predictor) {
		problem =
		    address_profile_predict(profile, &a->object, a->path, a->session, &a->outcomes);
		if (problem < 0)
			address_profile_free(profile);
	}
	if (problem == PTAH_E_BAD_MAGIC)
		return fail(&command_export,
			    "%s: it cannot be read as an ELF file: is it still there?", a->path);
	return problem < 0 ? fail(&command_export, "%s", ptah_strerror(problem)) : 0;
}

/* Chooses the binary, makes its profile and writes it. Returns an exit code. */
static int write_profile(struct addresses *a,
			 int (*write)(struct out *out, const struct address_profile *profile))
{
	struct address_profile profile;
	struct out *out;
	int problem =
	    address_objects_list(a->counts, &a->objects, &a->object_count, &a->instructions);
	int status = problem < 0 ? fail(&command_export, "%s", ptah_strerror(problem)) : 0;

	if (!status)
		status = choose_object(a);
	if (!status)
		status = make_profile(a, &profile);
	if (status)
		return status;
	status = output_open(&command_export, a->input, &out);
	if (!status) {
		problem = write(out, &profile);
		if (problem < 0) {
			out_abort(out);
			status = fail(&command_export, "%s", ptah_strerror(problem));
		} else {
			status = output_close(&command_export, out, 0);
			print_notes(a, &profile);
		}
	}
	address_profile_free(&profile);
	return status;
}

int export_addresses(struct export_options *options, const struct export_format *format, int argc,
		     char **argv)
{
	struct addresses a = {.options = options, .input = &options->input};
	struct ptah_profile_totals totals;
	int status;

	if (options->input.function)
		return fail_usage(&command_export, "--function: --to=%s is of a whole file",
				  format->name);
	if (options->predictor && format->addresses != bolt_write)
		return fail_usage(&command_export, "--predictor: --to=%s has no mispredictions",
				  format->name);
	status = read_counts(&a, argc, argv);
	if (status)
		a.counts = NULL; /* freed */
	if (!status && interrupted())
		status = interrupted_status();
	if (!status)
		status = write_profile(&a, format->addresses);
	if (!status && ptah_counts_totals(a.counts, &totals, NULL) >= 0 && totals.errors)
		status = fail_errors(&command_export, totals.errors);
	free(a.objects);
	free(a.path);
	outcomes_free(&a.outcomes);
	ptah_counts_free(a.counts);
	ptah_session_close(a.session);
	return status;
}
