/* SPDX-License-Identifier: MIT */
/*
 * ptah-mpi profile: counts recordings on all ranks of an MPI job. The recordings are divided into
 * parts (ptah/counts.h); the ranks ask rank 0 for parts, count them, and join their shards along a
 * tree at the end. Only counts travel.
 */
#include "mpi_profile.h"

#include "dispatch.h"
#include "progress.h"
#include "reduce.h"
#include "saved_counts.h"
#include "shard_source.h"

#include <ptah/counts.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	struct input input;
	const char *save;
	uint64_t parts;
};

static const struct option_def profile_options[] = {
    {.name = "save",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, save),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "save the sum of all counts as FILE, which ptah reads as a recording",
     .man = "Save the sum of all counts as *FILE*, which `ptah report`, `ptah profile` and the "
	    "others read in a recording's place. It is what `ptah profile --save` would have "
	    "written, and is written by rank 0, as *FILE*.tmp, which is renamed at the end."},
    {.name = "parts",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, parts),
     .arg = "N",
     .help = "divide the recordings into N parts (default: 8 for each rank)",
     .man = "Divide the recordings into *N* parts of equal size, from which the ranks take the "
	    "next whenever they have counted one. Default: 8 for each rank, but none smaller than "
	    "a megabyte. The sum does not depend on it."},
    {0},
};

/* --parts was not given. */
#define USUAL_PARTS UINT64_MAX

/* What a rank has. */
struct job {
	const struct options *options;
	struct input input; /* of this rank: opening a recording writes to it */
	int rank, ranks;
	struct ptah_shard_plan *plan;
	struct shard_input from;
	struct ptah_shard_source source;
	struct ptah_shard *shard; /* the parts counted here, joined; NULL: none yet */
	bool broken;		  /* the shard is of no use: there was not enough memory */
	/* Only in rank 0. */
	uint32_t parts;
	double begun, shown;
	unsigned complaints;
};

/*
 * Counts a part, and joins it to those that were counted here. What ran out of memory while it was
 * being joined would have left the sum half changed: then the whole job has to end.
 */
static bool count_part(void *context, uint32_t part, char message[DISPATCH_MESSAGE])
{
	struct job *job = context;
	struct ptah_message why = {""};
	struct ptah_shard *shard;
	int status = job->broken ? PTAH_E_NOMEM
				 : ptah_shard_count(job->plan, part, &job->source, &shard, &why);

	if (status >= 0 && !job->shard) {
		job->shard = shard;
	} else if (status >= 0) {
		status = ptah_shard_join(job->shard, shard, false, &why);
		job->broken = status == PTAH_E_NOMEM;
		ptah_shard_free(shard);
	}
	if (status < 0)
		snprintf(message, DISPATCH_MESSAGE, "part %" PRIu32 ": %.400s", part,
			 why.text[0] ? why.text : ptah_strerror(status));
	return status >= 0;
}

static void hear(void *context, int rank, const char *message)
{
	struct job *job = context;

	job->complaints++;
	fail(&command_mpi_profile, "rank %d: %s", rank, message);
}

/* A line every few seconds: mpirun and Slurm pass lines on, and no cursor movements. */
static void show_progress(void *context, uint32_t done, uint32_t lost)
{
	struct job *job = context;
	const double t = now(), total = (double)ptah_shard_plan_bytes(job->plan, 0);

	if (job->options->input.quiet || job->options->input.no_progress || t - job->shown < 2)
		return;
	job->shown = t;
	fprintf(stderr,
		"ptah-mpi: %3.0f%% of %.1f MB, %" PRIu32 " of %" PRIu32 " parts, %.0f s%s\n",
		100.0 * done / job->parts, total / 1e6, done, job->parts, t - job->begun,
		lost ? ", parts were lost" : "");
}

static bool is_stopped(void *context)
{
	(void)context;
	return interrupted();
}

static bool give_shard(void *context, void **bytes, size_t *n)
{
	struct job *job = context;

	return !job->shard || (!job->broken && ptah_shard_save(job->shard, bytes, n) >= 0);
}

static bool take_shard(void *context, const void *bytes, size_t n)
{
	struct job *job = context;
	struct ptah_message why = {""};
	struct ptah_shard *shard;
	int status = ptah_shard_load(bytes, n, &shard, &why);

	if (status >= 0 && !job->shard) {
		job->shard = shard;
	} else if (status >= 0) {
		status = ptah_shard_join(job->shard, shard, false, &why);
		ptah_shard_free(shard);
	}
	if (status < 0)
		fail(&command_mpi_profile, "rank %d: %s", job->rank,
		     why.text[0] ? why.text : ptah_strerror(status));
	return status >= 0;
}

/* Whether every rank says so. */
static bool all_agree(bool good)
{
	int mine = good, all;

	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	return all;
}

/*
 * Leaves out of the list what rank 0 cannot read, and names it there: a job of a thousand
 * recordings should not end because one of them is gone. Returns how many are left.
 */
static int keep_readable(struct job *job, int count, char **paths)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		unsigned char good = !access(paths[i], R_OK);

		if (!job->rank && !good) {
			fail(&command_mpi_profile, "%s: %s; it is left out", paths[i],
			     strerror(errno));
			job->complaints++;
		}
		MPI_Bcast(&good, 1, MPI_UNSIGNED_CHAR, 0, MPI_COMM_WORLD);
		if (good)
			paths[kept++] = paths[i];
	}
	return kept;
}

/* The number of parts, if the command line has none: for a plan of files of this size. */
static uint64_t usual_parts(const struct job *job, uint64_t bytes)
{
	const uint64_t megabytes = bytes >> 20, most = (uint64_t)job->ranks * 8;

	return !megabytes ? 1 : megabytes < most ? megabytes : most;
}

/* The plan, which each rank makes for itself from the files' names and sizes. */
static bool make_plan(struct job *job, int count, char **paths)
{
	const char *const *names = (const char *const *)paths;
	struct ptah_message why = {""};
	char *options = shard_options(&job->input);
	uint64_t parts = job->options->parts;
	int status = options ? 0 : PTAH_E_NOMEM;

	/* A plan knows how large the files are. */
	if (status >= 0 && parts == USUAL_PARTS) {
		status = ptah_shard_plan_new(names, (size_t)count, 1, options, &job->plan, &why);
		if (status >= 0)
			parts = usual_parts(job, ptah_shard_plan_bytes(job->plan, 0));
		ptah_shard_plan_free(job->plan);
		job->plan = NULL;
	}
	job->parts = (uint32_t)parts;
	if (status >= 0)
		status = ptah_shard_plan_new(names, (size_t)count, job->parts, options, &job->plan,
					     &why);
	free(options);
	if (status < 0)
		fail(&command_mpi_profile, "rank %d: %s", job->rank,
		     why.text[0] ? why.text : ptah_strerror(status));
	return status >= 0;
}

/* Rank 0: what all parts add up to goes to the file. Returns an exit code. */
static int save(struct job *job)
{
	struct ptah_message why = {""};
	struct ptah_profile_totals totals;
	struct ptah_counts *counts = NULL;
	struct out *out;
	int status = job->shard ? ptah_shard_finish(job->shard, &counts, &why) : PTAH_E_NOMEM;

	if (status >= 0)
		status = ptah_counts_totals(counts, &totals, NULL);
	if (status < 0) {
		ptah_counts_free(counts);
		return fail(&command_mpi_profile, "%s",
			    why.text[0] ? why.text : ptah_strerror(status));
	}
	for (size_t i = 0; ptah_shard_unread(job->shard, i); i++) {
		fail(&command_mpi_profile, "%s; it is left out", ptah_shard_unread(job->shard, i));
		job->complaints++;
	}
	status = counts_create(&command_mpi_profile, job->options->save, &out);
	if (!status)
		status = counts_write(&command_mpi_profile, counts, out, true);
	ptah_counts_free(counts);
	if (!status && !job->input.quiet)
		fprintf(stderr, "ptah-mpi: %" PRIu64 " instructions, %.1f MB in %.1f s -> %s\n",
			totals.instructions, (double)ptah_shard_plan_bytes(job->plan, 0) / 1e6,
			now() - job->begun, job->options->save);
	if (!status && totals.errors)
		status = fail_errors(&command_mpi_profile, totals.errors);
	return status;
}

/* Returns an exit code. */
static int count_all(struct job *job)
{
	const struct dispatch dispatch = {.parts = job->parts,
					  .work = count_part,
					  .heard = hear,
					  .progress = show_progress,
					  .stop = is_stopped,
					  .context = job};
	const struct reduce reduce = {.give = give_shard, .take = take_shard, .context = job};
	const uint32_t missing = dispatch_run(&dispatch, MPI_COMM_WORLD);
	bool good;

	if (missing) {
		if (job->rank)
			return EXIT_FAILED;
		if (interrupted())
			return interrupted_status();
		return fail(&command_mpi_profile,
			    "%" PRIu32 " of %" PRIu32
			    " parts could not be counted: nothing is saved",
			    missing, job->parts);
	}
	good = reduce_run(&reduce, MPI_COMM_WORLD);
	if (!all_agree(good && !job->broken))
		return job->rank ? EXIT_FAILED
				 : fail(&command_mpi_profile,
					"the ranks' counts could not be added: nothing is saved");
	return job->rank ? EXIT_OK : save(job);
}

/*
 * Parses the options in each rank, but only rank 0 shows mistakes: the others' messages would be
 * the same.
 */
static int parse(int argc, char **argv, struct options *o, int rank, int *status)
{
	const int quiet = rank ? open("/dev/null", O_WRONLY) : -1, before = dup(STDERR_FILENO);
	int first;

	if (quiet >= 0)
		dup2(quiet, STDERR_FILENO);
	first = options_parse(&command_mpi_profile, argc, argv, o, status);
	if (first >= 0 &&
	    (!o->parts || (o->parts > PTAH_SHARD_PARTS_MAX && o->parts != USUAL_PARTS))) {
		*status = fail_options(&command_mpi_profile, "--parts: from 1 to %d parts",
				       PTAH_SHARD_PARTS_MAX);
		first = -1;
	} else if (first >= 0 && !o->save) {
		*status = fail_options(&command_mpi_profile, "--save: where to?");
		first = -1;
	} else if (first == argc) {
		*status = fail_options(&command_mpi_profile, "no recordings are named");
		first = -1;
	}
	if (quiet >= 0) {
		dup2(before, STDERR_FILENO);
		close(quiet);
	}
	close(before);
	return first;
}

static int profile_rank(int argc, char **argv)
{
	struct options o = {.parts = USUAL_PARTS};
	struct job job = {.options = &o, .begun = now()};
	int initialized, status, first, count;

	MPI_Initialized(&initialized); /* not for --help */
	if (initialized) {
		MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
		MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	}
	first = parse(argc, argv, &o, job.rank, &status);
	if (first < 0 || !initialized)
		return status;
	job.shown = job.begun;
	job.input = o.input;
	count = keep_readable(&job, argc - first, argv + first);
	status = EXIT_FAILED;
	if (count && all_agree(make_plan(&job, count, argv + first))) {
		job.from =
		    (struct shard_input){.command = &command_mpi_profile, .input = &job.input};
		job.source = shard_source(&job.from);
		job.source.keep_going = true;
		status = count_all(&job);
		shard_source_close(&job.from);
	} else if (!count && !job.rank) {
		fail(&command_mpi_profile, "there is nothing to count");
	}
	ptah_shard_free(job.shard);
	ptah_shard_plan_free(job.plan);
	return !status && job.complaints ? EXIT_FAILED : status;
}

const struct command command_mpi_profile = {
    .name = "profile",
    .usage = "[OPTIONS] --save=FILE RECORDING...",
    .summary = "counts recordings on all ranks of an MPI job",
    .details =
	"Divides the recordings into parts of equal size, counts them on all ranks of the job,\n"
	"and saves the sum: what `ptah profile --save=FILE RECORDING...` would have saved. Start\n"
	"it with mpirun or srun. Every rank reads the parts of the files that it counts.",
    .options = (const struct option_def *const[]){profile_options, input_options, decode_options,
						  quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = profile_rank,
};
