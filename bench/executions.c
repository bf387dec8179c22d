/* SPDX-License-Identifier: MIT */
/* Measures many short traces, one execution each, as a fuzzer decodes them. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* The duration of one measurement: long enough for the clock's resolution. */
#define SECONDS 0.2

#define MOST_PAIRS 99

/* Returns the seconds for one execution. */
static double time_execution(bench_decoder *decoder, const struct bench_trace *trace)
{
	const double start = bench_seconds();
	unsigned times = 0;
	double now;

	do {
		decoder(trace, trace->size);
		times++;
		now = bench_seconds();
	} while (now - start < SECONDS);
	return (now - start) / times;
}

struct figures {
	double ptah, libipt, ratio;
};

static struct figures compare(const struct bench_trace *trace, unsigned pairs, bench_decoder *ptah,
			      bench_decoder *libipt)
{
	double a[MOST_PAIRS], b[MOST_PAIRS], ratio[MOST_PAIRS];

	for (unsigned i = 0; i < pairs; i++) {
		a[i] = time_execution(ptah, trace);
		b[i] = time_execution(libipt, trace);
		ratio[i] = b[i] / a[i];
	}
	return (struct figures){bench_median(a, pairs), bench_median(b, pairs),
				bench_median(ratio, pairs)};
}

static void print(const struct bench_trace *trace, const char *what, const struct figures *f)
{
	const double mb = (double)trace->size / 1e6;

	printf("%-10s %-10s %8.3f %9.1f %9.1f %8.1fx %14.0f %14.0f\n", trace->label, what, mb,
	       mb / f->ptah, mb / f->libipt, f->ratio, 1 / f->ptah, 1 / f->libipt);
	fflush(stdout);
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

static void print_parts(const struct bench_trace *trace)
{
	const struct bench_result result = run_parts(trace, trace->size);
	const double seconds = time_execution(run_parts, trace);

	printf("%-10s %-10s %8.3f %9.1f %9s %9s %14.0f  %llu parts of %.0f bytes\n", trace->label,
	       "by PSB", (double)trace->size / 1e6, (double)trace->size / 1e6 / seconds, "", "",
	       (double)result.count / seconds, (unsigned long long)result.count,
	       (double)trace->size / (double)result.count);
}

int bench_fuzz(int argc, char **argv)
{
	struct bench_trace trace;
	struct figures f;
	unsigned pairs;

	if (argc != 5)
		return 2;
	pairs = bench_parse_pairs(argv[1]);
	bench_load_pages(&trace, argv[2], argv[3], argv[4]);
	printf("%-10s %-10s %8s %9s %9s %9s %14s %14s\n", "trace", "what", "MB", "ptah MB/s",
	       "libipt", "ratio", "ptah /s", "libipt /s");
	f = compare(&trace, pairs, bench_ptah_coverage, bench_libipt_blocks);
	print(&trace, "cold", &f);
	bench_ptah_coverage_warm(&trace, trace.size);
	bench_libipt_blocks_warm(&trace, trace.size);
	f = compare(&trace, pairs, bench_ptah_coverage_warm, bench_libipt_blocks_warm);
	print(&trace, "repeated", &f);
	print_parts(&trace);
	bench_ptah_cool();
	bench_libipt_cool();
	bench_trace_free(&trace);
	return 0;
}
