/* SPDX-License-Identifier: MIT */
/*
 * The loops with libxdc, and whether its edges are those of the trace. Its sources are not here:
 * without them nothing is measured.
 */
#include "bench.h"

#include <stdio.h>

#ifdef PTAH_HAVE_LIBXDC

#include <libxdc.h>
#include <ptah/profile.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096u
#define BITMAP 65536u
/* libxdc stops at a byte after the trace, and reads addresses of up to 8 bytes before that. */
#define SENTINEL 16u

static struct {
	uint64_t *addresses; /* of the pages, in rising order */
	uint8_t **pages;
	size_t count, last;
	uint8_t *bytes; /* the trace, and the sentinel */
	uint64_t filter[4][2];
	uint8_t bitmap[BITMAP];
	libxdc_t *warm;
} xdc;

static void *fetch_page(void *context, uint64_t address, bool *success)
{
	size_t from = 0, to = xdc.count;

	(void)context;
	address &= ~(uint64_t)(PAGE - 1);
	*success = true;
	if (xdc.addresses[xdc.last] == address)
		return xdc.pages[xdc.last];
	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (xdc.addresses[middle] == address) {
			xdc.last = middle;
			return xdc.pages[middle];
		}
		if (xdc.addresses[middle] < address)
			from = middle + 1;
		else
			to = middle;
	}
	*success = false;
	return NULL;
}

static void *allocate(size_t n)
{
	void *p = calloc(1, n);

	if (!p)
		bench_die("libxdc", "out of memory");
	return p;
}

/* The sections of a page dump lie in the order of their addresses. */
static void load_pages(const struct bench_trace *trace)
{
	uint64_t total = 0;

	for (size_t i = 0; i < trace->section_count; i++)
		total += trace->sections[i].size / PAGE;
	xdc.addresses = allocate((total + 1) * sizeof(*xdc.addresses));
	xdc.pages = allocate((total + 1) * sizeof(*xdc.pages));
	for (size_t i = 0; i < trace->section_count; i++) {
		const struct bench_section *s = &trace->sections[i];
		FILE *f = fopen(s->path, "r");

		if (!f || fseek(f, (long)s->offset, SEEK_SET))
			bench_die(s->path, "cannot be read");
		for (uint64_t at = 0; at < s->size; at += PAGE) {
			size_t to = xdc.count++;

			for (; to > 0 && xdc.addresses[to - 1] > s->address + at; to--) {
				xdc.addresses[to] = xdc.addresses[to - 1];
				xdc.pages[to] = xdc.pages[to - 1];
			}
			xdc.addresses[to] = s->address + at;
			xdc.pages[to] = allocate(PAGE);
			if (fread(xdc.pages[to], 1, PAGE, f) != PAGE)
				bench_die(s->path, "cannot be read");
		}
		fclose(f);
	}
}

static libxdc_t *start(void)
{
	libxdc_t *decoder = libxdc_init(xdc.filter, fetch_page, NULL, xdc.bitmap, BITMAP);

	if (!decoder)
		bench_die("libxdc", "no decoder");
	return decoder;
}

static struct bench_result decode(libxdc_t *decoder, size_t size)
{
	const decoder_result_t status = libxdc_decode(decoder, xdc.bytes, size);

	return (struct bench_result){.errors = status != decoder_success &&
					       status != decoder_success_pt_overflow};
}

struct bench_result bench_libxdc_coverage(const struct bench_trace *trace, size_t size)
{
	libxdc_t *decoder = start();
	const struct bench_result result = decode(decoder, size);

	(void)trace;
	libxdc_free(decoder);
	return result;
}

struct bench_result bench_libxdc_coverage_first(const struct bench_trace *trace, size_t size)
{
	double clock = bench_cpu_seconds();
	libxdc_t *decoder = start();
	struct bench_result result;

	(void)trace;
	bench_leave_out(clock);
	result = decode(decoder, size);
	clock = bench_cpu_seconds();
	libxdc_free(decoder);
	bench_leave_out(clock);
	return result;
}

struct bench_result bench_libxdc_coverage_warm(const struct bench_trace *trace, size_t size)
{
	(void)trace;
	if (!xdc.warm)
		xdc.warm = start();
	libxdc_bitmap_reset(xdc.warm);
	return decode(xdc.warm, size);
}

void bench_libxdc_cool(void)
{
	if (xdc.warm)
		libxdc_free(xdc.warm);
	xdc.warm = NULL;
}

void bench_libxdc_forget(void)
{
	for (size_t i = 0; i < xdc.count; i++)
		free(xdc.pages[i]);
	free(xdc.pages);
	free(xdc.addresses);
	free(xdc.bytes);
	memset(&xdc, 0, sizeof(xdc));
}

/* Exactness */

struct edge {
	uint64_t from, to, count;
};

struct edges {
	struct edge *list;
	size_t count, room;
};

static void add_edge(void *context, uint64_t from, uint64_t to)
{
	struct edges *edges = context;

	if (from == UINT64_MAX || to == UINT64_MAX) /* tracing begins or ends here */
		return;
	if (edges->count == edges->room) {
		edges->room = edges->room ? 2 * edges->room : 4096;
		edges->list = realloc(edges->list, edges->room * sizeof(*edges->list));
		if (!edges->list)
			bench_die("libxdc", "out of memory");
	}
	edges->list[edges->count++] = (struct edge){from, to, 1};
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return (x->to > y->to) - (x->to < y->to);
}

/* Sorts, and makes one edge with a count of equal ones. */
static void add_up(struct edges *edges)
{
	size_t n = 0;

	qsort(edges->list, edges->count, sizeof(*edges->list), compare_edges);
	for (size_t i = 0; i < edges->count; i++)
		if (n && !compare_edges(&edges->list[n - 1], &edges->list[i]))
			edges->list[n - 1].count += edges->list[i].count;
		else
			edges->list[n++] = edges->list[i];
	edges->count = n;
}

/* Every edge of the trace, from Ptah, whose counts bench_compare() holds against libipt's. */
static void find_edges(const struct bench_trace *trace, struct edges *edges)
{
	const struct ptah_coverage_config config = {.size = sizeof(config), .flow = trace->flow};
	struct ptah_coverage *coverage;
	struct ptah_profile_edge *list;
	size_t n;

	if (ptah_coverage_new(trace->image, &config, &coverage) < 0 ||
	    ptah_coverage_run(coverage, trace->bytes, trace->size, NULL) < 0 ||
	    ptah_profile_edges(ptah_coverage_profile(coverage), &list, &n) < 0)
		bench_die(trace->label, "cannot be covered");
	for (size_t i = 0; i < n; i++) {
		add_edge(edges, list[i].from, list[i].to);
		edges->list[edges->count - 1].count = list[i].count;
	}
	free(list);
	ptah_coverage_free(coverage);
	add_up(edges);
}

/*
 * How many executions of edges are too many or too few in `other`. Its edges of branches that are
 * not in `edges` are not looked at: libxdc also reports direct jumps.
 */
static uint64_t count_differences(const struct edges *edges, const struct edges *other)
{
	uint64_t differences = 0;
	size_t k = 0;

	for (size_t i = 0; i < edges->count; i++) {
		const struct edge *e = &edges->list[i];
		const bool is_last = i + 1 == edges->count || e[1].from != e->from;

		for (; k < other->count && compare_edges(&other->list[k], e) < 0; k++)
			if (other->list[k].from == e->from)
				differences += other->list[k].count;
		if (k < other->count && !compare_edges(&other->list[k], e)) {
			const uint64_t n = other->list[k++].count;

			differences += n > e->count ? n - e->count : e->count - n;
		} else {
			differences += e->count;
		}
		for (; is_last && k < other->count && other->list[k].from == e->from; k++)
			differences += other->list[k].count;
	}
	return differences;
}

/* In a process of its own: libxdc ends it where the trace or the code surprises it. */
static void check_edges(const struct bench_trace *trace, struct bench_exactness *result)
{
	static const char *const failures[] = {
	    [decoder_page_fault] = "stops at a page that is not there",
	    [decoder_error] = "stops with an error",
	    [decoder_unkown_packet] = "stops at a packet that it does not know",
	};
	struct edges edges = {0}, all = {0};
	libxdc_t *decoder = start();
	decoder_result_t status = libxdc_decode(decoder, xdc.bytes, trace->size);
	uint64_t total = 0;

	if (status != decoder_success && status != decoder_success_pt_overflow) {
		snprintf(result->text, sizeof(result->text), "%s", failures[status]);
		return;
	}
	libxdc_free(decoder);
	decoder = start();
	libxdc_register_edge_callback(decoder, add_edge, &edges);
	libxdc_enable_tracing(decoder);
	libxdc_decode(decoder, xdc.bytes, trace->size);
	add_up(&edges);
	find_edges(trace, &all);
	for (size_t i = 0; i < all.count; i++)
		total += all.list[i].count;
	result->is_measurable = true;
	snprintf(result->text, sizeof(result->text), "%" PRIu64 " of %" PRIu64 " edges differ",
		 count_differences(&all, &edges), total);
}

void bench_libxdc_check(const struct bench_trace *trace, const struct ptah_range *filter,
			struct bench_exactness *result)
{
	int ends[2], status;
	pid_t pid;

	load_pages(trace);
	xdc.filter[0][0] = filter->first;
	xdc.filter[0][1] = filter->last;
	xdc.bytes = allocate(trace->size + SENTINEL);
	memcpy(xdc.bytes, trace->bytes, trace->size);
	memset(xdc.bytes + trace->size, PT_TRACE_END, SENTINEL);
	if (pipe(ends) || (fflush(NULL), pid = fork()) < 0)
		bench_die("libxdc", "no process");
	if (!pid) {
		memset(result, 0, sizeof(*result));
		check_edges(trace, result);
		_exit(write(ends[1], result, sizeof(*result)) != (ssize_t)sizeof(*result));
	}
	close(ends[1]);
	if (read(ends[0], result, sizeof(*result)) != (ssize_t)sizeof(*result))
		*result = (struct bench_exactness){.text = "aborts"};
	close(ends[0]);
	waitpid(pid, &status, 0);
}

#else

struct bench_result bench_libxdc_coverage(const struct bench_trace *trace, size_t size)
{
	(void)trace;
	(void)size;
	bench_die("libxdc", "not in this build");
}

struct bench_result bench_libxdc_coverage_warm(const struct bench_trace *trace, size_t size)
{
	return bench_libxdc_coverage(trace, size);
}

struct bench_result bench_libxdc_coverage_first(const struct bench_trace *trace, size_t size)
{
	return bench_libxdc_coverage(trace, size);
}

void bench_libxdc_check(const struct bench_trace *trace, const struct ptah_range *filter,
			struct bench_exactness *result)
{
	(void)trace;
	(void)filter;
	*result = (struct bench_exactness){.text = "not in this build (PTAH_LIBXDC)"};
}

void bench_libxdc_cool(void)
{
}

void bench_libxdc_forget(void)
{
}

#endif
