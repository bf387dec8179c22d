/* SPDX-License-Identifier: MIT */
/*
 * Call trees of a recording beside libipt's block decoder, which at least visits the blocks that
 * the calls are found in:
 *
 *	ptah-bench calls [-p] N LABEL FILE
 *	ptah-bench calls [-p] N LABEL PT PAGES
 *
 * Cold: symbols are read and code is decoded for the first time. Warm: with what an earlier tree
 * has learned. The last row is that of two jobs, by the clock (-p does not apply).
 */
#include "bench.h"

#include <ptah/calls.h>
#include <ptah/session.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_PAIRS 101

/* The duration of one measurement, at least: small traces are taken several times. */
#define SECONDS 0.05

/* What the trees of a recording have in all. */
struct sums {
	uint64_t instructions, calls, paths;
};

static int take(void *context, const struct ptah_call_thread *thread, struct ptah_call_tree *tree)
{
	struct sums *sums = context;
	struct ptah_call_totals totals;

	(void)thread;
	if (ptah_call_tree_totals(tree, &totals) < 0)
		return PTAH_E_NOMEM;
	sums->instructions += totals.inclusive.instructions;
	sums->calls += totals.calls;
	sums->paths += totals.paths;
	return 0;
}

struct measure {
	const struct ptah_session *session;
	struct ptah_functions *functions; /* NULL: made each time */
	struct ptah_workers *workers;	  /* NULL: the same */
	unsigned jobs;
	clockid_t clock;
	struct sums sums;
};

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds for all trees of the recording. */
static double time_trees(struct measure *m)
{
	const struct ptah_call_reader_config config = {.size = sizeof(config),
						       .functions = m->functions,
						       .workers = m->workers,
						       .jobs = m->jobs};
	const double start = seconds(m->clock);
	unsigned times = 0;
	double took;

	do {
		m->sums = (struct sums){0};
		if (ptah_session_call_trees(m->session, &config, take, &m->sums) < 0)
			bench_die("trees", "failed");
		times++;
		took = seconds(m->clock) - start;
	} while (took < SECONDS);
	return took / times;
}

static double time_libipt(bench_decoder *decoder, const struct bench_trace *trace, clockid_t clock,
			  struct bench_result *result)
{
	const double start = seconds(clock);
	unsigned times = 0;
	double took;

	do {
		*result = decoder(trace, trace->size);
		times++;
		took = seconds(clock) - start;
	} while (took < SECONDS);
	return took / times;
}

static void compare(struct measure *m, const struct bench_trace *trace, const char *what,
		    unsigned pairs, bench_decoder *libipt)
{
	double a[MAX_PAIRS], b[MAX_PAIRS], ratio[MAX_PAIRS];
	const double mb = (double)trace->size / 1e6;
	struct bench_result result = {0};
	double ours, theirs;

	for (unsigned i = 0; i < pairs; i++) {
		a[i] = time_trees(m);
		b[i] = time_libipt(libipt, trace, m->clock, &result);
		ratio[i] = b[i] / a[i];
	}
	ours = bench_median(a, pairs);
	theirs = bench_median(b, pairs);
	printf("%-10s %-13s %8.3f %9.1f %9.1f %8.1fx %12" PRIu64 " calls %8" PRIu64 " paths  %s\n",
	       trace->label, what, mb, mb / ours, mb / theirs, bench_median(ratio, pairs),
	       m->sums.calls, m->sums.paths,
	       m->sums.instructions == result.count ? "instructions equal" : "NOT EQUAL");
	fflush(stdout);
}

static void compare_all(struct measure *m, const struct bench_trace *trace, unsigned pairs)
{
	struct bench_result result;

	compare(m, trace, "tree", pairs, bench_libipt_blocks);
	if (ptah_functions_new(m->session, &m->functions) < 0 ||
	    ptah_workers_new(m->session, &m->workers) < 0)
		bench_die("trees", "out of memory");
	time_trees(m);
	time_libipt(bench_libipt_blocks_warm, trace, m->clock, &result);
	compare(m, trace, "tree, warm", pairs, bench_libipt_blocks_warm);
	m->jobs = 2;
	m->clock = CLOCK_MONOTONIC;
	time_trees(m);
	compare(m, trace, "tree, 2 jobs", pairs, bench_libipt_blocks_warm);
	bench_libipt_cool();
	ptah_workers_free(m->workers);
	ptah_functions_free(m->functions);
}

int bench_calls(int argc, char **argv)
{
	struct ptah_session_config config = {.size = sizeof(config)};
	struct measure m = {.jobs = 1, .clock = CLOCK_MONOTONIC};
	struct ptah_session *session;
	struct ptah_message why;
	struct bench_trace trace;

	if (argc > 4 && !strcmp(argv[1], "-p")) {
		m.clock = CLOCK_PROCESS_CPUTIME_ID;
		argc--;
		argv++;
	}
	if (argc != 4 && argc != 5)
		return 2;
	if (argc == 5)
		bench_load_pages(&trace, argv[2], argv[3], argv[4]);
	else
		bench_load_session(&trace, argv[2], argv[3]);
	config.image = argc == 5 ? trace.image : NULL;
	if (ptah_session_open(argv[3], &config, &session, &why) < 0)
		bench_die(argv[3], why.text);
	m.session = session;
	compare_all(&m, &trace, bench_parse_pairs(argv[1]));
	ptah_session_close(session);
	bench_trace_free(&trace);
	return 0;
}
