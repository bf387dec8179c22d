/* SPDX-License-Identifier: MIT */
/*
 * How far live decoding is behind: a command is recorded and decoded at once, and in turns recorded
 * into a file. The lag is real, from when the trace says that something ran to when it was decoded.
 * A trace has no times but at system calls and PSBs: what ran between them seems to be older than
 * it is.
 */
#include "bench.h"

#include <ptah/ptah.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 10
#define JOBS	2
#define FILE_AT "live.data"

struct live_run {
	struct ptah_live *live;
	enum ptah_recorder_kind recorder;
	/* Seconds, of each piece of trace whose times were seen. */
	double *lags;
	size_t count, capacity;
	uint64_t *seen; /* by thread: its time when it was looked at last */
	size_t threads;
};

/* What a measurement is of. */
struct live_case {
	const char *label;
	char **command;
	enum ptah_recorder_kind recorder;
	unsigned what, pairs;
	bool times; /* MTC and CYC packets say when things ran */
	uint64_t buffer, queue;
};

struct live_result {
	double seconds, cpu, worst, usual, delivered, waited;
	uint64_t bytes, missing, errors;
};

static double cpu_seconds(void)
{
	double sum = 0;

	for (int who = 0; who < 2; who++) {
		struct rusage u;

		getrusage(who ? RUSAGE_CHILDREN : RUSAGE_SELF, &u);
		sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
	}
	return sum;
}

/* The time by the clock of the recorder's trace. */
static uint64_t clock_now(const struct live_run *r)
{
	struct timespec t;

#ifdef __x86_64__
	if (r->recorder == PTAH_RECORDER_NATIVE)
		return __builtin_ia32_rdtsc();
#endif
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void add_lag(struct live_run *r, uint64_t tsc)
{
	const struct ptah_session *session = ptah_live_session(r->live);
	const uint64_t now = clock_now(r);

	if (!tsc || tsc > now)
		return;
	if (r->count == r->capacity) {
		r->capacity = 2 * r->capacity + 1024;
		r->lags = reallocarray(r->lags, r->capacity, sizeof(*r->lags));
		if (!r->lags)
			bench_die("live", "out of memory");
	}
	r->lags[r->count++] =
	    (double)(ptah_session_time(session, now) - ptah_session_time(session, tsc)) * 1e-9;
}

/* The first of them is the oldest. */
static int on_calls(void *context, const struct ptah_live_thread *thread,
		    const struct ptah_call_mark *marks, size_t n)
{
	(void)thread;
	if (n)
		add_lag(context, marks->tsc);
	return 0;
}

/* Of counts there are no callbacks: looks at each thread that has been decoded further. */
static void look(struct live_run *r)
{
	struct ptah_live_thread thread = {.size = sizeof(thread)};

	ptah_live_hold(r->live);
	for (size_t i = 0; ptah_live_thread(r->live, i, &thread) >= 0; i++) {
		if (i >= r->threads) {
			r->threads = 2 * i + 16;
			r->seen = reallocarray(r->seen, r->threads, sizeof(*r->seen));
			if (!r->seen)
				bench_die("live", "out of memory");
			memset(r->seen + i, 0, (r->threads - i) * sizeof(*r->seen));
		}
		if (r->seen[i] && thread.tsc != r->seen[i])
			add_lag(r, thread.tsc);
		r->seen[i] = thread.tsc;
	}
	ptah_live_release(r->live);
}

static struct ptah_recorder *start(const struct live_case *c, const struct ptah_record_sink *sink)
{
	struct ptah_record_config config = {.size = sizeof(config), .target.argv = c->command};
	struct ptah_message why = {""};
	struct ptah_recorder *r;

	config.backend.kind = c->recorder;
	config.backend.clock = PTAH_CLOCK_HOST;
	ptah_record_trace_default(&config.trace);
	config.trace.mtc = config.trace.cyc = c->times;
	config.output.sink = sink;
	config.output.path = FILE_AT;
	config.buffer.size = sink ? c->buffer : 0;
	if (ptah_recorder_new(&config, &r, NULL, &why) < 0)
		bench_die(c->label, why.text);
	if (ptah_recorder_start(r) < 0)
		bench_die(c->label, ptah_recorder_why(r, NULL));
	return r;
}

static void finish(const struct live_case *c, struct ptah_recorder *r, struct live_result *result)
{
	struct ptah_record_status s = {.size = sizeof(s)};

	if (ptah_recorder_finish(r) < 0)
		bench_die(c->label, ptah_recorder_why(r, NULL));
	ptah_recorder_status(r, &s);
	result->bytes = s.trace_bytes;
	ptah_recorder_free(r);
}

static struct live_result record(const struct live_case *c)
{
	struct live_result result = {.seconds = -bench_seconds(), .cpu = -cpu_seconds()};
	struct ptah_recorder *r = start(c, NULL);

	while (ptah_recorder_poll(r, 100) > 0)
		;
	finish(c, r, &result);
	unlink(FILE_AT);
	result.seconds += bench_seconds();
	result.cpu += cpu_seconds();
	return result;
}

static int compare_lags(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What the session says of itself, and the lags that were seen. */
static void sum_up(struct live_run *run, struct live_result *result)
{
	struct ptah_live_status s = {.size = sizeof(s)};

	ptah_live_status(run->live, &s);
	result->missing = s.dropped + (result->bytes > s.decoded ? result->bytes - s.decoded : 0);
	result->errors = s.errors + s.overflows;
	result->delivered = (double)s.worst_lag * 1e-9;
	result->waited = (double)s.waited * 1e-9;
	qsort(run->lags, run->count, sizeof(*run->lags), compare_lags);
	result->worst = run->count ? run->lags[run->count - 1] : 0;
	result->usual = run->count ? run->lags[run->count / 2] : 0;
}

static struct live_result follow(const struct live_case *c)
{
	struct live_result result = {.seconds = -bench_seconds(), .cpu = -cpu_seconds()};
	struct live_run run = {.recorder = c->recorder};
	const struct ptah_live_config config = {
	    .size = sizeof(config),
	    .what = c->what,
	    .jobs = JOBS,
	    .queue = c->queue,
	    .on_calls = c->what & PTAH_LIVE_CALLS ? on_calls : NULL,
	    .context = &run,
	};
	struct ptah_recorder *r;

	if (ptah_live_new(&config, &run.live) < 0)
		bench_die(c->label, "out of memory");
	r = start(c, ptah_live_sink(run.live));
	while (ptah_recorder_poll(r, POLL_MS) > 0 && ptah_live_poll(run.live) >= 0)
		if (!config.on_calls)
			look(&run);
	finish(c, r, &result);
	if (ptah_live_finish(run.live) < 0)
		bench_die(c->label, ptah_live_why(run.live));
	result.seconds += bench_seconds();
	result.cpu += cpu_seconds();
	sum_up(&run, &result);
	ptah_live_free(run.live);
	free(run.lags);
	free(run.seen);
	return result;
}

static void print_row(const struct live_case *c, FILE *out)
{
	double worst[BENCH_MAX_PAIRS], usual[BENCH_MAX_PAIRS], delivered[BENCH_MAX_PAIRS];
	double seconds[BENCH_MAX_PAIRS], time[BENCH_MAX_PAIRS], cpu[BENCH_MAX_PAIRS];
	struct live_result live = {0}, file;
	uint64_t missing = 0, errors = 0;

	for (unsigned i = 0; i < c->pairs; i++) {
		live = follow(c);
		file = record(c);
		worst[i] = live.worst * 1e3;
		usual[i] = live.usual * 1e3;
		delivered[i] = live.delivered * 1e3;
		seconds[i] = live.seconds;
		time[i] = live.seconds / file.seconds;
		cpu[i] = live.cpu / file.cpu;
		missing += live.missing;
		errors += live.errors;
	}
	fprintf(out,
		"%-10s %-6s %-7s %7.1f MB  lag %6.1f ms, at most %6.1f, %6.1f since delivery  "
		"%" PRIu64 " bytes lost, %" PRIu64 " errors  %6.2f s, %5.2fx, CPU %5.2fx\n",
		c->label, ptah_recorder_name(c->recorder),
		c->what & PTAH_LIVE_CALLS ? "calls" : "counts", (double)live.bytes / 1e6,
		bench_median(usual, c->pairs), bench_median(worst, c->pairs),
		bench_median(delivered, c->pairs), missing, errors, bench_median(seconds, c->pairs),
		bench_median(time, c->pairs), bench_median(cpu, c->pairs));
	fflush(out);
}

int bench_live(int argc, char **argv)
{
	struct live_case c = {.what = PTAH_LIVE_COUNTS, .pairs = 3};
	const int out = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY);
	FILE *f = out >= 0 ? fdopen(out, "w") : NULL;
	int option;

	while ((option = getopt(argc, argv, "+ctn:b:q:")) != -1) {
		if (option == 'c')
			c.what = PTAH_LIVE_CALLS;
		else if (option == 't')
			c.times = true;
		else if (option == 'n')
			c.pairs = bench_parse_pairs(optarg);
		else if (option == 'b')
			c.buffer = strtoull(optarg, NULL, 0);
		else if (option == 'q')
			c.queue = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (argc - optind < 3 || !f || null < 0)
		return 2;
	for (unsigned i = 0; i < PTAH_RECORDER_MAX; i++)
		if (!strcmp(ptah_recorder_name(i), argv[optind]))
			c.recorder = i;
	c.label = argv[optind + 1];
	c.command = argv + optind + 2;
	dup2(null, STDOUT_FILENO); /* the command's */
	close(null);
	print_row(&c, f);
	fclose(f);
	return 0;
}
