/* SPDX-License-Identifier: MIT */
/* Asks a live session at the end of each interval, and finds what is new since the last time. */
#include "live_cover.h"
#include "live_view.h"

#include "base/order.h"
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const live_sort_words[] = {"now", "total", "calls", "p99", "max", "waits", NULL};

/* A function, and what it is called. */
struct part {
	struct ptah_live_function function;
	struct ptah_function_name name;
	uint64_t place;
};

static int compare_text(const char *a, const char *b)
{
	if (a == b)
		return 0;
	return !a ? -1 : !b ? 1 : strcmp(a, b);
}

static int by_live_place(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = COMPARE(x->place, y->place);

	order = order ? order : compare_text(x->name.path, y->name.path);
	order = order ? order : compare_text(x->name.name, y->name.name);
	return order ? order : COMPARE((uint32_t)x->function.space, (uint32_t)y->function.space);
}

static int row_by_place(const void *a, const void *b)
{
	const struct live_row *x = a, *y = b;
	int order = COMPARE(x->place, y->place);

	order = order ? order : compare_text(x->path, y->path);
	return order ? order : compare_text(x->name, y->name);
}

static void name_part(struct live_view *v, struct part *part)
{
	const struct ptah_live_function *f = &part->function;
	struct ptah_functions *finder = ptah_live_finder(v->live);

	part->name = (struct ptah_function_name){0};
	part->place = f->function;
	if (!f->function || !ptah_functions_name(finder, f->space, f->function, 0, &part->name))
		return;
	if (part->name.path && *part->name.path == '/')
		part->place = part->name.file_offset;
	else if (part->name.name)
		part->place = part->name.start;
}

static void add_live_part(struct live_row *row, const struct part *part)
{
	const struct ptah_live_function *f = &part->function;

	row->instructions += f->instructions;
	row->calls += f->calls;
	row->open += f->open;
	row->ended += f->ended;
	row->timed += f->timed;
	row->total_instructions += f->total_instructions;
	row->waited += f->waited;
	if (f->max_ticks > row->max)
		row->max = f->max_ticks;
	if (f->max_instructions > row->max_instructions)
		row->max_instructions = f->max_instructions;
	row->count++;
}

/* Makes rows of parts, which are sorted; the functions become sorted like them. */
static void add_up(struct live_measure *m, const struct part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct live_row wanted = {.name = parts[i].name.name,
						.path = parts[i].name.path,
						.place = parts[i].place,
						.address = parts[i].function.function,
						.first = i};

		m->functions[i] = parts[i].function;
		if (!m->count || row_by_place(&m->rows[m->count - 1], &wanted))
			m->rows[m->count++] = wanted;
		add_live_part(&m->rows[m->count - 1], &parts[i]);
	}
}

static int list_live_rows(struct live_view *v)
{
	struct live_measure *m = &v->measure;
	struct part *parts;
	size_t n;
	int status = ptah_live_functions(v->live, &m->functions, &n);

	if (status < 0)
		return status;
	parts = calloc(n + 1, sizeof(*parts));
	m->rows = calloc(n + 1, sizeof(*m->rows));
	if (!parts || !m->rows) {
		free(parts);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		parts[i].function = m->functions[i];
		name_part(v, &parts[i]);
	}
	qsort(parts, n, sizeof(*parts), by_live_place);
	add_up(m, parts, n);
	free(parts);
	return 0;
}

/*
 * Both lists are in the order of places. In the final measure, the interval is the whole time.
 * After an execve the functions of the program before it may have other names, and rows that seem
 * to be new: so the sum of the interval is the difference of the sums.
 */
static void find_new(struct live_view *v)
{
	struct live_measure *m = &v->measure;
	uint64_t before = 0;
	size_t k = 0;

	m->instructions = 0;
	for (size_t i = 0; i < v->last_count && !m->final; i++)
		before += v->last[i].instructions;
	for (size_t i = 0; i < m->count; i++) {
		struct live_row *row = &m->rows[i];
		const struct live_row *last;

		while (k < v->last_count && row_by_place(&v->last[k], row) < 0)
			k++;
		last = k < v->last_count && !row_by_place(&v->last[k], row) && !m->final
			   ? &v->last[k]
			   : NULL;
		row->now = row->instructions - (last ? last->instructions : 0);
		row->calls_now = row->calls - (last ? last->calls : 0);
		m->instructions += row->instructions;
	}
	m->now = m->instructions > before ? m->instructions - before : 0;
}

/* What the next interval is compared with. */
static int keep_last_interval(struct live_view *v)
{
	const struct live_measure *m = &v->measure;

	free(v->last);
	v->last = malloc((m->count + 1) * sizeof(*v->last));
	v->last_count = v->last ? m->count : 0;
	if (!v->last)
		return PTAH_E_NOMEM;
	memcpy(v->last, m->rows, m->count * sizeof(*v->last));
	return 0;
}

static int list_threads(struct live_view *v)
{
	struct live_measure *m = &v->measure;
	struct live_thread_row *threads;
	const size_t before = m->thread_count, n = m->status.threads;
	struct ptah_live_thread t = {.size = sizeof(t)};

	threads = reallocarray(m->threads, n + 1, sizeof(*threads));
	if (!threads)
		return PTAH_E_NOMEM;
	m->threads = threads;
	for (m->thread_count = 0; m->thread_count < n; m->thread_count++) {
		const size_t i = m->thread_count;

		if (ptah_live_thread(v->live, i, &t) < 0)
			break;
		threads[i].now = t.instructions - (i < before ? threads[i].thread.instructions : 0);
		threads[i].thread = t;
	}
	return 0;
}

/* Sorting */

#define ORDER(name, member)                                                                        \
	static int name(const void *a, const void *b)                                              \
	{                                                                                          \
		const struct live_row *x = a, *y = b;                                              \
		int order = COMPARE(y->member, x->member);                                         \
                                                                                                   \
		order = order ? order : COMPARE(y->instructions, x->instructions);                 \
		return order ? order : row_by_place(x, y);                                         \
	}

ORDER(by_now, now)
ORDER(by_total, instructions)
ORDER(by_calls, calls_now)
ORDER(by_p99, p99)
ORDER(by_max, max)
ORDER(by_waits, waited)

void live_sort_rows(struct live_view *v)
{
	static int (*const orders[LIVE_SORT_MAX])(const void *, const void *) = {
	    [LIVE_NOW] = by_now, [LIVE_TOTAL] = by_total, [LIVE_CALLS] = by_calls,
	    [LIVE_P99] = by_p99, [LIVE_MAX] = by_max,	  [LIVE_WAITS] = by_waits,
	};

	qsort(v->measure.rows, v->measure.count, sizeof(*v->measure.rows), orders[v->sort]);
}

/* Times */

static uint64_t nanoseconds(uint64_t ticks, uint32_t mult, uint32_t shift)
{
	return (uint64_t)(((unsigned __int128)ticks * mult) >> (shift & 63));
}

/* Times of single calls. The session is held. */
static void find_live_times(struct live_view *v)
{
	struct live_measure *m = &v->measure;
	uint32_t mult = 0, shift = 0;

	m->waits = false;
	m->timed = ptah_session_time_scale(ptah_live_session(v->live), &mult, &shift);
	for (size_t i = 0; i < m->count; i++) {
		struct live_row *row = &m->rows[i];
		const struct ptah_live_function *f = &m->functions[row->first];

		row->waited = m->timed ? nanoseconds(row->waited, mult, shift) : 0;
		m->waits |= row->waited;
		if (!m->timed || !row->timed)
			row->max = 0;
		if (!m->timed || !row->timed)
			continue;
		row->max = nanoseconds(row->max, mult, shift);
		row->p50 = nanoseconds(ptah_live_common_quantile(v->live, f, row->count, 0.5), mult,
				       shift);
		row->p99 = nanoseconds(ptah_live_common_quantile(v->live, f, row->count, 0.99),
				       mult, shift);
	}
}

static int ask(struct live_view *v)
{
	int status;

	ptah_live_hold(v->live);
	status = list_live_rows(v);
	if (status >= 0)
		status = list_threads(v);
	if (status >= 0)
		find_live_times(v);
	ptah_live_release(v->live);
	return status;
}

const char *live_times(const struct live_view *v)
{
	return ptah_session_times(ptah_live_session(v->live)).name;
}

const char *live_times_text(const struct live_view *v)
{
	return ptah_session_times(ptah_live_session(v->live)).text;
}

int live_measure(struct live_view *v, bool final)
{
	struct live_measure *m = &v->measure;
	const double seconds = now() - v->started;
	int status;

	free(m->rows);
	free(m->functions);
	m->rows = NULL;
	m->functions = NULL;
	m->count = 0;
	m->final = final;
	m->length = final ? seconds : seconds - m->seconds;
	m->seconds = seconds;
	m->before = m->status;
	if (final)
		memset(&m->before, 0, sizeof(m->before));
	m->status.size = sizeof(m->status);
	status = ptah_live_status(v->live, &m->status);
	if (status >= 0)
		status = live_cover_look(v->cover, true);
	if (status >= 0)
		status = ask(v);
	if (status < 0)
		return status;
	live_cover_measure(v->cover, m, final);
	find_new(v);
	status = keep_last_interval(v);
	live_sort_rows(v);
	return status;
}

void live_measure_free(struct live_view *v)
{
	free(v->measure.rows);
	free(v->measure.functions);
	free(v->measure.threads);
	free(v->last);
}

/* Names */

const char *live_label(const struct live_view *v, const struct live_row *row, char text[32])
{
	if (row->name && v->options->record.input.no_demangle)
		return row->name;
	if (row->name)
		return names_demangled(v->names, row->name);
	if (!row->address)
		return "[unknown]";
	snprintf(text, 32, "0x%" PRIx64, row->address);
	return text;
}

const char *live_object(const struct live_row *row)
{
	const char *slash = row->path ? strrchr(row->path, '/') : NULL;

	return !row->path ? "[unknown]" : slash && slash[1] ? slash + 1 : row->path;
}
