/* SPDX-License-Identifier: MIT */
/*
 * Writes Cobertura's XML (cobertura.h). Names of files are relative to the innermost folder that
 * all have in common, the document's source. A package is a folder, a class is a file.
 */
#include "export/cobertura.h"

#include "base/order.h"
#include "export/xml.h"

#include <ptah/base.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cobertura {
	struct out *out;
	const struct source_file_coverage **files; /* by folder and name */
	size_t count;
	size_t common; /* bytes of the folder that all names have in common, with its slash */
};

struct sums {
	size_t lines, lines_hit, ways, ways_hit;
};

/* The bytes of a name up to its last slash, which is part of them. */
static size_t folder_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? (size_t)(slash - name) + 1 : 0;
}

static int by_folder(const void *a, const void *b)
{
	const struct source_file_coverage *x = *(const struct source_file_coverage *const *)a;
	const struct source_file_coverage *y = *(const struct source_file_coverage *const *)b;
	const size_t n = folder_of(x->name), m = folder_of(y->name);
	const int order = memcmp(x->name, y->name, n < m ? n : m);

	if (order || n != m)
		return order ? order : n < m ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Names that are not absolute have nothing in common with others: then all are whole. */
static size_t common_folder(const struct source_coverage *coverage)
{
	size_t n = coverage->file_count ? folder_of(coverage->files[0].name) : 0;

	for (size_t i = 0; i < coverage->file_count; i++) {
		const char *first = coverage->files[0].name, *name = coverage->files[i].name;
		size_t k = 0;

		if (*name != '/')
			return 0;
		while (k < n && name[k] == first[k])
			k++;
		while (k && first[k - 1] != '/')
			k--;
		n = k;
	}
	return n;
}

/* Attributes */

static void put_number(struct out *out, const char *name, uint64_t value)
{
	out_format(out, " %s=\"", name);
	out_decimal(out, value);
	out_char(out, '"');
}

static void put_rate(struct out *out, const char *name, size_t hit, size_t all)
{
	out_format(out, " %s=\"%.4f\"", name, all ? (double)hit / (double)all : 1.0);
}

/* `n` bytes of text; SIZE_MAX: all of it. False when out of memory. */
static bool put_text(struct out *out, const char *name, const char *text, size_t n)
{
	char *copy = strndup(text, n);

	if (!copy)
		return false;
	out_format(out, " %s=\"", name);
	xml_text(out, copy);
	out_char(out, '"');
	free(copy);
	return true;
}

static void put_rates(struct out *out, const struct sums *s)
{
	put_rate(out, "line-rate", s->lines_hit, s->lines);
	put_rate(out, "branch-rate", s->ways_hit, s->ways);
	out_text(out, " complexity=\"0\"");
}

static void add_file(struct sums *s, const struct source_file_coverage *file)
{
	s->lines += file->line_count;
	s->lines_hit += file->lines_hit;
	s->ways += 2 * file->branch_count;
	s->ways_hit += file->ways_hit;
}

/* Lines */

/* The first branch of a line or of a later one. */
static size_t branch_at(const struct source_file_coverage *file, uint32_t line)
{
	size_t at;

	BISECT(at, 0, file->branch_count, file->branches[at].line < line);
	return at;
}

static unsigned ways_hit(const struct source_branch *branch)
{
	return (branch->ways[0].count != 0) + (branch->ways[1].count != 0);
}

static void put_conditions(struct out *out, const struct source_branch *branches, size_t n)
{
	size_t hit = 0;

	for (size_t i = 0; i < n; i++)
		hit += ways_hit(&branches[i]);
	out_format(out, " branch=\"true\" condition-coverage=\"%zu%% (%zu/%zu)\"><conditions>",
		   100 * hit / (2 * n), hit, 2 * n);
	for (size_t i = 0; i < n; i++)
		out_format(out, "<condition number=\"%zu\" type=\"jump\" coverage=\"%u%%\"/>", i,
			   50 * ways_hit(&branches[i]));
	out_text(out, "</conditions></line>\n");
}

static void put_line(struct out *out, const struct source_file_coverage *file,
		     const struct source_line *line)
{
	const size_t first = branch_at(file, line->line);
	size_t n = 0;

	out_text(out, "<line");
	put_number(out, "number", line->line);
	put_number(out, "hits", line->count);
	while (first + n < file->branch_count && file->branches[first + n].line == line->line)
		n++;
	if (n)
		put_conditions(out, file->branches + first, n);
	else
		out_text(out, " branch=\"false\"/>\n");
}

/* Methods */

/* The lines of a file by function: those of function i are lines[at[i]] to lines[at[i + 1]]. */
struct function_lines {
	size_t *at, *lines;
};

static bool sort_lines(const struct source_file_coverage *file, struct function_lines *sorted)
{
	size_t *next = calloc(file->function_count + 1, sizeof(*next));

	sorted->at = calloc(file->function_count + 2, sizeof(*sorted->at));
	sorted->lines = calloc(file->line_count + 1, sizeof(*sorted->lines));
	if (!next || !sorted->at || !sorted->lines) {
		free(next);
		return false;
	}
	for (size_t i = 0; i < file->line_count; i++)
		if (file->lines[i].function != SOURCE_NO_FUNCTION)
			sorted->at[file->lines[i].function + 1]++;
	for (size_t i = 0; i < file->function_count; i++) {
		sorted->at[i + 1] += sorted->at[i];
		next[i] = sorted->at[i];
	}
	for (size_t i = 0; i < file->line_count; i++)
		if (file->lines[i].function != SOURCE_NO_FUNCTION)
			sorted->lines[next[file->lines[i].function]++] = i;
	free(next);
	return true;
}

/* Its rates come before its lines. */
static struct sums sum_lines(const struct source_file_coverage *file, const size_t *lines, size_t n)
{
	struct sums sums = {0};

	for (size_t i = 0; i < n; i++) {
		const struct source_line *line = &file->lines[lines[i]];

		sums.lines++;
		sums.lines_hit += line->count != 0;
		for (size_t b = branch_at(file, line->line);
		     b < file->branch_count && file->branches[b].line == line->line; b++) {
			sums.ways += 2;
			sums.ways_hit += ways_hit(&file->branches[b]);
		}
	}
	return sums;
}

static bool put_method(struct out *out, const struct source_file_coverage *file,
		       const struct source_function *function, const size_t *lines, size_t n)
{
	const struct sums sums = sum_lines(file, lines, n);

	out_text(out, "<method");
	if (!put_text(out, "name", function->shown, SIZE_MAX) ||
	    !put_text(out, "signature", function->name, SIZE_MAX))
		return false;
	put_rates(out, &sums);
	out_text(out, "><lines>\n");
	for (size_t i = 0; i < n; i++)
		put_line(out, file, &file->lines[lines[i]]);
	out_text(out, "</lines></method>\n");
	return true;
}

static bool put_methods(struct out *out, const struct source_file_coverage *file)
{
	struct function_lines sorted;
	bool done = sort_lines(file, &sorted);

	out_text(out, "<methods>\n");
	for (size_t i = 0; done && i < file->function_count; i++)
		done = put_method(out, file, &file->functions[i], sorted.lines + sorted.at[i],
				  sorted.at[i + 1] - sorted.at[i]);
	out_text(out, "</methods>\n");
	free(sorted.at);
	free(sorted.lines);
	return done;
}

/* Classes and packages */

static bool put_class(const struct cobertura *c, const struct source_file_coverage *file)
{
	struct sums sums = {0};

	add_file(&sums, file);
	out_text(c->out, "<class");
	if (!put_text(c->out, "name", file->name + folder_of(file->name), SIZE_MAX) ||
	    !put_text(c->out, "filename", file->name + c->common, SIZE_MAX))
		return false;
	put_rates(c->out, &sums);
	out_text(c->out, ">\n");
	if (!put_methods(c->out, file))
		return false;
	out_text(c->out, "<lines>\n");
	for (size_t i = 0; i < file->line_count; i++)
		put_line(c->out, file, &file->lines[i]);
	out_text(c->out, "</lines></class>\n");
	return true;
}

/* The files [first, end) of one folder. */
static bool put_package(const struct cobertura *c, size_t first, size_t end)
{
	const char *name = c->files[first]->name + c->common;
	const size_t n = folder_of(name);
	struct sums sums = {0};

	for (size_t i = first; i < end; i++)
		add_file(&sums, c->files[i]);
	out_text(c->out, "<package");
	if (!put_text(c->out, "name", n > 1 ? name : ".", n > 1 ? n - 1 : 1))
		return false;
	put_rates(c->out, &sums);
	out_text(c->out, "><classes>\n");
	for (size_t i = first; i < end; i++)
		if (!put_class(c, c->files[i]))
			return false;
	out_text(c->out, "</classes></package>\n");
	return true;
}

static bool put_packages(const struct cobertura *c)
{
	size_t end;

	for (size_t first = 0; first < c->count && !out_failed(c->out); first = end) {
		const char *name = c->files[first]->name;
		const size_t n = folder_of(name);

		for (end = first + 1; end < c->count && folder_of(c->files[end]->name) == n &&
				      !memcmp(c->files[end]->name, name, n);
		     end++)
			;
		if (!put_package(c, first, end))
			return false;
	}
	return true;
}

/* The folder that all files are in, "." where there is none. */
static bool put_source(const struct cobertura *c)
{
	char *folder =
	    c->common ? strndup(c->files[0]->name, c->common > 1 ? c->common - 1 : 1) : strdup(".");

	if (!folder)
		return false;
	xml_text(c->out, folder);
	free(folder);
	return true;
}

static bool put_document(const struct cobertura *c)
{
	struct sums sums = {0};

	for (size_t i = 0; i < c->count; i++)
		add_file(&sums, c->files[i]);
	out_text(c->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE coverage SYSTEM "
			 "\"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">\n<coverage");
	put_rates(c->out, &sums);
	put_number(c->out, "lines-covered", sums.lines_hit);
	put_number(c->out, "lines-valid", sums.lines);
	put_number(c->out, "branches-covered", sums.ways_hit);
	put_number(c->out, "branches-valid", sums.ways);
	put_number(c->out, "timestamp", 1000 * (uint64_t)time(NULL)); /* milliseconds */
	out_text(c->out, " version=\"ptah " PTAH_VERSION_STRING "\">\n<sources><source>");
	if (!put_source(c))
		return false;
	out_text(c->out, "</source></sources>\n<packages>\n");
	if (!put_packages(c))
		return false;
	out_text(c->out, "</packages>\n</coverage>\n");
	return true;
}

int cobertura_write(struct out *out, const struct source_coverage *coverage)
{
	struct cobertura c = {.out = out,
			      .count = coverage->file_count,
			      .common = common_folder(coverage),
			      .files = calloc(coverage->file_count + 1, sizeof(*c.files))};
	bool done = c.files != NULL;

	for (size_t i = 0; done && i < c.count; i++)
		c.files[i] = &coverage->files[i];
	if (done && c.count)
		qsort(c.files, c.count, sizeof(*c.files), by_folder);
	done = done && put_document(&c);
	free(c.files);
	return done ? 0 : PTAH_E_NOMEM;
}
