/* SPDX-License-Identifier: MIT */
/*
 * Traces of real processors, whole and short ones: coverage beside libxdc and libipt, blocks,
 * blocks with events ("events") and counts beside libipt. Each is one execution of a fuzzer: cold
 * (with an object of its own, which is made and freed for it), first (the same, but only decoding
 * is measured) or warm (repeated). All times are the processor's, because the machine may be busy,
 * and each side has one thread.
 */
#include "bench.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The duration of one measurement: long enough for the clock's resolution. */
#define SECONDS 0.1

#define MOST_PAIRS 99

static double left_out; /* seconds since the program began */

double bench_cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void bench_leave_out(double since)
{
	left_out += bench_cpu_seconds() - since;
}

/*
 * Returns the seconds for one execution, and what the last one returned. A cold one gets its memory
 * from the kernel, as the first one of a process, not what was freed after the one before.
 */
static double time_execution(bench_decoder *decoder, const struct bench_trace *trace, bool is_cold,
			     struct bench_result *result)
{
	const double start = bench_cpu_seconds(), left_out_before = left_out;
	unsigned times = 0;
	double end = start;

	do {
		if (is_cold) {
			const double clock = bench_cpu_seconds();

			malloc_trim(0);
			bench_leave_out(clock);
		}
		*result = decoder(trace, trace->size);
		/* The clock takes as long as the execution of a few hundred bytes. */
		if (++times % 16 && !is_cold && trace->size < 1 << 16)
			continue;
		end = bench_cpu_seconds();
	} while (end - start < SECONDS);
	return (end - start - (left_out - left_out_before)) / times;
}

/* A row: up to three decoders, measured in turns. A NULL is left out. */
enum {
	PTAH,
	LIBXDC,
	LIBIPT,
	SIDES
};

struct real_row {
	const char *what;
	bench_decoder *decoders[SIDES];
	bool is_equal; /* Ptah and libipt must count the same */
};

static const struct real_row rows[] = {
    {"coverage, cold", {bench_ptah_coverage, bench_libxdc_coverage, bench_libipt_blocks}, false},
    {"coverage, first", {bench_ptah_coverage_first, bench_libxdc_coverage_first, NULL}, false},
    {"coverage, warm",
     {bench_ptah_coverage_warm, bench_libxdc_coverage_warm, bench_libipt_blocks_warm},
     false},
    {"blocks, cold", {bench_ptah_blocks, NULL, bench_libipt_blocks}, true},
    {"blocks, warm", {bench_ptah_blocks_warm, NULL, bench_libipt_blocks_warm}, true},
    {"events, cold", {bench_ptah_events, NULL, bench_libipt_blocks}, true},
    {"events, warm", {bench_ptah_events_warm, NULL, bench_libipt_blocks_warm}, true},
    {"counts, cold", {bench_ptah_counts, NULL, bench_libipt_blocks}, true},
    {"counts, warm", {bench_ptah_counts_warm, NULL, bench_libipt_blocks_warm}, true},
};

static void print_header(void)
{
	printf("%-10s %-15s %7s %9s %9s %9s %9s %9s  %s\n", "trace", "what", "MB", "ptah MB/s",
	       "libxdc", "libipt", "x libxdc", "x libipt", "totals");
}

static void print_cell(bool is_there, double value, const char *unit)
{
	if (is_there)
		printf(" %*.*f%s", 9 - (int)strlen(unit), *unit ? 2 : 1, value, unit);
	else
		printf(" %9s", "-");
}

static void measure_row(const struct bench_trace *trace, const struct real_row *row, unsigned pairs,
			const struct bench_exactness *libxdc)
{
	double seconds[SIDES][MOST_PAIRS], ratio[SIDES][MOST_PAIRS];
	struct bench_result results[SIDES] = {{0}};
	bench_decoder *decoders[SIDES];
	const double mb = (double)trace->size / 1e6;
	const bool is_cold = !strstr(row->what, "warm");

	memcpy(decoders, row->decoders, sizeof(decoders));
	if (!libxdc->is_measurable)
		decoders[LIBXDC] = NULL;
	for (unsigned i = 0; i <= pairs; i++)
		for (unsigned side = 0; side < SIDES; side++) {
			/* The first turn is not counted: it fills tables and caches. */
			const unsigned at = i ? i - 1 : 0;

			if (!decoders[side])
				continue;
			seconds[side][at] =
			    time_execution(decoders[side], trace, is_cold, &results[side]);
			ratio[side][at] = seconds[side][at] / seconds[PTAH][at];
		}
	printf("%-10s %-15s %7.3f", trace->label, row->what, mb);
	for (unsigned side = 0; side < SIDES; side++)
		print_cell(decoders[side],
			   decoders[side] ? mb / bench_median(seconds[side], pairs) : 0, "");
	for (unsigned side = LIBXDC; side < SIDES; side++)
		print_cell(decoders[side], decoders[side] ? bench_median(ratio[side], pairs) : 0,
			   "x");
	if (!row->is_equal)
		printf("  libxdc: %s\n", libxdc->text);
	else if (results[PTAH].count == results[LIBIPT].count &&
		 results[PTAH].errors == results[LIBIPT].errors)
		printf("  %" PRIu64 " instructions, %" PRIu64 " errors, as libipt\n",
		       results[PTAH].count, results[PTAH].errors);
	else
		printf("  %" PRIu64 " instructions, libipt %+" PRId64 "; errors %" PRIu64
		       ", libipt %" PRIu64 "\n",
		       results[PTAH].count, (int64_t)(results[LIBIPT].count - results[PTAH].count),
		       results[PTAH].errors, results[LIBIPT].errors);
	fflush(stdout);
	bench_ptah_cool();
	bench_libipt_cool();
	bench_libxdc_cool();
}

/* Each PSB and the packets up to the next one are an execution. Decodes each of them once. */
static struct bench_result run_parts(const struct bench_trace *trace, size_t size)
{
	const uint8_t *end = trace->bytes + size, *p = ptah_packet_find_psb(trace->bytes, end);
	struct bench_result result = {0};

	while (p) {
		const uint8_t *next = end - p > 16 ? ptah_packet_find_psb(p + 16, end) : NULL;
		struct bench_trace part = *trace;

		part.bytes = (uint8_t *)(uintptr_t)p;
		result.errors +=
		    bench_ptah_coverage_warm(&part, (size_t)((next ? next : end) - p)).errors;
		result.count++;
		p = next;
	}
	return result;
}

static void measure_parts(const struct bench_trace *trace)
{
	struct bench_result result;
	double seconds;

	run_parts(trace, trace->size);
	seconds = time_execution(run_parts, trace, false, &result);
	printf("%-10s %-15s %7.3f %9.1f %9s %9s %9s %9s  %.0f executions/s, of %.0f bytes each\n",
	       trace->label, "coverage by PSB", (double)trace->size / 1e6,
	       (double)trace->size / 1e6 / seconds, "-", "-", "-", "-",
	       (double)result.count / seconds, (double)trace->size / (double)result.count);
	bench_ptah_cool();
}

/*
 * The address filters of public traces, which libxdc has to know; other traces are given the
 * whole of user space.
 */
static struct ptah_range filter_of(const char *name)
{
	static const struct {
		const char *name;
		struct ptah_range range;
	} filters[] = {
	    {"mruby", {0x400000, 0x4b6000, PTAH_RANGE_FILTER}},
	    {"foo", {0x7ffff7819000, 0x7ffff79ca000, PTAH_RANGE_FILTER}},
	    {"unzip", {0x400000, 0x427000, PTAH_RANGE_FILTER}},
	    {"qemu", {0x555555554000, 0x555555d60000, PTAH_RANGE_FILTER}},
	};

	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++)
		if (!strcmp(filters[i].name, name))
			return filters[i].range;
	return (struct ptah_range){0x1000, 0x7ffffffff000, PTAH_RANGE_FILTER};
}

/* The filter that option -f names, as FIRST-LAST. False: that is none. */
static bool read_filter(const char *text, struct ptah_range *filter)
{
	*filter = (struct ptah_range){0, 0, PTAH_RANGE_FILTER};
	return sscanf(text, "%" SCNx64 "-%" SCNx64, &filter->first, &filter->last) == 2;
}

static void measure_trace(const char *prefix, const char *only, unsigned pairs,
			  const struct ptah_range *named)
{
	const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
	const struct ptah_range filter = named->last ? *named : filter_of(name);
	struct bench_exactness libxdc;
	struct bench_trace trace;
	char pt[4096];

	snprintf(pt, sizeof(pt), "%s.pt", prefix);
	bench_load_pages(&trace, name, pt, prefix);
	bench_libxdc_check(&trace, &filter, &libxdc);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!only || strstr(rows[i].what, only))
			measure_row(&trace, &rows[i], pairs, &libxdc);
	if (!only || strstr("coverage by PSB", only))
		measure_parts(&trace);
	bench_libxdc_forget();
	bench_trace_free(&trace);
}

int bench_real(int argc, char **argv)
{
	struct ptah_range filter = {0, 0, PTAH_RANGE_FILTER};
	const char *only = NULL;
	unsigned pairs = 5;

	for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
		if (argv[1][1] == 'w')
			only = argv[2];
		else if (argv[1][1] == 'n')
			pairs = bench_parse_pairs(argv[2]);
		else if (argv[1][1] != 'f' || !read_filter(argv[2], &filter))
			return 2;
	}
	if (argc < 2)
		return 2;
	print_header();
	for (int i = 1; i < argc; i++)
		measure_trace(argv[i], only, pairs, &filter);
	return 0;
}
