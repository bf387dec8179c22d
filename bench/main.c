/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's commands; bench/run and its neighbours call them.
 *
 *	ptah-bench text BYTES			text that compresses like real text, on stdout
 *	ptah-bench decode LABEL FILE		Ptah and libipt on a perf.data file
 *	ptah-bench decode LABEL PT PAGES	the same on raw packets with a page dump
 *	  -w WHAT				only the rows that have WHAT in their name
 *	  -n N					N pairs of measurements
 *	ptah-bench real [-w WHAT] [-n N] [-f FIRST-LAST] NAME...
 *						coverage beside libxdc, the rest beside libipt:
 *						traces NAME.pt, pages NAME.addr, NAME.dump;
 *						-f: the addresses of their filter, in hex
 *	ptah-bench mix [-m MB] NAME...		as decode, on a trace of MB (100) made of pieces of
 *						those traces; -o FILE: writes it instead
 *	ptah-bench self WHAT N FILE		one row of decode, Ptah alone, N times
 *	ptah-bench old [-w WHAT] LABEL FILE [PAGES]
 *						the loops on libipt's interface alone, with the
 *						library that the loader finds: see bench/drop-in
 *	ptah-bench jobs N LABEL FILE		counts with one job and with two, N pairs: with new
 *						tables and with those of the previous count; beside
 *						them two processes of one job each, which is what
 *						the machine can give; and the CPU time of two jobs
 *						and one
 *	ptah-bench scale [-w] [-r TIMES] LABEL FILE [N...]
 *						the critical path of N jobs, by simulation, of
 *						FILE's trace repeated TIMES; -w: with tables of the
 *						code
 *	ptah-bench calls [-p] N LABEL FILE [PAGES]
 *						call trees and libipt's blocks, N pairs; with
 *						PAGES, FILE has raw packets
 *	ptah-bench equal LABEL FILE [PAGES]	exit status 0: all instructions are the same
 *	ptah-bench timing N			both on a stream full of CYC and MTC
 *	ptah-bench psb				the search for a PSB in a buffer without one
 *	ptah-bench ratio N LABEL COMMAND COMMAND
 *						the times of two shell commands
 *	ptah-bench live [-c] [-n N] [-b BUFFER] [-q QUEUE] RECORDER LABEL COMMAND...
 *						how far live decoding is behind, of counts or (-c)
 *						calls; N pairs with a recording into a file
 *	ptah-bench memory COMMAND...		the peak memory of a command
 *
 * decode, self and equal with -t: with TSC, MTC and CYC added to the trace. decode, mix, self and
 * calls with -p: processor time, for a machine that is busy with something else.
 *
 * Both sides of a comparison are measured in turns, A-B-A-B. The output has the medians,
 * and the median of the ratios of the pairs: absolute times depend on the machine's load.
 */
#include "bench.h"

#include <ptah/ptah.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* libipt decodes some 40 million instructions per second: so only a part of the trace is used. */
#define INSNS_SIZE (8u << 20)

void bench_die(const char *what, const char *why)
{
	fprintf(stderr, "ptah-bench: %s: %s\n", what, why);
	exit(1);
}

double bench_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

unsigned bench_parse_pairs(const char *text)
{
	unsigned long n = strtoul(text, NULL, 10);

	if (n < 1 || n > BENCH_MAX_PAIRS)
		bench_die(text, "not a number of pairs");
	return (unsigned)n;
}

/* Decoding */

/* Of the decoders; the processor's on a machine that is busy with something else. */
static clockid_t decoder_clock = CLOCK_MONOTONIC;

static double decoder_seconds(void)
{
	struct timespec t;

	clock_gettime(decoder_clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double time_decoder(bench_decoder *decoder, const struct bench_trace *trace, size_t size,
			   struct bench_result *result)
{
	double start = decoder_seconds();

	*result = decoder(trace, size);
	return decoder_seconds() - start;
}

void bench_compare(const struct bench_trace *trace, const char *what, unsigned pairs, size_t size,
		   bench_decoder *ptah, bench_decoder *libipt)
{
	double a[BENCH_MAX_PAIRS], b[BENCH_MAX_PAIRS], ratio[BENCH_MAX_PAIRS];
	struct bench_result ra = {0}, rb = {0};
	double mb = (double)size / 1e6;
	char agree[64];

	for (unsigned i = 0; i < pairs; i++) {
		a[i] = time_decoder(ptah, trace, size, &ra);
		b[i] = time_decoder(libipt, trace, size, &rb);
		ratio[i] = b[i] / a[i];
	}
	if (ra.count == rb.count && ra.errors == rb.errors && ra.sum == rb.sum)
		snprintf(agree, sizeof(agree), "equal, %" PRIu64 " errors", ra.errors);
	else
		snprintf(agree, sizeof(agree), "libipt %+" PRId64 ", errors %" PRIu64 "/%" PRIu64,
			 (int64_t)(rb.count - ra.count), ra.errors, rb.errors);
	double sa = bench_median(a, pairs), sb = bench_median(b, pairs);

	printf("%-10s %-13s %8.1f %9.1f %9.1f %8.1fx %9.1f %9.1f %14" PRIu64 "  %s\n", trace->label,
	       what, mb, mb / sa, mb / sb, bench_median(ratio, pairs), (double)ra.count / sa / 1e6,
	       (double)rb.count / sb / 1e6, ra.count, agree);
	fflush(stdout);
}

/*
 * The size up to the first TIP.PGD after `size` bytes. In a trace that ends
 * elsewhere libipt continues after the last packet, by a guess, and Ptah does
 * not.
 */
static size_t cut(const struct bench_trace *trace, size_t size)
{
	const uint8_t *end = trace->bytes + trace->size, *p;
	struct ptah_packet packet;
	int n;

	if (trace->size <= size)
		return trace->size;
	p = ptah_packet_find_psb(trace->bytes + size, end);
	while (p && (n = ptah_packet_decode(&packet, p, (size_t)(end - p), 0)) > 0) {
		p += n;
		if (packet.type == PTAH_PACKET_TIP_PGD)
			return (size_t)(p - trace->bytes);
	}
	return trace->size;
}

void bench_print_header(void)
{
	printf("Ptah %s, libipt %s\n", ptah_version(), bench_libipt_version());
	printf("%-10s %-13s %8s %9s %9s %9s %9s %9s %14s  %s\n", "trace", "what", "MB", "ptah MB/s",
	       "libipt", "ratio", "ptah M/s", "libipt", "count", "totals");
}

/* A row of the table. */
struct row {
	const char *what;
	bench_decoder *ptah, *libipt;
	bool is_warm; /* measured after a first pass */
	bool is_cut;  /* only a part of the trace is used */
};

static const struct row rows[] = {
    {"packets", bench_ptah_packets, bench_libipt_packets, false, false},
    {"one by one", bench_ptah_single, bench_libipt_packets, false, false},
    {"items", bench_ptah_items, bench_libipt_blocks, false, false},
    {"items, warm", bench_ptah_items_warm, bench_libipt_blocks_warm, true, false},
    {"blocks", bench_ptah_blocks, bench_libipt_blocks, false, false},
    {"blocks, warm", bench_ptah_blocks_warm, bench_libipt_blocks_warm, true, false},
    {"spans", bench_ptah_spans, bench_libipt_blocks, false, false},
    {"spans, warm", bench_ptah_spans_warm, bench_libipt_blocks_warm, true, false},
    {"counts", bench_ptah_counts, bench_libipt_blocks, false, false},
    {"counts, warm", bench_ptah_counts_warm, bench_libipt_blocks_warm, true, false},
    {"instructions", bench_ptah_insns, bench_libipt_insns, false, true},
    {"insns, warm", bench_ptah_insns_warm, bench_libipt_insns, true, true},
};

static void compare_row(const struct bench_trace *trace, const struct row *row, unsigned pairs)
{
	const size_t size = row->is_cut ? cut(trace, INSNS_SIZE) : trace->size;

	if (row->is_warm) {
		row->ptah(trace, size);
		row->libipt(trace, size);
	}
	bench_compare(trace, row->what, pairs, size, row->ptah, row->libipt);
	bench_ptah_cool();
	bench_libipt_cool();
}

/* The options before a command's other arguments. */
struct options {
	const char *only;
	unsigned pairs;
	unsigned mb;	    /* size of a mix */
	const char *output; /* of a mix, or NULL */
	bool timed;
};

static void parse_options(struct options *options, int *argc, char ***argv)
{
	*options = (struct options){.pairs = 3, .mb = 100};
	for (; *argc > 1 && (*argv)[1][0] == '-'; *argc -= 1, *argv += 1) {
		const char option = (*argv)[1][1];

		if (option == 't') {
			options->timed = true;
			continue;
		}
		if (option == 'p') {
			decoder_clock = CLOCK_PROCESS_CPUTIME_ID;
			continue;
		}
		if (*argc < 3 || !strchr("wnmo", option))
			bench_die((*argv)[1], "not an option, or it wants a value");
		if (option == 'w')
			options->only = (*argv)[2];
		else if (option == 'o')
			options->output = (*argv)[2];
		else if (option == 'm')
			options->mb = (unsigned)strtoul((*argv)[2], NULL, 10);
		else
			options->pairs = bench_parse_pairs((*argv)[2]);
		*argc -= 1;
		*argv += 1;
	}
}

/* Reads LABEL FILE or LABEL PT PAGES. False: the arguments are something else. */
static bool load_trace(struct bench_trace *trace, const struct options *options, int argc,
		       char **argv)
{
	if (argc == 3)
		bench_load_session(trace, argv[1], argv[2]);
	else if (argc == 4)
		bench_load_pages(trace, argv[1], argv[2], argv[3]);
	else
		return false;
	if (options->timed)
		bench_add_timing(trace);
	return true;
}

static void compare_rows(struct bench_trace *trace, const struct options *options)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!options->only || strstr(rows[i].what, options->only))
			compare_row(trace, &rows[i], options->pairs);
	bench_trace_free(trace);
}

static int decode(int argc, char **argv)
{
	struct bench_trace trace;
	struct options options;

	parse_options(&options, &argc, &argv);
	if (argc == 2 && !strcmp(argv[1], "header")) {
		bench_print_header();
		return 0;
	}
	if (!load_trace(&trace, &options, argc, argv))
		return 2;
	compare_rows(&trace, &options);
	return 0;
}

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		bench_die(path, "cannot be written");
}

/* The same on a long trace made of short ones. */
static int mix(int argc, char **argv)
{
	struct bench_trace trace;
	struct options options;

	parse_options(&options, &argc, &argv);
	if (argc < 2)
		return 2;
	bench_load_mix(&trace, options.mb * (size_t)1000000, argv + 1, (unsigned)argc - 1);
	if (options.output) {
		write_file(options.output, trace.bytes, trace.size);
		bench_trace_free(&trace);
	} else {
		bench_print_header();
		compare_rows(&trace, &options);
	}
	return 0;
}

/* Runs Ptah's loop alone, many times, for a profiler. */
static int self(int argc, char **argv)
{
	struct bench_trace trace;
	struct options options;
	unsigned times;

	parse_options(&options, &argc, &argv);
	if (argc != 4)
		return 2;
	times = bench_parse_pairs(argv[2]);
	bench_load_session(&trace, argv[1], argv[3]);
	if (options.timed)
		bench_add_timing(&trace);
	for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
		if (!strstr(rows[r].what, argv[1]))
			continue;
		for (unsigned i = 0; i < times; i++) {
			struct bench_result result;
			const double s = time_decoder(rows[r].ptah, &trace, trace.size, &result);

			printf("%-13s %" PRIu64 ", %.1f MB/s, %.1f M/s\n", rows[r].what,
			       result.count, (double)trace.size / 1e6 / s,
			       (double)result.count / 1e6 / s);
		}
	}
	bench_ptah_cool();
	bench_trace_free(&trace);
	return 0;
}

/*
 * Runs the loops on libipt's interface alone, of whichever library was loaded:
 * one line per loop, for bench/drop-in.
 */
static int old(int argc, char **argv)
{
	static const struct row loops[] = {
	    {"packets", NULL, bench_libipt_packets, false, false},
	    {"blocks", NULL, bench_libipt_blocks, false, false},
	    {"blocks, warm", NULL, bench_libipt_blocks_warm, true, false},
	    {"instructions", NULL, bench_libipt_insns, false, true},
	};
	struct bench_trace trace;
	struct options options;

	parse_options(&options, &argc, &argv);
	if (!load_trace(&trace, &options, argc, argv))
		return 2;
	for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
		const size_t size = loops[i].is_cut ? cut(&trace, INSNS_SIZE) : trace.size;
		struct bench_result result;
		double seconds;

		if (options.only && !strstr(loops[i].what, options.only))
			continue;
		if (loops[i].is_warm)
			loops[i].libipt(&trace, size);
		seconds = time_decoder(loops[i].libipt, &trace, size, &result);
		printf("%s\t%s\t%.1f\t%.9f\t%" PRIu64 " %" PRIu64 " %" PRIx64 " %" PRIx64 "\n",
		       trace.label, loops[i].what, (double)size / 1e6, seconds, result.count,
		       result.errors, result.sum, result.hash);
		if (loops[i].is_warm)
			bench_libipt_cool();
	}
	bench_trace_free(&trace);
	return 0;
}

/* Compares every instruction of a trace: address, size, class, order. */
static int equal(int argc, char **argv)
{
	struct bench_result ptah, libipt;
	struct bench_trace trace;
	struct options options;
	size_t size;
	bool same;

	parse_options(&options, &argc, &argv);
	if (!load_trace(&trace, &options, argc, argv))
		return 2;
	size = cut(&trace, trace.size);
	ptah = bench_ptah_insn_hash(&trace, size);
	libipt = bench_libipt_insns(&trace, size);
	same = ptah.count == libipt.count && ptah.hash == libipt.hash && !ptah.errors &&
	       !libipt.errors;
	printf("%-10s %14" PRIu64 " instructions, %s\n", trace.label, ptah.count,
	       same ? "each the same" : "not the same");
	if (!same)
		printf("libipt: %" PRIu64 "; errors: Ptah %" PRIu64 ", libipt %" PRIu64 "\n",
		       libipt.count, ptah.errors, libipt.errors);
	bench_trace_free(&trace);
	return !same;
}

/* Commands */

/* Runs a command and returns the wall-clock seconds that it took. */
static double time_command(const char *command)
{
	double start = bench_seconds();
	int status = system(command);

	if (status)
		bench_die(command, "failed");
	return bench_seconds() - start;
}

static int ratio(int argc, char **argv)
{
	double a[BENCH_MAX_PAIRS], b[BENCH_MAX_PAIRS], r[BENCH_MAX_PAIRS];
	unsigned pairs;

	if (argc != 5)
		return 2;
	pairs = bench_parse_pairs(argv[1]);
	for (unsigned i = 0; i < pairs; i++) {
		a[i] = time_command(argv[3]);
		b[i] = time_command(argv[4]);
		r[i] = b[i] / a[i];
	}
	printf("%-28s %8.3f s %8.3f s %8.2fx  (medians of %u pairs)\n", argv[2],
	       bench_median(a, pairs), bench_median(b, pairs), bench_median(r, pairs), pairs);
	return 0;
}

static int memory(int argc, char **argv)
{
	struct rusage usage;
	pid_t pid;
	int status;

	if (argc < 2)
		return 2;
	pid = fork();
	if (!pid) {
		execvp(argv[1], argv + 1);
		bench_die(argv[1], "cannot be run");
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bench_die(argv[1], "failed");
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("%ld\n", usage.ru_maxrss);
	return 0;
}

/* Text */

/*
 * Lines of words from a vocabulary, some far more frequent than others: text
 * that compresses like real text.
 */
static int text(int argc, char **argv)
{
	static char words[4096][16];
	uint64_t seed = 88172645463325252, left;
	char line[256];

	if (argc != 2)
		return 2;
	for (unsigned i = 0; i < 4096; i++)
		for (unsigned k = 0; k < 2 + i % 9; k++)
			words[i][k] = (char)('a' + bench_random(&seed) % 26);
	for (left = strtoull(argv[1], NULL, 10); left;) {
		size_t n = 0;

		for (unsigned k = 0; k < 12; k++) {
			double x =
			    (double)(bench_random(&seed) >> 11) / (double)(UINT64_C(1) << 53);

			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%c",
					      words[(unsigned)(4096 * x * x * x)],
					      k == 11 ? '\n' : ' ');
		}
		n = n < left ? n : left;
		if (fwrite(line, 1, n, stdout) != n)
			bench_die("standard output", "cannot be written");
		left -= n;
	}
	return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {{"decode", decode}, {"jobs", bench_jobs},   {"scale", bench_scale},
			{"equal", equal},   {"self", self},	    {"timing", bench_timing},
			{"psb", bench_psb}, {"ratio", ratio},	    {"memory", memory},
			{"text", text},	    {"real", bench_real},   {"mix", mix},
			{"old", old},	    {"calls", bench_calls}, {"live", bench_live}};
	int status = 2;

	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			status = commands[i].run(argc - 1, argv + 1);
	if (status == 2)
		fprintf(stderr, "usage: see the head of bench/main.c\n");
	return status;
}
