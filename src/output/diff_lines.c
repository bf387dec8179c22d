/* SPDX-License-Identifier: MIT */
/*
 * Lists a run by source line (diff_list.h). In another version of a file lines have moved: there
 * a line is found by its distance from the first line of its function.
 */
#include "base/order.h"
#include "output/diff_list.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where a function, inlined or not, is declared. */
struct declaration {
	uint32_t object, line;
	const char *file, *name;
};

struct declarations {
	struct declaration *list;
	size_t count, capacity;
};

/* More frames than this are seldom there, and the innermost are what counts. */
#define FRAMES 16

static int add_declaration(struct declarations *d, uint32_t object, const struct ptah_inline *f)
{
	const struct declaration *last = d->count ? &d->list[d->count - 1] : NULL;

	if (!f->file || !f->line || (last && last->name == f->name && last->line == f->line))
		return 0;
	if (!LIST_ROOM(d->list, d->count, d->capacity))
		return PTAH_E_NOMEM;
	d->list[d->count++] = (struct declaration){object, f->line, f->file, f->name};
	return 0;
}

static int by_diff_line_place(const void *a, const void *b)
{
	const struct declaration *x = a, *y = b;
	int order;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	order = strcmp(x->file, y->file);
	return order ? order : COMPARE(x->line, y->line);
}

/* Lists the declarations of all functions that ran, and of those that were inlined in them. */
static int list_declarations(struct declarations *d, const struct annotation *a,
			     struct ptah_symbols *symbols)
{
	struct ptah_inline frames[FRAMES];
	int status = 0;

	for (size_t i = 0; i < a->function_count && status >= 0; i++) {
		const struct annotate_function *f = &a->functions[i];
		const struct annotate_object *o = &a->objects[f->object];

		if (o->is_file && ptah_symbols_function(symbols, o->path, f->start, frames))
			status = add_declaration(d, f->object, frames);
	}
	for (size_t i = 0; i < a->piece_count && status >= 0; i++) {
		const struct annotate_piece *p = &a->pieces[i];
		const struct annotate_object *o = &a->objects[p->object];
		const size_t n =
		    !o->is_file ? 0 : ptah_symbols_inlines(symbols, o->path, p->at, frames, FRAMES);

		for (size_t k = 0; k < n && status >= 0; k++)
			status = add_declaration(d, p->object, &frames[k]);
	}
	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), by_diff_line_place);
	return status;
}

/* The function that a line belongs to: the last one declared before it. NULL: not known. */
static const struct declaration *function_of(const struct declarations *d,
					     const struct annotate_line *l)
{
	const struct declaration key = {l->object, l->line, l->file, NULL}, *found;
	size_t at;

	BISECT(at, 0, d->count, by_diff_line_place(&d->list[at], &key) <= 0);
	found = at ? &d->list[at - 1] : NULL;
	return found && found->object == l->object && !strcmp(found->file, l->file) ? found : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static int add_line(struct diff_list *list, const struct annotation *a,
		    const struct declarations *d, const struct annotate_line *l)
{
	const struct annotate_object *o = &a->objects[l->object];
	const struct declaration *f = function_of(d, l);
	struct diff_entry e = {
	    .path = o->path ? o->path : o->shown, .value = l->instructions, .calls = l->executed};

	diff_list_identify(list, &e);
	e.name = diff_list_text(list, "%s:%" PRIu32, l->file, l->line);
	e.other_name = f ? diff_list_text(list, "%s+%" PRIu32, f->name, l->line - f->line)
			 : diff_list_text(list, "%s:%" PRIu32, base_name(l->file), l->line);
	e.shown = f ? diff_list_text(list, "%s:%" PRIu32 " (%s)", base_name(l->file), l->line,
				     names_demangled(list->names, f->name))
		    : diff_list_text(list, "%s:%" PRIu32, base_name(l->file), l->line);
	e.other_shown = e.shown;
	if (!e.name || !e.other_name || !e.shown)
		return PTAH_E_NOMEM;
	list->entries[list->count++] = e;
	return 0;
}

/* What the objects executed in code without lines, so that the total is that of the run. */
static int add_rest(struct diff_list *list, const struct annotation *a,
		    const struct annotate_line *lines, size_t n)
{
	uint64_t *rest = calloc(a->object_count + 1, sizeof(*rest));

	if (!rest)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < a->function_count; i++)
		rest[a->functions[i].object] += a->functions[i].instructions;
	for (size_t i = 0; i < n; i++)
		rest[lines[i].object] -= lines[i].instructions;
	for (size_t i = 0; i < a->object_count; i++) {
		const struct annotate_object *o = &a->objects[i];
		struct diff_entry e = {
		    .path = o->path ? o->path : o->shown, .name = "", .value = rest[i]};

		diff_list_identify(list, &e);
		if (rest[i])
			list->entries[list->count++] = e;
	}
	free(rest);
	return 0;
}

static int add_lines(struct diff_list *list, const struct annotation *a,
		     const struct annotate_line *lines, size_t n)
{
	struct declarations d = {0};
	int status = list_declarations(&d, a, names_symbols(list->names));

	if (status >= 0)
		status = diff_list_reserve(list, n + a->object_count, 3);
	for (size_t i = 0; i < n && status >= 0; i++)
		status = add_line(list, a, &d, &lines[i]);
	if (status >= 0)
		status = add_rest(list, a, lines, n);
	free(d.list);
	return status;
}

int diff_list_lines(struct diff_list *list)
{
	const struct annotation_config config = {.counts = list->counts, .names = list->names};
	const struct annotation *a = list->use;
	struct annotate_line *lines = NULL;
	size_t n = 0;
	int status = diff_list_files(list);

	if (status >= 0 && !a) {
		status = annotation_new(&config, &list->annotation);
		a = list->annotation;
	}
	if (status >= 0)
		status = annotate_lines(a, NULL, &lines, &n);
	if (status >= 0)
		status = add_lines(list, a, lines, n);
	free(lines);
	return status;
}
