/* SPDX-License-Identifier: MIT */
/* Adds up lines, branches and functions of source files (source_store.h). */
#include "export/source_store.h"

#include "base/hash.h"
#include "base/order.h"
#include "base/path.h"
#include "support/list.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Files */

static bool matches(const char *const *patterns, const char *name)
{
	for (; patterns && *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static bool is_wanted(const struct source_coverage_config *config, const char *name)
{
	return (!config->include || !*config->include || matches(config->include, name)) &&
	       !matches(config->exclude, name);
}

static size_t slot_of(const struct source_store *s, const char *recorded)
{
	size_t i = hash_number((uintptr_t)recorded >> 3) >> 20;

	for (;; i++) {
		const uint32_t file = s->by_pointer[i & (s->table_size - 1)];

		if (!file || s->files[file - 1].recorded == recorded)
			return i & (s->table_size - 1);
	}
}

static bool grow_table(struct source_store *s)
{
	const size_t size = s->table_size ? 2 * s->table_size : 256;
	uint32_t *table = calloc(size, sizeof(*table));

	if (!table)
		return false;
	free(s->by_pointer);
	s->by_pointer = table;
	s->table_size = size;
	for (size_t i = 0; i < s->file_count; i++)
		table[slot_of(s, s->files[i].recorded)] = (uint32_t)i + 1;
	return true;
}

uint32_t source_store_file(struct source_store *s, const char *recorded)
{
	struct stored_file *file;
	size_t slot;

	if (2 * s->file_count >= s->table_size && !grow_table(s))
		return STORE_NO_FILE;
	slot = slot_of(s, recorded);
	if (s->by_pointer[slot])
		return s->by_pointer[slot] - 1;
	if (!LIST_ROOM(s->files, s->file_count, s->file_room))
		return STORE_NO_FILE;
	file = &s->files[s->file_count];
	*file = (struct stored_file){.recorded = recorded, .name = strdup(recorded)};
	if (!file->name)
		return STORE_NO_FILE;
	if (*file->name == '/')
		path_resolve(file->name);
	file->wanted = is_wanted(s->config, file->name);
	s->by_pointer[slot] = (uint32_t)++s->file_count;
	return (uint32_t)s->file_count - 1;
}

/* Lines */

static int by_line(const void *a, const void *b)
{
	const struct stored_line *x = a, *y = b;
	const int order = COMPARE(x->file, y->file);

	return order ? order : COMPARE(x->line, y->line);
}

/* Adds up what is of one line. */
static void add_up_lines(struct source_store *s)
{
	size_t n = 0;

	if (!s->line_count)
		return;
	qsort(s->lines, s->line_count, sizeof(*s->lines), by_line);
	for (size_t i = 1; i < s->line_count; i++) {
		struct stored_line *to = &s->lines[n];
		const struct stored_line *from = &s->lines[i];

		if (by_line(to, from)) {
			s->lines[++n] = *from;
			continue;
		}
		to->count += from->count;
		to->has_unexecuted |= from->has_unexecuted;
		if (to->function == SOURCE_NO_FUNCTION)
			to->function = from->function;
	}
	s->line_count = n + 1;
}

bool source_store_line(struct source_store *s, const struct stored_line *line)
{
	/* Headers are in every unit: lines are added up when there are twice as many as before. */
	if (s->line_count >= (s->compact_at ? s->compact_at : (size_t)1 << 16)) {
		add_up_lines(s);
		s->compact_at = 2 * s->line_count + ((size_t)1 << 16);
	}
	if (!LIST_ROOM(s->lines, s->line_count, s->line_room))
		return false;
	s->lines[s->line_count++] = *line;
	return true;
}

/* Branches */

bool source_store_branch(struct source_store *s, const struct stored_branch *branch)
{
	if (!LIST_ROOM(s->branches, s->branch_count, s->branch_room))
		return false;
	s->branches[s->branch_count++] = *branch;
	return true;
}

static int by_copy(const void *a, const void *b)
{
	const struct stored_branch *x = a, *y = b;
	int order = COMPARE(x->file, y->file);

	order = order ? order : COMPARE(x->line, y->line);
	order = order ? order : COMPARE(x->group, y->group);
	return order ? order : COMPARE(x->ordinal, y->ordinal);
}

static int by_branch(const void *a, const void *b)
{
	const struct stored_branch *x = a, *y = b;
	int order = COMPARE(x->file, y->file);

	order = order ? order : COMPARE(x->line, y->line);
	order = order ? order : COMPARE(x->order, y->order);
	return order ? order : COMPARE(x->ordinal, y->ordinal);
}

static void add_up_branches(struct source_store *s)
{
	size_t n = 0;

	if (!s->branch_count)
		return;
	qsort(s->branches, s->branch_count, sizeof(*s->branches), by_copy);
	for (size_t i = 1; i < s->branch_count; i++) {
		struct stored_branch *to = &s->branches[n];
		const struct stored_branch *from = &s->branches[i];

		if (by_copy(to, from)) {
			s->branches[++n] = *from;
			continue;
		}
		to->executed += from->executed;
		to->unknown += from->unknown;
		to->ways[0].count += from->ways[0].count;
		to->ways[1].count += from->ways[1].count;
		to->order = from->order < to->order ? from->order : to->order;
		if (to->function == SOURCE_NO_FUNCTION)
			to->function = from->function;
	}
	s->branch_count = n + 1;
	qsort(s->branches, s->branch_count, sizeof(*s->branches), by_branch);
}

/* Functions */

bool source_store_function(struct source_store *s, const struct stored_function *function)
{
	if (!LIST_ROOM(s->functions, s->function_count, s->function_room))
		return false;
	s->functions[s->function_count++] = *function;
	return true;
}

static int by_function(const void *a, const void *b)
{
	const struct stored_function *x = *(const struct stored_function *const *)a;
	const struct stored_function *y = *(const struct stored_function *const *)b;
	int order = COMPARE(x->file, y->file);

	order = order ? order : COMPARE(x->function.first, y->function.first);
	return order ? order : strcmp(x->function.name, y->function.name);
}

/* Adds up the functions. numbers[i] becomes the number of function i among those of its file. */
static int add_up_functions(struct source_store *s, uint32_t *numbers)
{
	const struct stored_function **order = calloc(s->function_count + 1, sizeof(*order));
	struct stored_function *list = calloc(s->function_count + 1, sizeof(*list));
	uint32_t number = 0;
	size_t n = 0;

	if (!order || !list) {
		free(order);
		free(list);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < s->function_count; i++)
		order[i] = &s->functions[i];
	qsort(order, s->function_count, sizeof(*order), by_function);
	for (size_t i = 0; i < s->function_count; i++) {
		const struct source_function *from = &order[i]->function;
		struct source_function *to = n ? &list[n - 1].function : NULL;

		if (i && !by_function(&order[i - 1], &order[i])) {
			to->last = from->last > to->last ? from->last : to->last;
			to->calls += from->calls;
			to->blocks += from->blocks;
			to->blocks_executed += from->blocks_executed;
		} else {
			number = n && list[n - 1].file == order[i]->file ? number + 1 : 0;
			list[n++] = *order[i];
		}
		numbers[order[i] - s->functions] = number;
	}
	free(order);
	free(s->functions);
	s->functions = list;
	s->function_count = n;
	return 0;
}

/* Putting the files together */

void source_file_fini(struct source_file_coverage *file)
{
	free(file->name);
	free(file->lines);
	free(file->branches);
	free(file->functions);
	*file = (struct source_file_coverage){0};
}

/* The lines of a file, from number *at on. */
static int take_lines(const struct source_store *s, uint32_t number, size_t *at,
		      const uint32_t *numbers, struct source_file_coverage *file)
{
	const size_t first = *at;

	while (*at < s->line_count && s->lines[*at].file == number)
		++*at;
	file->line_count = *at - first;
	file->lines = calloc(file->line_count + 1, sizeof(*file->lines));
	if (!file->lines)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < file->line_count; i++) {
		const struct stored_line *l = &s->lines[first + i];

		file->lines[i] = (struct source_line){.line = l->line,
						      .function = l->function == SOURCE_NO_FUNCTION
								      ? l->function
								      : numbers[l->function],
						      .has_unexecuted = l->has_unexecuted,
						      .count = l->count};
		file->lines_hit += l->count != 0;
	}
	return 0;
}

static int take_branches(const struct source_store *s, uint32_t number, size_t *at,
			 const uint32_t *numbers, struct source_file_coverage *file)
{
	const size_t first = *at;

	while (*at < s->branch_count && s->branches[*at].file == number)
		++*at;
	file->branch_count = *at - first;
	file->branches = calloc(file->branch_count + 1, sizeof(*file->branches));
	if (!file->branches)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < file->branch_count; i++) {
		const struct stored_branch *b = &s->branches[first + i];
		struct source_branch *to = &file->branches[i];

		*to = (struct source_branch){.line = b->line,
					     .function = b->function == SOURCE_NO_FUNCTION
							     ? b->function
							     : numbers[b->function],
					     .executed = b->executed,
					     .unknown = b->unknown,
					     .ways = {b->ways[0], b->ways[1]}};
		to->block = i && to[-1].line == to->line ? to[-1].block + 1 : 0;
		file->ways_hit += (size_t)(b->ways[0].count != 0) + (b->ways[1].count != 0);
	}
	return 0;
}

/*
 * A function of which a copy is there that never ran was executed all the same where its lines
 * were, in the functions into which it was inlined: as often as the first of them. This is not
 * known where another function begins at the same line, as instances of a template do.
 */
static void count_inlined(struct source_file_coverage *file, size_t i)
{
	struct source_function *f = &file->functions[i];
	uint32_t last = f->last;

	if (f->calls || f->blocks_executed || (i && f[-1].first == f->first))
		return;
	if (i + 1 < file->function_count && f[1].first <= last) {
		if (f[1].first == f->first)
			return;
		last = f[1].first - 1;
	}
	for (size_t k = source_file_find(file, f->first);
	     k < file->line_count && file->lines[k].line <= last && !f->calls; k++)
		f->calls = file->lines[k].count;
}

static int take_functions(const struct source_store *s, uint32_t number, size_t *at,
			  struct source_file_coverage *file)
{
	const size_t first = *at;

	while (*at < s->function_count && s->functions[*at].file == number)
		++*at;
	file->function_count = *at - first;
	file->functions = calloc(file->function_count + 1, sizeof(*file->functions));
	if (!file->functions)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < file->function_count; i++)
		file->functions[i] = s->functions[first + i].function;
	for (size_t i = 0; i < file->function_count; i++) {
		count_inlined(file, i);
		file->functions_hit += file->functions[i].calls != 0;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct stored_file *x = *(struct stored_file *const *)a;
	const struct stored_file *y = *(struct stored_file *const *)b;

	return strcmp(x->name, y->name);
}

/*
 * Numbers the files in the order of their names, those with one name alike, in everything that is
 * stored. order[i] becomes a file with number i. Returns how many numbers there are.
 */
static size_t number_files(struct source_store *s, struct stored_file **order)
{
	size_t n = 0;

	for (size_t i = 0; i < s->file_count; i++)
		order[i] = &s->files[i];
	qsort(order, s->file_count, sizeof(*order), by_name);
	for (size_t i = 0; i < s->file_count; i++) {
		if (!n || by_name(&order[n - 1], &order[i]))
			order[n++] = order[i];
		order[i]->number = (uint32_t)n - 1;
	}
	for (size_t i = 0; i < s->line_count; i++)
		s->lines[i].file = s->files[s->lines[i].file].number;
	for (size_t i = 0; i < s->branch_count; i++)
		s->branches[i].file = s->files[s->branches[i].file].number;
	for (size_t i = 0; i < s->function_count; i++)
		s->functions[i].file = s->files[s->functions[i].file].number;
	return n;
}

/* Everything is in the order of the files. */
static int make_files(const struct source_store *s, struct stored_file *const *order, size_t n,
		      const uint32_t *numbers, struct source_coverage *c)
{
	size_t line = 0, branch = 0, function = 0;
	int status = 0;

	for (uint32_t i = 0; status >= 0 && i < n; i++) {
		struct source_file_coverage *file = &c->files[c->file_count];

		c->left_out += !order[i]->wanted;
		c->file_count += line < s->line_count && s->lines[line].file == i;
		status = take_lines(s, i, &line, numbers, file);
		if (status >= 0)
			status = take_branches(s, i, &branch, numbers, file);
		if (status >= 0)
			status = take_functions(s, i, &function, file);
		if (status >= 0 && file->line_count) {
			file->name = order[i]->name;
			order[i]->name = NULL;
		} else {
			source_file_fini(file);
		}
	}
	return status;
}

int source_store_finish(struct source_store *s, struct source_coverage *c)
{
	uint32_t *numbers = calloc(s->function_count + 1, sizeof(*numbers));
	struct stored_file **order = calloc(s->file_count + 1, sizeof(*order));
	int status = numbers && order ? 0 : PTAH_E_NOMEM;
	size_t n;

	c->files = calloc(s->file_count + 1, sizeof(*c->files));
	if (!c->files)
		status = PTAH_E_NOMEM;
	if (status >= 0) {
		n = number_files(s, order);
		status = add_up_functions(s, numbers);
	}
	if (status >= 0) {
		add_up_lines(s);
		add_up_branches(s);
		status = make_files(s, order, n, numbers, c);
	}
	free(order);
	free(numbers);
	return status;
}

void source_store_free(struct source_store *s)
{
	for (size_t i = 0; i < s->file_count; i++)
		free(s->files[i].name);
	free(s->files);
	free(s->lines);
	free(s->branches);
	free(s->functions);
	free(s->by_pointer);
	*s = (struct source_store){0};
}
