/* SPDX-License-Identifier: MIT */
/* ptah merge: adds up saved counts, and joins the shards of recordings. */
#include "shard_source.h"
#include "saved_counts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool partial, keep_processes;
};

static const struct option_def merge_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, input.output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write the sum to FILE",
     .man = "Write the sum to *FILE*, which is needed. It is written as *FILE*.tmp and renamed at "
	    "the end, so that *FILE* is never incomplete; it may be one of those that are added "
	    "up."},
    {.name = "partial",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, partial),
     .help = "write a shard, though some shards are missing",
     .man = "Join shards of which some are missing. *FILE* is then a shard with those that were "
	    "there, to be merged with the others later. Without the option missing shards are "
	    "named, and nothing is written."},
    {.name = "keep-processes",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, keep_processes),
     .help = "keep the processes of different runs apart",
     .man = "Keep the processes of different runs apart: only those of the same pid and name "
	    "whose files were at the same addresses are added up, as *ptah profile* adds up "
	    "several files. Without the option all processes of one program become one."},
    {0},
};

/*
 * Sums of files. A sum of as many files as the one before it is added to that one, so that there
 * are few sums at a time, each file is added to a few of them, and the order is kept.
 */
struct sum {
	size_t files;
	struct ptah_counts *counts; /* or */
	struct ptah_shard *shard;
};

#define MOST_SUMS 64 /* a sum of 2^63 files and one of each power of two below */

struct merge {
	bool keep_processes;
	const char *const *paths;
	const char **owners; /* of each shard the file that has it; NULL: no shards yet */
	struct sum sums[MOST_SUMS];
	size_t count;
};

static void free_sum(struct sum *sum)
{
	ptah_counts_free(sum->counts);
	ptah_shard_free(sum->shard);
	*sum = (struct sum){0};
}

static int fail_sum(const char *path, int status, const struct ptah_message *why)
{
	return fail(&command_merge, "%s: %s", path,
		    why->text[0] ? why->text
		    : status == PTAH_E_LIMIT
			? "the sums do not fit in 64 bits, or there are too many processes"
			: ptah_strerror(status));
}

/* Adds the last sum to the one before it. `path`: the file that was read last. */
static int add_last(struct merge *m, const char *path)
{
	struct sum *into = &m->sums[m->count - 2], *from = into + 1;
	struct ptah_message why = {""};
	int status = into->shard	 ? ptah_shard_join(into->shard, from->shard, false, &why)
		     : m->keep_processes ? ptah_counts_merge(into->counts, from->counts)
					 : ptah_counts_fold(into->counts, from->counts);

	if (status < 0)
		return fail_sum(path, status, &why);
	into->files += from->files;
	free_sum(from);
	m->count--;
	return 0;
}

/* Takes note of the shards in a file, of which none may be in another one. */
static int own_shards(struct merge *m, const char *path, const struct ptah_shard *shard)
{
	uint32_t parts = 0;

	while (ptah_shard_has(shard, parts + 1) >= 0)
		parts++;
	if (!m->owners)
		m->owners = calloc((size_t)parts + 1, sizeof(*m->owners));
	if (!m->owners)
		return fail(&command_merge, "%s", ptah_strerror(PTAH_E_NOMEM));
	for (uint32_t i = 1; i <= parts; i++) {
		if (!ptah_shard_has(shard, i))
			continue;
		if (m->owners[i])
			return fail(&command_merge,
				    "%s: shard %" PRIu32 " of %" PRIu32 " is in %s, too", path, i,
				    parts, m->owners[i]);
		m->owners[i] = path;
	}
	return 0;
}

/* Finds out whether the shard belongs to those before it. */
static int check_shard(struct merge *m, const char *path, const struct ptah_shard *shard)
{
	struct ptah_message why = {""};

	for (size_t i = 0; i < m->count; i++)
		if (ptah_shard_join(m->sums[i].shard, shard, true, &why) < 0)
			return fail(&command_merge, "%s does not belong to %s: %s", path,
				    m->paths[0], why.text);
	return own_shards(m, path, shard);
}

/* Counts of another run: their processes are put together with those before. */
static int fold_counts(struct sum *sum, const char *path)
{
	static const struct ptah_message none = {""};
	struct ptah_counts *folded;
	int status = ptah_counts_new(&folded);

	if (status >= 0)
		status = ptah_counts_fold(folded, sum->counts);
	if (status < 0) {
		ptah_counts_free(folded);
		return fail_sum(path, status, &none);
	}
	ptah_counts_free(sum->counts);
	sum->counts = folded;
	return 0;
}

static int read_merge_file(struct merge *m, const char *path)
{
	struct sum *sum = &m->sums[m->count];
	struct ptah_message why = {""};
	const bool is_shard = ptah_counts_recognise(path) == PTAH_COUNTS_SHARD;
	int status;

	if (m->count && is_shard != (m->sums[0].shard != NULL))
		return fail(&command_merge,
			    "%s is %s and %s is not: shards are joined first, and what they are "
			    "together is added up with other counts",
			    is_shard ? path : m->paths[0], "a shard",
			    is_shard ? m->paths[0] : path);
	*sum = (struct sum){.files = 1};
	status = is_shard ? ptah_shard_open(path, &sum->shard, &why)
			  : ptah_counts_open(path, &sum->counts, &why);
	if (status < 0)
		return fail(&command_merge, "%s", why.text);
	if (is_shard)
		return check_shard(m, path, sum->shard);
	return m->keep_processes ? 0 : fold_counts(sum, path);
}

/* Reads a file and adds it up. */
static int add_merge_file(struct merge *m, const char *path)
{
	int status = read_merge_file(m, path);

	if (status) {
		free_sum(&m->sums[m->count]);
		return status;
	}
	m->count++;
	while (!status && m->count > 1 &&
	       m->sums[m->count - 1].files == m->sums[m->count - 2].files)
		status = add_last(m, path);
	return status;
}

static int add_merge_files(struct merge *m, int n)
{
	int status = 0;

	for (int i = 0; i < n && !status; i++)
		status = interrupted() ? interrupted_status() : add_merge_file(m, m->paths[i]);
	while (!status && m->count > 1)
		status = add_last(m, m->paths[n - 1]);
	return status;
}

/* Names what was not read by those who counted. */
static void name_unread(const struct input *input, const struct ptah_shard *shard)
{
	const char *name;

	for (size_t i = 0; !input->quiet && (name = ptah_shard_unread(shard, i)); i++)
		print_clean("note: ", "%s could not be read, and is not counted", name);
}

/* What was not added up with other runs. */
static void name_apart(const struct options *o, const struct ptah_counts *counts)
{
	struct ptah_counts_process p;
	uint64_t processes = 0, instructions = 0;

	for (size_t i = 0; ptah_counts_process(counts, i, &p); i++)
		if (!p.folded) {
			processes++;
			instructions += p.totals.instructions;
		}
	if (processes && !o->keep_processes && !o->input.quiet)
		print_clean(
		    "note: ",
		    "%" PRIu64 " process%s ran %" PRIu64 " instructions in code that cannot be "
		    "found again in another run: it has no build id (generated code, [vdso]) "
		    "or is the kernel's. They are kept apart",
		    processes, processes == 1 ? "" : "es", instructions);
}

/* Writes counts, which keep what decoding them found. */
static int write_merge_counts(const struct ptah_counts *counts, struct out *out)
{
	struct ptah_profile_totals totals;
	int status;

	ptah_counts_totals(counts, &totals, NULL);
	status = counts_write(&command_merge, counts, out, true);
	if (!status && totals.errors)
		status = fail(&command_merge,
			      "%" PRIu64 " decoding error%s in what was added up: parts of the "
			      "path are missing",
			      totals.errors, totals.errors == 1 ? "" : "s");
	return status;
}

/* Writes the sum. */
static int write_sum(const struct options *o, const struct sum *sum, struct out *out)
{
	struct ptah_message why = {""};
	struct ptah_counts *counts;
	int status;

	if (!sum->shard) {
		name_apart(o, sum->counts);
		return write_merge_counts(sum->counts, out);
	}
	if (o->partial)
		return shard_write(&command_merge, sum->shard, out);
	if (ptah_shard_finish(sum->shard, &counts, &why) < 0) {
		out_abort(out);
		return fail(&command_merge, "%s", why.text);
	}
	name_unread(&o->input, sum->shard);
	status = write_merge_counts(counts, out);
	ptah_counts_free(counts);
	return status ? status : ptah_shard_unread(sum->shard, 0) ? EXIT_FAILED : 0;
}

static int run_merge(int argc, char **argv)
{
	struct options o = {0};
	struct merge merge = {0};
	struct out *out;
	int status, first = options_parse(&command_merge, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (first == argc)
		return fail_options(&command_merge, "the files to be added up are missing");
	if (!o.input.output || !strcmp(o.input.output, "-"))
		return fail_options(&command_merge,
				    "--output: the name of the file that is to have the sum");
	status = counts_create(&command_merge, o.input.output, &out);
	if (status)
		return status;
	merge.keep_processes = o.keep_processes;
	merge.paths = (const char *const *)argv + first;
	status = add_merge_files(&merge, argc - first);
	if (status)
		out_abort(out);
	else
		status = write_sum(&o, &merge.sums[0], out);
	for (size_t i = 0; i < merge.count; i++)
		free_sum(&merge.sums[i]);
	free(merge.owners);
	return status;
}

const struct command command_merge = {
    .name = "merge",
    .usage = "[OPTIONS] -o FILE FILE...",
    .summary = "add up saved counts, and join the shards of recordings",
    .details =
	"Joins what `ptah profile --shard` has saved to exactly what one process would have\n"
	"counted, and adds up the counts of different runs: those of one program become one\n"
	"process, wherever its files were loaded. Neither the recordings nor the programs are\n"
	"needed.",
    .options = (const struct option_def *const[]){merge_options, quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_merge,
};
