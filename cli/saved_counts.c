/* SPDX-License-Identifier: MIT */
/* Reads counts from recordings and from saved files, adds them up, and saves them. */
#include "saved_counts.h"
#include "call_trees.h"
#include "output/names.h"
#include "support/list.h"
#include "window.h"

#include <stdio.h>
#include <stdlib.h>

struct counting {
	struct ptah_counts *counts;
	const struct ptah_session *session;
};

/* A callback of input_count(). */
static int add_saved_profile(void *counting, const struct ptah_stream_info *info, size_t stream,
			     struct ptah_profile *profile)
{
	const struct counting *c = counting;

	(void)info;
	return ptah_counts_add_stream(c->counts, c->session, stream, profile);
}

/* The calls of each of the session's spaces. */
struct calling {
	struct space_calls {
		int32_t space;
		struct ptah_call_tree *tree;
	} * spaces;
	size_t count;
};

/* A callback of input_call_trees(). */
static int take_saved_tree(void *calling, const struct ptah_call_thread *thread,
			   const struct ptah_call_tree *tree)
{
	struct calling *c = calling;
	struct space_calls *new;

	for (size_t i = 0; i < c->count; i++)
		if (c->spaces[i].space == thread->space)
			return ptah_call_tree_merge(c->spaces[i].tree, tree, NULL, NULL);
	if (!LIST_ADD(c->spaces, c->count))
		return PTAH_E_NOMEM;
	new = &c->spaces[c->count - 1];
	new->space = thread->space;
	if (ptah_call_tree_new(NULL, &new->tree) < 0)
		return PTAH_E_NOMEM;
	return ptah_call_tree_merge(new->tree, tree, NULL, NULL);
}

static int count_calls(const struct input *input, const struct ptah_session *session,
		       struct ptah_counts *counts)
{
	struct calling c = {0};
	uint64_t errors; /* the profiles have counted them */
	int status = input_call_trees(input, session, take_saved_tree, &c, &errors);

	for (size_t i = 0; i < c.count; i++) {
		if (status >= 0)
			status = ptah_counts_add_session_calls(counts, session, c.spaces[i].space,
							       c.spaces[i].tree);
		ptah_call_tree_free(c.spaces[i].tree);
	}
	free(c.spaces);
	return status;
}

static int count_session(const struct input *input, const struct ptah_session *session,
			 struct ptah_counts *counts)
{
	struct names *names = NULL;
	int status = input_names(input, session, &names);

	if (status >= 0)
		status = input_count(input, session, add_saved_profile,
				     &(struct counting){counts, session});
	if (status >= 0 && input->calls)
		status = count_calls(input, session, counts);
	if (status >= 0)
		status = ptah_counts_locate(counts, names_find_file, names);
	names_free(names);
	return status;
}

int counts_of_session(const struct command *command, const struct input *input,
		      const struct ptah_session *session, struct ptah_counts **counts,
		      struct names_kernel *kernel)
{
	int problem = ptah_counts_new(counts);

	if (problem >= 0)
		problem = count_session(input, session, *counts);
	if (problem < 0) {
		ptah_counts_free(*counts);
		*counts = NULL;
	}
	names_kernel_of(session, kernel);
	input_notes(input, session);
	return problem < 0 ? fail(command, "%s", ptah_strerror(problem)) : 0;
}

static int count_recording(const struct command *command, struct input *input,
			   struct ptah_counts **counts, struct names_kernel *kernel)
{
	struct ptah_session *session;
	int status;

	input->samples = input->calls; /* threads that wait until the end take time */
	status = input_open(command, input, 0, NULL, true, &session);
	if (status)
		return status;
	status = counts_of_session(command, input, session, counts, kernel);
	ptah_session_close(session);
	return status;
}

static int open_saved(const struct command *command, const struct input *input,
		      struct ptah_counts **counts)
{
	struct ptah_message why = {""};

	if (input->tid || input->pid || input->comm || input->cpu) {
		fail(command,
		     "%s holds counts, which know no threads: --pid, --tid, --comm and --cpu "
		     "are for recordings",
		     input->path);
		return EXIT_USAGE;
	}
	if (window_is_wanted(input)) {
		fail(command,
		     "%s holds counts, which know no times: --since, --until and --around are for "
		     "recordings",
		     input->path);
		return EXIT_USAGE;
	}
	if (ptah_counts_open(input->path, counts, &why) < 0)
		return fail(command, "%s", why.text);
	return 0;
}

static int read_one(const struct command *command, struct input *input, struct ptah_counts **counts,
		    struct names_kernel *kernel)
{
	const int status = input_check_output(command, input);

	if (status)
		return status;
	if (input->pt || !input->path || ptah_counts_recognise(input->path) != PTAH_COUNTS_SUM)
		return count_recording(command, input, counts, kernel);
	if (input->kallsyms && !kernel->kallsyms[0])
		snprintf(kernel->kallsyms, sizeof(kernel->kallsyms), "%s", input->kallsyms);
	kernel->no_modules = true;
	return open_saved(command, input, counts);
}

static int add_saved_file(const struct command *command, struct input *input,
			  struct ptah_counts *into, struct names_kernel *kernel)
{
	struct ptah_counts *more;
	int status = read_one(command, input, &more, kernel), problem;

	if (status)
		return status;
	problem = ptah_counts_merge(into, more);
	ptah_counts_free(more);
	if (problem < 0)
		return fail(command, "%s: %s", input->path,
			    problem == PTAH_E_LIMIT ? "the sums do not fit in 64 bits"
						    : ptah_strerror(problem));
	return 0;
}

int counts_read(const struct command *command, struct input *input, int argc, char **argv,
		struct ptah_counts **counts, struct names_kernel *kernel)
{
	int status;

	*kernel = (struct names_kernel){0};
	*counts = NULL;
	if (argc && (input->path || input->pt)) {
		fail(command, "--input, --pt or names of files: one of them; \"%s\" is too much",
		     argv[0]);
		return EXIT_USAGE;
	}
	if (argc)
		input->path = argv[0];
	status = read_one(command, input, counts, kernel);
	for (int i = 1; i < argc && !status && !interrupted(); i++) {
		input->path = argv[i];
		status = add_saved_file(command, input, *counts, kernel);
	}
	if (status) {
		ptah_counts_free(*counts);
		*counts = NULL;
	}
	kernel->no_modules |= argc > 1;
	return status;
}

void counts_note_changed(const struct input *input, const struct names *names)
{
	const char *path;

	for (size_t i = 0; !input->quiet && (path = names_changed_file(names, i)); i++)
		print_clean("note: ",
			    "%s is not the file that ran (its build id differs): its functions "
			    "have no names; --force gives them all the same",
			    path);
}

int counts_create(const struct command *command, const char *path, struct out **out)
{
	*out = NULL;
	input_watch_signals();
	return path ? output_create(command, path, out) : EXIT_OK;
}

int saved_write(const struct command *command, int status, void *bytes, size_t n, struct out *out)
{
	struct ptah_message why = {""};

	if (status < 0) {
		out_abort(out);
		return fail(command, "%s", ptah_strerror(status));
	}
	out_bytes(out, bytes, n);
	free(bytes);
	return out_close(out, &why) < 0 ? fail(command, "%s", why.text) : 0;
}

int counts_write(const struct command *command, const struct ptah_counts *counts, struct out *out,
		 bool keep)
{
	void *bytes = NULL;
	size_t n = 0;
	int status;

	if (!out)
		return 0;
	if (!keep || interrupted()) {
		out_abort(out);
		return interrupted_status();
	}
	status = ptah_counts_save(counts, &bytes, &n);
	return saved_write(command, status, bytes, n, out);
}
