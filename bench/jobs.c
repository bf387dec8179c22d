/* SPDX-License-Identifier: MIT */
/* What several jobs gain: two of them by the clock, and any number by simulation. */
#include "bench.h"

#include "session/count_jobs.h"
#include "profile/profile_internal.h"
#include "session/stream.h"

#include <ptah/ptah.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct ptah_session *open_session(const char *path)
{
	struct ptah_session *session;
	struct ptah_message why;

	if (ptah_session_open(path, NULL, &session, &why) < 0)
		bench_die(path, why.text);
	return session;
}

/* Two jobs */

static int take_instructions(void *context, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_totals totals;

	(void)stream;
	if (ptah_profile_totals(profile, &totals) < 0)
		return PTAH_E_NOMEM;
	*(uint64_t *)context += totals.instructions;
	return 0;
}

struct job_time {
	double wall, cpu;
};

/* Counts everything. */
static struct job_time time_jobs(const struct ptah_session *session, unsigned n,
				 struct ptah_workers *workers, uint64_t *instructions)
{
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = n, .workers = workers};
	const double start = bench_seconds(), cpu = cpu_seconds();

	*instructions = 0;
	if (ptah_session_count(session, &jobs, NULL, take_instructions, instructions) < 0)
		bench_die("counting", "failed");
	return (struct job_time){bench_seconds() - start, cpu_seconds() - cpu};
}

static struct ptah_workers *new_workers(const struct ptah_session *session)
{
	struct ptah_workers *workers;

	if (ptah_workers_new(session, &workers) < 0)
		bench_die("workers", "out of memory");
	return workers;
}

/*
 * A process that counts everything with one job whenever it is sent a byte: 'c' with new tables,
 * 'w' with those of the count before, 'q': to end. It answers with a byte.
 */
struct counter {
	pid_t pid;
	int to, from;
};

static _Noreturn void serve(const char *path, int in, int out)
{
	struct ptah_session *session = open_session(path);
	struct ptah_workers *workers = new_workers(session);
	uint64_t instructions;
	char what;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive a benchmark that is killed */
	time_jobs(session, 1, workers, &instructions);
	while (write(out, "r", 1) == 1 && read(in, &what, 1) == 1 && what != 'q')
		time_jobs(session, 1, what == 'w' ? workers : NULL, &instructions);
	_exit(0);
}

static void await(const struct counter *p)
{
	char answer;

	if (read(p->from, &answer, 1) != 1)
		bench_die("a process", "failed");
}

static struct counter begin_process(const char *path)
{
	struct counter p;
	int to[2], from[2];

	if (pipe(to) || pipe(from) || (p.pid = fork()) < 0)
		bench_die("a process", "cannot be started");
	if (!p.pid) {
		close(to[1]);
		close(from[0]);
		serve(path, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	p.to = to[1];
	p.from = from[0];
	await(&p); /* its tables are filled */
	return p;
}

static void end_process(const struct counter *p)
{
	/* The end of the pipe is no sign: the other process has it open as well. */
	if (write(p->to, "q", 1) != 1)
		bench_die("a process", "has ended");
	close(p->to);
	close(p->from);
	waitpid(p->pid, NULL, 0);
}

/* The seconds until both processes have counted everything. */
static double time_processes(const struct counter both[2], char what)
{
	const double start = bench_seconds();

	for (unsigned i = 0; i < 2; i++)
		if (write(both[i].to, &what, 1) != 1)
			bench_die("a process", "has ended");
	await(&both[0]);
	await(&both[1]);
	return bench_seconds() - start;
}

/*
 * Counts with one job, with two and by two processes, in turns, with tables that are kept between
 * counts or made each time.
 */
struct job_pairs {
	char kind; /* as struct counter */
	struct ptah_workers *one, *two;
	double wall[2][BENCH_MAX_PAIRS], ratio[BENCH_MAX_PAIRS], work[BENCH_MAX_PAIRS];
	double bound[BENCH_MAX_PAIRS], share[BENCH_MAX_PAIRS];
};

static void time_pair(const struct ptah_session *session, const struct counter both[2],
		      struct job_pairs *p, unsigned i)
{
	uint64_t a, b;
	const struct job_time one = time_jobs(session, 1, p->one, &a);
	const struct job_time two = time_jobs(session, 2, p->two, &b);

	p->wall[0][i] = one.wall;
	p->wall[1][i] = two.wall;
	p->ratio[i] = one.wall / two.wall;
	p->work[i] = two.cpu / one.cpu;
	p->bound[i] = 2 * one.wall / time_processes(both, p->kind);
	p->share[i] = 2 * p->ratio[i] / p->bound[i];
	if (a != b)
		bench_die("two jobs", "count something else than one");
}

static void print_pairs(struct job_pairs *p, const char *label, double mb, unsigned pairs)
{
	const double one = bench_median(p->wall[0], pairs), two = bench_median(p->wall[1], pairs);

	printf("%-10s %8.1f MB %s, one job %8.1f MB/s, two %8.1f MB/s: %.2fx; two processes %.2fx; "
	       "where these give 2: %.2fx; CPU time %.2fx\n",
	       label, mb, p->kind == 'w' ? "warm" : "cold", mb / one, mb / two,
	       bench_median(p->ratio, pairs), bench_median(p->bound, pairs),
	       bench_median(p->share, pairs), bench_median(p->work, pairs));
	fflush(stdout);
}

int bench_jobs(int argc, char **argv)
{
	static struct job_pairs cold = {.kind = 'c'}, warm = {.kind = 'w'};
	struct ptah_session *session;
	struct counter both[2];
	uint64_t bytes = 0;
	unsigned pairs;

	if (argc != 4)
		return 2;
	pairs = bench_parse_pairs(argv[1]);
	both[0] = begin_process(argv[3]);
	both[1] = begin_process(argv[3]);
	session = open_session(argv[3]);
	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		struct ptah_stream_info info;

		ptah_session_stream_info(session, i, &info);
		bytes += info.bytes;
	}
	warm.one = new_workers(session);
	warm.two = new_workers(session);
	time_pair(session, both, &warm, 0); /* fills the tables */
	for (unsigned i = 0; i < pairs; i++) {
		time_pair(session, both, &cold, i);
		time_pair(session, both, &warm, i);
	}
	print_pairs(&cold, argv[2], (double)bytes / 1e6, pairs);
	print_pairs(&warm, argv[2], (double)bytes / 1e6, pairs);
	end_process(&both[0]);
	end_process(&both[1]);
	ptah_workers_free(warm.one);
	ptah_workers_free(warm.two);
	ptah_session_close(session);
	return 0;
}

/* Many jobs, one after the other */

/* What n jobs would take, if nothing made one wait for another: CPU time in seconds. */
struct path {
	double longest, sum; /* of the jobs: find the beginning, count, expand */
	double expand;	     /* the part of `sum` in which rows become blocks */
	double merge;	     /* of the tree: the longest merge of each level */
	double last;	     /* what the caller's thread does at the end */
	uint64_t instructions;
};

struct scale {
	struct ptah_session *session;
	size_t stream; /* the largest one */
	uint64_t bytes;
	bool warm;
	struct stream_decoder *kept; /* with `warm`: a decoder that has seen the trace */
	double open;		     /* opening the recording */
};

/* Repeats the trace, as if it were that of several runs. */
static void repeat(struct scale *s, unsigned times)
{
	struct stream *stream = &s->session->streams[s->stream];
	const size_t count = stream->count;
	const uint64_t bytes = stream->info.bytes;

	for (unsigned i = 1; i < times; i++) {
		for (size_t k = 0; k < count; k++) {
			const struct piece *p = &stream->pieces[k];
			const uint64_t end = k + 1 < count ? p[1].offset : bytes;
			const uint8_t *from = p->bytes;
			const uint64_t n = end - p->offset;

			if (session_add_pieces(stream, from, n, k ? JOINT_NONE : JOINT_SEPARATE) <
			    0)
				bench_die("repeating", "out of memory");
		}
	}
	s->bytes = stream->info.bytes;
}

/* Counts from the first place after *from on where that is possible, and sets *from to it. */
static struct profile_part count_part(const struct scale *s, struct stream_decoder **stream,
				      uint64_t *from, uint64_t before, double *expand)
{
	struct segment segment = {.start = 0};
	struct profile_part part;
	double start;
	int status = stream_renew_counted(s->session, s->stream, stream);

	if (status >= 0 && *from && !segment_find(*stream, *from, before, &segment))
		bench_die("a part", "has no beginning");
	if (status >= 0)
		status = profile_resume((*stream)->profile);
	*from = segment.start;
	(*stream)->stop = before;
	while (status >= 0 && (status = stream_count(*stream)) > 0)
		;
	start = cpu_seconds();
	if (status < 0 || profile_take_part((*stream)->profile, &part) < 0)
		bench_die("counting", "failed");
	*expand += cpu_seconds() - start;
	return part;
}

/* Merges neighbours, level by level. */
static double merge_parts(struct profile_part *parts, unsigned n)
{
	double sum = 0;

	for (unsigned step = 1; step < n; step *= 2) {
		double longest = 0;

		for (unsigned i = 0; i + step < n; i += 2 * step) {
			const double start = cpu_seconds();
			double t;

			if (parts[i].space_count != 1 ||
			    profile_join_parts(&parts[i], &parts[i + step]) < 0)
				bench_die("merging", "failed");
			t = cpu_seconds() - start;
			longest = t > longest ? t : longest;
		}
		sum += longest;
	}
	return sum;
}

static struct path walk(struct scale *s, unsigned n)
{
	struct profile_part *parts = calloc(n, sizeof(*parts));
	struct ptah_profile_totals totals;
	struct path path = {0};
	struct ptah_image *image;
	struct ptah_profile *all;
	uint64_t before = UINT64_MAX;
	double start;

	/* From the last one on, so that it is known where the next one begins. */
	for (unsigned i = n; parts && i--;) {
		struct stream_decoder *own = NULL;
		uint64_t from = s->bytes / n * i;
		double t;

		start = cpu_seconds();
		parts[i] = count_part(s, s->warm ? &s->kept : &own, &from, before, &path.expand);
		before = from;
		t = cpu_seconds() - start;
		path.longest = t > path.longest ? t : path.longest;
		path.sum += t;
		stream_free(own);
	}
	path.merge = parts ? merge_parts(parts, n) : 0;
	start = cpu_seconds();
	if (!parts || ptah_image_new(&image) < 0 || ptah_profile_new(image, NULL, &all) < 0 ||
	    profile_give_part(all, &parts[0]) < 0 || ptah_profile_totals(all, &totals) < 0)
		bench_die("adding up", "failed");
	path.last = cpu_seconds() - start;
	path.instructions = totals.instructions;
	ptah_profile_free(all);
	ptah_image_free(image);
	free(parts);
	return path;
}

static void print_path(const struct scale *s, const char *label, unsigned n,
		       const struct path *path, const struct path *one)
{
	const double alone = s->open + one->longest + one->last;
	const double critical = s->open + path->longest + path->merge + path->last;

	printf("%-10s %9.1f MB %s %3u jobs: opening %.1f ms, longest job %.1f (mean %.1f, "
	       "expanding %.1f), merging %.1f, end %.1f: %.1f ms, %.1fx, %.2f of n; %.2f of n "
	       "without opening\n",
	       label, (double)s->bytes / 1e6, s->warm ? "warm" : "cold", n, s->open * 1e3,
	       path->longest * 1e3, path->sum / n * 1e3, path->expand / n * 1e3, path->merge * 1e3,
	       path->last * 1e3, critical * 1e3, alone / critical, alone / critical / n,
	       (alone - s->open) / (critical - s->open) / n);
	fflush(stdout);
}

static void begin_scale(struct scale *s, const char *path, unsigned times)
{
	const double start = cpu_seconds();
	uint64_t from = 0;
	double expand = 0;

	s->session = open_session(path);
	s->open = cpu_seconds() - start;
	for (size_t i = 0; i < s->session->stream_count; i++) {
		if (s->session->streams[i].info.bytes <= s->bytes)
			continue;
		s->bytes = s->session->streams[i].info.bytes;
		s->stream = i;
	}
	repeat(s, times);
	if (s->warm) {
		struct profile_part part = count_part(s, &s->kept, &from, UINT64_MAX, &expand);

		profile_free_part(&part);
	}
}

int bench_scale(int argc, char **argv)
{
	static char *usual[] = {"2", "4", "8", "16", "32", "64", NULL};
	struct scale s = {0};
	unsigned times = 1;
	struct path one;
	char **n;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		if (!strcmp(argv[1], "-w")) {
			s.warm = true;
		} else if (!strcmp(argv[1], "-r") && argc > 2) {
			times = (unsigned)strtoul(argv[2], NULL, 10);
			argc--;
			argv++;
		} else {
			return 2;
		}
	}
	if (argc < 3 || !times)
		return 2;
	begin_scale(&s, argv[2], times);
	one = walk(&s, 1);
	print_path(&s, argv[1], 1, &one, &one);
	for (n = argc > 3 ? argv + 3 : usual; *n; n++) {
		const unsigned jobs = bench_parse_pairs(*n);
		const struct path path = walk(&s, jobs);

		if (path.instructions != one.instructions)
			bench_die(*n, "jobs count something else than one");
		print_path(&s, argv[1], jobs, &path, &one);
	}
	stream_free(s.kept);
	ptah_session_close(s.session);
	return 0;
}
